/* Parses replies with the parser of hiredis. The objects of a reply are allocated in an arena of
 * limited size, which is emptied after each reply. So a server can make parsing fail, but cannot
 * exhaust the memory. */
#ifndef WR_REDIS_REPLY_H
#define WR_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <weir/rules.h>

/* Maximum size of one reply in bytes. It is also the maximum total size of the objects that are
 * made from one reply. */
#define WR_REPLY_BYTES_MAX (4u << 20)
#define WR_REPLY_ELEMENTS_MAX (64u << 10) /* maximum number of elements of one array */

struct wr_redis_reply_block;

struct wr_redis_replies {
	redisReader *reader;
	/* The arena: a list of allocations, newest first. The oldest one is reused for the next
	 * reply. */
	struct wr_redis_reply_block *blocks;
	size_t held; /* total size of the arena's allocations in bytes */
};

/* Prepares the parser. Returns false if there is no memory. */
bool wr_redis_replies_init(struct wr_redis_replies *replies);
void wr_redis_replies_free(struct wr_redis_replies *replies);

/* Passes bytes to the parser. Returns false if there is no memory or the reply is too long; the
 * caller must then close the connection. */
bool wr_redis_replies_feed(struct wr_redis_replies *replies, const void *bytes, size_t len);

/* If a whole reply has been received, sets *reply to it and returns 1. The reply is valid until the
 * next call of this function. Returns 0 if more bytes are needed, and -1 if the bytes are not
 * RESP. */
int wr_redis_replies_next(struct wr_redis_replies *replies, const redisReply **reply);

/* Returns the text of a status, string or error. Returns "" for other replies. */
struct weir_str wr_redis_reply_text(const redisReply *reply);

/* Reads a decimal number of up to 18 digits. Returns false if the text is not such a number, or if
 * the number is above `max`. */
bool wr_redis_number_read(struct weir_str text, uint64_t max, uint64_t *number);

/* Returns element `at` of an array. Returns NULL if the reply is no array or has no such
 * element. */
const redisReply *wr_redis_reply_at(const redisReply *reply, size_t at);

/* Returns whether the reply is an integer from `least` to `most`. */
static inline bool wr_redis_reply_is_number(const redisReply *reply, long long least,
					    long long most)
{
	return reply && reply->type == REDIS_REPLY_INTEGER && reply->integer >= least &&
	       reply->integer <= most;
}

static inline bool wr_redis_reply_is_text(const redisReply *reply)
{
	return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

#endif
