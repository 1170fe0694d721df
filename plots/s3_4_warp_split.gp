# Shared memory of both splits by tile shape (lecture §3.4). Reads the table "shapes" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Shared memory for one K/V tile, four warps: left split-K, right split-Q"
set xlabel "tile: Br x Bc"
set ylabel "KiB"
set style fill solid 0.8 border -1
set boxwidth 0.35
set yrange [0:*]
set xrange [-0.6:8.6]
set key top left
set grid ytics
set bmargin 5
shape(i) = strcol(1)."x".strcol(2)."\nd ".strcol(3)
plot csv index "shapes" every ::1 using ($0-0.2):(($4+$5)/1024) with boxes title "split-K: exchanged", \
     csv index "shapes" every ::1 using ($0-0.2):($5/1024):xtic(shape(0)) with boxes title "split-K: operands", \
     csv index "shapes" every ::1 using ($0+0.2):($6/1024) with boxes title "split-Q: operands"
