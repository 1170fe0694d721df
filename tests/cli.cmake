# Tests of the programs as a user runs them; included by CMakeLists.txt.
#
#   cli/cases.cmake     what each command line must answer: exit code, stderr, stdout          label cli
#   cli/trace.cmake     --gantt and --trace                                                    label cli
#   cli/goldens.cmake   command lines whose whole output is kept in expected/, byte for byte   label golden
#   cli/readme.cmake    README.md and LECTURE_MAP.md quote what the programs print             label golden
#
# cmake --build build --target regold rewrites expected/, LECTURE_MAP.md and README.md after a change that was meant; read the
# difference before committing it.
get_property(experiments GLOBAL PROPERTY ATTNLAB_EXPERIMENTS)
set(cli_directory ${CMAKE_CURRENT_SOURCE_DIR}/cli)
set(expected_directory ${CMAKE_CURRENT_SOURCE_DIR}/expected)

# cli_case(NAME PROGRAM program [ARGS a b ...] [EXIT code] [STDERR regex] [STDOUT regex])
# cli_case(NAME PROGRAM program SCRIPT "shell text" ...): run by sh with $PROGRAM and $WORK (an empty directory); UNIX only.
# Always checked: no output on stderr when the exit code is 0; on 2, 3 and 4 nothing on stdout and one line on stderr (or LINES of
# them, or LINES any) that begins with the program's name.
function(cli_case name)
  cmake_parse_arguments(PARSE_ARGV 1 case "" "PROGRAM;EXIT;STDERR;STDOUT;SCRIPT;LINES" "ARGS")
  if(NOT TARGET ${case_PROGRAM} OR (case_SCRIPT AND NOT UNIX))
    return()
  endif()
  string(JOIN " " arguments ${case_ARGS})
  add_test(NAME cli_${name}
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=$<TARGET_FILE:${case_PROGRAM}>" "-DARGS=${arguments}" "-DSCRIPT=${case_SCRIPT}"
            "-DEXIT=${case_EXIT}" "-DSTDERR=${case_STDERR}" "-DSTDOUT=${case_STDOUT}" "-DLINES=${case_LINES}"
            -DWORK=${CMAKE_CURRENT_BINARY_DIR}/cli/${name} -P ${cli_directory}/run_case.cmake)
  set_tests_properties(cli_${name} PROPERTIES LABELS cli TIMEOUT 60)
endfunction()

# cli_golden(FILE PROGRAM program [ARGS a b ...]): stdout is expected/FILE.
function(cli_golden file)
  cmake_parse_arguments(PARSE_ARGV 1 golden "" "PROGRAM" "ARGS")
  if(NOT TARGET ${golden_PROGRAM})
    return()
  endif()
  string(JOIN " " arguments ${golden_ARGS})
  set(command ${CMAKE_COMMAND} "-DPROGRAM=$<TARGET_FILE:${golden_PROGRAM}>" "-DARGS=${arguments}"
      -DEXPECTED=${expected_directory}/${file} -DACTUAL=${CMAKE_CURRENT_BINARY_DIR}/actual/${file})
  add_test(NAME golden_${file} COMMAND ${command} -P ${cli_directory}/golden.cmake)
  set_tests_properties(golden_${file} PROPERTIES LABELS golden TIMEOUT 300)
  add_custom_command(TARGET regold POST_BUILD COMMAND ${command} -DREWRITE=ON -P ${cli_directory}/golden.cmake VERBATIM)
  add_dependencies(regold ${golden_PROGRAM})
endfunction()

add_executable(exit_codes ${cli_directory}/exit_codes.c)
target_include_directories(exit_codes PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(exit_codes PRIVATE experiments_support)
set_target_properties(exit_codes PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

add_custom_target(regold COMMENT "Rewriting ${expected_directory}")

# The programs whose output holds no times: all but those that say `.wall_clock = true`.
set(timeless "")
foreach(program ${experiments})
  file(STRINGS ${CMAKE_SOURCE_DIR}/experiments/${program}.c wall_clock REGEX "\\.wall_clock = true")
  if(NOT wall_clock)
    list(APPEND timeless ${program})
  endif()
endforeach()

include(${cli_directory}/cases.cmake)
include(${cli_directory}/attn.cmake)
include(${cli_directory}/trace.cmake)
include(${cli_directory}/goldens.cmake)
include(${cli_directory}/readme.cmake)

# The runner, then the plots from what it wrote.
set(lecture_directory ${CMAKE_CURRENT_BINARY_DIR}/lecture)
add_test(NAME lecture COMMAND lecture_program -o ${lecture_directory} --check --skip-timed)
add_test(NAME plots COMMAND ${CMAKE_COMMAND} "-DGNUPLOT=${GNUPLOT}" -DPLOTS=${CMAKE_SOURCE_DIR}/plots
                            -DRESULTS=${lecture_directory} -P ${CMAKE_SOURCE_DIR}/experiments/support/plot.cmake)
set_tests_properties(lecture PROPERTIES LABELS cli TIMEOUT 300 FIXTURES_SETUP lecture_files)
set_tests_properties(plots PROPERTIES LABELS cli TIMEOUT 300 FIXTURES_REQUIRED lecture_files
                     SKIP_REGULAR_EXPRESSION "gnuplot was not found")
