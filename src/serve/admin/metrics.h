/* The counts of a table and an engine as metrics. docs/watching.md has the list.
 *
 * The number of series is bounded, whatever clients send: labels are names of rule files, never
 * the key of a client. Beyond `rules_max` rules, all other rules share one series, "other". A rule
 * keeps the choice that was made when it was first seen: a counter that moved between two series
 * would look like a reset. */
#ifndef WR_SERVE_ADMIN_METRICS_H
#define WR_SERVE_ADMIN_METRICS_H

#include <pthread.h>

#include <weir/engine.h>
#include <weir/weir.h>

#include "serve/admin/prometheus.h"

#define WR_METRICS_RULES_MAX 5000u
#define WR_METRICS_SLOTS_MAX 131072u /* slots of statistics; more than any table has */

/* The rules that have series of their own. */
struct wr_metrics_choice {
	pthread_mutex_t lock;
	uint64_t table_id[2];
	uint32_t count, max;
	uint8_t slots[WR_METRICS_SLOTS_MAX / 8]; /* one bit for each slot */
};

void wr_metrics_choice_init(struct wr_metrics_choice *choice, uint32_t rules_max);
void wr_metrics_choice_free(struct wr_metrics_choice *choice);

struct wr_metrics_view {
	struct weir_table *table;
	struct weir_engine *engine;
	const struct weir_info *info; /* of the table */
	uint64_t now_ns;
};

/* Writes all families of rules, table and engine; the caller calls wr_prom_end(). Any thread may
 * call. Returns 0, or WEIR_EMEMORY and has written nothing. */
int wr_metrics_write(struct wr_prom *prom, struct wr_metrics_choice *choice,
		     const struct wr_metrics_view *view);

#endif
