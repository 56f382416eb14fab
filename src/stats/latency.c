/* Histograms of latency. A histogram has twelve names in the directory, and each name has eight
 * counters in each lane. These counters are the buckets and the sum of all latencies. Lanes lose no
 * counts and outlive the processes that write them, so the same is true of histograms. */
#include "stats/stats.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/versioned.h"

#define FIRST_BITS 6 /* the first bucket is below 64 ns */
#define SUM_AT WEIR_LATENCY_BUCKETS
#define NAMES_WANTED 256 /* a directory with room for fewer names has no histograms */

_Static_assert(SUM_AT < WR_LATENCY_LINES * WR_STAT_COUNT, "room for all buckets and the sum");

uint64_t weir_latency_below(unsigned i)
{
	if (i + 1 >= WEIR_LATENCY_BUCKETS)
		return UINT64_MAX;
	return (uint64_t)(4 + i % 4) << (FIRST_BITS - 2 + i / 4);
}

static unsigned bucket_of(uint64_t ns)
{
	unsigned power, bucket;

	if (ns >> FIRST_BITS == 0)
		return 0;
	power = 63 - (unsigned)__builtin_clzll(ns);
	bucket = (power - FIRST_BITS) * 4 + (unsigned)(ns >> (power - 2) & 3) + 1;
	return bucket < WEIR_LATENCY_BUCKETS ? bucket : WEIR_LATENCY_BUCKETS - 1;
}

static void name_line(enum weir_latency_kind kind, unsigned line, char name[32])
{
	snprintf(name, 32, "latency %d %u", (int)kind, line);
}

/* Returns the slot of a line (eight buckets) of a histogram, or 0 if the directory has no room for
 * the line. The slot is looked up once and stored in the handle. Threads that look up the slot at
 * the same time find the same slot. */
static uint32_t line_slot(struct wr_stats *stats, enum weir_latency_kind kind, unsigned line)
{
	uint32_t *at = &stats->latency[kind][line];
	uint32_t slot = __atomic_load_n(at, __ATOMIC_RELAXED);
	char name[32];

	if (slot != 0 || stats->map.name_count < NAMES_WANTED)
		return slot;
	name_line(kind, line, name);
	slot = wr_stats_slot_of(stats, WR_NAME_LATENCY,
				(struct weir_str){name, strlen(name)}); /* 0 if no slot is free */
	__atomic_store_n(at, slot, __ATOMIC_RELAXED);
	return slot;
}

static void add_to_bucket(struct wr_stats *stats, enum weir_latency_kind kind, unsigned at,
			  uint64_t n)
{
	uint32_t slot = line_slot(stats, kind, at / WR_STAT_COUNT);

	if (slot)
		wr_stat_add(wr_lane_mine(stats), slot, at % WR_STAT_COUNT, n);
}

void wr_latency_add(struct wr_stats *stats, enum weir_latency_kind kind, uint64_t ns)
{
	wr_assert(kind <= WEIR_LATENCY_CENTRAL);
	if (!stats->usable)
		return;
	add_to_bucket(stats, kind, bucket_of(ns), 1);
	add_to_bucket(stats, kind, SUM_AT, ns);
}

/* Returns the number of the line (eight buckets) of the histogram to which the slot belongs. If the
 * slot does not belong to this histogram, returns WR_LATENCY_LINES. */
static unsigned line_of(const struct wr_stats_map *map, uint32_t slot, enum weir_latency_kind kind)
{
	char name[32], text[WR_STAT_NAME_MAX + 1];
	struct weir_str found;
	unsigned line = 0;

	if (wr_stats_kind(map, slot) != WR_NAME_LATENCY || !wr_stats_name(map, slot, text, &found))
		return WR_LATENCY_LINES;
	do
		name_line(kind, line, name);
	while (strcmp(text, name) != 0 && ++line < WR_LATENCY_LINES);
	return line;
}

static void read_line(const uint64_t counts[WR_STAT_COUNT], unsigned line,
		      struct weir_latency *latency)
{
	for (unsigned i = 0; i < WR_STAT_COUNT; i++) {
		unsigned at = line * WR_STAT_COUNT + i;

		if (at < WEIR_LATENCY_BUCKETS) {
			latency->bucket[at] = counts[i];
			latency->count += counts[i];
		} else if (at == SUM_AT) {
			latency->sum_ns = counts[i];
		}
	}
}

int weir_latency(struct weir_table *table, enum weir_latency_kind kind,
		 struct weir_latency *latency)
{
	struct weir_latency known, *out;
	struct wr_stats_map map;

	if (!table || !latency || kind > WEIR_LATENCY_CENTRAL)
		return WEIR_EINVAL;
	out = wr_versioned_target(latency, &known, sizeof known,
				  offsetof(struct weir_latency, bucket));
	if (!out)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	*out = (struct weir_latency){.size = sizeof *out};
	for (uint32_t slot = WEIR_STAT_RULES; slot < map.name_count; slot++) {
		unsigned line = line_of(&map, slot, kind);
		uint64_t counts[WR_STAT_COUNT];

		if (line == WR_LATENCY_LINES)
			continue;
		wr_stats_read(&map, slot, counts);
		read_line(counts, line, out);
	}
	wr_versioned_write(latency, out, sizeof known);
	return 0;
}
