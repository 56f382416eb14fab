/* Candidates: limits under `candidates` of a rule that only count what they would have decided.
 *
 * After each decision that counts for the rule, each candidate takes the same cost at the same time
 * from a counter of its own. The key of the rule's counter and the candidate's algorithm, period
 * and name identify that counter. It is always in this table, also if the rule is decided
 * centrally. A candidate has no effect on the request. Its units are not given back if the client
 * leaves. */
#ifndef WR_LIMITER_CANDIDATES_H
#define WR_LIMITER_CANDIDATES_H

#include "limiter/ask.h"

/* The slot of a candidate of the rule in `rule_slot`. WEIR_STAT_OTHER: it is not counted. */
uint32_t wr_candidate_slot(const struct wr_stats *stats, const struct wr_limit *candidate,
			   uint32_t rule_slot);

/* Takes from the candidates of the need's rule and counts their decisions. */
void wr_candidates_try(const struct weir_ask *ask, struct wr_lane *lane,
		       const struct wr_ask_need *need);

/* Gives the negative cost of a need back to the candidates of its rule. */
void wr_candidates_return(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
