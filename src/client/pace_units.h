/* Paces by a policy that counts tokens, bytes or other units instead of requests.
 *
 * No response tells what a request costs, so the client learns it. The cost is the mean number of
 * units that are used from one response of this client to its next one. It includes units that other
 * clients use in that time. So the client need not know the other clients: if all of them together use
 * twice what flows back, each client measures it and doubles its interval.
 *
 *   limit 60,000 tokens per 60 s: 1,000 tokens flow back per second
 *   remaining 20,000, then 19,900 after 0.4 s: 100 + 0.4 · 1,000 = 500 tokens were used
 *   more than 15 % of the limit remains: twice the inflow may be used, a request per 0.25 s
 *   remaining 9,000, which is 15 % of the limit: a request per 0.5 s
 *
 * If the server tells no window but a reset, the remaining units are spread over the time until the
 * reset. */
#ifndef WR_CLIENT_PACE_UNITS_H
#define WR_CLIENT_PACE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/ratelimit.h>

/* The state of one policy. */
struct wr_pace_units {
	double cost;        /* units per request */
	double remaining;   /* of the latest response */
	double reset_s;     /* of the latest response */
	double span_s;      /* the window, or the longest reset that was told */
	double slow;        /* factor of the interval because of refusals, 1 to 16 */
	double interval_s;  /* time between two requests */
	uint64_t told_ns;   /* time of the latest response; 0: none */
	uint64_t slowed_ns; /* time of the latest refusal that made the interval longer */
	uint32_t samples;   /* responses that the cost is the mean of, at most 8 */
};

/* Learns from a response with this policy, whose limit is above 0. `refused` tells whether the response
 * refuses its request. Returns the new time between two requests in seconds. It is at most 64 windows,
 * or 16 times the reset if the server told no window. 0: the policy does not limit requests. */
double wr_pace_units_learn(struct wr_pace_units *units, const struct weir_ratelimit_policy *policy,
			   bool refused, uint64_t now_ns);

#endif
