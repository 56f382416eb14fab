/* The counts of rules and candidates that the metrics show, read from the table at once. */
#ifndef WR_SERVE_ADMIN_METRICS_RULES_H
#define WR_SERVE_ADMIN_METRICS_RULES_H

#include <weir/stats.h>

#include "serve/admin/metrics.h"

/* A rule that has metric series of its own. */
struct wr_metrics_row {
	struct weir_stat stat;
	char name[WEIR_STAT_NAME_BYTES];
	char domain[WEIR_STAT_NAME_BYTES];
	size_t domain_len;
	/* The costs of the rule, in units or in slots. The size is 0 if the rule has none. */
	struct weir_cost units, slots;
	struct weir_ban_stat bans; /* the size is 0 if the rule has counted no ban */
};

struct wr_metrics_candidate {
	struct weir_candidate counts;
	const struct wr_metrics_row *row;
	char text[WEIR_STAT_NAME_BYTES];
};

struct wr_metrics_reading {
	struct wr_metrics_choice *choice;
	uint64_t loaded_ns; /* when the current rules were loaded */
	struct wr_metrics_row *rows;
	uint32_t row_count;
	struct wr_metrics_candidate *candidates;
	uint32_t candidate_count, candidate_max;
	uint32_t left_out; /* number of rules that are counted in own[WEIR_STAT_OTHER] */
	/* Statistics that do not belong to a single rule; the index is an enum weir_stat_name. */
	struct weir_stat own[WEIR_STAT_RULES];
	struct weir_cost other_units, other_slots; /* costs of the rules in own[WEIR_STAT_OTHER] */
	struct weir_ban_stat other_bans;           /* bans of these rules */
};

/* Reads the counts, and chooses the rules that have series of their own. Returns 0 or WEIR_EMEMORY. The
 * caller frees the reading in both cases. */
int wr_metrics_read(struct wr_metrics_reading *reading, struct wr_metrics_choice *choice,
		    const struct wr_metrics_view *view);
void wr_metrics_reading_free(struct wr_metrics_reading *reading);

#endif
