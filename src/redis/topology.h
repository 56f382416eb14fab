/* Readers for the replies that describe a topology: the addresses that servers report,
 * redirections, the slot map of a cluster, the masters that Sentinel knows, ROLE and INFO.
 *
 * `asked` is the address of the server that sent the reply. A server that does not know its own
 * address reports an empty host or "?"; the readers then use the host of `asked`. */
#ifndef WR_REDIS_TOPOLOGY_H
#define WR_REDIS_TOPOLOGY_H

#include "base/endpoint.h"
#include "redis/reply.h"
#include "redis/slot.h"

/* ---- addresses ---- */

/* Reads the host (text or nil) from element `first` of an array and the port (a number or text)
 * from the element after it. Returns false if host and port are no usable address. */
bool wr_redis_address_read(const redisReply *array, size_t first, const struct wr_endpoint *asked,
			   struct wr_endpoint *at);

/* Reads an error reply such as "MOVED 3999 127.0.0.1:6381" or "ASK …". Returns false if it is
 * malformed. */
bool wr_redis_redirect_read(struct weir_str text, const struct wr_endpoint *asked, uint16_t *slot,
			    struct wr_endpoint *at);

/* ---- Redis Cluster ---- */

/* Maximum number of masters in a slot map; further masters are ignored. */
#define WR_CLUSTER_NODES_MAX 256u
#define WR_CLUSTER_NO_OWNER UINT16_MAX

struct wr_redis_cluster_map {
	/* for each slot, the index of its owner in `nodes`, or WR_CLUSTER_NO_OWNER */
	uint16_t owner[WR_REDIS_SLOTS];
	uint16_t count;   /* number of `nodes` */
	uint16_t covered; /* number of slots that have an owner */
	struct wr_endpoint nodes[WR_CLUSTER_NODES_MAX];
};

/* Reads the reply to CLUSTER SLOTS. Returns false if the reply is not a slot map or names no
 * master; *map is then not usable. */
bool wr_redis_cluster_read(const redisReply *reply, const struct wr_endpoint *asked,
			   struct wr_redis_cluster_map *map);

/* ---- Sentinel, ROLE and INFO ---- */

/* Reads the reply to SENTINEL get-master-addr-by-name. Returns 1 and sets *master to the master's
 * address. Returns 0 if Sentinel knows no master of that name, and -1 if the reply is malformed. */
int wr_redis_sentinel_master(const redisReply *reply, const struct wr_endpoint *asked,
			     struct wr_endpoint *master);

/* Reads the reply to SENTINEL sentinels. Adds its Sentinels to `list`, except those that `list`
 * already contains, up to WR_ENDPOINTS_MAX. */
void wr_redis_sentinel_others(const redisReply *reply, const struct wr_endpoint *asked,
			      struct wr_endpoint_list *list);

/* Returns false only if the reply to ROLE names a role other than "master". Returns true for an
 * error or a malformed reply, because the server may be a master. */
bool wr_redis_role_may_be_master(const redisReply *reply);

/* Returns the value of a field in an array of names and values. Returns NULL if the reply is no
 * array or has no such field. */
const redisReply *wr_redis_field(const redisReply *fields, const char *name);

/* Returns the value of a field of INFO, up to the end of its line; "" if the field is missing. */
struct weir_str wr_redis_info_field(struct weir_str info, const char *name);

#endif
