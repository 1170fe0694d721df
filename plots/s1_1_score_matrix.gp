# Where P of one layer fills the card (lecture §1.1). Reads the table "fill" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "P of one layer against the memory of the card"
set xlabel "sequence length N"
set ylabel "share of the card [%]"
set logscale x 2
set logscale y
set key left top
set grid
plot csv index "fill" using 1:3 with linespoints pointtype 7 title "heads * N^2 * bytes per element", \
     100 with lines dashtype 2 title "the card is full"
