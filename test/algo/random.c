/* Random limits, times and costs for the suites of src/algo and src/store. */
#include "algo/algo_test.h"

static uint64_t period(struct rnd *r)
{
	static const uint64_t usual[] = {1,          2,
					 3,          250 * MS,
					 SECOND,     MINUTE,
					 HOUR,       DAY,
					 7 * SECOND, 2592000000000000ull,
					 YEAR,       WEIR_SPAN_MAX_NS,
					 SECOND - 1, SECOND + 1};

	if (rnd_below(r, 2))
		return rnd_pick(r, usual, sizeof usual / sizeof *usual);
	return rnd_magnitude(r, WEIR_SPAN_MAX_NS);
}

static uint32_t size(struct rnd *r)
{
	static const uint64_t usual[] = {1, 2, 3, 5, 7, 100, 1000, 4294967291, UINT32_MAX};

	switch (rnd_below(r, 8)) {
	case 0:
	case 1:
		return (uint32_t)rnd_pick(r, usual, sizeof usual / sizeof *usual);
	case 2:
		return (uint32_t)rnd_magnitude(r, UINT32_MAX);
	default:
		return 1 + (uint32_t)rnd_below(r, 12);
	}
}

static uint32_t log_size(struct rnd *r, uint32_t max)
{
	return 1 + (uint32_t)rnd_below(r, rnd_below(r, 4) ? 8 : max);
}

static struct weir_limit draw(struct rnd *r, uint32_t algorithm, uint32_t log_max)
{
	struct weir_limit l = {
		.size = sizeof l, .algorithm = algorithm, .limit = size(r), .period_ns = period(r)};
	int bucket = algorithm == WEIR_TOKEN_BUCKET || algorithm == WEIR_LEAKY_BUCKET;

	if (algorithm == WEIR_SLIDING_LOG || algorithm == WEIR_CONCURRENT)
		l.limit = log_size(r, log_max);
	if (algorithm == WEIR_TOKEN_BUCKET && rnd_below(r, 2))
		l.burst = size(r);
	if (algorithm == WEIR_LEAKY_BUCKET) {
		l.queue_size = size(r) - 1;
		l.max_wait_ns = rnd_below(r, 2) ? 0 : rnd_magnitude(r, WEIR_SPAN_MAX_NS);
	}
	if (!bucket && rnd_below(r, 3) == 0)
		l.flags = WEIR_COUNT_REJECTED;
	if (rnd_below(r, 50) == 0)
		l.limit = 0;
	return l;
}

struct weir_limit rnd_limit(struct rnd *r, uint32_t algorithm, uint32_t log_max)
{
	for (;;) {
		struct weir_limit l = draw(r, algorithm, log_max);

		if (weir_limit_check(&l, NULL) == 0)
			return l;
	}
}

struct weir_limit rnd_soft_limit(struct rnd *r, uint32_t algorithm, uint32_t log_max)
{
	for (;;) {
		struct weir_limit l = rnd_limit(r, algorithm, log_max);
		uint64_t above = l.capacity + rnd_below(r, l.capacity / 2 + 4);

		l.soft_ceiling = above < UINT32_MAX ? (uint32_t)above : UINT32_MAX;
		l.soft_for_ns = rnd_below(r, 2) ? rnd_magnitude(r, WEIR_SPAN_MAX_NS)
						: rnd_magnitude(r, 3 * l.period_ns);
		if (weir_limit_check(&l, NULL) == 0)
			return l;
	}
}

uint64_t rnd_start(struct rnd *r)
{
	switch (rnd_below(r, 4)) {
	case 0:
		return rnd_magnitude(r, TIME_MAX) - 1;
	case 1:
		return TIME_MAX - rnd_magnitude(r, TIME_MAX / 2);
	default:
		return T0 + rnd_below(r, DAY);
	}
}

/* Returns the time between two requests: often 0, often about the time of a token or a period,
 * sometimes any time. */
static uint64_t stride(struct rnd *r, const struct weir_limit *l)
{
	uint64_t token_ns = l->limit ? l->period_ns / l->limit : l->period_ns;

	switch (rnd_below(r, 8)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return token_ns + rnd_below(r, 3) - 1 + (token_ns == 0);
	case 3:
		return rnd_below(r, token_ns + 1);
	case 4:
		return rnd_below(r, l->period_ns + 2);
	case 5:
		return rnd_below(r, l->period_ns / 4 + 2);
	case 6:
		return l->period_ns - 1 + rnd_below(r, 3);
	default:
		return rnd_magnitude(r, rnd_below(r, 8) ? 3 * l->period_ns : WEIR_SPAN_MAX_NS);
	}
}

/* Returns how far a request is behind: within the allowed skew, around that bound, or so far that
 * the clock stepped back. */
static uint64_t stride_back(struct rnd *r, const struct weir_limit *l)
{
	switch (rnd_below(r, 8)) {
	case 0:
		return SECOND - 1 + rnd_below(r, 3);
	case 1:
	case 2:
		return rnd_below(r, SECOND);
	case 3:
		return rnd_magnitude(r, 2 * SECOND);
	default:
		return stride(r, l);
	}
}

uint64_t rnd_next(struct rnd *r, const struct weir_limit *l, uint64_t now_ns, int back_percent)
{
	bool back = rnd_below(r, 100) < (uint64_t)back_percent;
	uint64_t by = back ? stride_back(r, l) : stride(r, l);

	if (back)
		return by < now_ns ? now_ns - by : 0;
	return by < TIME_MAX - now_ns ? now_ns + by : now_ns;
}

int64_t rnd_cost(struct rnd *r, const struct weir_limit *l)
{
	static const int64_t edges[] = {
		INT64_MAX,           INT64_MIN, INT64_MIN + 1, UINT32_MAX, (int64_t)UINT32_MAX + 1,
		-(int64_t)UINT32_MAX};

	switch (rnd_below(r, 16)) {
	case 0:
		return 0;
	case 1:
		return -(int64_t)rnd_magnitude(r, (uint64_t)l->capacity + 1);
	case 2:
		return (int64_t)rnd_below(r, (uint64_t)l->capacity + 1);
	case 3:
		return l->capacity;
	case 4:
		return (int64_t)l->ceiling + (int64_t)rnd_below(r, 2);
	case 5:
		return rnd_below(r, 4) ? 1 : edges[rnd_below(r, sizeof edges / sizeof *edges)];
	case 6:
	case 7:
		return (int64_t)rnd_magnitude(r, (uint64_t)l->capacity / 3 + 1);
	default:
		return 1;
	}
}
