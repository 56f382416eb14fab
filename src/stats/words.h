/* Writes limits and numbers as texts that people read, and computes rates. */
#ifndef WR_STATS_WORDS_H
#define WR_STATS_WORDS_H

#include <stdbool.h>

#include <weir/algo.h>
#include <weir/stats.h>

#include "stats/advice.h"

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

#endif
