# What the backward pass moves, by block size (lecture §2.6). Reads the table "traffic" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "HBM traffic of the backward pass, N = 512, d = 64"
set xlabel "block size (Br = Bc)"
set ylabel "elements read, written and added"
set logscale x 2
set logscale y
set key right top
set grid
plot csv index "traffic" using 3:5 with linespoints pointtype 7 title "FlashAttention-2, no L2", \
     csv index "traffic" using 3:4 with lines dashtype 2 title "standard, each operand once per kernel", \
     csv index "traffic" using 3:7 with linespoints pointtype 5 title "standard, no L2"
