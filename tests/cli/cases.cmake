# Command lines and what they must answer (see cli_case in ../cli.cmake).

# ---- every program: help, version, a typing error, a full disk, a closed pipe ----
foreach(program ${experiments} lecture_program attn silicon)
  cli_case(${program}_help PROGRAM ${program} ARGS --help STDOUT "Usage: .*Examples:.*Options.*--format.*Exit code:")
  cli_case(${program}_version PROGRAM ${program} ARGS --version STDOUT "^attnlab [0-9]+\\.[0-9]+\\.[0-9]+ [a-z0-9_]+\n$")
  cli_case(${program}_unknown_option PROGRAM ${program} ARGS --fromat md EXIT 2
           STDERR "unknown option '--fromat'. did you mean '--format'\\?")
  cli_case(${program}_help_to_full_disk PROGRAM ${program} EXIT 4 SCRIPT "\"$PROGRAM\" --help >/dev/full"
           STDERR "cannot write standard output: ")
endforeach()
foreach(program ${timeless})
  cli_case(${program}_unknown_profile PROGRAM ${program} ARGS --hw h10 EXIT 2 STDERR "h100")
  foreach(format text md csv json)
    cli_case(${program}_${format}_to_full_disk PROGRAM ${program} EXIT 4
             SCRIPT "\"$PROGRAM\" --format ${format} >/dev/full" STDERR "cannot write standard output: ")
  endforeach()
  # The reader is gone before the program starts to write.
  cli_case(${program}_closed_pipe PROGRAM ${program} EXIT 4
           SCRIPT "{ sleep 0.2; \"$PROGRAM\" && echo 0 >code || echo $? >code; } | true; exit $(cat code)"
           STDERR "cannot write standard output: ")
endforeach()

# ---- every way to end ----
cli_case(exit_ok PROGRAM exit_codes ARGS ok --check STDOUT "1 equal, 1 differs")
cli_case(exit_mismatch PROGRAM exit_codes ARGS mismatch EXIT 1 STDOUT "K reads +-2\n"
         STDERR "^exit_codes: K reads: counted 10, closed form 12\n$")
cli_case(exit_unexpected PROGRAM exit_codes ARGS unexpected --check EXIT 1 STDOUT "UNEXPECTED: expected equal"
         STDERR "^exit_codes: claim 1-1: differs, expected equal .lecture 10, ours 11.\n$")
cli_case(exit_unexpected_without_check PROGRAM exit_codes ARGS unexpected STDOUT "UNEXPECTED: expected equal")
cli_case(exit_unjudged PROGRAM exit_codes ARGS unjudged EXIT 1 STDERR "^exit_codes: claim 1-2 has no verdict\n$")
cli_case(exit_silent PROGRAM exit_codes ARGS silent EXIT 1 STDERR "^exit_codes: failed without giving a reason\n$")
cli_case(exit_infeasible PROGRAM exit_codes ARGS infeasible EXIT 3 STDERR "^exit_codes: tile S needs 9 bytes, 8 are there\n$")
cli_case(exit_skipped PROGRAM exit_codes ARGS skipped EXIT 77 STDERR "^exit_codes: no such device\n$")
cli_case(exit_unknown_way PROGRAM exit_codes ARGS mismach EXIT 2 STDERR "unknown way 'mismach'. did you mean 'mismatch'\\?")
cli_case(exit_missing_way PROGRAM exit_codes EXIT 2 STDERR "the way is missing. expected ok, mismatch, .* or silent\n$")

# ---- values and names ----
set(program s1_1_score_matrix)
cli_case(zero_heads PROGRAM ${program} ARGS --heads 0 EXIT 2
         STDERR "--heads: '0' is not allowed. expected an integer from 1 to 65536")
cli_case(negative PROGRAM ${program} ARGS --seqlen -5 EXIT 2
         STDERR "--seqlen: '-5' is not allowed. expected an integer from 0 to")
cli_case(trailing_garbage PROGRAM ${program} ARGS --seqlen 12x EXIT 2 STDERR "--seqlen: '12x' is not allowed")
cli_case(past_64_bits PROGRAM ${program} ARGS --seqlen 99999999999999999999 EXIT 2 STDERR "'99999999999999999999' is not allowed")
cli_case(missing_value PROGRAM ${program} ARGS --seqlen EXIT 2 STDERR "--seqlen: the value is missing")
cli_case(bad_format PROGRAM ${program} ARGS --format jsn EXIT 2 STDERR "expected text, md, csv or json. did you mean 'json'\\?")
cli_case(option_of_others PROGRAM ${program} ARGS --block-q 64 EXIT 2 STDERR "--block-q is not an option of s1_1_score_matrix")
cli_case(operand_where_none PROGRAM ${program} ARGS fa2 EXIT 2 STDERR "unexpected argument 'fa2'")
cli_case(product_overflows PROGRAM ${program} ARGS --seqlen 1099511627776 EXIT 3
         STDERR "score matrix elements .* overflows 64 bits: 1099511627776 \\* 1099511627776")
cli_case(empty_sequence PROGRAM ${program} ARGS --seqlen=0 STDOUT "0 bytes")
cli_case(unbounded_profile PROGRAM ${program} ARGS --hw unbounded --check)
cli_case(missing_profile_file PROGRAM ${program} ARGS --hw no/such/profile.txt EXIT 4 STDERR "no/such/profile.txt")

# ---- output files ----
cli_case(suffix_json PROGRAM ${program} SCRIPT "\"$PROGRAM\" -o a.json && head -c 11 a.json" STDOUT "^{.schema.:1$")
cli_case(suffix_csv PROGRAM ${program} SCRIPT "\"$PROGRAM\" -o a.csv && head -n 1 a.csv"
         STDOUT "^# program: s1_1_score_matrix\n$")
cli_case(suffix_md PROGRAM ${program} SCRIPT "\"$PROGRAM\" -o a.md && head -c 2 a.md" STDOUT "^##$")
cli_case(suffix_unknown PROGRAM ${program} ARGS -o a.pdf EXIT 2 STDERR "the suffix '.pdf' names no format")
cli_case(format_beats_suffix PROGRAM ${program} SCRIPT "\"$PROGRAM\" -o a.txt --format md && head -c 2 a.txt" STDOUT "^##$")
cli_case(no_such_directory PROGRAM ${program} ARGS -o no/such/a.txt EXIT 4 STDERR "cannot write no/such/a.txt: ")
cli_case(full_device PROGRAM ${program} ARGS -o /dev/full EXIT 4 STDERR "cannot write /dev/full: ")
cli_case(same_bytes PROGRAM ${program} SCRIPT "\"$PROGRAM\" -o a.txt && \"$PROGRAM\" >b.txt && cmp a.txt b.txt")
# A file-size limit is a disk that is full after 512 or 1024 bytes: the old file stays, nothing else is left.
cli_case(full_disk PROGRAM ${program} EXIT 4
         SCRIPT "echo old >a.txt; trap '' XFSZ; (ulimit -f 1; exec \"$PROGRAM\" -o a.txt); code=$?; \
                 test \"$(cat a.txt)\" = old && test \"$(ls)\" = a.txt && exit $code"
         STDERR "cannot write a.txt: ")

# ---- the runner ----
cli_case(lecture_needs_directory PROGRAM lecture_program EXIT 2 STDERR "-o: the directory is missing")
cli_case(lecture_bad_directory PROGRAM lecture_program ARGS -o /dev/null/x EXIT 4
         STDERR "cannot make the directory /dev/null/x: ")
cli_case(lecture_one_format PROGRAM lecture_program
         SCRIPT "\"$PROGRAM\" -o out --format csv --skip-timed >index && ls out | grep -vc csv; exit 0" STDOUT "^0\n$")
cli_case(lecture_unknown_profile PROGRAM lecture_program ARGS -o out --hw h10 EXIT 2 STDERR "h100")
# What an earlier run wrote does not stay when a program fails.
cli_case(lecture_removes_old_files PROGRAM lecture_program EXIT 4
         SCRIPT "mkdir -p out/s1_1_score_matrix.md/x; echo old >out/s1_1_score_matrix.json; \
                 \"$PROGRAM\" -o out --skip-timed >log; code=$?; \
                 test \"$(ls out | grep s1_1)\" = s1_1_score_matrix.md && exit $code"
         STDERR "lecture: s1_1_score_matrix: cannot write out/s1_1_score_matrix.md: ")
cli_case(lecture_full_disk PROGRAM lecture_program EXIT 4 LINES any
         SCRIPT "trap '' XFSZ; ulimit -f 0; \"$PROGRAM\" -o out --skip-timed; code=$?; test -z \"$(ls out)\" && exit $code"
         STDERR "lecture: [a-z0-9_]+: cannot write out/")

# ---- the comparison with a chip: other rows, and what a file must look like ----
set(counters ${CMAKE_SOURCE_DIR}/hw_profiles/measured/h200_counters.csv)
cli_case(silicon_check PROGRAM silicon ARGS --check --summary --counter l2_to_l1_read_bytes STDOUT "l2_to_l1_read_bytes +106 +106 +100.0")
cli_case(silicon_same_file PROGRAM silicon
         SCRIPT "\"$PROGRAM\" --counter smem_wavefronts >a && \"$PROGRAM\" --counter smem_wavefronts --counters ${counters} >b && sed '1,/^$/d' a >c && sed '1,/^$/d' b >d && test -s c && cmp c d")
cli_case(silicon_more PROGRAM silicon ARGS --counters h200_counters_more --check --summary --counter xu_warp_insts STDOUT "xu_warp_insts +286 +286 +100.0")
cli_case(silicon_filter PROGRAM silicon ARGS --kernel cudnn --pass bwd --counter xu_warp_insts --summary STDOUT "xu_warp_insts +24 +24 ")
cli_case(silicon_missed_target PROGRAM silicon EXIT 1
         SCRIPT "sed '2s/,35651584,/,36651584,/' ${counters} >changed.csv; \"$PROGRAM\" --counters changed.csv --counter l2_to_l1_read_bytes --check >out"
         STDERR "^silicon: changed.csv:2: flash l2_to_l1_read_bytes: model 35651584, chip 36651584: -2.73 %, target 0.5 %\n$")
cli_case(silicon_no_file PROGRAM silicon ARGS --counters no/such.csv EXIT 4 STDERR "cannot open no/such.csv: ")
cli_case(silicon_bad_value PROGRAM silicon EXIT 2 SCRIPT "sed '3s/,1024,1024,/,1024,1k,/' ${counters} >bad.csv; \"$PROGRAM\" --counters bad.csv"
         STDERR "^silicon: bad.csv:3: column seqlen_k: '1k' is no count. expected a decimal integer")
cli_case(silicon_unknown_kernel PROGRAM silicon ARGS --kernel flahs EXIT 2 STDERR "--kernel: 'flahs' is neither in h200_counters nor in h200_timings. did you mean 'flash'\\?")
cli_case(silicon_bad_time PROGRAM silicon EXIT 2
         SCRIPT "printf 'kernel,pass,batch,heads,kv_heads,seqlen_q,seqlen_k,head_dim,causal,time_us\\nflash,fwd,1,1,1,128,128,64,0,0\\n' >bad.csv; \
                 \"$PROGRAM\" --timings bad.csv"
         STDERR "^silicon: bad.csv:2: column time_us: '0' is no time. expected microseconds above 0\n$")
cli_case(silicon_other_chip PROGRAM silicon ARGS --hw a100 --summary STDOUT "these are kernels for Hopper, and the chip has no wgmma")
cli_case(silicon_unknown_counter PROGRAM silicon ARGS --counter smem_wavefront EXIT 2 STDERR "did you mean 'smem_wavefronts'\\?")
cli_case(silicon_full_disk PROGRAM silicon EXIT 4 SCRIPT "\"$PROGRAM\" --counter smem_wavefronts >/dev/full" STDERR "cannot write standard output: ")
# ---- the ladder: what a chip lacks is said, and refused when asked for alone ----
cli_case(ladder_no_wgmma PROGRAM s7_ladder ARGS fa3 --hw a100 EXIT 3 STDERR "fa3_forward needs wgmma: a100 has no wgmma")
cli_case(ladder_no_tcgen05 PROGRAM s7_ladder ARGS fa4 --hw h100 EXIT 3 STDERR "fa4_forward needs tcgen05: h100 has no tcgen05")
cli_case(ladder_one_chip PROGRAM s7_ladder ARGS --hw a100 --check STDOUT "no WGMMA.*no tcgen05.*now bound by")
cli_case(ladder_one_rung PROGRAM s7_ladder ARGS fa3 --hw h200 --causal --seqlen 1k,2k STDOUT "h200 .*FA3 ")
cli_case(ladder_unknown_rung PROGRAM s7_ladder ARGS fa5 EXIT 2 STDERR "unknown rung 'fa5'. did you mean 'fa1'\\?")
cli_case(ladder_empty PROGRAM s7_ladder ARGS --seqlen 0 --check)
cli_case(ladder_too_many PROGRAM s7_ladder ARGS --seqlen 1,2,3,4,5 --head-dim 16,32 EXIT 3 STDERR "40 ladders are too many to print. at most 24")

# ---- times: no expected bytes, but the program runs, its two algorithms agree, and a slow machine fails no claim ----
cli_case(s1_5_cpu_check PROGRAM s1_5_cpu ARGS --check --seqlen 1,100,256,300 --block-k 100 STDOUT "4 equal, 6 cited")
cli_case(cpu_json PROGRAM s1_5_cpu ARGS --seqlen 128 --format json STDOUT "^{.schema.:1.*\"id\":\"vectors\"")
cli_case(cpu_empty PROGRAM s1_5_cpu ARGS --check --seqlen 0)
cli_case(cpu_too_long PROGRAM s1_5_cpu ARGS --seqlen 64k EXIT 3 STDERR "--seqlen 65536: S and P take 34359738368 bytes")
