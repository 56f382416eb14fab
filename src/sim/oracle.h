/* Helpers that the checks of the oracle share. */
#ifndef WR_SIM_ORACLE_H
#define WR_SIM_ORACLE_H

#include "sim/sim_inner.h"

/* Sorted admissions of a key. */
struct wr_sim_list {
	struct wr_sim *sim;
	struct wr_sim_admission *at; /* the caller frees it */
	size_t count;
	unsigned key;
};

/* Returns the admissions of a key that were not cancelled. `hard`: only those by Redis or a
 * lease. */
struct wr_sim_list wr_sim_list_admissions(struct wr_sim *sim, unsigned key, bool hard,
					  int (*order)(const void *, const void *));
int wr_sim_by_time(const void *a, const void *b);   /* by true time */
int wr_sim_by_window(const void *a, const void *b); /* by the clock that selects the window */
/* Whether Redis or a lease admitted it, so that the limit holds exactly. */
bool wr_sim_is_hard(const struct wr_sim_admission *admission);

/* The highest limit of the run, with its soft overshoot. */
uint64_t wr_sim_limit_max(const struct wr_sim *sim);
/* Number of losses of data that overlap the time from from_ns to to_ns. */
uint64_t wr_sim_count_losses(const struct wr_sim *sim, uint64_t from_ns, uint64_t to_ns);
/* Reports that `sum` was admitted where `allowed` is the maximum. */
void wr_sim_fail_excess(const struct wr_sim_list *list, uint64_t sum, uint64_t allowed,
			uint64_t at_ns);
/* Returns a time that a reply never exceeds without faults, even if the script must be sent too. */
uint64_t wr_sim_max_reply_ns(const struct wr_sim_plan *plan);

/* oracle.c, oracle_end.c, oracle_eventual.c, oracle_sentinel.c */
void wr_sim_check_hard(struct wr_sim *sim, unsigned key);
void wr_sim_check_end(struct wr_sim *sim);
void wr_sim_check_eventual(struct wr_sim *sim, unsigned key);
void wr_sim_check_terms(struct wr_sim *sim);

#endif
