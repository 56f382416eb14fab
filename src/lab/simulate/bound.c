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
#include "lab/simulate/recent.h"
#include "rules/rules.h"
#include "store/exchange.h"

#define MS 1000000ull
#define SILENCE_NS (1000 * MS) /* a connection without replies is closed after this time */
#define PAIRS_MAX (4u << 20)   /* most pairs of a client and a node */

/* How long the bucket of a client was not full. */
struct busy {
	uint64_t since_ns;   /* when it was full the last time */
	uint64_t longest_ns; /* the longest time without a full bucket, up to an admission */
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
	uint64_t without_redis;
	/* Only for eventual limits. A pair is a client and a node: client * node_count + node. */
	uint32_t clients;           /* the first clients, for which there is memory */
	struct wr_lab_recent units; /* units that each pair admitted within span_ns */
	/* Only for token buckets. The bucket of a node is full when the node gets its first request
	 * of a client, and after a long pause the node counts only what other nodes take later. So
	 * the units that are in use at this time can be admitted again, until they have flowed in
	 * again: `joined` has these units of each client. last_ns is the latest admission of each
	 * pair plus 1, or 0. */
	struct wr_lab_recent joined;
	uint64_t *last_ns;
	uint64_t fill_ns;  /* time in which an empty bucket fills up */
	struct busy *busy; /* of each client */
};

/* ---- collecting ---- */

static void count_faults(struct wr_lab_bounds *bounds)
{
	const struct wr_lab_scenario *scenario = bounds->opts.scenario;

	for (uint32_t i = 0; i < scenario->fault_count; i++) {
		const struct wr_lab_fault *fault = &scenario->faults[i];
		uint32_t regions = (uint32_t)__builtin_popcount(fault->regions);

		if (fault->at_ns >= bounds->opts.end_ns)
			break;
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

static bool has_faults(const struct wr_lab_bounds_opts *opts)
{
	const struct wr_lab_scenario *scenario = opts->scenario;

	return scenario->loss_ppm ||
	       (scenario->fault_count && scenario->faults[0].at_ns < opts->end_ns);
}

static uint64_t fill_ns(const struct wr_lab_scenario *scenario)
{
	struct wr_store_exchange_name name = {.algorithm = scenario->algorithm,
					      .limit = scenario->limit,
					      .burst = scenario->burst,
					      .period_ns = scenario->period_ns};

	return wr_store_exchange_span_ns(&name);
}

static bool make_pairs(struct wr_lab_bounds *bounds)
{
	const struct wr_lab_bounds_opts *opts = &bounds->opts;
	uint32_t most = PAIRS_MAX / opts->node_count;
	size_t pairs;

	bounds->clients = opts->scenario->clients < most ? opts->scenario->clients : most;
	pairs = (size_t)bounds->clients * opts->node_count;
	if (!wr_lab_recent_init(&bounds->units, bounds->span_ns, pairs))
		return false;
	if (opts->scenario->algorithm != WEIR_TOKEN_BUCKET)
		return true;
	bounds->fill_ns = fill_ns(opts->scenario);
	bounds->last_ns = calloc(pairs, sizeof *bounds->last_ns);
	bounds->busy = calloc(bounds->clients, sizeof *bounds->busy);
	return bounds->last_ns && bounds->busy &&
	       wr_lab_recent_init(&bounds->joined, 2 * bounds->fill_ns, bounds->clients);
}

struct wr_lab_bounds *wr_lab_bounds_new(const struct wr_lab_bounds_opts *opts)
{
	struct wr_lab_bounds *bounds = calloc(1, sizeof *bounds);

	if (!bounds)
		return NULL;
	bounds->opts = *opts;
	bounds->span_ns = wr_lab_bound_delay_ns(opts);
	if (has_faults(opts))
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
	wr_lab_recent_free(&bounds->units);
	wr_lab_recent_free(&bounds->joined);
	free(bounds->last_ns);
	free(bounds->busy);
	free(bounds);
}

bool wr_lab_bounds_is_active(struct wr_lab_bounds *bounds, uint32_t node, uint32_t client,
			     uint64_t now_ns)
{
	if (client >= bounds->clients)
		return false;
	wr_lab_recent_advance(&bounds->units, now_ns);
	return bounds->units.within[client * bounds->opts.node_count + node] > 0;
}

/* Called before an admission of a token bucket, with the units that are in use now. Notes them if
 * the node has not admitted the client for a long time, or never. */
static void note_join(struct wr_lab_bounds *bounds, uint32_t client, uint32_t pair, uint64_t at_ns,
		      uint64_t used)
{
	uint64_t *last_ns = &bounds->last_ns[pair];

	if (*last_ns == 0 || at_ns + 1 - *last_ns >= bounds->fill_ns)
		wr_lab_recent_add(&bounds->joined, client,
				  used < UINT32_MAX ? (uint32_t)used : UINT32_MAX, at_ns);
	*last_ns = at_ns + 1;
}

static void note_busy(struct busy *busy, uint64_t at_ns, uint64_t used)
{
	if (used == 0)
		busy->since_ns = at_ns;
	if (at_ns - busy->since_ns > busy->longest_ns)
		busy->longest_ns = at_ns - busy->since_ns;
}

void wr_lab_bounds_note(struct wr_lab_bounds *bounds, const struct wr_sim_fleet_verdict *verdict,
			struct wr_lab_oracle *oracle)
{
	uint32_t client = verdict->key, pair;
	uint64_t used;

	bounds->without_redis += verdict->decider == WR_SIM_FLEET_FAILURE;
	if (!verdict->admitted || client >= bounds->clients)
		return;
	pair = client * bounds->opts.node_count + verdict->node;
	if (bounds->last_ns) {
		used = wr_lab_oracle_used(oracle, client, verdict->counted_ns);
		note_join(bounds, client, pair, verdict->counted_ns, used);
		note_busy(&bounds->busy[client], verdict->counted_ns, used);
	}
	wr_lab_recent_add(&bounds->units, pair, verdict->cost, verdict->counted_ns);
}

/* ---- comparing ---- */

static uint64_t share_of(const struct wr_lab_bounds *bounds, uint64_t capacity)
{
	uint64_t share = capacity / bounds->opts.node_count;

	return share ? share : 1;
}

/* Returns whether nodes decided requests by their shares because Redis was not available. */
static bool used_shares(const struct wr_lab_bounds *bounds)
{
	return bounds->without_redis && bounds->opts.scenario->on_store_failure == WR_FAIL_LOCAL;
}

/* Returns the units beyond the limit that are allowed for a strict or leased limit. */
static uint64_t allowed_by_redis(const struct wr_lab_bounds *bounds, uint64_t capacity)
{
	uint64_t allowed = (bounds->opts.server_count - 1 + bounds->losses) * capacity;

	if (used_shares(bounds))
		allowed += bounds->opts.node_count * share_of(bounds, capacity);
	return allowed;
}

/* Returns the units beyond a token bucket that are allowed even if the nodes learn nothing of each
 * other. Let the bucket of the client be full at s and not full from s to t. Then each node admits at
 * most C + r · (t - s) from s to t, where r is the rate, and a node that starts again with an empty
 * table C more. The units in use at t are the units admitted since s, minus r · (t - s). */
static uint64_t allowed_apart(const struct wr_lab_bounds *bounds, uint64_t capacity,
			      uint32_t client)
{
	const struct wr_lab_scenario *scenario = bounds->opts.scenario;
	uint32_t others = bounds->opts.node_count - 1;
	unsigned __int128 flow =
		(unsigned __int128)bounds->busy[client].longest_ns * scenario->limit * others;
	uint64_t refilled = (uint64_t)((flow + scenario->period_ns - 1) / scenario->period_ns);

	return (others + bounds->crashes) * capacity + refilled;
}

static uint64_t allowed_eventually(const struct wr_lab_bounds *bounds, uint64_t capacity,
				   uint32_t client)
{
	const struct wr_lab_bounds_opts *opts = &bounds->opts;
	const uint32_t *most = bounds->units.most + (size_t)client * opts->node_count;
	uint64_t unseen = 0, least = UINT64_MAX, cap, allowed;

	for (uint32_t i = 0; i < opts->node_count; i++) {
		unseen += most[i];
		least = most[i] < least ? most[i] : least;
	}
	cap = (opts->node_count - 1 + bounds->losses + bounds->crashes) * capacity;
	allowed = unseen - least;
	if (has_faults(opts))
		allowed += least + bounds->losses * capacity + bounds->crashes * unseen;
	if (bounds->shares)
		allowed += opts->node_count * share_of(bounds, capacity);
	allowed += bounds->islands * (capacity + allowed);
	if (bounds->joined.most) {
		/* A node that joins does not charge what other nodes admitted until its first
		 * reply, which takes up to D. Buckets also refill within D, so `cap` does not
		 * apply to them. */
		allowed += bounds->joined.most[client] + unseen - least;
		cap = allowed_apart(bounds, capacity, client);
	}
	return allowed < cap ? allowed : cap;
}

/* A sliding window counter rounds its estimate down to whole units. If several tables or servers
 * count, each of them rounds. Returns by how many units the sum can differ. */
static uint64_t rounding(const struct wr_lab_bounds *bounds)
{
	uint64_t shares;

	if (bounds->opts.scenario->algorithm != WEIR_SLIDING_COUNTER)
		return 0;
	if (bounds->opts.mode == WR_LOCAL || bounds->opts.mode == WR_EVENTUAL)
		return bounds->opts.node_count - 1;
	shares = used_shares(bounds) ? bounds->opts.node_count : 0;
	return bounds->opts.server_count - 1 + bounds->losses + shares;
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
	if (bounds->units.failed || bounds->joined.failed)
		return "there was no memory to compute it";
	return NULL;
}

static const char *terms_of(const struct wr_lab_bounds *bounds)
{
	if (bounds->opts.mode == WR_LOCAL)
		return "each node admits the limit";
	if (bounds->opts.mode == WR_EVENTUAL)
		return has_faults(&bounds->opts)
			       ? "what the nodes admit within D, the shares of nodes without "
				 "exchanges, and what the faults lose"
			       : "what the other nodes admit within D";
	if (used_shares(bounds))
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
	if (into->exists && (!from->exists || is_worse(from->allowed, from->measured, into->allowed,
						       into->measured)))
		*into = *from;
	into->held = held;
	into->allowed_most = most;
}
