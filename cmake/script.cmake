# cmake "-DIN=a.lua b.lua" -DOUT=path/name -DNAME=name -P script.cmake: a script for Redis from its
# parts, as path/name.lua, and with its SHA1 as path/name.c: wr_script_name of redis/script.h.
separate_arguments(parts UNIX_COMMAND "${IN}")
set(text)
foreach(part ${parts})
  file(READ ${part} more)
  string(APPEND text "${more}")
endforeach()
file(WRITE ${OUT}.lua "${text}")
file(SHA1 ${OUT}.lua sha1)
file(READ ${OUT}.lua hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT}.c "#include \"redis/script.h\"\n
static const char text[] = {\n${hex}0};\n
const struct wr_script wr_script_${NAME} = {text, sizeof text - 1, \"${sha1}\"};\n")
