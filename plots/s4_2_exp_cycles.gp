# Exponentials over products by head dimension (lecture §4.2). Reads the table "ratio" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Cycles of the exponentials over cycles of the products"
set xlabel "head dimension d"
set ylabel "exp / matmul"
set logscale xy 2
set xrange [56:290]
set xtics (64, 96, 128, 256)
set key right top
set grid
ratio(chip, type, instruction) = stringcolumn(1) eq chip && stringcolumn(2) eq type && stringcolumn(3) eq instruction ? $9 : NaN
plot csv index "ratio" every ::1 using 6:(ratio("a100", "FP16/BF16", "mma.sync")) with linespoints title "A100", \
     csv index "ratio" every ::1 using 6:(ratio("h100", "FP16/BF16", "wgmma")) with linespoints title "H100", \
     csv index "ratio" every ::1 using 6:(ratio("h100", "FP8", "wgmma")) with linespoints title "H100 FP8", \
     csv index "ratio" every ::1 using 6:(ratio("b200", "FP16/BF16", "tcgen05")) with points pointtype 6 pointsize 1.6 title "B200", \
     csv index "ratio" every ::1 using 6:(ratio("b200", "FP8", "tcgen05")) with linespoints title "B200 FP8", \
     1 with lines dashtype 2 title "as long"
