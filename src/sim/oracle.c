/* The oracle: compares the admissions of a run with the limit, by simple arithmetic that shares no
 * code with the algorithms. wr_sim_run() calls wr_sim_check().
 *
 * The time of an admission is the time at which Redis counted the units or the node spent units of
 * a lease. If data is lost between two admissions of a window, the window may admit the limit once
 * more. Cancelled admissions do not count. */
#include <stdlib.h>

#include "sim/oracle.h"
#include "rules/rules.h"

#define US 1000u

/* ---- the algorithms ---- */

/* The sum of the costs admitted in a window, and the true times of the first and the last admission
 * in the window. */
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

/* Checks that each window, by the master's clock, admits at most the limit. */
static void check_fixed(const struct wr_sim_list *list)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	uint64_t allowed;

	for (size_t i = 0; i < list->count;) {
		struct window window = {.number = wr_sim_window_of(plan, list->at[i].at_us),
					.first_ns = UINT64_MAX};

		for (;
		     i < list->count && wr_sim_window_of(plan, list->at[i].at_us) == window.number;
		     i++)
			window_add(&window, &list->at[i]);
		allowed =
			(wr_sim_limit_max(list->sim) +
			 wr_sim_grant_max(list->sim, list->key, window.first_ns, window.last_ns)) *
			(1 + wr_sim_count_losses(list->sim, window.first_ns, window.last_ns));
		if (window.sum > allowed)
			wr_sim_fail_excess(list, window.sum, allowed, window.last_ns);
	}
}

/* Checks a sliding log: at most the limit is admitted in any time that is one period long. */
static void check_log(const struct wr_sim_list *list)
{
	uint64_t period_ns = list->sim->plan->period_ns, sum = 0;

	for (size_t i = 0, first = 0; i < list->count; i++) {
		uint64_t now_ns = list->at[i].at_ns, allowed;

		sum += list->at[i].cost;
		while (list->at[first].at_ns + period_ns <= now_ns)
			sum -= list->at[first++].cost;
		allowed = (wr_sim_limit_max(list->sim) +
			   wr_sim_grant_max(list->sim, list->key, list->at[first].at_ns, now_ns)) *
			  (1 + wr_sim_count_losses(list->sim, list->at[first].at_ns, now_ns));
		if (sum > allowed)
			wr_sim_fail_excess(list, sum, allowed, now_ns);
	}
}

/* Checks a sliding counter: at each admission, the estimate is at most the limit. The estimate is
 * the count of this window plus a part of the count of the previous window. This part becomes
 * smaller as this window passes. Each loss allows the limit once more, plus one unit, because two
 * masters round their estimates down separately. */
static void check_counter(const struct wr_sim_list *list)
{
	uint64_t period_us = list->sim->plan->period_ns / US;
	struct window before = {.first_ns = UINT64_MAX}, now = before;

	for (size_t i = 0; i < list->count; i++) {
		const struct wr_sim_admission *one = &list->at[i];
		uint64_t number = one->at_us / period_us;
		uint64_t left = period_us - one->at_us % period_us, estimate, losses;
		uint64_t first_ns, last_ns, allowed;

		if (number != now.number) {
			before = now;
			if (number != now.number + 1)
				before = (struct window){.first_ns = UINT64_MAX};
			now = (struct window){.number = number, .first_ns = UINT64_MAX};
		}
		window_add(&now, one);
		estimate = now.sum + before.sum * left / period_us;
		first_ns = before.first_ns < now.first_ns ? before.first_ns : now.first_ns;
		last_ns = before.last_ns > now.last_ns ? before.last_ns : now.last_ns;
		losses = wr_sim_count_losses(list->sim, first_ns, last_ns);
		allowed = (wr_sim_limit_max(list->sim) +
			   wr_sim_grant_max(list->sim, list->key, one->at_ns, one->at_ns)) *
				  (1 + losses) +
			  losses;
		if (estimate > allowed)
			wr_sim_fail_excess(list, estimate, allowed, one->at_ns);
	}
}

/* Returns how many tokens beyond the burst are allowed because of this loss, in units of 1/period
 * of a token. If data was lost, this is one more burst.
 *
 * If only the limit changed, this is the number of tokens that a node can add in excess, but at
 * most one burst. The node adds the tokens for the time T since the bucket was last full, and uses
 * the new limit for all of T, even for the part before the change (algo/bucket.h). So the excess is
 * at most T multiplied by the difference of the limits. T is at most the time in which the lower
 * limit fills an empty bucket. */
static __int128 loss_allowance(const struct wr_sim *sim, unsigned key,
			       const struct wr_sim_loss *loss)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t burst = (plan->burst ? plan->burst : wr_sim_limit_max(sim)) +
			 wr_sim_grant_max(sim, key, loss->from_ns, loss->lease_end_ns);
	uint64_t low = plan->limit < plan->limit_after ? plan->limit : plan->limit_after;
	uint64_t jump = (wr_sim_limit_max(sim) - low) * (burst / low + 1);

	if (loss->limit_changed && jump < burst)
		return (__int128)jump * plan->period_ns;
	return (__int128)burst * plan->period_ns;
}

/* Checks that at most burst + rate · t is admitted in any time of length t. The check adds the
 * admitted costs to a bucket and empties the bucket at the rate. The bucket must never hold more
 * than the burst. A loss changes this in two ways:
 *
 *   From the start of the loss until its lease_end_ns, the bucket is allowed to hold
 *   loss_allowance() more. At lease_end_ns this amount is removed from the bucket.
 *
 *   If data was lost, the rate is doubled during the loss, because two masters can exist.
 *
 * Levels are in units of 1/period of a token. */
static void check_token(const struct wr_sim_list *list)
{
	const struct wr_sim *sim = list->sim;
	uint64_t period_ns = sim->plan->period_ns, last_ns = 0, slack_ns = 0;
	uint64_t most = wr_sim_limit_max(sim), tokens = sim->plan->burst;
	__int128 rate = (__int128)most, level = 0;
	__int128 burst = tokens ? (__int128)(tokens + (tokens * sim->plan->soft_percent + 99) / 100)
				: (__int128)most;

	burst *= period_ns;
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i].slack_ns > slack_ns)
			slack_ns = list->at[i].slack_ns;
	for (size_t i = 0; i < list->count; i++) {
		const struct wr_sim_admission *now = &list->at[i];
		/* The clock of Redis has a resolution of 1 µs, so its times are inexact. To be
		 * safe, the bound includes the tokens that are added in 2 µs. */
		__int128 bound = burst + (__int128)(2 * US + slack_ns) * rate;

		bound += (__int128)wr_sim_grant_max(sim, list->key, now->at_ns, now->at_ns) *
			 period_ns;
		level -= rate * (now->at_ns - last_ns);
		for (unsigned j = 0; j < sim->loss_count; j++) {
			const struct wr_sim_loss *loss = &sim->losses[j];
			uint64_t from_ns = loss->from_ns > last_ns ? loss->from_ns : last_ns;
			uint64_t to_ns = loss->to_ns < now->at_ns ? loss->to_ns : now->at_ns;

			if (!loss->limit_changed && to_ns > from_ns)
				level -= rate * (to_ns - from_ns);
			if (loss->lease_end_ns >= last_ns && loss->lease_end_ns < now->at_ns)
				level -= loss_allowance(sim, list->key, loss);
			else if (loss->from_ns <= now->at_ns && loss->lease_end_ns >= now->at_ns)
				bound += loss_allowance(sim, list->key, loss);
		}
		level = (level > 0 ? level : 0) + (__int128)now->cost * period_ns;
		last_ns = now->at_ns;
		if (level > bound)
			wr_sim_fail_excess(list, (uint64_t)((level + period_ns - 1) / period_ns),
					   (uint64_t)(bound / period_ns), now->at_ns);
	}
}

/* Checks that requests leave the leaky bucket's queue far enough apart: after a request with the
 * cost c, at least the time period · c / limit passes before the next request leaves. */
static void check_leaky(const struct wr_sim_list *list)
{
	const struct wr_sim_plan *plan = list->sim->plan;

	for (size_t i = 1; i < list->count; i++) {
		const struct wr_sim_admission *last = &list->at[i - 1], *now = &list->at[i];
		uint64_t least_ns = plan->period_ns * last->cost / plan->limit;
		uint64_t apart_ns = now->at_ns + now->delay_ns - last->at_ns - last->delay_ns;

		if (apart_ns + 3 * US < least_ns)
			wr_sim_fail(
				list->sim,
				"key %u: two requests proceed within %llu ns; the minimum is %llu",
				list->key, (unsigned long long)apart_ns,
				(unsigned long long)least_ns);
	}
}

static int compare_departures(const void *a, const void *b)
{
	const struct wr_sim_admission *x = a, *y = b;
	uint64_t x_ns = x->at_ns + x->delay_ns, y_ns = y->at_ns + y->delay_ns;

	return x_ns != y_ns ? (x_ns < y_ns ? -1 : 1) : wr_sim_by_time(a, b);
}

/* Returns true if check_leaky() can check the times at which requests leave the leaky bucket's
 * queue. These times are not exact if clients disconnect, because other requests then get the
 * positions of cancelled requests. They are not exact if data is lost, because the queue is then
 * empty. Clock skew, changes of the limit and a second limit make them inexact too. */
static bool is_queue_exact(const struct wr_sim *sim)
{
	return !sim->loss_count && !wr_sim_has_fault(sim, WR_SIM_LEAVE) &&
	       !wr_sim_has_fault(sim, WR_SIM_SKEW) && !wr_sim_has_fault(sim, WR_SIM_RULES) &&
	       !sim->plan->second_limit;
}

void wr_sim_check_hard(struct wr_sim *sim, unsigned key)
{
	bool windows = sim->plan->algorithm == WEIR_FIXED_WINDOW ||
		       sim->plan->algorithm == WEIR_SLIDING_COUNTER;
	struct wr_sim_list list =
		wr_sim_list_admissions(sim, key, true, windows ? wr_sim_by_window : wr_sim_by_time);

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
	case WEIR_LEAKY_BUCKET:
		qsort(list.at, list.count, sizeof *list.at, compare_departures);
		if (is_queue_exact(sim))
			check_leaky(&list);
		break;
	default:
		check_token(&list);
	}
	free(list.at);
}

/* Checks the second limit of each key. For this check, sim->plan is replaced by a plan whose first
 * limit is the second limit of the real plan. */
static void check_second(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	struct wr_sim_plan second = *plan;

	if (plan->second_algorithm == WEIR_CONCURRENT) /* settle.c checks it */
		return;
	second.limit = second.limit_after = plan->second_limit;
	second.algorithm = plan->second_algorithm;
	second.calendar = 0;
	second.period_ns = plan->second_period_ns;
	second.burst = second.soft_percent = second.second_limit = 0;
	sim->plan = &second;
	for (unsigned key = 0; key < plan->keys; key++)
		wr_sim_check_hard(sim, plan->keys + key);
	sim->plan = plan;
}

void wr_sim_check(struct wr_sim *sim)
{
	/* If moving slots are the only fault, the timeout is so long that no request times out.
	 * So with `consistency: strict`, Redis must decide every request. */
	if (sim->plan->shards && !(sim->plan->faults & ~(1u << WR_SIM_MOVE)) &&
	    sim->plan->consistency == WR_STRICT && sim->report->failed)
		wr_sim_fail(sim, "%llu requests were decided without Redis while slots moved",
			    (unsigned long long)sim->report->failed);
	if (sim->sentinels)
		wr_sim_check_terms(sim);
	for (unsigned key = 0; key < sim->plan->keys; key++)
		if (sim->plan->consistency == WR_EVENTUAL)
			wr_sim_check_eventual(sim, key);
		else
			wr_sim_check_hard(sim, key);
	if (sim->plan->second_limit)
		check_second(sim);
	if (sim->plan->settles)
		wr_sim_check_settled(sim);
	if (sim->plan->consistency != WR_EVENTUAL)
		wr_sim_check_end(sim);
	else if (!sim->plan->faults && sim->plan->algorithm == WEIR_FIXED_WINDOW &&
		 sim->report->overshoot_ppm > sim->report->gauge_ppm)
		wr_sim_fail(sim,
			    "the limit was exceeded by %u ppm, and nodes reported at most %u ppm",
			    sim->report->overshoot_ppm, sim->report->gauge_ppm);
}
