/* Implements refusals.h. Called by recall.c, take.c and send.c. */
#include "central/refusals.h"

#include <string.h>

#include <weir/algo.h>

static size_t set_of(const uint64_t key[2], uint64_t identity)
{
	return (key[0] ^ key[1] ^ identity) % WR_REFUSALS_SETS;
}

static bool is_about(const struct wr_refusal *entry, const uint64_t key[2], uint64_t identity)
{
	return entry->key[0] == key[0] && entry->key[1] == key[1] && entry->identity == identity;
}

static uint64_t left_of(uint64_t wait_ns, uint64_t elapsed_ns)
{
	if (wait_ns == WEIR_NEVER || wait_ns == 0)
		return wait_ns;
	return wait_ns > elapsed_ns ? wait_ns - elapsed_ns : 1;
}

bool wr_refusals_find(const struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, uint64_t mono_ns, struct wr_answer *answer)
{
	const struct wr_refusal *set = refusals->entries[set_of(key, identity)];

	for (size_t i = 0; i < WR_REFUSALS_WAYS; i++) {
		const struct wr_refusal *entry = &set[i];

		if (!is_about(entry, key, identity) || mono_ns >= entry->until_mono_ns)
			continue;
		if (!(entry->answer.flags & WR_ANSWER_ADMITTED) && cost < entry->cost)
			continue;
		*answer = entry->answer;
		answer->retry_after_ns =
			left_of(answer->retry_after_ns, mono_ns - entry->noted_mono_ns);
		answer->reset_after_ns =
			left_of(answer->reset_after_ns, mono_ns - entry->noted_mono_ns);
		return true;
	}
	return false;
}

/* Returns the entry of the limit. If there is no such entry, returns the entry to be replaced: the
 * entry that ends first, which may have expired. */
static struct wr_refusal *entry_for(struct wr_refusals *refusals, const uint64_t key[2],
				    uint64_t identity)
{
	struct wr_refusal *set = refusals->entries[set_of(key, identity)];
	struct wr_refusal *best = set;

	for (size_t i = 0; i < WR_REFUSALS_WAYS; i++) {
		if (is_about(&set[i], key, identity))
			return &set[i];
		if (set[i].until_mono_ns < best->until_mono_ns)
			best = &set[i];
	}
	return best;
}

void wr_refusals_note(struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, const struct wr_answer *answer, uint64_t last_ns,
		      uint64_t asked_mono_ns, uint64_t mono_ns)
{
	struct wr_refusal *entry = entry_for(refusals, key, identity);

	*entry = (struct wr_refusal){
		.key = {key[0], key[1]},
		.identity = identity,
		.cost = cost,
		.noted_mono_ns = mono_ns,
		.until_mono_ns = asked_mono_ns +
				 (last_ns < WR_REFUSALS_LAST_NS ? last_ns : WR_REFUSALS_LAST_NS),
		.answer = *answer,
	};
}

void wr_refusals_forget(struct wr_refusals *refusals, const uint64_t key[2])
{
	if (!key) {
		memset(refusals, 0, sizeof *refusals);
		return;
	}
	for (size_t i = 0; i < WR_REFUSALS_SETS; i++)
		for (size_t j = 0; j < WR_REFUSALS_WAYS; j++) {
			struct wr_refusal *entry = &refusals->entries[i][j];

			if (entry->key[0] == key[0] && entry->key[1] == key[1])
				entry->until_mono_ns = 0;
		}
}
