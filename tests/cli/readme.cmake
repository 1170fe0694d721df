# The documents that quote programs: README.md (see check_readme.cmake) and LECTURE_MAP.md, which is the output of lecture --map.
foreach(directory ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/experiments ${CMAKE_SOURCE_DIR}/tests)
  get_property(targets_here DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  list(APPEND build_targets ${targets_here})
endforeach()
string(JOIN " " build_targets ${build_targets})
set(readme_command ${CMAKE_COMMAND} -DREADME=${CMAKE_SOURCE_DIR}/README.md -DSOURCE=${CMAKE_SOURCE_DIR}
    "-DTARGETS=${build_targets}" -DPROGRAMS=$<TARGET_FILE_DIR:lecture_program> -DWORK=${CMAKE_CURRENT_BINARY_DIR}/readme)
add_test(NAME readme COMMAND ${readme_command} -P ${cli_directory}/check_readme.cmake)

set(map_command ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:lecture_program> "-DARGS=--map --format md"
    -DEXPECTED=${CMAKE_SOURCE_DIR}/LECTURE_MAP.md -DACTUAL=${CMAKE_CURRENT_BINARY_DIR}/actual/LECTURE_MAP.md)
add_test(NAME lecture_map COMMAND ${map_command} -P ${cli_directory}/golden.cmake)
add_test(NAME lecture_map_tests COMMAND ${CMAKE_COMMAND} -DMAP=${CMAKE_SOURCE_DIR}/LECTURE_MAP.md -DCTEST=${CMAKE_CTEST_COMMAND}
                                        -DBUILD=${CMAKE_BINARY_DIR} -P ${cli_directory}/check_map_tests.cmake)
set_tests_properties(readme lecture_map lecture_map_tests PROPERTIES LABELS golden TIMEOUT 300)

add_custom_command(TARGET regold POST_BUILD COMMAND ${map_command} -DREWRITE=ON -P ${cli_directory}/golden.cmake
                   COMMAND ${readme_command} -DREWRITE=ON -P ${cli_directory}/check_readme.cmake VERBATIM)
add_dependencies(regold lecture_program attn silicon ${experiments} benchmark)

cli_case(map_json PROGRAM lecture_program ARGS --map --format json STDOUT "^{.schema.:1.*\"id\":\"script_parts\"")
cli_case(map_to_full_disk PROGRAM lecture_program ARGS --map -o /dev/full EXIT 4 STDERR "cannot write /dev/full: ")
cli_case(map_to_file PROGRAM lecture_program
         SCRIPT "\"$PROGRAM\" --map --format csv -o map && head -n 1 map"
         STDOUT "^# program: lecture --map\n$")
