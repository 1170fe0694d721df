# Efficiency of four orders of causal blocks (lecture §4.5). Reads the table "sweep" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Causal attention: how well the SMs are used, by the order of the blocks"
set xlabel "thread blocks per SM"
set ylabel "bound / makespan [%]"
set logscale x 2
set yrange [60:102]
set key right bottom
set grid
plot csv index "sweep" every ::1 using 5:9 with points pointtype 7 title "natural: head by head, short blocks first", \
     csv index "sweep" every ::1 using 5:10 with points pointtype 6 title "reversed inside each head", \
     csv index "sweep" every ::1 using 5:12 with points pointtype 5 title "longest first (LPT)", \
     csv index "sweep" every ::1 using 5:13 with points pointtype 4 title "longest first in sections of heads"
