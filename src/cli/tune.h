/* Shared by the files of `weir tune`. */
#ifndef WR_CLI_TUNE_H
#define WR_CLI_TUNE_H

#include "base/buffer.h"
#include "cli/cli.h"
#include "lab/log/log.h"
#include "lab/tune/tune.h"
#include "stats/words.h"

#define WR_TUNE_WARNING 512u
#define WR_TUNE_WARNINGS 8u

/* The result of a run on a log. */
struct wr_cli_tune {
	const struct wr_lab_tune *tune;
	const struct wr_lab_tune_report *report;
	const struct wr_lab_log_totals *totals;
	size_t route; /* the route whose tables are printed */
	bool without_outliers;
	struct weir_str yaml;
	const char *out;        /* the file that has the YAML, or NULL */
	struct weir_str replay; /* the command that replays the rules */
	bool utf8;
	/* The same in the text, in the JSON and on the page. */
	char warnings[WR_TUNE_WARNINGS][WR_TUNE_WARNING];
	size_t warning_count;
};

/* ---- tune_words.c ---- */

/* Writes "10 per minute". */
#define WR_TUNE_RATE 48
void wr_cli_tune_rate(const struct wr_lab_rate *rate, char text[WR_TUNE_RATE]);
/* Writes "10 per minute, burst 100". */
#define WR_TUNE_LIMIT 96
void wr_cli_tune_limit(const struct wr_lab_tune_report *report,
		       const struct wr_lab_tune_limit *limit, char text[WR_TUNE_LIMIT]);
/* Returns the units that one client can send within the horizon of the report. */
uint64_t wr_cli_tune_cost(const struct wr_lab_tune_report *report,
			  const struct wr_lab_tune_limit *limit);
/* Writes why a route has no limit of its own; "" if it has one. */
const char *wr_cli_tune_reason(enum wr_lab_tune_reason reason);

/* Fills in the warnings about the log. */
void wr_cli_tune_warn(struct wr_cli_tune *result);

/* tune_text.c: prints the result for people. */
void wr_cli_tune_print(const struct wr_cli_tune *result);

/* tune_json.c: returns the result as JSON. */
json_t *wr_cli_tune_json(const struct wr_cli_tune *result);

/* tune_page.c: writes the result as an HTML page. Returns 0, or -1 with errno. */
int wr_cli_tune_page(const struct wr_cli_tune *result, const char *path);

/* tune_page.c: writes a picture of the rates and bursts of result->route. Returns 0, or -1 with
 * errno. */
int wr_cli_tune_picture(const struct wr_cli_tune *result, const char *path);

#endif
