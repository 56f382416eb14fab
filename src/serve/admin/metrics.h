/* What a table and an engine have counted, as metrics. docs/watching.md has the list.
 *
 * The number of series is bounded whatever clients send: labels are names out of rule files, never
 * a client's key, and beyond `rules_max` rules the rest is one, called "other". Which rules have
 * series of their own is settled when they are first seen and stays so: a counter that moved
 * between two series would look as if it had been reset. */
#ifndef WR_SERVE_ADMIN_METRICS_H
#define WR_SERVE_ADMIN_METRICS_H

#include <pthread.h>

#include <weir/engine.h>
#include <weir/weir.h>

#include "limiter/text.h"
#include "serve/admin/prometheus.h"

#define WR_METRICS_RULES_MAX 5000u
#define WR_METRICS_SLOTS_MAX 131072u /* of statistics; more than any table has */

/* Which slots have series of their own. */
struct wr_metrics_choice {
	pthread_mutex_t lock;
	uint64_t table_id[2];
	uint32_t count, max;
	uint8_t slots[WR_METRICS_SLOTS_MAX / 8]; /* a bit each */
};

void wr_metrics_choice_init(struct wr_metrics_choice *choice, uint32_t rules_max);
void wr_metrics_choice_free(struct wr_metrics_choice *choice);

/* What is told. */
struct wr_metrics_view {
	struct weir_table *table;
	struct weir_engine *engine;
	const struct weir_info *info; /* of the table */
	uint64_t now_ns;
};

/* All families of rules, table and engine; wr_prom_end is the caller's. 0, or WEIR_EMEMORY with
 * nothing written. */
int wr_metrics_write(struct wr_prom *prom, struct wr_metrics_choice *choice,
		     const struct wr_metrics_view *view);

#endif
