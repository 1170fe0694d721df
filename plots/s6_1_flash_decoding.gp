# HBM bandwidth of an H200 against the SMs that read (lecture §6.1). Reads the table "bandwidth" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "A quarter of the SMs draws half of the bandwidth"
set xlabel "SMs that read"
set ylabel "GB/s"
set xrange [0:132]
set yrange [0:*]
set xtics 33
set key right bottom
set grid
plot csv index "bandwidth" every ::1 using 1:3 with points pointtype 7 title "measured", \
     csv index "bandwidth" every ::1 using 1:5 with lines title "model"
