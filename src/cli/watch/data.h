/* All that a table tells of its rules, for the commands that show it. No service is needed. */
#ifndef WR_CLI_WATCH_DATA_H
#define WR_CLI_WATCH_DATA_H

#include <stdbool.h>

#include <weir/stats.h>
#include <weir/weir.h>

#include "cli/options/options.h"

#define WR_WATCH_POINTS 60u /* of history that is shown: a minute */
#define WR_WATCH_HOSTS 64u
#define WR_WATCH_CANDIDATES 8u /* of one rule */

struct wr_watch_rule {
	struct weir_stat stat;
	char name[WEIR_STAT_NAME_BYTES];
	uint64_t all_milli, refused_milli; /* a second, now, in thousandths */
};

struct wr_watch_candidate {
	struct weir_candidate counts;
	char text[WEIR_STAT_NAME_BYTES];
};

struct wr_watch_host {
	char name[24];
	uint64_t rules_hash;
	uint32_t pid;
	bool failed;
};

struct wr_watch {
	const char *name, *dir;
	struct weir_table *table;
	uint64_t now_ns;
	struct weir_info info; /* read now and then: it takes the whole table */
	uint64_t info_read_ns, info_took_ns;
	struct weir_stats_info room;
	struct wr_watch_rule *rules; /* by slot, until somebody sorts them */
	size_t rule_count, rule_cap;
	struct weir_stat own[WEIR_STAT_RULES]; /* names that are not rules' */
	struct wr_watch_candidate *candidates;
	size_t candidate_count, candidate_cap;
	struct weir_gauge gauges[WEIR_GAUGE_COUNT]; /* the fresh ones */
	size_t gauge_count;
	struct wr_watch_host hosts[WR_WATCH_HOSTS]; /* the living */
	size_t host_count;
	struct weir_latency latency; /* of decisions in the table */
	/* The reading before this one, for rates. */
	struct wr_watch_before {
		uint32_t slot;
		uint64_t all, refused;
	} * before;
	size_t before_count;
	uint64_t before_ns;
};

/* An existing table; NULL means "default", and where tables are. */
int wr_watch_open(struct wr_watch *watch, const char *name, const char *dir,
		  struct weir_error *error);
void wr_watch_close(struct wr_watch *watch);

/* Reads everything but keys; moves history on if nobody else does, and follows a table that was
 * resized. */
int wr_watch_read(struct wr_watch *watch, struct weir_error *error);

/* The table's gauge, or -1: nobody has set it of late. */
int64_t wr_watch_gauge(const struct wr_watch *watch, enum weir_gauge_name gauge);

/* Candidates that the rule has now, or ever had; returns how many, at most WR_WATCH_CANDIDATES. */
size_t wr_watch_candidates(const struct wr_watch *watch, const struct weir_stat *stat, bool all,
			   const struct wr_watch_candidate *found[WR_WATCH_CANDIDATES]);

static inline uint64_t wr_watch_refused(const struct weir_stat *stat)
{
	return stat->refused + stat->deferred + stat->shadowed;
}

static inline uint64_t wr_watch_all(const struct weir_stat *stat)
{
	return stat->admitted + wr_watch_refused(stat);
}

/* The time below which so many per cent of decisions were; 0: none were timed. */
uint64_t wr_watch_quantile_ns(const struct weir_latency *latency, unsigned percent);

/* Whether the rule's name begins with one of the names; true if there are none. */
bool wr_watch_selects(const struct wr_words *names, struct weir_str rule);

#endif
