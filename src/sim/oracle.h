/* What the checks share. */
#ifndef WR_SIM_ORACLE_H
#define WR_SIM_ORACLE_H

#include "sim/sim_inner.h"

/* Admissions of a key, in order. */
struct wr_sim_list {
	struct wr_sim *sim;
	struct wr_sim_admission *at; /* the caller's to free */
	size_t count;
	unsigned key;
};

/* hard: only those that hold by the store. */
struct wr_sim_list wr_sim_list(struct wr_sim *sim, unsigned key, bool hard,
			       int (*order)(const void *, const void *));
int wr_sim_by_time(const void *a, const void *b);
int wr_sim_by_window(const void *a, const void *b); /* by the clock that says which one it is */
bool wr_sim_is_hard(const struct wr_sim_admission *admission);

/* The limit, or the highest of those it had. */
uint64_t wr_sim_most(const struct wr_sim *sim);
/* Losses between the first and the last of these times. */
uint64_t wr_sim_losses(const struct wr_sim *sim, uint64_t from_ns, uint64_t to_ns);
void wr_sim_too_many(const struct wr_sim_list *list, uint64_t sum, uint64_t allowed,
		     uint64_t at_ns);
/* Longer than an answer takes, where nothing is in its way; the script may have to be sent along.
 */
uint64_t wr_sim_late_ns(const struct wr_sim_plan *plan);

/* oracle.c, oracle_end.c, oracle_eventual.c */
void wr_sim_check_hard(struct wr_sim *sim, unsigned key);
void wr_sim_check_end(struct wr_sim *sim);
void wr_sim_check_eventual(struct wr_sim *sim, unsigned key);
/* oracle_sentinel.c */
void wr_sim_check_lives(struct wr_sim *sim);

#endif
