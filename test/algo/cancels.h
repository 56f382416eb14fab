/* Takes random numbers of units from one counter, and gives some of them back later. After each
 * step a simple model, which stores all these calls, computes how many units may be left at most:
 * as many as if the returned units had never been taken. */
#ifndef TEST_ALGO_CANCELS_H
#define TEST_ALGO_CANCELS_H

#include "algo/algo_test.h"

#define CANCEL_TAKES 256

/* The counter under test. */
struct cancel_ops {
	/* Cost 0 only looks. */
	struct weir_decision (*take)(void *of, int64_t cost, uint64_t now_ns);
	void (*give)(void *of, uint64_t n, uint64_t charged_ns, uint64_t now_ns);
	uint64_t unit_ns; /* all times are multiples of this number */
};

struct cancel_tally {
	int admitted, refused;
	/* Numbers of cancellations that gave back all units, some of them, or none. */
	int whole, part, none;
};

/* Returns a random limit that is small enough for the model, and whose times are multiples of the
 * unit. */
struct weir_limit cancel_limit(struct rnd *r, uint32_t algorithm, uint64_t unit_ns);

void cancels_run(struct rnd *r, const struct weir_limit *limit, const struct cancel_ops *ops,
		 void *of, int late_percent, struct cancel_tally *tally);

#endif
