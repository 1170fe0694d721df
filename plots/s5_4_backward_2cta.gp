# Shared-memory cycles of the backward pass, stacked (lecture §5.4). Reads the table "stack" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "FlashAttention-4 backward, 128 x 128 tile, d = 128: shared memory against tensor cores"
set ylabel "cycles"
set style data histograms
set style histogram rowstacked
set style fill solid 0.8 border -1
set boxwidth 0.5
set yrange [0:*]
set xrange [-0.7:1.7]
set key outside right
set grid ytics
set arrow from -0.5, 2560 to 1.62, 2560 nohead front linewidth 2 dashtype 2
set label "tensor cores" at 1.65, 2640 right front
plot csv index "stack" every ::1 using 2:xtic(1) title "operands", csv index "stack" every ::1 using 3 title "dS written", \
     csv index "stack" every ::1 using 4 title "dS exchanged (cited)", csv index "stack" every ::1 using 5 title "dQ"
