/* Durations as rule files and flags write them: 30s, 5m, 3h, 1w, 1h30m, 250ms. */
#ifndef WR_BASE_DURATION_H
#define WR_BASE_DURATION_H

#include <stdint.h>

#include <weir/rules.h>

#define WR_DURATION_TEXT 40

/* Units ns us ms s m h d w, the larger ones first, whole numbers. Returns 0, or -1: not a
 * duration, or more than 2^63-1 ns. */
int wr_duration_parse(struct weir_str text, uint64_t *ns);

/* Writes the shortest single-unit spelling ("90m", "1w", "0s") and returns its length. */
size_t wr_duration_text(uint64_t ns, char text[WR_DURATION_TEXT]);

#endif
