# Outputs that are kept (see cli_golden in ../cli.cmake): every program without options as text and JSON, then single command
# lines.
foreach(program ${timeless})
  cli_golden(${program}.txt PROGRAM ${program})
  cli_golden(${program}.json PROGRAM ${program} ARGS --format json)
endforeach()

cli_golden(s1_1_score_matrix.md PROGRAM s1_1_score_matrix ARGS --format md)
cli_golden(s1_1_score_matrix.csv PROGRAM s1_1_score_matrix ARGS --format csv)
cli_golden(s1_1_score_matrix_a100.txt PROGRAM s1_1_score_matrix ARGS --hw a100 --seqlen 0,1,1k --heads 1,128 --dtype f64)
cli_golden(s1_1_score_matrix_help.txt PROGRAM s1_1_score_matrix ARGS --help)

cli_golden(silicon.txt PROGRAM silicon)
cli_golden(silicon_summary.json PROGRAM silicon ARGS --summary --format json)
