/* weir_return(): gives units back to the window or bucket that counted them. */
#include "store/store.h"

#include "base/assert.h"

static uint64_t give_back(struct weir_table *table, const struct weir_limit *limit,
			  struct wr_key key, int64_t cost, uint64_t charged_ns, uint64_t now_ns,
			  bool roughly)
{
	struct weir_decision ignored = {0};
	struct wr_attempt attempt = {.key = key,
				     .cost = -cost,
				     .now_ns = now_ns,
				     .purpose = WR_RETURN,
				     .decision = &ignored,
				     .table = table,
				     .charged_ns = charged_ns,
				     .settles = roughly,
				     .roughly = roughly,
				     .quiet = true};

	wr_assert(limit->checked && cost > 0);
	wr_attempt_decide(table, &attempt, limit);
	return attempt.returned;
}

uint64_t wr_store_return(struct weir_table *table, const struct weir_limit *limit,
			 struct wr_key key, int64_t cost, uint64_t charged_ns, uint64_t now_ns)
{
	return give_back(table, limit, key, cost, charged_ns, now_ns, false);
}

uint64_t wr_store_return_at(struct weir_table *table, const struct weir_limit *limit,
			    struct wr_key key, int64_t cost, uint64_t taken_ns, uint64_t now_ns)
{
	return give_back(table, limit, key, cost, taken_ns, now_ns, true);
}

int weir_return(struct weir_table *table, const struct weir_limit *limit, const void *key,
		size_t len, int64_t cost, uint64_t charged_ns, uint64_t now_ns,
		struct weir_decision *decision)
{
	struct wr_attempt attempt = {.cost = -cost,
				     .now_ns = now_ns,
				     .purpose = WR_RETURN,
				     .decision = decision,
				     .table = table,
				     .charged_ns = charged_ns};
	int rc = wr_store_check_take(table, limit, key, len, cost, now_ns | charged_ns, decision);

	if (rc)
		return rc;
	attempt.key = wr_hash_key(table->secret, key, len, limit->checked);
	wr_attempt_decide(table, &attempt, limit);
	return 0;
}
