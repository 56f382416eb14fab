/* The statistics of a table about a rule. Shared by `weir tune --from-table` and `weir advise`. */
#ifndef WR_CLI_TUNE_TABLE_H
#define WR_CLI_TUNE_TABLE_H

#include "base/buffer.h"
#include "cli/cli.h"
#include "cli/options/table.h"
#include "cli/watch/data.h"
#include "stats/words.h"

#define WR_TUNE_TABLE_LIMITS (1 + WR_WATCH_CANDIDATES)
#define WR_TUNE_TABLE_REASON 512

/* X(enum, name in JSON): the result of the comparison of a rule with its candidates. */
#define WR_TUNE_TABLE_RESULTS(X)                                                                   \
	X(WR_TUNE_NO_REQUESTS, "no_requests")     /* the rule has decided no request */            \
	X(WR_TUNE_NO_LIMIT, "no_limit")           /* the rule limits no requests per period */     \
	X(WR_TUNE_NO_CANDIDATES, "no_candidates") /* there is nothing to compare */                \
	X(WR_TUNE_FEW_REQUESTS, "few_requests")   /* no limit has counted enough requests */       \
	X(WR_TUNE_KEEP, "keep")                   /* the limit in force is the smallest */         \
	X(WR_TUNE_CHANGE, "change")               /* a candidate is the smallest */                \
	X(WR_TUNE_NONE_FITS, "none_fits")         /* no limit leaves enough requests untouched */

enum wr_cli_tune_table_result {
#define WR_TUNE_TABLE_ENUM(result, name) result,
	WR_TUNE_TABLE_RESULTS(WR_TUNE_TABLE_ENUM)
#undef WR_TUNE_TABLE_ENUM
};

/* The limit of a rule, or a candidate, and the requests that it would have refused. */
struct wr_cli_tune_table_limit {
	struct wr_stats_limit_view limit;
	uint64_t requests, would_refuse;
	uint64_t rule_refused; /* number of the same requests that the rule refused */
	/* The largest number of requests that the limit permits to one key within a period of the
	 * rule. UINT64_MAX: not known, because only one of the two has a calendar window. */
	uint64_t per_key;
	bool enough;    /* leaves the wanted share of requests untouched, and has counted enough */
	bool may_start; /* it may have counted for less than one of its periods */
};

struct wr_cli_tune_table_peak {
	size_t known;     /* number of seconds or minutes that the history has */
	uint64_t most;    /* the largest number of requests in one of them */
	uint64_t refused; /* the largest number of refusals in one of them */
};

/* A rule and its statistics. Large; allocated once and used for one rule after the other. */
struct wr_cli_tune_table_rule {
	const struct wr_cli_watch_rule *rule;
	uint64_t requests, refused;
	struct weir_point seconds[WEIR_HISTORY_SECONDS], minutes[WEIR_HISTORY_MINUTES];
	size_t second_count, minute_count;
	struct wr_cli_tune_table_peak second, minute;
	/* Estimates that weigh recent requests more, as in struct weir_top_key. */
	struct weir_top_key hot[WEIR_TOP_KEYS], most_refused[WEIR_TOP_KEYS];
	size_t hot_count, most_refused_count;
	uint64_t hot_total, most_refused_total;
	struct weir_candidate candidates[WR_WATCH_CANDIDATES];
	size_t candidate_count;
	struct wr_advice advice[WR_ADVICE_MAX];
	size_t advice_count;
	/* The limit in force, then the candidates from the smallest to the largest. */
	struct wr_cli_tune_table_limit limits[WR_TUNE_TABLE_LIMITS];
	size_t limit_count;
	size_t chosen;   /* the limit that fits best; limit_count: none */
	size_t proposed; /* the limit of the proposed change; limit_count: it is no candidate */
	enum wr_cli_tune_table_result result;
	/* The proposed change as a line of a rule file, and its reason; "": no change */
	char change[WR_ADVICE_YAML], reason[WR_TUNE_TABLE_REASON];
};

/* The arguments of a run. */
struct wr_cli_tune_table_opts {
	const struct wr_cli_table_choice *table;
	const struct wr_cli_words *names; /* rules, or beginnings of their names; empty: all */
	uint32_t untouched_ppm;
	bool json;
	const char *again; /* the command that does the same later */
};

/* ---- tune_table.c ---- */

/* Reads the statistics of a rule and computes its advice. */
void wr_cli_tune_table_read(const struct wr_cli_watch *watch, const struct wr_cli_watch_rule *rule,
			    struct wr_cli_tune_table_rule *tuned);

/* Returns how many of the rules are selected by `names`. */
size_t wr_cli_tune_table_selected(const struct wr_cli_watch *watch,
				  const struct wr_cli_words *names);

/* Reports that no rule is selected. Returns an exit code. */
int wr_cli_tune_table_no_rule(const char *command);

/* Tunes from the statistics of a table. Returns an exit code. */
int wr_cli_tune_table(const struct wr_cli_tune_table_opts *opts);

/* ---- tune_table_limits.c ---- */

/* Compares the limits of a rule that wr_cli_tune_table_read() has read, and proposes a change. */
void wr_cli_tune_table_choose(struct wr_cli_tune_table_rule *tuned, uint32_t untouched_ppm,
			      uint64_t now_ns);

/* ---- tune_table_text.c ---- */

void wr_cli_tune_table_head(const struct wr_cli_watch *watch,
			    const struct wr_cli_tune_table_opts *opts);
void wr_cli_tune_table_print(const struct wr_cli_tune_table_rule *tuned,
			     const struct wr_cli_tune_table_opts *opts, bool utf8);
/* Writes the pieces of advice, one or more lines for each. */
void wr_cli_tune_table_print_advice(const struct wr_cli_tune_table_rule *tuned, bool utf8);
/* Appends the proposed change of a rule with its reason, as YAML. */
void wr_cli_tune_table_yaml(const struct wr_cli_tune_table_rule *tuned, struct wr_buf *yaml);

/* ---- tune_table_json.c ---- */

json_t *wr_cli_tune_table_json(const struct wr_cli_tune_table_rule *tuned);
json_t *wr_cli_tune_table_advice_json(const struct wr_cli_tune_table_rule *tuned, size_t i);

#endif
