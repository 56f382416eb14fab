/* Computes the addresses of all parts of the sections for lanes, history and top keys. Called by
 * every reader and by wr_stats_open(). weir_stats_info() is here too. */
#include "stats/stats.h"

#include "base/versioned.h"

#define NAMES_MIN 16u
#define NAMES_MAX 65536u
/* Estimated bytes for a name: an entry in the directory, an index entry in each of 63 lanes, and
 * eight counters in each of about four lanes. One of the four is the shared lane, in which threads
 * without a lane of their own count. */
#define BYTES_PER_NAME 512u
#define BYTES_PER_HOST 131072u

static uint32_t names_for(uint64_t bytes)
{
	uint32_t names = NAMES_MIN;

	while (names < NAMES_MAX && 2ull * names * BYTES_PER_NAME <= bytes)
		names *= 2;
	return names;
}

static uint32_t hosts_for(uint64_t bytes)
{
	uint64_t hosts = bytes / BYTES_PER_HOST;

	return hosts < WR_HOSTS_MIN   ? WR_HOSTS_MIN
	       : hosts > WR_HOSTS_MAX ? WR_HOSTS_MAX
				      : (uint32_t)hosts;
}

static uint8_t *align_to_line(uint8_t *at)
{
	return at + (-(uintptr_t)at & 63);
}

static uint32_t smaller_of(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Returns how many series fit into the sections. Each rule needs a series and a struct wr_top. The
 * sum of all rules needs a series without top keys. */
static uint32_t series_for(uint64_t bytes, uint64_t top_bytes)
{
	uint32_t series = smaller_of(bytes / sizeof(struct wr_series), WR_HISTORY_RULES + 1);

	return smaller_of(series, top_bytes / sizeof(struct wr_top) + 1);
}

static bool map_history(const struct weir_table *table, uint32_t names, struct wr_history_map *map)
{
	struct wr_extent section = table->header.sections[WR_SECTION_HISTORY];
	struct wr_extent top = table->header.sections[WR_SECTION_TOP];
	uint8_t *at = table->base + section.offset;
	const uint8_t *end = at + section.bytes;

	map->header = (struct wr_history_header *)at;
	at += sizeof *map->header;
	map->host_count = hosts_for(section.bytes);
	map->hosts = (struct wr_stats_host *)at;
	at += map->host_count * sizeof *map->hosts;
	map->used = (uint64_t *)at;
	at += (names + 63) / 64 * sizeof *map->used;
	map->track = (uint32_t *)at;
	at = align_to_line(at + names * sizeof *map->track);
	map->rates = (struct wr_history_rate *)at;
	at += names * sizeof *map->rates;
	map->numbers = (struct wr_rule_numbers *)at;
	at = align_to_line(at + names * sizeof *map->numbers);
	map->series = (struct wr_series *)at;
	map->tops = (struct wr_top *)(table->base + top.offset);
	if (at > end)
		return false;
	map->series_count = series_for((uint64_t)(end - at), top.bytes);
	return true;
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
	map->lines = (struct wr_stat_line *)at - 1; /* lines are numbered from 1; 0 means none */
	fixed = (uint64_t)(at - (table->base + section.offset)) +
		(uint64_t)(WR_LANES - 1) * map->name_count * sizeof *map->index;
	if (fixed > section.bytes || !map_history(table, map->name_count, &map->history))
		return false;
	lines = (section.bytes - fixed) / sizeof *map->lines;
	map->line_count = (uint32_t)(lines < UINT16_MAX ? lines + 1 : UINT16_MAX);
	map->index = (uint16_t *)&map->lines[map->line_count];
	return __atomic_compare_exchange_n(&map->header->version, &version, WR_STATS_VERSION, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
	       version == WR_STATS_VERSION;
}

static uint32_t names_used(const struct wr_stats_map *map)
{
	uint32_t count = WEIR_STAT_RULES;

	for (uint32_t slot = WEIR_STAT_RULES; slot < map->name_count; slot++)
		count += wr_stats_load(&map->history.used[slot / 64]) >> slot % 64 & 1;
	return count;
}

/* Returns the number of series in use. Counts the tracks, because reading every series would make
 * the memory of all series resident. */
static uint32_t series_used(const struct wr_stats_map *map)
{
	uint32_t count = 0;

	for (uint32_t slot = WEIR_STAT_RULES; slot < map->name_count; slot++)
		count += __atomic_load_n(&map->history.track[slot], __ATOMIC_RELAXED) != 0;
	return count;
}

/* Returns the bytes that a rule with history uses in the table if `lanes` threads count for the
 * rule. */
static uint32_t rule_bytes(uint32_t lanes)
{
	return (uint32_t)(sizeof(struct wr_stat_name) + sizeof(struct wr_stat_line) * (1 + lanes) +
			  sizeof(uint16_t) * (WR_LANES - 1) + sizeof(uint32_t) + 1 +
			  sizeof(struct wr_history_rate) + sizeof(struct wr_rule_numbers) +
			  sizeof(struct wr_series) + sizeof(struct wr_top));
}

int weir_stats_info(struct weir_table *table, struct weir_stats_info *info)
{
	struct weir_stats_info known, *out;
	struct wr_stats_map map;
	uint32_t lanes;

	if (!table || !info)
		return WEIR_EINVAL;
	out = wr_versioned_target(info, &known, sizeof known,
				  offsetof(struct weir_stats_info, history));
	if (!out)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	lanes = __atomic_load_n(&map.header->lanes_used, __ATOMIC_RELAXED);
	*out = (struct weir_stats_info){
		.size = sizeof *out,
		.names = map.name_count,
		.names_used = names_used(&map),
		.history = map.history.series_count ? map.history.series_count - 1 : 0,
		.history_used = series_used(&map),
		.lanes = WR_LANES - 1,
		.lanes_used = smaller_of(lanes, WR_LANES - 1),
		.lines = map.line_count - 1,
		.lines_used = __atomic_load_n(&map.header->next_line, __ATOMIC_RELAXED),
		.rule_bytes = rule_bytes(smaller_of(lanes, WR_LANES - 1)),
		.ticked_ns = wr_stats_load(&map.history.header->tick_s) * 1000000000u,
	};
	wr_versioned_write(info, out, sizeof known);
	return 0;
}
