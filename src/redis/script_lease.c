/* Arguments and replies of the lease script. Called by src/central. */
#include "redis/script_lease.h"

#include <stdio.h>

#include "base/assert.h"
#include "redis/reply.h"

#define HOLDER_ARGS 8u
#define SEQ_MAX (1ull << 53)

/* The indexes of the values of a reply. The first six values are those of a take. */
enum { TAKE_VALUES = 6, GRANTED = TAKE_VALUES, TTL, KNOWN, ALL_RESET, VALUES };

uint64_t wr_redis_lease_ttl_us(const struct wr_take *take)
{
	uint64_t span_us = take->period_us;

	if (span_us == 0)
		span_us = take->window_end_us - take->window_start_us;
	return span_us / 10 < WR_LEASE_TTL_MAX_US ? span_us / 10 : WR_LEASE_TTL_MAX_US;
}

bool wr_redis_lease_lends(const struct wr_take *take)
{
	return take->algorithm != WEIR_LEAKY_BUCKET && take->algorithm != WEIR_CONCURRENT &&
	       !take->soft_ceiling && !(take->flags & WEIR_COUNT_REJECTED) &&
	       wr_take_capacity(take) > 0;
}

size_t wr_script_lease_argc(const struct wr_redis_lease_call *call)
{
	return wr_script_argc(&call->take, 1) + (call->holder ? HOLDER_ARGS : 0);
}

void wr_script_lease_args(const struct wr_redis_lease_call *call, uint64_t report_seq,
			  struct wr_commands *out)
{
	char holder[20];

	wr_assert(!call->holder || (call->seq < SEQ_MAX && call->after < call->seq));
	wr_script_args(&call->take, 1, report_seq, out);
	if (!call->holder)
		return;
	snprintf(holder, sizeof holder, "%016llx", (unsigned long long)call->holder);
	wr_command_text(out, holder);
	wr_command_number(out, (int64_t)call->seq);
	wr_command_number(out, (int64_t)call->after);
	wr_command_number(out, call->spent);
	wr_command_number(out, call->returned);
	wr_command_number(out, call->wanted);
	wr_command_number(out, call->nodes ? call->nodes : 1);
	wr_command_number(out, (int64_t)(call->ttl_us < WR_LEASE_TTL_MAX_US ? call->ttl_us
									    : WR_LEASE_TTL_MAX_US));
}

int wr_script_lease_reply(const redisReply *reply, const struct wr_redis_lease_call *call,
			  struct wr_leased *leased)
{
	redisReply of_take;
	uint64_t all_us;

	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != VALUES ||
	    !wr_redis_reply_is_number(reply->element[GRANTED], 0, UINT32_MAX) ||
	    !wr_redis_reply_is_number(reply->element[TTL], 0, WR_LEASE_TTL_MAX_US) ||
	    !wr_redis_reply_is_number(reply->element[KNOWN], 0, 1) ||
	    !wr_redis_reply_is_number(reply->element[ALL_RESET], 0, INT64_MAX))
		return WEIR_EFORMAT;
	of_take = *reply;
	of_take.elements = TAKE_VALUES;
	if (wr_script_reply(&of_take, &call->take, 1, &leased->taken) < 0)
		return WEIR_EFORMAT;
	all_us = (uint64_t)reply->element[ALL_RESET]->integer;
	if (all_us > leased->taken.reset_after_us)
		leased->taken.reset_after_us = all_us;
	leased->granted = (uint32_t)reply->element[GRANTED]->integer;
	leased->ttl_us = (uint64_t)reply->element[TTL]->integer;
	leased->known = reply->element[KNOWN]->integer == 1;
	return 0;
}
