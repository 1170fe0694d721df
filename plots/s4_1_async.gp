# What asynchrony changes, step by step (lecture §4.1). Reads the table "steps" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "One kernel, asynchrony switched on in steps (model)"
set ylabel "FLOP per cycle of one SM (tensor cores: 4096)"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set yrange [0:4300]
set key outside right
set xtics rotate by -15
set grid ytics
plot csv index "steps" every ::1::4 using 7:xtic(4) title "one warpgroup", \
     csv index "steps" every ::5::8 using 7 title "two warpgroups", \
     4096 with lines dashtype 2 title "wgmma", 2686 with lines dashtype 3 title "mma.sync"
