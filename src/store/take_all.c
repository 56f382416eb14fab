/* weir_take_all(): takes units from several limits of one request, from all or from none. Checks
 * the caller's needs, adds up the costs of needs on the same counter, and calls store/need.c.
 * Concurrent requests may all be refused although one of them could have been admitted. */
#include <string.h>

#include "store/need.h"

/* The counters of a request, each of them once, and the order in which units are taken from
 * them. */
struct counters {
	struct wr_need each[WEIR_NEEDS_MAX], *order[WEIR_NEEDS_MAX];
	/* For each need of the caller, the index of its counter in `each`. */
	uint8_t of_need[WEIR_NEEDS_MAX];
	size_t count;
};

static int join_needs(const struct weir_table *table, const struct weir_need *needs, size_t count,
		      struct counters *c)
{
	size_t used = 0;

	c->count = 0;
	/* A request without needs is admitted: wr_needs_take() admits an empty list, and does not
	 * read `order`. This line only makes sure that `order` is initialised in this case. */
	c->order[0] = NULL;
	for (size_t i = 0; i < count; i++) {
		int rc = wr_store_check_need(&needs[i]);
		struct wr_key key;
		size_t at = 0;

		if (rc < 0)
			return rc;
		key = wr_hash_key(table->secret, needs[i].key, needs[i].len,
				  needs[i].limit->checked);
		while (at < used && c->each[at].key.tag != key.tag)
			at++;
		c->of_need[i] = (uint8_t)at;
		if (at == used) {
			c->each[at].limit = needs[i].limit;
			c->each[at].key = key;
			c->each[at].cost = 0;
			used++;
			wr_needs_add(c->order, &c->count, &c->each[at]);
		}
		if (__builtin_add_overflow(c->each[at].cost, needs[i].cost, &c->each[at].cost))
			c->each[at].cost = INT64_MAX;
	}
	return 0;
}

int weir_take_all(struct weir_table *table, const struct weir_need *needs, size_t count,
		  uint64_t now_ns, struct weir_decision *decisions, int *admitted)
{
	struct counters counters;
	int rc;

	if (!table || (!needs && count) || (!decisions && count) || !admitted)
		rc = WEIR_EINVAL;
	else if (count > WEIR_NEEDS_MAX)
		rc = WEIR_EMANY;
	else
		rc = now_ns > INT64_MAX ? WEIR_ETIME : join_needs(table, needs, count, &counters);
	if (rc < 0) {
		/* Zero results: a caller that ignores the error then admits nothing. */
		if (admitted)
			*admitted = 0;
		if (decisions)
			memset(decisions, 0, count * sizeof *decisions);
		return rc;
	}
	*admitted = wr_needs_take(table, counters.order, counters.count, now_ns);
	for (size_t i = 0; i < count; i++)
		decisions[i] = counters.each[counters.of_need[i]].decision;
	return 0;
}
