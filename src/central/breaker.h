/* When a shard is asked, and when it is left alone.
 *
 *   closed  all questions go there. Five failures in a row, or one that says it all, open it
 *   open    no question goes there; after a pause it is probed. Pauses double from 50 ms to 2 s and
 *           are cut by up to a half at random, so that nodes do not all come at once
 *   trying  the probe was answered: so many questions may go there. One that is answered closes the
 *           breaker, one that fails opens it for longer */
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
	uint32_t failures;   /* in a row */
	uint32_t trials;     /* trying: questions that may still go there */
	uint32_t step;       /* how often it was opened without having been closed */
	uint64_t back_at_ns; /* open: when to probe */
};

/* Whether a question may go there; if so, it does. */
bool wr_breaker_pass(struct wr_breaker *breaker);

/* One was answered, or failed. True: this has closed it, has opened it. */
bool wr_breaker_succeeded(struct wr_breaker *breaker);
bool wr_breaker_failed(struct wr_breaker *breaker, uint64_t mono_ns, uint64_t random);

/* Opens it, or begins the next and longer pause. */
void wr_breaker_open(struct wr_breaker *breaker, uint64_t mono_ns, uint64_t random);

/* The probe was answered. */
void wr_breaker_half_open(struct wr_breaker *breaker);

#endif
