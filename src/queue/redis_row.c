/* Reads the elements of the script's replies. All input is checked, because a server could send
 * anything. Called by the other redis_*.c files. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "queue/record.h"
#include "queue/redis_backend.h"
#include "redis/error.h"

/* Indexes of the elements of the array that read() in head.lua returns for a request. */
enum {
	ID,
	TICKET,
	LINE,
	RULE,
	STATE,
	TRIES,
	MAX_TRIES,
	INTERVAL,
	ACCEPTED,
	DUE,
	EXPIRES,
	DONE,
	STATUS,
	REASON,
	BODY_LEN,
	HEAD,
	BODY,
	ELEMENTS
};

struct weir_str wr_queue_redis_text(const redisReply *reply, size_t at)
{
	const redisReply *text;

	if (!reply || reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
		return WR_STR("");
	text = reply->element[at];
	if (text->type != REDIS_REPLY_STRING && text->type != REDIS_REPLY_STATUS)
		return WR_STR("");
	return (struct weir_str){text->str, text->len};
}

/* Parses a decimal number. Redis returns an id as text if the id is a member of a set. Returns 0 if
 * the text is not a number. */
static int64_t parse_digits(struct weir_str text)
{
	int64_t number = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9' || number > INT64_MAX / 10 - 9)
			return 0;
		number = number * 10 + (text.ptr[i] - '0');
	}
	return number;
}

int64_t wr_queue_redis_number(const redisReply *reply, size_t at)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
		return 0;
	if (reply->element[at]->type == REDIS_REPLY_INTEGER)
		return reply->element[at]->integer;
	return parse_digits(wr_queue_redis_text(reply, at));
}

/* Returns an element as a number. A negative number becomes 0. */
static uint64_t read_natural(const redisReply *reply, size_t at)
{
	int64_t number = wr_queue_redis_number(reply, at);

	return number > 0 ? (uint64_t)number : 0;
}

struct wr_queue_request *wr_queue_redis_read_row(const struct wr_queue_redis *redis,
						 const redisReply *row, uint64_t now_us, bool open)
{
	struct wr_queue_record record = {.open = open};
	struct wr_queue_request *r = &record.row;
	struct weir_str ticket = wr_queue_redis_text(row, TICKET),
			line = wr_queue_redis_text(row, LINE);
	uint64_t *const times[] = {&r->accepted_us, &r->due_us, &r->expires_us, &r->done_us};

	if (row->type != REDIS_REPLY_ARRAY || row->elements != ELEMENTS ||
	    ticket.len != sizeof r->ticket_hash || line.len != sizeof r->key ||
	    read_natural(row, STATE) >= WR_QUEUE_REQUEST_STATE_COUNT)
		return NULL;
	r->id = read_natural(row, ID);
	memcpy(r->ticket_hash, ticket.ptr, ticket.len);
	memcpy(r->key, line.ptr, line.len);
	r->state = (enum wr_queue_request_state)read_natural(row, STATE);
	r->tries = (uint32_t)read_natural(row, TRIES);
	r->max_tries = (uint32_t)read_natural(row, MAX_TRIES);
	r->interval_us = read_natural(row, INTERVAL);
	r->status = (uint16_t)read_natural(row, STATUS);
	r->body_len = read_natural(row, BODY_LEN);
	for (size_t i = 0; i < 4; i++) {
		uint64_t us = read_natural(row, ACCEPTED + i);

		*times[i] = us ? us - now_us + redis->now.wall_us : 0;
	}
	record.rule = wr_queue_redis_text(row, RULE);
	record.reason = wr_queue_redis_text(row, REASON);
	record.head = wr_queue_redis_text(row, HEAD);
	record.body = wr_queue_redis_text(row, BODY);
	return wr_queue_record_read(&record, redis->backend.seals);
}

size_t wr_queue_redis_report_lines(const struct wr_queue_redis *redis, const redisReply *reply,
				   size_t at)
{
	for (; at + 1 < reply->elements; at += 2) {
		struct weir_str line = wr_queue_redis_text(reply, at);

		if (line.len != WR_LINE_KEY_BYTES)
			break;
		wr_queue_backend_report_waiting(&redis->backend, (const uint8_t *)line.ptr,
						(uint64_t)wr_queue_redis_number(reply, at + 1));
	}
	return at;
}

enum wr_queue_reason wr_queue_redis_reason_of(struct weir_str name)
{
	if (name.len == 0)
		return WR_QUEUE_OK;
	for (unsigned i = 0; i < WR_QUEUE_REASON_COUNT; i++)
		if (wr_str_equal(name, wr_str(wr_queue_reason_name((enum wr_queue_reason)i))))
			return (enum wr_queue_reason)i;
	return WR_QUEUE_FAILED;
}

enum wr_queue_reason wr_queue_redis_error_reason(const redisReply *reply)
{
	switch (wr_fault_of(reply->str, reply->len)) {
	case WR_FAULT_OOM:
		return WR_QUEUE_NO_SPACE;
	case WR_FAULT_MISCONF:
		return WR_QUEUE_NOT_PERSISTENT;
	case WR_FAULT_READONLY:
		return WR_QUEUE_READ_ONLY;
	case WR_FAULT_NOSCRIPT:
	case WR_FAULT_LOADING:
	case WR_FAULT_BUSY:
	case WR_FAULT_MASTERDOWN:
	case WR_FAULT_NOREPLICAS:
	case WR_FAULT_NOAUTH:
	case WR_FAULT_DENIED:
	case WR_FAULT_MAXCLIENTS:
		return WR_QUEUE_AWAY;
	default:
		return WR_QUEUE_FAILED;
	}
}
