/* Takes tokens from the buckets of CL.THROTTLE and THROTTLE in the table. With a central store,
 * writes questions about these buckets and reads the answers. Called by commands_throttle.c. */
#include "wire/resp/throttle.h"

#include <stdio.h>

#include "base/assert.h"
#include "rules/rules.h"
#include "store/store.h"

#define SECOND_NS 1000000000ull
#define THROTTLE_IDENTITY 0x636c2d7468726f74u /* separates these counters from counters of rules */

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

/* Corrects the decision on a cost of 0. weir refuses a cost of 0 on an empty bucket. redis-cell
 * admits it, unless the bucket is overdrawn because the limit was lowered. An empty bucket fills up
 * in full_ns, so a bucket that needs more time is overdrawn. full_ns cannot overflow, because the
 * limit has passed weir_limit_check. */
static void judge_look(const struct weir_limit *limit, struct weir_decision *decision)
{
	unsigned __int128 all = (unsigned __int128)limit->capacity * limit->period_ns;
	uint64_t full_ns = (uint64_t)((all + limit->limit - 1) / limit->limit);

	decision->admitted = decision->reset_after_ns <= full_ns;
	if (!decision->admitted)
		decision->retry_after_ns = decision->reset_after_ns - full_ns;
}

static void fill_answer(const struct weir_decision *decision, struct wr_throttle_answer *answer)
{
	*answer = (struct wr_throttle_answer){
		.limited = !decision->admitted,
		.limit = decision->limit,
		.remaining = decision->remaining,
		.retry_s = decision->admitted || decision->retry_after_ns == WEIR_NEVER
				   ? -1
				   : seconds_up(decision->retry_after_ns),
		.reset_s = seconds_up(decision->reset_after_ns)};
}

void wr_throttle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t quantity, uint64_t now_ns, struct wr_throttle_answer *answer)
{
	struct weir_decision decision;

	wr_assert(table && limit && answer);
	wr_store_take(table, limit, key, quantity, now_ns, &decision);
	if (quantity == 0)
		judge_look(limit, &decision);
	fill_answer(&decision, answer);
}

/* ---- with a central store ---- */

void wr_throttle_fleet_key(const uint8_t *secret, struct weir_str key, uint64_t fleet_key[2])
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(key.ptr, key.len, secret, WR_SECRET_BYTES);

	fleet_key[0] = hash.low64;
	fleet_key[1] = hash.high64;
}

size_t wr_throttle_message(enum wr_question_kind kind, const struct weir_limit *limit,
			   const struct wr_throttle_request *request, int64_t cost, uint64_t now_ns,
			   uint8_t bytes[WR_THROTTLE_MESSAGE])
{
	struct wr_question_head head = {
		.version = WR_QUESTION_VERSION, .kind = (uint8_t)kind, .count = 1};
	struct wr_question_item item = {.algorithm = (uint8_t)limit->algorithm,
					.consistency = WR_STRICT,
					.key = {request->fleet_key[0], request->fleet_key[1]},
					.cost = cost,
					.limit = limit->limit,
					.burst = limit->burst,
					.period_ns = limit->period_ns};
	char id[WR_THROTTLE_MESSAGE - sizeof head - sizeof item];

	wr_assert(limit->checked);
	item.id_len = (uint16_t)snprintf(id, sizeof id, "throttle/%llus",
					 (unsigned long long)request->period_s);
	item.bytes = (uint16_t)(sizeof item + item.id_len);
	if (kind == WR_QUESTION_REPORT)
		item.decided_us = now_ns / 1000;
	head.bytes = (uint32_t)(sizeof head + item.bytes);
	memcpy(bytes, &head, sizeof head);
	memcpy(bytes + sizeof head, &item, sizeof item);
	memcpy(bytes + sizeof head + sizeof item, id, item.id_len);
	return head.bytes;
}

bool wr_throttle_read(const void *bytes, size_t len, const struct weir_limit *limit,
		      const struct wr_throttle_request *request, struct wr_throttle_answer *answer)
{
	struct weir_decision decision;
	struct wr_question_head head;
	struct wr_answer central_answer;

	if (len != sizeof head + sizeof central_answer)
		return false;
	memcpy(&head, bytes, sizeof head);
	memcpy(&central_answer, (const uint8_t *)bytes + sizeof head, sizeof central_answer);
	if (head.version != WR_QUESTION_VERSION || head.kind != WR_QUESTION_ANSWER ||
	    central_answer.flags & WR_ANSWER_FAILED)
		return false;
	decision =
		(struct weir_decision){.admitted = (central_answer.flags & WR_ANSWER_ADMITTED) != 0,
				       .limit = central_answer.limit,
				       .remaining = central_answer.remaining,
				       .retry_after_ns = central_answer.retry_after_ns,
				       .reset_after_ns = central_answer.reset_after_ns};
	if (request->quantity <= 0)
		judge_look(limit, &decision);
	fill_answer(&decision, answer);
	return true;
}
