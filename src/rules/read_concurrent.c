/* Reads a limit with `concurrent`: how many requests of a key can be in flight at the same time. */
#include "rules/read.h"

#include "base/assert.h"

#define HOLD_MIN_NS UINT64_C(1000000)

/* The keys of a limit that also work with `concurrent`. */
static bool is_compatible(enum wr_rules_key_id key)
{
	switch ((int)key) {
	case WR_KEY_CONCURRENT:
	case WR_KEY_MAX_HOLD:
	case WR_KEY_UNLIMITED:
	case WR_KEY_NAME:
	case WR_KEY_REPLACES:
	case WR_KEY_ON_LIMIT:
	case WR_KEY_DEFER:
	case WR_KEY_CONSISTENCY:
	case WR_KEY_ON_STORE_FAILURE:
	case WR_KEY_RESPONSE:
	case WR_KEY_ENFORCE:
	case WR_KEY_BAN:
		return true;
	default:
		return false;
	}
}

static void read_hold(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	uint64_t ns;

	if (!f->value[WR_KEY_MAX_HOLD] && !f->misread)
		wr_rules_report(load, WR_D_concurrent_without_hold, f->key[WR_KEY_CONCURRENT],
				NULL);
	if (!wr_get_duration(load, f, WR_KEY_MAX_HOLD, &ns))
		return;
	if (ns < HOLD_MIN_NS || ns > WEIR_SPAN_MAX_NS)
		wr_rules_report(load, WR_D_bad_max_hold, f->value[WR_KEY_MAX_HOLD],
				WR_ARGS(WR_STR("1ms"), WR_STR("100 years")));
	else
		limit->limit.period_ns = ns;
}

void wr_read_concurrent(struct wr_load *load, const struct wr_fields *f,
			struct wr_rules_limit *limit)
{
	wr_assert(f->value[WR_KEY_CONCURRENT]);
	limit->limit.algorithm = WEIR_CONCURRENT;
	for (int key = 0; key < WR_KEY_COUNT; key++)
		if (f->value[key] && !is_compatible((enum wr_rules_key_id)key))
			wr_rules_report(load, WR_D_concurrent_with, f->key[key],
					WR_ARGS(wr_keys[key].name));
	wr_get_number(load, f, WR_KEY_CONCURRENT, 1, WEIR_SLOTS_MAX, &limit->limit.limit);
	read_hold(load, f, limit);
}
