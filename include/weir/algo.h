/* The five algorithms of weir as pure functions over the caller's state.
 *
 *   struct weir_limit limit = {.size = sizeof limit, .algorithm = WEIR_TOKEN_BUCKET,
 *                              .limit = 1, .burst = 5, .period_ns = 1000000000};
 *   struct weir_state state = {0};
 *   struct weir_decision d;
 *
 *   weir_limit_check(&limit, NULL);                  // once
 *   weir_step(&limit, &state, NULL, 1, now_ns, &d);  // d.admitted, d.remaining, d.retry_after_ns …
 *
 * Nothing here reads a clock, allocates, or uses floating point. Times are ns since the epoch
 * below 2^63; they may step back or jump. One up to a second behind the state is taken for a
 * latecomer's and counts as of the state's time, with waits told from its own. A zeroed state is a
 * key nobody has used.
 */
#ifndef WEIR_ALGO_H
#define WEIR_ALGO_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(enum name, number, name in rule files) */
#define WEIR_ALGORITHMS(X)                                                                         \
	X(WEIR_TOKEN_BUCKET, 1, "token_bucket")                                                    \
	X(WEIR_LEAKY_BUCKET, 2, "leaky_bucket")                                                    \
	X(WEIR_FIXED_WINDOW, 3, "fixed_window")                                                    \
	X(WEIR_SLIDING_COUNTER, 4, "sliding_window_counter")                                       \
	X(WEIR_SLIDING_LOG, 5, "sliding_window_log")

enum weir_algorithm {
#define WEIR_ALGORITHM_ENUM(name, number, text) name = (number),
	WEIR_ALGORITHMS(WEIR_ALGORITHM_ENUM)
#undef WEIR_ALGORITHM_ENUM
};

#define WEIR_NEVER UINT64_MAX /* retry_after_ns: no wait will do */
#define WEIR_LOG_MAX 65532u   /* largest limit of a sliding window log */
#define WEIR_SPAN_MAX_NS                                                                           \
	(100ull * 31557600 * 1000000000) /* no period or bucket lasts longer: 100 years */

enum weir_limit_flags {
	WEIR_COUNT_REJECTED = 1, /* a refused request is charged too; windows only */
	/* Sliding window log, in a table that has no room for it: refuse the request and set
	 * `full`. Without this flag the log is approximated, see docs/engine.md. */
	WEIR_FULL_REFUSES = 2,
};

/* A limit. Fill in the upper part, zero the rest, then weir_limit_check() once. */
struct weir_limit {
	uint32_t size;      /* sizeof(struct weir_limit) */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t limit;     /* requests per period; 0 refuses everything */
	uint32_t flags;     /* enum weir_limit_flags */
	uint64_t period_ns; /* may be 0 where a window is given below */

	uint32_t burst;       /* token bucket: capacity; 0 means limit */
	uint32_t queue_size;  /* leaky bucket: how many may wait */
	uint64_t max_wait_ns; /* leaky bucket: longest wait; 0 means no bound but the queue's */

	/* Fixed window: the window that holds now_ns, [start, end), when it is not a whole multiple
	 * of period_ns since the epoch (calendar days, months). Both 0 otherwise. */
	uint64_t window_start_ns;
	uint64_t window_end_ns;

	/* Soft mode: the ceiling in requests (token bucket: in tokens of capacity) that holds for
	 * soft_for_ns from the first excess; armed again after one period without excess.
	 * 0 means hard. Not for leaky buckets. */
	uint32_t soft_ceiling;
	uint32_t shares; /* internal, 0: of how many parts of a limit it is one, once checked */
	uint64_t soft_for_ns;

	/* Part of the counter's identity in a table, with algorithm and period: two limits on one
	 * key that are otherwise alike need different ones. The limit's size is never part of it.
	 */
	uint64_t identity;

	/* Written by weir_limit_check(). */
	uint64_t checked;   /* identity mixed with algorithm and period; 0 = not checked */
	uint64_t narrow_ns; /* internal: up to which age of the state the quick way is open */
	uint64_t harm_base; /* internal: the period on the scale of algo/harm.h */
	uint32_t capacity;  /* most that can be taken at once: burst, queue_size + 1, or limit */
	uint32_t ceiling;   /* capacity, or in soft mode soft_ceiling */
};

/* State of one key under one limit: 96 bits for every algorithm but the log, in a table as here.
 * algo/token.h, fixed.h, counter.h and soft.h say what the words mean. */
struct weir_state {
	uint64_t s0;
	uint32_t s1;
};

/* State of a sliding window log: a ring of stamps in the caller's memory. `capacity` slots,
 * at least the limit's size. Zero the rest. */
struct weir_log {
	uint64_t newest_ns; /* stamp of the last `pending` entries, not yet in the ring */
	uint32_t head;      /* slot of the newest entry */
	uint32_t count;     /* entries, the pending ones included */
	uint32_t pending;
	uint32_t capacity;
	uint64_t *stamps;
};

/* The answer. */
struct weir_decision {
	uint8_t admitted;
	uint8_t soft; /* admitted above the limit, in the overshoot of soft mode */
	uint8_t full; /* refused because the table has no room for this key's log, not by its limit
		       */
	uint8_t banned;     /* refused by an operator's ban, see weir/control.h, not by its limit */
	uint32_t limit;     /* capacity the remaining counts against */
	uint32_t remaining; /* what could still be taken now */
	uint32_t granted;   /* part of `limit`: what an operator granted beyond the limit's own */
	uint64_t retry_after_ns; /* refused: least wait until the same request passes if nobody else
				    asks, or WEIR_NEVER; admitted: 0 */
	uint64_t reset_after_ns; /* until the key is as good as new */
	uint64_t delay_ns;       /* leaky bucket: wait this long before going on */
	/* Where the take was counted, for giving it back (weir_return): a time in its window, the
	 * log's stamp, the time a token bucket was as of, a leaky bucket's departure. 0 where
	 * nothing was taken. */
	uint64_t charged_ns;
};

/* Checks a limit and fills in its lower part. Returns 0, WEIR_EINVAL (limit is NULL or has an
 * unknown size) or WEIR_ELIMIT; `error` may be NULL. */
WEIR_API int weir_limit_check(struct weir_limit *limit, struct weir_error *error);

/* One decision.
 *   cost  n > 0  take n or nothing; more than the capacity is refused with WEIR_NEVER
 *         0      look: takes nothing, refused exactly when nothing is left
 *         n < 0  give back into what the state is at now_ns, never above full; always admitted.
 *                The caller vouches for the take: one of another window must not be given back
 *   soft  a second state for a limit in soft mode, else NULL
 * Returns 0, WEIR_EINVAL, WEIR_ELIMIT (not checked, or a log), WEIR_ETIME. */
WEIR_API int weir_step(const struct weir_limit *limit, struct weir_state *state,
		       struct weir_state *soft, int64_t cost, uint64_t now_ns,
		       struct weir_decision *decision);

/* The same for a sliding window log. WEIR_EINVAL when the ring has fewer slots than the limit
 * (than its soft_ceiling in soft mode) or its fields do not fit each other. */
WEIR_API int weir_log_step(const struct weir_limit *limit, struct weir_log *log,
			   struct weir_state *soft, int64_t cost, uint64_t now_ns,
			   struct weir_decision *decision);

/* Name of an algorithm as rule files write it, or NULL; and back, or 0. */
WEIR_API const char *weir_algorithm_name(int algorithm);
WEIR_API int weir_algorithm_by_name(const char *name, size_t len);

#ifdef __cplusplus
}
#endif
#endif
