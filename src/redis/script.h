/* The Lua scripts that decide inside Redis, their arguments and their replies.
 *
 * A call of wr_redis_script_take decides on one or more limits whose keys are in the same slot.
 * Either all of these limits take units, or none does:
 *
 *   EVALSHA sha1 K key…K args…     one key per limit, in order, then the keys that
 *                                  only some calls have (scripts/take/head.lua)
 *
 * wr_script_args() writes the arguments and wr_script_reply() reads the reply. Arguments and reply
 * consist of numbers as text, so they can be read in MONITOR and typed in redis-cli:
 *
 *   EVALSHA sha1 1 weir:1:{h}:token_bucket/1m 1 1 10 60000000 10
 *   → [now_us, verdict, remaining, retry_after_us, reset_after_us, charged_after_us]
 *
 * If the limit has a queue, charged_after_us is the delay of the request. Otherwise the units were
 * counted with the time stamp now_us + charged_after_us. Then charged_after_us is usually 0. It is
 * above 0 if the counter was last written under a faster clock. If any limit of the call refuses,
 * charged_after_us is 0 for all of them.
 *
 * Times are µs by the clock of Redis. The caller must round a period up and max_wait down to whole
 * µs, so that a limit can become stricter, but never weaker. */
#ifndef WR_REDIS_SCRIPT_H
#define WR_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/algo.h>

#include "redis/command.h"

#define WR_TAKE_NEVER UINT64_MAX /* value of retry_after_us if the request can never be admitted */
#define WR_TAKES_MAX 32u         /* maximum number of limits in one call */
#define WR_TAKE_TIMES_MAX 65535u

struct redisReply;

enum wr_take_mode {
	/* Takes units if the cost is above 0, only reads if it is 0, and gives units back if it is
	 * below 0. */
	WR_MODE_TAKE,
	/* Counts units that a node has already admitted during an outage. They are counted if their
	 * window has not ended, and they are never refused. In a bucket, no more units are counted
	 * than the bucket still has. The cost is above 0. */
	WR_MODE_REPORT,
	/* Deletes the counters of these limits and the lease records of these counters. Stores the
	 * time of the reset, so that an earlier take can no longer be given back. The reply is the
	 * same as for cost 0. */
	WR_MODE_RESET,
	/* Charges units that a request used beyond its reservation, even beyond the limit, up to
	 * the largest debt. The cost is above 0. Queues and concurrent limits have no debt. */
	WR_MODE_OWE,
	/* The first take of a call that settles a reservation: takes the marker of the reservation.
	 * The other takes of the call are give-backs (WR_MODE_TAKE with a cost below 0) and debts
	 * (WR_MODE_OWE). They are executed only if the marker is taken. */
	WR_MODE_CLAIM,
};

/* One limit of a call. The fields are those of struct weir_limit, with times in µs. For a
 * concurrent limit, period_us is max_hold, and a take takes one slot. */
struct wr_take {
	uint8_t algorithm; /* enum weir_algorithm */
	/* enum wr_take_mode; the same for all limits of a call, unless the first is a WR_MODE_CLAIM */
	uint8_t mode;
	uint16_t flags; /* bits of enum weir_limit_flags */
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint32_t granted;  /* additional units that an operator granted */
	uint32_t max_debt; /* for WR_MODE_OWE */
	/* The number of requests with this cost; 0 means 1. As many of these requests are admitted
	 * as the limit allows. A number above 1 is allowed only if wr_take_merges() returns
	 * true. */
	uint32_t times;
	int64_t cost;
	uint64_t period_us;
	uint64_t max_wait_us;
	uint64_t soft_for_us;

	/* A calendar window, which begins at a whole second. [window_start_us, window_end_us)
	 * contains the caller's current time. The window before it begins at window_before_us, and
	 * the window after it ends at window_after_us (0: unknown). Of these three windows, the
	 * script uses the window that contains the time of Redis. If none of the three contains it,
	 * the script takes nothing and sets wr_taken.outside_window. All four times are 0 if the
	 * limit has no calendar windows. */
	uint64_t window_before_us;
	uint64_t window_start_us;
	uint64_t window_end_us;
	uint64_t window_after_us;

	/* For a give-back, decided_us and delay_us are the values that the take returned in struct
	 * wr_taken. Then units go back only into the window that counted them. A token bucket does
	 * not get back units that it may have refilled since the take. In a queue, only the last
	 * position can be given back. A concurrent limit frees the slot that was taken at
	 * decided_us, and nothing if decided_us is 0. For other limits, none of these conditions
	 * applies if decided_us is 0. For a report, decided_us is the time at which the request was
	 * admitted, by the estimated clock of Redis. */
	uint64_t decided_us;
	uint64_t delay_us;

	/* A take of a token bucket with `proves` returns wr_taken.given. For a give-back with
	 * decided_us, `used` is the number of tokens that were missing after the take (0: unknown),
	 * and `given` is wr_taken.given. They prove how many tokens the bucket lacked all the time
	 * since the take, so that more tokens can be given back. */
	bool proves;
	uint32_t used;
	uint64_t given;
};

struct wr_taken {
	bool admitted; /* true if this limit admitted at least one of the `times` requests */
	/* True if the request fits the ceiling of soft mode, but not the limit. */
	bool soft;
	/* True if the call took units of this limit. These units can be given back. The call takes
	 * no units if one of its limits refuses, or if the cost is 0 or below. */
	bool taken;
	/* True if no calendar window of the call contains now_us. Then nothing was decided. */
	bool outside_window;
	bool proven; /* `given` is known */
	uint32_t admitted_times;
	uint32_t limit; /* the capacity, including granted units */
	uint32_t remaining;
	uint32_t debt; /* units in use beyond the limit */
	/* Wait time of a refused request; WR_TAKE_NEVER if waiting does not help. */
	uint64_t retry_after_us;
	uint64_t reset_after_us;
	uint64_t delay_us;
	uint64_t now_us; /* time of the decision, by the clock of Redis */
	/* The time at which the units were counted, which a give-back needs; 0: no units were
	 * taken. Slots of one key that are taken at the same time have different values. */
	uint64_t decided_us;
	uint64_t given; /* with wr_take.proves: for a later give-back */
};

struct wr_script {
	const char *text; /* ends with a NUL, which is not counted in len */
	size_t len;
	const char *sha1; /* 40 hex digits */
};

extern const struct wr_script wr_redis_script_take;

/* KEYS[1] is a sorted set and ARGV[1] is this node's name. The script records that the node is
 * active. It returns the number of nodes that were active within the last 10 s, including this
 * one. */
extern const struct wr_script wr_redis_script_nodes;

/* These scripts are described in redis/script_lease.h and redis/script_exchange.h. */
extern const struct wr_script wr_redis_script_lease, wr_redis_script_exchange, wr_redis_script_push;

/* Returns whether the call needs the key that counts the tokens given back to the bucket. */
bool wr_take_uses_given(const struct wr_take *take);

/* Returns the capacity of the limit, including granted units. */
uint32_t wr_take_capacity(const struct wr_take *take);

/* Returns whether several requests of this limit and cost can be merged into one take with `times`.
 * The reply to such a take contains the number of admitted requests, and no separate answer for
 * each of them. This number is not enough for a queue, for slots, in soft mode, or if rejected
 * requests are counted. The function then returns false. */
bool wr_take_merges(const struct wr_take *take);

/* Returns 0 if the script can decide on this take exactly as src/algo would. Otherwise returns
 * WEIR_ELIMIT or WEIR_EINVAL with a text. The script supports everything that weir_limit_check()
 * accepts, except calendar windows that do not begin at a whole second. */
int wr_take_check(const struct wr_take *take, struct weir_error *error);

/* wr_script_argc returns the number of arguments after the keys. wr_script_args writes these
 * arguments into a command. The caller must have counted them in the number that it passed to
 * wr_command_begin(). The takes must pass wr_take_check(). report_seq is the sequence number of a
 * report: at least 1, and higher with every report of a holder. Takes do not use report_seq. */
size_t wr_script_argc(const struct wr_take *takes, size_t count);
void wr_script_args(const struct wr_take *takes, size_t count, uint64_t report_seq,
		    struct wr_commands *out);

/* Reads the reply to these takes. Returns 0, or WEIR_EFORMAT if the reply is malformed or an
 * error. */
int wr_script_reply(const struct redisReply *reply, const struct wr_take *takes, size_t count,
		    struct wr_taken *taken);

#endif
