/* Writes the metrics of rules and candidates, and defines the order of all metric families. Called
 * by metrics_route.c. */
#include "serve/admin/metrics.h"

#include <weir/stats.h>

#include "base/assert.h"
#include "serve/admin/metrics_families.h"
#include "serve/admin/metrics_rules.h"

static struct weir_str algorithm_name(const struct weir_stat *stat)
{
	const char *name = weir_algorithm_name((int)stat->algorithm);

	if (stat->flags & WEIR_STAT_UNLIMITED)
		return WR_STR("unlimited");
	/* The algorithm is "unknown" if requests bring their own limits. */
	return wr_str(name ? name : "unknown");
}

static void write_rule(struct wr_prom *prom, const struct wr_metrics_row *row, const char *result,
		       uint64_t value, bool micros)
{
	struct wr_prom_label labels[] = {{"domain", {row->domain, row->domain_len}},
					 {"rule", row->stat.rule},
					 {"algorithm", algorithm_name(&row->stat)},
					 {"result", wr_str(result ? result : "")}};

	if (micros)
		wr_prom_micros(prom, labels, result ? 4 : 3, value);
	else
		wr_prom_number(prom, labels, result ? 4 : 3, value);
}

/* Writes the decisions of a rule. Each rule has the series "admitted" and "refused" from the start,
 * so that its first refusal is an increase and not a new series. The series of any other result
 * begins when that result first occurs. */
static void write_decisions(struct wr_prom *prom, const struct wr_metrics_row *row)
{
	write_rule(prom, row, "admitted", row->stat.admitted, false);
	write_rule(prom, row, "refused", row->stat.refused, false);
	if (row->stat.shadowed)
		write_rule(prom, row, "shadowed", row->stat.shadowed, false);
	if (row->stat.deferred)
		write_rule(prom, row, "deferred", row->stat.deferred, false);
}

static void write_near(struct wr_prom *prom, const struct wr_metrics_row *row)
{
	write_rule(prom, row, NULL, row->stat.near_limit, false);
}

static void write_soft(struct wr_prom *prom, const struct wr_metrics_row *row)
{
	if (row->stat.soft)
		write_rule(prom, row, NULL, row->stat.soft, false);
}

static void write_delayed(struct wr_prom *prom, const struct wr_metrics_row *row)
{
	if (row->stat.delayed)
		write_rule(prom, row, NULL, row->stat.delayed, false);
}

static void write_delay(struct wr_prom *prom, const struct wr_metrics_row *row)
{
	if (row->stat.delayed)
		write_rule(prom, row, NULL, row->stat.delay_us, true);
}

static void write_family(struct wr_prom *prom, enum wr_metric metric,
			 const struct wr_metrics_reading *reading,
			 void (*write)(struct wr_prom *prom, const struct wr_metrics_row *row))
{
	struct wr_metrics_row other = {.stat = reading->own[WEIR_STAT_OTHER]};

	wr_prom_family(prom, &wr_metrics[metric]);
	for (uint32_t i = 0; i < reading->row_count; i++)
		write(prom, &reading->rows[i]);
	other.stat.rule = WR_STR("other");
	write(prom, &other);
}

/* The metrics of costs. `at` is the offset of the count in struct weir_cost. */
static const struct {
	enum wr_metric metric;
	bool slots; /* a metric of limits on concurrent requests */
	size_t at;
} cost_families[] = {
	{WR_METRIC_cost_reserved, false, offsetof(struct weir_cost, reserved)},
	{WR_METRIC_cost_actual, false, offsetof(struct weir_cost, actual)},
	{WR_METRIC_cost_refunded, false, offsetof(struct weir_cost, refunded)},
	{WR_METRIC_cost_debt, false, offsetof(struct weir_cost, owed)},
	{WR_METRIC_cost_lost, false, offsetof(struct weir_cost, lost)},
	{WR_METRIC_cost_defaulted, false, offsetof(struct weir_cost, defaulted)},
	{WR_METRIC_cost_clamped, false, offsetof(struct weir_cost, clamped)},
	{WR_METRIC_settled, false, offsetof(struct weir_cost, settled)},
	{WR_METRIC_slots_in_use, true, offsetof(struct weir_cost, in_use)},
	{WR_METRIC_slots_taken, true, offsetof(struct weir_cost, reserved)},
	{WR_METRIC_slots_lost, true, offsetof(struct weir_cost, lost)},
};

static void write_cost(struct wr_prom *prom, const struct wr_metrics_row *row, size_t family)
{
	const struct weir_cost *cost = cost_families[family].slots ? &row->slots : &row->units;
	uint64_t count;

	if (cost->size == 0)
		return;
	memcpy(&count, (const char *)cost + cost_families[family].at, sizeof count);
	write_rule(prom, row, NULL, count, false);
}

static void write_costs(struct wr_prom *prom, const struct wr_metrics_reading *reading)
{
	struct wr_metrics_row other = {.stat = {.rule = WR_STR("other")},
				       .units = reading->other_units,
				       .slots = reading->other_slots};

	for (size_t i = 0; i < sizeof cost_families / sizeof *cost_families; i++) {
		wr_prom_family(prom, &wr_metrics[cost_families[i].metric]);
		for (uint32_t k = 0; k < reading->row_count; k++)
			write_cost(prom, &reading->rows[k], i);
		write_cost(prom, &other, i);
	}
}

/* The metrics of bans. `at` is the offset of the count in struct weir_ban_stat. */
static const struct {
	enum wr_metric metric;
	size_t at;
} ban_families[] = {
	{WR_METRIC_bans_started, offsetof(struct weir_ban_stat, started)},
	{WR_METRIC_ban_refusals, offsetof(struct weir_ban_stat, refused)},
	{WR_METRIC_bans_shadow, offsetof(struct weir_ban_stat, would_start)},
	{WR_METRIC_ban_shadow_refusals, offsetof(struct weir_ban_stat, would_refuse)},
};

static void write_ban(struct wr_prom *prom, const struct wr_metrics_row *row, size_t family)
{
	uint64_t count;

	if (row->bans.size == 0)
		return;
	memcpy(&count, (const char *)&row->bans + ban_families[family].at, sizeof count);
	write_rule(prom, row, NULL, count, false);
}

static void write_bans(struct wr_prom *prom, const struct wr_metrics_reading *reading)
{
	struct wr_metrics_row other = {.stat = {.rule = WR_STR("other")},
				       .bans = reading->other_bans};

	for (size_t i = 0; i < sizeof ban_families / sizeof *ban_families; i++) {
		wr_prom_family(prom, &wr_metrics[ban_families[i].metric]);
		for (uint32_t k = 0; k < reading->row_count; k++)
			write_ban(prom, &reading->rows[k], i);
		write_ban(prom, &other, i);
	}
}

static void write_ruleless(struct wr_prom *prom, const struct wr_metrics_reading *reading)
{
	static const struct {
		enum weir_stat_name name;
		const char *reason;
	} reasons[] = {
#define REASON_ROW(name, text, what) {name, text},
		WEIR_STAT_NAMES(REASON_ROW)
#undef REASON_ROW
	};

	wr_prom_family(prom, &wr_metrics[WR_METRIC_ruleless]);
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		const struct weir_stat *stat = &reading->own[reasons[i].name];
		struct wr_prom_label label = {"reason", wr_str(reasons[i].reason)};

		if (reasons[i].name != WEIR_STAT_OTHER)
			wr_prom_number(prom, &label, 1, stat->admitted + stat->refused);
	}
}

static void write_candidate(struct wr_prom *prom, const struct wr_metrics_candidate *candidate,
			    const char *name, const char *value, uint64_t number)
{
	const struct wr_metrics_row *row = candidate->row;
	struct wr_prom_label labels[] = {{"domain", {row->domain, row->domain_len}},
					 {"rule", row->stat.rule},
					 {"candidate", candidate->counts.text},
					 {name, wr_str(value)}};

	wr_prom_number(prom, labels, 4, number);
}

static void write_candidates(struct wr_prom *prom, const struct wr_metrics_reading *reading)
{
	wr_prom_family(prom, &wr_metrics[WR_METRIC_candidates]);
	for (uint32_t i = 0; i < reading->candidate_count; i++) {
		const struct wr_metrics_candidate *c = &reading->candidates[i];

		write_candidate(prom, c, "result", "admitted", c->counts.would_admit);
		write_candidate(prom, c, "result", "refused", c->counts.would_refuse);
	}
	wr_prom_family(prom, &wr_metrics[WR_METRIC_candidates_differ]);
	for (uint32_t i = 0; i < reading->candidate_count; i++) {
		const struct wr_metrics_candidate *c = &reading->candidates[i];

		write_candidate(prom, c, "how", "admits", c->counts.admits_more);
		write_candidate(prom, c, "how", "refuses", c->counts.refuses_more);
	}
}

static void write_rules(struct wr_prom *prom, const struct wr_metrics_reading *reading)
{
	write_family(prom, WR_METRIC_decisions, reading, write_decisions);
	write_family(prom, WR_METRIC_near_limit, reading, write_near);
	write_family(prom, WR_METRIC_soft, reading, write_soft);
	write_family(prom, WR_METRIC_delayed, reading, write_delayed);
	write_family(prom, WR_METRIC_delay, reading, write_delay);
	write_costs(prom, reading);
	write_bans(prom, reading);
	write_ruleless(prom, reading);
	write_candidates(prom, reading);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_rules_in_other]);
	wr_prom_number(prom, NULL, 0, reading->left_out);
}

int wr_metrics_write(struct wr_prom *prom, struct wr_metrics_choice *choice,
		     const struct wr_metrics_view *view)
{
	struct wr_metrics_reading reading;
	int rc;

	wr_assert(view->table && view->engine && view->info);
	rc = wr_metrics_read(&reading, choice, view);
	if (rc == 0) {
		write_rules(prom, &reading);
		wr_metrics_put_table(prom, view->info);
		wr_metrics_put_bans(prom, view->table, view->info, view->now_ns);
		wr_metrics_put_engine(prom, view->engine);
		wr_metrics_put_latency(prom, view->table);
		wr_metrics_put_hosts(prom, view->table);
		wr_metrics_put_gauges(prom, view->table, view->now_ns);
	}
	wr_metrics_reading_free(&reading);
	return rc;
}
