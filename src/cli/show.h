/* Formats untrusted text, rates and bars for a terminal. Control characters are escaped. */
#ifndef WR_CLI_SHOW_H
#define WR_CLI_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

/* Sets the locale for characters (LC_CTYPE). Returns whether its character set is UTF-8. */
bool wr_cli_show_setup(void);

/* Writes text of at most `columns` columns and a zero. Returns the number of columns. Characters
 * that are not printable or have no column of their own (a direction mark, a combining accent)
 * become an escape: \x1b, \u{202e}. A backslash becomes two backslashes. Text that is too
 * long is cut and ends with "…" or, if `utf8` is false, with "~". `cap` must be at least
 * 4 * columns + 1. */
size_t wr_cli_show_text(struct weir_str text, size_t columns, bool utf8, char *out, size_t cap);

/* Prints the whole text to standard output, escaped like wr_cli_show_text(). */
void wr_cli_show_print(struct weir_str text, bool utf8);

/* Draws a history as a row of `columns` bars, the oldest on the left. `points` are the values of
 * the history in order of time; UINT64_MAX is an unknown value. The height of a bar is the sum of
 * the points that it covers. A bar that covers only unknown points is blank. */
void wr_cli_show_bars(const uint64_t *points, size_t count, size_t columns, bool utf8, char *out,
		      size_t cap);

/* Writes a rate given in thousandths as "0", "0.4", "12", "3.4k", "1.2M": at most six columns. */
#define WR_SHOW_RATE 48
void wr_cli_show_rate(uint64_t milli, char text[WR_SHOW_RATE]);

/* Writes a count as "0", "4", "9999", "12.3k". */
void wr_cli_show_count(uint64_t count, char text[WR_SHOW_RATE]);

#endif
