/* Applies an operator's bans, grants and resets to the counter of a key. */
#include "store/store.h"

#include "algo/amount.h"
#include "algo/soft.h"
#include "base/assert.h"
#include "table/slab.h"

/* The longest time that can be added to the present time without overflow. */
#define REFUSED_FOR_GOOD_NS (INT64_MAX / 2)

void wr_store_refuse_banned(const struct weir_limit *limit, const struct wr_override *override,
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

/* Returns the largest ceiling for which the algorithm's state does not overflow. */
static uint64_t largest_ceiling(const struct weir_table *table, const struct weir_limit *limit)
{
	unsigned __int128 tokens;
	uint32_t ring = wr_slab_max_stamps(table);

	switch (limit->algorithm) {
	case WEIR_SLIDING_LOG:
		return ring < WEIR_LOG_MAX ? ring : WEIR_LOG_MAX;
	case WEIR_CONCURRENT:
		return ring / 2 < WEIR_SLOTS_MAX ? ring / 2 : WEIR_SLOTS_MAX;
	case WEIR_TOKEN_BUCKET:
	case WEIR_LEAKY_BUCKET:
		tokens = (unsigned __int128)limit->limit * WEIR_SPAN_MAX_NS / limit->period_ns;
		return tokens < UINT32_MAX ? (uint64_t)tokens : UINT32_MAX;
	default:
		return UINT32_MAX;
	}
}

/* The result has the same narrow_ns as `limit`, although narrow_ns depends on the capacity, which
 * can be larger in the result. So the quick paths (quick.h, narrow.h), which use narrow_ns, must
 * not be used for the result. */
struct weir_limit wr_store_limit_raised(const struct weir_table *table,
					const struct weir_limit *limit, uint32_t extra)
{
	struct weir_limit raised = *limit;
	uint64_t most = largest_ceiling(table, limit);
	uint64_t room = most > limit->ceiling ? most - limit->ceiling : 0;

	wr_assert(limit->checked);
	if (limit->shares > 1)
		extra /= limit->shares;
	if (extra > room)
		extra = (uint32_t)room;
	raised.capacity += extra;
	raised.ceiling += extra;
	return raised;
}

/* ---- reset ---- */

/* Returns the key of the cell that stores the time of a reset. This cell is read only when units
 * are given back, so that taking units is not slower. */
static struct wr_key reset_key(struct wr_key key)
{
	struct wr_key other = {key.tag ^ 0x72657365742d6174};

	return other;
}

/* For a leaky bucket, returns the longest time that a request can wait in the queue. For a token
 * bucket, returns the time in which the empty bucket fills up. */
static uint64_t longest_queue_ns(const struct weir_limit *limit)
{
	return limit->limit ? wr_algo_span_up((unsigned __int128)limit->ceiling * limit->period_ns,
					      limit->limit)
			    : 0;
}

/* Returns for how long units can be given back after they were taken. */
static uint64_t returnable_ns(const struct weir_limit *limit)
{
	switch (limit->algorithm) {
	case WEIR_TOKEN_BUCKET:
	case WEIR_LEAKY_BUCKET:
		return longest_queue_ns(limit);
	case WEIR_FIXED_WINDOW:
		if (limit->window_end_ns)
			return limit->window_end_ns - limit->window_start_ns;
		return limit->period_ns;
	default:
		return 2 * limit->period_ns;
	}
}

/* Raises the time of the table's latest reset. */
static void raise_reset(struct weir_table *table, uint64_t now_ns)
{
	uint64_t *at = &table->tallies->reset_ns;
	uint64_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);

	/* Pairs with the acquire load of a cell: a thread that finds the wiped state also finds
	 * this time. */
	while (seen < now_ns && !__atomic_compare_exchange_n(at, &seen, now_ns, true,
							     __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static void note_reset(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		       uint64_t now_ns)
{
	uint32_t now_s = wr_seconds(now_ns);
	struct wr_override override = wr_override_find(table, key, now_s);
	struct weir_limit raised = wr_store_limit_raised(table, limit, override.granted);
	uint32_t end_s = wr_seconds_up(now_ns + returnable_ns(&raised) + WR_SKEW_NS);
	struct wr_spot spot;

	raise_reset(table, now_ns);
	do {
		wr_table_claim(table, reset_key(key), WR_KIND_RESET, now_s, &spot);
		if (spot.hot.lo >= now_ns)
			return;
		wr_cell_raise_fresh_s(spot.cell, end_s);
	} while (!wr_pair_cas(&spot.cell->hot, &spot.hot,
			      wr_hot_with(spot.hot, now_ns, 0, WR_HARM_REFUSED | WR_HARM_MOST)));
}

/* For a leaky bucket, charged_ns is the time at which the request leaves the queue. The request
 * took its units earlier, by at most the longest wait in the queue. So the function returns true if
 * charged_ns is before the reset or at most this wait after it. */
bool wr_attempt_was_reset(const struct wr_attempt *attempt)
{
	uint64_t ahead_ns = attempt->limit->algorithm == WEIR_LEAKY_BUCKET
				    ? longest_queue_ns(attempt->limit)
				    : 0;
	struct wr_spot spot;

	/* Usually no key was reset after the request, and no cell has to be found. */
	if (attempt->charged_ns > wr_store_reset_ns(attempt->table) + ahead_ns)
		return false;
	return wr_table_find_any(attempt->table, reset_key(attempt->key), &spot) &&
	       attempt->charged_ns <= spot.hot.lo + ahead_ns;
}

/* Clears the state in a cell. The cell still belongs to the key afterwards. A request that is
 * decided at the same time counts as a request before the reset. If the state is the name of a
 * block, the block is freed after the cell was cleared. If another key has got the cell meanwhile,
 * nothing is cleared and nothing is freed. */
static void wipe_state(struct weir_table *table, struct wr_spot *spot)
{
	struct wr_pair before = spot->hot;

	while (!wr_pair_cas(&spot->cell->hot, &spot->hot, wr_hot_with(spot->hot, 0, 0, 0)))
		if (!wr_spot_still(spot, before))
			return;
	if (wr_hot_names_block(spot->hot))
		wr_slab_release(table, spot->hot.lo);
}

void wr_store_reset(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		    uint64_t now_ns)
{
	struct wr_spot spot;

	wr_assert(limit->checked);
	if (wr_table_find_any(table, key, &spot)) {
		note_reset(table, limit, key, now_ns);
		if (wr_hot_has_slots(spot.hot))
			wr_store_slots_reset(table, key);
		else
			wipe_state(table, &spot);
	}
	if (wr_soft_mode(limit) && wr_table_find_any(table, wr_store_soft_key(key), &spot))
		wipe_state(table, &spot);
}
