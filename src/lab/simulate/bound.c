/* Computes the documented bound on the overshoot of a run: see bound.h.
 *
 * With faults, the bound of an eventual limit has further terms. A node without exchanges continues
 * for three intervals, until it notices the fault, and then admits its share. The counts that a dead
 * node did not report are lost. Each loss of data in a Redis allows the limit once more, and in a
 * partition each region admits the limit. */
#include "lab/simulate/bound.h"

#include <stdlib.h>

#include "base/assert.h"
#include "lab/simulate/oracle.h"
#include "rules/rules.h"
#include "store/exchange.h"

#define MS 1000000ull
#define SILENCE_NS (1000 * MS) /* a connection without replies is closed after this time */
#define PAIRS_MAX (4u << 20)   /* most pairs of a client and a node */

/* An admission that is at most D old. */
struct recent {
	uint64_t at_ns;
	uint32_t pair, cost;
};

struct wr_lab_bounds {
	struct wr_lab_bounds_opts opts;
	uint64_t span_ns; /* D, and with faults the time until a node notices a fault */
	uint32_t losses;  /* how often a Redis loses data */
	uint32_t crashes; /* how often a node dies */
	/* How many further parts of the fleet count for themselves during a partition. */
	uint32_t islands;
	bool shares; /* a fault can stop the exchanges of nodes, which then admit their shares */
	bool skew;
	bool failed; /* no memory for recent admissions */
	uint64_t without_redis;
	/* Only for eventual limits. A pair is a client and a node: client * node_count + node. */
	uint32_t clients;        /* the first clients, for which there is memory */
	uint32_t *within, *most; /* units of each pair in the last span_ns, and their maximum */
	uint64_t *first_ns;      /* first admission of each client; UINT64_MAX: none yet */
	/* Token bucket: units of each client that were in use when further nodes began to admit the
	 * client. The bucket of such a node is full, so these units can be admitted again. */
	uint64_t *joined;
	struct recent *recent; /* a ring */
	size_t recent_first, recent_count, recent_cap;
};

/* ---- collecting ---- */

static void count_faults(struct wr_lab_bounds *bounds)
{
	const struct wr_lab_scenario *scenario = bounds->opts.scenario;

	for (uint32_t i = 0; i < scenario->fault_count; i++) {
		const struct wr_lab_fault *fault = &scenario->faults[i];
		uint32_t regions = (uint32_t)__builtin_popcount(fault->regions);

		switch (fault->kind) {
		case WR_LAB_REDIS_FLUSH:
			bounds->losses += scenario->shared_redis ? 1 : regions;
			break;
		case WR_LAB_REDIS_FAILOVER:
			if (fault->lag_ns)
				bounds->losses += scenario->shared_redis ? 1 : regions;
			break;
		case WR_LAB_NODE_CRASH:
			bounds->crashes += fault->node ? regions : bounds->opts.node_count;
			break;
		case WR_LAB_PARTITION:
			if (scenario->shared_redis)
				bounds->shares = true;
			else if (bounds->islands + 1 < scenario->region_count)
				bounds->islands++;
			break;
		case WR_LAB_REDIS_DOWN:
		case WR_LAB_REDIS_SLOW:
		case WR_LAB_LOSS:
			bounds->shares = true;
			break;
		case WR_LAB_CLOCK_SKEW:
			bounds->skew = true;
			break;
		default:
			break;
		}
	}
}

static bool has_faults(const struct wr_lab_scenario *scenario)
{
	return scenario->fault_count || scenario->loss_ppm;
}

static bool make_pairs(struct wr_lab_bounds *bounds)
{
	const struct wr_lab_bounds_opts *opts = &bounds->opts;
	uint32_t most = PAIRS_MAX / opts->node_count;
	size_t pairs;

	bounds->clients = opts->scenario->clients < most ? opts->scenario->clients : most;
	pairs = (size_t)bounds->clients * opts->node_count;
	bounds->within = calloc(pairs, sizeof *bounds->within);
	bounds->most = calloc(pairs, sizeof *bounds->most);
	bounds->joined = calloc(bounds->clients, sizeof *bounds->joined);
	bounds->first_ns = malloc(bounds->clients * sizeof *bounds->first_ns);
	if (!bounds->within || !bounds->most || !bounds->joined || !bounds->first_ns)
		return false;
	for (uint32_t i = 0; i < bounds->clients; i++)
		bounds->first_ns[i] = UINT64_MAX;
	return true;
}

struct wr_lab_bounds *wr_lab_bounds_new(const struct wr_lab_bounds_opts *opts)
{
	struct wr_lab_bounds *bounds = calloc(1, sizeof *bounds);

	if (!bounds)
		return NULL;
	bounds->opts = *opts;
	bounds->span_ns = wr_lab_bound_delay_ns(opts);
	if (has_faults(opts->scenario))
		bounds->span_ns += WR_SYNC_STALE * wr_lab_bound_turn_ns(opts) +
				   2 * opts->scenario->timeout_ns + SILENCE_NS;
	bounds->shares = opts->scenario->loss_ppm > 0;
	count_faults(bounds);
	if (opts->mode != WR_EVENTUAL || make_pairs(bounds))
		return bounds;
	wr_lab_bounds_free(bounds);
	return NULL;
}

void wr_lab_bounds_free(struct wr_lab_bounds *bounds)
{
	if (!bounds)
		return;
	free(bounds->within);
	free(bounds->most);
	free(bounds->joined);
	free(bounds->first_ns);
	free(bounds->recent);
	free(bounds);
}

static bool add_recent(struct wr_lab_bounds *bounds, struct recent one)
{
	if (bounds->recent_count == bounds->recent_cap) {
		size_t cap = bounds->recent_cap ? 2 * bounds->recent_cap : 4096;
		struct recent *ring = malloc(cap * sizeof *ring);

		if (!ring)
			return false;
		for (size_t i = 0; i < bounds->recent_count; i++)
			ring[i] = bounds->recent[(bounds->recent_first + i) &
						 (bounds->recent_cap - 1)];
		free(bounds->recent);
		bounds->recent = ring;
		bounds->recent_first = 0;
		bounds->recent_cap = cap;
	}
	bounds->recent[(bounds->recent_first + bounds->recent_count++) & (bounds->recent_cap - 1)] =
		one;
	return true;
}

static void drop_old(struct wr_lab_bounds *bounds, uint64_t now_ns)
{
	while (bounds->recent_count) {
		const struct recent *oldest = &bounds->recent[bounds->recent_first];

		if (oldest->at_ns + bounds->span_ns >= now_ns)
			return;
		bounds->within[oldest->pair] -= oldest->cost;
		bounds->recent_first = (bounds->recent_first + 1) & (bounds->recent_cap - 1);
		bounds->recent_count--;
	}
}

bool wr_lab_bounds_is_active(struct wr_lab_bounds *bounds, uint32_t node, uint32_t client,
			     uint64_t now_ns)
{
	if (client >= bounds->clients)
		return false;
	drop_old(bounds, now_ns);
	return bounds->within[client * bounds->opts.node_count + node] > 0;
}

void wr_lab_bounds_note(struct wr_lab_bounds *bounds, const struct wr_sim_fleet_verdict *verdict,
			struct wr_lab_oracle *oracle)
{
	uint32_t client = verdict->key, pair;
	uint64_t at_ns = verdict->counted_ns;

	bounds->without_redis += verdict->decider == WR_SIM_FLEET_FAILURE;
	if (!verdict->admitted || client >= bounds->clients || bounds->failed)
		return;
	pair = client * bounds->opts.node_count + verdict->node;
	if (bounds->first_ns[client] == UINT64_MAX)
		bounds->first_ns[client] = at_ns;
	if (!bounds->most[pair] && bounds->opts.scenario->algorithm == WEIR_TOKEN_BUCKET)
		bounds->joined[client] += wr_lab_oracle_used(oracle, client, at_ns);
	drop_old(bounds, at_ns);
	bounds->failed = !add_recent(bounds, (struct recent){at_ns, pair, verdict->cost});
	bounds->within[pair] += verdict->cost;
	if (bounds->within[pair] > bounds->most[pair])
		bounds->most[pair] = bounds->within[pair];
}

/* ---- comparing ---- */

static uint64_t share_of(const struct wr_lab_bounds *bounds, uint64_t capacity)
{
	uint64_t share = capacity / bounds->opts.node_count;

	return share ? share : 1;
}

/* Returns the units beyond the limit that are allowed for a strict or leased limit. */
static uint64_t allowed_by_redis(const struct wr_lab_bounds *bounds, uint64_t capacity)
{
	uint64_t allowed = (bounds->opts.server_count - 1 + bounds->losses) * capacity;

	if (bounds->without_redis && bounds->opts.scenario->on_store_failure == WR_FAIL_LOCAL)
		allowed += bounds->opts.node_count * share_of(bounds, capacity);
	return allowed;
}

static uint64_t allowed_eventually(const struct wr_lab_bounds *bounds, uint64_t capacity,
				   uint32_t client)
{
	const struct wr_lab_bounds_opts *opts = &bounds->opts;
	const uint32_t *most = &bounds->most[(size_t)client * opts->node_count];
	uint64_t unseen = 0, least = UINT64_MAX, cap, allowed;

	for (uint32_t i = 0; i < opts->node_count; i++) {
		unseen += most[i];
		least = most[i] < least ? most[i] : least;
	}
	cap = (opts->node_count - 1 + bounds->losses + bounds->crashes) * capacity;
	allowed = unseen - least;
	allowed += bounds->joined[client];
	if (has_faults(opts->scenario))
		allowed += least + bounds->losses * capacity + bounds->crashes * unseen;
	if (bounds->shares)
		allowed += opts->node_count * share_of(bounds, capacity);
	allowed += bounds->islands * (capacity + allowed);
	return allowed < cap ? allowed : cap;
}

/* A sliding window counter rounds its estimate down to whole units. If several tables or servers
 * count, each of them rounds. Returns by how many units the sum can differ. */
static uint64_t rounding(const struct wr_lab_bounds *bounds)
{
	if (bounds->opts.scenario->algorithm != WEIR_SLIDING_COUNTER)
		return 0;
	if (bounds->opts.mode == WR_LOCAL || bounds->opts.mode == WR_EVENTUAL)
		return bounds->opts.node_count - 1;
	return bounds->opts.server_count - 1 + bounds->losses;
}

static uint64_t allowed_for(const struct wr_lab_bounds *bounds, uint32_t client)
{
	uint64_t capacity = wr_lab_scenario_capacity(bounds->opts.scenario);

	switch (bounds->opts.mode) {
	case WR_LOCAL:
		return (bounds->opts.node_count - 1 + bounds->crashes) * capacity +
		       rounding(bounds);
	case WR_EVENTUAL:
		return allowed_eventually(bounds, capacity, client) + rounding(bounds);
	default:
		return allowed_by_redis(bounds, capacity) + rounding(bounds);
	}
}

static bool is_bucket(const struct wr_lab_bounds *bounds)
{
	return bounds->opts.scenario->algorithm == WEIR_TOKEN_BUCKET ||
	       bounds->opts.scenario->algorithm == WEIR_LEAKY_BUCKET;
}

/* Returns whether several parts of the fleet count for longer without knowing of each other. */
static bool counts_apart(const struct wr_lab_bounds *bounds)
{
	switch (bounds->opts.mode) {
	case WR_LOCAL:
		return bounds->opts.node_count > 1;
	case WR_EVENTUAL:
		return bounds->islands > 0;
	default:
		return bounds->opts.server_count > 1;
	}
}

/* Returns why there is no bound, or NULL if there is one. */
static const char *why_none(const struct wr_lab_bounds *bounds)
{
	/* Several buckets also refill several times as fast, so their excess grows with time. */
	if (is_bucket(bounds) && counts_apart(bounds))
		return "several buckets together also refill faster, so the excess grows with time";
	if (bounds->skew && (bounds->opts.mode == WR_LOCAL || bounds->opts.mode == WR_EVENTUAL))
		return "a node whose clock is wrong counts in another window";
	if (bounds->opts.mode != WR_EVENTUAL && bounds->opts.mode != WR_LOCAL &&
	    bounds->without_redis && bounds->opts.scenario->on_store_failure == WR_FAIL_ALLOW)
		return "`on_store_failure: allow` admits every request without Redis";
	if (bounds->failed)
		return "there was no memory to compute it";
	return NULL;
}

static const char *terms_of(const struct wr_lab_bounds *bounds)
{
	const struct wr_lab_scenario *scenario = bounds->opts.scenario;

	if (bounds->opts.mode == WR_LOCAL)
		return "each node admits the limit";
	if (bounds->opts.mode == WR_EVENTUAL)
		return has_faults(scenario)
			       ? "what the nodes admit within D, the shares of nodes without "
				 "exchanges, and what the faults lose"
			       : "what the other nodes admit within D";
	if (bounds->without_redis && scenario->on_store_failure == WR_FAIL_LOCAL)
		return "the shares of nodes without Redis";
	if (bounds->losses)
		return "after each loss of data, the limit once more";
	return bounds->opts.server_count > 1 ? "each region admits the limit" : "none beyond it";
}

/* Returns whether the first client is to be shown rather than the second one. */
static bool is_worse(uint64_t allowed, uint64_t measured, uint64_t than_allowed,
		     uint64_t than_measured)
{
	int64_t above = (int64_t)(measured - allowed);
	int64_t than_above = (int64_t)(than_measured - than_allowed);

	return above > 0 || than_above > 0 ? above > than_above : measured > than_measured;
}

void wr_lab_bounds_compare(const struct wr_lab_bounds *bounds, const struct wr_lab_oracle *oracle,
			   struct wr_lab_bound *bound)
{
	bool eventual = bounds->opts.mode == WR_EVENTUAL;
	uint32_t clients = eventual ? bounds->clients : bounds->opts.scenario->clients;

	*bound = (struct wr_lab_bound){.held = true, .reason = why_none(bounds)};
	bound->delay_ns = eventual ? wr_lab_bound_delay_ns(&bounds->opts) : 0;
	if (bound->reason)
		return;
	bound->exists = true;
	bound->reason = terms_of(bounds);
	if (clients < bounds->opts.scenario->clients)
		bound->clients_known = clients;
	for (uint32_t i = 0; i < clients; i++) {
		uint64_t measured = wr_lab_oracle_excess(oracle, i), allowed;

		if (i && !measured) /* most clients stay within the limit */
			continue;
		allowed = allowed_for(bounds, i);
		bound->held &= measured <= allowed;
		bound->allowed_most = allowed > bound->allowed_most ? allowed : bound->allowed_most;
		if (i == 0 || is_worse(allowed, measured, bound->allowed, bound->measured)) {
			bound->allowed = allowed;
			bound->measured = measured;
			bound->client = i;
		}
	}
}

void wr_lab_bound_merge(struct wr_lab_bound *into, const struct wr_lab_bound *from)
{
	bool held = into->held && from->held;
	uint64_t most =
		into->allowed_most > from->allowed_most ? into->allowed_most : from->allowed_most;

	wr_assert(into->reason && from->reason);
	if (into->exists && (!from->exists || (int64_t)(from->allowed - from->measured) <
						      (int64_t)(into->allowed - into->measured)))
		*into = *from;
	into->held = held;
	into->allowed_most = most;
}
