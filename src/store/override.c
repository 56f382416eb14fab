/* What an operator's word about a key means for its counter. */
#include "store/store.h"

#include "algo/soft.h"
#include "table/slab.h"

#define REFUSED_FOR_GOOD_NS (INT64_MAX / 2) /* as far ahead as can be added to now */

void wr_refuse_banned(const struct weir_limit *limit, const struct wr_override *override,
		      uint64_t now_ns, struct weir_decision *decision)
{
	bool for_good = override->banned_until_s == WR_FOR_GOOD;
	uint64_t rest_ns =
		for_good ? REFUSED_FOR_GOOD_NS : override->banned_until_s * 1000000000ull - now_ns;

	*decision = (struct weir_decision){.banned = 1,
					   .limit = limit->capacity,
					   .retry_after_ns = for_good ? WEIR_NEVER : rest_ns,
					   .reset_after_ns = rest_ns};
}

/* The largest ceiling whose state the algorithm can hold. */
static uint64_t most_of(const struct weir_table *table, const struct weir_limit *limit)
{
	unsigned __int128 tokens;
	uint32_t ring = wr_slab_max_stamps(table);

	switch (limit->algorithm) {
	case WEIR_SLIDING_LOG:
		return ring < WEIR_LOG_MAX ? ring : WEIR_LOG_MAX;
	case WEIR_TOKEN_BUCKET:
	case WEIR_LEAKY_BUCKET:
		tokens = (unsigned __int128)limit->limit * WEIR_SPAN_MAX_NS / limit->period_ns;
		return tokens < UINT32_MAX ? (uint64_t)tokens : UINT32_MAX;
	default:
		return UINT32_MAX;
	}
}

/* It goes the long way: what the short one needs is not worked out for it. */
struct weir_limit wr_limit_raised(const struct weir_table *table, const struct weir_limit *limit,
				  uint32_t extra)
{
	struct weir_limit raised = *limit;
	uint64_t most = most_of(table, limit);
	uint64_t room = most > limit->ceiling ? most - limit->ceiling : 0;

	if (limit->shares > 1)
		extra /= limit->shares;
	if (extra > room)
		extra = (uint32_t)room;
	raised.capacity += extra;
	raised.ceiling += extra;
	return raised;
}

/* Forgets the state in a cell, which stays the key's. A request that was being decided meanwhile
 * counts as one from before. A log's block goes once no cell names it. */
static void reset_cell(struct weir_table *table, struct wr_key key)
{
	struct wr_spot spot;
	struct wr_pair before;

	if (!wr_table_find_quick(table, key, &spot) && !wr_table_find(table, key, &spot))
		return;
	before = spot.hot;
	while (!wr_pair_cas(&spot.cell->hot, &spot.hot, wr_hot_with(spot.hot, 0, 0, 0)))
		if (!wr_spot_still(&spot, before))
			return;
	if (wr_hot_names_block(spot.hot))
		wr_slab_release(table, spot.hot.lo);
}

void wr_reset_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key)
{
	reset_cell(table, key);
	if (wr_soft_mode(limit))
		reset_cell(table, wr_soft_key(key));
}
