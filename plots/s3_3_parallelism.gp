# The wave staircase of an H200 (lecture §3.3). Reads the table "staircase" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Time against the number of thread blocks: steps where an SM gets one more"
set xlabel "thread blocks"
set ylabel "time [us]"
set xrange [0:*]
set yrange [0:*]
set xtics 132
set key left top
set grid
plot csv index "staircase" every ::1 using 2:8 with points pointtype 7 title "FlashAttention-2, measured", \
     csv index "staircase" every ::1 using 2:7 with steps title "two per SM, slower beside a neighbour (model)", \
     csv index "staircase" every ::1 using 2:6 with points pointtype 5 title "cuDNN, measured", \
     csv index "staircase" every ::1 using 2:5 with steps title "one per SM (model)"
