/* The measured work is a decision. It is compared with the floor, the least work that a decision
 * needs. The floor hashes the same keys, and does one load and one 16-byte compare-and-swap on the
 * cell that the hash selects in a file of the same size. */
#ifndef WR_BENCH_WORKLOAD_H
#define WR_BENCH_WORKLOAD_H

#include "table/table.h"

#define WR_TICK_NS 1100u /* virtual time between two decisions */

/* The state of the random sequence of keys. */
struct wr_draw {
	uint64_t seed;
	uint32_t keys;
	const uint32_t *sequence; /* a list to draw keys from; NULL: all keys are equally likely */
	uint32_t sequence_mask;
};

struct wr_workload {
	struct weir_table *table;
	struct weir_table *floor; /* a table of the same size, used as plain memory by the floor */
	struct weir_limit limit;
	struct wr_draw draw;
	uint64_t now_ns;
};

/* Opens a new table with `cells` cells in /dev/shm. Removes the name of its file, so that nothing
 * is left when the benchmark ends. */
struct weir_table *wr_bench_table(uint64_t cells, uint64_t log_bytes);

/* Creates the tables `table` and `floor`, and makes one decision for each key. */
void wr_workload_open(struct wr_workload *work, struct weir_limit limit, uint32_t keys, double fill,
		      uint64_t log_bytes);
void wr_workload_close(struct wr_workload *work);

/* wr_work_engine runs `count` decisions and returns the number of admitted requests. wr_work_floor
 * runs the work of the floor `count` times and returns the number of successful swaps. */
uint64_t wr_work_engine(struct wr_workload *work, uint64_t count);
uint64_t wr_work_floor(struct wr_workload *work, uint64_t count);

/* Runs `count` decisions in batches of WR_BATCH. Returns the number of admitted requests. */
#define WR_BATCH 16u
uint64_t wr_work_many(struct wr_workload *work, uint64_t count);

/* Does more than the floor and less than a decision: finds the key in the table and replaces its
 * cell by the same value with a swap. The address of this swap depends on data that was read
 * before. A table of keys cannot avoid that, but the floor does. Returns the number of successful
 * swaps. */
uint64_t wr_work_find(struct wr_workload *work, uint64_t count);

/* Returns `count` random keys with a distribution by Zipf's law. The caller frees the array. */
uint32_t *wr_zipf_sequence(uint32_t keys, double exponent, uint32_t count);

#endif
