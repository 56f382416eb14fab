/* Random takes and later cancels of them on one counter. After each step a simple model, which
 * knows all takes and their cancels, gives the most that may be left: never more than if the
 * cancelled takes had not happened. */
#ifndef TEST_ALGO_CANCELS_H
#define TEST_ALGO_CANCELS_H

#include "algo/algo_test.h"

#define CANCEL_TAKES 256

/* The counter under test. */
struct cancel_ops {
	struct weir_decision (*take)(void *of, int64_t cost, uint64_t now_ns); /* 0 looks */
	void (*give)(void *of, uint64_t n, uint64_t charged_ns, uint64_t now_ns);
	uint64_t unit_ns; /* all times are multiples of it */
};

struct cancel_tally {
	int admitted, refused;
	int whole, part, none; /* cancels by how much of the take came back */
};

/* A limit small enough to be counted, whose times are multiples of the unit. */
struct weir_limit cancel_limit(struct rnd *r, uint32_t algorithm, uint64_t unit_ns);

void cancels_run(struct rnd *r, const struct weir_limit *limit, const struct cancel_ops *ops,
		 void *of, int late_percent, struct cancel_tally *tally);

#endif
