/* Durations as text, as in rule files and options: 30s, 5m, 3h, 1w, 1h30m, 250ms. */
#ifndef WR_BASE_DURATION_H
#define WR_BASE_DURATION_H

#include <stdint.h>

#include <weir/rules.h>

#define WR_DURATION_TEXT 40

/* Reads a duration: whole numbers with the units ns us ms s m h d w, larger units first. Returns 0,
 * or -1 if the text is not a duration or is more than 2^63-1 ns. */
int wr_duration_parse(struct weir_str text, uint64_t *ns);

/* Writes a duration in the largest unit in which it is a whole number ("90m", "1w", "0s"). Returns
 * the length of the text. */
size_t wr_duration_text(uint64_t ns, char text[WR_DURATION_TEXT]);

#endif
