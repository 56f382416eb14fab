/* Compares the limit of a rule with its candidates, by what a table has counted for them, and
 * proposes a change. Called by tune_table.c. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/tune_table.h"

#define MILLION 1000000u

/* ---- limits ---- */

/* Returns the largest number of requests that the limit permits to one key within `period_ns`, or
 * UINT64_MAX if only one of the periods is that of a calendar window. For windows, the time begins
 * with a window. */
static uint64_t permitted_to_key(const struct wr_stats_limit_view *limit, uint64_t period_ns)
{
	double flow = limit->limit;

	if ((limit->period_ns == 0) != (period_ns == 0))
		return UINT64_MAX;
	if (period_ns)
		flow = (double)limit->limit * (double)period_ns / (double)limit->period_ns;
	if (limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET)
		return (uint64_t)(flow + limit->burst);
	return (uint64_t)(flow > limit->limit ? flow : limit->limit);
}

/* Returns whether a share of at least `ppm` millionths of the requests is untouched. */
static bool leaves_untouched(uint64_t requests, uint64_t refused, uint32_t ppm)
{
	uint32_t rest = MILLION - ppm;

	return refused <= requests / MILLION * rest + requests % MILLION * rest / MILLION;
}

static struct wr_cli_tune_table_limit make_limit(const struct wr_stats_limit_view *limit,
						 const struct wr_stats_limit_view *own,
						 uint64_t loaded_ns, uint64_t now_ns)
{
	return (struct wr_cli_tune_table_limit){
		.limit = *limit,
		.per_key = permitted_to_key(limit, own->period_ns),
		.may_start = now_ns < loaded_ns + limit->period_ns,
	};
}

static int compare_limits(const void *a, const void *b)
{
	const struct wr_cli_tune_table_limit *x = a, *y = b;

	if (x->per_key != y->per_key)
		return x->per_key < y->per_key ? -1 : 1;
	return x->would_refuse > y->would_refuse ? -1 : x->would_refuse < y->would_refuse;
}

/* Fills in the limit in force, then the candidates from the smallest to the largest. The totals of the
 * rule may contain decisions of earlier limits. The candidates were counted beside the rule, so if one
 * of them has requests, the row of the rule has the requests of the candidate with the most. */
static void list_limits(struct wr_cli_tune_table_rule *tuned, uint64_t now_ns)
{
	const struct weir_stat *stat = &tuned->rule->stat;
	struct wr_stats_limit_view own = wr_stat_limit(stat);
	struct wr_cli_tune_table_limit *first = &tuned->limits[0];

	*first = make_limit(&own, &own, stat->since_ns, now_ns);
	for (size_t i = 0; i < tuned->candidate_count; i++) {
		const struct weir_candidate *counts = &tuned->candidates[i];
		struct wr_stats_limit_view limit = wr_stats_candidate_limit(counts);
		struct wr_cli_tune_table_limit *row = &tuned->limits[i + 1];

		*row = make_limit(&limit, &own, counts->loaded_ns, now_ns);
		row->requests = counts->would_admit + counts->would_refuse;
		row->would_refuse = counts->would_refuse;
		row->rule_refused =
			counts->would_refuse - counts->refuses_more + counts->admits_more;
		if (row->requests > first->requests) {
			first->requests = row->requests;
			first->rule_refused = first->would_refuse = row->rule_refused;
		}
	}
	if (first->requests == 0) {
		first->requests = tuned->requests;
		first->rule_refused = first->would_refuse = tuned->refused;
	}
	tuned->limit_count = tuned->candidate_count + 1;
	qsort(&tuned->limits[1], tuned->candidate_count, sizeof *first, compare_limits);
}

/* Chooses the limit that permits the least to one key, of the limits that leave enough requests
 * untouched. Of equal limits, the one in force is chosen, then the one with fewer refusals. */
static enum wr_cli_tune_table_result choose_limit(struct wr_cli_tune_table_rule *tuned,
						  uint32_t untouched_ppm)
{
	const struct wr_cli_tune_table_limit *best = NULL;
	bool counted = false;

	for (size_t i = 0; i < tuned->limit_count; i++) {
		struct wr_cli_tune_table_limit *limit = &tuned->limits[i];
		bool many = limit->requests >= WR_ADVICE_REQUESTS;

		counted |= many;
		limit->enough = many && leaves_untouched(limit->requests, limit->would_refuse,
							 untouched_ppm);
		if (!limit->enough)
			continue;
		if (!best || limit->per_key < best->per_key ||
		    (limit->per_key == best->per_key && best != tuned->limits &&
		     limit->would_refuse < best->would_refuse))
			best = limit;
	}
	tuned->chosen = best ? (size_t)(best - tuned->limits) : tuned->limit_count;
	if (tuned->candidate_count == 0)
		return WR_TUNE_NO_CANDIDATES;
	if (!counted)
		return WR_TUNE_FEW_REQUESTS;
	return !best ? WR_TUNE_NONE_FITS : tuned->chosen ? WR_TUNE_CHANGE : WR_TUNE_KEEP;
}

/* ---- the proposal ---- */

/* Returns the candidate that would have refused the smallest share of its requests, or limit_count. It
 * must have counted enough, and have at least a tenth fewer refusals than the rule. Of candidates
 * with the same share, the one that permits the least to a key is returned; they are in this order. */
static size_t find_better(const struct wr_cli_tune_table_rule *tuned)
{
	size_t best = tuned->limit_count;
	double least = 2; /* above every share */

	for (size_t i = 1; i < tuned->limit_count; i++) {
		const struct wr_cli_tune_table_limit *limit = &tuned->limits[i];
		double share;

		if (limit->requests < WR_ADVICE_REQUESTS ||
		    limit->rule_refused < WR_ADVICE_REFUSALS ||
		    limit->would_refuse > limit->rule_refused - limit->rule_refused / 10)
			continue;
		share = (double)limit->would_refuse / (double)limit->requests;
		if (share >= least)
			continue;
		best = i;
		least = share;
	}
	return best;
}

static void propose_candidate(struct wr_cli_tune_table_rule *tuned, size_t at,
			      uint32_t untouched_ppm)
{
	const struct wr_cli_tune_table_limit *limit = &tuned->limits[at];
	char yaml[200], words[160];
	char refused[WR_NUMBER_WORDS], requests[WR_NUMBER_WORDS], own[WR_NUMBER_WORDS];

	tuned->proposed = at;
	wr_stats_limit_yaml(&limit->limit, yaml, sizeof yaml);
	snprintf(tuned->change, sizeof tuned->change, "rate_limit: %s", yaml);
	wr_number_words(limit->would_refuse, refused);
	wr_number_words(limit->requests, requests);
	wr_number_words(limit->rule_refused, own);
	snprintf(tuned->reason, sizeof tuned->reason,
		 "%s would have refused %s of %s requests, and the rule %s; %s %.10g %% untouched",
		 wr_stats_limit_words(&limit->limit, NULL, words, sizeof words), refused, requests,
		 own,
		 at == tuned->chosen ? "the smallest compared limit that leaves"
				     : "better than the rule, but it does not leave",
		 untouched_ppm / 1e4);
}

/* Takes over the first advice with a change. If the limit in force was chosen, only advice that
 * lowers a limit without refusals is of use. */
static void propose_advice(struct wr_cli_tune_table_rule *tuned)
{
	for (size_t i = 0; i < tuned->advice_count && !tuned->change[0]; i++) {
		const struct wr_advice *advice = &tuned->advice[i];

		if (!advice->yaml[0] ||
		    (tuned->result == WR_TUNE_KEEP && advice->kind != WR_ADVICE_NOT_REACHED))
			continue;
		snprintf(tuned->change, sizeof tuned->change, "%s", advice->yaml);
		snprintf(tuned->reason, sizeof tuned->reason, "%s: %s",
			 wr_advice_names[advice->kind], advice->text);
	}
}

static bool has_limit(const struct weir_stat *stat)
{
	return stat->algorithm && stat->algorithm != WEIR_CONCURRENT &&
	       !(stat->flags & WEIR_STAT_UNLIMITED);
}

void wr_cli_tune_table_choose(struct wr_cli_tune_table_rule *tuned, uint32_t untouched_ppm,
			      uint64_t now_ns)
{
	tuned->change[0] = tuned->reason[0] = '\0';
	tuned->limit_count = tuned->chosen = tuned->proposed = 0;
	if (!has_limit(&tuned->rule->stat)) {
		tuned->result = WR_TUNE_NO_LIMIT;
		return;
	}
	list_limits(tuned, now_ns);
	tuned->result = choose_limit(tuned, untouched_ppm);
	if (tuned->requests == 0)
		tuned->result = WR_TUNE_NO_REQUESTS;
	tuned->proposed = tuned->limit_count;
	if (tuned->result == WR_TUNE_CHANGE)
		propose_candidate(tuned, tuned->chosen, untouched_ppm);
	else if (tuned->result != WR_TUNE_NONE_FITS)
		propose_advice(tuned);
	else if (find_better(tuned) < tuned->limit_count)
		propose_candidate(tuned, find_better(tuned), untouched_ppm);
}
