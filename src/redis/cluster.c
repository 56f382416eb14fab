#include "redis/cluster.h"

#include <string.h>

/* Number of the node, added if it is new. */
static uint16_t node_of(struct wr_cluster_map *map, const struct wr_endpoint *at)
{
	for (uint16_t i = 0; i < map->count; i++)
		if (wr_endpoint_equal(&map->nodes[i], at))
			return i;
	if (map->count == WR_CLUSTER_NODES_MAX)
		return WR_CLUSTER_NOBODY;
	map->nodes[map->count] = *at;
	return map->count++;
}

static bool slot_at(const redisReply *range, size_t at, uint16_t *slot)
{
	const redisReply *reply = wr_reply_at(range, at);

	if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer < 0 ||
	    reply->integer >= WR_SLOTS)
		return false;
	*slot = (uint16_t)reply->integer;
	return true;
}

/* [first, last, [host, port, …] of the master, replicas…]: what is unreadable has no owner. */
static void read_range(const redisReply *range, const struct wr_endpoint *asked,
		       struct wr_cluster_map *map)
{
	uint16_t first, last, node;
	struct wr_endpoint at;

	if (!slot_at(range, 0, &first) || !slot_at(range, 1, &last) ||
	    !wr_place_read(wr_reply_at(range, 2), 0, asked, &at))
		return;
	node = node_of(map, &at);
	if (node == WR_CLUSTER_NOBODY)
		return;
	for (uint32_t slot = first; slot <= last; slot++) {
		map->covered += map->owner[slot] == WR_CLUSTER_NOBODY;
		map->owner[slot] = node;
	}
}

bool wr_cluster_read(const redisReply *reply, const struct wr_endpoint *asked,
		     struct wr_cluster_map *map)
{
	map->count = 0;
	map->covered = 0;
	memset(map->owner, 0xff, sizeof map->owner);
	if (!reply || reply->type != REDIS_REPLY_ARRAY)
		return false;
	for (size_t i = 0; i < reply->elements; i++)
		read_range(reply->element[i], asked, map);
	return map->count > 0;
}
