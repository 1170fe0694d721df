# 33 -> 551 on the roofline (lecture §2.7). Reads the tables "roofline" and "intensity" of the variable `csv`; sets no terminal.
set datafile separator comma
array balance[4]
array chip[4]
do for [i = 1:4] {
    stats csv index "roofline" every ::i::i using 2 nooutput
    balance[i] = STATS_max
    stats csv index "roofline" every ::i::i using (chip[i] = strcol(1), 1) nooutput
}
set title "Forward and backward on the roofline"
set xlabel "intensity [FLOP/byte of HBM]"
set ylabel "share of the peak [%]"
set logscale xy
set xrange [20:2000]
set yrange [5:250]
set key right bottom
set grid
roof(x, b) = 100 * (x < b ? x / b : 1)
plot for [i = 1:4] roof(x, balance[i]) linewidth 2 title chip[i], \
     csv index "intensity" every ::1 using 8:(115) with impulses linecolor "black" dashtype 2 notitle, \
     csv index "intensity" every ::1 using 8:(int($0)%2 ? 190 : 140):(strcol(4)." ".strcol(8)) with labels notitle
