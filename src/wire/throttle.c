#include "wire/throttle.h"

#include "store/store.h"

#define SECOND_NS 1000000000ull
#define THROTTLE_IDENTITY 0x636c2d7468726f74u /* keeps them apart from the rules' counters */

const struct weir_limit *wr_throttle_limit(struct wr_throttle_memo *memo,
					   const struct wr_throttle_request *request,
					   struct weir_error *error)
{
	if (memo->limit.checked && memo->capacity == request->capacity &&
	    memo->count == request->count && memo->period_s == request->period_s)
		return &memo->limit;
	memo->capacity = request->capacity;
	memo->count = request->count;
	memo->period_s = request->period_s;
	memo->limit = (struct weir_limit){.size = sizeof memo->limit,
					  .algorithm = WEIR_TOKEN_BUCKET,
					  .limit = request->count,
					  .burst = request->capacity,
					  .period_ns = request->period_s * SECOND_NS,
					  .identity = THROTTLE_IDENTITY};
	return weir_limit_check(&memo->limit, error) == 0 ? &memo->limit : NULL;
}

struct wr_key wr_throttle_key(const struct weir_table *table, const struct weir_limit *limit,
			      struct weir_str key)
{
	struct wr_key hashed = wr_hash_key(table->secret, key.ptr, key.len, limit->checked);

	__builtin_prefetch(&wr_row_first(table, hashed)->cell[wr_home(hashed)], 1);
	return hashed;
}

static int64_t seconds_up(uint64_t ns)
{
	return (int64_t)(ns / SECOND_NS + (ns % SECOND_NS != 0));
}

/* How long a full bucket's worth of tokens takes to come back. A checked limit's fits. */
static uint64_t fill_ns(const struct weir_limit *limit)
{
	unsigned __int128 all = (unsigned __int128)limit->capacity * limit->period_ns;

	return (uint64_t)((all + limit->limit - 1) / limit->limit);
}

/* weir refuses to look into an empty bucket; redis-cell admits taking nothing from it, unless the
 * limit was larger once and has been overdrawn. */
static void judge_look(const struct weir_limit *limit, struct weir_decision *decision)
{
	uint64_t full_ns = fill_ns(limit);

	decision->admitted = decision->reset_after_ns <= full_ns;
	if (!decision->admitted)
		decision->retry_after_ns = decision->reset_after_ns - full_ns;
}

void wr_throttle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t quantity, uint64_t now_ns, struct wr_throttle_answer *answer)
{
	struct weir_decision decision;

	wr_take_key(table, limit, key, quantity, now_ns, &decision);
	if (quantity == 0)
		judge_look(limit, &decision);
	*answer = (struct wr_throttle_answer){
		.limited = !decision.admitted,
		.limit = decision.limit,
		.remaining = decision.remaining,
		.retry_s = decision.admitted || decision.retry_after_ns == WEIR_NEVER
				   ? -1
				   : seconds_up(decision.retry_after_ns),
		.reset_s = seconds_up(decision.reset_after_ns)};
}
