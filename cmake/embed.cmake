# cmake -DIN=file -DOUT=file.c -DNAME=name -P embed.cmake: writes the bytes of a file as a C array.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR len "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "#include <stddef.h>\n#include <stdint.h>\n
extern const uint8_t ${NAME}[];\nextern const size_t ${NAME}_len;\n
const uint8_t ${NAME}[] = {\n${hex}\n};\nconst size_t ${NAME}_len = ${len};\n")
