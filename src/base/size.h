/* Sizes in bytes as text, as in options and rule files: 64M, 512K, 1G. */
#ifndef WR_BASE_SIZE_H
#define WR_BASE_SIZE_H

#include <stdint.h>

#include <weir/rules.h>

#define WR_SIZE_TEXT 24

/* Reads a size: a whole number of bytes, or a whole number followed by K, M, G or T for powers of
 * 1024. Letters may be in upper or lower case, and `B` or `iB` may follow. Returns 0, or -1 if the
 * text is not a size or the size is above 2^63-1. */
int wr_size_parse(struct weir_str text, uint64_t *bytes);

/* Writes a size in the largest unit in which it is a whole number ("64M", "1000"). Returns the
 * length of the text. */
size_t wr_size_text(uint64_t bytes, char text[WR_SIZE_TEXT]);

#endif
