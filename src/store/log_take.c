/* Sliding window logs in the table. A log has one of three forms:
 *
 *   instant  all requests of the log came at the same time. The key's cell holds this time and the
 *            number of requests. A log of one request and an empty log have this form too.
 *   ring     the cell names a block of the slab. A decision swaps the block's word, as other
 *            algorithms swap the cell's hot pair.
 *   brief    the slab has no room for a ring. The cell counts the requests by thirds of the period
 *            (table/brief.h). A brief log may refuse more than a ring, never less.
 *
 * A ring that is too small is replaced by a larger one: a new block is taken, the old word is
 * sealed so that no entry is appended to the old ring any more, the entries are copied, and the
 * name of the new block is swapped into the cell. Another thread that finds a sealed word does not
 * wait, but does the same work. The first thread that swaps the name of its block into the cell
 * wins, and the other thread frees its block. A log becomes brief in the same way, when its own key
 * gets no ring, or when another key takes its block. */
#include "store/store.h"

#include "algo/log.h"
#include "algo/soft.h"
#include "store/log_brief.h"
#include "table/slab.h"

#define GROWTH 4u /* a ring grows by this factor, but at most to the size that the limit needs */
/* The cell's harm (algo/harm.h) is written if it has changed by at least this much. */
#define HARM_STEP WR_HARM_OCTAVE
#define FULL_RETRY_NS 1000000000u /* estimated time until the slab has room again */

/* A key's log as it was read. */
struct log_reading {
	struct wr_spot spot;           /* spot.cell is NULL if the key has no cell */
	struct wr_table_log_block log; /* log.block is NULL if the log is in the cell */
	struct wr_pair word;
	struct weir_log view; /* the log, if it is a ring or an instant */
	struct wr_store_brief_view brief;
	bool is_brief;
	bool sealed;
};

/* Empties the log of a key whose cell contains an invalid block name, or the name of a block with
 * an invalid word. Only a damaged table contains such cells. The loss is counted in log_lost of
 * struct wr_tallies. */
static void forget_log(struct weir_table *table, struct log_reading *reading)
{
	struct wr_pair none = wr_hot_with(reading->spot.hot, 0, 0, 0);
	uint64_t name = reading->spot.hot.lo;

	if (wr_pair_cas(&reading->spot.cell->hot, &reading->spot.hot, none)) {
		wr_tally(&table->tallies->log_lost);
		wr_slab_release(table, name);
	}
}

/* Makes a struct weir_log from an instant, which is a log whose requests all came at the same time.
 * All its entries are pending (algo/log.h), which means that they are stored as a number only, so
 * no slot of a ring is needed. */
static struct weir_log view_of_instant(uint64_t newest_ns, uint32_t count)
{
	struct weir_log view = {
		.newest_ns = newest_ns, .count = count, .pending = count, .capacity = WR_LOG_COUNT};

	return view;
}

/* Reads a brief log. If its requests do not count any more, it is read as an empty instant, so that
 * the log is exact again. */
static void read_brief(const struct wr_attempt *attempt, struct log_reading *reading)
{
	reading->view = view_of_instant(0, 0);
	if (wr_cell_fresh_s(reading->spot.cell) <= wr_seconds(attempt->now_ns))
		return;
	reading->brief = wr_store_brief_view_of(attempt->limit, reading->spot.hot.lo,
						wr_hot_s1(reading->spot.hot), attempt->now_ns);
	reading->is_brief = wr_brief_used(&reading->brief.brief) != 0;
}

/* Reads the ring that the cell names. Returns false if it does not exist. */
static bool read_ring(struct weir_table *table, struct log_reading *reading)
{
	uint64_t name = reading->spot.hot.lo;
	struct wr_table_log_word word;

	if (!wr_slab_find(table, name, &reading->log))
		return false;
	reading->word = wr_pair_load(&reading->log.block->word);
	word = wr_table_log_word_of(reading->word);
	reading->view = (struct weir_log){word.newest_ns,
					  word.head,
					  word.count,
					  word.pending,
					  reading->log.capacity,
					  reading->log.block->stamps};
	reading->sealed = word.sealed;
	/* The block's word contains only 15 bits of the block's generation, the block's tenure
	 * contains all bits (table/layout.h). The tenure is read after the word, and so confirms
	 * that the word belongs to this log. */
	return word.generation == (name & 0x7fff) && wr_block_is(reading->log.block, name) &&
	       wr_algo_log_view_ok(&reading->view);
}

/* Reads the log in the cell or in its block. Returns false if the log was damaged and was therefore
 * emptied. The caller then reads the cell again. */
static bool read_log(struct weir_table *table, const struct wr_attempt *attempt,
		     struct log_reading *reading)
{
	uint32_t s1 = wr_hot_s1(reading->spot.hot);

	reading->log.block = NULL;
	reading->sealed = false;
	reading->is_brief = false;
	if (s1 & WR_LOG_IN_CELL && s1 & WR_LOG_BRIEF)
		read_brief(attempt, reading);
	else if (s1 & WR_LOG_IN_CELL || reading->spot.hot.lo == 0)
		reading->view = view_of_instant(reading->spot.hot.lo, s1 & WR_LOG_COUNT);
	else if (!read_ring(table, reading)) {
		forget_log(table, reading);
		return false;
	}
	return true;
}

/* Finds the key and reads its log. If the key has no cell, the result is an empty log. */
static void read_key(struct weir_table *table, const struct wr_attempt *attempt,
		     struct log_reading *reading)
{
	do {
		if (!wr_table_find_any(table, attempt->key, &reading->spot)) {
			*reading = (struct log_reading){.view = view_of_instant(0, 0)};
			return;
		}
	} while (!read_log(table, attempt, reading));
}

/* Copies the entries that are not older than the period into a new block, whose name is in no cell
 * yet. Returns false if the block is too small, or if another thread has taken the block away
 * meanwhile. */
static bool fill_ring(const struct wr_table_log_block *into, const struct weir_log *view,
		      uint64_t period_ns, uint64_t now_ns)
{
	struct wr_table_log_word word = {.generation = into->name & 0x7fff};
	struct wr_pair empty = wr_table_log_word_pair(word);
	struct weir_log v = *view;
	uint32_t live;

	now_ns = wr_algo_log_now_ns(view, now_ns);
	wr_algo_log_carry(&v, now_ns);
	live = wr_algo_log_live(&v, period_ns, now_ns);
	if (live > into->capacity)
		return false;
	for (uint32_t i = 0; i < live; i++)
		if (!wr_block_put(into->block, empty, i, wr_algo_log_stamp(&v, v.count - live + i)))
			return false;
	word.newest_ns = v.newest_ns;
	word.head = live ? live - 1 : 0;
	word.count = live;
	return wr_pair_cas(&into->block->word, &empty, wr_table_log_word_pair(word));
}

/* Copies the requests of a brief log into a new block, whose name is in no cell yet. Each request
 * gets the time at which its slot (a third of the period) ends, or now_ns if now_ns is earlier.
 * Returns false if the block is too small, or if another thread has taken the block away
 * meanwhile. */
static bool fill_brief(const struct wr_table_log_block *into, const struct wr_store_brief_view *v)
{
	struct wr_table_log_word word = {.generation = into->name & 0x7fff};
	struct wr_pair empty = wr_table_log_word_pair(word);

	for (unsigned back = WR_BRIEF_SLOTS; back-- > 0;) {
		uint64_t stamp_ns = (v->brief.slot - back + 1) * v->slot_ns - 1;

		if (v->brief.count[back] == 0)
			continue;
		word.newest_ns = stamp_ns < v->now_ns ? stamp_ns : v->now_ns;
		for (uint32_t i = 0; i < v->brief.count[back]; i++)
			if (word.count == into->capacity ||
			    !wr_block_put(into->block, empty, word.count++, word.newest_ns))
				return false;
	}
	word.head = word.count ? word.count - 1 : 0;
	return wr_pair_cas(&into->block->word, &empty, wr_table_log_word_pair(word));
}

static bool fill_any(const struct wr_table_log_block *into, struct log_reading *reading,
		     const struct wr_attempt *attempt)
{
	if (reading->is_brief)
		return fill_brief(into, &reading->brief);
	if (reading->log.block &&
	    !wr_table_log_seal(reading->log.block, &reading->word, reading->log.name))
		return false;
	return fill_ring(into, &reading->view, attempt->limit->period_ns, attempt->now_ns);
}

/* Takes a block for the ring. A log has to stay exact if its limit has WEIR_FULL_REFUSES. For such
 * a log, the block of any log that need not stay exact can be taken away. */
static bool take_ring(struct weir_table *table, const struct wr_attempt *attempt,
		      const struct log_reading *reading, uint32_t stamps,
		      struct wr_table_log_block *taken)
{
	bool exact = attempt->limit->flags & WEIR_FULL_REFUSES;
	struct wr_slab_wish wish = {.cell = reading->spot.cell,
				    .stamps = stamps,
				    .slot = exact ? 0 : wr_brief_code(attempt->limit->period_ns),
				    .weight = exact ? WR_WEIGHT_ALL
						    : wr_hot_weight(reading->spot.hot)};

	return wr_slab_take(table, &wish, attempt->now_ns, taken);
}

/* Gives the key a ring for at least `stamps` entries. Returns false if the slab has no room. If it
 * returns true, the caller reads the log again, because another thread may have given the key a
 * ring first. */
static bool grow_ring(struct weir_table *table, struct wr_attempt *attempt,
		      struct log_reading *reading, uint32_t stamps)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t roomy = (uint64_t)stamps * GROWTH < limit->ceiling ? (uint64_t)stamps * GROWTH
								    : limit->ceiling;
	struct wr_pair hot = reading->spot.hot;
	struct wr_table_log_block bigger;

	/* The first ring of a key gets no spare room, because most keys have few requests. A later
	 * ring has room for `roomy` entries, but at least for `stamps`: after the limit was lowered
	 * or a grant ended, the log may have more entries than the limit needs. */
	if (!reading->log.block || roomy < stamps)
		roomy = stamps;
	if (!take_ring(table, attempt, reading, (uint32_t)roomy, &bigger) &&
	    (roomy == stamps || !take_ring(table, attempt, reading, stamps, &bigger)))
		return false;
	if (fill_any(&bigger, reading, attempt) &&
	    wr_pair_cas(&reading->spot.cell->hot, &hot,
			wr_hot_of_kind(wr_hot_with(hot, bigger.name, 0, wr_hot_harm(hot)),
				       WR_KIND_LOG))) {
		if (wr_hot_names_block(reading->spot.hot))
			wr_slab_release(table, reading->spot.hot.lo);
		return true;
	}
	wr_slab_release(table, bigger.name);
	return true;
}

/* Changes the log into a brief log (table/brief.h). The caller reads the log again, because another
 * thread may have changed it meanwhile. */
static void make_brief(struct weir_table *table, struct wr_attempt *attempt,
		       struct log_reading *reading)
{
	uint32_t code = wr_brief_code(attempt->limit->period_ns);
	uint64_t slot_ns = wr_brief_slot_ns(code);
	uint64_t now_ns = wr_brief_now_ns(reading->view.newest_ns, attempt->now_ns);
	struct wr_pair hot = reading->spot.hot;
	struct wr_brief brief = {reading->view.newest_ns / slot_ns, {reading->view.count}};

	if (reading->log.block &&
	    (!wr_table_log_seal(reading->log.block, &reading->word, reading->log.name) ||
	     !wr_table_log_brief(&reading->log, reading->word, code, attempt->now_ns, &brief)))
		return;
	wr_brief_move(&brief, now_ns / slot_ns);
	if (wr_pair_cas(
		    &reading->spot.cell->hot, &hot,
		    wr_hot_with(hot, wr_brief_s0(&brief), wr_brief_s1(&brief), wr_hot_harm(hot))) &&
	    reading->log.block)
		wr_slab_release(table, reading->log.name);
}

/* Refuses the request because the slab has no room for its log, and counts this refusal in struct
 * wr_tallies. */
static void refuse_full(struct weir_table *table, struct wr_attempt *attempt)
{
	struct weir_decision *decision = attempt->decision;
	uint64_t period_ns = attempt->limit->period_ns;

	wr_tally(&table->tallies->log_full);
	attempt->returned = 0;
	decision->admitted = 0;
	decision->full = 1;
	decision->retry_after_ns = period_ns < FULL_RETRY_NS ? period_ns : FULL_RETRY_NS;
}

/* Ends an attempt that writes nothing to the log. If the attempt was refused and wr_leaves_mark()
 * is true for it, marks the key as refused. Returns false if the log is in a block and the block's
 * word has changed, because stamps may then have been overwritten while they were read. */
static bool settle_unchanged(struct wr_attempt *attempt, struct log_reading *reading)
{
	if (reading->log.block &&
	    !wr_pair_equal(wr_pair_load(&reading->log.block->word), reading->word))
		return false;
	if (!attempt->decision->admitted && wr_leaves_mark(attempt) && reading->spot.cell)
		wr_mark_refused(&reading->spot);
	return true;
}

/* Returns whether a log of a limit with WEIR_COUNT_REJECTED is full. No entry can be removed from a
 * full log, see wr_algo_log_may_return(). */
static bool is_full_of_rejected(const struct wr_attempt *attempt, const struct weir_log *view)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t now_ns = wr_algo_log_now_ns(view, attempt->now_ns);

	return limit->flags & WEIR_COUNT_REJECTED &&
	       wr_algo_log_live(view, limit->period_ns, now_ns) >= limit->ceiling;
}

/* Finds the live entries with the stamp attempt->charged_ns, but at most the number of units to give
 * back. Sets *first to the number of the oldest of them. Returns how many they are. With
 * WEIR_COUNT_REJECTED, no entry of a full log can be removed (wr_algo_log_may_return()). */
static uint32_t entries_to_remove(const struct wr_attempt *attempt, const struct weir_log *view,
				  uint32_t *first)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t now_ns = wr_algo_log_now_ns(view, attempt->now_ns);
	uint64_t most = (uint64_t)-attempt->cost;
	uint32_t found = 0;

	if (attempt->roughly)
		return wr_algo_log_find_taken(limit, view, most, attempt->charged_ns,
					      attempt->now_ns, first);
	if (now_ns >= limit->period_ns && attempt->charged_ns <= now_ns - limit->period_ns)
		return 0;
	if (is_full_of_rejected(attempt, view))
		return 0;
	*first = wr_algo_log_before(view, attempt->charged_ns);
	while (found < most && found < view->count - *first &&
	       wr_algo_log_stamp(view, *first + found) == attempt->charged_ns)
		found++;
	return found;
}

/* Copies the ring into a new block, without n entries from number `first` on. The name of the block is in no cell yet. Returns false if another thread has taken the block away
 * meanwhile. */
static bool fill_without(const struct wr_table_log_block *into, const struct weir_log *view,
			 uint32_t first, uint32_t n)
{
	struct wr_table_log_word word = {.newest_ns = view->newest_ns,
					 .generation = into->name & 0x7fff};
	struct wr_table_log_word none = {.generation = into->name & 0x7fff};
	struct wr_pair empty = wr_table_log_word_pair(none);

	for (uint32_t i = 0; i < view->count; i++) {
		if (i >= first && i - first < n)
			continue;
		if (word.count == into->capacity ||
		    !wr_block_put(into->block, empty, word.count++, wr_algo_log_stamp(view, i)))
			return false;
	}
	word.head = word.count ? word.count - 1 : 0;
	return wr_pair_cas(&into->block->word, &empty, wr_table_log_word_pair(word));
}

/* Corrects the decision, which was made before n entries were removed. */
static void correct_decision(struct wr_attempt *attempt, uint32_t n)
{
	struct weir_decision *decision = attempt->decision;
	uint64_t used = wr_store_units_used(decision);

	used = used > n ? used - n : 0;
	decision->remaining = wr_left(attempt->limit->capacity, used);
	decision->debt = wr_debt(attempt->limit, used);
}

/* Removes entries that are not the newest ones: moves the log to a new ring without them, in the
 * same steps as grow_ring(). If the slab has no free block, nothing is removed: no other log loses
 * its ring for that. Returns false if the log has to be read again. */
static bool remove_older(struct weir_table *table, struct wr_attempt *attempt,
			 struct log_reading *reading)
{
	struct wr_pair hot = reading->spot.hot;
	struct wr_table_log_block next;
	uint32_t first = 0;
	uint32_t n = entries_to_remove(attempt, &reading->view, &first);
	uint32_t rest = reading->view.count - n;
	bool exact = attempt->limit->flags & WEIR_FULL_REFUSES;
	struct wr_slab_wish wish = {.cell = reading->spot.cell,
				    .stamps = rest ? rest : 1,
				    .slot = exact ? 0 : wr_brief_code(attempt->limit->period_ns)};

	if (n == 0 || !wr_slab_take(table, &wish, attempt->now_ns, &next))
		return settle_unchanged(attempt, reading);
	if (wr_table_log_seal(reading->log.block, &reading->word, reading->log.name) &&
	    fill_without(&next, &reading->view, first, n) &&
	    wr_pair_cas(&reading->spot.cell->hot, &hot,
			wr_hot_of_kind(wr_hot_with(hot, next.name, 0, wr_hot_harm(hot)),
				       WR_KIND_LOG))) {
		wr_slab_release(table, reading->log.name);
		attempt->returned = n;
		correct_decision(attempt, n);
		return true;
	}
	wr_slab_release(table, next.name);
	return false;
}

/* Carries out a plan (struct wr_algo_log_plan): writes first the pending stamps into their slots,
 * then the block's word. Several threads may write the same stamps. Returns false if another thread
 * changed the block's word first. */
static bool commit_plan(struct log_reading *reading, const struct wr_algo_log_plan *plan)
{
	struct wr_table_log_word word = wr_table_log_word_of(reading->word);
	struct wr_pair seen = reading->word;

	for (uint32_t i = 0; i < plan->flush; i++)
		if (!wr_block_put(reading->log.block, reading->word,
				  wr_algo_log_slot_back(&reading->view, i), plan->flush_ns))
			return false;
	word.newest_ns = plan->newest_ns;
	word.head = plan->head;
	word.count = plan->count;
	word.pending = plan->pending;
	return wr_pair_cas(&reading->log.block->word, &seen, wr_table_log_word_pair(word));
}

/* Updates the harm (algo/harm.h) in the cell if it has changed by HARM_STEP or more. A failed swap
 * is not repeated, because later requests update the harm too. */
static void note_harm(struct log_reading *reading, const struct weir_decision *decision)
{
	unsigned harm = wr_store_harm_after(reading->spot.hot, decision);
	unsigned known = wr_hot_harm(reading->spot.hot);
	struct wr_pair hot = reading->spot.hot;

	if (known == 0 || (harm > known ? harm - known : known - harm) >= HARM_STEP)
		wr_pair_cas(&reading->spot.cell->hot, &hot, wr_hot_with(hot, hot.lo, 0, harm));
}

/* Plans to append the units of a debt (WR_OWE). attempt->decision is the decision for cost 0.
 * Returns false if the log holds the largest debt already. */
static bool plan_owe(struct wr_attempt *attempt, const struct log_reading *reading,
		     struct wr_algo_log_plan *plan)
{
	const struct weir_limit *limit = attempt->limit;
	struct weir_decision *decision = attempt->decision;
	uint64_t used = wr_store_units_used(decision);
	uint64_t room = limit->ceiling > used ? limit->ceiling - used : 0;
	uint64_t n = (uint64_t)attempt->cost < room ? (uint64_t)attempt->cost : room;

	decision->admitted = 1;
	decision->retry_after_ns = 0;
	attempt->returned = n;
	if (n == 0)
		return false;
	decision->remaining = wr_left(limit->capacity, used + n);
	decision->debt = wr_debt(limit, used + n);
	decision->reset_after_ns = limit->period_ns;
	wr_algo_log_plan_charge(limit, &reading->view, n, attempt->now_ns, plan);
	return plan->changed;
}

/* Plans the attempt on the log that was read: fills the attempt's decision and *plan, the change of
 * the log. Returns false if nothing has to be written. */
static bool plan_step(struct wr_attempt *attempt, const struct log_reading *reading,
		      struct wr_algo_log_plan *plan)
{
	const struct weir_limit *limit = attempt->limit;
	const struct weir_log *view = &reading->view;
	struct weir_decision *decision = attempt->decision;

	if (attempt->purpose == WR_CHARGE) {
		struct wr_algo_log_plan look;

		wr_algo_log_plan(limit, attempt->ceiling, view, 0, attempt->now_ns, decision,
				 &look);
		decision->reset_after_ns = limit->period_ns;
		wr_algo_log_plan_charge(limit, view, (uint64_t)attempt->cost, attempt->now_ns,
					plan);
		return plan->changed;
	}
	if (attempt->purpose == WR_OWE) {
		wr_algo_log_plan(limit, attempt->ceiling, view, 0, attempt->now_ns, decision, plan);
		return plan_owe(attempt, reading, plan);
	}
	if (attempt->purpose == WR_RETURN) {
		uint64_t n = wr_attempt_was_reset(attempt) ? 0 : (uint64_t)-attempt->cost;

		attempt->returned = (attempt->roughly ? wr_algo_log_plan_taken
						      : wr_algo_log_plan_back)(
			limit, view, n, attempt->charged_ns, attempt->now_ns, decision, plan);
		return attempt->returned > 0;
	}
	wr_algo_log_plan(limit, attempt->ceiling, view, attempt->cost, attempt->now_ns, decision,
			 plan);
	if (wr_soft_mode(limit) && !decision->admitted)
		attempt->ceiling_wait_ns = wr_algo_log_wait(
			limit, limit->ceiling, view, wr_amount(attempt->cost), attempt->now_ns);
	return plan->changed && !wr_writes_nothing(attempt);
}

/* Writes a log that is stored in the cell. Returns false if another thread changed the cell
 * first. */
static bool write_cell(const struct wr_attempt *attempt, struct log_reading *reading, uint64_t s0,
		       uint32_t s1)
{
	const struct weir_decision *decision = attempt->decision;
	struct wr_pair hot = reading->spot.hot;

	wr_cell_raise_fresh(reading->spot.cell, attempt->now_ns + decision->reset_after_ns,
			    attempt->now_ns);
	return wr_pair_cas(&reading->spot.cell->hot, &hot,
			   wr_hot_with(hot, s0, s1, wr_store_harm_after(hot, decision)));
}

/* Returns the number of entries that a new ring must hold. If another thread has sealed the old
 * ring, all its entries have to be copied, even if this attempt only gives some back. */
static uint32_t entries_to_hold(const struct wr_algo_log_plan *plan,
				const struct log_reading *reading)
{
	uint32_t entries = plan->count > reading->view.count ? plan->count : reading->view.count;

	return entries ? entries : 1;
}

/* Returns true if the cell still belongs to the key. Called after an append. An append does not
 * change the cell, so a thread that evicts the cell at the same time does not notice the append. If
 * the key has lost its cell, the entry has to be appended again. */
static bool still_its_cell(const struct wr_spot *spot)
{
	struct wr_spot now = {spot->cell, wr_pair_load(&spot->cell->hot)};

	return wr_spot_still(&now, spot->hot);
}

/* Decides the attempt on a brief log. Tries to get a ring whenever a new slot (a third of the
 * period) begins. Returns false if the log has to be read again, because it has changed or has got
 * a ring. */
static bool attempt_brief(struct weir_table *table, struct wr_attempt *attempt,
			  struct log_reading *reading)
{
	struct wr_store_brief_view now = reading->brief;
	bool counts =
		attempt->cost > 0 && attempt->purpose != WR_LOOK && attempt->purpose != WR_MARK;
	bool write = wr_store_brief_step(attempt, &reading->brief);

	if (write && counts && now.moved && now.late_ns == 0) {
		reading->brief = now;
		if (grow_ring(table, attempt, reading,
			      wr_store_brief_room(&now.brief, (uint64_t)attempt->cost,
						  attempt->limit->ceiling)))
			return false;
		wr_store_brief_step(attempt, &reading->brief);
	}
	if (!write)
		settle_unchanged(attempt, reading);
	else if (!write_cell(attempt, reading, wr_brief_s0(&reading->brief.brief),
			     wr_brief_s1(&reading->brief.brief)))
		return false;
	if (counts)
		wr_tally(&table->tallies->log_approximate);
	return true;
}

/* Moves the log to a ring or to a larger ring. If the slab has no room, makes the log brief, or
 * refuses the attempt. Returns true if the attempt was refused. */
static bool move_log(struct weir_table *table, struct wr_attempt *attempt,
		     struct log_reading *reading, const struct wr_algo_log_plan *plan)
{
	if (grow_ring(table, attempt, reading, entries_to_hold(plan, reading)))
		return false;
	if (attempt->limit->flags & WEIR_FULL_REFUSES) {
		refuse_full(table, attempt);
		return true;
	}
	make_brief(table, attempt, reading);
	return false;
}

/* Decides the attempt on the log that was read. Returns false if the log has to be read again. */
static bool attempt_once(struct weir_table *table, struct wr_attempt *attempt,
			 struct log_reading *reading)
{
	struct wr_algo_log_plan plan;

	if (reading->is_brief)
		return attempt_brief(table, attempt, reading);
	if (!plan_step(attempt, reading, &plan)) {
		if (attempt->settles && reading->log.block && !wr_attempt_was_reset(attempt))
			return remove_older(table, attempt, reading);
		return settle_unchanged(attempt, reading);
	}
	if (!reading->spot.cell) {
		wr_table_claim(table, attempt->key, WR_KIND_LOG, wr_seconds(attempt->now_ns),
			       &reading->spot);
		return false;
	}
	if (!reading->log.block && plan.pending == plan.count)
		return write_cell(attempt, reading, plan.newest_ns, WR_LOG_IN_CELL | plan.count);
	if (!reading->log.block || plan.needs_grow || reading->sealed)
		return move_log(table, attempt, reading, &plan);
	wr_cell_raise_fresh(reading->spot.cell, attempt->now_ns + attempt->decision->reset_after_ns,
			    attempt->now_ns);
	if (!commit_plan(reading, &plan) || !still_its_cell(&reading->spot))
		return false;
	note_harm(reading, attempt->decision);
	return true;
}

/* A log with debt has more entries than the limit. For WR_OWE, the ceiling of the limit is raised by
 * the largest debt, as far as a log can have so many entries. WEIR_COUNT_REJECTED is removed, because
 * with it the decision does not tell how many units beyond the limit are in use. */
static struct weir_limit limit_to_owe(const struct weir_limit *limit)
{
	struct weir_limit raised = *limit;
	uint64_t most = wr_most_owed(limit);

	raised.ceiling = most < WEIR_LOG_MAX ? (uint32_t)most : WEIR_LOG_MAX;
	raised.flags &= ~(uint32_t)WEIR_COUNT_REJECTED;
	return raised;
}

static void attempt_log(struct weir_table *table, struct wr_attempt *attempt)
{
	struct log_reading reading;

	do {
		read_key(table, attempt, &reading);
		if (reading.spot.cell && !wr_knows_override(attempt, reading.spot.hot))
			return;
	} while (!attempt_once(table, attempt, &reading));
}

void wr_store_log_attempt(struct weir_table *table, struct wr_attempt *attempt)
{
	const struct weir_limit *limit = attempt->limit;
	struct weir_limit raised;

	if (attempt->purpose == WR_OWE) {
		raised = limit_to_owe(limit);
		attempt->limit = &raised;
	}
	attempt_log(table, attempt);
	attempt->limit = limit;
}
