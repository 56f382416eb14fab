/* libweir: rate limits shared by all processes of a machine.
 *
 * libweir has a table of counters in shared memory, and decides requests by these counters. A
 * decision is a function of a limit, a key, a cost and a time. It allocates nothing, takes no lock
 * and makes no system call.
 *
 *   struct weir_opts opts = {.size = sizeof opts, .name = "demo"};
 *   struct weir_limit limit = {.size = sizeof limit, .algorithm = WEIR_TOKEN_BUCKET,
 *                              .limit = 2, .burst = 4, .period_ns = 1000000000};
 *   struct weir_error error;
 *   struct weir_table *table;
 *   struct weir_decision d;
 *   int rc;
 *
 *   if (weir_limit_check(&limit, &error) < 0 || weir_open(&opts, &table, &error) < 0)
 *           die(error.text);                                   // once, at the start
 *   rc = weir_take(table, &limit, "user 7", 6, 1, weir_now_ns(), &d);
 *   if (rc < 0)
 *           log_error(weir_strerror(rc));                      // nothing was decided or counted
 *   else if (!d.admitted)
 *           refuse(d.retry_after_ns);
 *
 * GUARANTEES
 *   Limits  A fixed window admits at most `limit` per window. A sliding window log admits at most
 *           `limit` in any interval of one period. A sliding window counter admits a request only
 *           if its estimate does not exceed `limit`. A token bucket admits at most burst + rate · t
 *           in any interval of length t. Requests never leave a leaky bucket closer together than
 *           period / limit. Evictions are the only exception, and they are counted (struct
 *           weir_info).
 *   Threads Any number of threads may use one handle at once.
 *   Fork    A child process may use the handle that it inherited. weir_close in one process does
 *           not affect the other.
 *   Crash   A process may be killed at any instruction. Every key stays usable and every limit
 *           holds. The cost of the request that the process was deciding may be lost.
 *   Clock   The caller passes the time. All users of a table should read one clock, CLOCK_REALTIME
 *           (weir_now_ns). A time up to one second before the time of the key's state counts as the
 *           time of the state. If the clock steps back further, units taken at times that are now
 *           in the future still count: the key is refused for at most about one period, and no unit
 *           is admitted twice. There is one exception: units that were taken before the step and
 *           given back after it can be admitted once too often. A step forwards ends windows early.
 *           So if the times of callers go back and forth by more than a second (because clocks
 *           disagree, or a process is stopped during a decision), the limit can be admitted again
 *           each time.
 *   Restart The table outlives the processes that use it. weir_checkpoint and opts.restore_from
 *           preserve it across a reboot.
 *   Rules   The size of a limit is not part of a counter's identity. Two processes with different
 *           limits on one key share the count, and each applies its own limit. Together they admit
 *           at most the larger limit, plus one burst if token buckets have different rates. After
 *           a limit is lowered, units that were taken before still count.
 *   Memory  A key has expired when its counter is as if the key had never been used. A full table
 *           first evicts expired keys, then the keys whose eviction admits the fewest units. A key
 *           whose last request was refused is evicted only if all keys that could be evicted are
 *           such keys.
 *
 * CAVEATS
 *   Do not truncate the table's file while a process uses it: the process would be killed (SIGBUS).
 *   Do not remove the file with rm: processes with the old file and processes with a new file would
 *   count separately. Use weir_remove and weir_resize.
 *   A table is for one machine and for processes that trust each other.
 *
 * Every call that returns int returns 0 or a negative error code (weir/error.h). `error` may be
 * NULL; otherwise a call that fails writes a sentence to it. After an error the handle is
 * unchanged.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/algo.h>
#include <weir/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION "0.1.0"

struct weir_table;

enum weir_open_flags {
	WEIR_OPEN_EXISTING = 1, /* weir_open returns WEIR_ENOENT instead of making a table */
	/* For rules with many sliding window logs: if log_bytes is 0, logs get a quarter of
	 * memory_bytes. */
	WEIR_OPEN_LOGS = 2,
};

/* A caller compiled against an older header passes a smaller `size`. Options that are not within
 * the first `size` bytes have their defaults. A larger `size` is accepted if the bytes that the
 * library does not know are zero. */
struct weir_opts {
	uint32_t size;  /* sizeof(struct weir_opts) */
	uint32_t flags; /* enum weir_open_flags */
	/* Name of the table: 1 to 64 characters of A-Z a-z 0-9 . _ - that do not begin with a dot.
	 * NULL means "default". */
	const char *name;
	/* Folder of the table file. NULL: /run/weir if it exists and is usable (a process of root
	 * creates it), otherwise $XDG_RUNTIME_DIR/weir, otherwise /dev/shm. */
	const char *dir;
	/* Bytes for keys and logs, 256 KiB to 256 GiB; 0 means 64 MiB. A key needs about 44 bytes.
	 * memory_bytes minus log_bytes must be below 64 GiB. Statistics take about a quarter of
	 * memory_bytes in addition. If the table already exists, memory_bytes is ignored;
	 * weir_resize changes the size of a table. */
	uint64_t memory_bytes;
	/* Part of memory_bytes for sliding window logs, which take 8 bytes per time stamp, and for
	 * limits on concurrent requests, which take 16 bytes per slot. 0 means a sixteenth of
	 * memory_bytes, or a quarter with WEIR_OPEN_LOGS. weir_rules_info counts the limits with
	 * logs in `logs`. */
	uint64_t log_bytes;
	/* Path of a checkpoint, or NULL. If weir_open makes the table and this file exists, the new
	 * table gets the contents of the checkpoint. */
	const char *restore_from;
	/* Time of the restore. Keys that have expired at this time are not restored. */
	uint64_t now_ns;
};

/* Opens the table, or makes it if it does not exist. The caller closes it with weir_close. Returns
 * 0 or
 *   WEIR_ENOENT               WEIR_OPEN_EXISTING is set and there is no table
 *   WEIR_ENAME, WEIR_EINVAL   an option is not usable
 *   WEIR_ESYS, WEIR_ENOSPACE  the file cannot be made; all memory is reserved by this call, so a
 *                             full file system is reported here and not later
 *   WEIR_EACCESS              the file has another owner, or other users can access it
 *   WEIR_EFORMAT, WEIR_ELAYOUT  the file is not a table, is damaged or truncated, or has another
 *                             layout; error->text names the file, and weir_remove removes it */
WEIR_API int weir_open(const struct weir_opts *opts, struct weir_table **table,
		       struct weir_error *error);
WEIR_API void weir_close(struct weir_table *table);

/* Returns the time in the form that decisions expect: ns since the epoch by CLOCK_REALTIME. A
 * caller may read it once per request and use it for all decisions on the request. */
WEIR_API uint64_t weir_now_ns(void);

/* Decides one request and counts it. `key` is any bytes, up to 64 KiB. Limits that differ in
 * algorithm, period or identity have different counters. `cost` is as in weir_step, but not
 * negative: see weir_return. Under a limit on concurrent requests, an admitted request of any cost
 * above 0 holds one slot until weir_return or weir_settle gets its charged_ns, or until
 * limit->period_ns has passed. Returns 0, WEIR_EINVAL, WEIR_ELIMIT or WEIR_ETIME. On an error
 * nothing is counted and *decision is all zero: not admitted, without a wait. */
WEIR_API int weir_take(struct weir_table *table, const struct weir_limit *limit, const void *key,
		       size_t len, int64_t cost, uint64_t now_ns, struct weir_decision *decision);

/* Gives back `cost` units that an earlier weir_take took: all of its units, or part of them.
 * charged_ns is from the decision of that weir_take. Units that no longer count are not given
 * back, because otherwise more than the limit would be admitted. So nothing is given back to a
 * window that has ended, or to a counter that an operator has reset since (weir/control.h). A token
 * bucket gets back only the units that have not been refilled since. From a log only the newest
 * entries can be removed, and from a leaky bucket only the last position. The caller must give back
 * each unit only once. A limit on concurrent requests gets back the slot of charged_ns, whatever
 * `cost` above 0 is; a second time has no effect. *decision is the state of the counter afterwards.
 *
 *   rc = weir_take(table, &limit, key, len, 90, now_ns, &d);             // the cost is estimated
 *   if (rc == 0 && d.admitted)                                           // the actual cost was 10
 *           rc = weir_return(table, &limit, key, len, 80, d.charged_ns, later_ns, &d);
 *
 * Returns 0 or an error like weir_take. */
WEIR_API int weir_return(struct weir_table *table, const struct weir_limit *limit, const void *key,
			 size_t len, int64_t cost, uint64_t charged_ns, uint64_t now_ns,
			 struct weir_decision *decision);

/* Like weir_take, for a request that weir_settle settles later. Also sets decision->given, with which
 * weir_settle can give more unused tokens back to a token bucket. Returns the same as weir_take. */
WEIR_API int weir_reserve(struct weir_table *table, const struct weir_limit *limit, const void *key,
			  size_t len, int64_t cost, uint64_t now_ns,
			  struct weir_decision *decision);

/* Settles a request whose cost is known only afterwards. weir_reserve has charged `charged` units,
 * and `actual` units were used.
 *
 *   struct weir_decision taken, after;
 *
 *   rc = weir_reserve(table, &limit, key, len, 600, now_ns, &taken);     // reserve 600 tokens
 *   …
 *   if (rc == 0 && taken.admitted)                                       // 500 were used
 *           rc = weir_settle(table, &limit, key, len, &taken, 600, 500, later_ns, &after);
 *
 * *taken is the decision of weir_reserve or weir_take. A program that has stored only charged_ns
 * passes a decision that is zero except for charged_ns. *decision is the state of the counter
 * afterwards; it may be the same object as *taken.
 *
 * If fewer units were used, the rest is given back as by weir_return, and also from the middle of a
 * log, if the table has room for a copy of the log. With the decision of weir_reserve, a token bucket
 * gets back all unused tokens if it lacked enough tokens all the time. With another decision, it gets
 * back as many tokens as by weir_return.
 *
 * If more units were used, the difference is charged now, even beyond the limit. The units beyond
 * the limit are the debt of the counter. The debt is at most limit->max_debt, and further units are
 * not charged. A bucket with debt refills the debt first; a window stays over its limit until it
 * ends.
 *
 * A limit on concurrent requests gets its slot back, whatever `actual` is. A leaky bucket cannot be
 * settled. The caller must settle each request only once. Returns 0, WEIR_ELIMIT (a leaky bucket)
 * or an error like weir_take. */
WEIR_API int weir_settle(struct weir_table *table, const struct weir_limit *limit, const void *key,
			 size_t len, const struct weir_decision *taken, int64_t charged,
			 int64_t actual, uint64_t now_ns, struct weir_decision *decision);

/* A limit that applies to a request, and the units that the request takes from it. */
struct weir_need {
	const struct weir_limit *limit;
	const void *key;
	size_t len;
	int64_t cost; /* 0 or more */
};

#define WEIR_NEEDS_MAX 64

/* Decides a request to which several limits apply: the request takes from all of `needs` or from
 * none. *admitted is set to 1 or 0, and decisions[i] is the decision of needs[i]. If the request is
 * refused, a need whose decision has `admitted` set did not cause the refusal. Limits with
 * WEIR_COUNT_REJECTED are charged for a refused request too. If two needs name the same counter,
 * the counter is charged once with the summed cost. If the process is killed during the call, the
 * cost of the request may stay charged. Concurrent requests may cause each other to be refused, but
 * never admit more than the limit. If a leaky bucket refuses, the request may already have a
 * position in another leaky bucket. If this position is no longer the last one, it cannot be given
 * back and stays empty. Returns 0, WEIR_EINVAL, WEIR_ELIMIT, WEIR_ETIME, or WEIR_EMANY if `count`
 * is above WEIR_NEEDS_MAX. On an error nothing is counted, and *admitted and all decisions are
 * zero. */
WEIR_API int weir_take_all(struct weir_table *table, const struct weir_need *needs, size_t count,
			   uint64_t now_ns, struct weir_decision *decisions, int *admitted);

/* Decides `count` independent requests at the same time now_ns, in the order of `takes`. decisions[i]
 * is the decision of weir_take() with takes[i]. Faster than a call of weir_take() for each of them
 * if the table has many keys, because the processor loads the counters of 16 requests at once.
 *
 *   struct weir_need takes[2] = {{&per_user, "user 7", 6, 1}, {&per_user, "user 8", 6, 1}};
 *   rc = weir_take_many(table, takes, 2, weir_now_ns(), decisions);
 *
 * `count` has no maximum. Returns 0, WEIR_EINVAL, WEIR_ELIMIT or WEIR_ETIME. On an error nothing is
 * counted, and all decisions are zero. */
WEIR_API int weir_take_many(struct weir_table *table, const struct weir_need *takes, size_t count,
			    uint64_t now_ns, struct weir_decision *decisions);

/* Size, use and losses of a table. weir_info reads the whole table, which takes milliseconds if the
 * table is large.
 *
 * A caller compiled against an older header passes a smaller `size`. The call fills in the fields
 * within the first `size` bytes and writes nothing behind them. A caller compiled against a newer
 * header passes a larger `size`. The call sets the bytes that the library does not know to zero.
 * The call does not change `size`. `size` must be a multiple of 8, at most 4096, and must include
 * the fields up to `keys`; otherwise the call returns WEIR_EINVAL. */
struct weir_info {
	uint32_t size; /* sizeof(struct weir_info), set by the caller */
	uint32_t layout;
	uint64_t file_bytes, memory_bytes;
	uint64_t cells;        /* number of keys that fit */
	uint64_t keys;         /* number of keys that have not expired */
	uint64_t keys_refused; /* part of `keys`: keys whose latest request was refused */
	uint64_t log_bytes, log_bytes_used;
	uint64_t created_ns;
	uint64_t table_id[2];
	uint64_t superseded; /* 1: the table was resized and must be opened again */
	/* The fields from here on count events since the table was made. */
	uint64_t expired;          /* cells of expired keys that were reused, which is no loss */
	uint64_t evicted;          /* keys evicted before they expired: the table is too small */
	uint64_t evicted_refused;  /* keys evicted although their latest request was refused */
	uint64_t stolen;           /* cells reused because the process that claimed them died */
	uint64_t log_evicted;      /* logs made approximate because log_bytes is too small */
	uint64_t log_approximate;  /* requests decided on an approximate log */
	uint64_t log_full;         /* requests refused because their log or slots did not fit */
	uint64_t log_lost;         /* logs or slots missing because the file is damaged */
	uint64_t override_evicted; /* cells evicted before the ban or grant in them ended */
	char path[512];
	/* Bans in force that are not in the list of bans, because it had no room (weir/control.h). */
	uint64_t ban_unlisted;
	uint64_t huge_bytes; /* bytes of the table that this process has mapped with huge pages */
};

/* Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_info(struct weir_table *table, uint64_t now_ns, struct weir_info *info);

/* Writes all state to a temporary file and renames it to `path`, so the file at `path` is always
 * complete. The file contains the table's secret; its mode is 0600. Other processes may decide
 * meanwhile. Returns 0, WEIR_ESYS or WEIR_ENOSPACE. */
WEIR_API int weir_checkpoint(struct weir_table *table, const char *path, uint64_t now_ns,
			     struct weir_error *error);

/* weir_resize replaces the table by a table of another size with the same keys. If log_bytes is 0,
 * the new table uses at least the same fraction of its memory for logs as the old table, and at
 * least the default fraction. A handle that was opened before the resize keeps the old table, and
 * the new table does not see the decisions of this handle. So a process with such a handle should
 * open the table again soon. weir_moved returns WEIR_EMOVED for a handle of the old table,
 * otherwise 0. weir_moved costs one memory load. */
WEIR_API int weir_resize(const struct weir_opts *opts, uint64_t now_ns, struct weir_error *error);
WEIR_API int weir_moved(const struct weir_table *table);

/* Removes the table's file, even if it is damaged. Processes that have the file open continue to
 * use it. Returns 0, WEIR_ENOENT, WEIR_ESYS or WEIR_ENAME. */
WEIR_API int weir_remove(const char *name, const char *dir, struct weir_error *error);

WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif
#endif
