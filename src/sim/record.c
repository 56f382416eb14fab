/* Records the admissions and arrivals of a run. Contains the functions with which the oracle
 * searches the recorded admissions. */
#include <stdlib.h>
#include <string.h>

#include "sim/oracle.h"

/* ---- the record ---- */

void wr_sim_admission_add(struct wr_sim *sim, struct wr_sim_admission admission)
{
	sim->admissions = wr_sim_grow(sim->admissions, sim->admission_count, &sim->admission_cap,
				      sizeof admission);
	sim->admissions[sim->admission_count++] = admission;
}

void wr_sim_admission_cancel(struct wr_sim *sim, uint64_t request)
{
	for (size_t i = sim->admission_count; i > 0; i--) {
		struct wr_sim_admission *one = &sim->admissions[i - 1];

		if (one->request != request)
			continue;
		if (one->how == WR_SIM_BY_LEASE)
			sim->nodes[one->node].spent -= one->cost;
		one->returned = one->cost;
		one->cost = wr_sim_is_slots(sim->plan, one->key) ? one->cost : 0;
		one->ended_ns = sim->now_ns;
	}
}

bool wr_sim_is_slots(const struct wr_sim_plan *plan, unsigned key)
{
	return key >= plan->keys && plan->second_algorithm == WEIR_CONCURRENT;
}

void wr_sim_admission_settle(struct wr_sim *sim, uint64_t request, uint32_t actual)
{
	for (size_t i = sim->admission_count; i > 0; i--) {
		struct wr_sim_admission *one = &sim->admissions[i - 1];

		if (one->request != request)
			continue;
		one->ended_ns = sim->now_ns;
		if (wr_sim_is_slots(sim->plan, one->key))
			continue;
		if (actual > one->cost) {
			one->owed = actual - one->cost;
			continue;
		}
		if (one->how == WR_SIM_BY_LEASE)
			sim->nodes[one->node].spent -= one->cost - actual;
		one->cost = actual;
	}
}

void wr_sim_admission_end(struct wr_sim *sim, uint64_t request)
{
	for (size_t i = sim->admission_count; i > 0; i--)
		if (sim->admissions[i - 1].request == request)
			sim->admissions[i - 1].ended_ns = sim->now_ns;
}

void wr_sim_arrival_add(struct wr_sim *sim, uint8_t key, uint32_t cost)
{
	if (sim->plan->faults && !sim->plan->calendar)
		return;
	sim->arrivals = wr_sim_grow(sim->arrivals, sim->arrival_count, &sim->arrival_cap,
				    sizeof *sim->arrivals);
	sim->arrivals[sim->arrival_count++] = (struct wr_sim_arrival){sim->now_ns, cost, key};
}

/* ---- helpers of the oracle ---- */

int wr_sim_by_time(const void *a, const void *b)
{
	const struct wr_sim_admission *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->request < y->request ? -1 : x->request > y->request;
}

int wr_sim_by_window(const void *a, const void *b)
{
	const struct wr_sim_admission *x = a, *y = b;

	if (x->at_us != y->at_us)
		return x->at_us < y->at_us ? -1 : 1;
	return wr_sim_by_time(a, b);
}

bool wr_sim_is_hard(const struct wr_sim_admission *admission)
{
	return admission->how == WR_SIM_BY_REDIS || admission->how == WR_SIM_BY_LEASE;
}

struct wr_sim_list wr_sim_list_admissions(struct wr_sim *sim, unsigned key, bool hard,
					  int (*order)(const void *, const void *))
{
	struct wr_sim_list list = {.sim = sim, .key = key};

	list.at = wr_sim_alloc(sim->admission_count + 1, sizeof *list.at);
	for (size_t i = 0; i < sim->admission_count; i++)
		if (sim->admissions[i].key == key && sim->admissions[i].cost &&
		    (!hard || wr_sim_is_hard(&sim->admissions[i])))
			list.at[list.count++] = sim->admissions[i];
	qsort(list.at, list.count, sizeof *list.at, order);
	return list;
}

uint64_t wr_sim_limit_max(const struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t most = wr_sim_has_fault(sim, WR_SIM_RULES) && plan->limit_after > plan->limit
				? plan->limit_after
				: plan->limit;

	return most + (most * plan->soft_percent + 99) / 100;
}

uint64_t wr_sim_count_losses(const struct wr_sim *sim, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < sim->loss_count; i++)
		count += !sim->losses[i].limit_changed && sim->losses[i].from_ns <= to_ns &&
			 sim->losses[i].lease_end_ns >= from_ns;
	return count;
}

void wr_sim_fail_excess(const struct wr_sim_list *list, uint64_t sum, uint64_t allowed,
			uint64_t at_ns)
{
	wr_sim_fail(list->sim, "key %u: %llu admitted where %llu are allowed, up to %llu.%06llu ms",
		    list->key, (unsigned long long)sum, (unsigned long long)allowed,
		    (unsigned long long)(at_ns / 1000000), (unsigned long long)(at_ns % 1000000));
}

uint64_t wr_sim_max_reply_ns(const struct wr_sim_plan *plan)
{
	/* A reply takes longer with a cluster, because the cluster may redirect the call to a
	 * server that the node must connect to first. */
	return (plan->shards ? 20 : 5) * (plan->delay_ns + 20 * plan->jitter_ns) + 1000000;
}
