/* Gives a key one cell, and never two cells. Called by the store through wr_table_claim().
 *
 * A thread first makes a claim for the key: it swaps the hot pair of a cell for a TENTATIVE pair
 * that contains the tag of the new key. At that instant the old key of the cell, the victim, loses
 * the cell. Later the claim is confirmed or dropped. If it is confirmed, the cell becomes the key's
 * live cell, which decisions find. If it is dropped, the cell becomes empty. To choose, both rows
 * of the new key are read again (a scan), with these rules:
 *
 *   scan after claim:  a live cell of this key  → drop the claims, use it
 *                      several claims           → drop all but the one that was found first
 *                      one claim, which was there before this scan began → confirm it
 *
 * So two claims for one key cannot both be confirmed: a thread makes the later claim before it
 * scans, so its scan sees the earlier claim. A claim that a scan sees for the first time is not
 * confirmed by that scan, because cells that were read before may have changed meanwhile. Every
 * thread may drop, confirm or take over any claim, so that no thread waits for a thread that has
 * died.
 */
#include "base/assert.h"
#include "table/override.h"
#include "table/slab.h"
#include "table/table.h"

/* If a key's first row has more free cells than this, the key goes to the first row, even if the
 * second row has more free cells. With a larger number the table has room for more keys; with a
 * smaller number more keys are in their first row. With 3, the table needs 41 bytes per key, and
 * 93 % of the keys are in their first row when 76 % of the cells are used. With 7, the table would
 * need 38 bytes per key, and 82 % of the keys would be in their first row. */
#define ROOM_TO_SPARE 3u

/* The result of a scan of both rows for a key. */
struct scan {
	/* The key's live cell; live.cell is NULL if the key has no live cell. */
	struct wr_spot live;
	struct wr_spot claim; /* of all claims for the key, the one that was found first */
	struct wr_spot victim;
	bool is_free; /* true if the cell `victim` is empty, or its key has expired */
};

/* The ranks of cells. Cells with lower ranks are given to other keys first. */
enum rank { RANK_EMPTY, RANK_EXPIRED, RANK_TENTATIVE, RANK_LIVE, RANK_OVERRIDE };

/* Returns the rank of a cell. The cell of a key that has an override gets the same rank as the
 * override cell, because the override is found only through the cell of its key. */
static enum rank rank_of(const struct wr_cell *cell, struct wr_pair hot, uint32_t now_s)
{
	struct wr_pair id = {0, __atomic_load_n(&cell->id.hi, __ATOMIC_ACQUIRE)};

	if (wr_hot_state(hot) == WR_TENTATIVE)
		return RANK_TENTATIVE;
	if (wr_hot_state(hot) != WR_LIVE || wr_id_version(id) != wr_hot_version(hot))
		return RANK_EMPTY;
	if (wr_id_fresh_s(id) <= now_s ||
	    (wr_hot_kind(hot) == WR_KIND_OVERRIDE && !wr_override_ends_after(hot, now_s)))
		return RANK_EXPIRED;
	return wr_hot_override(hot) || wr_hot_kind(hot) == WR_KIND_OVERRIDE ? RANK_OVERRIDE
									    : RANK_LIVE;
}

/* Combines rank, weight and expiry into one number. Cells with lower numbers are given to other
 * keys first. The number of an empty or expired cell is 0. */
static uint64_t price_of(const struct wr_cell *cell, struct wr_pair hot, uint32_t now_s)
{
	enum rank rank = rank_of(cell, hot, now_s);

	if (rank <= RANK_EXPIRED)
		return 0;
	return (uint64_t)rank << 40 | (uint64_t)wr_hot_weight(hot) << 32 | wr_cell_fresh_s(cell);
}

/* Returns true if the cell was the key's live cell when spot.hot was read. The hot pair is not read
 * a second time: a claim that is confirmed between two readings would be seen neither as a claim
 * nor as a live cell, and the scan would confirm a second cell. */
static bool is_live_of(struct wr_spot spot, struct wr_key key)
{
	uint64_t rest = __atomic_load_n(&spot.cell->id.hi, __ATOMIC_ACQUIRE);
	uint64_t tag = __atomic_load_n(&spot.cell->id.lo, __ATOMIC_ACQUIRE);

	return wr_hot_state(spot.hot) == WR_LIVE && tag == key.tag &&
	       wr_hot_version(spot.hot) == (uint16_t)(rest >> 32);
}

static bool drop_claim(struct wr_spot claim)
{
	struct wr_pair empty = wr_hot(0, 0, wr_hot_version(claim.hot), 0, WR_EMPTY);

	return wr_pair_cas(&claim.cell->hot, &claim.hot, empty);
}

/* The result of a scan of one row. */
struct row_scan {
	/* The cell to give to the key. A free cell in the key's home cache line is preferred. */
	struct wr_spot best;
	uint64_t price;
	unsigned free_cells;
};

/* Reads one row. If the key has several claims, keeps the first one that the scan has found, in
 * this row or in the row before it, and drops the others. */
static void scan_row(struct wr_row *row, struct wr_key key, uint32_t now_s, struct scan *scan,
		     struct row_scan *found)
{
	unsigned home = wr_home(key);

	*found = (struct row_scan){.price = UINT64_MAX};
	for (unsigned i = 0; i < WR_CELLS; i++) {
		struct wr_spot spot = {&row->cell[i], wr_pair_load(&row->cell[i].hot)};
		uint64_t price;

		if (is_live_of(spot, key)) {
			scan->live = spot;
			continue;
		}
		if (wr_hot_state(spot.hot) == WR_TENTATIVE && spot.hot.lo == key.tag) {
			/* If the claim cannot be dropped, another thread has changed the cell, and
			 * may have made it the key's live cell. So the cell is read again. */
			if (!scan->claim.cell)
				scan->claim = spot;
			else if (!drop_claim(spot))
				i--;
			continue;
		}
		price = price_of(spot.cell, spot.hot, now_s);
		found->free_cells += price == 0;
		if (price < found->price || (price == 0 && i - home < 2)) {
			found->price = price;
			found->best = spot;
		}
	}
}

/* Returns true if the key should go to the second row. The first row is preferred while it has more
 * than ROOM_TO_SPARE free cells, so that nine of ten keys are found in their first row. Otherwise
 * the row with more free cells is preferred; so a table can be filled to four fifths before live
 * keys are evicted. */
static bool prefer_second(const struct row_scan *first, const struct row_scan *second)
{
	if (first->free_cells > ROOM_TO_SPARE)
		return false;
	if (first->free_cells != second->free_cells)
		return second->free_cells > first->free_cells;
	return second->price < first->price;
}

/* A row is eight cache lines. All of them are prefetched, so that the scan waits for memory only
 * once. */
static void prefetch_rows(struct wr_row *const rows[2])
{
	for (unsigned line = 0; line < sizeof(struct wr_row); line += 64) {
		__builtin_prefetch((char *)rows[0] + line);
		__builtin_prefetch((char *)rows[1] + line);
	}
}

static void scan_rows(struct weir_table *table, struct wr_key key, uint32_t now_s,
		      struct scan *scan)
{
	struct wr_row *rows[2] = {wr_row_first(table, key), wr_row_second(table, key)};
	struct row_scan found[2], *chosen;

	prefetch_rows(rows);
	*scan = (struct scan){0};
	scan_row(rows[0], key, now_s, scan, &found[0]);
	scan_row(rows[1], key, now_s, scan, &found[1]);
	chosen = &found[prefer_second(&found[0], &found[1])];
	scan->victim = chosen->best;
	scan->is_free = chosen->price == 0;
}

static void count_victim(struct weir_table *table, struct wr_spot victim, enum rank rank)
{
	switch (rank) {
	case RANK_EMPTY:
		break;
	case RANK_EXPIRED:
		wr_tally(&table->tallies->expired);
		break;
	case RANK_TENTATIVE:
		wr_tally(&table->tallies->stolen);
		break;
	case RANK_LIVE:
		wr_tally(wr_hot_refused(victim.hot) ? &table->tallies->evicted_refused
						    : &table->tallies->evicted);
		break;
	case RANK_OVERRIDE:
		wr_tally(&table->tallies->override_evicted);
		break;
	}
}

/* Returns true if the victim's cell, which looked empty or expired, can be given to another key. If
 * a decision uses the key meanwhile, it changes the cell, and the caller's swap fails. But an
 * append to a ring does not change the cell. So if the key has a ring, the function seals the ring
 * and then checks again that the key has expired. */
static bool is_free_still(struct weir_table *table, struct wr_spot victim, uint32_t now_s)
{
	return !wr_hot_names_block(victim.hot) ||
	       (wr_table_log_retire(table, victim.hot.lo) &&
		rank_of(victim.cell, victim.hot, now_s) <= RANK_EXPIRED);
}

/* Makes a claim for the key in the victim's cell. Returns the claim. The cell of the result is NULL
 * if another thread changed the cell first. */
static struct wr_spot stake_claim(struct weir_table *table, struct wr_key key, unsigned kind,
				  uint32_t now_s, const struct scan *scan)
{
	struct wr_spot victim = scan->victim;
	struct wr_pair old = victim.hot;
	enum rank rank = rank_of(victim.cell, old, now_s);
	struct wr_pair claim =
		wr_hot(key.tag, 0, (uint16_t)(wr_hot_version(old) + 1), kind, WR_TENTATIVE);

	if (scan->is_free && rank > RANK_EXPIRED)
		/* A decision has raised the expiry of the victim's cell since the scan. If the swap
		 * below succeeds, that decision has not changed the hot pair yet. Then its own swap
		 * fails, and it is made again, as for a new key. So no live state is lost, and the
		 * victim is counted as an expired key. */
		rank = RANK_EXPIRED;
	if ((scan->is_free && !is_free_still(table, victim, now_s)) ||
	    !wr_pair_cas(&victim.cell->hot, &victim.hot, claim))
		return (struct wr_spot){0};
	victim.hot = old;
	count_victim(table, victim, rank);
	if (wr_hot_names_block(old))
		wr_slab_release(table, old.lo);
	return (struct wr_spot){victim.cell, claim};
}

/* Confirms a claim, which makes the cell live. Writes first the id and then the hot pair, so that a
 * live hot pair always has its id. Several threads may confirm the same claim; they write the same
 * id. A slow thread cannot overwrite the id of a later claim: it reads the id before it checks the
 * hot pair, and its swap fails if the id has changed since. */
static bool confirm_claim(struct wr_spot claim, struct wr_key key, struct wr_spot *live)
{
	uint16_t version = wr_hot_version(claim.hot);
	struct wr_pair born = wr_hot(0, 0, version, wr_hot_kind(claim.hot), WR_LIVE);

	for (;;) {
		struct wr_pair id = wr_pair_load(&claim.cell->id);

		if (!wr_pair_equal(wr_pair_load(&claim.cell->hot), claim.hot))
			return false;
		if (id.lo == key.tag && wr_id_version(id) == version)
			break;
		if (wr_pair_cas(&claim.cell->id, &id, wr_id(key, version, id)))
			break;
	}
	if (!wr_pair_cas(&claim.cell->hot, &claim.hot, born))
		return false;
	*live = (struct wr_spot){claim.cell, born};
	return true;
}

/* Writes a hint into the key's home cache line, if the key is in another cell of its first row.
 * Several keys may share a hint. A shared hint is valid for the key for which it was written
 * last. */
static void leave_hint(const struct weir_table *table, struct wr_key key,
		       const struct wr_cell *cell)
{
	struct wr_cell *row = wr_row_first(table, key)->cell;
	uint64_t *at = &row[wr_home(key) + wr_hint_cell(key)].id.hi;
	uint64_t number = (uint64_t)(cell - row);
	unsigned shift = wr_hint_shift(key);
	uint64_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (number >= WR_CELLS || number - wr_home(key) < 2 || (seen >> shift & 15) == number)
		return;
	__atomic_compare_exchange_n(at, &seen, (seen & ~(15ull << shift)) | number << shift, true,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static bool find_among(struct wr_cell *cells, unsigned count, struct wr_key key,
		       struct wr_spot *spot)
{
	for (unsigned i = 0; i < count; i++) {
		spot->cell = &cells[i];
		if (wr_cell_holds(spot->cell, key, &spot->hot))
			return true;
	}
	return false;
}

bool wr_table_find(struct weir_table *table, struct wr_key key, struct wr_spot *spot)
{
	struct wr_row *rows[2] = {wr_row_first(table, key), wr_row_second(table, key)};

	if (find_among(&rows[1]->cell[wr_home(key)], 2, key, spot))
		return true;
	prefetch_rows(rows);
	if (find_among(rows[0]->cell, WR_CELLS, key, spot) ||
	    find_among(rows[1]->cell, WR_CELLS, key, spot)) {
		leave_hint(table, key, spot->cell);
		return true;
	}
	return false;
}

void wr_table_claim(struct weir_table *table, struct wr_key key, unsigned kind, uint32_t now_s,
		    struct wr_spot *spot)
{
	struct wr_spot known = {0}; /* a claim for the key that existed before the scan */
	struct scan scan;

	wr_assert(kind <= WR_KIND_OVERRIDE);
	for (;;) {
		scan_rows(table, key, now_s, &scan);
		if (scan.live.cell) {
			if (scan.claim.cell)
				drop_claim(scan.claim);
			*spot = scan.live;
			return;
		}
		if (!scan.claim.cell) {
			known = stake_claim(table, key, kind, now_s, &scan);
			continue;
		}
		if (scan.claim.cell == known.cell && wr_pair_equal(scan.claim.hot, known.hot) &&
		    confirm_claim(known, key, spot)) {
			leave_hint(table, key, spot->cell);
			return;
		}
		known = scan.claim;
	}
}
