/* Checks runs in which failovers lose writes. Only units that were lost may be admitted again.
 * oracle.c calls wr_sim_check_terms().
 *
 * A promoted replica begins with the counts that it had copied. So these two bounds hold:
 *
 *   copied counts + admissions of the promoted replica <= limit
 *   all admissions <= limit + units that earlier primaries counted and no replica copied
 *
 * Each earlier primary adds at most one limit to the second bound. This file checks the first
 * bound, but only for admissions by Redis. oracle.c checks the second bound, for admissions by
 * leases too. */
#include <stdlib.h>
#include <string.h>

#include "sim/oracle.h"
#include "rules/rules.h"

/* Returns true if the counts of a term (the time in which one server is primary) include the
 * admission. */
static bool is_known(const struct wr_sim_sentinel_state *sentinels, uint32_t term,
		     const struct wr_sim_admission *admission)
{
	uint64_t until_ns = UINT64_MAX;

	while (term != WR_SIM_TERMS) {
		if (admission->term == term)
			return admission->taken_ns <= until_ns;
		if (sentinels->terms[term].until_ns < until_ns)
			until_ns = sentinels->terms[term].until_ns;
		term = sentinels->terms[term].parent;
	}
	return false;
}

/* Checks the admissions by Redis that the counts of this term include. During the check, `sim`
 * contains only these admissions, and its list of losses contains only the changes of the limit,
 * no losses of data. */
static void check_term(struct wr_sim *sim, uint32_t term)
{
	struct wr_sim_admission *all = sim->admissions;
	size_t all_count = sim->admission_count;
	struct wr_sim_loss *losses = wr_sim_alloc(WR_SIM_LOSSES, sizeof *losses);
	unsigned loss_count = sim->loss_count;

	memcpy(losses, sim->losses, sizeof sim->losses);
	sim->loss_count = 0;
	for (unsigned i = 0; i < loss_count; i++)
		if (losses[i].limit_changed)
			sim->losses[sim->loss_count++] = losses[i];
	sim->admissions = wr_sim_alloc(all_count + 1, sizeof *all);
	sim->admission_count = 0;
	for (size_t i = 0; i < all_count; i++)
		if (all[i].how == WR_SIM_BY_REDIS && is_known(sim->sentinels, term, &all[i]))
			sim->admissions[sim->admission_count++] = all[i];
	for (unsigned key = 0; key < sim->plan->keys; key++)
		wr_sim_check_hard(sim, key);
	free(sim->admissions);
	sim->admissions = all;
	sim->admission_count = all_count;
	memcpy(sim->losses, losses, sizeof sim->losses);
	sim->loss_count = loss_count;
	free(losses);
}

/* Checks that each node has found the primary at the end, some seconds after the last fault. */
static void check_primary_found(struct wr_sim *sim)
{
	for (unsigned i = 0; i < sim->plan->nodes; i++)
		for (unsigned key = 0; key < sim->plan->keys; key++)
			if (!sim->readings[i][key].valid &&
			    sim->plan->timeout_ns > wr_sim_max_reply_ns(sim->plan))
				wr_sim_fail(sim, "node %u gets no reply at the end", i);
}

/* Returns true if a call gave units back in this term, or in an earlier term whose counts this term
 * contains. The term can then not be checked: if Redis had lost these units before, the call
 * subtracted them from the units of other requests. */
static bool has_returns(const struct wr_sim_sentinel_state *sentinels, uint32_t term)
{
	for (; term != WR_SIM_TERMS; term = sentinels->terms[term].parent)
		if (sentinels->terms[term].returned)
			return true;
	return false;
}

void wr_sim_check_terms(struct wr_sim *sim)
{
	if (sim->plan->consistency == WR_EVENTUAL)
		return;
	check_primary_found(sim);
	if (sim->plan->consistency != WR_STRICT)
		return;
	for (uint32_t term = 0; term < sim->sentinels->term_count; term++)
		if (!has_returns(sim->sentinels, term))
			check_term(sim, term);
}
