/* Sizes in bytes as options spell them: 64M, 512K, 1G. */
#ifndef WR_BASE_SIZE_H
#define WR_BASE_SIZE_H

#include <stdint.h>

#include <weir/rules.h>

#define WR_SIZE_TEXT 24

/* Reads a whole number of bytes, or one with K, M, G or T for powers of 1024. Case does not matter,
 * and `B` or `iB` may follow. Returns 0, or -1 for a text that is not a size or a size above
 * 2^63-1. */
int wr_size_parse(struct weir_str text, uint64_t *bytes);

/* Writes the shortest exact spelling ("64M", "1000") and returns its length. */
size_t wr_size_text(uint64_t bytes, char text[WR_SIZE_TEXT]);

#endif
