/* Writes limits and numbers as texts that people read, and computes rates. */
#ifndef WR_STATS_WORDS_H
#define WR_STATS_WORDS_H

#include <stdbool.h>

#include <weir/algo.h>
#include <weir/stats.h>

#include "stats/advice.h"
#include "stats/history.h"

#define WR_NUMBER_WORDS 32

/* Writes a number with commas: "1,234,567". */
void wr_number_words(uint64_t number, char text[WR_NUMBER_WORDS]);

/* Writes a limit as YAML: "{unit: minute, requests_per_unit: 100, algorithm: token_bucket, burst:
 * 20}". */
void wr_stats_limit_yaml(const struct wr_stats_limit_view *limit, char *text, size_t cap);

/* Decisions and refusals per 1000 seconds, averaged over the last ten seconds. For a rule without
 * history, all_milli is the smoothed rate in the table, which takes minutes to follow a change, and
 * refused_milli is 0. */
struct wr_rate {
	uint64_t all_milli, refused_milli;
};
struct wr_rate wr_rate_now(struct weir_table *table, const struct weir_stat *stat);

/* Units per 1000 seconds, averaged over the last ten seconds, by enum wr_history_cost_line. For a
 * limit on concurrent requests, the number at WR_SLOT_LINE_SECONDS is 1000 times the average number
 * of slots in use. All are 0 if the rule has no history. */
struct wr_rate_costs {
	uint64_t milli[WR_HISTORY_LINES];
};
struct wr_rate_costs wr_rate_costs_now(struct weir_table *table, const struct weir_cost *cost);

/* Returns the count of a point of costs. */
uint64_t wr_stats_cost_count(const struct weir_point *point, enum wr_history_cost_line line);

/* Returns the name of a count of points of costs, as it is used in JSON. */
const char *wr_stats_cost_name(const struct weir_cost *cost, enum wr_history_cost_line line);

#endif
