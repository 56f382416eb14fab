/* Decisions of one limit on one key: weir_take() and the functions of store.h. */
#include "store/store.h"

#include "algo/narrow.h"
#include "algo/quick.h"
#include "algo/soft.h"
#include "base/assert.h"
#include "algo/step.h"
#include "store/returned.h"

static struct weir_state state_of(const struct wr_attempt *attempt, const struct wr_spot *spot)
{
	struct weir_state state = {spot->hot.lo, wr_hot_s1(spot->hot)};

	/* A sliding counter stores only 32 bits of its window's number. After the cell's expiry the
	 * number may have wrapped, so the state counts as empty. */
	if (attempt->limit->algorithm == WEIR_SLIDING_COUNTER &&
	    wr_cell_fresh_s(spot->cell) <= wr_seconds(attempt->now_ns))
		state = (struct weir_state){0};
	return state;
}

/* Fills the decision for cost 0. */
static void look_at_state(struct wr_attempt *attempt, struct weir_state state)
{
	wr_algo_step(attempt->limit, attempt->ceiling, &state, 0, attempt->now_ns,
		     attempt->decision);
}

/* Gives units back (WR_RETURN). The decision is never a refusal. Returns whether the state
 * changed. */
static bool step_back(struct wr_attempt *attempt, struct weir_state *state)
{
	struct weir_state before = *state;

	attempt->returned = 0;
	if (!wr_attempt_was_reset(attempt))
		attempt->returned =
			wr_step_back(attempt->limit, state, (uint64_t)-attempt->cost,
				     attempt->refilled_since_ns ? attempt->refilled_since_ns
								: attempt->charged_ns,
				     attempt->now_ns);
	look_at_state(attempt, *state);
	attempt->decision->admitted = 1;
	attempt->decision->retry_after_ns = 0;
	return state->s0 != before.s0 || state->s1 != before.s1;
}

/* Counts units beyond the limit (WR_OWE). Returns whether the state changed. */
static bool step_owe(struct wr_attempt *attempt, struct weir_state *state)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t most = wr_most_owed(limit), used;
	struct weir_limit plain = *limit;
	bool changed = false;

	/* With WEIR_COUNT_REJECTED, the decision does not tell how many units beyond the limit are
	 * in use. */
	plain.flags &= ~(uint32_t)WEIR_COUNT_REJECTED;
	attempt->limit = &plain;
	look_at_state(attempt, *state);
	attempt->limit = limit;
	used = wr_store_units_used(attempt->decision);
	attempt->returned = (uint64_t)attempt->cost;
	if (used >= most)
		attempt->returned = 0;
	else if (attempt->returned > most - used)
		attempt->returned = most - used;
	if (attempt->returned)
		changed = wr_charge(limit, state, attempt->returned, attempt->now_ns);
	look_at_state(attempt, *state);
	attempt->decision->admitted = 1;
	attempt->decision->retry_after_ns = 0;
	return changed;
}

/* Carries out the step on a copy of the state. Returns whether the state has to be written. */
static inline bool step_state(struct wr_attempt *attempt, struct weir_state *state)
{
	const struct weir_limit *limit = attempt->limit;
	struct weir_decision *decision = attempt->decision;
	bool changed;

	if (attempt->purpose == WR_CHARGE) {
		changed = wr_charge(limit, state, (uint64_t)attempt->cost, attempt->now_ns);
		look_at_state(attempt, *state);
		return changed;
	}
	if (attempt->purpose == WR_RETURN)
		return step_back(attempt, state);
	if (attempt->purpose == WR_OWE)
		return step_owe(attempt, state);
	changed = wr_algo_step(limit, attempt->ceiling, state, attempt->cost, attempt->now_ns,
			       decision);
	if (__builtin_expect(wr_soft_mode(limit) && !decision->admitted, 0))
		attempt->ceiling_wait_ns = wr_wait(limit, limit->ceiling, state,
						   wr_amount(attempt->cost), attempt->now_ns);
	return changed && !wr_writes_nothing(attempt);
}

/* Repeats the step on a cell until the swap succeeds or nothing has to be written. Returns false if
 * another key has got the cell. */
static inline bool step_on_cell(struct wr_attempt *attempt, struct wr_spot *spot)
{
	struct wr_pair before = spot->hot;

	do {
		struct weir_state state = state_of(attempt, spot);
		struct weir_decision *decision = attempt->decision;
		unsigned harm;

		if (!wr_knows_override(attempt, spot->hot))
			return true;
		if (!step_state(attempt, &state)) {
			if (!decision->admitted && wr_leaves_mark(attempt))
				wr_mark_refused(spot);
			return true;
		}
		harm = wr_store_harm_after(spot->hot, decision);
		wr_cell_raise_fresh(spot->cell, attempt->now_ns + decision->reset_after_ns,
				    attempt->now_ns);
		if (wr_pair_cas(&spot->cell->hot, &spot->hot,
				wr_hot_with(spot->hot, state.s0, state.s1, harm)))
			return true;
	} while (wr_spot_still(spot, before));
	return false;
}

/* Called if the key is not in the cell where it was expected. Finds the key's cell, or makes a
 * cell. If the key has no cell and the attempt has nothing to write, returns false; the decision is
 * then already filled in. */
static bool find_or_claim(struct weir_table *table, struct wr_attempt *attempt,
			  struct wr_spot *spot)
{
	struct weir_state state = {0};

	if (wr_table_find(table, attempt->key, spot))
		return true;
	if (!step_state(attempt, &state)) /* decides the attempt as for a new key */
		return false;
	wr_table_claim(table, attempt->key, attempt->limit->algorithm, wr_seconds(attempt->now_ns),
		       spot);
	return true;
}

/* Carries out an attempt on a limit whose state fits into a cell. */
static void cell_attempt(struct weir_table *table, struct wr_attempt *attempt)
{
	struct wr_spot spot;

	do {
		if (__builtin_expect(!wr_table_find_quick(table, attempt->key, &spot), 0) &&
		    !find_or_claim(table, attempt, &spot))
			return;
	} while (!step_on_cell(attempt, &spot));
}

static void attempt_any(struct weir_table *table, struct wr_attempt *attempt)
{
	if (attempt->limit->algorithm == WEIR_SLIDING_LOG)
		wr_store_log_attempt(table, attempt);
	else if (attempt->limit->algorithm == WEIR_CONCURRENT)
		wr_store_slots_attempt(table, attempt);
	else
		cell_attempt(table, attempt);
}

/* Returns the second state of a key in soft mode (algo/soft.h). If `sure` is true, reads every cell
 * where the state can be. If `sure` is false, reads only the cell where the state is expected. If
 * the state is in another cell, it is not found, and the decision on a key within its limit may
 * have a reset_after_ns that is too short. */
static struct weir_state soft_state(struct weir_table *table, const struct weir_limit *limit,
				    struct wr_key key, uint64_t now_ns, bool sure)
{
	struct weir_state state = {0};
	struct wr_spot spot;

	if (wr_table_find_quick(table, key, &spot) || (sure && wr_table_find(table, key, &spot)))
		state = (struct weir_state){spot.hot.lo, wr_hot_s1(spot.hot)};
	wr_soft_carry(limit, &state, now_ns);
	return state;
}

/* Records an excess in the second state of a key (algo/soft.h). Sets *before and *after to the
 * state before and after the excess. */
static void note_excess(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
			uint64_t now_ns, struct weir_state *before, struct weir_state *after)
{
	struct wr_spot spot;

	do {
		wr_table_claim(table, key, WR_KIND_SOFT, wr_seconds(now_ns), &spot);
		*before = (struct weir_state){spot.hot.lo, wr_hot_s1(spot.hot)};
		*after = *before;
		if (!wr_soft_note(limit, after, now_ns))
			return;
		wr_cell_raise_fresh(spot.cell, now_ns + wr_soft_reset_after(limit, after, now_ns),
				    now_ns);
		/* The cell gets the harm (algo/harm.h) of a refused key that has used its whole
		 * limit, because evicting the cell would allow the key to exceed its limit
		 * again. */
	} while (!wr_pair_cas(&spot.cell->hot, &spot.hot,
			      wr_hot_with(spot.hot, after->s0, after->s1,
					  wr_store_harm_refused(limit->capacity))));
}

static void soft_reset(const struct wr_attempt *attempt, const struct weir_state *soft)
{
	uint64_t armed_ns = wr_soft_reset_after(attempt->limit, soft, attempt->now_ns);

	if (armed_ns > attempt->decision->reset_after_ns)
		attempt->decision->reset_after_ns = armed_ns;
}

/* Decides in soft mode. Tries the limit first. A request that does not fit the limit is an excess,
 * and may be admitted under the ceiling. */
static void soft_attempt(struct weir_table *table, struct wr_attempt *attempt)
{
	const struct weir_limit *limit = attempt->limit;
	struct weir_decision *decision = attempt->decision;
	enum wr_purpose purpose = attempt->purpose;
	struct wr_key key = wr_store_soft_key(attempt->key);
	struct weir_state before, after;
	uint64_t capacity_wait_ns;
	bool above;

	attempt->purpose = purpose == WR_TAKE ? WR_TRY : WR_LOOK;
	attempt_any(table, attempt);
	if (attempt->changed)
		return;
	if (decision->admitted) {
		before = soft_state(table, limit, key, attempt->now_ns, false);
		soft_reset(attempt, &before);
		return;
	}
	capacity_wait_ns = decision->retry_after_ns;
	attempt->purpose = purpose;
	if (wr_leaves_mark(attempt)) {
		note_excess(table, limit, key, attempt->now_ns, &before, &after);
	} else {
		before = soft_state(table, limit, key, attempt->now_ns, true);
		after = before;
	}
	above = wr_soft_phase(limit, &before, attempt->now_ns) != WR_SOFT_SPENT;
	attempt->ceiling = above ? limit->ceiling : limit->capacity;
	attempt_any(table, attempt);
	decision->soft = decision->admitted && above;
	if (!decision->admitted && !decision->full)
		decision->retry_after_ns =
			wr_soft_retry_after(limit, &after, attempt->now_ns,
					    above ? capacity_wait_ns : decision->retry_after_ns,
					    attempt->ceiling_wait_ns);
	soft_reset(attempt, &after);
}

/* Decides under `limit`. Returns false if the override of the key has changed since it was applied
 * to `limit`. */
static bool attempt_under(struct weir_table *table, struct wr_attempt *attempt,
			  const struct weir_limit *limit)
{
	enum wr_purpose purpose = attempt->purpose;

	attempt->limit = limit;
	attempt->ceiling = limit->capacity;
	attempt->changed = false;
	if (__builtin_expect(wr_soft_mode(limit) && attempt->cost >= 0 && purpose != WR_CHARGE &&
				     purpose != WR_OWE,
			     0))
		soft_attempt(table, attempt);
	else
		attempt_any(table, attempt);
	attempt->purpose = purpose;
	return !attempt->changed;
}

/* Decides for a key that has an override, or had an override when its cell was read. The override
 * is read after the cell's count of changes. If the override changes again, the attempt finds
 * another count, and the loop repeats. */
static __attribute__((noinline)) void
attempt_overridden(struct weir_table *table, struct wr_attempt *attempt,
		   const struct weir_limit *limit, bool despite_ban, struct wr_override *override)
{
	uint32_t now_s = wr_seconds(attempt->now_ns);
	struct weir_limit raised;

	do {
		*override = attempt->changes ? wr_override_read(table, attempt->key, now_s)
					     : (struct wr_override){0};
		if (attempt->changes && !wr_override_any(*override))
			wr_override_settle(table, attempt->key, now_s);
		if (override->banned_until_s && attempt->cost >= 0 && !despite_ban) {
			wr_store_refuse_banned(limit, override, attempt->now_ns, attempt->decision);
			return;
		}
		raised = wr_store_limit_raised(table, limit, override->granted);
	} while (!attempt_under(table, attempt, &raised));
	attempt->decision->granted = raised.capacity - limit->capacity;
}

static void decide_uncounted(struct weir_table *table, struct wr_attempt *attempt,
			     const struct weir_limit *limit)
{
	struct wr_override override;

	if (__builtin_expect(!attempt_under(table, attempt, limit), 0))
		attempt_overridden(table, attempt, limit, false, &override);
}

/* Settlements count the tokens that they give back themselves (settle.c). */
void wr_attempt_decide(struct weir_table *table, struct wr_attempt *attempt,
		       const struct weir_limit *limit)
{
	bool counts =
		attempt->cost < 0 && !attempt->settles && limit->algorithm == WEIR_TOKEN_BUCKET;
	struct wr_returned *entry = counts ? wr_returned_entry(table, attempt->key) : NULL;

	if (entry)
		wr_returned_begin(table, entry, wr_amount(attempt->cost));
	decide_uncounted(table, attempt, limit);
	if (entry)
		wr_returned_end(entry, wr_amount(attempt->cost));
}

/* This function is not inlined, so that the quick path can use all registers. */
static __attribute__((noinline)) void decide_slowly(struct weir_table *table,
						    const struct weir_limit *limit,
						    struct wr_key key, int64_t cost,
						    uint64_t now_ns, enum wr_purpose purpose,
						    struct weir_decision *decision)
{
	struct wr_attempt attempt = {.key = key,
				     .cost = cost,
				     .now_ns = now_ns,
				     .purpose = purpose,
				     .decision = decision};

	wr_attempt_decide(table, &attempt, limit);
}

void wr_store_inspect(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		      uint64_t now_ns, struct weir_decision *decision, struct wr_override *override)
{
	struct wr_attempt attempt = {
		.key = key, .now_ns = now_ns, .purpose = WR_LOOK, .decision = decision};

	wr_assert(limit->checked && override);
	*override = (struct wr_override){0};
	if (!attempt_under(table, &attempt, limit))
		attempt_overridden(table, &attempt, limit, true, override);
}

void wr_store_impose(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t cost, uint64_t now_ns)
{
	struct weir_decision decision = {0};
	struct wr_override override;
	struct wr_attempt attempt = {.key = key,
				     .cost = cost,
				     .now_ns = now_ns,
				     .purpose = WR_CHARGE,
				     .decision = &decision};

	wr_assert(limit->checked && cost >= 0);
	if (!attempt_under(table, &attempt, limit))
		attempt_overridden(table, &attempt, limit, true, &override);
}

void wr_store_decide(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t cost, uint64_t now_ns, enum wr_purpose purpose,
		     struct weir_decision *decision)
{
	wr_assert(limit->checked);
	decide_slowly(table, limit, key, cost, now_ns, purpose, decision);
}

/* The quick path of a token bucket, for the common case: the request is admitted, none of the rare
 * cases of narrow.h applies, and no other thread changes the cell. Otherwise takes nothing and
 * returns false, and the caller has to use the slow path. The decision is filled after the swap, so
 * that its divisions do not delay the swap. */
static inline bool take_token_quickly(const struct weir_limit *limit, struct wr_spot *spot,
				      int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	struct wr_narrow bucket;

	if (!wr_narrow_fits(limit, cost) ||
	    !wr_narrow_take(limit, spot->hot.lo, wr_hot_s1(spot->hot), (uint64_t)cost, now_ns,
			    &bucket))
		return false;
	if (!wr_narrow_full_by(limit, &bucket, now_ns, wr_cell_fresh_ns(spot->cell)))
		wr_cell_raise_fresh(spot->cell, now_ns + bucket.backlog / limit->limit + 1, now_ns);
	if (!wr_pair_cas(
		    &spot->cell->hot, &spot->hot,
		    wr_hot_with(spot->hot, bucket.since_ns, (uint32_t)bucket.taken,
				wr_store_harm_next(spot->hot, wr_narrow_harm(limit, &bucket)))))
		return false;
	wr_narrow_fill_decision(limit, &bucket, now_ns, decision);
	return true;
}

/* The quick path of a fixed window. It does not raise the cell's expiry, because the first request
 * of the window has set it to the end of the window. */
static inline bool take_fixed_quickly(const struct weir_limit *limit, struct wr_spot *spot,
				      int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	uint64_t start_ns = spot->hot.lo;
	uint64_t count = wr_fixed_quick(limit, start_ns, wr_hot_s1(spot->hot), cost, now_ns);

	if (count == 0 ||
	    !wr_pair_cas(&spot->cell->hot, &spot->hot,
			 wr_hot_with(spot->hot, start_ns, (uint32_t)count,
				     wr_store_harm_next(spot->hot, wr_harm_of(count)))))
		return false;
	wr_fixed_quick_fill_decision(limit, start_ns, count, now_ns, decision);
	return true;
}

static inline bool take_quickly(struct weir_table *table, const struct weir_limit *limit,
				struct wr_key key, int64_t cost, uint64_t now_ns,
				struct weir_decision *decision)
{
	struct wr_spot spot;

	if (limit->narrow_ns == 0 || !wr_table_find_to_swap(table, key, &spot))
		return false;
	if (limit->algorithm == WEIR_FIXED_WINDOW)
		return take_fixed_quickly(limit, &spot, cost, now_ns, decision);
	return take_token_quickly(limit, &spot, cost, now_ns, decision);
}

static __attribute__((noinline)) uint64_t
owe_slowly(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
	   int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	struct wr_override override;
	struct wr_attempt attempt = {.key = key,
				     .cost = cost,
				     .now_ns = now_ns,
				     .purpose = WR_OWE,
				     .decision = decision};

	if (!attempt_under(table, &attempt, limit))
		attempt_overridden(table, &attempt, limit, true, &override);
	return attempt.returned;
}

/* If the units fit within the limit, no debt arises, and the quick path can take them. */
uint64_t wr_store_owe(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		      int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	wr_assert(limit->checked && cost > 0);
	if (!take_quickly(table, limit, key, cost, now_ns, decision))
		return owe_slowly(table, limit, key, cost, now_ns, decision);
	decision->charged_ns = 0;
	return (uint64_t)cost;
}

bool wr_store_likely_admits(const struct weir_table *table, const struct weir_limit *limit,
			    struct wr_key key, int64_t cost, uint64_t now_ns)
{
	struct wr_narrow bucket;
	struct wr_spot spot;

	if (limit->narrow_ns == 0 || !wr_table_find_to_swap(table, key, &spot))
		return false;
	if (limit->algorithm == WEIR_FIXED_WINDOW)
		return wr_fixed_quick(limit, spot.hot.lo, wr_hot_s1(spot.hot), cost, now_ns) != 0;
	return wr_narrow_fits(limit, cost) &&
	       wr_narrow_take(limit, spot.hot.lo, wr_hot_s1(spot.hot), (uint64_t)cost, now_ns,
			      &bucket);
}

void wr_store_take(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		   int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	if (__builtin_expect(!take_quickly(table, limit, key, cost, now_ns, decision), 0))
		decide_slowly(table, limit, key, cost, now_ns, WR_TAKE, decision);
}

/* In soft mode all units up to the ceiling can be taken: the request was admitted already, so it is
 * not decided again whether it may exceed the limit. */
uint32_t wr_store_charge(struct weir_table *table, const struct weir_limit *limit,
			 struct wr_key key, int64_t cost, uint64_t now_ns, uint64_t *charged_ns)
{
	struct weir_limit hard = *limit;
	struct weir_decision decision = {0};

	wr_assert(cost >= 0);
	if (!take_quickly(table, limit, key, cost, now_ns, &decision)) {
		hard.capacity = hard.ceiling;
		decide_slowly(table, &hard, key, cost, now_ns, WR_TRY, &decision);
	}
	if (!decision.admitted && !decision.full && decision.remaining) {
		cost = decision.remaining;
		decide_slowly(table, &hard, key, cost, now_ns, WR_TRY, &decision);
	}
	*charged_ns = decision.charged_ns;
	return decision.admitted ? (uint32_t)cost : 0;
}

int weir_reserve(struct weir_table *table, const struct weir_limit *limit, const void *key,
		 size_t len, int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	int rc = wr_store_check_take(table, limit, key, len, cost, now_ns, decision);
	uint64_t given = 0;
	struct wr_key hashed;

	if (rc)
		return rc;
	hashed = wr_hash_key(table->secret, key, len, limit->checked);
	if (limit->algorithm == WEIR_TOKEN_BUCKET)
		given = wr_returned_read(table, hashed);
	wr_store_take(table, limit, hashed, cost, now_ns, decision);
	decision->given = decision->admitted ? given : 0;
	return 0;
}

int weir_take(struct weir_table *table, const struct weir_limit *limit, const void *key, size_t len,
	      int64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	struct wr_key hashed;
	int rc = wr_store_check_take(table, limit, key, len, cost, now_ns, decision);

	if (__builtin_expect(rc, 0))
		return rc;
	hashed = wr_hash_key(table->secret, key, len, limit->checked);
	if (__builtin_expect(!take_quickly(table, limit, hashed, cost, now_ns, decision), 0))
		decide_slowly(table, limit, hashed, cost, now_ns, WR_TAKE, decision);
	return 0;
}
