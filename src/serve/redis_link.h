/* A connection to a Redis server: what struct wr_central_host says about links, on a loop. */
#ifndef WR_SERVE_REDIS_LINK_H
#define WR_SERVE_REDIS_LINK_H

#include "serve/redis.h"

/* `context` is the struct wr_redis_loop. */
void wr_redis_link_open(void *context, struct wr_link *link);
void wr_redis_link_close(void *context, struct wr_link *link);
void wr_redis_link_dirty(void *context, struct wr_link *link);

#endif
