/* The rings of the decision log, between the loops (log.c) and the writer thread (log_writer.c). */
#ifndef WR_SERVE_DECIDE_LOG_RING_H
#define WR_SERVE_DECIDE_LOG_RING_H

#include <pthread.h>

#include "serve/decide/log.h"

#define WR_RING_BYTES ((size_t)256 << 10) /* a power of two */

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a cache line for each of the two
struct wr_decision_lane {
	struct wr_decision_log *log;
	uint64_t random;
	uint64_t held, lost;         /* written by the loop */
	_Alignas(64) uint64_t head;  /* bytes written so far, in whole lines; by the loop */
	_Alignas(64) uint64_t tail;  /* bytes read so far; by the writer thread */
	uint64_t written, unwritten; /* lines; by the writer thread */
	char bytes[WR_RING_BYTES];
};

struct wr_decision_log {
	const char *path; /* "-": standard output */
	int fd;
	int wake; /* eventfd */
	unsigned asleep, reopen, stop;
	unsigned keys; /* enum weir_engine_keys */
	uint32_t refused_per_s, share_ppm;
	uint64_t second; /* the current second << 32 | refusals logged in it */
	unsigned lane_count;
	struct wr_decision_lane *lanes;
	pthread_t thread;
	bool started;
	bool given_up; /* set by the writer thread: it ends although the rings are not empty */
};

/* The writer thread; its argument is the log. */
void *wr_decision_writer(void *argument);

/* Opens the file of --decision-log. Returns a descriptor, or -1 with errno. */
int wr_decision_file(const char *path);

#endif
