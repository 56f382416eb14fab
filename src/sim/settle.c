/* Checks runs whose requests are settled when their responses are sent: debts, and limits on
 * concurrent requests. request.c and oracle.c call these functions. */
#include <stdlib.h>

#include "limiter/ask.h"
#include "sim/oracle.h"
#include "rules/rules.h"

#define US 1000u

/* ---- debts ---- */

/* Returns the largest debt of the first limit. */
static uint64_t largest_debt(const struct wr_sim_plan *plan)
{
	if (plan->max_debt >= 0)
		return (uint64_t)plan->max_debt;
	return plan->burst ? plan->burst : plan->limit;
}

/* Reports and changes of the limit can raise a count beyond the largest debt, and so can units of
 * the grace of soft mode. Runs with one of these are not checked. */
void wr_sim_check_debt(const struct wr_sim_request *request)
{
	struct wr_sim *sim = request->node->sim;
	const struct wr_sim_plan *plan = sim->plan;
	const struct wr_ask_need *need = &request->ask->needs[0];

	if (!plan->settles || sim->report->failed || wr_sim_has_fault(sim, WR_SIM_RULES) ||
	    plan->soft_percent || need->decided_by != WR_NEED_CENTRAL)
		return;
	if (need->need.decision.debt > largest_debt(plan))
		wr_sim_fail(sim, "key %u: a debt of %u, at most %llu are allowed", request->keys[0],
			    need->need.decision.debt, (unsigned long long)largest_debt(plan));
}

/* Checks an admission in a fixed window of a run without faults: debts that Redis has charged in
 * the window before it count. If the debts of the window are so large that max_debt may have cut
 * them, the window is not checked. */
static void check_debt_paid(const struct wr_sim_list *list, size_t at)
{
	const struct wr_sim_plan *plan = list->sim->plan;
	const struct wr_sim_admission *now = &list->at[at];
	uint64_t window = wr_sim_window_of(plan, now->at_us), sum = 0, owed = 0;
	uint64_t late_ns = wr_sim_max_reply_ns(plan), epoch_ns = wr_sim_epoch_ns(plan);

	for (size_t i = 0; i < list->count; i++) {
		const struct wr_sim_admission *one = &list->at[i];

		if (i <= at && wr_sim_window_of(plan, one->at_us) == window)
			sum += one->cost;
		if (one->owed && one->ended_ns + late_ns < now->at_ns &&
		    wr_sim_window_of(plan, (epoch_ns + one->ended_ns) / US) == window)
			owed += one->owed;
	}
	if (owed <= largest_debt(plan) && sum + owed > plan->limit)
		wr_sim_fail_excess(list, sum + owed, plan->limit, now->at_ns);
}

/* ---- slots ---- */

void wr_sim_check_slots_share(const struct wr_sim_request *request,
			      const struct wr_sim_admission *admission)
{
	struct wr_sim_node *node = request->node;
	struct wr_sim *sim = node->sim;
	uint32_t share = sim->plan->second_limit / admission->nodes, held = 1;

	share = share ? share : 1;
	if (wr_sim_has_fault(sim, WR_SIM_SKEW)) /* slots end by the node's clock */
		return;
	for (size_t i = 0; i < sim->admission_count; i++) {
		const struct wr_sim_admission *one = &sim->admissions[i];

		held += one->key == admission->key && one->node == node->number &&
			one->how != WR_SIM_BY_ALLOW && !one->ended_ns &&
			sim->now_ns - one->decided_ns < sim->plan->second_period_ns;
	}
	if (held > share)
		wr_sim_fail(sim, "key %u: node %u holds %u slots, its share is %u", admission->key,
			    node->number, held, share);
}

void wr_sim_check_slots_free(const struct wr_sim_request *request)
{
	const struct wr_ask_need *need = &request->ask->needs[1];
	const struct wr_sim_plan *plan = request->node->sim->plan;

	if (!wr_sim_is_slots(plan, plan->keys) || need->failed)
		return;
	if (need->need.decision.remaining != plan->second_limit)
		wr_sim_fail(request->node->sim, "key %u: %u of %u slots are free at the end",
			    request->keys[0], need->need.decision.remaining, plan->second_limit);
}

/* Returns the time from which the slot can be free: the request has ended, or max_hold has
 * passed. */
static uint64_t free_from(const struct wr_sim_plan *plan, const struct wr_sim_admission *one)
{
	uint64_t end_ns = one->at_ns + plan->second_period_ns;

	return one->ended_ns && one->ended_ns < end_ns ? one->ended_ns : end_ns;
}

/* Checks that Redis never has more requests in flight than slots. Each loss of data allows the
 * limit once more. The clock of Redis has a resolution of 1 µs, and a slot that is taken in the same
 * µs as another one has a later token. */
static void check_slots(const struct wr_sim_list *list)
{
	const struct wr_sim *sim = list->sim;

	for (size_t i = 0; i < list->count; i++) {
		uint64_t now_ns = list->at[i].at_ns, first_ns = now_ns, held = 0, allowed;

		for (size_t j = 0; j <= i; j++) {
			const struct wr_sim_admission *one = &list->at[j];

			if (free_from(sim->plan, one) <= now_ns + 20 * US)
				continue;
			held++;
			first_ns = one->at_ns < first_ns ? one->at_ns : first_ns;
		}
		allowed =
			sim->plan->second_limit * (1 + wr_sim_count_losses(sim, first_ns, now_ns));
		if (held > allowed)
			wr_sim_fail_excess(list, held, allowed, now_ns);
	}
}

void wr_sim_check_settled(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	bool exact = !plan->faults && plan->algorithm == WEIR_FIXED_WINDOW && !plan->soft_percent &&
		     !plan->count_rejected && plan->consistency == WR_STRICT;

	for (unsigned key = 0; key < 2 * plan->keys; key++) {
		bool slots = wr_sim_is_slots(plan, key);
		struct wr_sim_list list;

		if (!slots && (!exact || key >= plan->keys))
			continue;
		list = wr_sim_list_admissions(sim, key, true, wr_sim_by_time);
		if (slots)
			check_slots(&list);
		for (size_t i = 0; !slots && i < list.count; i++)
			check_debt_paid(&list, i);
		free(list.at);
	}
}
