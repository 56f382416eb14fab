/* Reads statistics of rules, keys and processes from a table, for the commands that show them. The
 * service need not run. */
#ifndef WR_CLI_WATCH_DATA_H
#define WR_CLI_WATCH_DATA_H

#include <stdbool.h>

#include <weir/stats.h>
#include <weir/weir.h>

#include "cli/options/table.h"
#include "stats/words.h"

#define WR_WATCH_POINTS 60u /* seconds of history that are shown */
#define WR_WATCH_HOSTS 64u
#define WR_WATCH_CANDIDATES 8u /* maximum number of candidates of a rule */

struct wr_cli_watch_rule {
	struct weir_stat stat;
	char name[WEIR_STAT_NAME_BYTES];
	struct wr_rate rate;
	struct weir_cost cost; /* the size is 0 if the rule has no costs */
	struct wr_rate_costs cost_rates;
	struct weir_ban_stat bans; /* the size is 0 if the rule has counted no ban */
};

struct wr_cli_watch_candidate {
	struct weir_candidate counts;
	char text[WEIR_STAT_NAME_BYTES];
};

struct wr_cli_watch_host {
	char name[24];
	uint64_t rules_hash;
	uint32_t pid;
	bool failed;
};

struct wr_cli_watch {
	const char *name, *dir;
	struct weir_table *table;
	uint64_t now_ns;
	struct weir_info info; /* read rarely, because weir_info() scans the whole table */
	uint64_t info_read_ns, info_took_ns;
	struct weir_stats_info room;
	struct wr_cli_watch_rule *rules; /* ordered by stat.slot until the caller sorts them */
	size_t rule_count, rule_cap;
	struct weir_stat own[WEIR_STAT_RULES]; /* statistics that belong to no rule */
	struct wr_cli_watch_candidate *candidates;
	size_t candidate_count, candidate_cap;
	/* gauges that were set within the last minute */
	struct weir_gauge gauges[WEIR_GAUGE_COUNT];
	size_t gauge_count;
	struct wr_cli_watch_host hosts[WR_WATCH_HOSTS]; /* processes that are running */
	size_t host_count;
	struct weir_latency latency; /* time that decisions in the table take */
	/* Totals that were read earlier. Rates are computed from the increase since then. */
	struct wr_cli_watch_before {
		uint32_t slot;
		uint64_t all, refused;
	} * before;
	size_t before_count;
	uint64_t before_ns;
};

/* Opens an existing table and reads it. Returns 0, or a number below 0 with `error` filled in. */
int wr_cli_watch_open(struct wr_cli_watch *watch, const struct wr_cli_table_choice *table,
		      struct weir_error *error);
void wr_cli_watch_close(struct wr_cli_watch *watch);

/* Reads all data except keys. Advances the history if no other process does that. After a resize,
 * opens the new table. */
int wr_cli_watch_read(struct wr_cli_watch *watch, struct weir_error *error);

/* Returns the gauge, or -1 if it was not set within the last minute. */
int64_t wr_cli_watch_gauge(const struct wr_cli_watch *watch, enum weir_gauge_name gauge);

/* Finds the candidates that the rule has now; with `all`, also former candidates. Returns the
 * number of candidates found, at most WR_WATCH_CANDIDATES. */
size_t wr_cli_watch_candidates(const struct wr_cli_watch *watch, const struct weir_stat *stat,
			       bool all,
			       const struct wr_cli_watch_candidate *found[WR_WATCH_CANDIDATES]);

static inline uint64_t wr_cli_watch_refused(const struct weir_stat *stat)
{
	return stat->refused + stat->deferred + stat->shadowed;
}

static inline uint64_t wr_cli_watch_all(const struct weir_stat *stat)
{
	return stat->admitted + wr_cli_watch_refused(stat);
}

/* Returns the latency that `percent` % of decisions did not exceed, or 0 if no latency was
 * measured. */
uint64_t wr_cli_watch_quantile_ns(const struct weir_latency *latency, unsigned percent);

/* Returns whether the rule's name begins with one of `names`. Returns true if `names` is empty. */
bool wr_cli_watch_selects(const struct wr_cli_words *names, struct weir_str rule);

#endif
