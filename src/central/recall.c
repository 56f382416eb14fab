/* Answers questions from remembered refusals (refusals.h). Called by ask.c. */
#include "central/inner.h"

static bool is_refused(const struct wr_central_part *part)
{
	return part->recalled && !(part->answer.flags & WR_ANSWER_ADMITTED);
}

/* Looks up the limits of the ask in the cache of refusals. Returns true if at least one of them
 * refuses. Returns false if none refuses, or if a limit counts rejected requests: then Redis must
 * be asked, so that it counts this request. */
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

/* Returns true if Redis need not be asked about `part`, because the cache contains a refusal by a
 * limit of the same ask. There are two cases. If the refusing limit is enforced (group 0), the
 * whole request is refused, so this function returns true for every part. Otherwise it returns true
 * for parts with the key and the group of the refusing limit, because these parts take units
 * together or not at all. */
static bool is_settled(const struct wr_central_ask *ask, const struct wr_central_part *part)
{
	for (const struct wr_central_part *other = ask->parts; other; other = other->next)
		if (is_refused(other) &&
		    (other->group == 0 ||
		     (other->group == part->group && wr_central_same_key(other->key, part->key))))
			return true;
	return false;
}

/* Redis is not asked about a part with part->settled. If the cache has no answer for this part,
 * another limit has refused the request. The answer of the part then says that its limit admits the
 * request, that no units were taken, and that the full capacity remains. */
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
