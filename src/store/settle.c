/* Settles units after the actual cost of a request is known: weir_settle(). */
#include "store/store.h"

#include "algo/narrow.h"
#include "algo/token.h"
#include "base/assert.h"

/* Units to give back. */
struct refund {
	uint64_t n;
	uint64_t charged_ns;
	/* Tokens that have flowed into a token bucket after this time are not given back. */
	uint64_t since_ns;
};

/* The quick path of a token bucket, for the common case: none of the rare cases of narrow.h applies,
 * no other thread changes the cell, and no key was reset after the tokens were taken. Otherwise
 * gives nothing back and returns false, and the caller has to use the slow path. */
static inline bool give_quickly(struct weir_table *table, const struct weir_limit *limit,
				struct wr_key key, const struct refund *refund, uint64_t now_ns,
				struct weir_decision *decision, uint64_t *returned)
{
	struct wr_narrow bucket;
	struct wr_spot spot;

	if (limit->narrow_ns == 0 || limit->algorithm != WEIR_TOKEN_BUCKET ||
	    !wr_table_find_to_swap(table, key, &spot) ||
	    refund->charged_ns <= wr_store_reset_ns(table) ||
	    !wr_narrow_give(limit, spot.hot.lo, wr_hot_s1(spot.hot), refund->n, refund->since_ns,
			    now_ns, &bucket, returned) ||
	    !wr_pair_cas(&spot.cell->hot, &spot.hot,
			 wr_hot_with(spot.hot, bucket.since_ns, (uint32_t)bucket.taken,
				     wr_store_harm_next(spot.hot, wr_narrow_harm(limit, &bucket)))))
		return false;
	wr_narrow_fill_decision(limit, &bucket, now_ns, decision);
	decision->charged_ns = 0;
	return true;
}

/* This function is not inlined, so that the quick path does not fill in the attempt. */
static __attribute__((noinline)) uint64_t
give_slowly(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
	    const struct refund *refund, uint64_t now_ns, struct weir_decision *decision)
{
	struct wr_attempt attempt = {.key = key,
				     .cost = -(int64_t)refund->n,
				     .now_ns = now_ns,
				     .purpose = WR_RETURN,
				     .decision = decision,
				     .table = table,
				     .charged_ns = refund->charged_ns,
				     .refilled_since_ns = refund->since_ns,
				     .settles = true};

	wr_attempt_decide(table, &attempt, limit);
	return attempt.returned;
}

/* Gives back units, also from the middle of a log. Returns the number given back. */
static inline uint64_t give_back(struct weir_table *table, const struct weir_limit *limit,
				 struct wr_key key, const struct refund *refund, uint64_t now_ns,
				 struct weir_decision *decision)
{
	uint64_t returned;

	if (give_quickly(table, limit, key, refund, now_ns, decision, &returned))
		return returned;
	return give_slowly(table, limit, key, refund, now_ns, decision);
}

/* Returns the refund of n unused units that were taken at charged_ns. A token bucket gets the
 * larger one of two refunds: the tokens that have not flowed in since charged_ns, or the tokens
 * that it certainly lacked all the time (wr_token_sure()). From the second number, the tokens that
 * have flowed in are already deducted, so its since_ns is now_ns. */
static struct refund refund_of(const struct weir_limit *limit, uint64_t n, uint64_t used,
			       uint64_t charged_ns, uint64_t now_ns)
{
	struct refund refund = {n, charged_ns, charged_ns};
	unsigned __int128 refilled;
	uint64_t sure;

	if (limit->algorithm != WEIR_TOKEN_BUCKET)
		return refund;
	sure = wr_token_sure(limit, n, used, charged_ns, now_ns);
	refilled = (unsigned __int128)(now_ns - charged_ns) * limit->limit;
	if (sure && (unsigned __int128)(n - sure) * limit->period_ns <= refilled)
		refund = (struct refund){sure, charged_ns, now_ns};
	return refund;
}

void wr_store_settle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t charged, int64_t actual, uint64_t used, uint64_t charged_ns,
		     uint64_t now_ns, uint64_t *returned, uint64_t *owed,
		     struct weir_decision *decision)
{
	wr_assert(limit->checked && charged >= 0 && actual >= 0);
	wr_assert(limit->algorithm != WEIR_LEAKY_BUCKET);
	*returned = *owed = 0;
	if (limit->algorithm == WEIR_CONCURRENT) {
		charged = charged_ns ? 1 : 0; /* a request holds one slot, whatever its cost */
		actual = 0;
	}
	if (actual > charged) {
		*owed = wr_store_owe(table, limit, key, actual - charged, now_ns, decision);
	} else if (actual < charged) {
		struct refund refund =
			refund_of(limit, (uint64_t)(charged - actual), used, charged_ns, now_ns);

		*returned = give_back(table, limit, key, &refund, now_ns, decision);
	} else {
		wr_store_decide(table, limit, key, 0, now_ns, WR_LOOK, decision);
	}
}

int weir_settle(struct weir_table *table, const struct weir_limit *limit, const void *key,
		size_t len, const struct weir_decision *taken, int64_t charged, int64_t actual,
		uint64_t now_ns, struct weir_decision *decision)
{
	uint64_t charged_ns = taken ? taken->charged_ns : 0, returned, owed, used;
	int rc = wr_store_check_take(table, limit, key, len, charged | actual, now_ns | charged_ns,
				     decision);

	if (rc)
		return rc;
	if (!taken || limit->algorithm == WEIR_LEAKY_BUCKET) {
		*decision = (struct weir_decision){0};
		return taken ? WEIR_ELIMIT : WEIR_EINVAL;
	}
	/* *taken is read before *decision is written: both can be the same object. */
	used = taken->admitted ? wr_store_units_used(taken) : 0;
	wr_store_settle(table, limit, wr_hash_key(table->secret, key, len, limit->checked), charged,
			actual, used, charged_ns, now_ns, &returned, &owed, decision);
	decision->admitted = 1;
	decision->retry_after_ns = 0;
	return 0;
}
