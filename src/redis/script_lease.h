/* The lease script: units handed over ahead of time, and all else that is asked of a counter they
 * are borrowed from.
 *
 *   EVALSHA sha1 2 counter record args…       for a report a third key, as for wr_script_take
 *   → [now_us, verdict, remaining, retry_after_us, reset_after_us, delay_us,
 *      granted, ttl_us, known, reset_after_us if all that is out comes to its end]
 *
 * A call does, in this order: what has expired is burnt; the holder's `spent` and `returned` are
 * settled; the take is decided on as wr_script_take would, give-backs and reports too; and as much
 * of `wanted` is charged and granted as min(wanted, remaining ÷ (2 · nodes)) is, unless that is
 * less than 2. `remaining` is what is left after all of it.
 *
 * Every call on a counter of a rule that says `lease` comes through here, for units that are out
 * occupy a token bucket and stand in a log; take.lua knows nothing of them.
 *
 * A holder's calls are numbered. The number of the last one is kept with its answer, so that one
 * whose answer was lost is sent again as it was: the answer comes again, and nothing is done twice.
 * What a holder has lasts for ttl_us from when Redis answered; a node counts from when it sent the
 * call, a repeated one from when it was sent again. Each call prolongs what is left. */
#ifndef WR_REDIS_SCRIPT_LEASE_H
#define WR_REDIS_SCRIPT_LEASE_H

#include "redis/script.h"

#define WR_LEASE_TTL_MAX_US 1000000u
#define WR_LEASE_CHUNK_LEAST 2u /* units; less is not worth a lease */

struct wr_lease_call {
	/* One limit: cost × times of requests that are asked strictly. cost 0: none. */
	struct wr_take take;
	uint64_t holder; /* random; 0: none, the call is only a take, and what is below is 0 */
	uint64_t seq; /* from 1, rising from one call of the holder on this counter to the next */
	/* The number of the call whose answer left the holder what it has; 0: it has nothing (or
	 * its end has passed). Redis must know exactly that, or the lease is unknown. */
	uint64_t after;
	uint32_t spent;    /* units used up since that answer */
	uint32_t returned; /* units it no longer has and did not use */
	uint32_t wanted;   /* units more than it has left */
	uint32_t nodes;    /* that share the counter; 0 means 1 */
	uint64_t ttl_us;   /* at most; 0: as long as may be, see wr_lease_ttl_us() */
};

struct wr_leased {
	struct wr_taken taken; /* as for wr_script_take; `remaining` without what was granted */
	/* False: Redis does not have what the holder thinks it has (FLUSHALL, failover, expired):
	 * that is void at once. What was granted by this answer is all it has. */
	bool known;
	uint32_t granted;
	/* What is left and what was granted ends so long after now_us. 0: there is nothing, or no
	 * holder. */
	uint64_t ttl_us;
};

/* How long a lease of this limit lasts at most: 1 s, or a tenth of its period. */
uint64_t wr_lease_ttl_us(const struct wr_take *take);

/* Whether units of it can be lent: it is no leaky bucket, has no soft mode, does not count rejected
 * requests and has a limit above 0. Others come through here with wanted 0. */
bool wr_lease_lends(const struct wr_take *take);

/* As wr_take_check(); WEIR_EINVAL too for a call that makes no sense. */
int wr_lease_check(const struct wr_lease_call *call, struct weir_error *error);

/* The arguments behind the keys, as wr_script_argc() and wr_script_args(). */
size_t wr_script_lease_argc(const struct wr_lease_call *call);
void wr_script_lease_args(const struct wr_lease_call *call, uint64_t report_seq,
			  struct wr_commands *out);

/* Reads the reply. Returns 0, or WEIR_EFORMAT. */
int wr_script_lease_reply(const struct redisReply *reply, const struct wr_lease_call *call,
			  struct wr_leased *leased);

#endif
