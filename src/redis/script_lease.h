/* The lease script: lends units of a counter ahead of time, and executes all other calls on a
 * counter that lends units.
 *
 *   EVALSHA sha1 2 counter record args…       a third key for a report, as for wr_script_take
 *   → [now_us, verdict, remaining, retry_after_us, reset_after_us, delay_us,
 *      granted, ttl_us, known, reset_after_us if all lent units expire]
 *
 * The steps of a call: expired units are burnt; `spent` and `returned` of the holder are settled;
 * the take, give-back or report is executed as by wr_script_take; then min(wanted, remaining ÷ (2 ·
 * nodes)) units are charged and granted, unless that is less than 2. `remaining` is the rest after
 * all steps.
 *
 * Every call on a counter with `consistency: lease` uses this script: lent units occupy a token
 * bucket and are entries of a log. take.lua only knows how many units are lent.
 *
 * The calls of a holder are numbered. Redis stores the last number and its answer, so a call whose
 * answer was lost can be repeated unchanged: it gets the same answer, and nothing is done twice.
 * Units last for ttl_us from the time of the answer; a node counts from the time at which it sent,
 * or repeated, the call. Each call prolongs the remaining units. */
#ifndef WR_REDIS_SCRIPT_LEASE_H
#define WR_REDIS_SCRIPT_LEASE_H

#include "redis/script.h"

#define WR_LEASE_TTL_MAX_US 1000000u
#define WR_LEASE_CHUNK_MIN 2u /* units; fewer are not lent */

struct wr_lease_call {
	/* One limit: requests of cost × times that Redis decides. cost 0: none. */
	struct wr_take take;
	uint64_t holder; /* random; 0: the call is only a take, and the fields below are 0 */
	uint64_t seq;    /* from 1, rising with every call of the holder on this counter */
	/* Sequence number of the call whose answer granted the holder's lease; 0: it has none, or
	 * it has expired. If Redis stores another number, the lease is unknown. */
	uint64_t after;
	uint32_t spent;    /* units used since that answer */
	uint32_t returned; /* units that the holder has given up unused */
	uint32_t wanted;   /* additional units requested */
	uint32_t nodes;    /* number that share the counter; 0 means 1 */
	uint64_t ttl_us;   /* maximum; 0: the longest possible, see wr_lease_ttl_us() */
};

struct wr_leased {
	struct wr_taken taken; /* as for wr_script_take; `remaining` without the granted units */
	/* False: Redis does not have the holder's lease (FLUSHALL, failover, expired). The lease is
	 * void; the holder has only the units granted by this answer. */
	bool known;
	uint32_t granted;
	/* All units of the holder expire this long after now_us. 0: it has none. */
	uint64_t ttl_us;
};

/* The maximum duration of a lease of this limit: 1 s, or a tenth of its period. */
uint64_t wr_lease_ttl_us(const struct wr_take *take);

/* Whether units of the limit can be lent: not for a leaky bucket, soft mode, limits that count
 * rejected requests, or a limit of 0. Such limits use this script with wanted 0. */
bool wr_lease_lends(const struct wr_take *take);

/* As wr_take_check(); also WEIR_EINVAL for contradictory fields of the lease. */
int wr_lease_check(const struct wr_lease_call *call, struct weir_error *error);

/* The arguments after the keys, as wr_script_argc() and wr_script_args(). */
size_t wr_script_lease_argc(const struct wr_lease_call *call);
void wr_script_lease_args(const struct wr_lease_call *call, uint64_t report_seq,
			  struct wr_commands *out);

/* Reads the reply. Returns 0, or WEIR_EFORMAT. */
int wr_script_lease_reply(const struct redisReply *reply, const struct wr_lease_call *call,
			  struct wr_leased *leased);

#endif
