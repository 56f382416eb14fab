/* Counts and reads bans of rules: bans that were started, and requests that a ban refused. Written
 * by limiter/ban_write.c, read by weir's commands and by the admin API. */
#include "stats/stats.h"

#include <string.h>

#include "base/str.h"

/* A line of the directory with the counts of a rule's bans has the kind WR_NAME_LATENCY, whose lines
 * only readers that know their names read, and this prefix before the rule's name. */
#define PREFIX "ban "

uint32_t wr_stats_ban_slot(const struct wr_stats *stats, struct weir_str rule, uint32_t rule_slot)
{
	struct wr_rule_numbers note = {.parent = rule_slot};
	char name[sizeof PREFIX + 4 * WR_STAT_NAME_MAX] = PREFIX;
	size_t room = sizeof name - sizeof PREFIX, len = rule.len < room ? rule.len : room;
	uint32_t slot;

	if (rule_slot < WEIR_STAT_RULES)
		return WEIR_STAT_OTHER;
	memcpy(name + sizeof PREFIX - 1, rule.ptr, len);
	slot = wr_stats_slot_of(stats, WR_NAME_LATENCY,
				(struct weir_str){name, sizeof PREFIX - 1 + len});
	wr_stats_set_numbers(stats, slot, &note);
	return slot;
}

/* Fills *stat. Returns false if the slot has no counts of bans. */
static bool read_bans(const struct wr_stats_map *map, uint32_t slot,
		      char rule[WR_STAT_NAME_MAX + 1], struct weir_ban_stat *stat)
{
	char text[WR_STAT_NAME_MAX + 1];
	uint64_t counts[WR_STAT_COUNT];
	struct weir_str name;
	uint32_t parent;

	if (wr_stats_kind(map, slot) != WR_NAME_LATENCY || !wr_stats_name(map, slot, text, &name) ||
	    name.len < sizeof PREFIX || memcmp(name.ptr, PREFIX, sizeof PREFIX - 1) != 0)
		return false;
	parent = __atomic_load_n(&map->history.numbers[slot].parent, __ATOMIC_RELAXED);
	if (parent < WEIR_STAT_RULES || parent >= map->name_count ||
	    !wr_stats_name(map, parent, rule, &stat->rule))
		return false;
	wr_stats_read(map, slot, counts);
	stat->slot = parent;
#define TAKE_COUNT(field, text) stat->field = counts[WR_BAN_STAT_##field];
	WEIR_BAN_STATS(TAKE_COUNT)
#undef TAKE_COUNT
	return true;
}

int weir_bans_each(struct weir_table *table, weir_ban_stat_fn fn, void *context)
{
	struct wr_stats_map map;
	int rc = 0;

	if (!table || !fn)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	for (uint32_t slot = WEIR_STAT_RULES; slot < map.name_count && rc == 0; slot++) {
		struct weir_ban_stat stat = {.size = sizeof stat};
		char rule[WR_STAT_NAME_MAX + 1];

		if (read_bans(&map, slot, rule, &stat))
			rc = fn(context, &stat);
	}
	return rc;
}
