/* Chooses the rules that have metric series of their own, and reads their counts. */
#include "serve/admin/metrics_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "serve/admin/watch_json.h"

/* The maximum number of candidates that are written is this factor times choice->max. */
#define CANDIDATES_MAX 4u

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
	struct wr_metrics_reading *reading = context;
	struct wr_metrics_row *row;

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

static struct wr_metrics_row *find_row(const struct wr_metrics_reading *reading, uint32_t slot)
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
	struct wr_metrics_reading *reading = context;
	const struct wr_metrics_row *row = find_row(reading, counts->rule_slot);
	struct wr_metrics_candidate *candidate;

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
	struct wr_metrics_reading *reading = context;
	struct wr_metrics_row *row = find_row(reading, cost->slot);
	bool slots = cost->algorithm == WEIR_CONCURRENT;

	if (row)
		*(slots ? &row->slots : &row->units) = *cost;
	else
		add_costs(slots ? &reading->other_slots : &reading->other_units, cost);
	return 0;
}

static int on_ban(void *context, const struct weir_ban_stat *bans)
{
	struct wr_metrics_reading *reading = context;
	struct wr_metrics_row *row = find_row(reading, bans->slot);

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
static int read_candidates(struct weir_table *table, struct wr_metrics_reading *reading)
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
	const struct wr_metrics_reading *reading = context;

	if (stat->slot >= WEIR_STAT_RULES && stat->loaded_ns &&
	    stat->loaded_ns >= reading->loaded_ns)
		choose_slot(reading->choice, stat->slot);
	return 0;
}

static int read_locked(const struct wr_metrics_view *view, struct wr_metrics_reading *reading)
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

int wr_metrics_read(struct wr_metrics_reading *reading, struct wr_metrics_choice *choice,
		    const struct wr_metrics_view *view)
{
	int rc;

	*reading = (struct wr_metrics_reading){.choice = choice};
	pthread_mutex_lock(&choice->lock);
	rc = read_locked(view, reading);
	pthread_mutex_unlock(&choice->lock);
	return rc;
}

void wr_metrics_reading_free(struct wr_metrics_reading *reading)
{
	free(reading->candidates);
	free(reading->rows);
}
