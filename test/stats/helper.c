/* Tables with statistics for the tests; see helper.h. */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A table larger than this is created in /tmp, because /dev/shm may have only 64 MiB. */
#define SHM_BYTES (8 << 20)

struct weir_table *table_of(uint64_t bytes)
{
	static int number;
	struct weir_opts opts = {.size = sizeof opts,
				 .dir = bytes > SHM_BYTES ? "/tmp" : "/dev/shm",
				 .memory_bytes = bytes};
	struct weir_table *table;
	char name[64];

	snprintf(name, sizeof name, "test-stats-%d-%d", (int)getpid(), number++);
	opts.name = name;
	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	weir_remove(name, opts.dir, NULL);
	return table;
}

struct wr_stats *open_stats(const struct weir_table *table)
{
	struct wr_stats *stats = calloc(1, sizeof *stats);

	assert_non_null(stats);
	wr_stats_open(stats, table);
	return stats;
}

void close_stats(struct wr_stats *stats)
{
	wr_stats_close(stats);
	free(stats);
}

void add(struct wr_stats *stats, uint32_t slot, enum wr_stat what, uint64_t n)
{
	wr_stat_add(wr_lane_mine(stats), slot, what, n);
}

struct wanted {
	const char *rule;
	struct weir_stat stat;
};

static int find(void *context, const struct weir_stat *stat)
{
	struct wanted *wanted = context;

	if (wr_str_equal(stat->rule, wr_str(wanted->rule)))
		wanted->stat = *stat;
	return 0;
}

struct weir_stat total(struct weir_table *table, const char *rule)
{
	struct wanted wanted = {.rule = rule};

	assert_int_equal(weir_stats_each(table, find, &wanted), 0);
	return wanted.stat;
}

uint64_t random_from(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;

	uint64_t z = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9u;

	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}
