/* A circuit breaker: it stops calls to a server that fails, and tries them again later.
 *
 *   closed     all calls are sent. `failures` failures in a row open the breaker.
 *   open       no call is sent. The pause doubles from pause_ns to pause_max_ns each time, and is
 *              shortened by up to 50 % at random, so that clients do not retry at the same time.
 *              The user tries the server after the pause (probe_at_ns).
 *   half open  up to `trials` calls are allowed. The first success closes the breaker. A failure
 *              opens it again, with a longer pause.
 *
 * central/breaker.h and client/breaker.h have the settings of their users. */
#ifndef WR_BASE_BREAKER_H
#define WR_BASE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum wr_breaker_state {
	WR_BREAKER_CLOSED,
	WR_BREAKER_OPEN,
	WR_BREAKER_HALF_OPEN,
};

struct wr_breaker_settings {
	uint32_t failures;
	uint32_t trials;
	uint64_t pause_ns, pause_max_ns;
};

/* All zero is a closed breaker. */
struct wr_breaker {
	enum wr_breaker_state state;
	uint32_t failures;    /* number of consecutive failures */
	uint32_t trials;      /* in state half open: how many more calls are allowed */
	uint32_t step;        /* number of pauses since the breaker was last closed, at most 16 */
	uint64_t probe_at_ns; /* end of the pause in state open, monotonic */
};

/* Returns true if the breaker allows a call. In state half open, each allowed call reduces `trials`
 * by one. */
bool wr_breaker_pass(struct wr_breaker *breaker);

/* wr_breaker_succeeded records that a call succeeded, and returns true if this has closed the
 * breaker. wr_breaker_failed records that a call failed, and returns true if this has opened the
 * breaker. */
bool wr_breaker_succeeded(struct wr_breaker *breaker);
bool wr_breaker_failed(struct wr_breaker *breaker, const struct wr_breaker_settings *settings,
		       uint64_t mono_ns, uint64_t random);

/* Opens the breaker. If it is already open, a new and longer pause begins. */
void wr_breaker_open(struct wr_breaker *breaker, const struct wr_breaker_settings *settings,
		     uint64_t mono_ns, uint64_t random);

/* Ends the pause. Allows settings->trials calls. */
void wr_breaker_half_open(struct wr_breaker *breaker, const struct wr_breaker_settings *settings);

#endif
