/* The lease script: lends units of a counter ahead of time, and executes all other calls on a
 * counter that lends units.
 *
 *   EVALSHA sha1 2 counter record args…       some calls have more keys, as with wr_redis_script_take
 *   → [now_us, verdict, remaining, retry_after_us, reset_after_us, delay_us,
 *      granted, ttl_us, known, reset_after_us for the case that all lent units expire]
 *
 * A call has four steps. (1) The units of leases that have ended are burnt: they count as taken.
 * (2) The units that the holder has spent and returned are counted. (3) The take, give-back or
 * report is executed as by wr_redis_script_take. (4) min(wanted, remaining ÷ (2 · nodes)) units are
 * charged and granted. If that is fewer than 2 units, no units are granted. The reply contains
 * `remaining` after all steps.
 *
 * If units of a counter can be lent, all takes, give-backs and reports of the counter use this
 * script. The take script cannot count lent units exactly: it knows how many units are lent, but
 * not when each lease ends.
 *
 * The calls of a holder are numbered. Redis stores the number of the latest call and its answer. So
 * a call whose answer was lost can be repeated unchanged: the repeated call gets the same answer,
 * and nothing is done twice. In Redis, lent units expire ttl_us after the answer. For the node they
 * expire earlier: ttl_us after the node sent the call or, if it repeated the call, after the latest
 * repetition. Each call prolongs the lease of the remaining units. */
#ifndef WR_REDIS_SCRIPT_LEASE_H
#define WR_REDIS_SCRIPT_LEASE_H

#include "redis/script.h"

#define WR_LEASE_TTL_MAX_US 1000000u
#define WR_LEASE_CHUNK_MIN 2u /* minimum number of units that are lent at once */

struct wr_redis_lease_call {
	/* The limit, and the requests that Redis decides on: `times` requests of `cost`. With cost
	 * 0 there is no request. */
	struct wr_take take;
	/* A random number that identifies the loop that borrows units. 0: the call is only a take,
	 * and the fields below are 0. */
	uint64_t holder;
	/* Sequence number of the call. It begins at 1 and rises with every call of the holder on
	 * this counter. */
	uint64_t seq;
	/* Sequence number of the latest call whose answer granted or prolonged the holder's lease;
	 * 0: the holder has no lease, or its lease has expired. Redis stores this number too. If
	 * Redis has stored another number for the holder, Redis does not know the lease. */
	uint64_t after;
	uint32_t spent;    /* units used since Redis answered the call with the number `after` */
	uint32_t returned; /* units that the holder has given up unused */
	uint32_t wanted;   /* additional units requested */
	uint32_t nodes;    /* number of nodes that share the counter; 0 means 1 */
	/* maximum duration of the lease; 0: as long as wr_redis_lease_ttl_us() allows */
	uint64_t ttl_us;
};

struct wr_leased {
	/* The decision on the take; `remaining` excludes the granted units. */
	struct wr_taken taken;
	/* False if Redis does not have the holder's lease, because it expired or because of
	 * FLUSHALL or a failover. Then the lease is void, and the holder has only the units that
	 * this answer grants. */
	bool known;
	uint32_t granted;
	/* All units of the holder expire this long after now_us. 0 means that the holder has no
	 * units. */
	uint64_t ttl_us;
};

/* Returns the maximum duration of a lease of this limit: 1 s, or a tenth of its period if that is
 * shorter. */
uint64_t wr_redis_lease_ttl_us(const struct wr_take *take);

/* Returns whether units of the limit can be lent. Units of a leaky bucket, of a limit in soft mode,
 * of a limit that counts rejected requests, and of a limit of 0 cannot be lent. These limits use the
 * take script. */
bool wr_redis_lease_lends(const struct wr_take *take);

/* wr_script_lease_argc returns the number of arguments after the keys, and wr_script_lease_args
 * writes these arguments. */
size_t wr_script_lease_argc(const struct wr_redis_lease_call *call);
void wr_script_lease_args(const struct wr_redis_lease_call *call, uint64_t report_seq,
			  struct wr_commands *out);

/* Reads the reply. Returns 0, or WEIR_EFORMAT if the reply is malformed or an error. */
int wr_script_lease_reply(const struct redisReply *reply, const struct wr_redis_lease_call *call,
			  struct wr_leased *leased);

#endif
