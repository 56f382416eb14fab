/* Reads statistics of rules and processes from a table. Called by top, advise and candidates. */
#include "cli/watch/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/cli.h"
#include "stats/words.h"

#define SECOND_NS 1000000000ull
/* the time between two scans of the table is at least this many times the duration of a scan */
#define INFO_SHARE 20u
#define INFO_OLD_NS (5 * SECOND_NS) /* minimum time between two scans of the table */
/* if the latest tick was longer ago than this, no other process advances the history */
#define TICK_OLD_NS (3 * SECOND_NS)
/* if the latest tick is further in the future than this, the clock was set back */
#define TICK_AHEAD_NS (10 * SECOND_NS)
/* a gauge that was set longer ago is ignored, because the process that set it has ended */
#define GAUGE_OLD_NS (60 * SECOND_NS)
#define RATE_LEAST_NS (SECOND_NS / 5) /* minimum age of the totals that a rate is computed from */
#define RATE_MOST_NS (30 * SECOND_NS)

/* Makes room for one more item. Ends the process if there is no memory. */
static void *grow_items(void *items, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return items;
	*cap = *cap ? *cap * 2 : 64;
	items = realloc(items, *cap * size);
	if (!items)
		abort();
	return items;
}

/* ---- the table ---- */

static int open_table(struct wr_cli_watch *watch, struct weir_error *error)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = WEIR_OPEN_EXISTING,
				 .name = watch->name,
				 .dir = watch->dir};

	return weir_open(&opts, &watch->table, error);
}

void wr_cli_watch_close(struct wr_cli_watch *watch)
{
	weir_close(watch->table);
	free(watch->rules);
	free(watch->candidates);
	free(watch->before);
	*watch = (struct wr_cli_watch){0};
}

/* Opens the new table after a resize. If that fails, keeps the old table, which can still be read.
 */
static void follow_resize(struct wr_cli_watch *watch, struct weir_error *error)
{
	struct weir_table *before = watch->table;

	if (weir_moved(before) == 0)
		return;
	if (open_table(watch, error) < 0) {
		watch->table = before;
		return;
	}
	weir_close(before);
	watch->info_read_ns = 0;
	watch->before_count = 0;
}

static int read_info(struct wr_cli_watch *watch)
{
	uint64_t begun_ns = wr_clock_mono_ns(), wait_ns = watch->info_took_ns * INFO_SHARE;
	int rc;

	if (watch->info_read_ns &&
	    begun_ns - watch->info_read_ns < (wait_ns > INFO_OLD_NS ? wait_ns : INFO_OLD_NS))
		return 0;
	watch->info = (struct weir_info){.size = sizeof watch->info};
	rc = weir_info(watch->table, watch->now_ns, &watch->info);
	watch->info_read_ns = wr_clock_mono_ns();
	watch->info_took_ns = watch->info_read_ns - begun_ns;
	return rc;
}

static void advance_history(struct wr_cli_watch *watch)
{
	watch->room = (struct weir_stats_info){.size = sizeof watch->room};
	if (weir_stats_info(watch->table, &watch->room) == 0 &&
	    (watch->room.ticked_ns + TICK_OLD_NS < watch->now_ns ||
	     watch->room.ticked_ns > watch->now_ns + TICK_AHEAD_NS))
		weir_tick(watch->table, watch->now_ns);
}

/* ---- rules ---- */

static void save_reading(struct wr_cli_watch *watch, uint64_t now_ns)
{
	size_t count = 0;

	if (watch->rule_count == 0 || now_ns - watch->now_ns < RATE_LEAST_NS)
		return; /* too early: a rate needs older totals, so `before` is kept */
	watch->before = realloc(watch->before, watch->rule_count * sizeof *watch->before);
	if (!watch->before)
		abort();
	for (size_t i = 0; i < watch->rule_count; i++) {
		const struct weir_stat *stat = &watch->rules[i].stat;

		watch->before[count++] = (struct wr_cli_watch_before){
			stat->slot, wr_cli_watch_all(stat), wr_cli_watch_refused(stat)};
	}
	watch->before_count = count;
	watch->before_ns = watch->now_ns;
}

static int compare_before(const void *a, const void *b)
{
	uint32_t x = ((const struct wr_cli_watch_before *)a)->slot;
	uint32_t y = ((const struct wr_cli_watch_before *)b)->slot;

	return x < y ? -1 : x > y;
}

static int on_stat(void *context, const struct weir_stat *stat)
{
	struct wr_cli_watch *watch = context;
	struct wr_cli_watch_rule *rule;

	if (stat->slot < WEIR_STAT_RULES) {
		watch->own[stat->slot] = *stat;
		return 0;
	}
	if (!stat->loaded_ns && wr_cli_watch_all(stat) == 0)
		return 0;
	watch->rules =
		grow_items(watch->rules, watch->rule_count, &watch->rule_cap, sizeof *watch->rules);
	rule = &watch->rules[watch->rule_count++];
	*rule = (struct wr_cli_watch_rule){.stat = *stat};
	memcpy(rule->name, stat->rule.ptr, stat->rule.len);
	return 0;
}

static int compare_rules(const void *a, const void *b)
{
	uint32_t x = ((const struct wr_cli_watch_rule *)a)->stat.slot;
	uint32_t y = ((const struct wr_cli_watch_rule *)b)->stat.slot;

	return x < y ? -1 : x > y;
}

/* Returns the rule of a slot, or NULL. Called while the rules are ordered by slot. */
static struct wr_cli_watch_rule *rule_of_slot(const struct wr_cli_watch *watch, uint32_t slot)
{
	struct wr_cli_watch_rule wanted = {.stat = {.slot = slot}};

	return watch->rule_count ? bsearch(&wanted, watch->rules, watch->rule_count, sizeof wanted,
					   compare_rules)
				 : NULL;
}

static int on_cost(void *context, const struct weir_cost *cost)
{
	struct wr_cli_watch *watch = context;
	struct wr_cli_watch_rule *rule = rule_of_slot(watch, cost->slot);

	if (rule) {
		rule->cost = *cost;
		rule->cost_rates = wr_rate_costs_now(watch->table, cost);
	}
	return 0;
}

static int on_ban(void *context, const struct weir_ban_stat *bans)
{
	struct wr_cli_watch_rule *rule = rule_of_slot(context, bans->slot);

	if (rule)
		rule->bans = *bans;
	return 0;
}

/* The names of rules and the texts of candidates are stored in arrays that can move when they grow.
 * So the pointers to these names and texts are set again. */
static void settle_names(struct wr_cli_watch *watch)
{
	for (size_t i = 0; i < watch->rule_count; i++)
		watch->rules[i].stat.rule.ptr = watch->rules[i].name;
	for (size_t i = 0; i < watch->candidate_count; i++)
		watch->candidates[i].counts.text.ptr = watch->candidates[i].text;
}

/* Computes the rates of a rule since the totals in watch->before, which were read `span_ns` ago. */
static struct wr_rate rate_from_before(const struct wr_cli_watch *watch,
				       const struct weir_stat *stat, uint64_t span_ns)
{
	struct wr_cli_watch_before wanted = {.slot = stat->slot};
	const struct wr_cli_watch_before *before =
		bsearch(&wanted, watch->before, watch->before_count, sizeof wanted, compare_before);
	uint64_t all = wr_cli_watch_all(stat), refused = wr_cli_watch_refused(stat);

	if (before) {
		all -= before->all;
		refused -= before->refused;
	}
	return (struct wr_rate){.all_milli = (uint64_t)((double)all * 1e12 / (double)span_ns),
				.refused_milli =
					(uint64_t)((double)refused * 1e12 / (double)span_ns)};
}

static void find_rates(struct wr_cli_watch *watch)
{
	uint64_t span_ns = watch->now_ns - watch->before_ns;
	bool fresh = watch->before_count && span_ns >= RATE_LEAST_NS && span_ns <= RATE_MOST_NS;

	if (fresh)
		qsort(watch->before, watch->before_count, sizeof *watch->before, compare_before);
	for (size_t i = 0; i < watch->rule_count; i++) {
		const struct weir_stat *stat = &watch->rules[i].stat;

		watch->rules[i].rate = fresh ? rate_from_before(watch, stat, span_ns)
					     : wr_rate_now(watch->table, stat);
	}
}

/* ---- the rest ---- */

static int on_candidate(void *context, const struct weir_candidate *counts)
{
	struct wr_cli_watch *watch = context;
	struct wr_cli_watch_candidate *candidate;

	watch->candidates = grow_items(watch->candidates, watch->candidate_count,
				       &watch->candidate_cap, sizeof *watch->candidates);
	candidate = &watch->candidates[watch->candidate_count++];
	*candidate = (struct wr_cli_watch_candidate){.counts = *counts};
	candidate->counts.text = wr_str_first(counts->text, sizeof candidate->text);
	memcpy(candidate->text, counts->text.ptr, candidate->counts.text.len);
	return 0;
}

size_t wr_cli_watch_candidates(const struct wr_cli_watch *watch, const struct weir_stat *stat,
			       bool all,
			       const struct wr_cli_watch_candidate *found[WR_WATCH_CANDIDATES])
{
	size_t count = 0;

	for (size_t i = 0; i < watch->candidate_count && count < WR_WATCH_CANDIDATES; i++) {
		const struct weir_candidate *counts = &watch->candidates[i].counts;

		if (counts->rule_slot == stat->slot &&
		    (all || counts->loaded_ns >= stat->loaded_ns))
			found[count++] = &watch->candidates[i];
	}
	return count;
}

static int on_gauge(void *context, const struct weir_gauge *gauge)
{
	struct wr_cli_watch *watch = context;

	if (gauge->set_ns + GAUGE_OLD_NS >= watch->now_ns && watch->gauge_count < WEIR_GAUGE_COUNT)
		watch->gauges[watch->gauge_count++] = *gauge;
	return 0;
}

int64_t wr_cli_watch_gauge(const struct wr_cli_watch *watch, enum weir_gauge_name gauge)
{
	for (size_t i = 0; i < watch->gauge_count; i++)
		if (watch->gauges[i].number == (uint32_t)gauge)
			return watch->gauges[i].value;
	return -1;
}

static int on_host(void *context, const struct weir_host *host)
{
	struct wr_cli_watch *watch = context;
	struct wr_cli_watch_host *here;

	if (!host->alive || watch->host_count == WR_WATCH_HOSTS)
		return 0;
	here = &watch->hosts[watch->host_count++];
	*here = (struct wr_cli_watch_host){
		.rules_hash = host->rules_hash, .pid = host->pid, .failed = host->failed_ns != 0};
	snprintf(here->name, sizeof here->name, "%.*s", (int)host->name.len, host->name.ptr);
	return 0;
}

uint64_t wr_cli_watch_quantile_ns(const struct weir_latency *latency, unsigned percent)
{
	uint64_t wanted = (latency->count * percent + 99) / 100, seen = 0;

	for (unsigned i = 0; latency->count && i < WEIR_LATENCY_BUCKETS; i++) {
		seen += latency->bucket[i];
		if (seen >= wanted)
			return weir_latency_below(i);
	}
	return 0;
}

int wr_cli_watch_read(struct wr_cli_watch *watch, struct weir_error *error)
{
	int rc;

	wr_assert(watch && watch->table);
	follow_resize(watch, error);
	save_reading(watch, wr_clock_wall_ns());
	watch->now_ns = wr_clock_wall_ns();
	watch->rule_count = watch->candidate_count = watch->gauge_count = watch->host_count = 0;
	advance_history(watch);
	rc = read_info(watch);
	if (rc == 0)
		rc = weir_stats_each(watch->table, on_stat, watch);
	if (rc < 0) {
		snprintf(error->text, sizeof error->text, "table %s: %s",
			 watch->name ? watch->name : "default", weir_strerror(rc));
		return rc;
	}
	weir_costs_each(watch->table, on_cost, watch);
	weir_bans_each(watch->table, on_ban, watch);
	weir_candidates_each(watch->table, on_candidate, watch);
	settle_names(watch);
	weir_gauges_each(watch->table, on_gauge, watch);
	weir_hosts_each(watch->table, on_host, watch);
	watch->latency = (struct weir_latency){.size = sizeof watch->latency};
	weir_latency(watch->table, WEIR_LATENCY_LOCAL, &watch->latency);
	find_rates(watch);
	return 0;
}

int wr_cli_watch_open(struct wr_cli_watch *watch, const struct wr_cli_table_choice *table,
		      struct weir_error *error)
{
	int rc;

	*watch = (struct wr_cli_watch){.name = table->name, .dir = table->dir};
	rc = open_table(watch, error);
	return rc < 0 ? rc : wr_cli_watch_read(watch, error);
}

bool wr_cli_watch_selects(const struct wr_cli_words *names, struct weir_str rule)
{
	for (size_t i = 0; i < names->count; i++)
		if (wr_str_begins(rule, wr_str(names->items[i])))
			return true;
	return names->count == 0;
}
