# cmake -DFROM=folder "-DPARTS=a.lua b.lua" -DOUT=path/name -DNAME=variable -P script.cmake: joins the files PARTS in
# FROM into a script for Redis. Writes the text to path/name.lua. Writes text and SHA1 to path/name.c, as a struct
# wr_script (redis/script.h) with the name NAME.
separate_arguments(parts UNIX_COMMAND "${PARTS}")
set(text)
foreach(part ${parts})
  file(READ ${FROM}/${part} more)
  string(APPEND text "${more}")
endforeach()
file(WRITE ${OUT}.lua "${text}")
file(SHA1 ${OUT}.lua sha1)
file(READ ${OUT}.lua hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT}.c "#include \"redis/script.h\"\n
static const char text[] = {\n${hex}0};\n
const struct wr_script ${NAME} = {text, sizeof text - 1, \"${sha1}\"};\n")
