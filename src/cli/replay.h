/* The result of weir replay, and the functions that show it as text, as JSON and as a page. */
#ifndef WR_CLI_REPLAY_H
#define WR_CLI_REPLAY_H

#include <jansson.h>

#include "cli/options/log.h"
#include "lab/replay/replay.h"
#include "lab/replay/diff.h"
#include "rules/requests.h"

#define WR_REPLAY_UNREADABLE 5u /* above this percentage of unreadable lines, there is a warning */
#define WR_REPLAY_WARNING 512u
#define WR_REPLAY_WARNINGS 10u

struct wr_cli_replay {
	struct wr_lab_log_totals log;
	uint64_t outside; /* requests that --from and --to left out */
	const char *rules;
	struct wr_lab_replay *replay;
	/* --compare: other rules on the same log. The first side of the difference are `rules`. */
	const char *other_rules;
	struct wr_lab_replay *other; /* NULL: not given */
	struct wr_lab_diff difference;
	/* --where-answered: statuses by which the log records refusals. The first side of the
	 * difference is the log. */
	const char *answered_text; /* NULL: not given */
	uint8_t answered_statuses[(WR_STATUSES + 7) / 8];
	struct wr_lab_diff answered;
	char warnings[WR_REPLAY_WARNINGS][WR_REPLAY_WARNING];
	size_t warning_count;
};

/* replay_text.c: prints the result to standard output. */
void wr_cli_replay_print(const struct wr_cli_replay *result);

/* replay_json.c: returns the result as JSON. */
json_t *wr_cli_replay_json(const struct wr_cli_replay *result);

/* replay_page.c: writes the result as an HTML page. Returns 0, or an error that names the file. */
int wr_cli_replay_page(const struct wr_cli_replay *result, const char *path,
		       struct weir_error *error);

/* ---- replay_words.c: texts that the three have in common ---- */

#define WR_REPLAY_WORDS 64u

/* Writes a wait, rounded up: "250 ms", "40 s", "3 min", "2 h", "5 days". */
void wr_cli_replay_wait(uint64_t ns, char text[WR_REPLAY_WORDS]);

/* Writes the longest wait that a limit told: "-" if it refused nothing, "never" if waiting does not
 * help after any of its refusals. */
void wr_cli_replay_longest(const struct wr_lab_replay_limit *limit, char text[WR_REPLAY_WORDS]);

/* Writes a time in UTC: "2026-03-01 14:30:05". */
void wr_cli_replay_time(uint64_t ns, char text[WR_REPLAY_WORDS]);

/* Writes part / whole in percent: "0 %", "0.003 %", "4.2 %", "100 %". */
void wr_cli_replay_percent(uint64_t part, uint64_t whole, char text[WR_REPLAY_WORDS]);

/* Writes a number with commas. An estimate is "about 1,200,000". */
void wr_cli_replay_estimate(uint64_t number, bool exact, char text[WR_REPLAY_WORDS]);

/* Writes the key as text: "192.0.2.7 | /login". A key without values is "(all requests)". The text
 * is not escaped. */
#define WR_REPLAY_KEY 320u
void wr_cli_replay_key(const struct wr_lab_top_key *key, char text[WR_REPLAY_KEY]);

/* Returns the limit of a rule in the form that describes it in words, see wr_stats_limit_words(). */
const char *wr_cli_replay_limit(const struct wr_rules_limit *rule, char *text, size_t cap);

/* Finds the limit of a report with the same name in statistics. Returns NULL if there is none. */
const struct wr_lab_replay_limit *wr_cli_replay_same(const struct wr_lab_replay_report *report,
						     const struct wr_rules_limit *rule);

#endif
