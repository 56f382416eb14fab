/* The scripts that decide inside Redis, and what goes into them and comes out.
 *
 * A call of wr_script_take decides on one or more limits whose keys share a slot, all or none:
 *
 *   EVALSHA sha1 K key…K args…     keys: one for each limit in order, and for a report one more
 *
 * The arguments are made by wr_script_args(), the reply is read by wr_script_reply(). Both are
 * numbers in text, so that MONITOR and redis-cli show and send what weir does:
 *
 *   EVALSHA sha1 1 weir:1:{h}:token_bucket/1m 1 1 10 60000000 10
 *   → [now_us, verdict, remaining, retry_after_us, reset_after_us, charged_after_us]
 *
 * Times are µs by the clock of Redis. A period that is no whole number of µs is to be rounded up,
 * max_wait down: rather too strict. */
#ifndef WR_REDIS_SCRIPT_H
#define WR_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/algo.h>

#include "redis/command.h"

#define WR_TAKE_NEVER UINT64_MAX /* retry_after_us: no wait will do */
#define WR_TAKES_MAX 32u         /* limits of one call */
#define WR_TAKE_TIMES_MAX 65535u

struct redisReply;

enum wr_take_mode {
	WR_MODE_TAKE,   /* cost > 0 takes, 0 looks, < 0 gives back */
	WR_MODE_REPORT, /* cost > 0 was admitted elsewhere while the store was away: counted where
			   its window has not ended, a bucket emptied at most, never refused */
	WR_MODE_RESET,  /* the counter is deleted, and so are further keys of the call; what was
			   taken up to now cannot be given back any more. Answered as a look */
};

/* One limit of a call. Fields are those of struct weir_limit, with times in µs. */
struct wr_take {
	uint8_t algorithm; /* enum weir_algorithm */
	uint8_t mode;      /* enum wr_take_mode; the same for all limits of a call */
	uint16_t flags;    /* enum weir_limit_flags */
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint32_t granted; /* what an operator granted beyond the limit; counted as far as it can be
			   */
	uint32_t times;   /* so many requests of this cost, as many as fit; 0 means 1. More than one
			     only where wr_take_merges() */
	int64_t cost;
	uint64_t period_us;
	uint64_t max_wait_us;
	uint64_t soft_for_us;

	/* Calendar windows, whole seconds: [start, end) holds the asker's now; the window before it
	 * begins at window_before_us, the one after it ends at window_after_us, 0 if not known. The
	 * script picks the one that holds the time of Redis. If none does, nothing is taken
	 * (wr_taken.astray). All 0 where windows are multiples of the period. */
	uint64_t window_before_us;
	uint64_t window_start_us;
	uint64_t window_end_us;
	uint64_t window_after_us;

	/* Give back: wr_taken.decided_us of the take, so that it goes into the same window only,
	 * and so that a bucket gets no more than cannot have flown in since; 0: unconditionally.
	 * delay_us: the take's, so that of a queue only the last place is given back.
	 * Report: when it was admitted, by the clock of Redis as well as it is known. */
	uint64_t decided_us;
	uint64_t delay_us;
};

struct wr_taken {
	bool admitted; /* by this limit; at least one of `times` */
	bool soft;     /* above the limit, in the overshoot of soft mode */
	bool taken; /* there is something to give back. Not when another limit of the call refused,
		       for a look, or for a give back */
	bool outside_window; /* the calendar window is not that of now_us: ask again with the right
				one */
	uint32_t admitted_times;
	uint32_t limit; /* capacity, what was granted included */
	uint32_t remaining;
	uint64_t retry_after_us; /* of those that were refused; WR_TAKE_NEVER */
	uint64_t reset_after_us;
	uint64_t delay_us;
	uint64_t now_us;     /* the clock of Redis */
	uint64_t decided_us; /* to be kept for a give back: the time it was counted as of */
};

struct wr_script {
	const char *text; /* ends with a 0 that is not part of len */
	size_t len;
	const char *sha1; /* 40 hex digits */
};

extern const struct wr_script wr_script_take;

/* KEYS[1]: a sorted set; ARGV[1]: this node's name. Notes that it was heard from now, and returns
 * how many were within the last 10 s, itself included. */
extern const struct wr_script wr_script_nodes;

/* redis/script_lease.h, redis/script_exchange.h */
extern const struct wr_script wr_script_lease, wr_script_exchange, wr_script_push;

/* The capacity that the limit and what was granted amount to. */
uint32_t wr_take_capacity(const struct wr_take *take);

/* Whether requests with this limit and cost can be one call with `times`: each takes, and nothing
 * but the count of those admitted tells them apart. */
bool wr_take_merges(const struct wr_take *take);

/* Whether the script can decide on it exactly: 0, or WEIR_ELIMIT or WEIR_EINVAL with a sentence. It
 * can on all that weir_limit_check() accepts but a calendar window that does not begin at a whole
 * second. */
int wr_take_check(const struct wr_take *take, struct weir_error *error);

/* The arguments behind the keys: how many they are, and puts them into a command that was begun
 * with as many more than its own. Takes must pass wr_take_check(). report_seq: number of the
 * report, rising from one to the next of a holder and at least 1; not used for takes. */
size_t wr_script_argc(const struct wr_take *takes, size_t count);
void wr_script_args(const struct wr_take *takes, size_t count, uint64_t report_seq,
		    struct wr_commands *out);

/* Reads the reply to these takes. Returns 0, or WEIR_EFORMAT: it is none, as after an error. */
int wr_script_reply(const struct redisReply *reply, const struct wr_take *takes, size_t count,
		    struct wr_taken *taken);

#endif
