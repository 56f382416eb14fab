/* Takes of one turn that are alike but for who asks: one call for all of them. */
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

/* A place is good for one turn: by then its call is written, or gone. */
bool wr_call_merge(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = call->first;
	struct wr_central_merge_entry *heap_at;
	struct wr_call *other;

	if ((call->kind != WR_CALL_TAKE && call->kind != WR_CALL_LEASE) || call->count != 1 ||
	    !wr_take_merges(&part->take))
		return false;
	heap_at = entry_of(central, part);
	other = heap_at->call;
	if (heap_at->turn != central->turn || other->kind != call->kind ||
	    other->count >= WR_MERGED_MAX || !is_alike(other->first, part)) {
		*heap_at = (struct wr_central_merge_entry){central->turn, call};
		return false;
	}
	wr_call_add(other, part);
	other->merged = true;
	if (call->hold) { /* nobody speaks for it yet: there is one for each counter */
		other->hold = call->hold;
		other->hold->call = other;
		call->hold = NULL;
	}
	call->first = NULL;
	call->written = true; /* its memory is all that goes */
	wr_call_free(central, call);
	return true;
}
