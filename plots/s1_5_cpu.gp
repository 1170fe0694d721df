# Times and peak memory of standard and blocked attention on one core (lecture §1.5). Reads the table "times" of the variable `csv`; sets
# no terminal.
set datafile separator comma
set xlabel "sequence length N"
set logscale x 2
set logscale y
set grid
set key left top
set multiplot layout 1,2 title "Blocking saves memory on a CPU, and little time"
set ylabel "time [ms]"
plot csv index "times" using 1:5 with linespoints pointtype 7 title "standard", \
     csv index "times" using 1:7 with linespoints pointtype 5 title "blocked"
set ylabel "peak memory [MiB]"
plot csv index "times" using 1:6 with linespoints pointtype 7 title "standard", \
     csv index "times" using 1:8 with linespoints pointtype 5 title "blocked"
unset multiplot
