/* Checks eventual limits. Each node counts separately, and nodes exchange their counts. The
 * limit may be exceeded only by a bounded amount, and all nodes must learn the sum of all counts.
 * oracle.c calls wr_sim_check_eventual().
 *
 * After an admission by node A, node B knows of the admission after at most the time D. D is the
 * time until A's next exchange, plus the message of A to Redis, plus the time until B's next
 * exchange, plus the round trip of B to Redis. So when a node admits the last unit of the limit, it
 * may not know the admissions that the other nodes made in the time D before:
 *
 *   admitted <= limit + sum of the other nodes' admissions within D
 *
 * An idle node does not ask for the counts of the other nodes. An idle node learns these counts
 * only D after its first request, so its own admissions within D are added too. If a fault
 * interrupts the exchanges, a node continues for three intervals and then admits only its share of
 * the limit. Each loss of data may add one limit. */
#include <stdlib.h>

#include "sim/oracle.h"
#include "rules/rules.h"
#include "store/exchange.h"

#define US 1000u
#define MS 1000000ull
/* equal to WR_SYNC_STALE: after this many intervals without exchange, a node admits only its
 * share */
#define STALE 3u
#define SILENCE_NS 1000000000ull /* a connection without replies is closed after this time */

static uint64_t unseen_span_ns(const struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t turn_ns = plan->sync_ns + plan->sync_ns / 1000 + MS;

	if (!plan->faults)
		return 2 * turn_ns + 2 * wr_sim_max_reply_ns(plan);
	return (2 + STALE) * turn_ns + 2 * wr_sim_max_reply_ns(plan) + 2 * plan->timeout_ns +
	       SILENCE_NS;
}

/* Returns the largest cost that the node admitted in any time of the length span_ns. `at` is sorted
 * by time. */
static uint64_t max_within(const struct wr_sim_admission *at, size_t count, unsigned node,
			   uint64_t span_ns)
{
	uint64_t sum = 0, most = 0;
	size_t first = 0;

	for (size_t i = 0; i < count; i++) {
		if (at[i].node != node)
			continue;
		sum += at[i].cost;
		for (; at[first].at_ns + span_ns < at[i].at_ns; first++)
			sum -= at[first].node == node ? at[first].cost : 0;
		most = sum > most ? sum : most;
	}
	return most;
}

/* Returns an upper bound of the cost that nodes admitted while they did not know of each other's
 * admissions. Also updates bound_ppm of the report. */
static uint64_t max_unseen(struct wr_sim *sim, const struct wr_sim_admission *at, size_t count,
			   uint64_t limit)
{
	uint64_t span_ns = unseen_span_ns(sim), sum = 0, least = UINT64_MAX;

	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		uint64_t most = max_within(at, count, i, span_ns);

		sum += most;
		least = most < least ? most : least;
	}
	if ((sum - least) * 1000000 / limit > sim->report->bound_ppm)
		sim->report->bound_ppm = (uint32_t)((sum - least) * 1000000 / limit);
	return sum;
}

/* Returns the largest allowed sum of the admissions `at`. With faults a larger sum is allowed: a
 * node without Redis admits its share, other nodes never learn the unreported admissions of a
 * machine that died, and a disconnected region admits without the counts of the other regions. */
static uint64_t max_allowed(struct wr_sim *sim, const struct wr_sim_admission *at, size_t count,
			    uint64_t limit)
{
	uint64_t sum = limit + max_unseen(sim, at, count, limit), share = 0;

	if (!sim->plan->faults)
		return sum;
	for (size_t i = 0; i < count; i++)
		if (at[i].how == WR_SIM_BY_SHARE && limit / at[i].nodes > share)
			share = limit / at[i].nodes;
	sum += sim->plan->nodes * (share + 1) + limit * sim->report->losses +
	       max_unseen(sim, at, count, limit) * sim->crashes;
	return wr_sim_has_fault(sim, WR_SIM_REGION) ? sum * sim->plan->regions : sum;
}

/* ---- the algorithms ---- */

/* Returns how often nodes came back to this window from a later window, because their clocks jumped
 * back. */
static uint64_t returns_to(const struct wr_sim_plan *plan, const struct wr_sim_admission *by_time,
			   size_t count, uint64_t window)
{
	uint64_t last[WR_SIM_NODES] = {0}, returns = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t now = wr_sim_window_of(plan, by_time[i].at_us);

		returns += now == window && last[by_time[i].node] > window;
		last[by_time[i].node] = now;
	}
	return returns;
}

/* Checks each window separately. `list` is sorted by the clocks of nodes, so the admissions of a
 * window are next to each other. They are then sorted by true time, because clocks can differ. A
 * node whose clock jumped back into a window has lost some or all of its counts of that window
 * (algo/counter.h, algo/fixed.h), so it is allowed to admit the limit again. */
static void check_windows(const struct wr_sim_list *list)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	uint64_t most = wr_sim_limit_max(list->sim);
	struct wr_sim_list by_time =
		wr_sim_list_admissions(list->sim, list->key, false, wr_sim_by_time);

	for (size_t i = 0, end; i < list->count; i = end) {
		uint64_t window = wr_sim_window_of(plan, list->at[i].at_us), sum = 0, bound;

		for (end = i;
		     end < list->count && wr_sim_window_of(plan, list->at[end].at_us) == window;
		     end++)
			sum += list->at[end].cost;
		qsort(list->at + i, end - i, sizeof *list->at, wr_sim_by_time);
		bound = max_allowed(list->sim, list->at + i, end - i, most) +
			most * returns_to(plan, by_time.at, by_time.count, window);
		if (sum > bound)
			wr_sim_fail_excess(list, sum, bound, list->at[end - 1].at_ns);
		if (sum > most && (sum - most) * 1000000 / most > list->sim->report->overshoot_ppm)
			list->sim->report->overshoot_ppm =
				(uint32_t)((sum - most) * 1000000 / most);
	}
	free(by_time.at);
}

/* Adds the admissions of all nodes to one bucket, which empties at the rate of the limit, and
 * checks the level of the bucket. Levels are in units of 1/period of a token. */
static void check_fleet_bucket(const struct wr_sim_list *list)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	uint64_t burst = plan->burst ? plan->burst : wr_sim_limit_max(list->sim), last_ns = 0;
	__int128 rate = (__int128)wr_sim_limit_max(list->sim), level = 0, bound;

	bound = (__int128)max_allowed(list->sim, list->at, list->count, burst) * plan->nodes *
		plan->period_ns * (wr_sim_has_fault(list->sim, WR_SIM_RULES) ? 2 : 1);
	for (size_t i = 0; i < list->count; i++) {
		uint64_t tokens;

		level -= rate * (list->at[i].at_ns - last_ns);
		level = (level > 0 ? level : 0) + (__int128)list->at[i].cost * plan->period_ns;
		last_ns = list->at[i].at_ns;
		tokens = (uint64_t)(level / plan->period_ns);
		if (level > bound)
			wr_sim_fail_excess(list, tokens, (uint64_t)(bound / plan->period_ns),
					   last_ns);
		if (tokens > burst &&
		    (tokens - burst) * 1000000 / burst > list->sim->report->overshoot_ppm)
			list->sim->report->overshoot_ppm =
				(uint32_t)((tokens - burst) * 1000000 / burst);
	}
}

/* Returns the time from which `node` must know of an admission that another node made at at_ns.
 * Returns UINT64_MAX if `node` does not have to know of it.
 *
 * `node` reads the counts of other nodes only in an exchange that follows one of its own
 * admissions. In its first exchange, `node` only stores these counts as a baseline, and does not
 * add them to its own, so it does not have to know of these admissions. The same happens in the
 * first exchange after `node` has forgotten the counts of the other nodes. */
static uint64_t known_ns(const struct wr_sim_list *list, unsigned node, uint64_t at_ns)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	struct wr_store_exchange_name name = {.algorithm = plan->algorithm,
					      .limit = plan->limit,
					      .burst = plan->burst,
					      .period_ns = plan->period_ns};
	/* Exchanges divide time into sections of the length wr_store_exchange_span_ns(). An
	 * exchange contains only the counts of the current and the previous section. */
	uint64_t end_ns = wr_store_exchange_start_ns(&name, wr_sim_epoch_ns(plan) + at_ns) +
			  wr_store_exchange_span_ns(&name);
	uint64_t half_ns = unseen_span_ns(list->sim) / 2;
	/* A node forgets the counts of the other nodes after idle_ns without admissions. This
	 * happens if the key is banned, because the node then admits nothing. */
	uint64_t idle_ns = 2 * wr_store_exchange_span_ns(&name);
	uint64_t first_ns = UINT64_MAX, last_ns = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (list->at[i].node != node)
			continue;
		if (first_ns == UINT64_MAX || list->at[i].at_ns >= last_ns + idle_ns)
			first_ns = list->at[i].at_ns;
		last_ns = list->at[i].at_ns;
		if (at_ns < first_ns + 2 * half_ns)
			return UINT64_MAX;
		if (last_ns < at_ns + half_ns)
			continue;
		return wr_store_exchange_start_ns(&name, wr_sim_epoch_ns(plan) + last_ns +
								 half_ns) > end_ns
			       ? UINT64_MAX
			       : last_ns + half_ns;
	}
	return UINT64_MAX;
}

/* Returns the level of a node's bucket at admission number `now` of the list. The bucket contains
 * the node's own admissions, and the admissions of other nodes that the node must know at that
 * time. */
static __int128 level_at(const struct wr_sim_list *list, const uint64_t *known, size_t now)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	__int128 level = 0;
	uint64_t last_ns = 0;

	for (size_t i = 0; i <= now; i++) {
		const struct wr_sim_admission *one = &list->at[i];

		if (one->node != list->at[now].node && known[i] > list->at[now].at_ns)
			continue;
		level -= (__int128)plan->limit * (one->at_ns - last_ns);
		level = (level > 0 ? level : 0) + (__int128)one->cost * plan->period_ns;
		last_ns = one->at_ns;
	}
	return level;
}

/* Checks that the bucket of one node never holds more than the burst. */
static void check_node_bucket(const struct wr_sim_list *list, unsigned node)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	uint64_t *known = wr_sim_alloc(list->count + 1, sizeof *known);
	__int128 burst = (__int128)(plan->burst ? plan->burst : plan->limit) * plan->period_ns;

	for (size_t i = 0; i < list->count; i++)
		known[i] = known_ns(list, node, list->at[i].at_ns);
	for (size_t i = 0; i < list->count; i++) {
		__int128 level = list->at[i].node == node ? level_at(list, known, i) : 0;

		if (level > burst + (__int128)plan->limit * US)
			wr_sim_fail_excess(list, (uint64_t)(level / plan->period_ns),
					   (uint64_t)(burst / plan->period_ns), list->at[i].at_ns);
	}
	free(known);
}

/* ---- all nodes learn the sum ---- */

static int64_t skew_us(const struct wr_sim *sim, uint64_t at_us, uint64_t at_ns)
{
	return (int64_t)at_us - (int64_t)((wr_sim_epoch_ns(sim->plan) + at_ns) / US);
}

/* Compares the clocks of two nodes: node A made the admission `one`, and a probe read the counters
 * of node B (`reading`). Returns true if the clocks differ by less than a period. If they differ by
 * more, B does not have to count the admission, because one of the two nodes has forgotten a window
 * before the other node enters it. */
static bool has_close_clock(const struct wr_sim *sim, const struct wr_sim_admission *one,
			    const struct wr_sim_reading *reading)
{
	int64_t apart_us =
		skew_us(sim, one->at_us, one->at_ns) - skew_us(sim, reading->at_us, reading->at_ns);

	return llabs(apart_us) < (int64_t)(sim->plan->period_ns / US);
}

/* Returns the cancelled cost of a window. A node that learned of an admission before its
 * cancellation may count the cost of the admission until the window ends. */
static uint64_t returned_in(const struct wr_sim *sim, unsigned key, uint64_t window)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key &&
		    wr_sim_window_of(sim->plan, sim->admissions[i].at_us) == window)
			sum += sim->admissions[i].returned;
	return sum;
}

/* Returns true if some node cannot reach Redis at the end, because most replies take longer than
 * the timeout even without faults. The node then neither reports its admissions nor learns the
 * admissions of other nodes. */
static bool is_cut_off(const struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	struct wr_central_info *info;
	bool cut_off = false;

	if (plan->timeout_ns > 2 * (plan->delay_ns + plan->jitter_ns))
		return false;
	info = wr_sim_alloc(1, sizeof *info);
	for (unsigned i = 0; i < plan->nodes; i++) {
		if (!sim->nodes[i].home.central)
			continue;
		wr_central_info(sim->nodes[i].home.central, info);
		cut_off |= !info->all_up;
	}
	free(info);
	return cut_off;
}

/* Checks what the node has counted in the last fixed window. The count must include all admissions
 * before last_request_ns and the node's own later admissions. The count must not exceed the sum of
 * all admissions. */
static void check_sum_known(const struct wr_sim_list *list, unsigned node)
{
	const struct wr_sim *sim = list->sim;
	const struct wr_sim_reading *reading = &sim->readings[node][list->key];
	uint64_t window = wr_sim_window_of(sim->plan, reading->at_us);
	uint64_t before = 0, all = returned_in(sim, list->key, window), own = 0, used, least;

	/* After a crash the sum is not checked, because unreported admissions of the machine that
	 * died are lost. */
	if (!reading->valid || sim->crashes || is_cut_off(sim))
		return;
	for (size_t i = 0; i < list->count; i++) {
		const struct wr_sim_admission *one = &list->at[i];

		if (wr_sim_window_of(sim->plan, one->at_us) != window)
			continue;
		all += one->cost;
		if (!has_close_clock(sim, one, reading))
			continue;
		before += one->at_ns < sim->last_request_ns ? one->cost : 0;
		own += one->at_ns >= sim->last_request_ns && one->node == node ? one->cost : 0;
	}
	used = reading->limit - reading->remaining;
	least = before + own < reading->limit ? before + own : reading->limit;
	if (used < least || used > all)
		wr_sim_fail(list->sim, "key %u: node %u counts %llu; expected %llu to %llu",
			    list->key, node, (unsigned long long)used, (unsigned long long)least,
			    (unsigned long long)all);
}

/* Checks the early probe in runs without loss of data and without crashes. A node that gets a
 * request some seconds after the last fault must know all earlier admissions of all regions, even
 * if the other nodes have had no request since the fault. */
static void check_early_reading(const struct wr_sim_list *list)
{
	const struct wr_sim *sim = list->sim;
	const struct wr_sim_reading *reading = &sim->early[list->key];
	uint64_t window = wr_sim_window_of(sim->plan, reading->at_us), before = 0, used;

	if (!reading->valid || sim->crashes || sim->report->losses || is_cut_off(sim))
		return;
	for (size_t i = 0; i < list->count; i++)
		if (wr_sim_window_of(sim->plan, list->at[i].at_us) == window &&
		    list->at[i].at_ns < sim->plan->length_ns &&
		    has_close_clock(sim, &list->at[i], reading))
			before += list->at[i].cost;
	used = reading->limit - reading->remaining;
	if (used < before && used < reading->limit)
		wr_sim_fail(list->sim,
			    "key %u: the node that gets the first request knows %llu of %llu",
			    list->key, (unsigned long long)used, (unsigned long long)before);
}

void wr_sim_check_eventual(struct wr_sim *sim, unsigned key)
{
	bool windows = sim->plan->algorithm != WEIR_TOKEN_BUCKET;
	struct wr_sim_list list = wr_sim_list_admissions(
		sim, key, false, windows ? wr_sim_by_window : wr_sim_by_time);

	if (sim->plan->algorithm == WEIR_FIXED_WINDOW)
		check_early_reading(&list);
	if (sim->plan->algorithm == WEIR_FIXED_WINDOW)
		for (unsigned i = 0; i < sim->plan->nodes; i++)
			check_sum_known(&list, i);
	if (windows)
		check_windows(&list);
	else
		check_fleet_bucket(&list);
	for (unsigned i = 0; !windows && !sim->plan->faults && i < sim->plan->nodes; i++)
		check_node_bucket(&list, i);
	free(list.at);
}
