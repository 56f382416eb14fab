/* Merges similar takes of one batch (same counter, limit and cost) into one call. Called by
 * shard.c. */
#include "central/inner.h"

static struct wr_central_merge_entry *entry_of(struct wr_central *central,
					       const struct wr_central_part *part)
{
	uint64_t mixed = part->key[0] ^ part->identity ^ (uint64_t)part->take.cost;

	return &central->merge[mixed % WR_MERGE_ENTRIES];
}

static bool is_alike(const struct wr_central_part *a, const struct wr_central_part *b)
{
	return a->key[0] == b->key[0] && a->key[1] == b->key[1] && a->identity == b->identity &&
	       a->take.cost == b->take.cost;
}

/* An entry of central->merge is valid for one batch, because afterwards its call is written or
 * freed. */
bool wr_call_merge(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = call->first;
	struct wr_central_merge_entry *entry;
	struct wr_call *other;

	if ((call->kind != WR_CALL_TAKE && call->kind != WR_CALL_LEASE) || call->count != 1 ||
	    !wr_take_merges(&part->take))
		return false;
	entry = entry_of(central, part);
	other = entry->call;
	if (entry->batch != central->batch || other->kind != call->kind ||
	    other->count >= WR_MERGED_MAX || !is_alike(other->first, part)) {
		*entry = (struct wr_central_merge_entry){central->batch, call};
		return false;
	}
	wr_call_add(other, part);
	other->merged = true;
	if (call->hold) { /* a counter has one hold, so the other call has none yet */
		other->hold = call->hold;
		other->hold->call = other;
		call->hold = NULL;
	}
	call->first = NULL;
	call->written = true; /* keeps wr_call_free from starting a new batch */
	wr_call_free(central, call);
	return true;
}
