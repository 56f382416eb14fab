/* Helpers for the oracle, which checks the admissions of a run. */
#ifndef WR_SIM_ORACLE_H
#define WR_SIM_ORACLE_H

#include "sim/sim_inner.h"

/* The sorted admissions of one key. */
struct wr_sim_list {
	struct wr_sim *sim;
	struct wr_sim_admission *at; /* the caller of wr_sim_list_admissions() frees the array */
	size_t count;
	unsigned key;
};

/* Returns the admissions of a key that were not cancelled, sorted by qsort() with the comparison
 * function `order`. If `hard` is set, the list contains only admissions by Redis and admissions by
 * a lease. */
struct wr_sim_list wr_sim_list_admissions(struct wr_sim *sim, unsigned key, bool hard,
					  int (*order)(const void *, const void *));
/* Comparison functions for the parameter `order` of wr_sim_list_admissions(). wr_sim_by_time
 * compares at_ns, the true time. wr_sim_by_window compares at_us, which determines the window. */
int wr_sim_by_time(const void *a, const void *b);
int wr_sim_by_window(const void *a, const void *b);
/* Returns true if Redis or a lease admitted the request. The admissions by Redis and by leases
 * together must never exceed the limit. */
bool wr_sim_is_hard(const struct wr_sim_admission *admission);

/* Returns the highest limit of the run. For a soft limit, returns its ceiling. */
uint64_t wr_sim_limit_max(const struct wr_sim *sim);
/* Returns the number of losses of data that overlap the time from from_ns to to_ns. */
uint64_t wr_sim_count_losses(const struct wr_sim *sim, uint64_t from_ns, uint64_t to_ns);
/* Reports a failure: `sum` was admitted up to at_ns, although at most `allowed` may be admitted. */
void wr_sim_fail_excess(const struct wr_sim_list *list, uint64_t sum, uint64_t allowed,
			uint64_t at_ns);
/* Returns the longest time that a reply of Redis can take without faults. This includes the time to
 * send the script to Redis if Redis has not cached the script. */
uint64_t wr_sim_max_reply_ns(const struct wr_sim_plan *plan);

/* The checks of the oracle, defined in oracle.c, oracle_end.c, oracle_eventual.c and
 * oracle_sentinel.c. */
void wr_sim_check_hard(struct wr_sim *sim, unsigned key);
void wr_sim_check_end(struct wr_sim *sim);
void wr_sim_check_eventual(struct wr_sim *sim, unsigned key);
void wr_sim_check_terms(struct wr_sim *sim);

#endif
