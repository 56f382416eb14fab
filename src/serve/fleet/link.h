/* Connections to Redis on a loop: the functions that struct wr_central_host needs for its links. */
#ifndef WR_SERVE_FLEET_LINK_H
#define WR_SERVE_FLEET_LINK_H

#include "serve/fleet/redis.h"

/* Functions for struct wr_central_host. `context` is the struct wr_serve_redis_loop. */
void wr_serve_redis_link_open(void *context, struct wr_central_link *link);
void wr_serve_redis_link_close(void *context, struct wr_central_link *link);
void wr_serve_redis_link_dirty(void *context, struct wr_central_link *link);

/* Reads the replies that have already arrived on all links. Called before timeouts are reported. */
void wr_serve_redis_links_read(struct wr_serve_redis_loop *owner);

#endif
