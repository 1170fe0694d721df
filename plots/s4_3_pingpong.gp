# Tensor cores and MUFU in use, by order, T = 16 (lecture §4.3). Reads the table "schedules" of the variable `csv`; sets no terminal.
set datafile separator comma
set title "Units in use on the ideal SM, T = 16 (left H100 FP16, right B200 BF16)"
set ylabel "busy [%]"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set yrange [0:105]
set xtics rotate by -20
set key outside right
set grid ytics
plot csv index "schedules" every 3::2 using 9:xtic(2) title "tensor cores", \
     csv index "schedules" every 3::2 using 10 title "MUFU"
