/* Writes the counts of a table and an engine as metrics. docs/watching.md has the list.
 *
 * Clients cannot increase the number of metric series, because labels are names from rule files and
 * never keys of clients. At most `rules_max` rules have metric series of their own; all other rules
 * share the series "other". Whether a rule has its own series is decided when the rule is first
 * seen. This never changes later, because a counter that moved to another series would look like a
 * reset. */
#ifndef WR_SERVE_ADMIN_METRICS_H
#define WR_SERVE_ADMIN_METRICS_H

#include <pthread.h>

#include <weir/engine.h>
#include <weir/weir.h>

#include "serve/admin/prometheus.h"

#define WR_METRICS_RULES_MAX 5000u
#define WR_METRICS_SLOTS_MAX 131072u /* no table has more slots of statistics than this */

/* The rules that have metric series of their own. */
struct wr_metrics_choice {
	pthread_mutex_t lock;
	uint64_t table_id[2];
	uint32_t count, max;
	/* One bit for each slot of the table's statistics. The bit is 1 if the rule of the slot has
	 * its own metric series. */
	uint8_t slots[WR_METRICS_SLOTS_MAX / 8];
};

void wr_metrics_choice_init(struct wr_metrics_choice *choice, uint32_t rules_max);
void wr_metrics_choice_free(struct wr_metrics_choice *choice);

struct wr_metrics_view {
	struct weir_table *table;
	struct weir_engine *engine;
	const struct weir_info *info; /* the result of weir_info() for the table */
	uint64_t now_ns;
};

/* Writes all families of rules, table and engine. The caller calls wr_prom_end(). Any thread may
 * call. Returns 0. On failure, returns WEIR_EMEMORY and writes nothing. */
int wr_metrics_write(struct wr_prom *prom, struct wr_metrics_choice *choice,
		     const struct wr_metrics_view *view);

#endif
