# Where FlashAttention begins to pay (lecture §2.3). Reads the table "crossing" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "HBM traffic of FlashAttention-1 against standard attention"
set xlabel "on-chip size M / d^2"
set ylabel "FlashAttention / standard attention"
set logscale x 2
set yrange [0:*]
set key right top
set grid
set arrow from 3, graph 0 to 3, graph 1 nohead dashtype 3
set label "3 d^2" at 3, graph 0.6 offset 1, 0
plot csv index "crossing" using 1:6 with linespoints pointtype 7 title "2Nd + (Nd + 2N) + Tc (3Nd + 4N)", \
     1 with lines dashtype 2 title "standard attention, 4Nd + 4N^2"
