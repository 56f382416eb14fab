/* The thread that writes the decision log. This thread is allowed to wait for a disk or a slow
 * reader; loops are not. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "serve/decide/log_ring.h"
#include "net/log.h"

/* Maximum number of bytes per write. A pipe that is writable accepts this many without blocking. */
#define PIECE_BYTES 4096u
/* If the log is a pipe and is being closed, the writer thread gives up when the pipe has accepted
 * no bytes for this time. */
#define PATIENCE_MS 1000

static void log_failure(const struct wr_serve_decision_log *log)
{
	static struct wr_log_gate gate;
	int error = errno;

	wr_log_limited(&gate, WR_LOG_ERROR, "cannot write the decision log %s: %s", log->path,
		       strerror(error));
}

/* Waits until PIECE_BYTES can be written without blocking, then returns true. If the log is closing
 * and the reader of its pipe reads nothing for PATIENCE_MS, sets log->given_up and returns false.
 * If log->given_up is already set, returns false at once. */
static bool wait_writable(struct wr_serve_decision_log *log)
{
	struct pollfd fd = {log->fd, POLLOUT, 0};

	while (!log->given_up) {
		bool stop = __atomic_load_n(&log->stop, __ATOMIC_ACQUIRE);
		int ready = poll(&fd, 1, PATIENCE_MS);

		if (ready != 0 && !(ready < 0 && errno == EINTR))
			return true;
		log->given_up = stop && ready == 0;
	}
	return false;
}

/* Writes all bytes. Returns false if a part could not be written. */
static bool write_all(struct wr_serve_decision_log *log, const char *bytes, size_t len)
{
	while (len) {
		ssize_t done;

		if (!wait_writable(log))
			return false;
		done = write(log->fd, bytes, len < PIECE_BYTES ? len : PIECE_BYTES);
		if (done < 0 && errno != EINTR && errno != EAGAIN) {
			log_failure(log);
			return false;
		}
		bytes += done > 0 ? done : 0;
		len -= done > 0 ? (size_t)done : 0;
	}
	return true;
}

static uint64_t count_lines(const char *bytes, size_t len)
{
	uint64_t lines = 0;

	for (const char *end = bytes + len; (bytes = memchr(bytes, '\n', (size_t)(end - bytes)));
	     bytes++)
		lines++;
	return lines;
}

/* Writes the content of a ring to the file. Returns false if the ring was empty. */
static bool empty_ring(struct wr_serve_decision_log *log, struct wr_serve_decision_lane *lane)
{
	uint64_t head = __atomic_load_n(&lane->head, __ATOMIC_SEQ_CST);
	uint64_t tail = lane->tail;

	if (head == tail)
		return false;
	while (tail != head) {
		size_t at = tail & (WR_RING_BYTES - 1);
		size_t len = head - tail < WR_RING_BYTES - at ? head - tail : WR_RING_BYTES - at;
		uint64_t lines = count_lines(lane->bytes + at, len);
		bool good = write_all(log, lane->bytes + at, len);

		__atomic_fetch_add(good ? &lane->written : &lane->unwritten, lines,
				   __ATOMIC_RELAXED);
		tail += len;
		__atomic_store_n(&lane->tail, tail, __ATOMIC_RELEASE);
	}
	return true;
}

static bool empty_all(struct wr_serve_decision_log *log)
{
	bool any = false;

	for (unsigned i = 0; i < log->lane_count; i++)
		any |= empty_ring(log, &log->lanes[i]);
	return any;
}

int wr_serve_decision_file(const char *path)
{
	if (strcmp(path, "-") == 0)
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
}

static void reopen_file(struct wr_serve_decision_log *log)
{
	int fd = wr_serve_decision_file(log->path);

	if (fd < 0) {
		wr_log(WR_LOG_ERROR,
		       "cannot open the decision log %s again: %s; lines still go to the file that "
		       "was open before",
		       log->path, strerror(errno));
		return;
	}
	close(log->fd);
	log->fd = fd;
}

static void sleep_until_woken(struct wr_serve_decision_log *log)
{
	uint64_t woken;

	__atomic_store_n(&log->asleep, 1, __ATOMIC_SEQ_CST);
	if (empty_all(log)) {
		__atomic_store_n(&log->asleep, 0, __ATOMIC_SEQ_CST);
		return;
	}
	if (__atomic_load_n(&log->stop, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&log->reopen, __ATOMIC_ACQUIRE))
		return;
	while (read(log->wake, &woken, sizeof woken) < 0 && errno == EINTR)
		;
}

void *wr_serve_decision_writer(void *argument)
{
	struct wr_serve_decision_log *log = argument;

	while (!__atomic_load_n(&log->stop, __ATOMIC_ACQUIRE)) {
		empty_all(log);
		if (__atomic_exchange_n(&log->reopen, 0, __ATOMIC_ACQ_REL))
			reopen_file(log);
		sleep_until_woken(log);
	}
	empty_all(log);
	return NULL;
}
