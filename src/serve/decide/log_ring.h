/* The rings of the decision log. Loops (log.c) write lines into them, and the writer thread
 * (log_writer.c) empties them. */
#ifndef WR_SERVE_DECIDE_LOG_RING_H
#define WR_SERVE_DECIDE_LOG_RING_H

#include <pthread.h>

#include "serve/decide/log.h"

#define WR_RING_BYTES ((size_t)256 << 10) /* size of a ring; has to be a power of two */

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): each thread has its own cache line
struct wr_serve_decision_lane {
	struct wr_serve_decision_log *log;
	uint64_t random;
	/* Set by the loop. `held` is the number of refusals that were not logged, because there
	 * were too many in a second. `lost` is the number of lines that did not fit. */
	uint64_t held, lost;
	_Alignas(64) uint64_t head; /* number of bytes written so far; set by the loop */
	_Alignas(64) uint64_t tail; /* number of bytes read so far; set by the writer thread */
	/* Number of lines that the writer thread has written, and number that it could not
	 * write. */
	uint64_t written, unwritten;
	char bytes[WR_RING_BYTES];
};

struct wr_serve_decision_log {
	const char *path; /* path of the file; "-": standard output */
	int fd;
	int wake;        /* eventfd that wakes the writer thread */
	unsigned asleep; /* the writer thread sleeps, or is about to */
	/* If `reopen` is not 0, the writer thread has to reopen the file. If `stop` is not 0, the
	 * writer thread has to end. */
	unsigned reopen, stop;
	unsigned
		keys; /* enum weir_engine_keys: lines show keys as text, as hashes, or not at all */
	uint32_t refused_per_s, share_ppm;
	uint64_t second; /* the current second << 32 | number of refusals logged in that second */
	unsigned lane_count;
	struct wr_serve_decision_lane *lanes;
	pthread_t thread;
	bool started;
	bool given_up; /* the writer thread ends although the rings are not empty */
};

/* The main function of the writer thread. `argument` is the struct wr_serve_decision_log. */
void *wr_serve_decision_writer(void *argument);

/* Opens the file of --decision-log. Returns a file descriptor. On failure, returns -1 and sets
 * errno. */
int wr_serve_decision_file(const char *path);

#endif
