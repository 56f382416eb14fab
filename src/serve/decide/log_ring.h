/* Between the two halves of the decision log: loops that fill rings, the thread that empties them.
 */
#ifndef WR_SERVE_DECIDE_LOG_RING_H
#define WR_SERVE_DECIDE_LOG_RING_H

#include <pthread.h>

#include "serve/decide/log.h"

#define WR_RING_BYTES ((size_t)256 << 10) /* a power of two */

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a cache line for each of the two
struct wr_decision_lane {
	struct wr_decision_log *log;
	uint64_t random;
	uint64_t held, lost;         /* the loop's own; others read */
	_Alignas(64) uint64_t head;  /* bytes ever put in; whole lines */
	_Alignas(64) uint64_t tail;  /* … and taken out; the writing thread's */
	uint64_t written, unwritten; /* lines; the writing thread's */
	char bytes[WR_RING_BYTES];
};

struct wr_decision_log {
	const char *path; /* "-": standard output */
	int fd;
	int wake; /* eventfd */
	unsigned asleep, reopen, stop;
	unsigned keys; /* enum weir_engine_keys */
	uint32_t refused_per_s, share_ppm;
	uint64_t second; /* now, and how many refusals were told in it: second << 32 | count */
	unsigned lane_count;
	struct wr_decision_lane *lanes;
	pthread_t thread;
	bool started;
	bool given_up; /* the writing thread's: it ends, and nobody reads */
};

/* The writing thread; a log is its argument. */
void *wr_decision_writer(void *argument);

/* Opens what --decision-log names. Below 0: errno says why. */
int wr_decision_file(const char *path);

#endif
