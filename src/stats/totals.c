/* Reads the totals of rules and candidates. Called by weir's commands and by the admin API. */
#include "stats/stats.h"

#include <string.h>

#include "base/str.h"
#include "base/versioned.h"

static void add_line(uint64_t counts[WR_STAT_COUNT], const struct wr_stat_line *line)
{
	for (int i = 0; i < WR_STAT_COUNT; i++)
		counts[i] += wr_stats_load(&line->count[i]);
}

void wr_stats_read(const struct wr_stats_map *map, uint32_t slot, uint64_t counts[WR_STAT_COUNT])
{
	uint32_t lanes = __atomic_load_n(&map->header->lanes_used, __ATOMIC_ACQUIRE);

	memset(counts, 0, WR_STAT_COUNT * sizeof *counts);
	add_line(counts, &map->shared[slot]);
	for (unsigned lane = 1; lane < WR_LANES && lane <= lanes; lane++) {
		size_t at = (size_t)(lane - 1) * map->name_count + slot;
		uint16_t line = __atomic_load_n(&map->index[at], __ATOMIC_ACQUIRE);

		if (line != 0 && line < map->line_count)
			add_line(counts, &map->lines[line]);
	}
}

/* Reads the limit and the load time of a rule or a candidate. */
static struct wr_rule_numbers note_of(const struct wr_stats_map *map, uint32_t slot)
{
	const struct wr_rule_numbers *at = &map->history.numbers[slot];
	struct wr_rule_numbers note = {
		.loaded_ns = wr_stats_load(&at->loaded_ns),
		.since_ns = wr_stats_load(&at->since_ns),
		.period_ns = wr_stats_load(&at->period_ns),
		.limit = __atomic_load_n(&at->limit, __ATOMIC_RELAXED),
		.burst = __atomic_load_n(&at->burst, __ATOMIC_RELAXED),
		.flags = __atomic_load_n(&at->flags, __ATOMIC_RELAXED),
		.parent = __atomic_load_n(&at->parent, __ATOMIC_RELAXED),
	};

	return note;
}

static void read_stat(const struct wr_stats_map *map, uint32_t slot, struct weir_stat *stat)
{
	uint64_t counts[WR_STAT_COUNT];
	struct wr_rule_numbers note = note_of(map, slot);
	uint32_t track = __atomic_load_n(&map->history.track[slot], __ATOMIC_RELAXED);

	wr_stats_read(map, slot, counts);
#define TAKE_COUNT(field, text) stat->field = counts[WR_STAT_##field];
	WEIR_STATS(TAKE_COUNT)
#undef TAKE_COUNT
	stat->loaded_ns = note.loaded_ns;
	stat->since_ns = note.since_ns;
	stat->period_ns = note.period_ns;
	stat->flags = (note.flags & WR_NUMBERS_FLAGS) | (track ? WEIR_STAT_HISTORY : 0);
	stat->algorithm = note.flags >> WR_NUMBERS_ALGORITHM;
	stat->limit = note.limit;
	stat->burst = note.burst;
	stat->recent_milli = wr_stats_load(&map->history.rates[slot].rate_milli);
}

int weir_stats_each(struct weir_table *table, weir_stat_fn fn, void *context)
{
	struct wr_stats_map map;
	int rc = 0;

	if (!table || !fn)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	for (uint32_t slot = 0; slot < map.name_count && rc == 0; slot++) {
		struct weir_stat stat = {.size = sizeof stat, .slot = slot};
		char name[WR_STAT_NAME_MAX + 1];

		if (!wr_stats_name(&map, slot, name, &stat.rule) ||
		    wr_stats_kind(&map, slot) != WR_NAME_RULE)
			continue;
		read_stat(&map, slot, &stat);
		rc = fn(context, &stat);
	}
	return rc;
}

int weir_stats_slot(struct weir_table *table, uint32_t slot, char name[WEIR_STAT_NAME_BYTES],
		    struct weir_stat *stat)
{
	struct weir_stat known, *out;
	struct wr_stats_map map;

	if (!table || !name || !stat)
		return WEIR_EINVAL;
	out = wr_versioned_target(stat, &known, sizeof known,
				  offsetof(struct weir_stat, loaded_ns));
	if (!out)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	*out = (struct weir_stat){.size = sizeof *out, .slot = slot};
	if (slot >= map.name_count || !wr_stats_name(&map, slot, name, &out->rule) ||
	    wr_stats_kind(&map, slot) != WR_NAME_RULE)
		return WEIR_ENOENT;
	read_stat(&map, slot, out);
	wr_versioned_write(stat, out, sizeof known);
	return 0;
}

static bool read_candidate(const struct wr_stats_map *map, uint32_t slot,
			   char rule[WR_STAT_NAME_MAX + 1], struct weir_candidate *candidate)
{
	struct wr_rule_numbers note = note_of(map, slot);
	uint64_t counts[WR_STAT_COUNT];

	if (note.parent >= map->name_count ||
	    !wr_stats_name(map, note.parent, rule, &candidate->rule))
		return false;
	wr_stats_read(map, slot, counts);
	candidate->rule_slot = note.parent;
	candidate->algorithm = note.flags >> WR_NUMBERS_ALGORITHM;
	candidate->loaded_ns = note.loaded_ns;
	candidate->period_ns = note.period_ns;
	candidate->limit = note.limit;
	candidate->burst = note.burst;
	candidate->would_admit = counts[WR_STAT_admitted];
	candidate->would_refuse = counts[WR_STAT_refused];
	candidate->admits_more = counts[WR_CANDIDATE_admits_more];
	candidate->refuses_more = counts[WR_CANDIDATE_refuses_more];
	candidate->would_delay = counts[WR_STAT_delayed];
	candidate->would_delay_us = counts[WR_STAT_delay_us];
	candidate->would_ban = counts[WR_CANDIDATE_bans];
	candidate->would_banned = counts[WR_CANDIDATE_banned];
	return true;
}

int weir_candidates_each(struct weir_table *table, weir_candidate_fn fn, void *context)
{
	struct wr_stats_map map;
	int rc = 0;

	if (!table || !fn)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	for (uint32_t slot = WEIR_STAT_RULES; slot < map.name_count && rc == 0; slot++) {
		struct weir_candidate candidate = {.size = sizeof candidate, .slot = slot};
		char name[WR_STAT_NAME_MAX + 1], rule[WR_STAT_NAME_MAX + 1];
		struct weir_str text;

		if (wr_stats_kind(&map, slot) != WR_NAME_CANDIDATE ||
		    !wr_stats_name(&map, slot, name, &text))
			continue;
		/* The name of a candidate is the slot of its rule, a blank and the text of its
		 * limit. */
		candidate.text = wr_str_has(text, ' ')
					 ? wr_str_from(text, wr_str_find(text, ' ') + 1)
					 : text;
		if (read_candidate(&map, slot, rule, &candidate))
			rc = fn(context, &candidate);
	}
	return rc;
}
