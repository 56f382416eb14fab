/* Settles units after the actual cost of a request is known: weir_settle(). */
#include "store/store.h"

#include "base/assert.h"

/* Gives back n units, also from the middle of a log. Returns the number given back. */
static uint64_t give_back(struct weir_table *table, const struct weir_limit *limit,
			  struct wr_key key, int64_t n, uint64_t charged_ns, uint64_t now_ns,
			  struct weir_decision *decision)
{
	struct wr_attempt attempt = {.key = key,
				     .cost = -n,
				     .now_ns = now_ns,
				     .purpose = WR_RETURN,
				     .decision = decision,
				     .table = table,
				     .charged_ns = charged_ns,
				     .settles = true};

	wr_attempt_decide(table, &attempt, limit);
	return attempt.returned;
}

void wr_store_settle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t charged, int64_t actual, uint64_t charged_ns, uint64_t now_ns,
		     uint64_t *returned, uint64_t *owed, struct weir_decision *decision)
{
	wr_assert(limit->checked && charged >= 0 && actual >= 0);
	wr_assert(limit->algorithm != WEIR_LEAKY_BUCKET);
	*returned = *owed = 0;
	if (limit->algorithm == WEIR_CONCURRENT) {
		charged = charged_ns ? 1 : 0; /* a request holds one slot, whatever its cost */
		actual = 0;
	}
	if (actual > charged)
		*owed = wr_store_owe(table, limit, key, actual - charged, now_ns, decision);
	else if (actual < charged)
		*returned = give_back(table, limit, key, charged - actual, charged_ns, now_ns,
				      decision);
	else
		wr_store_decide(table, limit, key, 0, now_ns, WR_LOOK, decision);
}

int weir_settle(struct weir_table *table, const struct weir_limit *limit, const void *key,
		size_t len, int64_t charged, int64_t actual, uint64_t charged_ns, uint64_t now_ns,
		struct weir_decision *decision)
{
	uint64_t returned, owed;
	int rc = wr_store_check_take(table, limit, key, len, charged | actual, now_ns | charged_ns,
				     decision);

	if (rc)
		return rc;
	if (limit->algorithm == WEIR_LEAKY_BUCKET) {
		*decision = (struct weir_decision){0};
		return WEIR_ELIMIT;
	}
	wr_store_settle(table, limit, wr_hash_key(table->secret, key, len, limit->checked), charged,
			actual, charged_ns, now_ns, &returned, &owed, decision);
	decision->admitted = 1;
	decision->retry_after_ns = 0;
	return 0;
}
