/* Functions that call the function of the limit's algorithm, for all algorithms whose state is a
 * struct weir_state. Used by algo.c and the store. */
#ifndef WR_ALGO_STEP_H
#define WR_ALGO_STEP_H

#include "algo/counter.h"
#include "algo/fixed.h"
#include "algo/leaky.h"
#include "algo/token.h"

/* Decides under `ceiling`, which is l->capacity, or l->ceiling during the grace of soft mode. The
 * limit must have passed weir_limit_check(), and must not be a sliding window log. Fills *d.
 * Returns whether *s changed. */
static inline bool wr_algo_step(const struct weir_limit *l, uint32_t ceiling, struct weir_state *s,
				int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	switch (l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		return wr_token_step(l, ceiling, s, cost, now_ns, d);
	case WEIR_LEAKY_BUCKET:
		return wr_leaky_step(l, ceiling, s, cost, now_ns, d);
	case WEIR_FIXED_WINDOW:
		return wr_fixed_step(l, ceiling, s, cost, now_ns, d);
	case WEIR_SLIDING_COUNTER:
		return wr_counter_step(l, ceiling, s, cost, now_ns, d);
	}
	return wr_bucket_shut(cost, d);
}

/* Gives back n units that an earlier request took. charged_ns is from the decision on that request.
 * Afterwards no more is admitted than if the units had never been taken. Units are given back only
 * to the window or bucket that counted them, and a bucket gets back only the tokens that have not
 * flowed in again since. Returns the number of whole units given back. *s may change even if 0 is
 * returned. */
static inline uint64_t wr_step_back(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				    uint64_t charged_ns, uint64_t now_ns)
{
	switch (l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		return wr_token_back(l, s, n, charged_ns, now_ns);
	case WEIR_LEAKY_BUCKET:
		return wr_leaky_back(l, s, n, charged_ns, now_ns);
	case WEIR_FIXED_WINDOW:
		return wr_fixed_back(l, s, n, charged_ns);
	case WEIR_SLIDING_COUNTER:
		return wr_counter_back(l, s, n, charged_ns);
	}
	return 0;
}

/* Returns the shortest wait until n units are admitted under `ceiling`. Only for algorithms that
 * have a soft mode. */
static inline uint64_t wr_wait(const struct weir_limit *l, uint32_t ceiling,
			       const struct weir_state *s, uint64_t n, uint64_t now_ns)
{
	switch (l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		return wr_token_wait(l, ceiling, s, n, now_ns);
	case WEIR_FIXED_WINDOW:
		return wr_fixed_wait(l, ceiling, s, n, now_ns);
	case WEIR_SLIDING_COUNTER:
		return wr_counter_wait(l, ceiling, s, n, now_ns);
	}
	return WEIR_NEVER;
}

/* Counts n units even if they exceed the limit. Called for units that other nodes took. If the
 * limit has WEIR_COUNT_REJECTED, also called for requests that another limit refused. Returns
 * whether *s changed. */
static inline bool wr_charge(const struct weir_limit *l, struct weir_state *s, uint64_t n,
			     uint64_t now_ns)
{
	switch (l->algorithm) {
	case WEIR_FIXED_WINDOW:
		return wr_fixed_charge(l, s, n, now_ns);
	case WEIR_SLIDING_COUNTER:
		return wr_counter_charge(l, s, n, now_ns);
	case WEIR_TOKEN_BUCKET:
		return wr_token_charge(l, s, n, now_ns);
	}
	return false;
}

#endif
