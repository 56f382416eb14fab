/* What sentinels, and servers about themselves, tell. */
#ifndef WR_REDIS_SENTINEL_H
#define WR_REDIS_SENTINEL_H

#include "redis/place.h"

/* SENTINEL get-master-addr-by-name: 1 and the master; 0: they know none of that name; -1: no such
 * reply. */
int wr_sentinel_master(const redisReply *reply, const struct wr_endpoint *asked,
		       struct wr_endpoint *master);

/* SENTINEL sentinels: adds those that are not on the list, as far as there is room. */
void wr_sentinel_others(const redisReply *reply, const struct wr_endpoint *asked,
			struct wr_endpoint_list *list);

/* ROLE: whether it says that it is a master. Errors and nonsense do not deny it. */
bool wr_role_may_be_master(const redisReply *reply);

/* A field of INFO, up to the end of its line; empty: not there. */
struct weir_str wr_info_field(struct weir_str info, const char *name);

#endif
