/* Candidates: what other limits would have said.
 *
 * A candidate of a rule is asked after each decision that counts for the rule, admitted or refused,
 * with the same cost at the same time. Its counter is one of its own, named by the rule's counter
 * and by its algorithm, period and name; it is in this table, wherever the rule's is. Nothing it
 * says has any effect. What it admitted is not given back when a client leaves. */
#ifndef WR_LIMITER_CANDIDATES_H
#define WR_LIMITER_CANDIDATES_H

#include "limiter/ask.h"

/* Where a candidate of the rule in `rule_slot` is counted; WEIR_STAT_OTHER: nowhere. */
uint32_t wr_candidate_slot(const struct wr_stats *stats, const struct wr_limit *candidate,
			   uint32_t rule_slot);

/* Asks the candidates of a need's rule and counts what they say. */
void wr_candidates_try(const struct weir_ask *ask, struct wr_lane *lane,
		       const struct wr_ask_need *need);

/* A need that gives back does so to its rule's candidates too. */
void wr_candidates_return(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
