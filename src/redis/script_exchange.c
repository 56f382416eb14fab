/* Arguments and replies of the exchange and push scripts. Called by src/central. */
#include "redis/script_exchange.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/assert.h"
#include "redis/reply.h"

/* a reply begins with this many numbers: four sums, and the number of other holders */
#define SUMS 5u
#define HEAD (SUMS + 3) /* index in the reply of the first name of a page */
#define LIFE_MARGIN_MS 1000u

static uint64_t clamp_number(uint64_t number)
{
	return number < WR_EXCHANGE_NUMBER_MAX ? number : WR_EXCHANGE_NUMBER_MAX;
}

static void write_number(struct wr_commands *out, uint64_t number)
{
	wr_command_number(out, (int64_t)clamp_number(number));
}

/* Writes how long Redis must store the hash of the counter, in ms: life_us and a margin, because
 * clocks differ. */
static void write_life(struct wr_commands *out, uint64_t life_us)
{
	write_number(out, life_us / 1000 + LIFE_MARGIN_MS);
}

size_t wr_script_exchange_argc(void)
{
	return 15;
}

void wr_script_exchange_args(const struct wr_redis_exchange_call *call, struct wr_commands *out)
{
	const struct wr_redis_exchange_state *state = &call->state;

	wr_command_arg(out, call->holder.ptr, call->holder.len);
	write_number(out, state->window);
	write_number(out, state->now.plus);
	write_number(out, state->now.minus);
	write_number(out, state->before.plus);
	write_number(out, state->before.minus);
	write_number(out, call->oldest);
	write_life(out, call->life_us);
	wr_command_number(out, (int64_t)call->unit_ns);
	wr_command_arg(out, call->lacking.ptr, call->lacking.len);
	wr_command_arg(out, call->reached.ptr, call->reached.len);
	wr_command_arg(out, call->relayed.ptr, call->relayed.len);
	write_number(out, call->relayed_us);
	wr_command_arg(out, call->last.ptr, call->last.len);
	write_number(out, call->relay_ms);
}

static bool read_sum(const redisReply *reply, uint64_t *sum)
{
	if (!wr_redis_reply_is_number(reply, 0, INT64_MAX))
		return false;
	*sum = (uint64_t)reply->integer;
	return true;
}

static int read_page(const redisReply *reply, struct wr_redis_exchange_page *page)
{
	const redisReply *region = reply->element[SUMS];
	uint64_t more;

	if (reply->elements < HEAD || reply->elements - HEAD > 2ul * WR_EXCHANGE_PAGE ||
	    (reply->elements - HEAD) % 2 || region->type != REDIS_REPLY_STRING ||
	    region->len != WR_EXCHANGE_TAG ||
	    !read_sum(reply->element[SUMS + 1], &page->since_us) ||
	    !read_sum(reply->element[SUMS + 2], &more))
		return WEIR_EFORMAT;
	page->region = (struct weir_str){region->str, region->len};
	page->more = more;
	for (size_t i = HEAD; i < reply->elements; i += 2) {
		const redisReply *name = reply->element[i], *value = reply->element[i + 1];

		if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING ||
		    name->len == 0 || name->len > WR_EXCHANGE_NAME ||
		    value->len >= WR_EXCHANGE_VALUE)
			return WEIR_EFORMAT;
		page->entries[page->count++] = (struct wr_redis_exchange_entry){
			{name->str, name->len}, {value->str, value->len}};
	}
	return page->more && page->count == 0 ? WEIR_EFORMAT : 0;
}

int wr_script_exchange_reply(const redisReply *reply, struct wr_exchanged *exchanged,
			     struct wr_redis_exchange_page *page)
{
	struct wr_redis_exchange_tally *now = &exchanged->now, *before = &exchanged->before;
	uint64_t others;

	page->region.len = page->count = 0;
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < SUMS ||
	    !read_sum(reply->element[0], &now->plus) || !read_sum(reply->element[1], &now->minus) ||
	    !read_sum(reply->element[2], &before->plus) ||
	    !read_sum(reply->element[3], &before->minus) || !read_sum(reply->element[4], &others))
		return WEIR_EFORMAT;
	exchanged->others = others < UINT32_MAX ? (uint32_t)others : UINT32_MAX;
	return reply->elements > SUMS ? read_page(reply, page) : 0;
}

size_t wr_redis_exchange_value(const struct wr_redis_exchange_state *state,
			       char value[WR_EXCHANGE_VALUE])
{
	int len = snprintf(value, WR_EXCHANGE_VALUE, "%llu %llu %llu %llu %llu",
			   (unsigned long long)clamp_number(state->window),
			   (unsigned long long)clamp_number(state->now.plus),
			   (unsigned long long)clamp_number(state->now.minus),
			   (unsigned long long)clamp_number(state->before.plus),
			   (unsigned long long)clamp_number(state->before.minus));

	return (size_t)len;
}

size_t wr_script_push_argc(size_t count)
{
	return 1 + 2 * count;
}

void wr_script_push_args(const struct wr_redis_exchange_entry *entries, size_t count,
			 uint64_t life_us, struct wr_commands *out)
{
	wr_assert(count > 0);
	write_life(out, life_us);
	for (size_t i = 0; i < count; i++) {
		wr_command_arg(out, entries[i].holder.ptr, entries[i].holder.len);
		wr_command_arg(out, entries[i].value.ptr, entries[i].value.len);
	}
}
