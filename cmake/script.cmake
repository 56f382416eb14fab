# cmake -DIN=file.lua -DOUT=file.c -DNAME=name -P script.cmake: a script for Redis, with its SHA1, as
# the C object wr_script_name of redis/script.h.
file(READ ${IN} hex HEX)
file(SHA1 ${IN} sha1)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "#include \"redis/script.h\"\n
static const char text[] = {\n${hex}0};\n
const struct wr_script wr_script_${NAME} = {text, sizeof text - 1, \"${sha1}\"};\n")
