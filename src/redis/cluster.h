/* Who serves which slot, as CLUSTER SLOTS tells it. */
#ifndef WR_REDIS_CLUSTER_H
#define WR_REDIS_CLUSTER_H

#include "redis/place.h"
#include "redis/slot.h"

#define WR_CLUSTER_NODES_MAX 256u /* masters; those beyond are not asked */
#define WR_CLUSTER_NOBODY UINT16_MAX

struct wr_cluster_map {
	uint16_t owner[WR_SLOTS]; /* number in `nodes`, or WR_CLUSTER_NOBODY */
	uint16_t count;
	uint16_t covered; /* slots that somebody serves */
	struct wr_endpoint nodes[WR_CLUSTER_NODES_MAX];
};

/* False: it is no such reply, or names no master; the map is then of no use. `asked` is who said
 * it: a node that does not know its own address says none. */
bool wr_cluster_read(const redisReply *reply, const struct wr_endpoint *asked,
		     struct wr_cluster_map *map);

#endif
