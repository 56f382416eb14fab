/* Checks strict limits and leases at the end of a run. oracle.c calls wr_sim_check_end(). */
#include <stdlib.h>

#include "sim/oracle.h"
#include "rules/rules.h"

#define US 1000u

/* ---- no request is refused without need ---- */

static uint64_t cost_arrived(const struct wr_sim *sim, unsigned key, uint64_t from_ns,
			     uint64_t to_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sim->arrival_count; i++)
		if (sim->arrivals[i].key == key && sim->arrivals[i].at_ns >= from_ns &&
		    sim->arrivals[i].at_ns < to_ns)
			sum += sim->arrivals[i].cost;
	return sum;
}

static uint64_t cost_admitted(const struct wr_sim *sim, unsigned key, uint64_t from_ns,
			      uint64_t to_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key && sim->admissions[i].at_ns >= from_ns &&
		    sim->admissions[i].at_ns < to_ns)
			sum += sim->admissions[i].cost;
	return sum;
}

/* Returns the minimum cost that must be admitted if requests with a total cost of `came` arrived.
 * With leases the minimum is lower, because units in the lease of one node are not available to
 * another node and may stay unused. */
static uint64_t least_admitted(const struct wr_sim_plan *plan, uint64_t came)
{
	uint64_t least = came < plan->limit ? came : plan->limit;

	if (plan->consistency != WR_LEASE)
		return least;
	return least * 9 / 10 > 2ul * plan->nodes ? least * 9 / 10 - 2ul * plan->nodes : 0;
}

/* Checks runs without faults: each complete fixed window admits all requests, or as many as the
 * limit allows. Requests near the end of a window are ignored, because their replies may come in
 * the next window. Requests near the start are ignored too, because the node may still remember a
 * refusal of the previous window. */
static void check_windows_used(struct wr_sim *sim, unsigned key)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t late_ns = wr_sim_max_reply_ns(plan);
	uint64_t start_ns = (plan->period_ns - WR_SIM_EPOCH_NS % plan->period_ns) % plan->period_ns;

	if (2 * late_ns >= plan->period_ns)
		return;
	/* If replies are slow, a lease expires shortly after the node has received it, and most of
	 * its units are lost. So such runs are not checked. */
	if (plan->consistency == WR_LEASE && late_ns > plan->period_ns / 10)
		return;
	for (; start_ns + plan->period_ns <= plan->length_ns; start_ns += plan->period_ns) {
		uint64_t end_ns = start_ns + plan->period_ns;
		uint64_t came = cost_arrived(sim, key, start_ns + late_ns, end_ns - late_ns);
		uint64_t admitted = cost_admitted(sim, key, start_ns, end_ns);
		uint64_t least = least_admitted(plan, came);

		if (admitted < least)
			wr_sim_fail(sim,
				    "key %u: %llu admitted in a window without faults, at least "
				    "%llu expected",
				    key, (unsigned long long)admitted, (unsigned long long)least);
	}
}

/* Checks the time from from_ns to to_ns, which ends or begins at a window edge by the clock of
 * Redis. All requests of this time must be admitted, or as many as the limit allows, whatever the
 * clocks of the nodes show. The only fault of the run is clock skew. */
static void check_edge(struct wr_sim *sim, unsigned key, uint64_t from_ns, uint64_t to_ns)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t late_ns = wr_sim_max_reply_ns(plan), came, admitted, least;

	if (from_ns + 2 * late_ns >= to_ns)
		return;
	came = cost_arrived(sim, key, from_ns + late_ns, to_ns - late_ns);
	admitted = cost_admitted(sim, key, from_ns, to_ns);
	least = least_admitted(plan, came);
	if (admitted < least)
		wr_sim_fail(sim,
			    "key %u: %llu admitted in the %llu ms next to the edge, at least %llu "
			    "expected",
			    key, (unsigned long long)admitted,
			    (unsigned long long)((to_ns - from_ns) / 1000000),
			    (unsigned long long)least);
}

static void check_edges(struct wr_sim *sim, unsigned key)
{
	const struct wr_sim_plan *plan = sim->plan;
	int64_t edge_ns = (int64_t)wr_sim_edge_ns(plan, 0) - sim->servers[0].master->skew_ns;

	if (edge_ns <= 0 || (uint64_t)edge_ns >= plan->length_ns)
		return;
	check_edge(sim, key, 0, (uint64_t)edge_ns);
	check_edge(sim, key, (uint64_t)edge_ns, plan->length_ns);
}

/* Checks calendar runs that have no fault except clock skew. Redis must decide each request,
 * because clocks differ only by seconds and windows are much longer. */
static void check_calendar(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;

	if (sim->report->failed)
		wr_sim_fail(sim, "%llu requests were decided without Redis at an edge",
			    (unsigned long long)sim->report->failed);
	for (unsigned key = 0; key < plan->keys; key++)
		if (!plan->pairs_percent && plan->cost_max == 1 && !plan->count_rejected)
			check_edges(sim, key);
}

/* ---- counters at the end ---- */

/* Checks the last fixed window in runs without loss of data: Redis has counted at least the
 * admitted cost. Without faults, Redis has counted at most the admitted cost plus the units of
 * leases that expired unspent. */
static void check_reading(struct wr_sim *sim, unsigned node, unsigned key)
{
	const struct wr_sim_reading *reading = &sim->readings[node][key];
	uint64_t counted = 0, used, window;

	if (!reading->valid) {
		if (sim->plan->timeout_ns > wr_sim_max_reply_ns(sim->plan))
			wr_sim_fail(sim, "node %u gets no reply at the end", node);
		return;
	}
	used = reading->limit - reading->remaining;
	window = wr_sim_window_of(sim->plan, reading->redis_us);
	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key && wr_sim_is_hard(&sim->admissions[i]) &&
		    wr_sim_window_of(sim->plan, sim->admissions[i].at_us) == window)
			counted += sim->admissions[i].cost;
	/* All grants were lifted before the probe. So the probe shows at most `limit` used units,
	 * even if more units were admitted. */
	if (sim->plan->order_gap_ns && counted > reading->limit)
		counted = reading->limit;
	if (counted > used || (!sim->plan->faults && !sim->plan->count_rejected &&
			       !sim->plan->settles && used - counted > sim->burnt))
		wr_sim_fail(sim, "key %u: %llu admitted in the last window, and Redis counted %llu",
			    key, (unsigned long long)counted, (unsigned long long)used);
}

/* Returns true if no reply was lost and all nodes reported all their admissions to Redis. Redis
 * then counts an admitted request once and a refused request not at all. */
static bool all_reported(const struct wr_sim *sim)
{
	struct wr_central_info *info = wr_sim_alloc(1, sizeof *info);
	unsigned others =
		~(1u << WR_SIM_SLOW | 1u << WR_SIM_STALL | 1u << WR_SIM_ERROR | 1u << WR_SIM_TWICE |
		  1u << WR_SIM_PAUSE | 1u << WR_SIM_MOVE | 1u << WR_SIM_DOWN);
	/* With leases, runs whose requests have several limits are excluded. In such a run a
	 * request can spend and report a unit of one limit before another limit refuses the
	 * request. The unit stays spent. */
	bool reported = !(sim->plan->faults & others) && !sim->plan->count_rejected &&
			!sim->plan->settles &&
			(sim->plan->consistency == WR_STRICT ||
			 (!sim->plan->pairs_percent && !sim->plan->second_limit));

	for (unsigned i = 0; reported && i < sim->plan->nodes; i++) {
		wr_central_info(sim->nodes[i].home.central, info);
		reported = info->counts.connects <= wr_sim_server_count(sim->plan) &&
			   !info->counts.reports_lost && !info->counts.reports_stale &&
			   !info->counts.returns_lost && !info->reports_waiting;
	}
	free(info);
	return reported;
}

/* Returns the cost admitted in the window, including admissions shortly before and after the
 * window. The times of admissions are not exact, because a node estimates the time of Redis from a
 * reply. */
static uint64_t cost_admitted_near(const struct wr_sim *sim, unsigned key, uint64_t window)
{
	uint64_t sum = 0;
	uint64_t slack_us = (wr_sim_max_reply_ns(sim->plan) + sim->plan->timeout_ns) / US;

	for (size_t i = 0; i < sim->admission_count; i++) {
		const struct wr_sim_admission *one = &sim->admissions[i];

		if (one->key == key &&
		    wr_sim_window_of(sim->plan, one->at_us + slack_us) >= window &&
		    wr_sim_window_of(sim->plan, one->at_us - slack_us) <= window)
			sum += one->cost;
	}
	return sum;
}

static void check_charged(struct wr_sim *sim, unsigned node, unsigned key)
{
	const struct wr_sim_reading *reading = &sim->readings[node][key];
	uint64_t window = wr_sim_window_of(sim->plan, reading->redis_us);
	uint64_t used = reading->limit - reading->remaining, admitted;

	if (!reading->valid)
		return;
	admitted = cost_admitted_near(sim, key, window);
	if (used > admitted + sim->burnt)
		wr_sim_fail(sim, "key %u: Redis counted %llu, and %llu were admitted", key,
			    (unsigned long long)used, (unsigned long long)admitted);
}

/* ---- shares ---- */

/* Checks an admission without Redis: the sum of the node's admissions in the window is at most the
 * node's share of the limit. The node's clock determines the window; it shows the true time in
 * these runs. */
static void check_share(struct wr_sim *sim, size_t at)
{
	const struct wr_sim_admission *now = &sim->admissions[at];
	uint64_t epoch_ns = wr_sim_epoch_ns(sim->plan), sum = 0;
	uint64_t window = wr_sim_window_of(sim->plan, (epoch_ns + now->decided_ns) / US);
	uint64_t most = wr_sim_limit_max(sim) +
			wr_sim_grant_max(sim, now->key, now->at_ns, now->decided_ns);
	uint64_t share = most / now->nodes ? most / now->nodes : 1;

	for (size_t i = at + 1; i > 0; i--) {
		const struct wr_sim_admission *other = &sim->admissions[i - 1];

		if (wr_sim_window_of(sim->plan, (epoch_ns + other->decided_ns) / US) != window)
			break;
		if (other->key == now->key && other->node == now->node)
			sum += other->cost;
	}
	if (sum > share)
		wr_sim_fail(sim, "key %u: node %u admitted %llu, its share is %llu", now->key,
			    now->node, (unsigned long long)sum, (unsigned long long)share);
}

/* ---- units of leases ---- */

/* Checks a node at the end, when the node has been idle for longer than a lease lasts. The node
 * must hold no leases. Each granted unit must be spent, returned or burnt. A unit is burnt if its
 * lease expires before the unit is spent. The node must have reported the units of its admissions
 * as spent. The node is allowed to have reported more units, because a client can disconnect after
 * its units were reported. Then its admission is cancelled, but the units stay reported. */
static void check_units(struct wr_sim *sim, const struct wr_sim_node *node,
			const struct wr_central_info *info)
{
	const struct wr_central_counts *counts = &info->counts;
	bool exact = !wr_sim_has_fault(sim, WR_SIM_LEAVE) && !sim->plan->pairs_percent &&
		     !sim->plan->second_limit && !sim->plan->settles;

	if (info->leases)
		wr_sim_fail(sim, "node %u: still holds %u leases", node->number, info->leases);
	if (counts->units_granted !=
	    counts->units_spent + counts->units_returned + counts->units_burnt)
		wr_sim_fail(sim,
			    "node %u: %llu units granted, %llu spent, %llu returned, %llu burnt",
			    node->number, (unsigned long long)counts->units_granted,
			    (unsigned long long)counts->units_spent,
			    (unsigned long long)counts->units_returned,
			    (unsigned long long)counts->units_burnt);
	if (wr_sim_has_fault(sim, WR_SIM_KILL) || wr_sim_has_fault(sim, WR_SIM_CRASH))
		return;
	if (exact ? node->spent != counts->units_spent : node->spent > counts->units_spent)
		wr_sim_fail(sim, "node %u: %llu units spent, and %llu reported", node->number,
			    (unsigned long long)node->spent,
			    (unsigned long long)counts->units_spent);
}

static void check_leases(struct wr_sim *sim)
{
	struct wr_central_info *info = wr_sim_alloc(1, sizeof *info);

	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		if (!sim->nodes[i].home.central)
			continue;
		wr_central_info(sim->nodes[i].home.central, info);
		sim->burnt += info->counts.units_burnt + info->counts.returns_lost;
		check_units(sim, &sim->nodes[i], info);
	}
	sim->report->burnt = sim->burnt;
	free(info);
}

void wr_sim_check_end(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	bool fixed = plan->algorithm == WEIR_FIXED_WINDOW;

	if (plan->consistency == WR_LEASE)
		check_leases(sim);
	if (plan->calendar && !(plan->faults & ~(1u << WR_SIM_SKEW)))
		check_calendar(sim);
	for (unsigned key = 0; !plan->calendar && key < plan->keys; key++) {
		if (fixed && !plan->faults && !plan->pairs_percent && plan->cost_max == 1 &&
		    !plan->second_limit && !plan->order_gap_ns && !sim->report->failed)
			check_windows_used(sim, key);
	}
	if (fixed && !sim->report->losses && !wr_sim_has_fault(sim, WR_SIM_RULES) &&
	    !plan->soft_percent)
		for (unsigned i = 0; i < plan->nodes * plan->keys; i++)
			check_reading(sim, i / plan->keys, i % plan->keys);
	if (fixed && all_reported(sim))
		for (unsigned i = 0; i < plan->nodes * plan->keys; i++)
			check_charged(sim, i / plan->keys, i % plan->keys);
	if (fixed && !wr_sim_has_fault(sim, WR_SIM_SKEW) && !wr_sim_has_fault(sim, WR_SIM_CRASH) &&
	    !wr_sim_has_fault(sim, WR_SIM_LEAVE))
		for (size_t i = 0; i < sim->admission_count; i++)
			if (sim->admissions[i].how == WR_SIM_BY_SHARE &&
			    sim->admissions[i].key < plan->keys)
				check_share(sim, i);
}
