/* Several limits on one request: all or none.
 *
 * Look at all; if none refuses, take in a fixed order, and give back what was taken if one refuses
 * after all. Never more is admitted than every limit allows; what may happen is that two requests
 * refuse each other where one could have passed. */
#include "store/store.h"

struct want {
	const struct weir_limit *limit;
	struct wr_key key;
	uint64_t cost;
	struct weir_decision *decision;
	struct weir_decision taken;
};

struct wants {
	struct want want[WEIR_NEEDS_MAX];
	size_t count;
	size_t of_need[WEIR_NEEDS_MAX]; /* which want a need became part of */
};

static int check_need(const struct weir_need *need)
{
	if (!need->limit || (!need->key && need->len) || need->len > WR_KEY_MAX || need->cost < 0)
		return WEIR_EINVAL;
	return need->limit->size == sizeof *need->limit && need->limit->checked ? 0 : WEIR_ELIMIT;
}

/* The want on the same counter, or a new one in its place in the order of tags. */
static size_t want_for(struct wants *wants, struct wr_key key)
{
	size_t i = 0;

	while (i < wants->count && wants->want[i].key.tag != key.tag)
		i++;
	return i;
}

static int collect(struct weir_table *table, const struct weir_need *needs, size_t count,
		   struct weir_decision *decisions, struct wants *wants)
{
	wants->count = 0;
	for (size_t i = 0; i < count; i++) {
		int rc = check_need(&needs[i]);
		struct wr_key key;
		size_t at;

		if (rc < 0)
			return rc;
		key = wr_hash_key(table->secret, needs[i].key, needs[i].len,
				  needs[i].limit->checked);
		at = want_for(wants, key);
		wants->of_need[i] = at;
		if (at == wants->count)
			wants->want[wants->count++] =
				(struct want){needs[i].limit, key, 0, &decisions[i], {0}};
		wants->want[at].cost += (uint64_t)needs[i].cost;
		if (wants->want[at].cost > INT64_MAX)
			wants->want[at].cost = INT64_MAX;
	}
	return 0;
}

static void order_of_takes(const struct wants *wants, uint8_t *order)
{
	for (size_t i = 0; i < wants->count; i++) {
		size_t at = i;
		const struct want *want = &wants->want[i];

		for (; at > 0; at--) {
			const struct want *before = &wants->want[order[at - 1]];

			if (!wr_takes_before(want->limit, want->key, before->limit, before->key))
				break;
			order[at] = order[at - 1];
		}
		order[at] = (uint8_t)i;
	}
}

static bool look_at_all(struct weir_table *table, struct wants *wants, uint64_t now_ns)
{
	bool admitted = true;

	for (size_t i = 0; i < wants->count; i++) {
		struct want *want = &wants->want[i];

		wr_decide_key(table, want->limit, want->key, (int64_t)want->cost, now_ns, WR_LOOK,
			      want->decision);
		admitted &= want->decision->admitted;
	}
	return admitted;
}

/* For what is done to a counter whatever it says. */
static void book(struct weir_table *table, const struct want *want, int64_t cost, uint64_t now_ns,
		 enum wr_purpose purpose)
{
	struct weir_decision ignored = {0};

	wr_decide_key(table, want->limit, want->key, cost, now_ns, purpose, &ignored);
}

static bool counts_rejected(const struct want *want)
{
	return want->limit->flags & WEIR_COUNT_REJECTED;
}

/* Takes in order. Returns how many were taken; one that was refused follows them. */
static size_t take_in_order(struct weir_table *table, struct wants *wants, const uint8_t *order,
			    uint64_t now_ns)
{
	for (size_t i = 0; i < wants->count; i++) {
		struct want *want = &wants->want[order[i]];

		wr_take_key(table, want->limit, want->key, (int64_t)want->cost, now_ns,
			    &want->taken);
		if (!want->taken.admitted) {
			*want->decision = want->taken;
			return i;
		}
	}
	return wants->count;
}

/* After a look that refused: mark who did, charge who charges for refusals. */
static void book_refusal(struct weir_table *table, struct wants *wants, uint64_t now_ns)
{
	for (size_t i = 0; i < wants->count; i++) {
		struct want *want = &wants->want[i];

		if (want->cost == 0)
			continue;
		if (counts_rejected(want))
			book(table, want, (int64_t)want->cost, now_ns, WR_CHARGE);
		else if (!want->decision->admitted)
			book(table, want, (int64_t)want->cost, now_ns, WR_MARK);
	}
}

/* After a take that was refused late: the ones before it give back, unless they charge refusals;
 * the ones behind it charge if they do. */
static void undo(struct weir_table *table, struct wants *wants, const uint8_t *order, size_t taken,
		 uint64_t now_ns)
{
	for (size_t i = 0; i < wants->count; i++) {
		struct want *want = &wants->want[order[i]];

		if (want->cost == 0 || i == taken)
			continue;
		if (i < taken && !counts_rejected(want))
			wr_return_key(table, want->limit, want->key, (int64_t)want->cost,
				      want->taken.charged_ns, now_ns);
		else if (i > taken && counts_rejected(want))
			book(table, want, (int64_t)want->cost, now_ns, WR_CHARGE);
	}
}

static bool take_all(struct weir_table *table, struct wants *wants, uint64_t now_ns)
{
	uint8_t order[WEIR_NEEDS_MAX];
	size_t taken;

	if (!look_at_all(table, wants, now_ns)) {
		book_refusal(table, wants, now_ns);
		return false;
	}
	order_of_takes(wants, order);
	taken = take_in_order(table, wants, order, now_ns);
	if (taken < wants->count) {
		undo(table, wants, order, taken, now_ns);
		return false;
	}
	for (size_t i = 0; i < wants->count; i++)
		*wants->want[i].decision = wants->want[i].taken;
	return true;
}

int weir_take_all(struct weir_table *table, const struct weir_need *needs, size_t count,
		  uint64_t now_ns, struct weir_decision *decisions, int *admitted)
{
	struct wants wants;
	int rc;

	if (!table || (!needs && count) || (!decisions && count) || !admitted)
		rc = WEIR_EINVAL;
	else if (count > WEIR_NEEDS_MAX)
		rc = WEIR_EMANY;
	else
		rc = now_ns > INT64_MAX ? WEIR_ETIME
					: collect(table, needs, count, decisions, &wants);
	if (rc < 0) { /* a caller who ignores the error admits nothing */
		if (admitted)
			*admitted = 0;
		if (decisions)
			memset(decisions, 0, count * sizeof *decisions);
		return rc;
	}
	*admitted = take_all(table, &wants, now_ns);
	for (size_t i = 0; i < count; i++)
		if (wants.want[wants.of_need[i]].decision != &decisions[i])
			decisions[i] = *wants.want[wants.of_need[i]].decision;
	return 0;
}
