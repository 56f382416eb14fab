/* The models of oracle.h. */
#include "algo/oracle.h"

#include <assert.h>
#include <string.h>

#define FAR (1ull << 63)

void oracle_init(struct oracle *o, const struct weir_limit *l)
{
	memset(o, 0, sizeof *o);
	o->l = l;
	o->level = (__int128)l->capacity * l->period_ns;
}

/* Token bucket: each ns adds `limit` units of 1/period of a token; units that do not fit are
 * lost. */
static __int128 level_at(const struct oracle *o, uint64_t now_ns)
{
	__int128 full = (__int128)o->l->capacity * o->l->period_ns;
	__int128 level = o->level + ((__int128)now_ns - o->last_ns) * o->l->limit;

	return level > full ? full : level;
}

/* Leaky bucket: returns the time at which a request that comes now leaves, in units of 1/limit
 * ns. */
static __int128 departure(const struct oracle *o, uint64_t now_ns)
{
	__int128 now = (__int128)now_ns * o->l->limit;

	return o->free_at > now ? o->free_at : now;
}

/* Whether n more positions fit: they are one interval apart from the departure on. The last must
 * leave within queue_size intervals from now, and the first within max_wait. */
static bool queue_fits(const struct oracle *o, uint64_t n, uint64_t now_ns)
{
	__int128 now = (__int128)now_ns * o->l->limit;
	__int128 first = departure(o, now_ns);
	__int128 last = first + (__int128)(n - 1) * o->l->period_ns;

	if (o->l->max_wait_ns && first - now > (__int128)o->l->max_wait_ns * o->l->limit)
		return false;
	return last - now <= (__int128)o->l->queue_size * o->l->period_ns;
}

/* Returns the number of a window. Numbers start at 1, so that the first window has a previous
 * window too. */
static uint64_t window_of(const struct oracle *o, uint64_t now_ns)
{
	return now_ns / o->l->period_ns + 1;
}

/* Returns the time at which the request is counted. */
static uint64_t as_of(const struct oracle *o, uint64_t now_ns)
{
	uint64_t own_ns = 0;

	if (o->l->algorithm == WEIR_SLIDING_LOG)
		own_ns = o->latest_ns;
	else if (o->windows)
		own_ns = (o->latest - 1) * o->l->period_ns;
	return own_ns > now_ns && own_ns - now_ns <= ORACLE_LATE_NS ? own_ns : now_ns;
}

static uint64_t *window_at(struct oracle *o, uint64_t number)
{
	for (int i = 0; i < o->windows; i++)
		if (o->window[i].number == number)
			return &o->window[i].count;
	assert(o->windows < ORACLE_WINDOWS);
	if (number > o->latest)
		o->latest = number;
	o->window[o->windows].number = number;
	o->window[o->windows].count = 0;
	return &o->window[o->windows++].count;
}

static uint64_t counted(const struct oracle *o, uint64_t number)
{
	if (number > o->latest)
		return 0;
	for (int i = o->windows; i-- > 0;)
		if (o->window[i].number == number)
			return o->window[i].count;
	return 0;
}

/* Counter: returns the estimate in units of 1/period of a request. */
static __int128 estimate(const struct oracle *o, uint64_t now_ns)
{
	uint64_t number = window_of(o, now_ns);
	uint64_t into_ns = now_ns % o->l->period_ns;
	uint64_t before = counted(o, number - 1);

	return (__int128)counted(o, number) * o->l->period_ns +
	       (__int128)before * (o->l->period_ns - into_ns);
}

static uint64_t live(const struct oracle *o, uint64_t now_ns)
{
	uint64_t n = 0;

	for (int i = 0; i < o->stamps; i++)
		n += now_ns - o->stamp[i] < o->l->period_ns;
	return n;
}

bool oracle_fits(const struct oracle *o, uint32_t ceiling, uint64_t n, uint64_t now_ns)
{
	__int128 period_ns = o->l->period_ns;

	if (o->l->limit == 0)
		return false;
	now_ns = as_of(o, now_ns);
	switch (o->l->algorithm) {
	case WEIR_TOKEN_BUCKET: /* under the ceiling the level may be below 0 */
		return level_at(o, now_ns) + (ceiling - o->l->capacity) * period_ns >=
		       n * period_ns;
	case WEIR_LEAKY_BUCKET:
		return queue_fits(o, n, now_ns);
	case WEIR_FIXED_WINDOW:
		return counted(o, window_of(o, now_ns)) + n <= ceiling;
	case WEIR_SLIDING_COUNTER: /* a fraction of a request does not count */
		return estimate(o, now_ns) < (ceiling - (__int128)n + 1) * period_ns;
	default:
		return live(o, now_ns) + n <= ceiling;
	}
}

bool oracle_fresh(const struct oracle *o, uint64_t now_ns)
{
	now_ns = as_of(o, now_ns);
	switch (o->l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		return level_at(o, now_ns) == (__int128)o->l->capacity * o->l->period_ns;
	case WEIR_LEAKY_BUCKET:
		return o->free_at <= (__int128)now_ns * o->l->limit;
	case WEIR_FIXED_WINDOW:
		return counted(o, window_of(o, now_ns)) == 0;
	case WEIR_SLIDING_COUNTER:
		return estimate(o, now_ns) < o->l->period_ns;
	default:
		return live(o, now_ns) == 0;
	}
}

static void keep_live(struct oracle *o, uint64_t now_ns)
{
	int count = 0;

	for (int i = 0; i < o->stamps; i++)
		if (now_ns - o->stamp[i] < o->l->period_ns)
			o->stamp[count++] = o->stamp[i];
	o->stamps = count;
}

/* Only the newest l->ceiling entries can matter, so older entries are not stored. */
static void log_take(struct oracle *o, uint64_t n, uint64_t now_ns)
{
	int most = (int)o->l->ceiling;
	int added = n < (uint64_t)most ? (int)n : most;

	if (added == 0)
		return;
	o->latest_ns = now_ns;
	keep_live(o, now_ns);
	for (int i = 0; i < added; i++) {
		assert(o->stamps < ORACLE_STAMPS);
		o->stamp[o->stamps++] = now_ns;
	}
	if (o->stamps > most) {
		memmove(o->stamp, o->stamp + (o->stamps - most), (size_t)most * sizeof *o->stamp);
		o->stamps = most;
	}
}

static void count(struct oracle *o, uint64_t n, uint64_t now_ns)
{
	uint64_t *here = window_at(o, window_of(o, now_ns));

	*here = *here + n < UINT32_MAX ? *here + n : UINT32_MAX;
}

static void changed_at(struct oracle *o, uint64_t now_ns)
{
	o->last_ns = now_ns;
	if (now_ns > o->latest_ns)
		o->latest_ns = now_ns;
}

void oracle_take(struct oracle *o, uint64_t n, uint64_t now_ns)
{
	now_ns = as_of(o, now_ns);
	switch (o->l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		o->level = level_at(o, now_ns) - (__int128)n * o->l->period_ns;
		changed_at(o, now_ns);
		break;
	case WEIR_LEAKY_BUCKET:
		o->free_at = departure(o, now_ns) + (__int128)n * o->l->period_ns;
		changed_at(o, now_ns);
		break;
	case WEIR_FIXED_WINDOW:
	case WEIR_SLIDING_COUNTER:
		count(o, n, now_ns);
		break;
	default:
		log_take(o, n, now_ns);
	}
}

static uint64_t uncount(struct oracle *o, uint64_t number, uint64_t n)
{
	uint64_t there = counted(o, number);
	uint64_t given = n < there ? n : there;

	if (given)
		*window_at(o, number) -= given;
	return given;
}

static void counter_give(struct oracle *o, uint64_t n, uint64_t now_ns)
{
	uint64_t number = window_of(o, now_ns);
	uint64_t given = uncount(o, number, n);

	given += uncount(o, number - 1, n - given);
	if (given)
		window_at(o, number);
}

void oracle_give(struct oracle *o, uint64_t n, uint64_t now_ns)
{
	__int128 given = (__int128)n * o->l->period_ns;

	if (oracle_fresh(o, now_ns) && o->l->algorithm != WEIR_SLIDING_COUNTER)
		return;
	now_ns = as_of(o, now_ns);
	switch (o->l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		o->level = level_at(o, now_ns) + given;
		changed_at(o, now_ns);
		o->level = level_at(o, now_ns);
		break;
	case WEIR_LEAKY_BUCKET:
		o->free_at -= given;
		o->free_at = departure(o, now_ns);
		changed_at(o, now_ns);
		break;
	case WEIR_FIXED_WINDOW:
		uncount(o, window_of(o, now_ns), n);
		break;
	case WEIR_SLIDING_COUNTER:
		counter_give(o, n, now_ns);
		break;
	default:
		keep_live(o, now_ns);
		o->stamps -= n < (uint64_t)o->stamps ? (int)n : o->stamps;
	}
}

static void carry_windows(struct oracle *o, uint64_t number)
{
	if (o->latest <= number)
		return;

	uint64_t here = counted(o, o->latest);
	uint64_t before = counted(o, o->latest - 1);

	o->windows = 0;
	o->latest = 0;
	*window_at(o, number) = here;
	if (o->l->algorithm == WEIR_SLIDING_COUNTER)
		*window_at(o, number - 1) = before;
}

void oracle_carry(struct oracle *o, uint64_t now_ns)
{
	now_ns = as_of(o, now_ns);
	for (int i = 0; i < o->stamps; i++)
		if (o->stamp[i] > now_ns)
			o->stamp[i] = now_ns;
	if (o->l->algorithm == WEIR_SLIDING_LOG && o->latest_ns > now_ns)
		o->latest_ns = now_ns;
	carry_windows(o, window_of(o, now_ns));
}

uint32_t oracle_remaining(const struct oracle *o, uint64_t now_ns)
{
	uint32_t low = 0; /* fits */
	uint64_t high = (uint64_t)o->l->capacity + 1;

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (oracle_fits(o, o->l->capacity, middle, now_ns))
			low = (uint32_t)middle;
		else
			high = middle;
	}
	return low;
}

uint64_t oracle_retry_after(const struct oracle *o, uint32_t ceiling, uint64_t n, uint64_t now_ns)
{
	uint64_t low = 0; /* at this time the request does not fit */
	uint64_t high = FAR;

	if (!oracle_fits(o, ceiling, n, now_ns + FAR))
		return WEIR_NEVER;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (oracle_fits(o, ceiling, n, now_ns + middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

uint64_t oracle_reset_after(const struct oracle *o, uint64_t now_ns)
{
	uint64_t low = 0;
	uint64_t high = FAR;

	if (oracle_fresh(o, now_ns) || !oracle_fresh(o, now_ns + FAR))
		return 0;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (oracle_fresh(o, now_ns + middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

uint64_t oracle_delay(const struct oracle *o, uint64_t now_ns)
{
	uint64_t low = 0;
	uint64_t high = FAR;

	if (o->l->algorithm != WEIR_LEAKY_BUCKET || o->free_at <= (__int128)now_ns * o->l->limit)
		return 0;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if ((__int128)(now_ns + middle) * o->l->limit >= o->free_at)
			high = middle;
		else
			low = middle;
	}
	return high;
}
