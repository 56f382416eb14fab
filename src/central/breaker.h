/* Each shard has a circuit breaker with three states.
 *
 *   closed     all calls are sent. Five failures in a row open the breaker, and so does
 *              one fatal reply such as LOADING.
 *   open       no call is sent. After a pause the server is probed with a PING. Pauses double
 *              from 50 ms to 2 s. Each pause is shortened by up to 50 % at random, so that
 *              nodes do not retry at the same time.
 *   half open  the PING succeeded, and up to 16 calls are allowed. The first success closes
 *              the breaker. A failure opens it again, with a longer pause.
 *
 * While the breaker is open, requests are decided by the rule's on_store_failure (limiter/share.c).
 * */
#ifndef WR_CENTRAL_BREAKER_H
#define WR_CENTRAL_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define WR_BREAKER_FAILURES 5u
#define WR_BREAKER_TRIALS 16u
#define WR_BREAKER_PAUSE_NS 50000000ull
#define WR_BREAKER_PAUSE_MAX_NS 2000000000ull

enum wr_breaker_state {
	WR_BREAKER_CLOSED,
	WR_BREAKER_OPEN,
	WR_BREAKER_HALF_OPEN,
};

struct wr_breaker {
	enum wr_breaker_state state;
	uint32_t failures;    /* number of consecutive failures */
	uint32_t trials;      /* in state half open: how many more calls are allowed */
	uint32_t step;        /* number of pauses since the breaker was last closed, at most 16 */
	uint64_t probe_at_ns; /* time of the next probe (PING) in state open, monotonic */
};

/* Returns true if the breaker allows a call. In state half open, each allowed call reduces `trials`
 * by one. */
bool wr_breaker_pass(struct wr_breaker *breaker);

/* wr_breaker_succeeded records that a call succeeded, and returns true if this has closed the
 * breaker. wr_breaker_failed records that a call failed, and returns true if this has opened the
 * breaker. */
bool wr_breaker_succeeded(struct wr_breaker *breaker);
bool wr_breaker_failed(struct wr_breaker *breaker, uint64_t mono_ns, uint64_t random);

/* Opens the breaker. If it is already open, a new and longer pause begins. */
void wr_breaker_open(struct wr_breaker *breaker, uint64_t mono_ns, uint64_t random);

/* Called when the probe (PING) has succeeded. Allows WR_BREAKER_TRIALS calls. */
void wr_breaker_half_open(struct wr_breaker *breaker);

#endif
