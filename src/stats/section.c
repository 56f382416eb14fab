/* Where things are in the section, and reading them all. */
#include "stats/stats.h"

#include <string.h>

#define NAMES_MIN 16u
#define NAMES_MAX 65536u
#define BYTES_PER_NAME 512u /* of the section: an entry, a shared line, 63 indexes, a few lines */

static uint32_t names_for(uint64_t bytes)
{
	uint32_t names = NAMES_MIN;

	while (names < NAMES_MAX && 2ull * names * BYTES_PER_NAME <= bytes)
		names *= 2;
	return names;
}

bool wr_stats_map(const struct weir_table *table, struct wr_stats_map *map)
{
	struct wr_extent section = table->header.sections[WR_SECTION_LANES];
	uint8_t *at = table->base + section.offset;
	uint64_t fixed, lines;
	uint32_t version = 0;

	map->name_count = names_for(section.bytes);
	map->header = (struct wr_stats_header *)at;
	at += sizeof *map->header;
	map->owners = (struct wr_pair *)at;
	at += WR_LANES * sizeof *map->owners;
	map->names = (struct wr_stat_name *)at;
	at += map->name_count * sizeof *map->names;
	map->shared = (struct wr_stat_line *)at;
	at += map->name_count * sizeof *map->shared;
	map->lines = (struct wr_stat_line *)at - 1; /* the first is number 1 */
	fixed = (uint64_t)(at - (table->base + section.offset)) +
		(uint64_t)(WR_LANES - 1) * map->name_count * sizeof *map->index;
	if (fixed > section.bytes)
		return false;
	lines = (section.bytes - fixed) / sizeof *map->lines;
	map->line_count = (uint32_t)(lines < UINT16_MAX ? lines + 1 : UINT16_MAX);
	map->index = (uint16_t *)&map->lines[map->line_count];
	return __atomic_compare_exchange_n(&map->header->version, &version, WR_STATS_VERSION, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
	       version == WR_STATS_VERSION;
}

static void add_line(struct weir_stat *stat, struct wr_stat_line *line)
{
	const uint64_t *count = line->count;

#define ADD_COUNT(field, text)                                                                     \
	stat->field += __atomic_load_n(&count[WR_STAT_##field], __ATOMIC_RELAXED);
	WEIR_STATS(ADD_COUNT)
#undef ADD_COUNT
}

static void add_all_lanes(const struct wr_stats_map *map, struct weir_stat *stat)
{
	add_line(stat, &map->shared[stat->slot]);
	for (unsigned lane = 1; lane < WR_LANES; lane++) {
		size_t at = (size_t)(lane - 1) * map->name_count + stat->slot;
		uint16_t line = __atomic_load_n(&map->index[at], __ATOMIC_ACQUIRE);

		if (line != 0 && line < map->line_count)
			add_line(stat, &map->lines[line]);
	}
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

		if (!wr_stats_name(&map, slot, name, &stat.rule))
			continue;
		add_all_lanes(&map, &stat);
		rc = fn(context, &stat);
	}
	return rc;
}
