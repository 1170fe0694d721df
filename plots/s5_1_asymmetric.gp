# Which unit of a B200 binds at which head dimension (lecture §5.1). Reads the table "accounts" of the variable `csv`; sets no terminal.
set datafile separator comma
set datafile missing NaN
set multiplot layout 1,2
set xlabel "head dimension d"
set ylabel "cycles per 128 x 128 tile"
set xtics 32
set yrange [0:*]
set key left top
set grid
do for [pass in "forward backward"] {
    set title sprintf("B200, %s", pass)
    plot for [c = 6:8] csv index "accounts" every ::1 using ((strcol(1) eq "B200" && strcol(2) eq pass) ? $3 : NaN):(column(c)) \
        with linespoints pointtype 7 linewidth 2 title word("tensor exp shared", c - 5)
}
unset multiplot
