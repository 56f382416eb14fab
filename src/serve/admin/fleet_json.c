/* Writes the body of GET /v1/fleet: the processes that decide with this table, the latency of
 * decisions, and the gauges about Redis and other nodes. Called by watch.c. */
#include "base/clock.h"
#include "serve/admin/admin.h"
#include "serve/admin/watch_json.h"

/* Gauges that were set longer ago than this are not written. A running service sets its gauges
 * every second, so the process that set an older gauge has ended. */
#define GAUGE_MAX_AGE_NS (60ull * WR_SECOND_NS)

/* ---- hosts ---- */

static int write_host(void *context, const struct weir_host *host)
{
	struct wr_json_out *json = context;

	if (!host->alive)
		return 0;
	wr_json_object(json);
	wr_json_member_uint(json, "pid", host->pid);
	wr_json_member_bytes(json, "name", host->name);
	if (host->rules_hash)
		wr_admin_json_hash(json, "rules_hash", host->rules_hash);
	else
		wr_json_member_null(json, "rules_hash");
	wr_json_member_uint(json, "generation", host->generation);
	wr_json_member_seconds(json, "loaded_at", host->loaded_ns);
	wr_json_member_uint(json, "loads_good", host->loads_good);
	wr_json_member_uint(json, "loads_failed", host->loads_failed);
	if (host->failed_ns)
		wr_json_member_bytes(json, "error", host->error);
	else
		wr_json_member_null(json, "error");
	wr_json_end_object(json);
	return 0;
}

/* ---- gauges ---- */

struct gauge_writer {
	struct wr_json_out *json;
	uint64_t now_ns;
};

static int write_gauge(void *context, const struct weir_gauge *gauge)
{
	const struct gauge_writer *writer = context;

	if (gauge->set_ns + GAUGE_MAX_AGE_NS < writer->now_ns)
		return 0;
	wr_json_key(writer->json, gauge->name);
	wr_json_int(writer->json, gauge->value);
	return 0;
}

void wr_admin_json_gauges(struct wr_json_out *json, const struct wr_admin_view *view)
{
	struct gauge_writer writer = {json, view->now_ns};

	wr_json_key(json, "gauges");
	wr_json_object(json);
	weir_gauges_each(view->table, write_gauge, &writer);
	wr_json_end_object(json);
}

/* ---- latency ---- */

static uint64_t quantile_ns(const struct weir_latency *latency, unsigned percent)
{
	uint64_t wanted = latency->count - latency->count * (100 - percent) / 100, seen = 0;

	for (unsigned i = 0; i < WEIR_LATENCY_BUCKETS; i++) {
		seen += latency->bucket[i];
		if (seen >= wanted && seen)
			return weir_latency_below(i);
	}
	return 0;
}

static void write_latency(struct wr_json_out *json, const char *name, struct weir_table *table,
			  enum weir_latency_kind kind)
{
	struct weir_latency latency = {.size = sizeof latency};

	if (weir_latency(table, kind, &latency) != 0 || latency.count == 0) {
		wr_json_member_null(json, name);
		return;
	}
	wr_json_key(json, name);
	wr_json_object(json);
	wr_json_member_uint(json, "count", latency.count);
	wr_json_member_uint(json, "mean_ns", latency.sum_ns / latency.count);
	wr_json_member_uint(json, "p50_ns", quantile_ns(&latency, 50));
	wr_json_member_uint(json, "p99_ns", quantile_ns(&latency, 99));
	wr_json_end_object(json);
}

void wr_admin_json_latency(struct wr_json_out *json, const struct wr_admin_view *view)
{
	wr_json_key(json, "latency");
	wr_json_object(json);
	write_latency(json, "local", view->table, WEIR_LATENCY_LOCAL);
	write_latency(json, "central", view->table, WEIR_LATENCY_CENTRAL);
	wr_json_end_object(json);
}

int wr_admin_json_fleet(struct wr_json_out *json, const struct wr_admin_view *view)
{
	int rc;

	wr_json_key(json, "hosts");
	wr_json_array(json);
	rc = weir_hosts_each(view->table, write_host, json);
	wr_json_end_array(json);
	wr_admin_json_gauges(json, view);
	wr_admin_json_latency(json, view);
	return rc;
}
