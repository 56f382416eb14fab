/* Counts the verdicts of a run, and passes them to the oracle in the order of time.
 *
 * Redis can decide a request of one node before a request of another node, although its reply to
 * the first node takes longer. So verdicts wait in a heap until no earlier verdict can come. */
#include <stdlib.h>

#include "lab/simulate/inner.h"

/* ---- the heap ---- */

/* If several requests were decided at the same time, the admitted requests come first: they took
 * the units that the others did not get. */
static bool is_before(const struct wr_sim_fleet_verdict *a, const struct wr_sim_fleet_verdict *b)
{
	if (a->counted_ns != b->counted_ns)
		return a->counted_ns < b->counted_ns;
	return a->admitted && !b->admitted;
}

static bool push(struct wr_lab_pending *heap, const struct wr_sim_fleet_verdict *verdict)
{
	size_t at = heap->count;

	if (heap->count == heap->cap) {
		size_t cap = heap->cap ? 2 * heap->cap : 1024;
		struct wr_sim_fleet_verdict *verdicts =
			realloc(heap->verdicts, cap * sizeof *verdicts);

		if (!verdicts)
			return false;
		heap->verdicts = verdicts;
		heap->cap = cap;
	}
	for (heap->count++; at && is_before(verdict, &heap->verdicts[(at - 1) / 2]);
	     at = (at - 1) / 2)
		heap->verdicts[at] = heap->verdicts[(at - 1) / 2];
	heap->verdicts[at] = *verdict;
	return true;
}

static struct wr_sim_fleet_verdict pop(struct wr_lab_pending *heap)
{
	struct wr_sim_fleet_verdict first = heap->verdicts[0];
	struct wr_sim_fleet_verdict last = heap->verdicts[--heap->count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < heap->count) {
		if (child + 1 < heap->count &&
		    is_before(&heap->verdicts[child + 1], &heap->verdicts[child]))
			child++;
		if (!is_before(&heap->verdicts[child], &last))
			break;
		heap->verdicts[at] = heap->verdicts[child];
		at = child;
	}
	heap->verdicts[at] = last;
	return first;
}

/* ---- judging ---- */

/* Records when client 1 got its units, by which the ages of unknown units are computed. */
static void note_units(struct wr_lab_state *state, const struct wr_sim_fleet_verdict *verdict)
{
	uint64_t window = verdict->counted_ns / state->scenario->period_ns;

	if (window != state->window_number)
		state->window_count = 0;
	state->window_number = window;
	for (uint32_t i = 0; i < verdict->cost && state->window_count < state->scenario->limit; i++)
		state->admitted_ns[state->window_count++] = verdict->counted_ns;
}

static void judge(struct wr_lab_state *state, const struct wr_sim_fleet_verdict *verdict)
{
	wr_lab_bounds_note(state->bounds, verdict, state->oracle);
	wr_lab_oracle_see(state->oracle, verdict->key, verdict->cost, verdict->counted_ns,
			  verdict->admitted);
	if (state->admitted_ns && verdict->key == 0 && verdict->admitted)
		note_units(state, verdict);
}

void wr_lab_verdicts_judge(struct wr_lab_state *state, uint64_t until_ns)
{
	struct wr_lab_pending *heap = &state->pending;

	while (heap->count && heap->verdicts[0].counted_ns < until_ns) {
		struct wr_sim_fleet_verdict verdict = pop(heap);

		judge(state, &verdict);
	}
}

static size_t point_of(const struct wr_lab_state *state, uint64_t at_ns)
{
	uint64_t point = (uint64_t)((unsigned __int128)at_ns * WR_LAB_SECTIONS /
				    state->scenario->duration_ns);

	return point < WR_LAB_SECTIONS ? (size_t)point : WR_LAB_SECTIONS - 1;
}

void wr_lab_verdict_note(void *context, const struct wr_sim_fleet_verdict *verdict)
{
	struct wr_lab_state *state = context;
	struct wr_lab_run *run = state->run;
	size_t point = state->sample;

	if (verdict->decider == WR_SIM_FLEET_NONE) {
		run->lost++;
		return;
	}
	if (verdict->begun_ns != verdict->decided_ns)
		point = point_of(state, verdict->begun_ns);
	if (verdict->admitted) {
		run->admitted++;
		run->curves.admitted[point]++;
	} else {
		run->refused++;
		run->curves.refused[point]++;
	}
	run->without_redis += verdict->decider == WR_SIM_FLEET_FAILURE;
	wr_lab_histogram_add(&run->latency, verdict->decided_ns - verdict->begun_ns);
	if (verdict->decider == WR_SIM_FLEET_TABLE && !state->pending.count)
		judge(state, verdict);
	else
		state->failed |= !push(&state->pending, verdict);
}

/* ---- what the nodes know ---- */

void wr_lab_knowledge_sample(struct wr_lab_state *state, uint64_t now_ns)
{
	struct wr_lab_run *run = state->run;
	uint32_t limit = state->scenario->limit, least = UINT32_MAX, most = 0;
	uint64_t used = wr_lab_oracle_used(state->oracle, 0, now_ns);
	uint32_t capped = used < limit ? (uint32_t)used : limit;

	for (uint32_t node = 0; node < state->layout.node_count; node++) {
		uint32_t known = wr_sim_fleet_used(state->fleet, node, 0);

		if (known == UINT32_MAX)
			continue;
		least = known < least ? known : least;
		most = known > most ? known : most;
		if (wr_lab_bounds_is_active(state->bounds, node, 0, now_ns))
			wr_lab_histogram_add(
				&run->age, known < capped ? now_ns - state->admitted_ns[known] : 0);
	}
	if (!state->first_seed || state->sample >= WR_LAB_SECTIONS)
		return;
	run->curves.has_known = true;
	run->curves.used[state->sample] = used < UINT32_MAX ? (uint32_t)used : UINT32_MAX;
	run->curves.least_known[state->sample] = least == UINT32_MAX ? 0 : least;
	run->curves.most_known[state->sample] = most;
}
