/* Implements pace_units.h. */
#include "client/pace_units.h"

#include <math.h>

/* The numbers of the method. test/client/test_pace_units.c checks what they achieve. */
#define LOW 0.15            /* part of the limit that remains when the use equals the inflow */
#define MOST 2.0            /* largest use, in inflows: when more than twice LOW remains */
#define LEAST 0.25          /* smallest use, in inflows */
#define SAMPLES 8u          /* of the mean cost */
#define FIRST_S 1.0         /* longest interval while the cost is not known */
#define PAUSE_S 1.0         /* a longer time between two responses can be a pause of the client */
#define PAUSE_INTERVALS 1.5 /* and is one if it is longer than these intervals too */
#define PULL 0.3            /* how much more a client with few requests raises its rate */
#define SLOWER 2.0          /* factor of the interval after a refusal */
#define RARE 0.75           /* intervals from this part of the window on are lengthened by `slow` */
#define SLOW_MAX 16.0
#define SLOW_KEPT 0.97 /* part of `slow` that stays after a response that is not a refusal */

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static bool has_window(const struct weir_ratelimit_policy *policy)
{
	return (policy->has & WEIR_RATELIMIT_HAS_WINDOW) && policy->window_ns;
}

static bool has_reset(const struct weir_ratelimit_policy *policy)
{
	return (policy->has & WEIR_RATELIMIT_HAS_RESET) && policy->reset_ns;
}

/* Returns how many units flow back per second, if they flow back evenly. */
static double inflow_of(const struct weir_ratelimit_policy *policy, double remaining)
{
	if (has_window(policy))
		return (double)policy->limit / seconds(policy->window_ns);
	if (has_reset(policy))
		return ((double)policy->limit - remaining) / seconds(policy->reset_ns);
	return 0;
}

/* Returns the most units that count as used after a pause of the client. Most of the units may have been
 * used by others, and a fixed window gives back less than the inflow of a long pause. */
static double most_after_pause(const struct wr_pace_units *units, double fall, double inflow,
			       double longest_s)
{
	return fmin(fmax(0, fall) + inflow * longest_s, 2 * units->cost + inflow * PAUSE_S);
}

/* Returns how many units were used since the previous response, passed_s ago. Without a window, the
 * reset tells whether units flow back evenly: then each used unit delays the time of the reset.
 * Otherwise this time stays the same, and only the fall of the remaining units counts. */
static double used_since(const struct wr_pace_units *units,
			 const struct weir_ratelimit_policy *policy, double remaining,
			 double passed_s)
{
	double limit = (double)policy->limit, inflow = inflow_of(policy, remaining);
	double fall = units->remaining - remaining;
	double later_s = passed_s + seconds(policy->reset_ns) - units->reset_s;
	double longest_s = fmax(PAUSE_S, PAUSE_INTERVALS * units->interval_s);
	double used = has_window(policy) ? fall + inflow * passed_s : fmax(fall, inflow * later_s);

	if (units->samples && passed_s > longest_s)
		used = fmin(used, most_after_pause(units, fall, inflow, longest_s));
	return fmax(0, fmin(used, limit - remaining));
}

static void learn_cost(struct wr_pace_units *units, const struct weir_ratelimit_policy *policy,
		       double remaining, double passed_s)
{
	double used = used_since(units, policy, remaining, passed_s);

	units->samples += units->samples < SAMPLES;
	units->cost += (used - units->cost) / units->samples;
}

/* Makes the interval longer, at most once per interval: the refusals of a burst count once. A policy that
 * has units for two more requests is not the one that refused.
 *
 * Doubling the cost is enough for a client with several requests per window. With the longer interval
 * the next samples are larger too if other clients use the units, and if not, the cost is soon right
 * again. The cost is at most the limit, so a client with fewer requests needs a factor of its own. */
static void count_refusal(struct wr_pace_units *units, double remaining, uint64_t now_ns)
{
	if (remaining >= 2 * units->cost || seconds(now_ns - units->slowed_ns) < units->interval_s)
		return;
	if (units->interval_s < RARE * units->span_s)
		units->cost *= SLOWER;
	else
		units->slow = fmin(SLOW_MAX, units->slow * SLOWER);
	units->slowed_ns = now_ns;
}

/* Returns the interval that the cost and the remaining units ask for. */
static double wanted_interval(const struct wr_pace_units *units,
			      const struct weir_ratelimit_policy *policy, double remaining)
{
	double cost = units->cost;

	if (has_window(policy)) {
		double part = remaining / (double)policy->limit / LOW;

		return cost / inflow_of(policy, remaining) / fmin(MOST, fmax(LEAST, part));
	}
	if (has_reset(policy) && cost > 0)
		return seconds(policy->reset_ns) * cost / fmax(remaining, cost);
	return 0;
}

/* Returns the interval of a client that raises its rate. Clients with few requests raise it by a larger
 * part, so that the rates of all clients become equal over time. A client that waits for a reset does not
 * start before it. */
static double pulled(const struct wr_pace_units *units, const struct weir_ratelimit_policy *policy,
		     double remaining, double interval_s)
{
	if (units->span_s <= 0 || (!has_window(policy) && remaining < units->cost))
		return interval_s;
	return interval_s / (1 + PULL * fmin(1, sqrt(interval_s / units->span_s)));
}

double wr_pace_units_learn(struct wr_pace_units *units, const struct weir_ratelimit_policy *policy,
			   bool refused, uint64_t now_ns)
{
	double remaining = fmin((double)policy->remaining, (double)policy->limit);
	double interval_s;

	if (has_window(policy))
		units->span_s = seconds(policy->window_ns);
	else if (has_reset(policy))
		units->span_s = fmax(units->span_s, seconds(policy->reset_ns));
	if (!units->told_ns) {
		units->cost = (double)policy->limit - remaining;
		units->slow = 1;
	} else if (!refused) {
		learn_cost(units, policy, remaining, seconds(now_ns - units->told_ns));
	}
	if (refused)
		count_refusal(units, remaining, now_ns);
	else
		units->slow = fmax(1, units->slow * SLOW_KEPT);
	units->cost = fmin(units->cost, (double)policy->limit);
	units->remaining = remaining;
	units->reset_s = seconds(policy->reset_ns);
	units->told_ns = now_ns;
	interval_s = wanted_interval(units, policy, remaining);
	if (!units->samples)
		interval_s = fmin(interval_s, FIRST_S);
	units->interval_s = pulled(units, policy, remaining, interval_s * units->slow);
	return units->interval_s;
}
