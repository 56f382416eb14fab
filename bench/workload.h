/* What is measured, and the floor it is measured against: the same keys, the same hash, one load
 * and one 16-byte compare-and-swap at a random cell of a file of the same size. */
#ifndef WR_BENCH_WORKLOAD_H
#define WR_BENCH_WORKLOAD_H

#include "table/table.h"

#define WR_TICK_NS 1100u /* from one decision to the next */

/* Which key comes next. */
struct wr_draw {
	uint64_t seed;
	uint32_t keys;
	const uint32_t *sequence; /* NULL: uniform */
	uint32_t sequence_mask;
};

struct wr_workload {
	struct weir_table *table;
	struct weir_table *floor; /* a file of the same size, used as bare memory */
	struct weir_limit limit;
	struct wr_draw draw;
	uint64_t now_ns;
};

/* A table of `cells` cells in /dev/shm, gone when it is closed. */
struct weir_table *wr_bench_table(uint64_t cells, uint64_t log_bytes);

/* Table and floor of a size, and every key used once. */
void wr_workload_open(struct wr_workload *work, struct weir_limit limit, uint32_t keys, double fill,
		      uint64_t log_bytes);
void wr_workload_close(struct wr_workload *work);

/* `count` decisions, or as many times the floor's work; returns how many were admitted. */
uint64_t wr_work_engine(struct wr_workload *work, uint64_t count);
uint64_t wr_work_floor(struct wr_workload *work, uint64_t count);

/* What lies between: the key is found in the table and its cell swapped for itself. The swap's
 * address then depends on what was read, which no table of keys can avoid and the floor can. */
uint64_t wr_work_find(struct wr_workload *work, uint64_t count);

/* A sequence of keys by Zipf's law. */
uint32_t *wr_zipf_sequence(uint32_t keys, double exponent, uint32_t count);

#endif
