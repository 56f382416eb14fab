/* The central store in GET /v1/status. */
#ifndef WR_SERVE_ADMIN_STORE_H
#define WR_SERVE_ADMIN_STORE_H

#include "serve/fleet/redis.h"
#include "wire/json.h"

/* An object, or null if there is none; `info` is what wr_redis_info told. */
void wr_admin_put_store(struct wr_text *out, const struct wr_redis *redis,
			const struct wr_central_info *info);

#endif
