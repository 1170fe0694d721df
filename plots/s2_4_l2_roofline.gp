# The roofline before and after (lecture §2.4). Reads the tables "roofline" and "traffic" of the variable `csv`; sets no terminal.
set datafile separator comma
array balance[4]
array chip[4]
do for [i = 1:4] {
    stats csv index "roofline" every ::i::i using 4 nooutput
    balance[i] = STATS_max
    stats csv index "roofline" every ::i::i using (chip[i] = strcol(3), 1) nooutput
}
set title "What the memory allows, by arithmetic intensity"
set xlabel "intensity [FLOP/byte of HBM]"
set ylabel "share of the peak [%]"
set logscale xy
set xrange [20:5000]
set yrange [5:180]
set key right bottom
set grid
roof(x, b) = 100 * (x < b ? x / b : 1)
plot for [i = 1:4] roof(x, balance[i]) linewidth 2 title chip[i], \
     csv index "traffic" using 12:(115) with impulses linecolor "black" dashtype 2 notitle, \
     csv index "traffic" every ::1 using 12:(int($0)%3 == 0 ? 115 : int($0)%3 == 1 ? 138 : 165):(strcol(4)." ".strcol(5)) with labels notitle
