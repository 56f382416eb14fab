/* Text from anywhere, shown in a terminal so that it can do nothing there. */
#ifndef WR_CLI_SHOW_H
#define WR_CLI_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

/* Whether the terminal is said to show UTF-8. Sets the locale of characters. */
bool wr_show_setup(void);

/* Writes text of at most `columns` columns and a zero, and returns how many columns it takes. What
 * is not printable, or takes no column of its own (a direction mark, a combining accent), is
 * written as an escape: \x1b, \u{202e}; a backslash as two. What is too long ends with "…", or ~.
 * `cap` is at least 4 * columns + 1. */
size_t wr_show_text(struct weir_str text, size_t columns, bool utf8, char *out, size_t cap);

/* To standard output, as wr_show_text does it, all of it. */
void wr_show_print(struct weir_str text, bool utf8);

/* Points as a line of bars, the oldest left: `columns` of them, each the sum of as many points as
 * it takes. A point of UINT64_MAX is not known; a column of such is blank. */
void wr_show_bars(const uint64_t *points, size_t count, size_t columns, bool utf8, char *out,
		  size_t cap);

/* "0", "0.4", "12", "3.4k", "1.2M": of thousandths, in at most six columns. */
#define WR_SHOW_RATE 48
void wr_show_rate(uint64_t milli, char text[WR_SHOW_RATE]);

/* "0", "4", "9999", "12.3k". */
void wr_show_count(uint64_t count, char text[WR_SHOW_RATE]);

#endif
