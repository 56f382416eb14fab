/* weir_take_all(): several limits on one request, all or none. Checks the caller's needs, joins
 * those on the same counter, and takes with store/need.c. Never more is admitted than every limit
 * allows. Two requests at the same time may refuse each other where one could have passed. */
#include "store/need.h"

static int check_need(const struct weir_need *need)
{
	if (!need->limit || (!need->key && need->len) || need->len > WR_KEY_MAX || need->cost < 0)
		return WEIR_EINVAL;
	return need->limit->size == sizeof *need->limit && need->limit->checked ? 0 : WEIR_ELIMIT;
}

int weir_take_all(struct weir_table *table, const struct weir_need *needs, size_t count,
		  uint64_t now_ns, struct weir_decision *decisions, int *admitted)
{
	struct wr_need counters[WEIR_NEEDS_MAX], *order[WEIR_NEEDS_MAX];
	uint8_t counter_of[WEIR_NEEDS_MAX]; /* index in counters, for each of needs */
	size_t used = 0, ordered = 0;

	if (!table || (!needs && count) || (!decisions && count) || !admitted)
		return WEIR_EINVAL;
	if (count > WEIR_NEEDS_MAX)
		return WEIR_EMANY;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	order[0] = NULL; /* a request without needs is admitted */
	for (size_t i = 0; i < count; i++) {
		int rc = check_need(&needs[i]);
		struct wr_key key;
		size_t at = 0;

		if (rc < 0)
			return rc;
		key = wr_hash_key(table->secret, needs[i].key, needs[i].len,
				  needs[i].limit->checked);
		while (at < used && counters[at].key.tag != key.tag)
			at++;
		counter_of[i] = (uint8_t)at;
		if (at == used) {
			counters[at].limit = needs[i].limit;
			counters[at].key = key;
			counters[at].cost = 0;
			used++;
			wr_needs_add(order, &ordered, &counters[at]);
		}
		if (__builtin_add_overflow(counters[at].cost, needs[i].cost, &counters[at].cost))
			counters[at].cost = INT64_MAX;
	}
	*admitted = wr_needs_take(table, order, ordered, now_ns);
	for (size_t i = 0; i < count; i++)
		decisions[i] = counters[counter_of[i]].decision;
	return 0;
}
