# Two loop orders that cross (lecture §3.1). Reads the table "curves" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "HBM traffic of the two loop orders, Br * Bc = 16,384"
set xlabel "Br, query rows per block (Bc = 16,384 / Br)"
set ylabel "elements read and written"
set logscale x 2
set logscale y
set key center top
set grid
plot csv index "curves" using 1:3 with linespoints pointtype 7 title "FlashAttention-1: keys outside", \
     csv index "curves" using 1:4 with linespoints pointtype 5 title "FlashAttention-2: queries outside"
