/* Implements shared.h. */
#include "client/shared.h"

#include <string.h>

#include "client/pace.h"

#define KEY_MAX 512u
#define KEY_BEGIN "weir-client|"
#define PLACES_MAX 1000000u /* requests that wait for one policy */
#define HOLD_UNIT_NS 10000000ull
#define HOLD_UNITS_MAX 1000000000u /* 115 days */

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

/* Returns the wait that one policy asks for. */
static uint64_t delay_by(struct weir_table *table, struct weir_str host,
			 const struct weir_ratelimit_policy *policy, uint64_t now_ns)
{
	struct shared_key key = make_key("pace|", host, policy->name);
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_LEAKY_BUCKET,
				   .limit = policy->limit < UINT32_MAX ? (uint32_t)policy->limit
								       : UINT32_MAX,
				   .period_ns = policy->window_ns,
				   .queue_size = PLACES_MAX};
	struct weir_decision decision;

	if (weir_limit_check(&limit, NULL) < 0 ||
	    weir_take(table, &limit, key.text, key.len, 1, now_ns, &decision) < 0)
		return 0;
	return decision.admitted ? decision.delay_ns : decision.retry_after_ns;
}

uint64_t wr_pace_shared_delay(struct weir_table *table, struct weir_str host,
			      const struct weir_ratelimit *told, uint64_t now_ns)
{
	uint64_t longest_ns = 0;

	for (uint32_t i = 0; i < told->count; i++) {
		uint64_t delay_ns = 0;

		if (wr_pace_follows(told, i) && (told->policies[i].has & WEIR_RATELIMIT_HAS_WINDOW))
			delay_ns = delay_by(table, host, &told->policies[i], now_ns);
		if (delay_ns > longest_ns)
			longest_ns = delay_ns;
	}
	return longest_ns;
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

	if (wait_ns > held_ns)
		take_hold(table, host,
			  (int64_t)((wait_ns - held_ns + HOLD_UNIT_NS - 1) / HOLD_UNIT_NS), now_ns);
}

uint64_t wr_pace_shared_held(struct weir_table *table, struct weir_str host, uint64_t now_ns)
{
	return take_hold(table, host, 0, now_ns);
}
