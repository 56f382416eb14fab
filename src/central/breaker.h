/* A circuit breaker per shard.
 *
 *   closed     all calls are sent. Five failures in a row open the breaker, and so does
 *              one fatal reply such as LOADING.
 *   open       no call is sent. After a pause the server is probed. Pauses double from 50 ms
 *              to 2 s. Each pause is shortened by up to 50 % at random, so that nodes do not
 *              retry at the same time.
 *   half open  the probe succeeded, and 16 calls may be sent. The first success closes the
 *              breaker; a failure opens it again for longer. */
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
	uint32_t failures; /* number of consecutive failures */
	uint32_t trials;   /* number of calls that may still be sent in state half open */
	uint32_t step; /* number of times that the breaker has opened since it was last closed */
	uint64_t probe_at_ns; /* time of the next probe in state open, monotonic */
};

/* Returns true if a call may be sent, and counts this call as sent. */
bool wr_breaker_pass(struct wr_breaker *breaker);

/* These functions record a success or a failure. They return true if the breaker closed or opened
 * because of it. */
bool wr_breaker_succeeded(struct wr_breaker *breaker);
bool wr_breaker_failed(struct wr_breaker *breaker, uint64_t mono_ns, uint64_t random);

/* Opens the breaker. If it is already open, a new and longer pause begins. */
void wr_breaker_open(struct wr_breaker *breaker, uint64_t mono_ns, uint64_t random);

/* Called when the probe has succeeded. Allows trial calls. */
void wr_breaker_half_open(struct wr_breaker *breaker);

#endif
