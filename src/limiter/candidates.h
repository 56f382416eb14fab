/* Candidates: the limits under `candidates` of a rule. A candidate is never enforced. The
 * statistics count the decisions that it would have made.
 *
 * After each decision that is counted for the rule, each candidate takes the cost of the request
 * from its own counter, at the time of the decision. This counter is identified by the key of the
 * rule's counter and the candidate's algorithm, period and name. The counter is always in this
 * table, even if the central store decides the rule. A candidate has no effect on the request. The
 * units of a candidate are not given back if the client disconnects. */
#ifndef WR_LIMITER_CANDIDATES_H
#define WR_LIMITER_CANDIDATES_H

#include "limiter/ask.h"

/* Returns the slot of a candidate in the statistics. `rule_slot` is the slot of the candidate's
 * rule. Returns WEIR_STAT_OTHER if there is no slot; the candidate is then not counted. */
uint32_t wr_limiter_candidate_slot(const struct wr_stats *stats,
				   const struct wr_rules_limit *candidate, uint32_t rule_slot);

/* Takes units from the counters of all candidates of the need's rule, and counts the decisions of
 * the candidates. */
void wr_candidates_try(const struct weir_ask *ask, struct wr_lane *lane, struct wr_ask_need *need);

/* Settles the units that the candidates took at the decision of the request, of which `actual` were
 * used. Candidates with slots give their slots back after max_hold only. */
void wr_candidates_settle(const struct weir_ask *ask, const struct wr_ask_need *need,
			  int64_t actual, uint64_t now_ns);

/* Gives units back to the counters of all candidates of the need's rule. Called for a need with a
 * negative cost. */
void wr_candidates_return(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
