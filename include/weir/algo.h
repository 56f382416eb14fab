/* The algorithms of weir as pure functions over the caller's state. The sixth, a limit on concurrent
 * requests, needs a table (weir_take in weir/weir.h).
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
 * epoch, below 2^63. It is allowed that they step back or jump. If the time of a request is up to a
 * second before the time of the state, the request is counted at the time of the state, but
 * retry_after_ns and the other waits in its decision start at the time of the request. A zeroed
 * state is the state of a key that was never used. */
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
	X(WEIR_SLIDING_LOG, 5, "sliding_window_log")                                               \
	X(WEIR_CONCURRENT, 6, "concurrent")

enum weir_algorithm {
#define WEIR_ALGORITHM_ENUM(name, number, text) name = (number),
	WEIR_ALGORITHMS(WEIR_ALGORITHM_ENUM)
#undef WEIR_ALGORITHM_ENUM
};

#define WEIR_NEVER UINT64_MAX /* value of retry_after_ns if waiting does not help */
#define WEIR_LOG_MAX 65532u   /* largest limit of a sliding window log */
#define WEIR_SLOTS_MAX 32766u /* largest limit on concurrent requests */
#define WEIR_SPAN_MAX_NS                                                                           \
	(100ull * 31557600 * 1000000000) /* longest period, and longest time to fill a bucket */

enum weir_limit_flags {
	WEIR_COUNT_REJECTED = 1, /* refused requests are charged too; for window algorithms only */
	/* If a sliding window log does not fit in the table, refuse the request and set `full`.
	 * Without this flag the log is approximated, see docs/engine.md. */
	WEIR_FULL_REFUSES = 2,
	/* Settling charges nothing beyond the capacity (in soft mode: beyond soft_ceiling). max_debt
	 * must be 0. */
	WEIR_NO_DEBT = 4,
};

/* A limit. The caller sets the fields up to `identity`, zeroes the rest, and calls
 * weir_limit_check() once. `size` must be equal to sizeof(struct weir_limit) in the library's
 * version, because weir_limit_check() writes the internal fields at the end of the struct. */
struct weir_limit {
	uint32_t size;      /* sizeof(struct weir_limit) */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t limit;     /* requests per period, or slots; 0 refuses everything */
	uint32_t flags;     /* enum weir_limit_flags */
	/* The period. For WEIR_CONCURRENT: the time after which a slot that was not given back is
	 * free again. 0 is allowed if window_start_ns and window_end_ns are set. */
	uint64_t period_ns;

	uint32_t burst;      /* capacity of a token bucket; 0: the capacity is `limit` */
	uint32_t queue_size; /* maximum number of requests that wait in a leaky bucket */
	/* Longest wait in a leaky bucket. 0: only queue_size limits the wait. */
	uint64_t max_wait_ns;

	/* For a fixed window of the calendar (a day, a month): the window [start, end) that
	 * contains now_ns. A calendar window does not start at a multiple of period_ns since the
	 * epoch. For all other limits, window_start_ns and window_end_ns are 0. */
	uint64_t window_start_ns;
	uint64_t window_end_ns;

	/* Soft mode: soft_ceiling replaces the limit (for a token bucket: its capacity) for
	 * soft_for_ns, starting with the first request above the limit. Soft mode is available
	 * again after one period without a request above the limit. If soft_ceiling is 0, the limit
	 * has no soft mode. Leaky buckets have no soft mode. */
	uint32_t soft_ceiling;
	uint32_t shares; /* internal: number of nodes that share the limit; callers set 0 */
	uint64_t soft_for_ns;

	/* Debt is the number of units in use beyond the capacity. Settling (weir_settle in
	 * weir/weir.h) charges the units that a request used beyond its reservation, until the debt
	 * is max_debt. In soft mode, settling charges until soft_ceiling is exceeded by max_debt. 0
	 * means `capacity`. A leaky bucket and a limit on concurrent requests have no debt. */
	uint32_t max_debt;
	uint32_t reserved; /* 0 */

	/* The algorithm, the period and `identity` together identify the counter of a key in a
	 * table. Two limits on the same key with equal algorithm and period need different values
	 * of `identity`. The value of `limit` does not identify a counter. */
	uint64_t identity;

	/* weir_limit_check() sets the fields from here on. */
	/* Hash of `algorithm`, the period and `identity`. 0: weir_limit_check() was not called, or
	 * the limit is not usable. */
	uint64_t checked;
	/* Internal, for the quick paths: a state of this age in ns,
	 * or older, has no effect on a decision. 0: the quick paths are not used for this limit. */
	uint64_t narrow_ns;
	/* Internal: period_ns on a logarithmic scale. The table uses this scale to
	 * choose the keys to evict. */
	uint64_t harm_base;
	/* Largest cost that can be admitted without soft mode: queue_size + 1 for a leaky bucket,
	 * `burst` for a token bucket that has one, otherwise `limit`. It is 0 if `limit` is 0. */
	uint32_t capacity;
	uint32_t ceiling; /* soft_ceiling if the limit has soft mode, otherwise `capacity` */
};

/* State of one key under one limit: 96 bits. Every algorithm uses it except the sliding window log
 * and the limit on concurrent requests. The contents are internal. All zero means that the key was
 * never used. */
struct weir_state {
	uint64_t s0;
	uint32_t s1;
};

/* State of a sliding window log: a ring of time stamps in the caller's memory. The caller sets
 * `stamps` and `capacity` and zeroes the rest. `capacity` must be at least the limit. */
struct weir_log {
	/* The newest entries may be pending, that is, not in the ring yet. All pending entries have
	 * the time stamp newest_ns. */
	uint64_t newest_ns;
	uint32_t head;  /* index of the newest entry in the ring */
	uint32_t count; /* number of entries, including the pending entries */
	uint32_t pending;
	uint32_t capacity;
	uint64_t *stamps;
};

/* The decision on a request under one limit. */
struct weir_decision {
	uint8_t admitted;
	uint8_t soft;       /* admitted above the limit because of soft mode */
	uint8_t full;       /* refused because the log or the slots do not fit in the table */
	uint8_t banned;     /* refused by an operator's ban, see weir/control.h */
	uint32_t limit;     /* value of `remaining` for a key that was never used */
	uint32_t remaining; /* units that can still be taken after this decision */
	uint32_t granted;   /* part of `limit` that an operator granted */
	/* If the request is refused: the time until an equal request would be admitted if no other
	 * requests came. For a limit on concurrent requests, it is estimated from the times for which
	 * requests have held their slots, and at least one second. WEIR_NEVER: waiting does not help.
	 * If the request is admitted: 0. */
	uint64_t retry_after_ns;
	uint64_t reset_after_ns; /* time until the key is as if it had never been used */
	uint64_t delay_ns;       /* leaky bucket: the admitted request must wait this long */
	/* The time for which the units were counted. weir_return needs it to find the units. Its
	 * meaning depends on the algorithm: a time in the window, the time stamp in the log, the
	 * time at which the units were taken from the token bucket, or the time at which the
	 * request leaves the leaky bucket. For a limit on concurrent requests, charged_ns identifies
	 * the request and its slot: no other request of the key gets the same value. 0: nothing was
	 * taken. */
	uint64_t charged_ns;
	/* Units in use beyond `limit`, which settling has charged, or which were admitted in soft
	 * mode or under a larger limit. 0 for a limit with WEIR_COUNT_REJECTED. */
	uint32_t debt;
	uint32_t reserved;
};

/* Checks a limit and sets its fields from `checked` on. `error` may be NULL. Returns 0, WEIR_EINVAL
 * (limit is NULL, or limit->size is not sizeof(struct weir_limit)), or WEIR_ELIMIT if the limit is
 * not usable. */
WEIR_API int weir_limit_check(struct weir_limit *limit, struct weir_error *error);

/* Decides one request and updates the state.
 *   cost  n > 0  takes n units or none; a cost above the capacity is refused with WEIR_NEVER
 *         0      takes nothing; the request is refused if no unit remains
 *         n < 0  gives -n units back at the time now_ns, but at most the units in use; the request
 *                is always admitted. The caller must not give back units of an earlier window
 *   soft  the state of soft mode for this key, all zero at first; NULL if the limit has no soft
 *         mode
 * Returns 0, WEIR_EINVAL, WEIR_ELIMIT (the limit was not checked, is a sliding window log or a limit
 * on concurrent requests) or WEIR_ETIME. On an error the state is unchanged and *decision is all
 * zero. */
WEIR_API int weir_step(const struct weir_limit *limit, struct weir_state *state,
		       struct weir_state *soft, int64_t cost, uint64_t now_ns,
		       struct weir_decision *decision);

/* Like weir_step, for a sliding window log. Also returns WEIR_EINVAL if the capacity of the ring is
 * below the limit (with soft mode: below soft_ceiling), or if the fields of the log contradict each
 * other. */
WEIR_API int weir_log_step(const struct weir_limit *limit, struct weir_log *log,
			   struct weir_state *soft, int64_t cost, uint64_t now_ns,
			   struct weir_decision *decision);

/* Returns the name of an algorithm in rule files, or NULL if there is no such algorithm. */
WEIR_API const char *weir_algorithm_name(int algorithm);

/* Returns the enum weir_algorithm with this name in rule files, or 0 if no algorithm has this
 * name. */
WEIR_API int weir_algorithm_by_name(const char *name, size_t len);

#ifdef __cplusplus
}
#endif
#endif
