/* Checks limits and works out the numbers that the algorithms need (weir_limit_check). */
#include <stdarg.h>
#include <stdio.h>

#include "algo/narrow.h"
#include "algo/quick.h"

#define FLAGS_KNOWN (WEIR_COUNT_REJECTED | WEIR_FULL_REFUSES | WEIR_NO_DEBT)

static int refuse_limit(struct weir_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse_limit(struct weir_error *error, int code, const char *format, ...)
{
	va_list args;

	if (!error)
		return code;
	error->code = code;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return code;
}

static bool is_bucket(const struct weir_limit *l)
{
	return l->algorithm == WEIR_TOKEN_BUCKET || l->algorithm == WEIR_LEAKY_BUCKET;
}

/* Returns whether the units of a request can be settled after its response. */
static bool can_owe(const struct weir_limit *l)
{
	return l->algorithm != WEIR_LEAKY_BUCKET && l->algorithm != WEIR_CONCURRENT;
}

static int check_window(const struct weir_limit *l, struct weir_error *error)
{
	if (l->algorithm != WEIR_FIXED_WINDOW)
		return refuse_limit(
			error, WEIR_ELIMIT,
			"window_start_ns and window_end_ns are for fixed_window, not for %s",
			weir_algorithm_name((int)l->algorithm));
	if (l->window_start_ns >= l->window_end_ns)
		return refuse_limit(error, WEIR_ELIMIT,
				    "the window ends at %llu ns and does not begin before that",
				    (unsigned long long)l->window_end_ns);
	if (l->window_end_ns > INT64_MAX)
		return refuse_limit(error, WEIR_ELIMIT, "window_end_ns is beyond 2^63-1");
	if (l->window_end_ns - l->window_start_ns > WEIR_SPAN_MAX_NS)
		return refuse_limit(error, WEIR_ELIMIT, "the window is longer than 100 years");
	return 0;
}

static int check_period(const struct weir_limit *l, struct weir_error *error)
{
	bool given = l->window_start_ns || l->window_end_ns;

	if (l->period_ns == 0 && !given)
		return refuse_limit(error, WEIR_ELIMIT, "period_ns is 0");
	if (l->period_ns > WEIR_SPAN_MAX_NS)
		return refuse_limit(error, WEIR_ELIMIT,
				    "the period is longer than 100 years; shorten it");
	return given ? check_window(l, error) : 0;
}

/* Returns an error for settings that do not belong to the limit's algorithm, and for unknown
 * flags. */
static int check_strangers(const struct weir_limit *l, struct weir_error *error)
{
	const char *name = weir_algorithm_name((int)l->algorithm);

	if (l->flags & ~(uint32_t)FLAGS_KNOWN)
		return refuse_limit(error, WEIR_ELIMIT, "unknown flags 0x%x", l->flags);
	if (l->shares || l->reserved)
		return refuse_limit(error, WEIR_ELIMIT, "the reserved field is not 0");
	if (l->flags & WEIR_COUNT_REJECTED && (is_bucket(l) || l->algorithm == WEIR_CONCURRENT))
		return refuse_limit(error, WEIR_ELIMIT, "count_rejected is for windows, not for %s",
				    name);
	if ((l->max_debt || l->flags & WEIR_NO_DEBT) && !can_owe(l))
		return refuse_limit(error, WEIR_ELIMIT,
				    "%s has no max_debt, because it cannot be settled", name);
	if (l->max_debt && l->flags & WEIR_NO_DEBT)
		return refuse_limit(error, WEIR_ELIMIT,
				    "max_debt is %u, but WEIR_NO_DEBT is set; remove one of them",
				    l->max_debt);
	if (l->flags & WEIR_FULL_REFUSES && l->algorithm != WEIR_SLIDING_LOG)
		return refuse_limit(error, WEIR_ELIMIT,
				    "on_full is for sliding_window_log, not for %s", name);
	if (l->burst && l->algorithm != WEIR_TOKEN_BUCKET)
		return refuse_limit(error, WEIR_ELIMIT, "burst is for token_bucket, not for %s",
				    name);
	if (l->algorithm == WEIR_LEAKY_BUCKET)
		return 0;
	if (l->queue_size)
		return refuse_limit(error, WEIR_ELIMIT,
				    "queue_size is for leaky_bucket, not for %s", name);
	if (l->max_wait_ns)
		return refuse_limit(error, WEIR_ELIMIT,
				    "max_wait_ns is for leaky_bucket, not for %s", name);
	return 0;
}

static int check_soft(const struct weir_limit *l, uint32_t capacity, struct weir_error *error)
{
	if (l->soft_ceiling == 0)
		return l->soft_for_ns == 0 ? 0
					   : refuse_limit(error, WEIR_ELIMIT,
							  "soft mode has a duration, but its "
							  "ceiling is 0; raise the ceiling or the "
							  "limit");
	if (l->algorithm == WEIR_LEAKY_BUCKET)
		return refuse_limit(error, WEIR_ELIMIT,
				    "leaky_bucket has no soft mode: its outflow is fixed");
	if (l->algorithm == WEIR_CONCURRENT)
		return refuse_limit(error, WEIR_ELIMIT,
				    "concurrent has no soft mode: raise the number of slots");
	if (l->soft_ceiling < capacity)
		return refuse_limit(error, WEIR_ELIMIT, "soft_ceiling %u is below the capacity %u",
				    l->soft_ceiling, capacity);
	if (l->soft_for_ns == 0)
		return refuse_limit(
			error, WEIR_ELIMIT,
			"soft mode has a ceiling, but its duration is 0; set a duration");
	if (l->soft_for_ns > WEIR_SPAN_MAX_NS)
		return refuse_limit(
			error, WEIR_ELIMIT,
			"the duration of soft mode is longer than 100 years; shorten it");
	return 0;
}

/* Returns an error for a limit whose state would not fit into the algorithm's fields when the
 * counter is full. */
static int check_size(const struct weir_limit *l, uint32_t ceiling, struct weir_error *error)
{
	if (l->algorithm == WEIR_SLIDING_LOG && ceiling > WEIR_LOG_MAX)
		return refuse_limit(
			error, WEIR_ELIMIT,
			"sliding_window_log stores at most %u requests, not %u; lower the limit or "
			"use sliding_window_counter",
			WEIR_LOG_MAX, ceiling);
	if (l->algorithm == WEIR_CONCURRENT && ceiling > WEIR_SLOTS_MAX)
		return refuse_limit(error, WEIR_ELIMIT,
				    "concurrent has at most %u slots, not %u; lower the limit",
				    WEIR_SLOTS_MAX, ceiling);
	if (is_bucket(l) && (unsigned __int128)ceiling * l->period_ns >
				    (unsigned __int128)l->limit * WEIR_SPAN_MAX_NS)
		return refuse_limit(
			error, WEIR_ELIMIT,
			"a bucket of %u units takes more than 100 years to fill at %u per period; "
			"make the bucket smaller or the rate higher",
			ceiling, l->limit);
	return 0;
}

/* Returns the capacity of a limit. A limit of 0 has the capacity 0, whatever its burst or queue. */
static uint32_t capacity_of(const struct weir_limit *l)
{
	if (l->limit == 0)
		return 0;
	if (l->algorithm == WEIR_LEAKY_BUCKET)
		return l->queue_size + 1;
	return l->burst ? l->burst : l->limit;
}

/* The finalizer of MurmurHash3. It maps different inputs to different outputs. Therefore name_of()
 * returns different numbers for limits with the same algorithm and period, but with different
 * values of `identity`. */
static uint64_t mix_bits(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

/* Returns a number that is hashed together with each key. So a key has different counters under
 * limits that differ in algorithm, period or `identity` (struct weir_limit). Tables on disk contain
 * such hashes, so the calculation of the number must never change. All windows of a calendar belong
 * to one counter, although they differ in length. */
static uint64_t name_of(const struct weir_limit *l)
{
	uint64_t period_ns = l->window_end_ns ? 0 : l->period_ns;
	uint64_t name = mix_bits(mix_bits(mix_bits(l->algorithm) ^ period_ns) ^ l->identity);

	return name ? name : 1;
}

int weir_limit_check(struct weir_limit *limit, struct weir_error *error)
{
	int rc;

	if (!limit)
		return refuse_limit(error, WEIR_EINVAL, "there is no limit to check");
	if (limit->size != sizeof *limit)
		return refuse_limit(error, WEIR_EINVAL,
				    "the limit's size is %u, not %zu: another weir?", limit->size,
				    sizeof *limit);
	limit->checked = 0;
	if (!weir_algorithm_name((int)limit->algorithm))
		return refuse_limit(error, WEIR_ELIMIT, "unknown algorithm %u", limit->algorithm);
	if (limit->queue_size == UINT32_MAX)
		return refuse_limit(error, WEIR_ELIMIT, "queue_size is above %u", UINT32_MAX - 1);
	if ((rc = check_period(limit, error)) || (rc = check_strangers(limit, error)))
		return rc;

	uint32_t capacity = capacity_of(limit);
	uint32_t ceiling = limit->soft_ceiling && limit->limit ? limit->soft_ceiling : capacity;

	if ((rc = check_soft(limit, capacity, error)) || (rc = check_size(limit, ceiling, error)))
		return rc;
	limit->capacity = capacity;
	limit->ceiling = ceiling;
	/* The quick paths (quick.h, narrow.h) decide only limits whose narrow_ns is not 0. In soft
	 * mode narrow_ns is 0, because the decision also depends on a second state. */
	limit->narrow_ns = ceiling > capacity                      ? 0
			   : limit->algorithm == WEIR_FIXED_WINDOW ? wr_fixed_quick_ns(limit)
								   : wr_narrow_ns(limit);
	limit->harm_base = wr_harm_of(limit->period_ns);
	limit->checked = name_of(limit);
	return 0;
}
