/* What must hold, whatever happened: what was admitted, held against the limit by dull arithmetic.
 *
 * Admissions stand at the time Redis took them, or at which they were spent. Each loss of data may
 * admit one limit more, where it lies between admissions that share a window. What a client that
 * left gave back does not count; if the give-back was lost, all the better. */
#include <stdlib.h>
#include <string.h>

#include "lab/sim_inner.h"
#include "rules/rules.h"

#define US 1000u

/* ---- the record ---- */

void wr_sim_admit(struct wr_sim *sim, struct wr_sim_admission admission)
{
	if (sim->admission_count == sim->admission_cap) {
		size_t cap = sim->admission_cap ? 2 * sim->admission_cap : 1024;
		struct wr_sim_admission *more = wr_lab_alloc(cap, sizeof *more);

		if (sim->admission_count)
			memcpy(more, sim->admissions, sim->admission_count * sizeof *more);
		free(sim->admissions);
		sim->admissions = more;
		sim->admission_cap = cap;
	}
	sim->admissions[sim->admission_count++] = admission;
}

void wr_sim_take_back(struct wr_sim *sim, uint64_t request)
{
	for (size_t i = sim->admission_count; i > 0; i--)
		if (sim->admissions[i - 1].request == request) {
			if (sim->admissions[i - 1].how == WR_SIM_BY_LEASE)
				sim->nodes[sim->admissions[i - 1].node].spent -=
					sim->admissions[i - 1].cost;
			sim->admissions[i - 1].cost = 0;
		}
}

void wr_sim_came(struct wr_sim *sim, uint8_t key, uint32_t cost)
{
	if (sim->plan->faults)
		return;
	if (sim->arrival_count == sim->arrival_cap) {
		size_t cap = sim->arrival_cap ? 2 * sim->arrival_cap : 1024;
		struct wr_sim_arrival *more = wr_lab_alloc(cap, sizeof *more);

		if (sim->arrival_count)
			memcpy(more, sim->arrivals, sim->arrival_count * sizeof *more);
		free(sim->arrivals);
		sim->arrivals = more;
		sim->arrival_cap = cap;
	}
	sim->arrivals[sim->arrival_count++] = (struct wr_sim_arrival){sim->now_ns, cost, key};
}

/* ---- admissions of a key, in order ---- */

struct list {
	struct wr_sim *sim;
	struct wr_sim_admission *at;
	size_t count;
	unsigned key;
};

static int by_time(const void *a, const void *b)
{
	const struct wr_sim_admission *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->request < y->request ? -1 : x->request > y->request;
}

static int by_window(const void *a, const void *b)
{
	const struct wr_sim_admission *x = a, *y = b;

	if (x->at_us != y->at_us)
		return x->at_us < y->at_us ? -1 : 1;
	return by_time(a, b);
}

static bool is_hard(const struct wr_sim_admission *admission)
{
	return admission->how == WR_SIM_BY_STORE || admission->how == WR_SIM_BY_LEASE;
}

/* Those that hold by the store, of one key. */
static struct list list_of(struct wr_sim *sim, unsigned key,
			   int (*order)(const void *, const void *))
{
	struct list list = {.sim = sim, .key = key};

	list.at = wr_lab_alloc(sim->admission_count + 1, sizeof *list.at);
	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key && sim->admissions[i].cost &&
		    is_hard(&sim->admissions[i]))
			list.at[list.count++] = sim->admissions[i];
	qsort(list.at, list.count, sizeof *list.at, order);
	return list;
}

static uint64_t most(const struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;

	return wr_sim_may(sim, WR_SIM_RULES) && plan->limit_after > plan->limit ? plan->limit_after
										: plan->limit;
}

/* Losses between the first and the last of these times. */
static uint64_t losses_in(const struct wr_sim *sim, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < sim->loss_count; i++)
		count += !sim->losses[i].changed && sim->losses[i].from_ns <= to_ns &&
			 sim->losses[i].felt_ns >= from_ns;
	return count;
}

static void too_many(const struct list *list, uint64_t sum, uint64_t allowed, uint64_t at_ns)
{
	wr_sim_fail(list->sim, "key %u: %llu admitted where %llu are allowed, up to %llu.%06llu ms",
		    list->key, (unsigned long long)sum, (unsigned long long)allowed,
		    (unsigned long long)(at_ns / 1000000), (unsigned long long)(at_ns % 1000000));
}

/* ---- the algorithms ---- */

/* True times of the admissions of a window, and what they sum up to. */
struct window {
	uint64_t number, sum, first_ns, last_ns;
};

static void window_add(struct window *window, const struct wr_sim_admission *admission)
{
	window->sum += admission->cost;
	if (admission->at_ns < window->first_ns)
		window->first_ns = admission->at_ns;
	if (admission->at_ns > window->last_ns)
		window->last_ns = admission->at_ns;
}

/* At most the limit in each window of the master's clock. */
static void check_fixed(const struct list *list)
{
	uint64_t period_us = list->sim->plan->period_ns / US, allowed;

	for (size_t i = 0; i < list->count;) {
		struct window window = {.number = list->at[i].at_us / period_us,
					.first_ns = UINT64_MAX};

		for (; i < list->count && list->at[i].at_us / period_us == window.number; i++)
			window_add(&window, &list->at[i]);
		allowed = most(list->sim) *
			  (1 + losses_in(list->sim, window.first_ns, window.last_ns));
		if (window.sum > allowed)
			too_many(list, window.sum, allowed, window.last_ns);
	}
}

/* At most the limit in any span of a period. */
static void check_log(const struct list *list)
{
	uint64_t period_ns = list->sim->plan->period_ns, sum = 0;

	for (size_t i = 0, first = 0; i < list->count; i++) {
		uint64_t now_ns = list->at[i].at_ns, allowed;

		sum += list->at[i].cost;
		while (list->at[first].at_ns + period_ns <= now_ns)
			sum -= list->at[first++].cost;
		allowed =
			most(list->sim) * (1 + losses_in(list->sim, list->at[first].at_ns, now_ns));
		if (sum > allowed)
			too_many(list, sum, allowed, now_ns);
	}
}

/* At admission the estimate is at most the limit: this window's count, and of the one before as
 * much as it still overlaps. Each of two masters rounds down for itself. */
static void check_counter(const struct list *list)
{
	uint64_t period_us = list->sim->plan->period_ns / US;
	struct window before = {.first_ns = UINT64_MAX}, now = before;

	for (size_t i = 0; i < list->count; i++) {
		const struct wr_sim_admission *one = &list->at[i];
		uint64_t number = one->at_us / period_us;
		uint64_t left = period_us - one->at_us % period_us, estimate, losses;

		if (number != now.number) {
			before = now;
			if (number != now.number + 1)
				before = (struct window){.first_ns = UINT64_MAX};
			now = (struct window){.number = number, .first_ns = UINT64_MAX};
		}
		window_add(&now, one);
		estimate = now.sum + before.sum * left / period_us;
		losses = losses_in(list->sim,
				   before.first_ns < now.first_ns ? before.first_ns : now.first_ns,
				   before.last_ns > now.last_ns ? before.last_ns : now.last_ns);
		if (estimate > most(list->sim) * (1 + losses) + losses)
			too_many(list, estimate, most(list->sim) * (1 + losses) + losses,
				 one->at_ns);
	}
}

/* Spans that meet a loss may have a burst more; while there are two masters they have two rates. A
 * new limit acts as if it had been in force since the bucket was last full, which may have been as
 * long ago as the lower one takes to fill it (algo/bucket.h). */
static __int128 extra(const struct wr_sim *sim, const struct wr_sim_loss *loss)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t burst = plan->burst ? plan->burst : most(sim);
	uint64_t low = plan->limit < plan->limit_after ? plan->limit : plan->limit_after;
	uint64_t jump = (most(sim) - low) * (burst / low + 1);

	if (loss->changed && jump < burst)
		return (__int128)jump * plan->period_ns;
	return (__int128)burst * plan->period_ns;
}

/* At most burst + rate · t in any span t: a bucket that is filled by what is admitted and drains at
 * the rate never holds more than the burst. What a loss allows beyond that it may hold while the
 * loss lasts, and it is gone at its end. Kept in 1/period of a token. */
static void check_token(const struct list *list)
{
	const struct wr_sim *sim = list->sim;
	uint64_t period_ns = sim->plan->period_ns, last_ns = 0;
	__int128 rate = (__int128)most(sim), level = 0;
	__int128 burst = (__int128)(sim->plan->burst ? sim->plan->burst : most(sim)) * period_ns;

	for (size_t i = 0; i < list->count; i++) {
		const struct wr_sim_admission *now = &list->at[i];
		__int128 bound = burst + 2 * US * rate; /* the clock of Redis counts µs */

		level -= rate * (now->at_ns - last_ns);
		for (unsigned j = 0; j < sim->loss_count; j++) {
			const struct wr_sim_loss *loss = &sim->losses[j];
			uint64_t from_ns = loss->from_ns > last_ns ? loss->from_ns : last_ns;
			uint64_t to_ns = loss->to_ns < now->at_ns ? loss->to_ns : now->at_ns;

			if (!loss->changed && to_ns > from_ns)
				level -= rate * (to_ns - from_ns);
			if (loss->felt_ns >= last_ns && loss->felt_ns < now->at_ns)
				level -= extra(sim, loss);
			else if (loss->from_ns <= now->at_ns && loss->felt_ns >= now->at_ns)
				bound += extra(sim, loss);
		}
		level = (level > 0 ? level : 0) + (__int128)now->cost * period_ns;
		last_ns = now->at_ns;
		if (level > bound)
			too_many(list, (uint64_t)((level + period_ns - 1) / period_ns),
				 (uint64_t)(bound / period_ns), now->at_ns);
	}
}

static void check_hard(struct wr_sim *sim, unsigned key)
{
	bool windows = sim->plan->algorithm == WEIR_FIXED_WINDOW ||
		       sim->plan->algorithm == WEIR_SLIDING_COUNTER;
	struct list list = list_of(sim, key, windows ? by_window : by_time);

	switch (sim->plan->algorithm) {
	case WEIR_FIXED_WINDOW:
		check_fixed(&list);
		break;
	case WEIR_SLIDING_LOG:
		check_log(&list);
		break;
	case WEIR_SLIDING_COUNTER:
		check_counter(&list);
		break;
	default:
		check_token(&list);
	}
	free(list.at);
}

/* ---- nothing is refused that need not be ---- */

/* Longer than an answer takes, where nothing is in its way; the script may have to be sent along.
 */
static uint64_t late(const struct wr_sim_plan *plan)
{
	return 5 * (plan->delay_ns + 20 * plan->jitter_ns) + 1000000;
}

static uint64_t came_in(const struct wr_sim *sim, unsigned key, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sim->arrival_count; i++)
		if (sim->arrivals[i].key == key && sim->arrivals[i].at_ns >= from_ns &&
		    sim->arrivals[i].at_ns < to_ns)
			sum += sim->arrivals[i].cost;
	return sum;
}

static uint64_t admitted_in(const struct wr_sim *sim, unsigned key, uint64_t from_ns,
			    uint64_t to_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key && sim->admissions[i].at_ns >= from_ns &&
		    sim->admissions[i].at_ns < to_ns)
			sum += sim->admissions[i].cost;
	return sum;
}

/* A calm run of single requests in fixed windows: each whole window admits all there is, or the
 * limit. Who comes too late in a window to be heard in it does not count, nor who comes so early
 * that a refusal of the last one is still remembered. */
static void check_all_used(struct wr_sim *sim, unsigned key)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t late_ns = late(plan);
	uint64_t start_ns = (plan->period_ns - WR_SIM_EPOCH_NS % plan->period_ns) % plan->period_ns;

	if (2 * late_ns >= plan->period_ns)
		return;
	for (; start_ns + plan->period_ns <= plan->length_ns; start_ns += plan->period_ns) {
		uint64_t end_ns = start_ns + plan->period_ns;
		uint64_t came = came_in(sim, key, start_ns + late_ns, end_ns - late_ns);
		uint64_t admitted = admitted_in(sim, key, start_ns, end_ns);
		uint64_t least = came < plan->limit ? came : plan->limit;

		/* What one node has borrowed another one can not have. */
		if (plan->consistency == WR_LEASE)
			least = least * 9 / 10 > 2ul * plan->nodes
					? least * 9 / 10 - 2ul * plan->nodes
					: 0;
		if (admitted < least)
			wr_sim_fail(sim, "key %u: %llu admitted in a calm window of %llu", key,
				    (unsigned long long)admitted, (unsigned long long)least);
	}
}

/* ---- what is counted at the end ---- */

/* Fixed windows, and Redis lost nothing: it has counted all that was admitted, and no more, where
 * nothing happened, than what was burnt. */
static void check_sight(struct wr_sim *sim, unsigned node, unsigned key)
{
	const struct wr_sim_sight *sight = &sim->sights[node][key];
	uint64_t period_ns = sim->plan->period_ns, counted = 0, used, window;

	if (!sight->seen) {
		if (sim->plan->timeout_ns > late(sim->plan))
			wr_sim_fail(sim, "node %u gets no answer at the end", node);
		return;
	}
	used = sight->limit - sight->remaining;
	window = (uint64_t)((int64_t)(WR_SIM_EPOCH_NS + sight->at_ns) +
			    sim->servers[0].master->skew_ns) /
		 period_ns;
	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key && is_hard(&sim->admissions[i]) &&
		    sim->admissions[i].at_us / (period_ns / US) == window)
			counted += sim->admissions[i].cost;
	if (counted > used || (!sim->plan->faults && used - counted > sim->burnt))
		wr_sim_fail(sim, "key %u: %llu admitted in the last window, and Redis has %llu",
			    key, (unsigned long long)counted, (unsigned long long)used);
}

/* ---- the share ---- */

/* Without the store a node admits as long as what it had in this window, all told, is within its
 * share. Windows are those of its own clock; a table that is lost forgets. */
static void check_share(struct wr_sim *sim, size_t at)
{
	const struct wr_sim_admission *now = &sim->admissions[at];
	uint64_t period_ns = sim->plan->period_ns, sum = 0;
	uint64_t window = (WR_SIM_EPOCH_NS + now->told_ns) / period_ns;
	uint64_t share = most(sim) / now->nodes ? most(sim) / now->nodes : 1;

	for (size_t i = at + 1; i > 0; i--) {
		const struct wr_sim_admission *other = &sim->admissions[i - 1];

		if ((WR_SIM_EPOCH_NS + other->told_ns) / period_ns != window)
			break;
		if (other->key == now->key && other->node == now->node)
			sum += other->cost;
	}
	if (sum > share)
		wr_sim_fail(sim, "key %u: node %u has %llu, its share is %llu", now->key, now->node,
			    (unsigned long long)sum, (unsigned long long)share);
}

/* ---- units of leases ---- */

/* A node that has been idle for longer than leases last has none, and knows what became of each
 * unit; and what it calls spent is what was admitted. A client that leaves late gives back what was
 * reported as spent already. */
static void check_units(struct wr_sim *sim, const struct wr_sim_node *node,
			const struct wr_central_info *info)
{
	const struct wr_central_counts *counts = &info->counts;
	bool exact = !wr_sim_may(sim, WR_SIM_LEAVE) && !sim->plan->pairs_percent;

	if (info->leases)
		wr_sim_fail(sim, "node %u: %u leases are held by nobody's wish", node->number,
			    info->leases);
	if (counts->units_granted !=
	    counts->units_spent + counts->units_returned + counts->units_burnt)
		wr_sim_fail(sim,
			    "node %u: %llu units granted, %llu spent, %llu returned, %llu burnt",
			    node->number, (unsigned long long)counts->units_granted,
			    (unsigned long long)counts->units_spent,
			    (unsigned long long)counts->units_returned,
			    (unsigned long long)counts->units_burnt);
	if (wr_sim_may(sim, WR_SIM_KILL) || wr_sim_may(sim, WR_SIM_CRASH))
		return;
	if (exact ? node->spent != counts->units_spent : node->spent > counts->units_spent)
		wr_sim_fail(sim, "node %u: %llu units spent, and %llu reported", node->number,
			    (unsigned long long)node->spent,
			    (unsigned long long)counts->units_spent);
}

static void check_leases(struct wr_sim *sim)
{
	struct wr_central_info *info = wr_lab_alloc(1, sizeof *info);

	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		if (!sim->nodes[i].home.central)
			continue;
		wr_central_info(sim->nodes[i].home.central, info);
		sim->burnt += info->counts.units_burnt + info->counts.returns_lost;
		check_units(sim, &sim->nodes[i], info);
	}
	free(info);
}

void wr_sim_check(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	bool fixed = plan->algorithm == WEIR_FIXED_WINDOW;

	if (plan->consistency == WR_LEASE)
		check_leases(sim);
	for (unsigned key = 0; key < plan->keys; key++) {
		check_hard(sim, key);
		if (fixed && !plan->faults && !plan->pairs_percent && plan->costs == 1 &&
		    !sim->report->failed)
			check_all_used(sim, key);
	}
	if (fixed && !sim->report->losses && !wr_sim_may(sim, WR_SIM_RULES))
		for (unsigned i = 0; i < plan->nodes * plan->keys; i++)
			check_sight(sim, i / plan->keys, i % plan->keys);
	if (fixed && !wr_sim_may(sim, WR_SIM_SKEW) && !wr_sim_may(sim, WR_SIM_CRASH) &&
	    !wr_sim_may(sim, WR_SIM_LEAVE))
		for (size_t i = 0; i < sim->admission_count; i++)
			if (sim->admissions[i].how == WR_SIM_BY_SHARE)
				check_share(sim, i);
}
