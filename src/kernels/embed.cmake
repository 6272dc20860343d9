# SPDX-License-Identifier: Apache-2.0
# Writes FILES as C arrays and one table into OUT.
set(arrays "")
set(table "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND arrays "alignas(16) const unsigned char k_${name}[] = {${bytes}};\n")
  string(APPEND table "    {\"${name}\", k_${name}, sizeof k_${name}},\n")
endforeach()
file(WRITE ${OUT} "${arrays}\nconst Embedded kEmbedded[] = {\n${table}};\n")
