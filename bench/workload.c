/* Runs decisions and the work of the floor (workload.h), for bench-engine. */
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct key {
	char prefix[8];
	uint64_t id;
};

static inline uint32_t next_key(struct wr_draw *draw)
{
	draw->seed = draw->seed * 6364136223846793005u + 1442695040888963407u;
	if (draw->sequence)
		return draw->sequence[draw->seed >> 33 & draw->sequence_mask];
	return (uint32_t)(((draw->seed >> 32) * draw->keys) >> 32);
}

static inline struct key key_of(uint32_t id)
{
	struct key key = {"user id", id};

	return key;
}

struct weir_table *wr_bench_table(uint64_t cells, uint64_t log_bytes)
{
	uint64_t keys_bytes = (cells + WR_CELLS - 1) / WR_CELLS * sizeof(struct wr_row);
	char name[40];
	struct weir_opts opts = {.size = sizeof opts,
				 .name = name,
				 .dir = "/dev/shm",
				 .memory_bytes = keys_bytes + log_bytes,
				 .log_bytes = log_bytes};
	struct weir_table *table;
	struct weir_error error;

	snprintf(name, sizeof name, "bench-%d", getpid());
	if (weir_open(&opts, &table, &error) < 0) {
		fprintf(stderr, "bench: %s\n", error.text);
		exit(1);
	}
	weir_remove(name, "/dev/shm", NULL);
	return table;
}

void wr_workload_open(struct wr_workload *work, struct weir_limit limit, uint32_t keys, double fill,
		      uint64_t log_bytes)
{
	uint64_t cells = (uint64_t)(keys / fill) + 2ull * WR_CELLS;

	/* Make the table large enough: a table has a minimum size, and logs can use at most three
	 * quarters of it. */
	if (cells < 8192 + log_bytes / 96)
		cells = 8192 + log_bytes / 96;
	if (log_bytes < 4096)
		log_bytes = 4096;
	weir_limit_check(&limit, NULL);
	*work = (struct wr_workload){.table = wr_bench_table(cells, log_bytes),
				     .floor = wr_bench_table(cells, log_bytes),
				     .limit = limit,
				     .draw = {.seed = 42, .keys = keys},
				     .now_ns = 1800000000000000000u};
	for (uint32_t id = 0; id < keys; id++) {
		struct weir_decision decision;
		struct key key = key_of(id);

		weir_take(work->table, &work->limit, &key, sizeof key, 1, work->now_ns, &decision);
	}
	/* Use all pages of the table `floor` once, as the decisions above have done with `table`,
	 * because the first use of a page is slow. */
	wr_work_floor(work, work->table->row_count * 64);
}

void wr_workload_close(struct wr_workload *work)
{
	weir_close(work->table);
	weir_close(work->floor);
}

uint64_t wr_work_engine(struct wr_workload *work, uint64_t count)
{
	uint64_t admitted = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct key key = key_of(next_key(&work->draw));
		struct weir_decision decision;

		work->now_ns += WR_TICK_NS;
		weir_take(work->table, &work->limit, &key, sizeof key, 1, work->now_ns, &decision);
		admitted += decision.admitted;
	}
	return admitted;
}

uint64_t wr_work_many(struct wr_workload *work, uint64_t count)
{
	uint64_t admitted = 0;

	for (uint64_t i = 0; i < count; i += WR_BATCH) {
		struct weir_decision decisions[WR_BATCH];
		struct weir_need takes[WR_BATCH];
		struct key keys[WR_BATCH];

		for (unsigned j = 0; j < WR_BATCH; j++) {
			keys[j] = key_of(next_key(&work->draw));
			takes[j] = (struct weir_need){&work->limit, &keys[j], sizeof keys[j], 1};
		}
		work->now_ns += WR_BATCH * WR_TICK_NS;
		weir_take_many(work->table, takes, WR_BATCH, work->now_ns, decisions);
		for (unsigned j = 0; j < WR_BATCH; j++)
			admitted += decisions[j].admitted;
	}
	return admitted;
}

uint64_t wr_work_floor(struct wr_workload *work, uint64_t count)
{
	struct weir_table *floor = work->floor;
	uint64_t cells = floor->row_count * sizeof(struct wr_row) / sizeof(struct wr_cell);
	struct wr_cell *base = (struct wr_cell *)floor->rows;
	uint64_t done = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct key key = key_of(next_key(&work->draw));
		struct wr_key hash =
			wr_hash_key(floor->secret, &key, sizeof key, work->limit.checked);
		struct wr_pair *at =
			&base[(uint64_t)(((unsigned __int128)hash.tag * cells) >> 64)].hot;
		struct wr_pair seen = {__atomic_load_n(&at->lo, __ATOMIC_ACQUIRE), at->hi};
		struct wr_pair next = {seen.lo + 1, seen.hi};

		done += wr_pair_cas(at, &seen, next);
	}
	return done;
}

uint64_t wr_work_find(struct wr_workload *work, uint64_t count)
{
	struct weir_table *table = work->table;
	uint64_t done = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct key key = key_of(next_key(&work->draw));
		struct wr_key hash =
			wr_hash_key(table->secret, &key, sizeof key, work->limit.checked);
		struct wr_spot spot;

		if (wr_table_find_to_swap(table, hash, &spot) || wr_table_find(table, hash, &spot))
			done += wr_pair_cas(&spot.cell->hot, &spot.hot, spot.hot);
	}
	return done;
}

/* Draws random numbers and inverts the cumulative distribution by a binary search. */
uint32_t *wr_zipf_sequence(uint32_t keys, double exponent, uint32_t count)
{
	double *sums = malloc(keys * sizeof *sums);
	uint32_t *sequence = malloc(count * sizeof *sequence);
	uint64_t seed = 7;
	double sum = 0;

	for (uint32_t i = 0; i < keys; i++)
		sums[i] = sum += 1 / pow(i + 1, exponent);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t low = 0, high = keys - 1;
		double point;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		point = (double)(seed >> 11) / 9007199254740992.0 * sum;
		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			if (sums[middle] < point)
				low = middle + 1;
			else
				high = middle;
		}
		/* Low numbers are the popular keys. The hash spreads them over the table. */
		sequence[i] = low;
	}
	free(sums);
	return sequence;
}
