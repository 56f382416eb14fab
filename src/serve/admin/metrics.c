/* Writes the metrics of rules and candidates, and defines the order of all metric families. Called
 * by metrics_route.c. */
#include "serve/admin/metrics.h"

#include <stdlib.h>

#include <weir/stats.h>

#include "base/assert.h"
#include "serve/admin/metrics_families.h"
#include "serve/admin/watch_json.h"

/* The maximum number of candidates that are written is this factor times choice->max. */
#define CANDIDATES_MAX 4u

/* A rule that has metric series of its own. */
struct metric_row {
	struct weir_stat stat;
	char name[WEIR_STAT_NAME_BYTES];
	char domain[WEIR_STAT_NAME_BYTES];
	size_t domain_len;
	/* The costs of the rule, in units or in slots. The size is 0 if the rule has none. */
	struct weir_cost units, slots;
	struct weir_ban_stat bans; /* the size is 0 if the rule has counted no ban */
};

struct metric_candidate {
	struct weir_candidate counts;
	const struct metric_row *row;
	char text[WEIR_STAT_NAME_BYTES];
};

struct metric_reading {
	struct wr_metrics_choice *choice;
	uint64_t loaded_ns; /* when the current rules were loaded */
	struct metric_row *rows;
	uint32_t row_count;
	struct metric_candidate *candidates;
	uint32_t candidate_count, candidate_max;
	uint32_t left_out; /* number of rules that are counted in own[WEIR_STAT_OTHER] */
	/* Statistics that do not belong to a single rule; the index is an enum weir_stat_name. */
	struct weir_stat own[WEIR_STAT_RULES];
	struct weir_cost other_units, other_slots; /* costs of the rules in own[WEIR_STAT_OTHER] */
	struct weir_ban_stat other_bans;           /* bans of these rules */
};

/* ---- choosing rules ---- */

void wr_metrics_choice_init(struct wr_metrics_choice *choice, uint32_t rules_max)
{
	wr_assert(rules_max);
	*choice = (struct wr_metrics_choice){.max = rules_max};
	pthread_mutex_init(&choice->lock, NULL);
}

void wr_metrics_choice_free(struct wr_metrics_choice *choice)
{
	pthread_mutex_destroy(&choice->lock);
}

/* If the table has been replaced, forgets which rules have series of their own. These rules are
 * stored by their slots in the statistics, and a rule can have another slot in the new table. */
static void follow_table(struct wr_metrics_choice *choice, const struct weir_info *info)
{
	if (choice->table_id[0] == info->table_id[0] && choice->table_id[1] == info->table_id[1])
		return;
	memset(choice->slots, 0, sizeof choice->slots);
	choice->count = 0;
	choice->table_id[0] = info->table_id[0];
	choice->table_id[1] = info->table_id[1];
}

/* Returns whether the rule of a slot has its own metric series. A new rule gets its own series if
 * fewer than choice->max rules have one. */
static bool choose_slot(struct wr_metrics_choice *choice, uint32_t slot)
{
	uint8_t bit = (uint8_t)(1u << slot % 8);

	if (slot >= WR_METRICS_SLOTS_MAX)
		return false;
	if (choice->slots[slot / 8] & bit)
		return true;
	if (choice->count == choice->max)
		return false;
	choice->slots[slot / 8] |= bit;
	choice->count++;
	return true;
}

/* ---- reading ---- */

/* Writes the domain of a rule's name: the part before the first slash, decoded ("%2F" is a slash).
 * Returns the length of the domain. */
static size_t domain_of(struct weir_str rule, char domain[WEIR_STAT_NAME_BYTES])
{
	struct weir_str text = wr_str_first(rule, wr_str_find(rule, '/'));
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		int high = text.ptr[i] == '%' && i + 2 < text.len ? wr_hex(text.ptr[i + 1]) : -1;
		int low = high >= 0 ? wr_hex(text.ptr[i + 2]) : -1;

		domain[len++] = low >= 0 ? (char)(high << 4 | low) : text.ptr[i];
		i += low >= 0 ? 2 : 0;
	}
	return len;
}

static int on_stat(void *context, const struct weir_stat *stat)
{
	struct metric_reading *reading = context;
	struct metric_row *row;

	if (stat->slot < WEIR_STAT_RULES) {
		wr_admin_add_counts(&reading->own[stat->slot], stat);
		return 0;
	}
	if (!wr_admin_is_rule(stat))
		return 0;
	if (!choose_slot(reading->choice, stat->slot)) {
		wr_admin_add_counts(&reading->own[WEIR_STAT_OTHER], stat);
		reading->left_out++;
		return 0;
	}
	row = &reading->rows[reading->row_count++];
	row->stat = *stat;
	memcpy(row->name, stat->rule.ptr, stat->rule.len);
	row->stat.rule.ptr = row->name;
	row->domain_len = domain_of(row->stat.rule, row->domain);
	row->units.size = row->slots.size = row->bans.size = 0;
	return 0;
}

static struct metric_row *find_row(const struct metric_reading *reading, uint32_t slot)
{
	uint32_t low = 0, high = reading->row_count;

	while (low < high) { /* binary search: rows are sorted by slot */
		uint32_t middle = (low + high) / 2;

		if (reading->rows[middle].stat.slot < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low < reading->row_count && reading->rows[low].stat.slot == slot
		       ? &reading->rows[low]
		       : NULL;
}

/* Copies a candidate. Skips a candidate that the current rules do not have: the table still has the
 * candidates of older rules. */
static int on_candidate(void *context, const struct weir_candidate *counts)
{
	struct metric_reading *reading = context;
	const struct metric_row *row = find_row(reading, counts->rule_slot);
	struct metric_candidate *candidate;

	if (!row || counts->loaded_ns < row->stat.loaded_ns)
		return 0;
	if (reading->candidate_count == reading->candidate_max)
		return 1;
	candidate = &reading->candidates[reading->candidate_count++];
	candidate->counts = *counts;
	candidate->row = row;
	candidate->counts.text = wr_str_first(counts->text, sizeof candidate->text);
	memcpy(candidate->text, counts->text.ptr, candidate->counts.text.len);
	candidate->counts.text.ptr = candidate->text;
	return 0;
}

static void add_costs(struct weir_cost *sum, const struct weir_cost *cost)
{
	sum->size = cost->size;
#define ADD_COST(field, what) sum->field += cost->field;
	WEIR_COST_STATS(ADD_COST)
#undef ADD_COST
	sum->in_use += cost->in_use;
}

static int on_cost(void *context, const struct weir_cost *cost)
{
	struct metric_reading *reading = context;
	struct metric_row *row = find_row(reading, cost->slot);
	bool slots = cost->algorithm == WEIR_CONCURRENT;

	if (row)
		*(slots ? &row->slots : &row->units) = *cost;
	else
		add_costs(slots ? &reading->other_slots : &reading->other_units, cost);
	return 0;
}

static int on_ban(void *context, const struct weir_ban_stat *bans)
{
	struct metric_reading *reading = context;
	struct metric_row *row = find_row(reading, bans->slot);

	if (row) {
		row->bans = *bans;
		return 0;
	}
	reading->other_bans.size = bans->size;
#define ADD_BANS(field, what) reading->other_bans.field += bans->field;
	WEIR_BAN_STATS(ADD_BANS)
#undef ADD_BANS
	return 0;
}

static int count_candidate(void *context, const struct weir_candidate *counts)
{
	(void)counts;
	(*(size_t *)context)++;
	return 0;
}

/* Reads the candidates of the rules. Called after the rules have been read. */
static int read_candidates(struct weir_table *table, struct metric_reading *reading)
{
	size_t count = 0;

	weir_candidates_each(table, count_candidate, &count);
	if (count == 0)
		return 0;
	if (count > (size_t)CANDIDATES_MAX * reading->choice->max)
		count = (size_t)CANDIDATES_MAX * reading->choice->max;
	reading->candidate_max = (uint32_t)count;
	reading->candidates = malloc(count * sizeof *reading->candidates);
	if (!reading->candidates)
		return WEIR_EMEMORY;
	weir_candidates_each(table, on_candidate, reading);
	return 0;
}

/* Gives the rules in force their own metric series first. on_stat() later gives the remaining
 * series to older rules and to rules of other processes. */
static int choose_loaded(void *context, const struct weir_stat *stat)
{
	const struct metric_reading *reading = context;

	if (stat->slot >= WEIR_STAT_RULES && stat->loaded_ns &&
	    stat->loaded_ns >= reading->loaded_ns)
		choose_slot(reading->choice, stat->slot);
	return 0;
}

static int read_locked(const struct wr_metrics_view *view, struct metric_reading *reading)
{
	struct wr_metrics_choice *choice = reading->choice;
	struct weir_engine_info info = {.size = sizeof info};
	int rc;

	follow_table(choice, view->info);
	reading->rows = malloc((size_t)choice->max * sizeof *reading->rows);
	if (!reading->rows)
		return WEIR_EMEMORY;
	if (weir_engine_info(view->engine, &info) == 0)
		reading->loaded_ns = info.loaded_ns;
	if (choice->count < choice->max)
		weir_stats_each(view->table, choose_loaded, reading);
	rc = weir_stats_each(view->table, on_stat, reading);
	if (rc == 0)
		rc = weir_costs_each(view->table, on_cost, reading);
	if (rc == 0)
		rc = weir_bans_each(view->table, on_ban, reading);
	if (rc == 0)
		rc = read_candidates(view->table, reading);
	return rc == WEIR_ELAYOUT ? 0 : rc; /* a table of another version has no metrics of rules */
}

/* ---- writing ---- */

static struct weir_str algorithm_name(const struct weir_stat *stat)
{
	const char *name = weir_algorithm_name((int)stat->algorithm);

	if (stat->flags & WEIR_STAT_UNLIMITED)
		return WR_STR("unlimited");
	/* The algorithm is "unknown" if requests bring their own limits. */
	return wr_str(name ? name : "unknown");
}

static void write_rule(struct wr_prom *prom, const struct metric_row *row, const char *result,
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
static void write_decisions(struct wr_prom *prom, const struct metric_row *row)
{
	write_rule(prom, row, "admitted", row->stat.admitted, false);
	write_rule(prom, row, "refused", row->stat.refused, false);
	if (row->stat.shadowed)
		write_rule(prom, row, "shadowed", row->stat.shadowed, false);
	if (row->stat.deferred)
		write_rule(prom, row, "deferred", row->stat.deferred, false);
}

static void write_near(struct wr_prom *prom, const struct metric_row *row)
{
	write_rule(prom, row, NULL, row->stat.near_limit, false);
}

static void write_soft(struct wr_prom *prom, const struct metric_row *row)
{
	if (row->stat.soft)
		write_rule(prom, row, NULL, row->stat.soft, false);
}

static void write_delayed(struct wr_prom *prom, const struct metric_row *row)
{
	if (row->stat.delayed)
		write_rule(prom, row, NULL, row->stat.delayed, false);
}

static void write_delay(struct wr_prom *prom, const struct metric_row *row)
{
	if (row->stat.delayed)
		write_rule(prom, row, NULL, row->stat.delay_us, true);
}

static void write_family(struct wr_prom *prom, enum wr_metric metric,
			 const struct metric_reading *reading,
			 void (*write)(struct wr_prom *prom, const struct metric_row *row))
{
	struct metric_row other = {.stat = reading->own[WEIR_STAT_OTHER]};

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

static void write_cost(struct wr_prom *prom, const struct metric_row *row, size_t family)
{
	const struct weir_cost *cost = cost_families[family].slots ? &row->slots : &row->units;
	uint64_t count;

	if (cost->size == 0)
		return;
	memcpy(&count, (const char *)cost + cost_families[family].at, sizeof count);
	write_rule(prom, row, NULL, count, false);
}

static void write_costs(struct wr_prom *prom, const struct metric_reading *reading)
{
	struct metric_row other = {.stat = {.rule = WR_STR("other")},
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

static void write_ban(struct wr_prom *prom, const struct metric_row *row, size_t family)
{
	uint64_t count;

	if (row->bans.size == 0)
		return;
	memcpy(&count, (const char *)&row->bans + ban_families[family].at, sizeof count);
	write_rule(prom, row, NULL, count, false);
}

static void write_bans(struct wr_prom *prom, const struct metric_reading *reading)
{
	struct metric_row other = {.stat = {.rule = WR_STR("other")}, .bans = reading->other_bans};

	for (size_t i = 0; i < sizeof ban_families / sizeof *ban_families; i++) {
		wr_prom_family(prom, &wr_metrics[ban_families[i].metric]);
		for (uint32_t k = 0; k < reading->row_count; k++)
			write_ban(prom, &reading->rows[k], i);
		write_ban(prom, &other, i);
	}
}

static void write_ruleless(struct wr_prom *prom, const struct metric_reading *reading)
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

static void write_candidate(struct wr_prom *prom, const struct metric_candidate *candidate,
			    const char *name, const char *value, uint64_t number)
{
	const struct metric_row *row = candidate->row;
	struct wr_prom_label labels[] = {{"domain", {row->domain, row->domain_len}},
					 {"rule", row->stat.rule},
					 {"candidate", candidate->counts.text},
					 {name, wr_str(value)}};

	wr_prom_number(prom, labels, 4, number);
}

static void write_candidates(struct wr_prom *prom, const struct metric_reading *reading)
{
	wr_prom_family(prom, &wr_metrics[WR_METRIC_candidates]);
	for (uint32_t i = 0; i < reading->candidate_count; i++) {
		const struct metric_candidate *c = &reading->candidates[i];

		write_candidate(prom, c, "result", "admitted", c->counts.would_admit);
		write_candidate(prom, c, "result", "refused", c->counts.would_refuse);
	}
	wr_prom_family(prom, &wr_metrics[WR_METRIC_candidates_differ]);
	for (uint32_t i = 0; i < reading->candidate_count; i++) {
		const struct metric_candidate *c = &reading->candidates[i];

		write_candidate(prom, c, "how", "admits", c->counts.admits_more);
		write_candidate(prom, c, "how", "refuses", c->counts.refuses_more);
	}
}

static void write_rules(struct wr_prom *prom, const struct metric_reading *reading)
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
	struct metric_reading reading = {.choice = choice};
	int rc;

	wr_assert(view->table && view->engine && view->info);

	pthread_mutex_lock(&choice->lock);
	rc = read_locked(view, &reading);
	pthread_mutex_unlock(&choice->lock);
	if (rc == 0) {
		write_rules(prom, &reading);
		wr_metrics_put_table(prom, view->info);
		wr_metrics_put_bans(prom, view->table, view->info, view->now_ns);
		wr_metrics_put_engine(prom, view->engine);
		wr_metrics_put_latency(prom, view->table);
		wr_metrics_put_hosts(prom, view->table);
		wr_metrics_put_gauges(prom, view->table, view->now_ns);
	}
	free(reading.candidates);
	free(reading.rows);
	return rc;
}
