/* Merges similar takes of one batch (same counter, limit and cost) into one call. Called by
 * shard.c. */
#include "central/inner.h"

#include "base/assert.h"

/* An entry of central->merge is valid for one batch, because afterwards its call is written or
 * freed. */
bool wr_call_merge(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = call->first;
	struct wr_central_merge_entry *entry;
	struct wr_call *other;
	uint64_t hash;

	wr_assert_magic(call, WR_CALL_MAGIC);
	if ((call->kind != WR_CALL_TAKE && call->kind != WR_CALL_LEASE) || call->count != 1 ||
	    !wr_take_merges(&part->take))
		return false;
	hash = part->key[0] ^ part->identity ^ (uint64_t)part->take.cost;
	entry = &central->merge[hash % WR_MERGE_ENTRIES];
	other = entry->call;
	if (entry->batch != central->batch || other->kind != call->kind ||
	    other->count >= WR_MERGED_MAX || !wr_central_same_key(other->first->key, part->key) ||
	    other->first->identity != part->identity ||
	    other->first->take.cost != part->take.cost) {
		*entry = (struct wr_central_merge_entry){central->batch, call};
		return false;
	}
	wr_call_add(other, part);
	other->merged = true;
	/* Only one call at a time reports and renews the lease of a hold. So if `call` has this
	 * task, `other` does not have it, and takes it over. */
	if (call->hold) {
		other->hold = call->hold;
		other->hold->call = other;
		call->hold = NULL;
	}
	call->first = NULL;
	/* wr_call_free begins a new batch when it frees an unwritten call, so that no take joins
	 * that call. `written` is set to prevent this: no take can join `call`, because it is not
	 * in central->merge. */
	call->written = true;
	wr_call_free(central, call);
	return true;
}
