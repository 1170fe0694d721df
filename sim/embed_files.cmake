# Writes text files into a C file, so that a copied binary has them.
#
#   cmake -DDIRECTORY=hw_profiles -DSUFFIX=.txt -DNAMES=FILE -DHEADER=sim/profile_builtin.h -DTYPE=BuiltinProfile -DPREFIX=builtin_profile
#         -DOUTPUT=profile_builtin.c -P embed_files.cmake
#
# NAMES is a file with one name a line (without the suffix). HEADER declares `const TYPE PREFIXs[]` of {name, bytes, length} and
# `const size_t PREFIX_count`. Bytes are written as numbers: nothing to quote, and no limit on the length of a literal.
get_filename_component(DIRECTORY_NAME ${DIRECTORY} NAME)
file(STRINGS "${NAMES}" names)
set(arrays "")
set(rows "")
set(count 0)
foreach(name IN LISTS names)
  file(READ "${DIRECTORY}/${name}${SUFFIX}" hex HEX)
  if(hex STREQUAL "")
    message(FATAL_ERROR "${DIRECTORY}/${name}${SUFFIX} is empty")
  endif()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REPEAT "." 80 sixteen_bytes)
  string(REGEX REPLACE "(${sixteen_bytes})" "\\1\n    " bytes "${bytes}")
  string(APPEND arrays "static const unsigned char text_${count}[] = {\n    ${bytes}\n};\n\n")
  string(APPEND rows "    {\"${name}\", text_${count}, sizeof text_${count}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Written by embed_files.cmake from ${DIRECTORY_NAME}: edit those files, not this one. */
#include \"${HEADER}\"

${arrays}const ${TYPE} ${PREFIX}s[] = {
${rows}};

const size_t ${PREFIX}_count = sizeof ${PREFIX}s / sizeof ${PREFIX}s[0];
")
