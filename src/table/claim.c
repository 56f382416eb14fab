/* Giving a key a cell, so that it never has two.
 *
 * A claim swaps the victim's hot pair for a TENTATIVE one that names the new key, which takes the
 * cell from its old key at that instant. Then both rows are read again. With
 *
 *   scan after claim:  a live cell of this key  → drop the claims, use it
 *                      several claims           → drop all but the lowest
 *                      one claim, which was there before this scan began → confirm it
 *
 * two claims of one key cannot both be confirmed: the later of the two was made before its own
 * scan, so that scan sees the earlier one. A claim first met during a scan is not confirmed by
 * that scan, since cells read earlier may have changed meanwhile. Anyone may drop, confirm or
 * steal anyone's claim, so a participant that dies leaves nothing that waits for it.
 */
#include "table/slab.h"
#include "table/table.h"

/* What a scan of both rows found out about a key. */
struct scan {
	struct wr_spot live;  /* cell NULL: none */
	struct wr_spot claim; /* the lowest */
	struct wr_spot victim;
};

/* How gladly a cell is given away; lower is sooner. */
enum rank { RANK_EMPTY, RANK_EXPIRED, RANK_TENTATIVE, RANK_LIVE, RANK_REFUSED };

static enum rank rank_of(const struct wr_cell *cell, struct wr_pair hot, uint32_t now_s)
{
	struct wr_pair id = {0, __atomic_load_n(&cell->id.hi, __ATOMIC_ACQUIRE)};

	if (wr_hot_state(hot) == WR_TENTATIVE)
		return RANK_TENTATIVE;
	if (wr_hot_state(hot) != WR_LIVE || wr_id_version(id) != wr_hot_version(hot))
		return RANK_EMPTY;
	if (wr_id_fresh_s(id) <= now_s)
		return RANK_EXPIRED;
	return wr_hot_harm(hot) == WR_HARM_REFUSED ? RANK_REFUSED : RANK_LIVE;
}

/* Rank, then harm, then how soon it would be free anyway: one number to compare. */
static uint64_t price_of(const struct wr_cell *cell, struct wr_pair hot, uint32_t now_s)
{
	enum rank rank = rank_of(cell, hot, now_s);

	if (rank <= RANK_EXPIRED)
		return 0;
	return (uint64_t)rank << 40 | (uint64_t)wr_hot_harm(hot) << 32 | wr_cell_fresh_s(cell);
}

static bool is_claim_of(struct wr_pair hot, struct wr_key key)
{
	return wr_hot_state(hot) == WR_TENTATIVE && hot.lo == key.tag && wr_hot_s1(hot) == key.hint;
}

/* Judges the hot pair that was read, once: a claim that turns live between two reads would be
 * seen as neither, and the scan would confirm a second cell. */
static bool is_live_of(struct wr_spot spot, struct wr_key key)
{
	uint64_t rest = __atomic_load_n(&spot.cell->id.hi, __ATOMIC_ACQUIRE);
	uint64_t tag = __atomic_load_n(&spot.cell->id.lo, __ATOMIC_ACQUIRE);

	return wr_hot_state(spot.hot) == WR_LIVE && tag == key.tag && rest >> 48 == key.hint &&
	       wr_hot_version(spot.hot) == (uint16_t)(rest >> 32);
}

static void drop_claim(struct wr_spot claim)
{
	struct wr_pair empty = wr_hot(0, 0, wr_hot_version(claim.hot), 0, WR_EMPTY);

	wr_pair_cas(&claim.cell->hot, &claim.hot, empty);
}

/* Reads one row. Of several claims of the key all but the lowest are dropped. Returns the
 * number of cells that are free for the taking; *price is the cheapest one's. */
static unsigned scan_row(struct wr_row *row, struct wr_key key, uint32_t now_s, struct scan *scan,
			 struct wr_spot *cheapest, uint64_t *price)
{
	unsigned free_cells = 0;

	*price = UINT64_MAX;
	for (unsigned i = 0; i < WR_CELLS; i++) {
		struct wr_spot spot = {&row->cell[i], wr_pair_load(&row->cell[i].hot)};

		if (is_live_of(spot, key)) {
			scan->live = spot;
			__atomic_store_n(&row->hint[i], key.hint, __ATOMIC_RELAXED);
			continue;
		}
		if (is_claim_of(spot.hot, key)) {
			if (scan->claim.cell)
				drop_claim(spot);
			else
				scan->claim = spot;
			continue;
		}
		uint64_t cost = price_of(spot.cell, spot.hot, now_s);

		free_cells += cost == 0;
		if (cost < *price) {
			*price = cost;
			*cheapest = spot;
		}
	}
	return free_cells;
}

static void scan_rows(struct weir_table *table, struct wr_key key, uint32_t now_s,
		      struct scan *scan)
{
	struct wr_row *row[2] = {wr_row_first(table, key), wr_row_second(table, key)};
	struct wr_spot cheapest[2];
	unsigned free_cells[2];
	uint64_t price[2];
	bool second;

	/* A row is eight lines; asking for all of them at once waits for memory once. */
	for (unsigned line = 0; line < sizeof(struct wr_row); line += 64) {
		__builtin_prefetch((char *)row[0] + line);
		__builtin_prefetch((char *)row[1] + line);
	}
	*scan = (struct scan){0};
	for (unsigned i = 0; i < 2; i++)
		free_cells[i] = scan_row(row[i], key, now_s, scan, &cheapest[i], &price[i]);
	/* The emptier row: that is what lets two choices fill a table to four fifths. */
	second = free_cells[1] != free_cells[0] ? free_cells[1] > free_cells[0]
						: price[1] < price[0];
	scan->victim = cheapest[second];
}

static void count_victim(struct weir_table *table, struct wr_spot victim, uint32_t now_s)
{
	switch (rank_of(victim.cell, victim.hot, now_s)) {
	case RANK_EMPTY:
		break;
	case RANK_EXPIRED:
		wr_tally(&table->tallies->expired);
		break;
	case RANK_TENTATIVE:
		wr_tally(&table->tallies->stolen);
		break;
	case RANK_LIVE:
		wr_tally(&table->tallies->evicted);
		break;
	case RANK_REFUSED:
		wr_tally(&table->tallies->evicted_refused);
		break;
	}
}

/* Takes the victim's cell for the key. The claim it made, or cell NULL if someone was faster. */
static struct wr_spot stake_claim(struct weir_table *table, struct wr_key key, unsigned kind,
				  uint32_t now_s, struct wr_spot victim)
{
	struct wr_pair old = victim.hot;
	struct wr_pair claim =
		wr_hot(key.tag, key.hint, (uint16_t)(wr_hot_version(old) + 1), kind, WR_TENTATIVE);

	if (!wr_pair_cas(&victim.cell->hot, &victim.hot, claim))
		return (struct wr_spot){0};
	victim.hot = old;
	count_victim(table, victim, now_s);
	if (wr_hot_state(old) == WR_LIVE && wr_hot_kind(old) == WR_KIND_LOG)
		wr_slab_release(table, old.lo);
	return (struct wr_spot){victim.cell, claim};
}

/* Makes a claim a live cell: first id, then hot, so that a live hot pair always has its id. Late
 * helpers fail on id's version, which only this claim's helpers write. */
static bool confirm(struct wr_row *row, struct wr_spot claim, struct wr_key key,
		    struct wr_spot *live)
{
	uint16_t version = wr_hot_version(claim.hot);
	struct wr_pair born = wr_hot(0, 0, version, wr_hot_kind(claim.hot), WR_LIVE);

	for (;;) {
		struct wr_pair id = wr_pair_load(&claim.cell->id);

		if (!wr_pair_equal(wr_pair_load(&claim.cell->hot), claim.hot))
			return false;
		if (id.lo == key.tag && id.hi >> 48 == key.hint && wr_id_version(id) == version)
			break;
		if (wr_pair_cas(&claim.cell->id, &id, wr_id(key, 0, version)))
			break;
	}
	__atomic_store_n(&row->hint[claim.cell - row->cell], key.hint, __ATOMIC_RELAXED);
	if (!wr_pair_cas(&claim.cell->hot, &claim.hot, born))
		return false;
	*live = (struct wr_spot){claim.cell, born};
	return true;
}

bool wr_table_search(struct weir_table *table, struct wr_key key, struct wr_spot *spot)
{
	struct scan scan;

	scan_rows(table, key, 0, &scan);
	*spot = scan.live;
	return scan.live.cell != NULL;
}

static struct wr_row *row_of(struct weir_table *table, const struct wr_cell *cell)
{
	return &table->rows[wr_cell_index(table, cell) / WR_CELLS];
}

void wr_table_claim(struct weir_table *table, struct wr_key key, unsigned kind, uint32_t now_s,
		    struct wr_spot *spot)
{
	struct wr_spot known = {0}; /* a claim that stood before the scan */
	struct scan scan;

	for (;;) {
		scan_rows(table, key, now_s, &scan);
		if (scan.live.cell) {
			if (scan.claim.cell)
				drop_claim(scan.claim);
			*spot = scan.live;
			return;
		}
		if (!scan.claim.cell) {
			known = stake_claim(table, key, kind, now_s, scan.victim);
			continue;
		}
		if (scan.claim.cell == known.cell && wr_pair_equal(scan.claim.hot, known.hot) &&
		    confirm(row_of(table, known.cell), known, key, spot))
			return;
		known = scan.claim;
	}
}
