/* Implements shared.h. */
#include "client/shared.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

#define KEY_MAX 512u
#define KEY_BEGIN "weir-client|"
#define PARTS 1000.0    /* units of the queue per request */
#define ROUNDING 1e-6   /* of a unit; floating-point errors below it do not count */
#define WAITING_MIN 16u /* requests that can wait in the queue, whatever their interval */
#define COUNT_MAX 4000000000u
#define HOLD_UNIT_NS 10000000ull
#define HOLD_UNITS_MAX 1000000000u /* 115 days */
/* Longest hold that is asked for. The rest of an earlier hold can be rounded up by a unit. */
#define HOLD_NS_MAX ((HOLD_UNITS_MAX - 1) * HOLD_UNIT_NS)

/* Key of a counter in the table. Names that are too long are cut. */
struct shared_key {
	char text[KEY_MAX];
	size_t len;
};

static void append(struct shared_key *key, struct weir_str text)
{
	size_t len = text.len < KEY_MAX - key->len ? text.len : KEY_MAX - key->len;

	if (len)
		memcpy(key->text + key->len, text.ptr, len);
	key->len += len;
}

static struct shared_key make_key(const char *kind, struct weir_str host, struct weir_str name)
{
	struct shared_key key = {.len = 0};

	append(&key, (struct weir_str){KEY_BEGIN, sizeof KEY_BEGIN - 1});
	append(&key, (struct weir_str){kind, strlen(kind)});
	append(&key, host);
	append(&key, (struct weir_str){"|", 1});
	append(&key, name);
	return key;
}

/* The queue of the requests of all processes. Its unit is a part of a request, because the processes
 * seldom wait for exactly the interval of the policy's limit. */
static struct weir_limit queue_of(const struct wr_pace_lane *lane)
{
	double parts = fmin(PARTS, floor(UINT32_MAX / lane->limit));

	return (struct weir_limit){.size = sizeof(struct weir_limit),
				   .algorithm = WEIR_LEAKY_BUCKET,
				   .limit =
					   (uint32_t)fmin(UINT32_MAX, lane->limit * fmax(1, parts)),
				   .period_ns = (uint64_t)(lane->window_s * 1e9),
				   .queue_size = UINT32_MAX - 1};
}

/* Returns when the lane's next interval of time begins. `takes`: takes the interval from the queue. */
static uint64_t delay_by(struct weir_table *table, struct weir_str host,
			 const struct wr_pace_lane *lane, bool takes, uint64_t now_ns)
{
	struct shared_key key =
		make_key("pace|", host, (struct weir_str){lane->name, lane->name_len});
	struct weir_limit limit = queue_of(lane);
	double units = ceil(lane->interval_s / lane->window_s * limit.limit - ROUNDING);
	struct weir_decision decision;
	uint64_t taken_ns;

	units = fmax(1, fmin(units, (double)(UINT32_MAX / WAITING_MIN)));
	if (lane->limit > UINT32_MAX || weir_limit_check(&limit, NULL) < 0 ||
	    weir_take(table, &limit, key.text, key.len, takes ? (int64_t)units : 0, now_ns,
		      &decision) < 0)
		return 0;
	if (!takes)
		return decision.reset_after_ns;
	if (!decision.admitted)
		return decision.retry_after_ns;
	taken_ns = (uint64_t)(units * (double)limit.period_ns / limit.limit);
	return decision.reset_after_ns > taken_ns ? decision.reset_after_ns - taken_ns : 0;
}

static uint64_t longest_delay(struct weir_table *table, struct weir_str host,
			      const struct wr_pace *pace, bool takes, uint64_t now_ns)
{
	uint64_t longest_ns = 0;

	for (unsigned i = 0; i < WR_PACE_LANES; i++) {
		uint64_t delay_ns = 0;

		if (wr_pace_lane_is_shared(&pace->lanes[i]))
			delay_ns = delay_by(table, host, &pace->lanes[i], takes, now_ns);
		if (delay_ns > longest_ns)
			longest_ns = delay_ns;
	}
	return longest_ns;
}

uint64_t wr_pace_shared_delay(struct weir_table *table, struct weir_str host,
			      const struct wr_pace *pace, uint64_t within_ns, uint64_t now_ns)
{
	uint64_t delay_ns = longest_delay(table, host, pace, false, now_ns);

	return delay_ns < within_ns ? longest_delay(table, host, pace, true, now_ns) : delay_ns;
}

static double count_by(struct weir_table *table, struct weir_str host,
		       const struct weir_ratelimit_policy *policy, int64_t add, uint64_t now_ns)
{
	struct shared_key key =
		make_key("own|", host, wr_str_first(policy->name, WR_PACE_NAME_MAX));
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_SLIDING_COUNTER,
				   .limit = COUNT_MAX,
				   .period_ns = policy->window_ns};
	struct weir_decision decision;

	if (weir_limit_check(&limit, NULL) < 0 ||
	    weir_take(table, &limit, key.text, key.len, add, now_ns, &decision) < 0)
		return (double)add;
	return (double)(decision.limit - decision.remaining);
}

void wr_pace_shared_count(struct weir_table *table, struct weir_str host,
			  const struct weir_ratelimit *told, uint64_t now_ns, double *own)
{
	for (uint32_t i = 0; i < told->count; i++) {
		const struct weir_ratelimit_policy *policy = &told->policies[i];

		own[i] = 0;
		if (wr_pace_follows(told, i) && (policy->has & WEIR_RATELIMIT_HAS_WINDOW))
			own[i] = count_by(table, host, policy, told->refused ? 0 : 1, now_ns);
	}
}

/* The bucket that is full until the end of the hold: each unit is HOLD_UNIT_NS. Taking `units` makes
 * the hold longer. Returns how long the bucket is still in use. */
static uint64_t take_hold(struct weir_table *table, struct weir_str host, int64_t units,
			  uint64_t now_ns)
{
	struct shared_key key = make_key("hold|", host, (struct weir_str){0});
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_LEAKY_BUCKET,
				   .limit = (uint32_t)(1000000000 / HOLD_UNIT_NS),
				   .period_ns = 1000000000,
				   .queue_size = HOLD_UNITS_MAX};
	struct weir_decision decision;

	if (weir_limit_check(&limit, NULL) < 0 ||
	    weir_take(table, &limit, key.text, key.len, units, now_ns, &decision) < 0)
		return 0;
	return decision.reset_after_ns;
}

void wr_pace_shared_hold(struct weir_table *table, struct weir_str host, uint64_t wait_ns,
			 uint64_t now_ns)
{
	uint64_t held_ns = take_hold(table, host, 0, now_ns);

	if (wait_ns > HOLD_NS_MAX)
		wait_ns = HOLD_NS_MAX;
	if (wait_ns > held_ns)
		take_hold(table, host,
			  (int64_t)((wait_ns - held_ns + HOLD_UNIT_NS - 1) / HOLD_UNIT_NS), now_ns);
}

uint64_t wr_pace_shared_held(struct weir_table *table, struct weir_str host, uint64_t now_ns)
{
	return take_hold(table, host, 0, now_ns);
}
