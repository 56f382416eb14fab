/* Selects decisions for the log and writes them into rings. Called by pending.c in the thread of a
 * loop, and by the service at start and end. */
#include "serve/decide/log_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "net/log.h"
#include "serve/open.h"

#define MILLION 1000000u

/* ---- in a loop ---- */

static bool is_sampled(struct wr_serve_decision_lane *lane)
{
	uint32_t share = lane->log->share_ppm;

	if (share == 0 || share >= MILLION)
		return share != 0;
	lane->random ^= lane->random << 13; /* the random number generator xorshift64 */
	lane->random ^= lane->random >> 7;
	lane->random ^= lane->random << 17;
	return (lane->random >> 32) * MILLION >> 32 < share;
}

/* Counts a refusal in the current second and returns true. If refused_per_s refusals were already
 * counted in this second, counts nothing and returns false. All loops share the counter. */
static bool is_within_rate(struct wr_serve_decision_log *log, uint64_t now_ns)
{
	uint64_t second = now_ns / 1000000000;
	uint64_t seen = __atomic_load_n(&log->second, __ATOMIC_RELAXED), next;

	do {
		uint64_t count = seen >> 32 == (second & UINT32_MAX) ? seen & UINT32_MAX : 0;

		if (count >= log->refused_per_s)
			return false;
		next = second << 32 | (count + 1);
	} while (!__atomic_compare_exchange_n(&log->second, &seen, next, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

static void wake_writer(struct wr_serve_decision_log *log)
{
	uint64_t one = 1;

	if (write(log->wake, &one, sizeof one) < 0)
		return; /* never reached: this write to an eventfd cannot fail */
}

/* Adds 1 to a counter that only one thread writes and other threads may read. */
static void count_one(uint64_t *count)
{
	__atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static void put_line(struct wr_serve_decision_lane *lane, const char *line, size_t len)
{
	/* Acquire: pairs with the release of `tail` in empty_ring(). The writer thread has read the
	 * bytes before `tail`, so they can be overwritten. */
	uint64_t tail = __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE);
	size_t at = lane->head & (WR_RING_BYTES - 1);
	size_t first = len < WR_RING_BYTES - at ? len : WR_RING_BYTES - at;

	if (len > WR_RING_BYTES - (lane->head - tail)) {
		count_one(&lane->lost);
		return;
	}
	memcpy(lane->bytes + at, line, first);
	memcpy(lane->bytes, line + first, len - first);
	/* Release: pairs with the load of `head` in empty_ring(), so that the writer thread sees
	 * the bytes of the log line if it sees the new `head`. The store is sequentially consistent
	 * too, so one of two things happens: the writer thread sees the new `head` before it
	 * sleeps, or this thread sees that the writer thread sleeps, and wakes it. */
	__atomic_store_n(&lane->head, lane->head + len, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&lane->log->asleep, 0, __ATOMIC_SEQ_CST))
		wake_writer(lane->log);
}

/* Writes a line with write_json() and puts it into the ring. */
static void put_view(struct wr_serve_decision_lane *lane, struct wr_decision_view *view,
		     unsigned sampled_ppm,
		     void (*write_json)(const struct wr_decision_view *view, struct wr_buf *line))
{
	char line[WR_DECISION_LINE + 1];
	struct wr_buf out;

	view->keys = lane->log->keys;
	view->sampled_ppm = sampled_ppm;
	wr_buf_init_fixed(&out, line, sizeof line);
	write_json(view, &out);
	if (wr_buf_failed(&out))
		count_one(&lane->lost);
	else
		put_line(lane, line, out.len);
}

void wr_serve_decision_note(struct wr_serve_decision_lane *lane, struct wr_decision_view *view)
{
	wr_assert(lane && view->ask);
	if (!wr_decision_counts(view->ask))
		return;
	if (!wr_decision_refused(view->ask)) {
		if (is_sampled(lane))
			put_view(lane, view, lane->log->share_ppm, wr_decision_json);
	} else if (is_within_rate(lane->log, view->now_ns)) {
		put_view(lane, view, MILLION, wr_decision_json);
	} else {
		count_one(&lane->held);
	}
}

void wr_serve_decision_note_settled(struct wr_serve_decision_lane *lane,
				    struct wr_decision_view *view)
{
	wr_assert(lane && view->ask);
	if (wr_decision_has_settlement(view->ask) && is_sampled(lane))
		put_view(lane, view, lane->log->share_ppm, wr_decision_settlement_json);
}

struct wr_serve_decision_lane *wr_serve_decision_lane(struct wr_serve_decision_log *log,
						      unsigned loop)
{
	wr_assert(!log || loop < log->lane_count);
	return log ? &log->lanes[loop] : NULL;
}

/* ---- beginning and end ---- */

/* Reads a percentage "5", "5%" or "0.25%" as parts per million. */
static int read_share(const char *text, uint32_t *ppm, struct weir_error *error)
{
	char *end;
	double percent = strtod(text, &end);

	if (*end == '%')
		end++;
	if (end == text || *end || !(percent >= 0 && percent <= 100))
		return wr_error(error, WEIR_EINVAL,
				"--decision-log-share '%s' is not a percentage from 0%% to 100%%, "
				"such as 1%% or 0.05%%",
				text);
	*ppm = (uint32_t)(percent * 10000 + 0.5);
	return 0;
}

static int make_lanes(struct wr_serve_decision_log *log, unsigned loops)
{
	log->lanes = aligned_alloc(64, loops * sizeof *log->lanes);
	if (!log->lanes)
		return -1;
	log->lane_count = loops;
	for (unsigned i = 0; i < loops; i++) {
		struct wr_serve_decision_lane *lane = &log->lanes[i];

		memset(lane, 0, offsetof(struct wr_serve_decision_lane, bytes));
		lane->log = log;
		if (getrandom(&lane->random, sizeof lane->random, 0) < 0 || lane->random == 0)
			lane->random = 0x9e3779b97f4a7c15 + i;
	}
	return 0;
}

int wr_serve_decision_log_open(const struct wr_settings *settings, unsigned loops,
			       struct wr_serve_decision_log **opened, struct weir_error *error)
{
	struct wr_serve_decision_log *log;
	int rc = 0;

	*opened = NULL;
	if (!settings->decision_log)
		return 0;
	log = calloc(1, sizeof *log);
	if (!log || make_lanes(log, loops) < 0) {
		free(log);
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	log->path = settings->decision_log;
	log->keys = wr_settings_keys(settings);
	log->refused_per_s = (uint32_t)settings->decision_log_refused;
	log->wake = eventfd(0, EFD_CLOEXEC);
	log->fd = wr_serve_decision_file(log->path);
	if (settings->decision_log_share)
		rc = read_share(settings->decision_log_share, &log->share_ppm, error);
	if (rc == 0 && (log->fd < 0 || log->wake < 0))
		rc = wr_error_errno(error, WEIR_ESYS, "--decision-log %s", log->path);
	if (rc < 0)
		wr_serve_decision_log_close(log);
	else
		*opened = log;
	return rc;
}

void wr_serve_decision_log_give(struct wr_serve_decision_log *log, uid_t uid, gid_t gid)
{
	struct stat found;

	if (log && strcmp(log->path, "-") != 0 && fstat(log->fd, &found) == 0 &&
	    S_ISREG(found.st_mode) && fchown(log->fd, uid, gid) < 0)
		wr_log(WR_LOG_WARN, "cannot change the owner of the decision log %s: %s", log->path,
		       strerror(errno));
}

int wr_serve_decision_log_start(struct wr_serve_decision_log *log)
{
	wr_assert(!log || !log->started);
	if (!log)
		return 0;
	log->started =
		wr_thread_start(&log->thread, "weir-log", wr_serve_decision_writer, log) == 0;
	return log->started ? 0 : WEIR_ESYS;
}

static void set_flag(struct wr_serve_decision_log *log, unsigned *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	wake_writer(log);
}

void wr_serve_decision_log_reopen(struct wr_serve_decision_log *log)
{
	if (log)
		set_flag(log, &log->reopen);
}

void wr_serve_decision_log_close(struct wr_serve_decision_log *log)
{
	if (!log)
		return;
	if (log->started) {
		set_flag(log, &log->stop);
		pthread_join(log->thread, NULL);
	}
	if (log->fd >= 0)
		close(log->fd);
	if (log->wake >= 0)
		close(log->wake);
	free(log->lanes);
	free(log);
}

void wr_serve_decision_log_sum(struct wr_serve_decision_log *log,
			       struct wr_serve_decision_log_tally *tally)
{
	*tally = (struct wr_serve_decision_log_tally){0};
	for (unsigned i = 0; log && i < log->lane_count; i++) {
		const struct wr_serve_decision_lane *lane = &log->lanes[i];

		tally->written += __atomic_load_n(&lane->written, __ATOMIC_RELAXED);
		tally->lost += __atomic_load_n(&lane->lost, __ATOMIC_RELAXED) +
			       __atomic_load_n(&lane->unwritten, __ATOMIC_RELAXED);
		tally->held += __atomic_load_n(&lane->held, __ATOMIC_RELAXED);
	}
}
