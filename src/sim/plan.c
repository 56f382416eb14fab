/* Makes the plan of a run from a seed: its limits, traffic and faults. */
#include <string.h>

#include "sim/sim_inner.h"
#include "rules/rules.h"

#define MS 1000000ull

static const uint8_t consistencies[] = {WR_STRICT, WR_LEASE, WR_EVENTUAL};

/* The algorithms of the first limit. An eventual limit uses all but the last one, because it cannot
 * use the sliding log. */
static const uint8_t algorithms[] = {WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER, WEIR_TOKEN_BUCKET,
				     WEIR_SLIDING_LOG};

/* Picks the settings of an eventual limit. The period becomes at least 2.2 s, so a window is much
 * longer than the interval between exchanges, which is at most 500 ms. */
static void pick_exchanges(struct wr_sim_plan *plan, struct wr_rng *rng)
{
	if (plan->consistency != WR_EVENTUAL)
		return;
	plan->regions = (unsigned)wr_rng_between(rng, 1, 3);
	plan->period_ns += 2000 * MS;
	plan->sync_ns = wr_rng_scale(rng, 20, 500) * MS;
	plan->on_store_failure = WR_FAIL_LOCAL;
	plan->quiet_ns = 16000 * MS + 12 * plan->sync_ns;
}

/* Picks the kinds of faults of a run and returns them as a set of bits. One run in five has no
 * faults. The other runs have one to four kinds of faults. */
static unsigned pick_faults(struct wr_rng *rng, unsigned kinds)
{
	unsigned faults = 0;

	if (wr_rng_percent(rng, 20))
		return 0;
	for (uint64_t i = wr_rng_between(rng, 1, 4); i > 0; i--)
		faults |= 1u << wr_rng_below(rng, kinds);
	return faults;
}

/* Sets the number of requests and the limit. The number of requests is similar in all runs. The
 * limit admits 20 % to 120 % of the requests. */
static void pick_traffic(struct wr_sim_plan *plan, struct wr_rng *rng)
{
	bool frequent =
		plan->consistency != WR_STRICT; /* many requests, to test leases and exchanges */
	uint64_t turns = wr_rng_between(rng, 100, 300) * (frequent ? 4 : 1), total;

	plan->batch_max = (unsigned)wr_rng_scale(rng, 1, 8);
	plan->cost_max = wr_rng_percent(rng, 70) ? 1 : (unsigned)wr_rng_between(rng, 2, 5);
	plan->pairs_percent = wr_rng_percent(rng, 70) ? 0 : 20;
	/* With token buckets, a request with two keys makes the expected times inexact. So only
	 * pick_variant() adds such requests. */
	if (plan->algorithm == WEIR_TOKEN_BUCKET)
		plan->pairs_percent = 0;
	plan->length_ns = plan->period_ns * wr_rng_between(rng, 3, 5);
	plan->gap_ns = plan->length_ns * plan->nodes / turns;
	/* `total` is the cost of all requests of one key in a period. */
	total = turns * (1 + plan->batch_max) / 2 * (1 + plan->cost_max) / 2 * plan->period_ns /
		plan->length_ns / plan->keys;
	plan->limit = (uint32_t)(total * wr_rng_between(rng, 20, 120) / 100 + 1);
	plan->limit_after = (uint32_t)wr_rng_between(rng, 1, 2ul * plan->limit);
}

/* Adds settings that few rules have, each with a low probability. */
static void pick_variant(struct wr_sim_plan *plan, struct wr_rng *rng)
{
	bool bucket = plan->algorithm == WEIR_TOKEN_BUCKET;

	if (wr_rng_percent(rng, 15))
		plan->nodes = (unsigned)wr_rng_between(rng, 6, WR_SIM_NODES);
	if (wr_rng_percent(rng, 10))
		plan->on_store_failure = WR_FAIL_ALLOW;
	if (bucket && plan->keys > 1 && wr_rng_percent(rng, 20))
		plan->pairs_percent = 20;
	if (wr_rng_percent(rng, 20)) {
		plan->second_algorithm =
			wr_rng_percent(rng, 50) ? WEIR_FIXED_WINDOW : WEIR_SLIDING_LOG;
		plan->second_period_ns = plan->period_ns * wr_rng_between(rng, 1, 2) + 7 * MS;
		plan->second_limit = (uint32_t)wr_rng_between(rng, 1, 3ul * plan->limit);
	}
	switch (wr_rng_below(rng, 8)) {
	case 0:
		plan->soft_percent = 30;
		break;
	case 1:
		plan->count_rejected = !bucket;
		break;
	case 2:
		if (plan->consistency != WR_STRICT)
			break;
		plan->algorithm = WEIR_LEAKY_BUCKET;
		plan->queue_size = (uint32_t)wr_rng_between(rng, 1, plan->limit);
		plan->burst = plan->pairs_percent = 0;
		break;
	}
}

void wr_sim_plan_make(struct wr_sim_plan *plan, uint64_t seed, uint8_t consistency)
{
	struct wr_rng rng = {seed ^ 0x7765697273696d31u};

	*plan = (struct wr_sim_plan){.seed = seed};
	plan->consistency = consistencies[wr_rng_below(&rng, sizeof consistencies)];
	if (consistency != WR_SIM_ANY)
		plan->consistency = consistency;
	plan->algorithm = algorithms[wr_rng_below(&rng, plan->consistency == WR_EVENTUAL ? 3 : 4)];
	plan->on_store_failure = wr_rng_percent(&rng, 60) ? WR_FAIL_DENY : WR_FAIL_LOCAL;
	plan->period_ns = wr_rng_scale(&rng, 200, 20000) * MS;
	plan->regions = 1;
	plan->nodes = (unsigned)wr_rng_between(&rng, 1, 5);
	plan->keys = (unsigned)wr_rng_between(&rng, 1, plan->consistency == WR_STRICT ? 3 : 2);
	plan->delay_ns = wr_rng_scale(&rng, 50000, 20 * MS);
	plan->jitter_ns = wr_rng_scale(&rng, 10000, plan->delay_ns + 10000);
	plan->timeout_ns = wr_rng_scale(&rng, 20 * MS, 1000 * MS);
	plan->quiet_ns = 3000 * MS;
	pick_exchanges(plan, &rng);
	pick_traffic(plan, &rng);
	if (plan->algorithm == WEIR_TOKEN_BUCKET && wr_rng_percent(&rng, 50))
		plan->burst = (uint32_t)wr_rng_between(&rng, 1, 2ul * plan->limit);
	plan->faults = pick_faults(&rng, wr_sim_fault_kinds(plan));
	plan->fault_gap_ns = plan->length_ns / wr_rng_between(&rng, 2, 10);
	if (plan->consistency != WR_EVENTUAL)
		pick_variant(plan, &rng);
	/* A slow reply must arrive within a second, because a node closes a connection after a
	 * second without replies. */
	if (plan->faults >> WR_SIM_SLOW & 1 && plan->timeout_ns > 300 * MS)
		plan->timeout_ns = 300 * MS;
	/* Without faults, no request is allowed to time out, so the timeout is very long. */
	if (!plan->faults)
		plan->timeout_ns = 10000 * MS;
}

/* Makes the run last at least length_ms, with the same number of requests, and makes the quiet time
 * at its end last at least quiet_ms. */
static void extend_run(struct wr_sim_plan *plan, uint64_t length_ms, uint64_t quiet_ms)
{
	if (plan->length_ns < length_ms * MS) {
		plan->gap_ns = plan->gap_ns * length_ms / (plan->length_ns / MS);
		plan->length_ns = length_ms * MS;
	}
	if (plan->quiet_ns < quiet_ms * MS)
		plan->quiet_ns = quiet_ms * MS;
}

/* The clocks of all masters show the same time, because a counter can move to another master, which
 * then uses its own clock for the counter. WR_SIM_SPLIT is excluded here, because plans without a
 * cluster test this fault. */
void wr_sim_plan_cluster(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x636c757374657231u};

	wr_sim_plan_make(plan, seed, WR_SIM_ANY);
	plan->shards = (unsigned)wr_rng_between(&rng, 2, WR_SIM_SERVERS);
	plan->regions = 1;
	plan->faults &= ~(1u << WR_SIM_SKEW | 1u << WR_SIM_SPLIT | 1u << WR_SIM_REGION);
	if (wr_rng_percent(&rng, 40))
		plan->faults = 0;
	if (wr_rng_percent(&rng, 90))
		plan->faults |= 1u << WR_SIM_MOVE;
	if (plan->faults & ~(1u << WR_SIM_MOVE) && wr_rng_percent(&rng, 40))
		plan->faults |= 1u << WR_SIM_DOWN;
	plan->fault_gap_ns = plan->length_ns / wr_rng_between(&rng, 4, 20);
	if (!plan->second_limit && plan->consistency != WR_EVENTUAL && wr_rng_percent(&rng, 40)) {
		plan->second_algorithm = WEIR_FIXED_WINDOW;
		plan->second_period_ns = plan->period_ns + 7 * MS;
		plan->second_limit = (uint32_t)wr_rng_between(&rng, 1, 3ul * plan->limit);
	}
	if (!(plan->faults & ~(1u << WR_SIM_MOVE)))
		plan->timeout_ns = 10000 * MS;
}

/* The clocks of all Redis servers show the same time. Plans without Sentinels test a failover to a
 * server with a different clock. The run is long enough for elections. */
void wr_sim_plan_sentinel(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x73656e74696e656cu};

	wr_sim_plan_make(plan, seed, WR_SIM_ANY);
	plan->regions = 1;
	plan->instances = (unsigned)wr_rng_between(&rng, 2, WR_SIM_SERVERS);
	plan->sentinels = wr_rng_percent(&rng, 80) ? WR_SIM_SENTINELS : 1;
	plan->faults &= ~(1u << WR_SIM_SKEW | 1u << WR_SIM_REGION | 1u << WR_SIM_FLUSH |
			  1u << WR_SIM_FAILOVER | 1u << WR_SIM_SPLIT);
	if (wr_rng_percent(&rng, 60))
		plan->faults = 0;
	if (wr_rng_percent(&rng, 70))
		plan->faults |= 1u << WR_SIM_FAILOVER;
	if (wr_rng_percent(&rng, 40))
		plan->faults |= 1u << WR_SIM_SPLIT;
	if (wr_rng_percent(&rng, 60))
		plan->faults |= 1u << WR_SIM_WATCH;
	if (plan->faults && plan->timeout_ns > 1000 * MS)
		plan->timeout_ns = wr_rng_scale(&rng, 20 * MS, 1000 * MS);
	extend_run(plan, 30000, 8000);
	plan->fault_gap_ns = plan->length_ns / wr_rng_between(&rng, 4, 20);
}

/* The whole run lies in one window, the limit is so high that no request is refused, and no key in
 * Redis expires. */
void wr_sim_plan_regions(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x726567696f6e7331u};
	uint64_t turns = wr_rng_between(&rng, 1000, 2000);

	*plan = (struct wr_sim_plan){
		.seed = seed,
		.consistency = WR_EVENTUAL,
		.on_store_failure = WR_FAIL_LOCAL,
		.algorithm = WEIR_FIXED_WINDOW,
		.period_ns = 120000 * MS,
		.regions = (unsigned)wr_rng_between(&rng, 2, 3),
		.nodes = (unsigned)wr_rng_between(&rng, 3, 7),
		.keys = 1,
		.limit = 100000,
		.limit_after = 100000,
		.batch_max = (unsigned)wr_rng_between(&rng, 1, 4),
		.cost_max = 1,
		.delay_ns = wr_rng_scale(&rng, 50000, 3 * MS),
		.timeout_ns = 1000 * MS,
		.sync_ns = wr_rng_scale(&rng, 20, 100) * MS,
		.length_ns = 30000 * MS,
		.faults = 1u << WR_SIM_REGION,
	};
	plan->jitter_ns = wr_rng_scale(&rng, 10000, plan->delay_ns + 10000);
	plan->gap_ns = plan->length_ns * plan->nodes / turns;
	plan->renew_gap_ns = wr_rng_between(&rng, 20, 60) * MS;
	plan->fault_gap_ns = plan->length_ns / wr_rng_between(&rng, 4, 10);
	plan->quiet_ns = 16000 * MS + 12 * plan->sync_ns;
	if (wr_rng_percent(&rng, 30))
		plan->faults |= 1u << WR_SIM_TWICE;
	if (wr_rng_percent(&rng, 30))
		plan->faults |= 1u << WR_SIM_KILL;
}

/* Nodes are replaced, and a node that was replaced does not report its admissions again. So if
 * Redis deletes counts too early, these counts stay lost, and the oracle reports a failure. */
void wr_sim_plan_ahead(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x6168656164303031u};

	wr_sim_plan_regions(plan, seed);
	plan->regions = 1;
	plan->ahead = 1;
	/* The run begins far from the edges of the window, because WR_SIM_SKEW makes clocks
	 * jump. */
	plan->begin_ns = 20000 * MS;
	plan->gap_ns /= 3;
	plan->renew_gap_ns = wr_rng_between(&rng, 100, 400) * MS;
	plan->faults = 1u << WR_SIM_SKEW;
	if (wr_rng_percent(&rng, 50))
		plan->faults |= 1u << WR_SIM_TWICE;
}

/* All clocks agree, because nodes compare the end of a ban or grant with their own clocks. */
void wr_sim_plan_operator(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x6f72646572733031u};

	if (wr_rng_percent(&rng, 25))
		wr_sim_plan_cluster(plan, seed);
	else
		wr_sim_plan_make(plan, seed, WR_SIM_ANY);
	plan->faults &= ~(1u << WR_SIM_SKEW | 1u << WR_SIM_RULES);
	/* If no fault of this run can cause timeouts, no request is allowed to time out, so the
	 * timeout is very long. */
	if (!(plan->faults & ~(1u << WR_SIM_MOVE)))
		plan->timeout_ns = 10000 * MS;
	plan->regions = 1;
	plan->soft_percent = 0;
	extend_run(plan, 6000, 6000);
	plan->order_gap_ns = plan->length_ns / wr_rng_between(&rng, 4, 20);
}

/* The second limit is concurrent in most runs. The run ends when all slots have been given back or
 * max_hold has passed. In some runs without faults, max_hold is longer than the run, so all slots
 * must have been given back. */
static void pick_slots(struct wr_sim_plan *plan, struct wr_rng *rng)
{
	if (wr_rng_percent(rng, 70)) {
		plan->second_algorithm = WEIR_CONCURRENT;
		plan->second_limit = (uint32_t)wr_rng_scale(rng, 1, 16);
		plan->second_period_ns = wr_rng_scale(rng, 50, 3000) * MS;
	}
	if (!plan->faults && wr_rng_percent(rng, 50))
		plan->second_period_ns += 3600000 * MS;
	else if (plan->second_algorithm == WEIR_CONCURRENT)
		plan->quiet_ns += plan->second_period_ns;
	plan->quiet_ns += plan->hold_ns + 3000 * MS;
}

void wr_sim_plan_settle(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x736574746c653031u};
	uint32_t costs;

	wr_sim_plan_make(plan, seed, wr_rng_percent(&rng, 70) ? WR_STRICT : WR_LEASE);
	/* A leaky bucket cannot be settled. */
	if (plan->algorithm == WEIR_LEAKY_BUCKET) {
		plan->algorithm = WEIR_FIXED_WINDOW;
		plan->queue_size = 0;
	}
	costs = (uint32_t)wr_rng_between(&rng, 2, 9);
	plan->limit = plan->limit * (1 + costs) / (1 + plan->cost_max) + costs;
	plan->limit_after = (uint32_t)wr_rng_between(&rng, 1, 2ul * plan->limit);
	plan->cost_max = costs;
	plan->settles = true;
	plan->hold_ns = wr_rng_scale(&rng, 1, 2 * plan->period_ns / MS) * MS;
	plan->max_debt = -1;
	if (wr_rng_percent(&rng, 40))
		plan->max_debt = (int64_t)wr_rng_below(&rng, plan->limit);
	if (plan->burst)
		plan->burst = (uint32_t)wr_rng_between(&rng, costs, 2ul * plan->limit);
	pick_slots(plan, &rng);
}

const struct wr_sim_kind wr_sim_kinds[] = {
	{"regions", wr_sim_plan_regions},   {"ahead", wr_sim_plan_ahead},
	{"cluster", wr_sim_plan_cluster},   {"sentinel", wr_sim_plan_sentinel},
	{"calendar", wr_sim_plan_calendar}, {"operator", wr_sim_plan_operator},
	{"settle", wr_sim_plan_settle},     {0}};

void wr_sim_plan_text(const struct wr_sim_plan *plan, char *text, size_t cap)
{
	static const char *const names[] = {
#define NAME(enum, number, name) [enum] = (name),
		WR_CONSISTENCIES(NAME)
#undef NAME
	};
	struct wr_buf out;

	wr_buf_init_fixed(&out, text, cap);
	wr_buf_printf(&out, "seed %llu: %s %s, %u per %llu ms%s, %u nodes, %u keys, delay %llu us,",
		      (unsigned long long)plan->seed, names[plan->consistency],
		      weir_algorithm_name((int)plan->algorithm), plan->limit,
		      (unsigned long long)(plan->period_ns / MS), plan->burst ? " (burst)" : "",
		      plan->nodes, plan->keys, (unsigned long long)(plan->delay_ns / 1000));
	if (plan->second_limit)
		wr_buf_printf(&out, " and %s %u per %llu ms,",
			      weir_algorithm_name((int)plan->second_algorithm), plan->second_limit,
			      (unsigned long long)(plan->second_period_ns / MS));
	wr_buf_printf(&out, "%s%s", plan->soft_percent ? " soft," : "",
		      plan->count_rejected ? " rejected count," : "");
	if (plan->settles)
		wr_buf_printf(&out, " settled within %llu ms, max_debt %lld,",
			      (unsigned long long)(plan->hold_ns / MS), (long long)plan->max_debt);
	if (plan->shards)
		wr_buf_printf(&out, " cluster of %u,", plan->shards);
	if (plan->calendar) {
		wr_buf_add_char(&out, ' ');
		wr_sim_calendar_text(plan, &out);
		wr_buf_printf(&out, " edge %u, %u sessions,", plan->first_edge, plan->sessions);
	}
	if (plan->sentinels)
		wr_buf_printf(&out, " %u instances, %u sentinels,", plan->instances,
			      plan->sentinels);
	if (plan->order_gap_ns)
		wr_buf_add_str(&out, WR_STR(" orders,"));
	if (plan->ahead)
		wr_buf_printf(&out, " %u ahead,", plan->ahead);
	for (int i = 0; i < WR_SIM_FAULT_COUNT; i++)
		if (plan->faults >> i & 1)
			wr_buf_printf(&out, " %s", wr_sim_fault_name((enum wr_sim_fault)i));
	wr_buf_printf(&out, "%s%s", plan->renew_gap_ns ? " renew" : "",
		      plan->faults ? "" : " calm");
}
