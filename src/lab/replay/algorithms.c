/* Compares the algorithms on the limits of a replay. Called by replay.c for each limit that applies
 * to a request. */
#include "lab/replay/algorithms.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define FIRST_SLOTS 1024u
#define FIRST_STAMPS 2u
#define MALLOC_BYTES 16u /* about what malloc adds to an allocation */
/* A limit with so few keys is not sampled: too much would depend on the choice of the keys. */
#define FEW_KEYS 16u

/* An admitted request in an exact window. */
struct stamp {
	uint64_t time_ns;
	uint64_t cost;
};

/* The requests of a key that an exact window of one period counts: a ring, oldest first. */
struct exact_window {
	struct stamp *stamps;
	uint32_t first, count, cap; /* cap is 0 or a power of two */
	uint64_t used;              /* sum of the costs */
};

/* The states of one key under one limit. */
struct key_state {
	uint64_t hash;
	uint64_t fresh_ns; /* when every algorithm will have forgotten the key */
	struct weir_state states[WR_LAB_STEPPED];
	struct exact_window exact;
	struct key_state *next; /* in the chain of its slot */
	uint32_t limit;
};

struct key_slot {
	struct key_state *first;
};

struct wr_lab_algorithms {
	struct wr_lab_algorithms_limit *limits;
	uint32_t *key_counts; /* number of states of each limit */
	size_t limit_count;
	struct key_slot *slots; /* a hash table of chains */
	uint64_t mask;          /* number of slots minus 1 */
	uint64_t count;
	size_t bytes, max_bytes;
};

/* ---- the exact window ---- */

static struct stamp *stamp_at(const struct exact_window *window, uint32_t at)
{
	return &window->stamps[(window->first + at) & (window->cap - 1)];
}

static void drop_oldest(struct exact_window *window)
{
	window->used -= stamp_at(window, 0)->cost;
	window->first = (window->first + 1) & (window->cap - 1);
	window->count--;
}

/* Adds a request. Returns the number of bytes that the window has grown by. Without memory the
 * request is left out. */
static size_t add_stamp(struct exact_window *window, uint64_t cost, uint64_t now_ns)
{
	size_t grown = 0;

	if (window->count == window->cap) {
		uint32_t cap = window->cap ? 2 * window->cap : FIRST_STAMPS;
		struct stamp *stamps = malloc(cap * sizeof *stamps);

		if (!stamps)
			return 0;
		for (uint32_t i = 0; i < window->count; i++)
			stamps[i] = *stamp_at(window, i);
		grown = (cap - window->cap) * sizeof *stamps + (window->cap ? 0 : MALLOC_BYTES);
		free(window->stamps);
		*window = (struct exact_window){stamps, 0, window->count, cap, window->used};
	}
	*stamp_at(window, window->count) = (struct stamp){now_ns, cost};
	window->count++;
	window->used += cost;
	return grown;
}

/* Decides a request: it is admitted if the requests of the last period and this one together do not
 * exceed the limit. A request that is exactly one period old does not count any more. */
static bool take_exactly(struct exact_window *window, const struct weir_limit *limit, int64_t cost,
			 uint64_t now_ns, size_t *grown)
{
	uint64_t units = (uint64_t)cost;
	bool admitted;

	while (window->count && stamp_at(window, 0)->time_ns + limit->period_ns <= now_ns)
		drop_oldest(window);
	admitted = units == 0 ? window->used < limit->limit
			      : units <= limit->limit && window->used <= limit->limit - units;
	if (units && (admitted || limit->flags & WEIR_COUNT_REJECTED))
		*grown += add_stamp(window, units, now_ns);
	/* With WEIR_COUNT_REJECTED, more requests than the limit are counted. The oldest of them
	 * have no effect while newer ones fill the window. */
	while (window->count && window->used - stamp_at(window, 0)->cost >= limit->limit)
		drop_oldest(window);
	return admitted;
}

/* ---- the limits ---- */

struct wr_lab_algorithms *wr_lab_algorithms_new(size_t count, size_t max_bytes)
{
	struct wr_lab_algorithms *all = calloc(1, sizeof *all);

	if (!all)
		return NULL;
	all->limits = calloc(count + 1, sizeof *all->limits);
	all->key_counts = calloc(count + 1, sizeof *all->key_counts);
	all->slots = calloc(FIRST_SLOTS, sizeof *all->slots);
	all->mask = FIRST_SLOTS - 1;
	all->limit_count = count;
	all->max_bytes = max_bytes;
	if (all->limits && all->key_counts && all->slots)
		return all;
	wr_lab_algorithms_free(all);
	return NULL;
}

static size_t state_bytes(const struct key_state *state)
{
	size_t ring = state->exact.cap * sizeof *state->exact.stamps;

	return sizeof *state + MALLOC_BYTES + ring + (ring ? MALLOC_BYTES : 0);
}

void wr_lab_algorithms_free(struct wr_lab_algorithms *all)
{
	if (!all)
		return;
	for (uint64_t i = 0; all->slots && i <= all->mask; i++)
		for (struct key_state *state = all->slots[i].first, *next; state; state = next) {
			next = state->next;
			free(state->exact.stamps);
			free(state);
		}
	free(all->slots);
	free(all->limits);
	free(all->key_counts);
	free(all);
}

/* Makes the limit of one algorithm with the amount and period of the rule. A token bucket without a
 * burst in the rule, and a leaky bucket without a queue, have the amount as their capacity. */
static void make_limit(const struct weir_limit *rule, uint32_t algorithm, struct weir_limit *limit)
{
	bool same = rule->algorithm == algorithm;

	*limit = (struct weir_limit){.size = sizeof *limit,
				     .algorithm = algorithm,
				     .limit = rule->limit,
				     .period_ns = rule->period_ns};
	if (algorithm == WEIR_TOKEN_BUCKET)
		limit->burst = same ? rule->burst : rule->limit;
	else if (algorithm == WEIR_LEAKY_BUCKET)
		limit->queue_size = same ? rule->queue_size : rule->limit - (rule->limit > 0);
	else
		limit->flags = rule->flags & WEIR_COUNT_REJECTED;
	if (same)
		limit->max_wait_ns = rule->max_wait_ns;
}

void wr_lab_algorithms_set(struct wr_lab_algorithms *all, size_t at,
			   const struct wr_rules_limit *rule)
{
	struct wr_lab_algorithms_limit *compared = &all->limits[at];

	wr_assert(at < all->limit_count);
	if (rule->limit.algorithm == WEIR_CONCURRENT)
		compared->not_compared = "a limit on concurrent requests has no period";
	else if (rule->calendar)
		compared->not_compared = "a calendar window has no fixed period";
	else if (rule->unlimited)
		compared->not_compared = "the rule is unlimited";
	for (uint32_t i = 0; !compared->not_compared && i < WR_LAB_ALGORITHMS; i++) {
		struct weir_limit *limit = &compared->algorithms[i].limit;

		make_limit(&rule->limit, i + 1, limit);
		if (i < WR_LAB_STEPPED && weir_limit_check(limit, NULL) != 0)
			compared->not_compared = "not every algorithm allows this limit";
	}
}

const struct wr_lab_algorithms_limit *wr_lab_algorithms_result(const struct wr_lab_algorithms *all,
							       size_t at)
{
	wr_assert(at < all->limit_count);
	return &all->limits[at];
}

/* ---- the states of keys ---- */

/* Doubles the number of slots. Without memory, the chains become longer. */
static void grow(struct wr_lab_algorithms *all)
{
	uint64_t slots = 2 * (all->mask + 1);
	struct key_slot *larger = calloc(slots, sizeof *larger);

	if (!larger)
		return;
	for (uint64_t i = 0; i <= all->mask; i++)
		for (struct key_state *state = all->slots[i].first, *next; state; state = next) {
			next = state->next;
			state->next = larger[state->hash & (slots - 1)].first;
			larger[state->hash & (slots - 1)].first = state;
		}
	free(all->slots);
	all->slots = larger;
	all->mask = slots - 1;
	all->bytes += slots / 2 * sizeof *larger;
}

static bool is_sampled(const struct wr_lab_algorithms_limit *limit, uint64_t hash)
{
	return limit->level == 0 || hash >> (64 - limit->level) == 0;
}

static bool is_needed(const struct wr_lab_algorithms *all, const struct key_state *state,
		      uint64_t now_ns)
{
	const struct wr_lab_algorithms_limit *limit = &all->limits[state->limit];

	return state->fresh_ns > now_ns && is_sampled(limit, state->hash) && !limit->not_compared;
}

static void forget(struct wr_lab_algorithms *all, struct key_state *state)
{
	size_t bytes = state_bytes(state);

	all->bytes -= bytes;
	all->limits[state->limit].bytes -= bytes;
	all->key_counts[state->limit]--;
	all->count--;
	free(state->exact.stamps);
	free(state);
}

/* Frees the states that are not needed any more. */
static void sweep(struct wr_lab_algorithms *all, uint64_t now_ns)
{
	for (uint64_t i = 0; i <= all->mask; i++)
		for (struct key_state **at = &all->slots[i].first; *at;) {
			struct key_state *state = *at;

			if (is_needed(all, state, now_ns)) {
				at = &state->next;
				continue;
			}
			*at = state->next;
			forget(all, state);
		}
}

/* Frees memory: first the states of forgotten keys, then half of the keys of the largest limit. */
static void make_room(struct wr_lab_algorithms *all, uint64_t now_ns)
{
	sweep(all, now_ns);
	while (all->bytes > all->max_bytes - all->max_bytes / 4) {
		size_t largest = 0;

		for (size_t i = 1; i < all->limit_count; i++)
			if (all->limits[i].bytes > all->limits[largest].bytes)
				largest = i;
		if (all->limits[largest].bytes == 0)
			break;
		if (all->key_counts[largest] <= FEW_KEYS)
			all->limits[largest].not_compared =
				"an exact window for its keys needs too much memory";
		else
			all->limits[largest].level++;
		sweep(all, now_ns);
	}
}

/* Returns the state of a key, or NULL if there is no memory. */
static struct key_state *find_state(struct wr_lab_algorithms *all, size_t at, uint64_t hash)
{
	struct key_state *state = all->slots[hash & all->mask].first;

	while (state && state->hash != hash)
		state = state->next;
	if (state)
		return state;
	if (all->count > all->mask)
		grow(all);
	state = calloc(1, sizeof *state);
	if (!state)
		return NULL;
	state->hash = hash;
	state->limit = (uint32_t)at;
	state->next = all->slots[hash & all->mask].first;
	all->slots[hash & all->mask].first = state;
	all->count++;
	all->key_counts[at]++;
	all->bytes += state_bytes(state);
	all->limits[at].bytes += state_bytes(state);
	return state;
}

/* ---- decisions ---- */

static void count_decision(struct wr_lab_algorithm *algorithm, bool admitted, bool exact,
			   uint64_t weight)
{
	if (admitted)
		algorithm->admitted += weight;
	else
		algorithm->refused += weight;
	if (admitted && !exact)
		algorithm->wrongly_admitted += weight;
	if (!admitted && exact)
		algorithm->wrongly_refused += weight;
}

static void decide(struct wr_lab_algorithms *all, struct key_state *state, int64_t cost,
		   uint64_t now_ns)
{
	struct wr_lab_algorithms_limit *compared = &all->limits[state->limit];
	struct wr_lab_algorithm *log = &compared->algorithms[WEIR_SLIDING_LOG - 1];
	uint64_t weight = (uint64_t)1 << compared->level, fresh_ns = now_ns + log->limit.period_ns;
	size_t grown = 0;
	bool exact = take_exactly(&state->exact, &log->limit, cost, now_ns, &grown);

	for (uint32_t i = 0; i < WR_LAB_STEPPED; i++) {
		struct wr_lab_algorithm *algorithm = &compared->algorithms[i];
		struct weir_decision decision;

		weir_step(&algorithm->limit, &state->states[i], NULL, cost, now_ns, &decision);
		count_decision(algorithm, decision.admitted, exact, weight);
		if (now_ns + decision.reset_after_ns > fresh_ns)
			fresh_ns = now_ns + decision.reset_after_ns;
	}
	count_decision(log, exact, exact, weight);
	compared->requests += weight;
	state->fresh_ns = fresh_ns;
	all->bytes += grown;
	compared->bytes += grown;
}

void wr_lab_algorithms_feed(struct wr_lab_algorithms *all, size_t at, uint64_t hash, int64_t cost,
			    uint64_t now_ns)
{
	struct wr_lab_algorithms_limit *limit = &all->limits[at];
	struct key_state *state;

	wr_assert(at < all->limit_count && cost >= 0);
	if (limit->not_compared || !is_sampled(limit, hash))
		return;
	state = find_state(all, at, hash);
	if (state)
		decide(all, state, cost, now_ns);
	if (all->bytes > all->max_bytes)
		make_room(all, now_ns);
}
