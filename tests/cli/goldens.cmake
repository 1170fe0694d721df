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

# The study whose numbers README.md and the spreads of the claims quote: half a minute of one core when optimised. Not part of regold; after a change
# that was meant, cmake --build build --target regold_study.
set(study_command ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:s4_4_fp8> "-DARGS=--study --seqlen 512,1k,2k,4k,8k --check"
    -DEXPECTED=${expected_directory}/s4_4_fp8_study.txt -DACTUAL=${CMAKE_CURRENT_BINARY_DIR}/actual/s4_4_fp8_study.txt)
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT ATTNLAB_SANITIZE)
  add_test(NAME golden_s4_4_fp8_study COMMAND ${study_command} -P ${cli_directory}/golden.cmake)
  set_tests_properties(golden_s4_4_fp8_study PROPERTIES LABELS "golden;slow" TIMEOUT 600)
endif()
add_custom_target(regold_study COMMAND ${study_command} -DREWRITE=ON -P ${cli_directory}/golden.cmake DEPENDS s4_4_fp8 VERBATIM)
