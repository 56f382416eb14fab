/* Compares two decisions on each request. Called by the command replay for --compare and
 * --where-answered. */
#include "lab/replay/diff.h"

#include "lab/replay/replay.h"

#define MARK(side) (1u << (side))

bool wr_lab_diff_init(struct wr_lab_diff *diff)
{
	*diff = (struct wr_lab_diff){0};
	if (wr_lab_keys_init(&diff->keys, 1, WR_LAB_KEYS_MAX) &&
	    wr_lab_top_init(&diff->top, 2, WR_LAB_TOP_MAX))
		return true;
	wr_lab_diff_free(diff);
	return false;
}

void wr_lab_diff_free(struct wr_lab_diff *diff)
{
	wr_lab_keys_free(&diff->keys);
	wr_lab_top_free(&diff->top);
}

void wr_lab_diff_feed(struct wr_lab_diff *diff, const struct wr_lab_record *record,
		      const bool refused[2])
{
	uint64_t client = wr_lab_replay_client(record);
	enum wr_lab_side side = refused[WR_LAB_FIRST] ? WR_LAB_FIRST : WR_LAB_SECOND;

	diff->requests++;
	wr_lab_keys_mark(&diff->keys, 0, client,
			 (refused[WR_LAB_FIRST] ? MARK(WR_LAB_FIRST) : 0) |
				 (refused[WR_LAB_SECOND] ? MARK(WR_LAB_SECOND) : 0));
	if (refused[WR_LAB_FIRST] == refused[WR_LAB_SECOND]) {
		diff->both += refused[WR_LAB_FIRST];
		return;
	}
	diff->only[side]++;
	/* The same client can be in the lists of both sides, and hashes must differ. */
	if (wr_lab_top_count(&diff->top, side, client ^ (side ? UINT64_MAX : 0)))
		wr_lab_top_name(&diff->top, record->client);
}

void wr_lab_diff_end(struct wr_lab_diff *diff)
{
	const struct wr_lab_keys *keys = &diff->keys;

	diff->clients = wr_lab_keys_all(keys, 0);
	diff->clients_exact = wr_lab_keys_exact(keys, 0);
	diff->clients_both = wr_lab_keys_count(keys, 0, MARK(WR_LAB_FIRST) | MARK(WR_LAB_SECOND));
	for (unsigned side = WR_LAB_FIRST; side <= WR_LAB_SECOND; side++)
		diff->clients_only[side] = wr_lab_keys_count(keys, 0, MARK(side));
}

size_t wr_lab_diff_top(const struct wr_lab_diff *diff, enum wr_lab_side side,
		       const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS])
{
	return wr_lab_top_find(&diff->top, side, found, WR_LAB_TOP_KEYS);
}
