/* A struct wr_central on a real redis-server, with real sockets and clocks. */
#ifndef TEST_CENTRAL_LIVE_H
#define TEST_CENTRAL_LIVE_H

#include "rig.h"

#include <time.h>

#include "redis/server.h"

#define LINES_MAX 8
#define PATIENCE_S 30
#define YEAR_NS (365 * 86400ull * 1000 * MS)

struct live {
	struct rig rig; /* only the fields that questions need are used */
	struct wr_central_link *links[LINES_MAX];
	int fds[LINES_MAX];
	bool up[LINES_MAX];
	int secrets;
	uint32_t nodes;
	char message[64];
};

uint64_t clock_ns(clockid_t id);

/* Connects to the server. The options may be NULL. */
void open_live(struct live *live, const struct redis_server *server, uint64_t holder,
	       const struct wr_central_opts *given);

/* Runs the loop of one central once. */
void run_step(struct live *live);

/* Repeats `step` until the condition is true. */
#define until_stepped(step, condition)                                                             \
	do {                                                                                       \
		uint64_t until_end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_S * 1000000000ull;       \
		while (!(condition)) {                                                             \
			assert_true(clock_ns(CLOCK_MONOTONIC) < until_end);                        \
			step;                                                                      \
		}                                                                                  \
	} while (0)

/* Runs the loop until the condition is true. */
#define until(live, condition) until_stepped(run_step(live), condition)

#endif
