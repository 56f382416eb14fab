/* Sizes as flags write them: 64M, 512K, 1G. */
#ifndef WR_BASE_SIZE_H
#define WR_BASE_SIZE_H

#include <stdint.h>

#include <weir/rules.h>

#define WR_SIZE_TEXT 24

/* A whole number and K, M, G or T (of 1024, in any case, with or without `B` or `iB` behind), or
 * none for bytes. Returns 0, or -1: not a size, or more than 2^63-1. */
int wr_size_parse(struct weir_str text, uint64_t *bytes);

/* Writes the shortest exact spelling ("64M", "1000") and returns its length. */
size_t wr_size_text(uint64_t bytes, char text[WR_SIZE_TEXT]);

#endif
