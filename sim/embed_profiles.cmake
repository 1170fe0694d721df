# Writes the texts of hw_profiles/ into a C file, so that a copied binary has them (profile_builtin.h declares it).
#
#   cmake -DDIRECTORY=hw_profiles -DNAMES=FILE -DOUTPUT=profile_builtin.c -P embed_profiles.cmake
#
# NAMES is a file with one profile name a line (without .txt). Bytes are written as numbers: nothing to quote, and no limit on the
# length of a literal.
file(STRINGS "${NAMES}" names)
set(arrays "")
set(rows "")
set(count 0)
foreach(name IN LISTS names)
  file(READ "${DIRECTORY}/${name}.txt" hex HEX)
  if(hex STREQUAL "")
    message(FATAL_ERROR "${DIRECTORY}/${name}.txt is empty")
  endif()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REPEAT "." 80 sixteen_bytes)
  string(REGEX REPLACE "(${sixteen_bytes})" "\\1\n    " bytes "${bytes}")
  string(APPEND arrays "static const unsigned char text_${count}[] = {\n    ${bytes}\n};\n\n")
  string(APPEND rows "    {\"${name}\", text_${count}, sizeof text_${count}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Written by embed_profiles.cmake from hw_profiles/: edit the profiles, not this file. */
#include \"sim/profile_builtin.h\"

${arrays}const BuiltinProfile builtin_profiles[] = {
${rows}};

const size_t builtin_profile_count = sizeof builtin_profiles / sizeof builtin_profiles[0];
")
