/* Notes unreadable lines, damaged files and other facts in the totals of a log. */
#ifndef WR_LAB_LOG_EXAMPLE_H
#define WR_LAB_LOG_EXAMPLE_H

#include "lab/log/log.h"

#define WR_LAB_SHOWN_BYTES 255u

/* A text to show to the user. */
struct wr_lab_shown {
	char text[WR_LAB_SHOWN_BYTES + 1];
};

/* Copies a text, with question marks for control characters. Cuts the text if need be. Writes a zero
 * at the end. Returns the length. */
size_t wr_lab_show(char *to, size_t room, struct weir_str text);

/* Returns a path, or the end of a long one. "-" becomes "standard input". */
struct wr_lab_shown wr_lab_show_path(const char *path);

/* Returns up to `bytes` bytes of the end of a path, and up to WR_LAB_SHOWN_BYTES. */
struct wr_lab_shown wr_lab_show_end(const char *path, size_t bytes);

/* Adds a sentence to the notes, unless there is no room. */
void wr_lab_totals_note(struct wr_lab_log_totals *totals, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Adds "access.log:17: no time: …" to the examples, unless there are three. Control characters of
 * the line are written as \x00, and a long line is cut. */
void wr_lab_totals_example(struct wr_lab_log_totals *totals, const char *path, uint64_t line_number,
			   const char *reason, struct weir_str line);

/* Counts a damaged file, and notes the first one: "access.log.gz: the file is cut off". */
void wr_lab_totals_damage(struct wr_lab_log_totals *totals, const char *path, const char *reason);

#endif
