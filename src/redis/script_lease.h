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
#define WR_LEASE_CHUNK_MIN 2u /* minimum number of units that are lent */

struct wr_lease_call {
	/* The limit, with the requests that Redis decides: `times` requests of `cost`. If cost is
	 * 0, there is no request. */
	struct wr_take take;
	uint64_t holder; /* random; 0: the call is only a take, and the fields below are 0 */
	uint64_t seq;    /* from 1, rising with every call of the holder on this counter */
	/* Sequence number of the call whose answer granted the holder's lease; 0: the holder has no
	 * lease, or its lease has expired. If Redis stores another number, it does not know the
	 * lease. */
	uint64_t after;
	uint32_t spent;    /* units of the lease used since the answer to call `after` */
	uint32_t returned; /* units that the holder has given up unused */
	uint32_t wanted;   /* additional units requested */
	uint32_t nodes;    /* number of nodes that share the counter; 0 means 1 */
	uint64_t ttl_us;   /* maximum duration; 0: the longest possible, see wr_lease_ttl_us() */
};

struct wr_leased {
	struct wr_taken taken; /* as for wr_script_take; `remaining` excludes the granted units */
	/* False if Redis does not have the holder's lease (after FLUSHALL, a failover, or because
	 * it expired). Then the lease is void, and the holder has only the units granted by this
	 * answer. */
	bool known;
	uint32_t granted;
	/* All units of the holder expire this long after now_us. 0: the holder has no units. */
	uint64_t ttl_us;
};

/* Returns the maximum duration of a lease of this limit: 1 s, or a tenth of its period if that is
 * shorter. */
uint64_t wr_lease_ttl_us(const struct wr_take *take);

/* Whether units of the limit can be lent. Units of a leaky bucket, of a limit in soft mode, of a
 * limit that counts rejected requests, and of a limit of 0 cannot. Such limits use this script with
 * wanted 0. */
bool wr_lease_lends(const struct wr_take *take);

/* Checks the call as wr_take_check() does. Also returns WEIR_EINVAL for contradictory fields of the
 * lease. */
int wr_lease_check(const struct wr_lease_call *call, struct weir_error *error);

/* Count and write the arguments after the keys, as wr_script_argc() and wr_script_args() do. */
size_t wr_script_lease_argc(const struct wr_lease_call *call);
void wr_script_lease_args(const struct wr_lease_call *call, uint64_t report_seq,
			  struct wr_commands *out);

/* Reads the reply. Returns 0, or WEIR_EFORMAT if the reply is malformed or an error. */
int wr_script_lease_reply(const struct redisReply *reply, const struct wr_lease_call *call,
			  struct wr_leased *leased);

#endif
