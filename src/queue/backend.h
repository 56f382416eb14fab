/* What the thread wants of a queue, whichever it is: SQLite or Redis. All of it is called from that
 * thread and may wait for a disk or a network. */
#ifndef WR_QUEUE_BACKEND_H
#define WR_QUEUE_BACKEND_H

#include "queue/queue.h"
#include "queue/seal.h"

#define WR_DAY_US (86400ull * 1000000)

/* Two clocks at once: one that people set, and one that only goes on. */
struct wr_moment {
	uint64_t wall_us, mono_us;
};

struct wr_queue_backend;

struct wr_queue_backend_ops {
	/* WR_QUEUE_OK, or why not and a sentence; then nothing is left open. */
	enum wr_queue_reason (*open)(struct wr_queue_backend *backend, struct wr_moment now,
				     struct weir_error *error);

	/* Does these jobs in their order and fills in what became of them, all durable together.
	 * Tells of lines that changed. May end with wr_queue_backend_fail(). */
	void (*run)(struct wr_queue_backend *backend, struct wr_queue_job **jobs, size_t count,
		    struct wr_moment now);

	/* Every `tick_us` or later: what is to be done without being asked. */
	void (*tick)(struct wr_queue_backend *backend, struct wr_moment now);

	void (*close)(struct wr_queue_backend *backend); /* may be opened again */
	void (*free)(struct wr_queue_backend *backend);
};

struct wr_queue_backend {
	const struct wr_queue_backend_ops *ops;
	const struct wr_queue_opts *opts; /* with defaults filled in */
	const struct wr_seals *seals;     /* NULL: none */
	uint64_t tick_us;
	enum wr_queue_reason failed; /* set by run or tick: it has to be opened again */
	struct weir_error why;
	uint64_t trimmed;    /* dead letters that had to go and were not told of yet … */
	uint64_t trimmed_us; /* … since this time; 0: they never had to */
};

/* NULL: no memory. The URL was checked. */
struct wr_queue_backend *wr_sqlite_new(const struct wr_queue_opts *opts,
				       const struct wr_seals *seals);
/* WEIR_EINVAL: files that it needs are of no use. */
int wr_remote_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		  struct wr_queue_backend **made, struct weir_error *error);

/* Folder of a file: URL, NULL if it is none. */
const char *wr_lite_folder(const char *url);

/* It is of no use until it is opened again, for this reason. Returns `reason`. */
enum wr_queue_reason wr_queue_backend_fail(struct wr_queue_backend *backend,
					   enum wr_queue_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void wr_queue_backend_log(const struct wr_queue_backend *backend, enum wr_queue_level level,
			  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* So many dead letters had to go: says so, once in a minute. */
void wr_queue_backend_count_trimmed(struct wr_queue_backend *backend, uint64_t count,
				    uint64_t now_us);

static inline void wr_queue_backend_report_waiting(const struct wr_queue_backend *backend,
						   const uint8_t *key, uint64_t count)
{
	if (backend->opts->waiting)
		backend->opts->waiting(backend->opts->context, key, count);
}

/* Back to what was submitted: results are freed and forgotten. */
void wr_job_reset(struct wr_queue_job *job);

#endif
