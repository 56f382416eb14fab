/* Decides whether a failed attempt is repeated, and when.
 *
 *   attempts   at most `attempts_max` per request
 *   methods    GET, HEAD, PUT, DELETE, OPTIONS and TRACE, and any method with an Idempotency-Key, or
 *              if no byte of the request was sent
 *   reasons    429, 502, 503, 504, a refusal in a 403, and failures of the connection
 *   time       a wait chosen at random between 0 and base · 2^(attempt − 1), at most `pause_max`;
 *              added to the wait that the server told, so never sooner than told
 *   deadline   no retry that would start after it
 *   budget     each request adds a tenth of a retry to a bucket of the host, and each retry takes
 *              one. So a host that fails gets 10 % more requests than usual, not several times as
 *              many. The bucket has 10 retries at the start. A wait that the server told is a
 *              promise to serve later: such a retry takes nothing from the bucket. Nor does the
 *              retry after a kept connection has ended: it uses a new connection, so that there is
 *              at most one for each request that was served.
 *
 * Pure functions: no clock, no lock. The caller holds the lock of the host. */
#ifndef WR_CLIENT_RETRY_H
#define WR_CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_RETRY_BASE_NS 500000000ull
#define WR_RETRY_PAUSE_MAX_NS 60000000000ull
#define WR_RETRY_ATTEMPTS 5u
#define WR_RETRY_TENTHS_MAX 100u /* capacity of the budget: 10 retries */

/* The caller may set any field to 0 for its default. */
struct wr_retry_settings {
	uint32_t attempts_max; /* including the first attempt */
	uint64_t base_ns, pause_max_ns;
};

/* The retry budget of one host, in tenths of a retry. */
struct wr_retry_budget {
	uint32_t tenths;
};

/* Why an attempt failed, as far as retries care. */
struct wr_retry_attempt {
	struct weir_str method;
	bool idempotency_key; /* the request has an Idempotency-Key */
	bool unsent;          /* the connection failed before a byte of the request was sent */
	bool stale;           /* a kept connection ended without a response */
	bool failed;          /* no response: a failure of the connection or a timeout */
	bool refused;         /* weir_ratelimit.refused */
	int status;           /* of the response; 0 if `failed` */
	uint32_t number;      /* of this attempt: 1 is the first */
	uint64_t wait_ns;     /* weir_ratelimit.wait_ns; 0: none was told */
	uint64_t waited_ns;   /* time since the wait was told */
	uint64_t deadline_ns; /* no attempt starts after it; 0: no deadline */
};

enum wr_retry_verdict {
	WR_RETRY_YES = 0,
	WR_RETRY_NOT_FAILED, /* the response is final: a success, a redirect, another error */
	WR_RETRY_METHOD,     /* the method is not idempotent */
	WR_RETRY_ATTEMPTS_USED,
	WR_RETRY_DEADLINE,
	WR_RETRY_BUDGET,
};

void wr_retry_budget_init(struct wr_retry_budget *budget);

/* Called once per request, when its first attempt is sent. Adds a tenth of a retry. */
void wr_retry_earn(struct wr_retry_budget *budget);

/* Returns whether a request with the method may reach the server twice. */
bool wr_retry_may_repeat(struct weir_str method, bool idempotency_key);

/* Decides. With WR_RETRY_YES, *at_ns is the earliest time of the next attempt, and the budget has
 * paid for it. The attempt also needs a time of wr_pace_reserve, and a pass of the breaker. */
enum wr_retry_verdict wr_retry_decide(const struct wr_retry_settings *settings,
				      struct wr_retry_budget *budget,
				      const struct wr_retry_attempt *attempt, uint64_t now_ns,
				      uint64_t random, uint64_t *at_ns);

/* Returns a sentence part for messages, such as "the retry budget of the host is used up". */
const char *wr_retry_text(enum wr_retry_verdict verdict);

#endif
