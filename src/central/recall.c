/* Answers questions from remembered refusals (refusals.h). Called by ask.c. */
#include "central/inner.h"

static bool is_refused(const struct wr_central_part *part)
{
	return part->recalled && !(part->answer.flags & WR_ANSWER_ADMITTED);
}

/* Looks up all limits of the ask. Returns true if one of them is known to refuse. Returns false if
 * a limit counts rejected requests, because Redis must count this request. */
static bool find_refusals(struct wr_central *central, struct wr_central_ask *ask)
{
	bool refused = false;

	for (struct wr_central_part *part = ask->parts; part; part = part->next) {
		if (part->take.flags & WEIR_COUNT_REJECTED)
			return false;
		part->recalled = part->take.cost > 0 &&
				 wr_refusals_find(central->refusals, part->key, part->identity,
						  part->take.cost, central->mono_ns, &part->answer);
		refused |= is_refused(part);
	}
	return refused;
}

/* Returns whether a remembered refusal decides on the part. Limits of a group are refused together,
 * and the refusal of an enforced limit (group 0) refuses the request. */
static bool is_settled(const struct wr_central_ask *ask, const struct wr_central_part *part)
{
	for (const struct wr_central_part *other = ask->parts; other; other = other->next)
		if (is_refused(other) &&
		    (other->group == 0 ||
		     (other->group == part->group && wr_central_same_key(other->key, part->key))))
			return true;
	return false;
}

/* A limit that Redis is not asked about is answered with its full capacity. */
uint16_t wr_central_recall_refusals(struct wr_central *central, struct wr_central_ask *ask)
{
	uint16_t count = 0;

	if (!find_refusals(central, ask))
		return 0;
	for (struct wr_central_part *part = ask->parts; part; part = part->next) {
		uint32_t capacity = wr_take_capacity(&part->take);

		part->settled = is_settled(ask, part);
		if (!part->settled)
			continue;
		if (!part->recalled)
			part->answer = (struct wr_answer){.flags = WR_ANSWER_ADMITTED |
								   WR_ANSWER_NOT_TAKEN,
							  .limit = capacity,
							  .remaining = capacity};
		count++;
	}
	central->counts.remembered += count;
	return count;
}
