/* Implements reply.h: parses RESP into an arena. Called by src/central through conn.c. */
#include "redis/reply.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

#define BLOCK_BYTES 16384u
/* A parser buffer larger than this is freed when it is empty. */
#define READER_RETAINED_BYTES (256u << 10)

struct wr_redis_reply_block {
	struct wr_redis_reply_block *older;
	size_t used, size;
	_Alignas(max_align_t) uint8_t bytes[];
};

/* ---- the arena of one reply ---- */

static struct wr_redis_reply_block *add_block(struct wr_redis_replies *replies, size_t size)
{
	struct wr_redis_reply_block *block;

	if (size < BLOCK_BYTES)
		size = BLOCK_BYTES;
	if (size > WR_REPLY_BYTES_MAX || replies->held + size > WR_REPLY_BYTES_MAX)
		return NULL;
	block = malloc(sizeof *block + size);
	if (!block)
		return NULL;
	*block = (struct wr_redis_reply_block){.older = replies->blocks, .size = size};
	replies->blocks = block;
	replies->held += size;
	return block;
}

static void *arena_alloc(struct wr_redis_replies *replies, size_t size)
{
	struct wr_redis_reply_block *block = replies->blocks;
	void *memory;

	size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	if (!block || block->size - block->used < size)
		block = add_block(replies, size);
	if (!block)
		return NULL;
	memory = block->bytes + block->used;
	block->used += size;
	return memory;
}

/* Empties the arena: frees all of its blocks of memory except the oldest, which the next reply
 * reuses. */
static void reset_arena(struct wr_redis_replies *replies)
{
	while (replies->blocks && replies->blocks->older) {
		struct wr_redis_reply_block *block = replies->blocks;

		replies->blocks = block->older;
		replies->held -= block->size;
		free(block);
	}
	if (replies->blocks)
		replies->blocks->used = 0;
}

/* ---- callbacks of the hiredis parser ---- */

static redisReply *add_reply(const redisReadTask *task)
{
	redisReply *reply = arena_alloc(task->privdata, sizeof *reply);

	if (!reply)
		return NULL;
	*reply = (redisReply){.type = task->type};
	if (task->parent) {
		const redisReply *parent = task->parent->obj;

		parent->element[task->idx] = reply;
	}
	return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
	redisReply *reply = add_reply(task);

	if (!reply)
		return NULL;
	if (len >= WR_REPLY_BYTES_MAX)
		return NULL;
	reply->str = arena_alloc(task->privdata, len + 1);
	if (!reply->str)
		return NULL;
	memcpy(reply->str, text, len);
	reply->str[len] = 0;
	reply->len = len;
	return reply;
}

static void *create_array(const redisReadTask *task, int elements)
{
	size_t bytes = (size_t)elements * sizeof(void *);
	redisReply *reply;

	if (elements < 0 || (unsigned)elements > WR_REPLY_ELEMENTS_MAX)
		return NULL;
	reply = add_reply(task);
	if (!reply || elements == 0)
		return reply;
	reply->element = arena_alloc(task->privdata, bytes);
	if (!reply->element)
		return NULL;
	memset(reply->element, 0, bytes);
	reply->elements = (size_t)elements;
	return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	redisReply *reply = add_reply(task);

	if (reply)
		reply->integer = value;
	return reply;
}

static void *create_nil(const redisReadTask *task)
{
	redisReply *reply = add_reply(task);

	if (reply)
		reply->type = REDIS_REPLY_NIL;
	return reply;
}

static void free_object(void *reply)
{
	(void)reply; /* nothing is freed here, because the arena owns the reply */
}

static redisReplyObjectFunctions functions = {create_string, create_array, create_integer,
					      create_nil, free_object};

/* ---- replies ---- */

bool wr_redis_replies_init(struct wr_redis_replies *replies)
{
	*replies = (struct wr_redis_replies){.reader = redisReaderCreateWithFunctions(&functions)};
	if (!replies->reader)
		return false;
	replies->reader->maxbuf = READER_RETAINED_BYTES;
	replies->reader->privdata = replies;
	return true;
}

void wr_redis_replies_free(struct wr_redis_replies *replies)
{
	if (replies->reader)
		redisReaderFree(replies->reader);
	reset_arena(replies);
	free(replies->blocks);
	*replies = (struct wr_redis_replies){0};
}

bool wr_redis_replies_feed(struct wr_redis_replies *replies, const void *bytes, size_t len)
{
	const redisReader *reader = replies->reader;

	wr_assert(replies->reader);
	if (reader->len - reader->pos + len > WR_REPLY_BYTES_MAX)
		return false;
	return redisReaderFeed(replies->reader, bytes, len) == REDIS_OK;
}

int wr_redis_replies_next(struct wr_redis_replies *replies, const redisReply **reply)
{
	void *object = NULL;

	wr_assert(replies->reader);
	/* The arena is emptied only between replies. While the parser is inside a reply, the arena
	 * contains the first part of this reply. */
	if (replies->reader->ridx == -1)
		reset_arena(replies);
	if (redisReaderGetReply(replies->reader, &object) != REDIS_OK)
		return -1;
	*reply = object;
	return object != NULL;
}

struct weir_str wr_redis_reply_text(const redisReply *reply)
{
	if (!reply || !(wr_redis_reply_is_text(reply) || reply->type == REDIS_REPLY_ERROR))
		return WR_STR("");
	return (struct weir_str){reply->str, reply->len};
}

bool wr_redis_number_read(struct weir_str text, uint64_t max, uint64_t *number)
{
	uint64_t value = 0;

	if (text.len == 0 || text.len > 18)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text.ptr[i] - '0');
	}
	*number = value;
	return value <= max;
}

const redisReply *wr_redis_reply_at(const redisReply *reply, size_t at)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
		return NULL;
	return reply->element[at];
}
