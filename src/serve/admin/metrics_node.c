/* Writes the metrics that processes store in the table: the latency of decisions, the rules of each
 * process, and gauges about Redis and the queue. Called by metrics.c. */
#include <stdio.h>

#include <weir/stats.h>

#include "base/clock.h"
#include "serve/admin/metrics_families.h"

/* The table has four latency buckets for each power of two. The metric adds these four up to one
 * bucket. */
#define STEPS 4u
#define BOUNDS (WEIR_LATENCY_BUCKETS / STEPS)
#define HOSTS_MAX 64u
#define HOST_NAME 24u
/* Gauges that were set longer ago than this are not written. A running service sets its gauges
 * every second, so the process that set an older gauge has ended. */
#define GAUGE_MAX_AGE_NS (60ull * WR_SECOND_NS)

/* ---- latency ---- */

static void write_latency(struct wr_prom *prom, const char *kind,
			  const struct weir_latency *latency)
{
	uint64_t bounds[BOUNDS], counts[BOUNDS + 1] = {0};
	struct wr_prom_histogram histogram = {bounds, counts, BOUNDS, latency->sum_ns};
	struct wr_prom_label label = {"store", wr_str(kind)};

	for (unsigned i = 0; i < BOUNDS; i++)
		bounds[i] = weir_latency_below(i * STEPS + STEPS - 1);
	for (unsigned i = 0; i < WEIR_LATENCY_BUCKETS; i++)
		counts[i / STEPS < BOUNDS ? i / STEPS : BOUNDS] += latency->bucket[i];
	wr_prom_histogram(prom, &label, 1, &histogram);
}

void wr_metrics_put_latency(struct wr_prom *prom, struct weir_table *table)
{
	static const char *const kinds[] = {
		[WEIR_LATENCY_LOCAL] = "local", [WEIR_LATENCY_CENTRAL] = "central"};

	wr_prom_family(prom, &wr_metrics[WR_METRIC_latency]);
	for (unsigned i = 0; i < 2; i++) {
		struct weir_latency latency = {.size = sizeof latency};

		if (weir_latency(table, (enum weir_latency_kind)i, &latency) == 0)
			write_latency(prom, kinds[i], &latency);
	}
}

/* ---- hosts ---- */

/* A group of processes with the same name and the same rules. */
struct host_group {
	char name[HOST_NAME];
	uint64_t hash;
	uint64_t count, failed;
};

struct host_groups {
	struct host_group items[HOSTS_MAX];
	size_t count;
};

static int on_host(void *context, const struct weir_host *host)
{
	struct host_groups *groups = context;
	struct weir_str name = wr_str_first(host->name, HOST_NAME - 1);
	size_t i = 0;

	if (!host->alive)
		return 0;
	while (i < groups->count && (groups->items[i].hash != host->rules_hash ||
				     !wr_str_equal(wr_str(groups->items[i].name), name)))
		i++;
	if (i == HOSTS_MAX)
		return 0;
	if (i == groups->count) {
		groups->items[i].hash = host->rules_hash;
		memcpy(groups->items[i].name, name.ptr, name.len);
		groups->count++;
	}
	groups->items[i].count++;
	groups->items[i].failed += host->failed_ns != 0;
	return 0;
}

static void write_groups(struct wr_prom *prom, enum wr_metric metric,
			 const struct host_groups *groups)
{
	wr_prom_family(prom, &wr_metrics[metric]);
	for (size_t i = 0; i < groups->count; i++) {
		const struct host_group *group = &groups->items[i];
		char hash[20];
		struct wr_prom_label labels[] = {{"host", wr_str(group->name)},
						 {"rules_hash", {hash, 16}}};

		snprintf(hash, sizeof hash, "%016llx", (unsigned long long)group->hash);
		wr_prom_number(prom, labels, 2,
			       metric == WR_METRIC_hosts ? group->count : group->failed);
	}
}

void wr_metrics_put_hosts(struct wr_prom *prom, struct weir_table *table)
{
	struct host_groups groups = {.count = 0};

	weir_hosts_each(table, on_host, &groups);
	write_groups(prom, WR_METRIC_hosts, &groups);
	write_groups(prom, WR_METRIC_hosts_failed, &groups);
}

/* ---- gauges ---- */

/* The metric of each gauge; the index is an enum weir_gauge_name. If `micros` is true, the value of
 * the gauge is in millionths. A gauge that is not listed here gets metric 0 and is not written. */
static const struct {
	enum wr_metric metric;
	bool micros;
} gauges[WEIR_GAUGE_COUNT] = {
	[WEIR_GAUGE_STORE_UP] = {WR_METRIC_store_up, false},
	[WEIR_GAUGE_STORE_BREAKER] = {WR_METRIC_store_breaker, false},
	[WEIR_GAUGE_STORE_NODES] = {WR_METRIC_store_nodes, false},
	[WEIR_GAUGE_STORE_NODES_UP] = {WR_METRIC_store_nodes_up, false},
	[WEIR_GAUGE_STORE_RTT_US] = {WR_METRIC_store_rtt, true},
	[WEIR_GAUGE_STORE_WAITING] = {WR_METRIC_store_waiting, false},
	[WEIR_GAUGE_FLEET_NODES] = {WR_METRIC_fleet_nodes, false},
	[WEIR_GAUGE_SHARE_PPM] = {WR_METRIC_share, true},
	[WEIR_GAUGE_LEASES] = {WR_METRIC_leases, false},
	[WEIR_GAUGE_LEASED_UNITS] = {WR_METRIC_leased, false},
	[WEIR_GAUGE_OVERSHOOT_PPM] = {WR_METRIC_overshoot, true},
	[WEIR_GAUGE_LEASES_GRANTED] = {WR_METRIC_leases_granted, false},
	[WEIR_GAUGE_LEASES_RENEWED] = {WR_METRIC_leases_renewed, false},
	[WEIR_GAUGE_LEASES_VOIDED] = {WR_METRIC_leases_voided, false},
	[WEIR_GAUGE_UNITS_GRANTED] = {WR_METRIC_units_granted, false},
	[WEIR_GAUGE_UNITS_SPENT] = {WR_METRIC_units_spent, false},
	[WEIR_GAUGE_UNITS_RETURNED] = {WR_METRIC_units_returned, false},
	[WEIR_GAUGE_UNITS_BURNT] = {WR_METRIC_units_burnt, false},
	[WEIR_GAUGE_EXCHANGES] = {WR_METRIC_exchanges, false},
	[WEIR_GAUGE_PUSHES] = {WR_METRIC_pushes, false},
	[WEIR_GAUGE_REGIONS] = {WR_METRIC_regions, false},
	[WEIR_GAUGE_REGIONS_UP] = {WR_METRIC_regions_up, false},
	[WEIR_GAUGE_QUEUE_DEPTH] = {WR_METRIC_queue_depth, false},
	[WEIR_GAUGE_QUEUE_BYTES] = {WR_METRIC_queue_bytes, false},
	[WEIR_GAUGE_QUEUE_OLDEST_US] = {WR_METRIC_queue_oldest, true},
	[WEIR_GAUGE_QUEUE_DEAD] = {WR_METRIC_queue_dead, false},
	[WEIR_GAUGE_QUEUE_SENDING] = {WR_METRIC_queue_sending, false},
	[WEIR_GAUGE_QUEUE_TARGET_UP] = {WR_METRIC_queue_target_up, false},
};

struct gauge_metrics {
	struct wr_prom *prom;
	uint64_t now_ns;
};

static int on_gauge(void *context, const struct weir_gauge *gauge)
{
	const struct gauge_metrics *list = context;
	uint64_t value = gauge->value > 0 ? (uint64_t)gauge->value : 0;

	if (gauge->number >= WEIR_GAUGE_COUNT || gauges[gauge->number].metric == 0 ||
	    gauge->set_ns + GAUGE_MAX_AGE_NS < list->now_ns)
		return 0;
	wr_prom_family(list->prom, &wr_metrics[gauges[gauge->number].metric]);
	if (gauges[gauge->number].micros)
		wr_prom_micros(list->prom, NULL, 0, value);
	else
		wr_prom_number(list->prom, NULL, 0, value);
	return 0;
}

void wr_metrics_put_gauges(struct wr_prom *prom, struct weir_table *table, uint64_t now_ns)
{
	struct gauge_metrics list = {prom, now_ns};

	weir_gauges_each(table, on_gauge, &list);
}
