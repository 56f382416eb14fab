/* Writes the state of the central store for GET /v1/status. */
#ifndef WR_SERVE_ADMIN_STORE_H
#define WR_SERVE_ADMIN_STORE_H

#include "base/json_write.h"
#include "serve/fleet/redis.h"

/* Writes an object with the state of the central store, or null if there is none. `info` is from
 * wr_redis_info(). */
void wr_admin_json_store(struct wr_json_out *json, const struct wr_redis *redis,
			 const struct wr_central_info *info);

#endif
