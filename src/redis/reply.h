/* Replies out of bytes, by hiredis' parser with memory of our own: an arena that is empty again
 * after each reply, with a maximum. What a server sends can make it fail, not grow. */
#ifndef WR_REDIS_REPLY_H
#define WR_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include <weir/rules.h>

#define WR_REPLY_BYTES_MAX (4u << 20)     /* of one reply, as bytes and as objects */
#define WR_REPLY_ELEMENTS_MAX (64u << 10) /* of one array */

struct wr_redis_reply_block;

struct wr_redis_replies {
	redisReader *reader;
	struct wr_redis_reply_block *blocks; /* newest first; the oldest is kept */
	size_t held;                         /* bytes of all blocks */
};

/* False: no memory. */
bool wr_redis_replies_init(struct wr_redis_replies *replies);
void wr_redis_replies_free(struct wr_redis_replies *replies);

/* False: there is no memory, or too much without a whole reply: the connection is of no use. */
bool wr_redis_replies_feed(struct wr_redis_replies *replies, const void *bytes, size_t len);

/* 1 and the next reply, which lasts until the next call; 0: bytes are missing; -1: not RESP. */
int wr_redis_replies_next(struct wr_redis_replies *replies, const redisReply **reply);

/* "" if it is none of status, string or error. */
struct weir_str wr_redis_reply_text(const redisReply *reply);

/* Element of an array, or NULL. */
const redisReply *wr_redis_reply_at(const redisReply *reply, size_t at);

static inline bool wr_redis_reply_is_text(const redisReply *reply)
{
	return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

#endif
