/* Compares the algorithms on the same limit: how each would have decided the requests of a log, and
 * where it differs from an exact sliding window.
 *
 * Example: 5 per minute; five requests at 2:00:45 and five at 2:01:15. The fixed window ends at
 * 2:01:00, so it admits all ten. The exact window of one minute before 2:01:15 has five requests, so
 * it refuses the last five. The fixed window admitted 5 of 10 requests wrongly: 50 %.
 *
 * The exact window is an implementation of its own: it stores the time of every admitted request
 * and shares no code with the limiter. The other four algorithms are those of the limiter
 * (weir_step). Each algorithm has its own state for the whole log. All charge the actual cost of a
 * request at its arrival.
 *
 * All states together take at most WR_LAB_ALGORITHMS_BYTES. If that is too little, the limit that
 * uses the most memory is compared on a sample of its keys: each time, half of its keys are left
 * out. A request of a key in the sample then counts for as many requests as keys are left out. */
#ifndef WR_LAB_REPLAY_ALGORITHMS_H
#define WR_LAB_REPLAY_ALGORITHMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/algo.h>

#include "rules/rules.h"

#define WR_LAB_ALGORITHMS_BYTES ((size_t)128 << 20)
#define WR_LAB_ALGORITHMS 5u /* from WEIR_TOKEN_BUCKET to WEIR_SLIDING_LOG */
#define WR_LAB_STEPPED 4u    /* the algorithms that weir_step() knows; the log comes last */

/* What an algorithm would have done. */
struct wr_lab_algorithm {
	/* The limit for weir_step(). The limit of the sliding window log is not checked, so that it
	 * may be above WEIR_LOG_MAX. */
	struct weir_limit limit;
	uint64_t admitted, refused;
	uint64_t wrongly_admitted; /* admitted, but refused by the exact window */
	uint64_t wrongly_refused;  /* refused, but admitted by the exact window */
};

struct wr_lab_algorithms_limit {
	const char *not_compared; /* why the limit is not compared; NULL: it is compared */
	uint64_t requests;        /* an estimate if `level` is above 0 */
	uint64_t bytes;           /* memory of the states of this limit */
	uint32_t level;           /* one key in 2^level is compared */
	struct wr_lab_algorithm algorithms[WR_LAB_ALGORITHMS]; /* index: enum weir_algorithm - 1 */
};

struct wr_lab_algorithms;

/* Makes a comparison for `count` limits. Returns NULL if there is no memory. */
struct wr_lab_algorithms *wr_lab_algorithms_new(size_t count, size_t max_bytes);
void wr_lab_algorithms_free(struct wr_lab_algorithms *all);

/* Sets limit `at`. */
void wr_lab_algorithms_set(struct wr_lab_algorithms *all, size_t at,
			   const struct wr_rules_limit *rule);

/* Decides a request of the key `hash` under limit `at`, with all algorithms. Times do not go
 * back. */
void wr_lab_algorithms_feed(struct wr_lab_algorithms *all, size_t at, uint64_t hash, int64_t cost,
			    uint64_t now_ns);

const struct wr_lab_algorithms_limit *wr_lab_algorithms_result(const struct wr_lab_algorithms *all,
							       size_t at);

#endif
