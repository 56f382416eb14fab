/* The interface of the two backends of a queue, SQLite and Redis. All functions are called from the
 * queue's thread and may block on a disk or a network. */
#ifndef WR_QUEUE_BACKEND_H
#define WR_QUEUE_BACKEND_H

#include "queue/queue.h"
#include "queue/seal.h"

#define WR_QUEUE_DAY_US (86400ull * 1000000)

/* A point in time by two clocks: the wall clock, which can be set, and a clock that is never set.
 */
struct wr_queue_moment {
	uint64_t wall_us, mono_us;
};

struct wr_queue_backend;

struct wr_queue_backend_ops {
	/* Returns WR_QUEUE_OK, or a reason with *error filled in; then the backend is closed. */
	enum wr_queue_reason (*open)(struct wr_queue_backend *backend, struct wr_queue_moment now,
				     struct weir_error *error);

	/* Does these jobs in their order, makes them durable together and fills in their results.
	 * Reports lines that changed. May call wr_queue_backend_fail(). */
	void (*run)(struct wr_queue_backend *backend, struct wr_queue_job **jobs, size_t count,
		    struct wr_queue_moment now);

	/* Periodic work, called every `tick_us` or later. */
	void (*tick)(struct wr_queue_backend *backend, struct wr_queue_moment now);

	void (*close)(struct wr_queue_backend *backend); /* `open` may be called again */
	void (*free)(struct wr_queue_backend *backend);
};

struct wr_queue_backend {
	const struct wr_queue_backend_ops *ops;
	const struct wr_queue_opts *opts; /* with defaults filled in */
	const struct wr_seals *seals;     /* NULL: none */
	uint64_t tick_us;
	enum wr_queue_reason failed; /* set by run or tick: the backend has to be reopened */
	struct weir_error why;       /* of `failed` */
	uint64_t trimmed;            /* dead letters deleted since the last log line about it */
	uint64_t trimmed_us;         /* time of that line; 0: never */
};

/* Creates a backend. opts->url was checked before. Returns NULL if memory is exhausted. */
struct wr_queue_backend *wr_sqlite_new(const struct wr_queue_opts *opts,
				       const struct wr_seals *seals);
/* Returns 0, WEIR_EMEMORY, WEIR_ESYS, or WEIR_EINVAL if a password or certificate file cannot be
 * used.
 */
int wr_queue_redis_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		       struct wr_queue_backend **made, struct weir_error *error);

/* Returns the folder of a file: URL, NULL for other URLs. */
const char *wr_sqlite_folder(const char *url);

/* Marks the backend as failed: the thread closes it and reopens it later. Returns `reason`. */
enum wr_queue_reason wr_queue_backend_fail(struct wr_queue_backend *backend,
					   enum wr_queue_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void wr_queue_backend_log(const struct wr_queue_backend *backend, enum wr_queue_level level,
			  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Counts dead letters that were deleted because there were too many, and logs it once a minute. */
void wr_queue_backend_count_trimmed(struct wr_queue_backend *backend, uint64_t count,
				    uint64_t now_us);

static inline void wr_queue_backend_report_waiting(const struct wr_queue_backend *backend,
						   const uint8_t *key, uint64_t count)
{
	if (backend->opts->waiting)
		backend->opts->waiting(backend->opts->context, key, count);
}

/* Frees and clears the results of a job, as if it had just been submitted. */
void wr_queue_job_reset(struct wr_queue_job *job);

#endif
