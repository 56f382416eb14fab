/* Paces the requests of one client to one host, so that the host refuses few of them.
 *
 * The client shares the host's limits with other clients that it cannot see. Each response tells
 * how much of a limit remains. From these numbers the client finds its own rate: the rates of all
 * clients together use the limit, and the rates of the clients become equal. docs/clients.md
 * explains the method.
 *
 *   struct wr_pace pace;
 *
 *   wr_pace_init(&pace, 0);
 *   at_ns = wr_pace_reserve(&pace, now_ns, random);       // before each attempt: its time to start
 *   …                                                     // wait until at_ns
 *   while ((at_ns = wr_pace_confirm(&pace, now_ns, random)) > now_ns)
 *           …                                             // told to wait meanwhile
 *   wr_pace_learn(&pace, &told, now_ns, random);          // after each response
 *
 * The functions take the time (one clock for all calls, which may be monotonic) and 64 random bits
 * as arguments. They allocate nothing and take no lock: the caller holds the lock of the host. */
#ifndef WR_CLIENT_PACE_H
#define WR_CLIENT_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/ratelimit.h>

#include "client/pace_units.h"

#define WR_PACE_LANES 8u     /* policies of a host that are followed at once */
#define WR_PACE_NAME_MAX 32u /* longer names are told apart by their first bytes */

/* The state of one policy. */
struct wr_pace_lane {
	char name[WR_PACE_NAME_MAX];
	uint8_t name_len, form, unit;
	bool used;         /* the host told of this policy */
	bool admitted;     /* a request of this client was not refused */
	bool met_others;   /* a response showed other clients */
	uint32_t lonely;   /* consecutive responses without a trace of other clients */
	uint8_t refusals;  /* consecutive refusals, at most 32 */
	double interval_s; /* time between two requests of this client; 0: not limited */
	double limit, window_s;
	double own_now, own_before; /* own requests in this and in the previous window */
	uint64_t window_at_ns;      /* start of own_now */
	uint64_t next_ns;           /* the lane's next free time */
	uint64_t lonely_ns;         /* time of the first of these responses */
	uint64_t cut_ns;            /* time of the latest refusal that made the interval longer */
	uint64_t told_ns;           /* time of the latest response with this policy */
	struct wr_pace_units units; /* for a policy that does not count requests */
};

struct wr_pace {
	struct wr_pace_lane lanes[WR_PACE_LANES];
	uint64_t hold_ns; /* no request starts before this time, because a response said so */
	double rate_max;  /* requests per second that the user allows; 0: no maximum */
	uint64_t user_ns; /* next free time by rate_max */
	/* A table gives requests their times, and counts requests, for all processes (shared.h). */
	bool shared;
};

/* `rate_max` is the highest rate in requests per second, for example of an option --rate; 0: no
 * maximum. */
void wr_pace_init(struct wr_pace *pace, double rate_max);

/* Returns the next free time for an attempt, without reserving it. It is at least now_ns. */
uint64_t wr_pace_earliest(const struct wr_pace *pace, uint64_t now_ns);

/* Reserves the next free time for an attempt and returns it. It is at least now_ns. */
uint64_t wr_pace_reserve(struct wr_pace *pace, uint64_t now_ns, uint64_t random);

/* Called when a reserved time has come, immediately before the attempt. Returns now_ns if the
 * attempt may start. Otherwise a response has told a wait meanwhile: returns the time at which the
 * caller calls again. The times of several callers are spread at random, so that they do not all
 * start at the end of the wait. */
uint64_t wr_pace_confirm(struct wr_pace *pace, uint64_t now_ns, uint64_t random);

/* Learns from a response. Called for each response that comes from the host, with told->refused for
 * refusals. Not called for a response from a cache of the client. */
void wr_pace_learn(struct wr_pace *pace, const struct weir_ratelimit *told, uint64_t now_ns,
		   uint64_t random);

/* As wr_pace_learn, for a shared pace. own[i] is the number of requests of all processes that
 * told->policies[i] has counted in its last window. */
void wr_pace_learn_shared(struct wr_pace *pace, const struct weir_ratelimit *told,
			  const double *own, uint64_t now_ns, uint64_t random);

/* Returns whether a table gives the lane's requests their times if the pace is shared: the policy
 * counts requests and tells its window. */
bool wr_pace_lane_is_shared(const struct wr_pace_lane *lane);

/* Returns whether told->policies[i] is a policy of requests that requests are paced by: it tells its
 * limit and what remains, and is in the form that tells the most. A server often sends the same limit
 * in several forms. */
bool wr_pace_follows(const struct weir_ratelimit *told, uint32_t i);

/* Returns whether requests are paced by told->policies[i] although it counts tokens, bytes or other
 * units, as pace_units.h explains: it tells its limit and what remains, does not limit concurrent
 * requests, and no policy of the same unit is in a form that tells more. */
bool wr_pace_follows_units(const struct weir_ratelimit *told, uint32_t i);

/* Returns the lane that delays the next request the most, or NULL if no lane delays it. For
 * progress displays: "waits for policy NAME". */
const struct wr_pace_lane *wr_pace_tightest(const struct wr_pace *pace, uint64_t now_ns);

#endif
