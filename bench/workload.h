/* The measured work, and the floor that it is compared with: the same keys and hash, one load and
 * one 16-byte compare-and-swap at a random cell of a file of the same size. */
#ifndef WR_BENCH_WORKLOAD_H
#define WR_BENCH_WORKLOAD_H

#include "table/table.h"

#define WR_TICK_NS 1100u /* time between two decisions */

/* The sequence of keys. */
struct wr_draw {
	uint64_t seed;
	uint32_t keys;
	const uint32_t *sequence; /* NULL: uniform */
	uint32_t sequence_mask;
};

struct wr_workload {
	struct weir_table *table;
	struct weir_table *floor; /* a file of the same size, used as plain memory */
	struct weir_limit limit;
	struct wr_draw draw;
	uint64_t now_ns;
};

/* Opens a table of `cells` cells in /dev/shm. Its file is removed. */
struct weir_table *wr_bench_table(uint64_t cells, uint64_t log_bytes);

/* Creates table and floor, and uses every key once. */
void wr_workload_open(struct wr_workload *work, struct weir_limit limit, uint32_t keys, double fill,
		      uint64_t log_bytes);
void wr_workload_close(struct wr_workload *work);

/* Runs `count` decisions, or the floor's work `count` times. Returns the number of admitted
 * requests. */
uint64_t wr_work_engine(struct wr_workload *work, uint64_t count);
uint64_t wr_work_floor(struct wr_workload *work, uint64_t count);

/* The step between both: finds the key in the table and swaps its cell for itself. The address of
 * the swap depends on the data read, which the floor avoids and a table of keys cannot. */
uint64_t wr_work_find(struct wr_workload *work, uint64_t count);

/* Returns a sequence of keys by Zipf's law. */
uint32_t *wr_zipf_sequence(uint32_t keys, double exponent, uint32_t count);

#endif
