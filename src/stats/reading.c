/* What a table that keeps totals alone has to say. */
#include "stats/stats.h"

int weir_tick(struct weir_table *table, uint64_t now_ns)
{
	return !table ? WEIR_EINVAL : now_ns > INT64_MAX ? WEIR_ETIME : 0;
}

int weir_stats_slot(struct weir_table *table, uint32_t slot, char name[WEIR_STAT_NAME_BYTES],
		    struct weir_stat *stat)
{
	return table && name && stat && slot ? WEIR_ENOENT : WEIR_EINVAL;
}

int weir_history(struct weir_table *table, uint32_t slot, enum weir_span span,
		 struct weir_point *points, size_t max, uint64_t *end_s)
{
	return table && points && end_s && span && max && slot ? WEIR_ENOENT : WEIR_EINVAL;
}

int weir_top(struct weir_table *table, uint32_t slot, enum weir_top_list list,
	     struct weir_top_key *keys, size_t max, struct weir_top_info *info)
{
	(void)info;
	return table && keys && max && slot && list <= WEIR_TOP_REFUSED ? WEIR_ENOENT : WEIR_EINVAL;
}

int weir_candidates_each(struct weir_table *table, weir_candidate_fn fn, void *context)
{
	(void)context;
	return table && fn ? 0 : WEIR_EINVAL;
}

uint64_t weir_latency_below(unsigned i)
{
	if (i + 1 >= WEIR_LATENCY_BUCKETS)
		return UINT64_MAX;
	return (uint64_t)(4 + i % 4) << (4 + i / 4);
}

int weir_latency(struct weir_table *table, enum weir_latency_kind kind,
		 struct weir_latency *latency)
{
	if (!table || !latency || latency->size != sizeof *latency || kind > WEIR_LATENCY_CENTRAL)
		return WEIR_EINVAL;
	*latency = (struct weir_latency){.size = sizeof *latency};
	return 0;
}

int weir_hosts_each(struct weir_table *table, weir_host_fn fn, void *context)
{
	(void)context;
	return table && fn ? 0 : WEIR_EINVAL;
}

int weir_gauge_set(struct weir_table *table, enum weir_gauge_name gauge, int64_t value,
		   uint64_t now_ns)
{
	(void)value;
	(void)now_ns;
	return table && gauge < WEIR_GAUGE_COUNT ? 0 : WEIR_EINVAL;
}

int weir_gauges_each(struct weir_table *table, weir_gauge_fn fn, void *context)
{
	(void)context;
	return table && fn ? 0 : WEIR_EINVAL;
}

int weir_stats_info(struct weir_table *table, struct weir_stats_info *info)
{
	if (!table || !info || info->size != sizeof *info)
		return WEIR_EINVAL;
	*info = (struct weir_stats_info){.size = sizeof *info};
	return 0;
}
