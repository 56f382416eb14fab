/* Notes unreadable lines and damaged files in the totals of a log. */
#ifndef WR_LAB_LOG_EXAMPLE_H
#define WR_LAB_LOG_EXAMPLE_H

#include "lab/log/log.h"

/* Adds "access.log:17: no time: …" to the examples, unless there are three. Control characters of
 * the line are written as \x00, and a long line is cut. */
void wr_lab_totals_example(struct wr_lab_log_totals *totals, const char *path, uint64_t line_number,
			   const char *reason, struct weir_str line);

/* Counts a damaged file, and notes the first one: "access.log.gz: the file is cut off". */
void wr_lab_totals_damage(struct wr_lab_log_totals *totals, const char *path, const char *reason);

#endif
