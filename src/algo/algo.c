/* The public functions of <weir/algo.h>. They check the arguments, because the functions of the
 * algorithms do not. In soft mode, a request that does not fit the limit is decided a second time,
 * under the higher ceiling (soft.h). */
#include <string.h>

#include "algo/log.h"
#include "algo/soft.h"
#include "algo/step.h"

static const struct {
	int number;
	const char *text;
} names[] = {
#define NAME(name, number, text) {number, text},
	WEIR_ALGORITHMS(NAME)
#undef NAME
};

static int check_arguments(const struct weir_limit *l, const struct weir_state *soft,
			   uint64_t now_ns)
{
	if (l->size != sizeof *l || l->checked == 0)
		return WEIR_ELIMIT;
	if (wr_soft_mode(l) && !soft)
		return WEIR_EINVAL;
	return now_ns > INT64_MAX ? WEIR_ETIME : 0;
}

/* Returns the error and zeroes *decision, so that a caller who ignores the error admits nothing. */
static int fail(int rc, struct weir_decision *decision)
{
	if (decision)
		*decision = (struct weir_decision){0};
	return rc;
}

/* Called in soft mode for a request that does not fit the limit. Records the request as an excess
 * (soft.h), unless its cost is 0. Returns false if the grace is over, so that the ceiling does not
 * apply. Otherwise returns true, and the caller decides the request again, under the ceiling. */
static bool try_overshoot(const struct weir_limit *l, struct weir_state *soft, int64_t cost,
			  uint64_t now_ns)
{
	bool may = wr_soft_phase(l, soft, now_ns) != WR_SOFT_SPENT;

	if (cost > 0)
		wr_soft_note(l, soft, now_ns);
	return may;
}

/* A key counts as fully reset only when soft mode is armed again (soft.h), even if its counter is
 * empty earlier. So if reset_after_ns is shorter than the time until then, raises it to that
 * time. */
static void soft_reset(const struct weir_limit *l, const struct weir_state *soft, uint64_t now_ns,
		       struct weir_decision *d)
{
	uint64_t armed_ns = wr_soft_reset_after(l, soft, now_ns);

	if (armed_ns > d->reset_after_ns)
		d->reset_after_ns = armed_ns;
}

static void soft_step(const struct weir_limit *l, struct weir_state *s, struct weir_state *soft,
		      int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	struct weir_state before = *s;
	uint64_t n = wr_amount(cost);

	wr_algo_step(l, l->capacity, s, cost, now_ns, d);
	if (d->admitted)
		return;

	struct weir_decision above;
	bool may = try_overshoot(l, soft, cost, now_ns);

	if (may)
		wr_algo_step(l, l->ceiling, &before, cost, now_ns, &above);
	if (may && above.admitted) {
		*s = before;
		*d = above;
		d->soft = 1;
		return;
	}
	d->retry_after_ns = wr_soft_retry_after(l, soft, now_ns, d->retry_after_ns,
						wr_wait(l, l->ceiling, s, n, now_ns));
}

int weir_step(const struct weir_limit *limit, struct weir_state *state, struct weir_state *soft,
	      int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	int rc = limit && state && decision ? check_arguments(limit, soft, now_ns) : WEIR_EINVAL;

	if (rc == 0 &&
	    (limit->algorithm == WEIR_SLIDING_LOG || limit->algorithm == WEIR_CONCURRENT))
		rc = WEIR_ELIMIT;
	if (rc)
		return fail(rc, decision);
	if (wr_soft_mode(limit)) {
		wr_soft_carry(limit, soft, now_ns);
		soft_step(limit, state, soft, cost, now_ns, decision);
		soft_reset(limit, soft, now_ns, decision);
	} else {
		wr_algo_step(limit, limit->capacity, state, cost, now_ns, decision);
	}
	return 0;
}

static void soft_log_step(const struct weir_limit *l, struct weir_log *log, struct weir_state *soft,
			  int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	struct wr_algo_log_plan within;

	wr_algo_log_plan(l, l->capacity, log, cost, now_ns, d, &within);
	if (d->admitted) {
		wr_algo_log_commit(log, &within);
		return;
	}

	struct weir_decision above;
	struct wr_algo_log_plan beyond;

	wr_algo_log_plan(l, l->ceiling, log, cost, now_ns, &above, &beyond);
	if (try_overshoot(l, soft, cost, now_ns) && above.admitted) {
		wr_algo_log_commit(log, &beyond);
		*d = above;
		d->soft = 1;
		return;
	}
	wr_algo_log_commit(log, &within);
	d->retry_after_ns =
		wr_soft_retry_after(l, soft, now_ns, d->retry_after_ns,
				    wr_algo_log_wait(l, l->ceiling, log, wr_amount(cost), now_ns));
}

int weir_log_step(const struct weir_limit *limit, struct weir_log *log, struct weir_state *soft,
		  int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	int rc = limit && log && decision ? check_arguments(limit, soft, now_ns) : WEIR_EINVAL;

	if (rc == 0 && limit->algorithm != WEIR_SLIDING_LOG)
		rc = WEIR_ELIMIT;
	if (rc == 0 && (log->capacity < limit->ceiling || (log->capacity && !log->stamps) ||
			!wr_algo_log_view_ok(log)))
		rc = WEIR_EINVAL;
	if (rc)
		return fail(rc, decision);
	if (wr_soft_mode(limit)) {
		wr_soft_carry(limit, soft, now_ns);
		soft_log_step(limit, log, soft, cost, now_ns, decision);
		soft_reset(limit, soft, now_ns, decision);
	} else {
		struct wr_algo_log_plan plan;

		wr_algo_log_plan(limit, limit->capacity, log, cost, now_ns, decision, &plan);
		wr_algo_log_commit(log, &plan);
	}
	return 0;
}

const char *weir_algorithm_name(int algorithm)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].number == algorithm)
			return names[i].text;
	return NULL;
}

int weir_algorithm_by_name(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i].text) == len && memcmp(names[i].text, name, len) == 0)
			return names[i].number;
	return 0;
}
