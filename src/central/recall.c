/* Answers questions from remembered refusals (refusals.h). Called by ask.c. */
#include "central/inner.h"

static bool is_refused(const struct wr_central_part *part)
{
	return part->recalled && !(part->answer.flags & WR_ANSWER_ADMITTED);
}

/* Whether the ask may be answered from the cache: not if a limit counts rejected requests, because
 * Redis must count this request. */
static bool may_recall(const struct wr_central_ask *ask)
{
	for (const struct wr_central_part *part = ask->parts; part; part = part->next)
		if (part->take.flags & WEIR_COUNT_REJECTED)
			return false;
	return true;
}

/* Returns true if a limit of the ask is known to refuse. */
static bool find_refusals(struct wr_central *central, struct wr_central_ask *ask)
{
	bool refused = false;

	for (struct wr_central_part *part = ask->parts; part; part = part->next) {
		part->recalled = part->take.cost > 0 &&
				 wr_refusals_find(central->refusals, part->key, part->identity,
						  part->take.cost, central->mono_ns, &part->answer);
		refused |= is_refused(part);
	}
	return refused;
}

/* Whether the refusal of one limit settles another: limits of a group are refused together, and the
 * refusal of an enforced limit (group 0) refuses the request. */
static bool is_settled_by(const struct wr_central_part *part, const struct wr_central_part *refused)
{
	return refused->group == 0 ||
	       (part->group == refused->group && part->key[0] == refused->key[0] &&
		part->key[1] == refused->key[1]);
}

static bool is_settled(const struct wr_central_ask *ask, const struct wr_central_part *part)
{
	for (const struct wr_central_part *other = ask->parts; other; other = other->next)
		if (is_refused(other) && is_settled_by(part, other))
			return true;
	return false;
}

/* Answers for a limit that Redis was not asked about: the answer reports its full capacity. */
static void answer_unasked(struct wr_central_part *part)
{
	uint32_t capacity = wr_take_capacity(&part->take);

	part->answer = (struct wr_answer){.flags = WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN,
					  .limit = capacity,
					  .remaining = capacity};
}

uint16_t wr_central_recall_refusals(struct wr_central *central, struct wr_central_ask *ask)
{
	uint16_t count = 0;

	if (!may_recall(ask) || !find_refusals(central, ask))
		return 0;
	for (struct wr_central_part *part = ask->parts; part; part = part->next) {
		part->settled = is_settled(ask, part);
		if (!part->settled)
			continue;
		if (!part->recalled)
			answer_unasked(part);
		count++;
	}
	central->counts.remembered += count;
	return count;
}
