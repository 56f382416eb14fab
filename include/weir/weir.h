/* libweir: rate limits shared by every process of a machine.
 *
 * WHAT IT IS
 *   A table of counters in shared memory and the decisions on it. A decision is a function of a
 *   limit, a key, a cost and a time; it allocates nothing, takes no lock and makes no system call.
 *
 *     struct weir_opts opts = {.size = sizeof opts, .name = "demo"};
 *     struct weir_limit limit = {.size = sizeof limit, .algorithm = WEIR_TOKEN_BUCKET,
 *                                .limit = 2, .burst = 4, .period_ns = 1000000000};
 *     struct weir_table *table;
 *     struct weir_decision d;
 *
 *     weir_open(&opts, &table, NULL);
 *     weir_limit_check(&limit, NULL);
 *     weir_take(table, &limit, "user 7", 6, 1, now_ns, &d);
 *     if (!d.admitted) … try again after d.retry_after_ns
 *
 * WHAT IT PROMISES
 *   Limits  Fixed window: at most `limit` per window. Log: at most `limit` in any window. Counter:
 *           the estimate never exceeds `limit` at admission. Token bucket: at most burst + rate · t
 *           in any span t. Leaky bucket: departures never closer than the interval. The exceptions
 *           are evictions, and those are counted (struct weir_info).
 *   Threads Any number may use one handle at once.
 *   Fork    A child may go on using the handle it inherited. weir_close in one does not touch
 *           the other's.
 *   Crash   A process may be killed at any instruction: every key stays usable and every limit
 *           held. What may be lost is the cost of the one request it was deciding.
 *   Clock   The caller passes the time. All users of a table should read one clock, CLOCK_REALTIME.
 *           A participant may decide up to a second after it read the clock: its request counts
 *           as of the time that others have got to. If the clock steps back further, what was
 *           counted in the future counts now: about one period of refusal at most, and nothing is
 *           handed out twice; but a take from before the step that is given back after it may be
 *           admitted once more. A step forwards ends windows early; so times that swing to and
 *           fro by more than a second (clocks that disagree, a process stopped in the midst of a
 *           decision) may hand out the limit again with every swing.
 *   Restart State outlives its processes. weir_checkpoint and opts.restore_from carry it over a
 *           reboot.
 *   Rules   A limit's size is not part of a counter's identity. Two processes with different
 *           limits on one key share its count, each applying its own limit to it; what they admit
 *           together stays within the larger one, or one burst above it where token buckets have
 *           different rates. A lowered limit counts what was taken before.
 *   Room    A full table forgets keys that are as good as new first, then the least harmful. A
 *           refused key goes only when all candidates are refused keys.
 *
 * CAVEATS
 *   Truncating or removing the file under a running process is not survivable (SIGBUS) or splits
 *   the limit in two. Use weir_remove, and `weir_resize` for another size.
 *   A table is for one machine and for processes that trust each other.
 *
 * Every call returns 0 or an error code below zero (weir/error.h); `error`, where there is one, may
 * be NULL and otherwise gets a sentence. After an error the handle is as before the call.
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
	WEIR_OPEN_EXISTING = 1, /* WEIR_ENOENT instead of making a table */
	WEIR_OPEN_LOGS = 2,     /* limits are sliding window logs: log_bytes 0 means a quarter */
};

struct weir_opts {
	uint32_t size;  /* sizeof(struct weir_opts) */
	uint32_t flags; /* enum weir_open_flags */
	/* 1 to 64 of A-Z a-z 0-9 . _ - , not beginning with a dot. NULL means "default". */
	const char *name;
	/* Folder of the table file. NULL: /run/weir when it is there and usable (root makes it),
	 * else $XDG_RUNTIME_DIR/weir, else /dev/shm. */
	const char *dir;
	/* Bytes for keys and logs, 256 KiB to 256 GiB; 0 means 64 MiB. About 44 bytes a key.
	 * Less than 64 GiB of it may be for keys. Statistics take a quarter more. Ignored when the
	 * table exists: see weir_resize. */
	uint64_t memory_bytes;
	/* How much of it is for sliding window logs: 8 bytes a stamp; 0 means a sixteenth, or a
	 * quarter with WEIR_OPEN_LOGS. weir_rules_info says whether rules have such limits. */
	uint64_t log_bytes;
	/* A checkpoint to begin with when the table has to be made and this file exists. */
	const char *restore_from;
	/* Time for restoring: keys that are as good as new are left out. */
	uint64_t now_ns;
};

/* Opens the table, making it if there is none; who comes first makes it.
 *   WEIR_ENAME, WEIR_EINVAL   options
 *   WEIR_ESYS, WEIR_ENOSPACE  a full file system is found out here, not by a signal later
 *   WEIR_EACCESS              the file belongs to someone else, or others may read it
 *   WEIR_EFORMAT, WEIR_ELAYOUT  not a table, damaged, truncated, or of another layout: the text
 *                             names the file; remove it with weir_remove to begin anew */
WEIR_API int weir_open(const struct weir_opts *opts, struct weir_table **table,
		       struct weir_error *error);
WEIR_API void weir_close(struct weir_table *table);

/* Decides one request and counts it. `key` is any bytes, up to 64 KiB; counters of limits that
 * differ in algorithm, period or identity are different counters. cost as in weir_step, but not
 * below 0: see weir_return.
 *   WEIR_EINVAL, WEIR_ELIMIT, WEIR_ETIME */
WEIR_API int weir_take(struct weir_table *table, const struct weir_limit *limit, const void *key,
		       size_t len, int64_t cost, uint64_t now_ns, struct weir_decision *decision);

/* Gives back `cost`, all of a take or part of it. charged_ns is that of the take's decision: it
 * goes where the take was counted, or nowhere, so that never more is admitted than if the take had
 * not been. A window that has ended keeps it, and so does a counter that an operator has reset
 * (weir/control.h) since. A token bucket gets what cannot have flown in again
 * since. A log gives up its newest entries only, a leaky bucket its last place. What was given back
 * once must not be given back again. `decision` says what the counter is like after it.
 *
 *   weir_take(table, &limit, key, len, 90, now_ns, &d);                     // an estimate
 *   weir_return(table, &limit, key, len, 80, d.charged_ns, later_ns, &d);   // it was 10
 *
 *   WEIR_EINVAL, WEIR_ELIMIT, WEIR_ETIME */
WEIR_API int weir_return(struct weir_table *table, const struct weir_limit *limit, const void *key,
			 size_t len, int64_t cost, uint64_t charged_ns, uint64_t now_ns,
			 struct weir_decision *decision);

/* One counter of a request that several limits apply to. */
struct weir_need {
	const struct weir_limit *limit;
	const void *key;
	size_t len;
	int64_t cost; /* 0 or more */
};

#define WEIR_NEEDS_MAX 64

/* Decides a request that all of `needs` apply to: it takes from all or from none. *admitted says
 * which; decisions[i] what each counter said. Where a request is refused, a decision that says
 * admitted means "not the reason". WEIR_COUNT_REJECTED limits are charged all the same. The same
 * counter named twice is one take of the summed cost. A process killed half way may have burnt
 * this request's cost; contention may refuse one request too many, never admit one. Of two
 * leaky buckets, one may keep an empty place when the other refuses.
 *   WEIR_EINVAL, WEIR_ELIMIT, WEIR_ETIME, WEIR_EMANY (more than WEIR_NEEDS_MAX) */
WEIR_API int weir_take_all(struct weir_table *table, const struct weir_need *needs, size_t count,
			   uint64_t now_ns, struct weir_decision *decisions, int *admitted);

/* What a table holds and how it has fared. Reads all of it: milliseconds for a large one. */
struct weir_info {
	uint32_t size; /* sizeof(struct weir_info), set by the caller */
	uint32_t layout;
	uint64_t file_bytes, memory_bytes;
	uint64_t cells;        /* room for keys */
	uint64_t keys;         /* cells in use, keys as good as new not counted */
	uint64_t keys_refused; /* … of which were refused last */
	uint64_t log_bytes, log_bytes_used;
	uint64_t created_ns;
	uint64_t table_id[2];
	uint64_t superseded; /* 1: resized; open it again */
	/* Since the table was made: how state was lost, by kind. */
	uint64_t expired;          /* keys as good as new, whose cells went to others: no loss */
	uint64_t evicted;          /* live keys forgotten: the table is too small */
	uint64_t evicted_refused;  /* refused keys forgotten */
	uint64_t stolen;           /* claims of dead processes taken over: no loss */
	uint64_t log_evicted;      /* live logs that became approximate: log_bytes is too small */
	uint64_t log_approximate;  /* requests decided on such a log */
	uint64_t log_full;         /* requests refused for want of room for their log */
	uint64_t log_lost;         /* logs found missing: file damaged */
	uint64_t override_evicted; /* cells of bans and grants forgotten before their end */
	char path[512];
};

WEIR_API int weir_info(struct weir_table *table, uint64_t now_ns, struct weir_info *info);

/* Writes all state to a file, over a temporary one and a rename: what is at `path` is whole at any
 * time. The file holds the table's secret and is 0600. Others may go on deciding. WEIR_ESYS … */
WEIR_API int weir_checkpoint(struct weir_table *table, const char *path, uint64_t now_ns,
			     struct weir_error *error);

/* Replaces the table by one of another size with the same keys. With log_bytes 0 the share for
 * logs stays as it is, or becomes the default if that is more. Handles opened before keep the
 * old one: decisions there are lost to the new, so their owners should open it again soon;
 * weir_moved tells them (0, or WEIR_EMOVED; one load, cheap enough for every second). */
WEIR_API int weir_resize(const struct weir_opts *opts, uint64_t now_ns, struct weir_error *error);
WEIR_API int weir_moved(const struct weir_table *table);

/* Removes the table's file, damaged or not. Processes that have it open keep it to themselves.
 * WEIR_ENOENT, WEIR_ESYS, WEIR_ENAME */
WEIR_API int weir_remove(const char *name, const char *dir, struct weir_error *error);

WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif
#endif
