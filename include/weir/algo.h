/* The five algorithms of weir as pure functions over the caller's state.
 *
 *   struct weir_limit limit = {.size = sizeof limit, .algorithm = WEIR_TOKEN_BUCKET,
 *                              .limit = 1, .burst = 5, .period_ns = 1000000000};
 *   struct weir_state state = {0};
 *   struct weir_decision d;
 *
 *   if (weir_limit_check(&limit, &error) < 0)        // once
 *           …
 *   rc = weir_step(&limit, &state, NULL, 1, now_ns, &d);
 *   if (rc == 0 && !d.admitted)
 *           …                                        // refuse; retry after d.retry_after_ns
 *
 * These calls read no clock, allocate nothing and use no floating point. Times are ns since the
 * epoch, below 2^63; they may step back or jump. A request up to a second older than the state
 * counts at the time of the state; its waits count from its own time. A zeroed state is a key that
 * was never used. */
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

#define WEIR_NEVER UINT64_MAX /* retry_after_ns: waiting does not help */
#define WEIR_LOG_MAX 65532u   /* largest limit of a sliding window log */
#define WEIR_SPAN_MAX_NS                                                                           \
	(100ull * 31557600 * 1000000000) /* longest period, and longest time to fill a bucket */

enum weir_limit_flags {
	WEIR_COUNT_REJECTED = 1, /* a refused request is charged too; windows only */
	/* If a sliding window log does not fit in the table, refuse the request and set `full`.
	 * Without this flag the log is approximated, see docs/engine.md. */
	WEIR_FULL_REFUSES = 2,
};

/* A limit. Fill in the upper part, zero the rest, then weir_limit_check() once. */
struct weir_limit {
	uint32_t size;      /* sizeof(struct weir_limit) */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t limit;     /* requests per period; 0 refuses everything */
	uint32_t flags;     /* enum weir_limit_flags */
	uint64_t period_ns; /* may be 0 if a window is set below */

	uint32_t burst;       /* token bucket: capacity; 0 means limit */
	uint32_t queue_size;  /* leaky bucket: requests that may wait */
	uint64_t max_wait_ns; /* leaky bucket: longest wait; 0: bounded by queue_size alone */

	/* Fixed window: the window [start, end) that contains now_ns, if windows are not whole
	 * multiples of period_ns since the epoch (calendar days, months). Otherwise both 0. */
	uint64_t window_start_ns;
	uint64_t window_end_ns;

	/* Soft mode: for soft_for_ns from the first request above the limit, this ceiling applies
	 * instead (token bucket: as its capacity). It applies again after one period without a
	 * request above the limit. 0: no soft mode. Not for leaky buckets. */
	uint32_t soft_ceiling;
	uint32_t shares; /* internal, set it to 0: number of nodes that share the limit */
	uint64_t soft_for_ns;

	/* Algorithm, period and this number identify the counter of a key in a table. Two limits
	 * with equal algorithm and period on one key need different numbers. The size of the limit
	 * is not part of the identity. */
	uint64_t identity;

	/* Written by weir_limit_check(). */
	uint64_t checked;   /* hash of identity, algorithm and period; 0: not checked */
	uint64_t narrow_ns; /* internal: age of the state up to which 64-bit arithmetic suffices */
	uint64_t harm_base; /* internal: the period on the scale of evictions */
	uint32_t capacity;  /* largest cost that can be admitted: burst, queue_size + 1, or limit */
	uint32_t ceiling;   /* capacity, or in soft mode soft_ceiling */
};

/* State of one key under one limit: 96 bits, for every algorithm but the sliding window log. Its
 * contents are internal; all zero means never used. */
struct weir_state {
	uint64_t s0;
	uint32_t s1;
};

/* State of a sliding window log: a ring of time stamps in the caller's memory. Set `stamps` and
 * `capacity`, at least the limit, and zero the rest. */
struct weir_log {
	uint64_t newest_ns; /* time stamp of the `pending` entries, which are not in the ring */
	uint32_t head;      /* index of the newest entry in the ring */
	uint32_t count;     /* number of entries, with the pending entries */
	uint32_t pending;
	uint32_t capacity;
	uint64_t *stamps;
};

/* The decision on a request. */
struct weir_decision {
	uint8_t admitted;
	uint8_t soft;   /* admitted above the limit, by soft mode */
	uint8_t full;   /* refused because the log does not fit in the table, not by the limit */
	uint8_t banned; /* refused by an operator's ban, not by the limit; see weir/control.h */
	uint32_t limit; /* the value that `remaining` starts from */
	uint32_t remaining;      /* units that could still be taken now */
	uint32_t granted;        /* part of `limit` that an operator granted */
	uint64_t retry_after_ns; /* refused: wait until the same request would be admitted if there
				    are no other requests, or WEIR_NEVER; admitted: 0 */
	uint64_t reset_after_ns; /* until no use of the key is left */
	uint64_t delay_ns;       /* leaky bucket: the admitted request must wait this long */
	/* Argument of weir_return: when the take was counted. A time in its window, the time stamp
	 * in the log, the time of the token bucket, or the departure from the leaky bucket. 0 if
	 * nothing was taken. */
	uint64_t charged_ns;
};

/* Checks a limit and sets its lower part. `error` may be NULL. Returns 0, WEIR_EINVAL (limit is
 * NULL, or limit->size is not sizeof(struct weir_limit)), or WEIR_ELIMIT. */
WEIR_API int weir_limit_check(struct weir_limit *limit, struct weir_error *error);

/* Decides one request and updates the state.
 *   cost  n > 0  take n units or none; more than the capacity is refused with WEIR_NEVER
 *         0      take nothing; refused if no unit is left
 *         n < 0  give back to the state at now_ns, up to the full capacity; always admitted. Units
 *                of an earlier window must not be given back
 *   soft  a second state for a limit in soft mode, otherwise NULL
 * Returns 0, WEIR_EINVAL, WEIR_ELIMIT (not checked, or a log) or WEIR_ETIME. On an error the state
 * is unchanged and *decision is all zero. */
WEIR_API int weir_step(const struct weir_limit *limit, struct weir_state *state,
		       struct weir_state *soft, int64_t cost, uint64_t now_ns,
		       struct weir_decision *decision);

/* The same for a sliding window log. WEIR_EINVAL also means that the ring has less capacity than
 * the limit (in soft mode: than soft_ceiling), or that its fields contradict each other. */
WEIR_API int weir_log_step(const struct weir_limit *limit, struct weir_log *log,
			   struct weir_state *soft, int64_t cost, uint64_t now_ns,
			   struct weir_decision *decision);

/* The name of an algorithm in rule files, or NULL. */
WEIR_API const char *weir_algorithm_name(int algorithm);

/* The enum weir_algorithm of a name, or 0. */
WEIR_API int weir_algorithm_by_name(const char *name, size_t len);

#ifdef __cplusplus
}
#endif
#endif
