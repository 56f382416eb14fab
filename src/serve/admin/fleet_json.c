/* Who decides on this table, how long that takes, and what is known of the store and other nodes.
 */
#include <stdio.h>

#include "wire/json.h"
#include "serve/admin/watch_json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define GAUGE_OLD_NS (60 * 1000000000ull) /* who said it has gone */

/* ---- hosts ---- */

struct list {
	struct wr_text *out;
	uint64_t now_ns;
	bool more;
};

static void put_host(struct wr_text *out, const struct weir_host *host)
{
	char hash[20];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)host->rules_hash);
	wr_watch_put_number(out, "pid", host->pid);
	PUT(out, ",\"name\":");
	wr_json_put_bytes(out, host->name);
	PUT(out, ",\"rules_hash\":");
	wr_json_put_text_or_null(out, wr_str(host->rules_hash ? hash : ""));
	PUT(out, ",");
	wr_watch_put_number(out, "generation", host->generation);
	PUT(out, ",\"loaded_at\":");
	wr_json_put_seconds(out, host->loaded_ns);
	PUT(out, ",");
	wr_watch_put_number(out, "loads_good", host->loads_good);
	PUT(out, ",");
	wr_watch_put_number(out, "loads_failed", host->loads_failed);
	PUT(out, ",\"error\":");
	if (host->failed_ns)
		wr_json_put_bytes(out, host->error);
	else
		PUT(out, "null");
}

static int on_host(void *context, const struct weir_host *host)
{
	struct list *list = context;

	if (!host->alive)
		return 0;
	wr_text_put(list->out, list->more ? WR_STR(",{") : WR_STR("{"));
	list->more = true;
	put_host(list->out, host);
	PUT(list->out, "}");
	return 0;
}

/* ---- gauges ---- */

static int on_gauge(void *context, const struct weir_gauge *gauge)
{
	struct list *list = context;

	if (gauge->set_ns + GAUGE_OLD_NS < list->now_ns)
		return 0;
	if (list->more)
		wr_text_char(list->out, ',');
	list->more = true;
	wr_json_put_text(list->out, wr_str(gauge->name));
	wr_text_char(list->out, ':');
	if (gauge->value < 0)
		wr_text_char(list->out, '-');
	wr_text_number(list->out,
		       gauge->value < 0 ? 0 - (uint64_t)gauge->value : (uint64_t)gauge->value);
	return 0;
}

void wr_gauges_json(const struct wr_watch_view *view, struct wr_text *out)
{
	struct list list = {out, view->now_ns, false};

	PUT(out, "{");
	weir_gauges_each(view->table, on_gauge, &list);
	PUT(out, "}");
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

static void put_latency(struct wr_text *out, struct weir_table *table, enum weir_latency_kind kind)
{
	struct weir_latency latency = {.size = sizeof latency};

	if (weir_latency(table, kind, &latency) != 0 || latency.count == 0) {
		PUT(out, "null");
		return;
	}
	PUT(out, "{");
	wr_watch_put_number(out, "count", latency.count);
	PUT(out, ",");
	wr_watch_put_number(out, "mean_ns", latency.sum_ns / latency.count);
	PUT(out, ",");
	wr_watch_put_number(out, "p50_ns", quantile_ns(&latency, 50));
	PUT(out, ",");
	wr_watch_put_number(out, "p99_ns", quantile_ns(&latency, 99));
	PUT(out, "}");
}

void wr_latency_json(const struct wr_watch_view *view, struct wr_text *out)
{
	PUT(out, "{\"local\":");
	put_latency(out, view->table, WEIR_LATENCY_LOCAL);
	PUT(out, ",\"central\":");
	put_latency(out, view->table, WEIR_LATENCY_CENTRAL);
	PUT(out, "}");
}

int wr_fleet_json(const struct wr_watch_view *view, struct wr_text *out)
{
	struct list list = {out, view->now_ns, false};
	int rc;

	PUT(out, "\"hosts\":[");
	rc = weir_hosts_each(view->table, on_host, &list);
	PUT(out, "],\"gauges\":");
	wr_gauges_json(view, out);
	PUT(out, ",\"latency\":");
	wr_latency_json(view, out);
	return rc;
}
