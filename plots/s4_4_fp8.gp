# Error of FP8 attention against the number of keys (lecture §4.4). Reads the table "lengths" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "RMS error of O, all operands in E4M3, d = 128, data with outliers"
set xlabel "keys N"
set ylabel "error"
set logscale x 2
set yrange [0:*]
set key left top
set grid
plot csv index "lengths" every ::1 using 1:3 with linespoints pointtype 7 title "one scale per tensor", \
     csv index "lengths" every ::1 using 1:4 with linespoints pointtype 6 title "per block of 128 rows", \
     csv index "lengths" every ::1 using 1:5 with linespoints pointtype 5 title "per tensor, Q and K rotated", \
     csv index "lengths" every ::1 using 1:6 with linespoints pointtype 4 title "per block, rotated", \
     0.024 with lines dashtype 2 title "paper, Table 3: not rotated (N not stated)", \
     0.0091 with lines dashtype 3 title "paper: rotated"
