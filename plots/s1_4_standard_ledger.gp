# What the three kernels move, S and P apart (lecture §1.4). Reads the table "kernels" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Elements moved per kernel of standard attention"
set ylabel "elements read and written"
set style data histograms
set style histogram rowstacked
set style fill solid 0.7 border -1
set boxwidth 0.6
set yrange [0:*]
set key left top
set grid y
plot csv index "kernels" every ::1 using ($6*$9/100):xtic(3) title "S and P: intermediate", \
     csv index "kernels" every ::1 using ($6*(1-$9/100)) title "Q, K, V, O"
