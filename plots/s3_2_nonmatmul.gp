# What the non-matmul operations belong to (lecture §3.2). Reads the table "groups" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Non-matmul operations of one head: the scores stay"
set ylabel "operations [million]"
set style data histograms
set style histogram rowstacked
set style fill solid 0.8 border -1
set boxwidth 0.6
set yrange [0:*]
set key outside right
set grid ytics
plot csv index "groups" every ::1 using ($2/1e6):xtic(1) title "per score", \
     csv index "groups" every ::1 using ($3/1e6) title "per element of O", \
     csv index "groups" every ::1 using ($4/1e6) title "per row"
