/* Reads the replies of the take script. Called by src/central and script_lease.c. */
#include "redis/script.h"

#include "base/assert.h"
#include "redis/reply.h"

/* The indexes of the five values that the reply has for each limit. The first value of the reply is
 * now_us. */
enum { VERDICT, REMAINING, RETRY_AFTER, RESET_AFTER, CHARGED_AFTER, VALUES };

/* The bits of a verdict, which is the result for one limit of the call. scripts/take uses the same
 * numbers. The bits from VERDICT_TIMES upwards contain wr_taken.admitted_times, the number of
 * admitted requests. */
enum {
	VERDICT_ADMITTED = 1,
	VERDICT_SOFT = 2,
	VERDICT_TAKEN = 4,
	VERDICT_OUTSIDE = 8,
	VERDICT_TIMES = 16
};

/* `remaining` is below 0 if units are in use beyond the limit. */
#define REMAINING_LEAST (1ll << 34)

static bool is_decision(redisReply *const *values)
{
	return wr_redis_reply_is_number(values[VERDICT], 0,
					VERDICT_TIMES * (WR_TAKE_TIMES_MAX + 1LL) - 1) &&
	       wr_redis_reply_is_number(values[REMAINING], -REMAINING_LEAST, UINT32_MAX) &&
	       wr_redis_reply_is_number(values[RETRY_AFTER], -1, INT64_MAX) &&
	       wr_redis_reply_is_number(values[RESET_AFTER], 0, INT64_MAX) &&
	       wr_redis_reply_is_number(values[CHARGED_AFTER], 0, INT64_MAX / 1000);
}

static void read_decision(const struct wr_take *take, redisReply *const *values, uint64_t now_us,
			  struct wr_taken *taken)
{
	long long verdict = values[VERDICT]->integer;
	long long remaining = values[REMAINING]->integer;
	long long debt = remaining < 0 ? -remaining : 0;
	long long retry_us = values[RETRY_AFTER]->integer;
	uint64_t after_us = (uint64_t)values[CHARGED_AFTER]->integer;
	bool queues = take->algorithm == WEIR_LEAKY_BUCKET;

	*taken = (struct wr_taken){
		.admitted = verdict & VERDICT_ADMITTED,
		.soft = verdict & VERDICT_SOFT,
		.taken = verdict & VERDICT_TAKEN,
		.outside_window = verdict & VERDICT_OUTSIDE,
		.admitted_times = (uint32_t)(verdict / VERDICT_TIMES),
		.limit = wr_take_capacity(take),
		.remaining = remaining < 0 ? 0 : (uint32_t)remaining,
		.debt = debt < UINT32_MAX ? (uint32_t)debt : UINT32_MAX,
		.retry_after_us = retry_us < 0 ? WR_TAKE_NEVER : (uint64_t)retry_us,
		.reset_after_us = (uint64_t)values[RESET_AFTER]->integer,
		.delay_us = queues ? after_us : 0,
		.now_us = now_us,
	};
	if (taken->taken)
		taken->decided_us = queues ? now_us : now_us + after_us;
}

static bool is_proving(const struct wr_take *take)
{
	return take->cost > 0 && wr_take_uses_given(take);
}

/* Reads the values of the takes with `proves`, which follow the decisions. -1 means that there is no
 * proof. */
static int read_proofs(redisReply *const *values, const struct wr_take *takes, size_t count,
		       struct wr_taken *taken)
{
	for (size_t i = 0; i < count; i++) {
		if (!is_proving(&takes[i]))
			continue;
		if (!wr_redis_reply_is_number(*values, -1, INT64_MAX))
			return WEIR_EFORMAT;
		taken[i].proven = (*values)->integer >= 0;
		taken[i].given = taken[i].proven ? (uint64_t)(*values)->integer : 0;
		values++;
	}
	return 0;
}

int wr_script_reply(const redisReply *reply, const struct wr_take *takes, size_t count,
		    struct wr_taken *taken)
{
	size_t proofs = 0;

	wr_assert(count <= WR_TAKES_MAX);
	for (size_t i = 0; i < count; i++)
		proofs += is_proving(&takes[i]);
	if (!reply || reply->type != REDIS_REPLY_ARRAY ||
	    reply->elements != 1 + count * VALUES + proofs ||
	    !wr_redis_reply_is_number(reply->element[0], 1, INT64_MAX / 1000))
		return WEIR_EFORMAT;
	for (size_t i = 0; i < count; i++)
		if (!is_decision(reply->element + 1 + i * VALUES))
			return WEIR_EFORMAT;
	for (size_t i = 0; i < count; i++)
		read_decision(&takes[i], reply->element + 1 + i * VALUES,
			      (uint64_t)reply->element[0]->integer, &taken[i]);
	return read_proofs(reply->element + 1 + count * VALUES, takes, count, taken);
}
