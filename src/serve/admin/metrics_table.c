/* Writes the metrics of the table and the engine. Called by metrics.c. */
#include <stdio.h>

#include "serve/admin/metrics_families.h"

#include "base/assert.h"

const struct wr_prom_family wr_metrics[] = {
#define WR_METRIC_ROW(id, name, type, unit, help) {name, WR_PROM_##type, unit, help},
	WR_METRICS(WR_METRIC_ROW)
#undef WR_METRIC_ROW
};

void wr_metrics_put(struct wr_prom *prom, enum wr_metric metric, uint64_t value)
{
	wr_assert(wr_metrics[metric].name);
	wr_prom_family(prom, &wr_metrics[metric]);
	wr_prom_number(prom, NULL, 0, value);
}

static void write_labelled(struct wr_prom *prom, const char *name, const char *text, uint64_t value)
{
	struct wr_prom_label label = {name, wr_str(text)};

	wr_prom_number(prom, &label, 1, value);
}

static void write_table_info(struct wr_prom *prom, const struct weir_info *info)
{
	char id[40];
	struct wr_prom_label labels[] = {{"id", {id, 32}}, {"path", wr_str(info->path)}};

	snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)info->table_id[0],
		 (unsigned long long)info->table_id[1]);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_table]);
	wr_prom_number(prom, labels, 2, 1);
}

void wr_metrics_put_table(struct wr_prom *prom, const struct weir_info *info)
{
	write_table_info(prom, info);
	wr_metrics_put(prom, WR_METRIC_table_keys, info->keys);
	wr_metrics_put(prom, WR_METRIC_table_keys_refused, info->keys_refused);
	wr_metrics_put(prom, WR_METRIC_table_room, info->cells);
	wr_metrics_put(prom, WR_METRIC_table_bytes, info->memory_bytes);
	wr_metrics_put(prom, WR_METRIC_log_bytes, info->log_bytes);
	wr_metrics_put(prom, WR_METRIC_log_used, info->log_bytes_used);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_evictions]);
	write_labelled(prom, "kind", "expired", info->expired);
	write_labelled(prom, "kind", "live", info->evicted);
	write_labelled(prom, "kind", "refused", info->evicted_refused);
	write_labelled(prom, "kind", "log", info->log_evicted);
	write_labelled(prom, "kind", "override", info->override_evicted);
	wr_metrics_put(prom, WR_METRIC_log_approximate, info->log_approximate);
	wr_metrics_put(prom, WR_METRIC_log_full, info->log_full);
	wr_metrics_put(prom, WR_METRIC_log_lost, info->log_lost);
	wr_metrics_put(prom, WR_METRIC_claims_stolen, info->stolen);
}

void wr_metrics_put_engine(struct wr_prom *prom, struct weir_engine *engine)
{
	struct weir_engine_info info = {.size = sizeof info};
	char hash[20];

	if (weir_engine_info(engine, &info) < 0)
		return;
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info.hash);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_rules]);
	write_labelled(prom, "hash", hash, 1);
	wr_metrics_put(prom, WR_METRIC_generation, info.generation);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_rules_loaded]);
	wr_prom_micros(prom, NULL, 0, info.loaded_ns / 1000);
	wr_metrics_put(prom, WR_METRIC_rules_failed, info.failed_ns != 0);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_loads]);
	write_labelled(prom, "result", "good", info.loads_good);
	write_labelled(prom, "result", "failed", info.loads_failed);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_build]);
	write_labelled(prom, "version", weir_version(), 1);
}
