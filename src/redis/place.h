/* Addresses as servers tell them: in lists, and in redirections. */
#ifndef WR_REDIS_PLACE_H
#define WR_REDIS_PLACE_H

#include "base/endpoint.h"
#include "redis/reply.h"

/* A host and its port. No host means the one that told it: `told_by`. False: unusable. */
bool wr_place_make(struct weir_str host, uint64_t port, const struct wr_endpoint *told_by,
		   struct wr_endpoint *at);

/* The same from elements [first] and [first + 1] of an array: text, and a number or text. */
bool wr_place_read(const redisReply *array, size_t first, const struct wr_endpoint *told_by,
		   struct wr_endpoint *at);

/* "MOVED 3999 127.0.0.1:6381", "ASK …". False: unreadable. */
bool wr_place_redirect(struct weir_str text, const struct wr_endpoint *told_by, uint16_t *slot,
		       struct wr_endpoint *at);

#endif
