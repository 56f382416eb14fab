/* The interface of the two backends of a queue, SQLite and Redis. All functions are called on the
 * queue's thread, because they can block on a disk or a network. */
#ifndef WR_QUEUE_BACKEND_H
#define WR_QUEUE_BACKEND_H

#include "queue/queue.h"
#include "queue/seal.h"

#define WR_QUEUE_DAY_US (86400ull * 1000000)

/* One point in time, read from two clocks: the wall clock, which an operator can set, and the
 * monotonic clock, which is never set. */
struct wr_queue_moment {
	uint64_t wall_us, mono_us;
};

struct wr_queue_backend;

struct wr_queue_backend_ops {
	/* Opens the storage. Returns WR_QUEUE_OK. On failure returns the reason, fills in *error
	 * and leaves the backend closed. */
	enum wr_queue_reason (*open)(struct wr_queue_backend *backend, struct wr_queue_moment now,
				     struct weir_error *error);

	/* Does the jobs in the order of the array, makes all of them durable together and fills in
	 * their results. Calls opts->waiting for each line that changed. Calls
	 * wr_queue_backend_fail() if the backend has to be reopened. */
	void (*run)(struct wr_queue_backend *backend, struct wr_queue_job **jobs, size_t count,
		    struct wr_queue_moment now);

	/* Does periodic work. Called when the time `tick_us` has passed since the previous call, or
	 * later if jobs are running at that time. */
	void (*tick)(struct wr_queue_backend *backend, struct wr_queue_moment now);

	/* Closes the storage. The caller may then call `open` again. */
	void (*close)(struct wr_queue_backend *backend);
	void (*free)(struct wr_queue_backend *backend);
};

struct wr_queue_backend {
	const struct wr_queue_backend_ops *ops;
	const struct wr_queue_opts *opts; /* the options of the queue, with defaults filled in */
	const struct wr_seals *seals; /* encryption keys for secret fields; NULL: there are none */
	uint64_t tick_us;
	/* why the backend has to be reopened; WR_QUEUE_OK: the backend works */
	enum wr_queue_reason failed;
	struct weir_error why; /* text for people that explains `failed` */
	/* number of dead letters that were deleted because there were too many, since the latest
	 * log line about such deletions */
	uint64_t trimmed;
	/* when deletions of dead letters were last logged, in µs; 0: never */
	uint64_t trimmed_us;
};

/* Creates the backend that opts->url selects. Returns 0 with *made set, or WEIR_EINVAL, WEIR_ESYS
 * or WEIR_EMEMORY. The caller frees *made with (*made)->ops->free. */
int wr_queue_backend_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
			 struct wr_queue_backend **made, struct weir_error *error);

/* Creates a SQLite backend. The caller has checked opts->url with wr_queue_url_check(). Returns
 * NULL if memory is exhausted. */
struct wr_queue_backend *wr_sqlite_new(const struct wr_queue_opts *opts,
				       const struct wr_seals *seals);
/* Creates a Redis backend in *made. Returns 0, WEIR_EMEMORY, WEIR_ESYS, or WEIR_EINVAL if a
 * password file or certificate file cannot be used. */
int wr_queue_redis_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		       struct wr_queue_backend **made, struct weir_error *error);

/* Returns the folder that a file: URL names, or NULL for other URLs. */
const char *wr_sqlite_folder(const char *url);

/* Marks the backend as failed. The queue's thread then closes the backend and reopens it later.
 * Returns `reason`. */
enum wr_queue_reason wr_queue_backend_fail(struct wr_queue_backend *backend,
					   enum wr_queue_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void wr_queue_backend_log(const struct wr_queue_backend *backend, enum wr_queue_level level,
			  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds `count` to the number of dead letters that were deleted because there were too many. At most
 * once a minute, logs how many were deleted since the previous log line. */
void wr_queue_backend_count_trimmed(struct wr_queue_backend *backend, uint64_t count,
				    uint64_t now_us);

static inline void wr_queue_backend_report_waiting(const struct wr_queue_backend *backend,
						   const uint8_t *key, uint64_t count)
{
	if (backend->opts->waiting)
		backend->opts->waiting(backend->opts->context, key, count);
}

/* Frees the results of a job and sets them to their initial values, so that the job can be done
 * again. */
void wr_queue_job_reset(struct wr_queue_job *job);

#endif
