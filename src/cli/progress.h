/* The progress bar of long commands. It is written to stderr if stderr is a terminal that can
 * overwrite a line, and not at all otherwise. */
#ifndef WR_CLI_PROGRESS_H
#define WR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/log/log.h"

struct wr_cli_progress {
	bool shown; /* stderr can show the bar */
	bool utf8;
	uint64_t began_ns, next_ns; /* by CLOCK_MONOTONIC */
};

void wr_cli_progress_begin(struct wr_cli_progress *progress);

/* Shows how far the log has been read, at most ten times a second. This is the callback `progress`
 * of struct wr_lab_log_opts, with a struct wr_cli_progress as its context. */
void wr_cli_progress_show(void *context, const struct wr_lab_log_totals *totals);

/* Shows that the given part (0 to 1) of the work is done, at most ten times a second. `count` is the
 * number of units (such as "requests") that have been worked on. */
void wr_cli_progress_part(struct wr_cli_progress *progress, double part, uint64_t count,
			  const char *unit);

/* Like wr_cli_progress_part, with a note at the end of the line if it has room. If `part` is below 0,
 * the end of the work is not known. */
void wr_cli_progress_note(struct wr_cli_progress *progress, double part, uint64_t count,
			  const char *unit, const char *note);

/* Erases the bar. */
void wr_cli_progress_end(struct wr_cli_progress *progress);

/* Writes the line of the bar, without its end, for a log of which `took_ns` have been spent:
 * "████████········  52 %  1.2M lines  820k/s  3 s left". It has at most `columns` columns. */
void wr_cli_progress_text(const struct wr_lab_log_totals *totals, uint64_t took_ns,
			  unsigned columns, bool utf8, char *text, size_t cap);

#endif
