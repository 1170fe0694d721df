# Tiles that a causal mask leaves, by block size (lecture §2.5). Reads the table "block_sizes" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Share of the tiles that are computed"
set xlabel "block, Br x Bc"
set ylabel "computed [%]"
set style fill solid 0.7 border -1
set boxwidth 0.6
set yrange [0:100]
set key left top
set grid y
plot csv index "block_sizes" every ::1 using 0:4:xtic(1) with boxes title "tiles computed", \
     csv index "block_sizes" every ::1 using 0:($4/$7) with linespoints pointtype 7 title "pairs visible"
