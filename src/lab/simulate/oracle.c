/* The exact limiter of oracle.h. Each algorithm has three functions: advance the state of a key to a
 * time, compute the units in use, and count units. */
#include "lab/simulate/oracle.h"

#include <stdlib.h>
#include <string.h>

#include <weir/algo.h>

#include "base/assert.h"

/* A unit of a bucket is `period` of these, so that exactly `limit` of them flow out per ns. */
typedef __int128 level_type;

struct entry {
	uint64_t at_ns;
	uint32_t cost;
};

/* The admissions of a key that are less than a period old, in the order of time. */
struct log {
	struct entry *entries; /* a ring */
	uint32_t first, count, cap;
	uint64_t sum;
};

/* The state of a key. All zero: the key was never used. */
union state {
	struct {
		uint64_t number;        /* index of the window */
		uint64_t count, before; /* units in this window and in the window before it */
	} window;
	struct {
		uint64_t last_ns;
		level_type level;
	} bucket;
	struct log log;
};

/* What the oracle knows of a key. */
struct key {
	union state fleet; /* the units that the fleet admitted */
	union state exact; /* the units that the exact limiter admitted */
	/* Units admitted by both in the period number `period`. */
	uint64_t period, fleet_units, exact_units;
	uint64_t excess;
};

struct wr_lab_oracle {
	struct wr_lab_oracle_opts opts;
	struct wr_lab_oracle_totals totals;
	bool failed;
	struct key keys[];
};

/* ---- windows ---- */

static void window_advance(union state *state, uint64_t number)
{
	if (number == state->window.number)
		return;
	state->window.before = number == state->window.number + 1 ? state->window.count : 0;
	state->window.count = 0;
	state->window.number = number;
}

/* Returns the estimate of a sliding window counter: the count of this window, and the part of the
 * previous count that is less than a period old. */
static uint64_t estimate(const struct wr_lab_oracle_opts *opts, const union state *state,
			 uint64_t at_ns)
{
	uint64_t start_ns = state->window.number * opts->period_ns;
	uint64_t passed_ns = at_ns > start_ns ? at_ns - start_ns : 0;
	uint64_t left_ns = passed_ns < opts->period_ns ? opts->period_ns - passed_ns : 0;

	return state->window.count +
	       (uint64_t)((unsigned __int128)state->window.before * left_ns / opts->period_ns);
}

/* ---- buckets ---- */

static level_type level_at(const struct wr_lab_oracle_opts *opts, const union state *state,
			   uint64_t at_ns)
{
	uint64_t passed_ns = at_ns > state->bucket.last_ns ? at_ns - state->bucket.last_ns : 0;
	level_type level = state->bucket.level - (level_type)opts->limit * passed_ns;

	return level > 0 ? level : 0;
}

static uint64_t units_of(const struct wr_lab_oracle_opts *opts, level_type level)
{
	return (uint64_t)((level + opts->period_ns - 1) / opts->period_ns);
}

/* ---- logs ---- */

static void log_expire(struct log *log, uint64_t period_ns, uint64_t at_ns)
{
	while (log->count && log->entries[log->first].at_ns + period_ns <= at_ns) {
		log->sum -= log->entries[log->first].cost;
		log->first = (log->first + 1) % log->cap;
		log->count--;
	}
}

static bool log_add(struct log *log, uint64_t at_ns, uint32_t cost)
{
	if (log->count == log->cap) {
		uint32_t cap = log->cap ? 2 * log->cap : 16;
		struct entry *entries = malloc(cap * sizeof *entries);

		if (!entries)
			return false;
		for (uint32_t i = 0; i < log->count; i++)
			entries[i] = log->entries[(log->first + i) % log->cap];
		free(log->entries);
		log->entries = entries;
		log->first = 0;
		log->cap = cap;
	}
	log->entries[(log->first + log->count++) % log->cap] = (struct entry){at_ns, cost};
	log->sum += cost;
	return true;
}

/* Returns the units of the log that are less than a period old at at_ns. at_ns is at most the slack
 * after the latest advance, so only a few entries are looked at. */
static uint64_t log_used(const struct log *log, uint64_t period_ns, uint64_t at_ns)
{
	uint64_t sum = log->sum;

	for (uint32_t i = 0; i < log->count; i++) {
		const struct entry *entry = &log->entries[(log->first + i) % log->cap];

		if (entry->at_ns + period_ns > at_ns)
			break;
		sum -= entry->cost;
	}
	return sum;
}

/* ---- all algorithms ---- */

/* Returns whether a request of this cost fits at at_ns. */
static bool fits(const struct wr_lab_oracle *oracle, const union state *state, uint32_t cost,
		 uint64_t at_ns)
{
	const struct wr_lab_oracle_opts *opts = &oracle->opts;

	switch (opts->algorithm) {
	case WEIR_FIXED_WINDOW:
		return state->window.count + cost <= opts->capacity;
	case WEIR_SLIDING_COUNTER:
		return estimate(opts, state, at_ns) + cost <= opts->capacity;
	case WEIR_SLIDING_LOG:
		return log_used(&state->log, opts->period_ns, at_ns) + cost <= opts->capacity;
	default:
		return level_at(opts, state, at_ns) + (level_type)cost * opts->period_ns <=
		       (level_type)opts->capacity * opts->period_ns;
	}
}

/* Counts units and returns how many units are in use afterwards. */
static uint64_t count(struct wr_lab_oracle *oracle, union state *state, uint32_t cost,
		      uint64_t at_ns)
{
	const struct wr_lab_oracle_opts *opts = &oracle->opts;

	switch (opts->algorithm) {
	case WEIR_FIXED_WINDOW:
		state->window.count += cost;
		return state->window.count;
	case WEIR_SLIDING_COUNTER:
		state->window.count += cost;
		return estimate(opts, state, at_ns + opts->slack_ns);
	case WEIR_SLIDING_LOG:
		oracle->failed |= !log_add(&state->log, at_ns, cost);
		return log_used(&state->log, opts->period_ns, at_ns + opts->slack_ns);
	default:
		state->bucket.level = level_at(opts, state, at_ns);
		state->bucket.level += (level_type)cost * opts->period_ns;
		state->bucket.last_ns = at_ns;
		return units_of(opts, level_at(opts, state, at_ns + opts->slack_ns));
	}
}

static void advance(const struct wr_lab_oracle *oracle, union state *state, uint64_t at_ns)
{
	const struct wr_lab_oracle_opts *opts = &oracle->opts;

	if (opts->algorithm == WEIR_FIXED_WINDOW || opts->algorithm == WEIR_SLIDING_COUNTER)
		window_advance(state, at_ns / opts->period_ns);
	else if (opts->algorithm == WEIR_SLIDING_LOG)
		log_expire(&state->log, opts->period_ns, at_ns);
}

/* Adds the difference of the key's period to the sums. */
static void close_period(struct wr_lab_oracle *oracle, struct key *key)
{
	if (key->fleet_units > key->exact_units)
		oracle->totals.beyond += key->fleet_units - key->exact_units;
	else
		oracle->totals.wrongly_refused += key->exact_units - key->fleet_units;
	oracle->totals.exact += key->exact_units;
	key->fleet_units = key->exact_units = 0;
}

void wr_lab_oracle_see(struct wr_lab_oracle *oracle, uint32_t key, uint32_t cost, uint64_t at_ns,
		       bool admitted)
{
	struct key *its = &oracle->keys[key];
	uint64_t period = at_ns / oracle->opts.period_ns, used;

	wr_assert(key < oracle->opts.keys);
	if (oracle->failed)
		return;
	if (period != its->period)
		close_period(oracle, its);
	its->period = period;
	advance(oracle, &its->exact, at_ns);
	if (fits(oracle, &its->exact, cost, at_ns)) {
		count(oracle, &its->exact, cost, at_ns);
		its->exact_units += cost;
	}
	if (!admitted)
		return;
	advance(oracle, &its->fleet, at_ns);
	used = count(oracle, &its->fleet, cost, at_ns);
	its->fleet_units += cost;
	if (used > oracle->opts.capacity && used - oracle->opts.capacity > its->excess)
		its->excess = used - oracle->opts.capacity;
}

void wr_lab_oracle_totals(struct wr_lab_oracle *oracle, struct wr_lab_oracle_totals *totals)
{
	for (uint32_t i = 0; i < oracle->opts.keys; i++)
		close_period(oracle, &oracle->keys[i]);
	*totals = oracle->totals;
}

uint64_t wr_lab_oracle_excess(const struct wr_lab_oracle *oracle, uint32_t key)
{
	wr_assert(key < oracle->opts.keys);
	return oracle->keys[key].excess;
}

uint64_t wr_lab_oracle_used(struct wr_lab_oracle *oracle, uint32_t key, uint64_t at_ns)
{
	union state *state = &oracle->keys[key].fleet;

	wr_assert(key < oracle->opts.keys);
	advance(oracle, state, at_ns);
	switch (oracle->opts.algorithm) {
	case WEIR_FIXED_WINDOW:
		return state->window.count;
	case WEIR_SLIDING_COUNTER:
		return estimate(&oracle->opts, state, at_ns);
	case WEIR_SLIDING_LOG:
		return log_used(&state->log, oracle->opts.period_ns, at_ns);
	default:
		return units_of(&oracle->opts, level_at(&oracle->opts, state, at_ns));
	}
}

bool wr_lab_oracle_failed(const struct wr_lab_oracle *oracle)
{
	return oracle->failed;
}

struct wr_lab_oracle *wr_lab_oracle_new(const struct wr_lab_oracle_opts *opts)
{
	struct wr_lab_oracle *oracle =
		calloc(1, sizeof *oracle + opts->keys * sizeof *oracle->keys);

	wr_assert(opts->keys && opts->period_ns && opts->algorithm != WEIR_CONCURRENT);
	if (oracle)
		oracle->opts = *opts;
	return oracle;
}

void wr_lab_oracle_free(struct wr_lab_oracle *oracle)
{
	if (!oracle)
		return;
	for (uint32_t i = 0; oracle->opts.algorithm == WEIR_SLIDING_LOG && i < oracle->opts.keys;
	     i++) {
		free(oracle->keys[i].fleet.log.entries);
		free(oracle->keys[i].exact.log.entries);
	}
	free(oracle);
}
