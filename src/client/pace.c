/* Implements pace.h. */
#include "client/pace.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

#define SECOND_NS 1000000000ull

/* The numbers of the method. test/client/test_pace.c checks what they achieve. */
#define HEADROOM 1.01        /* the client alone uses 99 % of a limit */
#define HUMBLE 14.0          /* windows per request after a refusal at the first contact */
#define SMALL 20.0           /* a limit below this one often belongs to a single client */
#define CUT_NEW 4.0          /* factor after a refusal, for a client that was never admitted */
#define FEW 0.2              /* fewer others than this part of the limit: less humble */
#define RAISE 0.01           /* largest step up of the rate, before `pull` */
#define LOAD_WANTED 0.97     /* part of the limit in use at which the rate stays */
#define CUT 0.15             /* step down after a refusal */
#define CUT_REPEATED 0.2     /* after a refusal that follows a refusal */
#define CUT_FAST 0.35        /* for a client with more than a request per window */
#define PULL 2.0             /* how much more a client with few requests raises its rate */
#define PULL_SLOW 4.0        /* the least of it for a client with a request per window or less */
#define LONELY 4u            /* responses without a trace of others, until the rate doubles */
#define LONELY_WINDOWS 2     /* and for how many windows */
#define WINDOWS_MAX 100000.0 /* longest interval, in windows */
#define JITTER 0.1           /* of an interval */

static double uniform(uint64_t random)
{
	return (double)(random >> 11) * 0x1p-53;
}

static uint64_t ns_of(double seconds)
{
	return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : 1000000000 * SECOND_NS;
}

/* Returns a + b, at most 2^63 - 1. Both are below 2^63. */
static uint64_t add_ns(uint64_t a, uint64_t b)
{
	return a + b < INT64_MAX ? a + b : INT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool wr_pace_lane_is_shared(const struct wr_pace_lane *lane)
{
	return lane->used && lane->limit > 0;
}

void wr_pace_init(struct wr_pace *pace, double rate_max)
{
	*pace = (struct wr_pace){.rate_max = rate_max};
}

static double base_interval(const struct wr_pace_lane *lane)
{
	return HEADROOM * lane->window_s / lane->limit;
}

/* ---- time to start ---- */

static uint64_t take_slot(struct wr_pace_lane *lane, uint64_t at_ns, double random)
{
	double jitter = lane->interval_s < lane->window_s ? 0 : JITTER * (2 * random - 1);

	if (lane->next_ns < at_ns)
		lane->next_ns = at_ns;
	at_ns = lane->next_ns;
	lane->next_ns = add_ns(lane->next_ns, ns_of(lane->interval_s * (1 + jitter)));
	return at_ns;
}

uint64_t wr_pace_earliest(const struct wr_pace *pace, uint64_t now_ns)
{
	uint64_t at_ns = now_ns > pace->hold_ns ? now_ns : pace->hold_ns;

	if (pace->rate_max > 0 && pace->user_ns > at_ns)
		at_ns = pace->user_ns;
	for (unsigned i = 0; i < WR_PACE_LANES; i++)
		if (pace->lanes[i].used && pace->lanes[i].next_ns > at_ns)
			at_ns = pace->lanes[i].next_ns;
	return at_ns;
}

uint64_t wr_pace_reserve(struct wr_pace *pace, uint64_t now_ns, uint64_t random)
{
	uint64_t at_ns = wr_pace_earliest(pace, now_ns);

	if (pace->rate_max > 0)
		pace->user_ns = add_ns(at_ns, ns_of(1 / pace->rate_max));
	for (unsigned i = 0; i < WR_PACE_LANES; i++)
		if (pace->lanes[i].used &&
		    !(pace->shared && wr_pace_lane_is_shared(&pace->lanes[i])))
			take_slot(&pace->lanes[i], at_ns, uniform(random));
	return at_ns;
}

/* Returns the longest interval of the lanes. */
static double longest_interval(const struct wr_pace *pace)
{
	double longest = 0;

	for (unsigned i = 0; i < WR_PACE_LANES; i++)
		if (pace->lanes[i].used && pace->lanes[i].interval_s > longest)
			longest = pace->lanes[i].interval_s;
	return longest;
}

uint64_t wr_pace_confirm(struct wr_pace *pace, uint64_t now_ns, uint64_t random)
{
	if (now_ns >= pace->hold_ns)
		return now_ns;
	return add_ns(pace->hold_ns, ns_of(longest_interval(pace) * uniform(random)));
}

/* ---- what responses tell ---- */

/* Counts an own request of the lane. Returns the number of own requests in the last window. */
static double count_own(struct wr_pace_lane *lane, uint64_t now_ns, double add)
{
	double passed_s = (double)(now_ns - lane->window_at_ns) / 1e9;

	if (passed_s >= lane->window_s) {
		lane->own_before = passed_s < 2 * lane->window_s ? lane->own_now : 0;
		lane->own_now = 0;
		lane->window_at_ns = now_ns;
		passed_s = 0;
	}
	lane->own_now += add;
	return lane->own_now + lane->own_before * (1 - passed_s / lane->window_s);
}

static void bound_interval(struct wr_pace_lane *lane)
{
	double least = base_interval(lane), most = WINDOWS_MAX * lane->window_s;

	if (lane->interval_s < least)
		lane->interval_s = least;
	if (lane->interval_s > most)
		lane->interval_s = most;
}

/* Sets the interval within its bounds. If it is shorter than before, the next request starts sooner. */
static void set_interval(struct wr_pace_lane *lane, double interval_s)
{
	double before = lane->interval_s;

	lane->interval_s = interval_s;
	bound_interval(lane);
	if (lane->interval_s < before && lane->next_ns < INT64_MAX)
		lane->next_ns -= least(ns_of(before - lane->interval_s), lane->next_ns);
}

/* Returns the fraction of a step that one response may cause: steps are per window, or per response
 * if the client sends less than one request per window. */
static double weight_of(const struct wr_pace_lane *lane)
{
	return lane->interval_s < lane->window_s ? lane->interval_s / lane->window_s : 1;
}

/* Returns which part of the limit will be in use at the end of the window, 0 to 1. */
static double load_of(const struct weir_ratelimit_policy *policy)
{
	double used = 1 - (double)policy->remaining / (double)policy->limit;
	double window = (double)policy->window_ns, left = (double)policy->reset_ns;

	if (used < 0)
		return 0;
	if ((policy->has & WEIR_RATELIMIT_HAS_RESET) && left < 0.9 * window)
		used *= window / (window - left);
	return used < 1 ? used : 1;
}

/* Sets the first interval. A client that meets no others takes the whole limit. All other clients
 * begin with about the same interval, because clients that begin with equal rates stay equal for
 * long. Of a small limit they expect fewer clients. `others` is the number of units that others used. */
static void begin_lane(struct wr_pace_lane *lane, double others, uint64_t now_ns, double random)
{
	double small = fmin(1, lane->limit / SMALL), most = HUMBLE * small * small;
	double part = fmin(1, fmax(FEW / 4, others / lane->limit / FEW));

	if (others < 1) {
		lane->interval_s = base_interval(lane);
		random = 1;
	} else {
		lane->interval_s = lane->window_s * most * part;
	}
	bound_interval(lane);
	lane->cut_ns = now_ns;
	lane->next_ns = add_ns(now_ns, ns_of(lane->interval_s * random));
}

/* Makes the interval longer after a refusal, at most once per window. The next request waits as
 * told, and then for a random part of the interval, so that refused clients do not come back
 * together. */
static void cut(struct wr_pace_lane *lane, double wait_s, uint64_t now_ns, double random)
{
	double slow = lane->refusals > 0 ? CUT_REPEATED : CUT;
	double step = lane->interval_s < lane->window_s ? CUT_FAST : slow;

	if (!lane->cut_ns || (double)(now_ns - lane->cut_ns) / 1e9 >= lane->window_s) {
		if (!lane->admitted && lane->interval_s < HUMBLE / CUT_NEW * lane->window_s)
			lane->interval_s *= CUT_NEW;
		else
			lane->interval_s *= exp(step);
		lane->cut_ns = now_ns;
	}
	if (lane->refusals < 32)
		lane->refusals++;
	lane->lonely = 0;
	bound_interval(lane);
	lane->next_ns =
		add_ns(now_ns, ns_of(wait_s + random * fmax(lane->interval_s, lane->window_s)));
}

/* Returns whether the client seems to be the only one. */
static bool is_lonely(struct wr_pace_lane *lane, double others, uint64_t now_ns)
{
	if (others > 0.5)
		lane->lonely = 0;
	else if (lane->lonely++ == 0)
		lane->lonely_ns = now_ns;
	return lane->lonely >= LONELY &&
	       (double)(now_ns - lane->lonely_ns) / 1e9 >= LONELY_WINDOWS * lane->window_s;
}

/* Changes the interval after a response that is not a refusal. A client of a small limit doubles its
 * rate until it meets others: often it is alone, and an earlier run of it used the units. A client with
 * few requests raises its rate by a larger part than a client with many. So the rates become equal over
 * time. */
static void adjust(struct wr_pace_lane *lane, double load, double others, uint64_t now_ns)
{
	double before = lane->interval_s;
	double root = sqrt(before / lane->window_s);
	double pull = root < 1 ? PULL * root : fmax(PULL_SLOW, PULL * root);
	double step = RAISE * (LOAD_WANTED - load) * (load < LOAD_WANTED ? pull : 1);

	lane->refusals = 0;
	if (others > 0.5)
		lane->met_others = true;
	if (is_lonely(lane, others, now_ns))
		step = M_LN2;
	else if (!lane->met_others && lane->limit < SMALL)
		step = M_LN2 / weight_of(lane);
	set_interval(lane, before * exp(-step * weight_of(lane)));
}

/* Sets limit and window. When the server changes them, the interval changes with them, so that a
 * client does not keep the slow pace of an earlier limit. */
static void set_limit(struct wr_pace_lane *lane, const struct weir_ratelimit_policy *policy)
{
	double before = lane->told_ns ? base_interval(lane) : 0, after;

	lane->limit = (double)policy->limit;
	lane->window_s = (double)policy->window_ns / 1e9;
	after = base_interval(lane);
	if (before > 0 && after != before)
		set_interval(lane, lane->interval_s * after / before);
}

/* `own_told` is the number of own requests in the last window. NULL: the lane counts them. */
static void learn_window(struct wr_pace_lane *lane, const struct weir_ratelimit *told,
			 const struct weir_ratelimit_policy *policy, const double *own_told,
			 uint64_t now_ns, double random)
{
	bool refused = told->refused && policy->remaining == 0;
	bool first = !lane->told_ns;
	double own, others;

	set_limit(lane, policy);
	own = own_told ? *own_told : count_own(lane, now_ns, told->refused ? 0 : 1);
	others = lane->limit - (double)policy->remaining - own;
	lane->told_ns = now_ns;
	if (first)
		begin_lane(lane, refused ? lane->limit : others, now_ns, random);
	else if (refused)
		cut(lane, (double)told->wait_ns / 1e9, now_ns, random);
	else if (!told->refused)
		adjust(lane, load_of(policy), others, now_ns);
	lane->admitted |= !told->refused;
	bound_interval(lane);
}

/* Sets the interval. The next request moves by as much as the interval changes. */
static void move_interval(struct wr_pace_lane *lane, double interval_s)
{
	double before = lane->interval_s;

	lane->interval_s = interval_s;
	if (interval_s > before)
		lane->next_ns = add_ns(lane->next_ns, ns_of(interval_s - before));
	else
		lane->next_ns -= least(ns_of(before - interval_s), lane->next_ns);
}

/* A policy without a window: the remaining units are spread over the time until the reset. If none
 * remain, the next request starts after the reset. */
static void learn_reset(struct wr_pace_lane *lane, const struct weir_ratelimit_policy *policy,
			uint64_t now_ns)
{
	bool many = policy->remaining >= policy->limit / 2 + policy->limit % 2;
	double reset_s = policy->has & WEIR_RATELIMIT_HAS_RESET && !many
				 ? (double)policy->reset_ns / 1e9
				 : 0;

	if (lane->told_ns)
		move_interval(lane, reset_s / ((double)policy->remaining + 1));
	else
		lane->interval_s = reset_s / ((double)policy->remaining + 1);
	if (!policy->remaining && lane->next_ns < add_ns(now_ns, ns_of(reset_s)))
		lane->next_ns = add_ns(now_ns, ns_of(reset_s));
	lane->told_ns = now_ns;
}

/* A policy of other units than requests. The first request, and one after a refusal, starts at a random
 * time of the interval. */
static void learn_units(struct wr_pace_lane *lane, const struct weir_ratelimit *told,
			const struct weir_ratelimit_policy *policy, uint64_t now_ns, double random)
{
	double wait_s = (double)told->wait_ns / 1e9;
	uint64_t next_ns;

	move_interval(lane, wr_pace_units_learn(&lane->units, policy, told->refused, now_ns));
	lane->window_s = lane->units.span_s;
	next_ns = add_ns(now_ns, ns_of(wait_s + lane->interval_s * random));
	if ((!lane->told_ns || told->refused) && lane->next_ns < next_ns)
		lane->next_ns = next_ns;
	lane->told_ns = now_ns;
}

/* Returns the lane of the policy. A lane begins anew if the policy counts another unit than before. */
static struct wr_pace_lane *find_lane(struct wr_pace *pace,
				      const struct weir_ratelimit_policy *policy)
{
	struct weir_str name = wr_str_first(policy->name, WR_PACE_NAME_MAX);
	struct wr_pace_lane *found = &pace->lanes[0];

	for (unsigned i = 0; i < WR_PACE_LANES; i++) {
		struct wr_pace_lane *lane = &pace->lanes[i];

		if (lane->used && lane->form == policy->form &&
		    wr_str_equal((struct weir_str){lane->name, lane->name_len}, name)) {
			if (lane->unit == policy->unit)
				return lane;
			found = lane;
			break;
		}
		if (found->used && (!lane->used || lane->told_ns < found->told_ns))
			found = lane;
	}
	*found = (struct wr_pace_lane){.used = true,
				       .form = policy->form,
				       .unit = policy->unit,
				       .name_len = (uint8_t)name.len};
	if (name.len)
		memcpy(found->name, name.ptr, name.len);
	return found;
}

/* Returns the form that tells the most. A server often sends the same limit in several forms. */
static uint8_t best_form(const struct weir_ratelimit *told)
{
	uint8_t best = UINT8_MAX;

	for (uint32_t i = 0; i < told->count; i++)
		if (told->policies[i].form < best)
			best = told->policies[i].form;
	return best;
}

bool wr_pace_follows(const struct weir_ratelimit *told, uint32_t i)
{
	const uint8_t needed = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING;
	const struct weir_ratelimit_policy *policy = &told->policies[i];

	return policy->form == best_form(told) && (policy->has & needed) == needed &&
	       policy->limit && policy->unit == WEIR_RATELIMIT_REQUESTS;
}

bool wr_pace_follows_units(const struct weir_ratelimit *told, uint32_t i)
{
	const uint8_t needed = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING;
	const struct weir_ratelimit_policy *policy = &told->policies[i];

	for (uint32_t k = 0; k < told->count; k++)
		if (told->policies[k].unit == policy->unit && told->policies[k].form < policy->form)
			return false;
	return (policy->has & needed) == needed && policy->limit &&
	       policy->unit != WEIR_RATELIMIT_REQUESTS && policy->unit != WEIR_RATELIMIT_CONCURRENT;
}

static void learn(struct wr_pace *pace, const struct weir_ratelimit *told, const double *own,
		  uint64_t now_ns, uint64_t random)
{
	if (told->wait_ns && pace->hold_ns < now_ns + told->wait_ns)
		pace->hold_ns = now_ns + told->wait_ns;
	for (uint32_t i = 0; i < told->count; i++) {
		const struct weir_ratelimit_policy *policy = &told->policies[i];

		if (wr_pace_follows_units(told, i))
			learn_units(find_lane(pace, policy), told, policy, now_ns, uniform(random));
		else if (!wr_pace_follows(told, i))
			continue;
		else if (policy->has & WEIR_RATELIMIT_HAS_WINDOW)
			learn_window(find_lane(pace, policy), told, policy, own ? &own[i] : NULL,
				     now_ns, uniform(random));
		else
			learn_reset(find_lane(pace, policy), policy, now_ns);
	}
}

void wr_pace_learn(struct wr_pace *pace, const struct weir_ratelimit *told, uint64_t now_ns,
		   uint64_t random)
{
	learn(pace, told, NULL, now_ns, random);
}

void wr_pace_learn_shared(struct wr_pace *pace, const struct weir_ratelimit *told,
			  const double *own, uint64_t now_ns, uint64_t random)
{
	learn(pace, told, own, now_ns, random);
}

const struct wr_pace_lane *wr_pace_tightest(const struct wr_pace *pace, uint64_t now_ns)
{
	const struct wr_pace_lane *tightest = NULL;

	for (unsigned i = 0; i < WR_PACE_LANES; i++) {
		const struct wr_pace_lane *lane = &pace->lanes[i];

		if (lane->used && lane->next_ns > now_ns &&
		    (!tightest || lane->next_ns > tightest->next_ns))
			tightest = lane;
	}
	return tightest;
}
