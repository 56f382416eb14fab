/* Reads the replies of Redis, Redis Cluster and Sentinel that describe the topology: addresses,
 * redirections, slot maps, masters, roles and INFO fields. Called by src/central. */
#include "redis/topology.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* ---- addresses ---- */

/* Makes an address from a host and a port. Returns false if host and port are no usable address. */
static bool make_address(struct weir_str host, uint64_t port, const struct wr_endpoint *asked,
			 struct wr_endpoint *at)
{
	char text[WR_ENDPOINT_TEXT];

	if (port < 1 || port > 65535)
		return false;
	if (host.len == 0 || wr_str_equal(host, WR_STR("?"))) {
		if (asked->kind == WR_ENDPOINT_UNIX)
			return false;
		*at = *asked;
		at->port = (uint16_t)port;
		return true;
	}
	if (host.len > WR_HOST_MAX)
		return false;
	snprintf(text, sizeof text, wr_str_has(host, ':') ? "[%.*s]:%u" : "%.*s:%u", (int)host.len,
		 host.ptr, (unsigned)port);
	return wr_endpoint_parse(wr_str(text), at, NULL) == 0 && at->kind != WR_ENDPOINT_ANY &&
	       at->kind != WR_ENDPOINT_UNIX;
}

bool wr_redis_address_read(const redisReply *array, size_t first, const struct wr_endpoint *asked,
			   struct wr_endpoint *at)
{
	const redisReply *host = wr_redis_reply_at(array, first);
	const redisReply *port = wr_redis_reply_at(array, first + 1);
	uint64_t number = 0;

	if (!host || !port || (!wr_redis_reply_is_text(host) && host->type != REDIS_REPLY_NIL))
		return false;
	if (port->type == REDIS_REPLY_INTEGER)
		number = port->integer > 0 ? (uint64_t)port->integer : 0;
	else if (!wr_redis_number_read(wr_redis_reply_text(port), 65535, &number))
		return false;
	return make_address(wr_redis_reply_text(host), number, asked, at);
}

/* Returns the index of the last colon, or the length if there is no colon. IPv6 addresses have no
 * brackets in redirections, so the port follows the last colon. */
static size_t last_colon(struct weir_str text)
{
	for (size_t i = text.len; i > 0; i--)
		if (text.ptr[i - 1] == ':')
			return i - 1;
	return text.len;
}

bool wr_redis_redirect_read(struct weir_str text, const struct wr_endpoint *asked, uint16_t *slot,
			    struct wr_endpoint *at)
{
	struct weir_str rest = wr_str_from(text, wr_str_find(text, ' '));
	uint64_t number, port;
	size_t end, colon;

	if (rest.len < 2)
		return false;
	rest = wr_str_from(rest, 1);
	end = wr_str_find(rest, ' ');
	if (end == rest.len ||
	    !wr_redis_number_read(wr_str_first(rest, end), WR_REDIS_SLOTS - 1, &number))
		return false;
	rest = wr_str_from(rest, end + 1);
	rest = wr_str_first(rest, wr_str_find(rest, ' '));
	colon = last_colon(rest);
	if (colon == rest.len || !wr_redis_number_read(wr_str_from(rest, colon + 1), 65535, &port))
		return false;
	*slot = (uint16_t)number;
	return make_address(wr_str_first(rest, colon), port, asked, at);
}

/* ---- Redis Cluster ---- */

/* Returns the index of the server `at` in map->nodes. Adds the server if it is new. Returns
 * WR_CLUSTER_NO_OWNER if there are too many servers. */
static uint16_t node_of(struct wr_redis_cluster_map *map, const struct wr_endpoint *at)
{
	for (uint16_t i = 0; i < map->count; i++)
		if (wr_endpoint_equal(&map->nodes[i], at))
			return i;
	if (map->count == WR_CLUSTER_NODES_MAX)
		return WR_CLUSTER_NO_OWNER;
	map->nodes[map->count] = *at;
	return map->count++;
}

static bool slot_at(const redisReply *range, size_t at, uint16_t *slot)
{
	const redisReply *reply = wr_redis_reply_at(range, at);

	if (!wr_redis_reply_is_number(reply, 0, WR_REDIS_SLOTS - 1))
		return false;
	*slot = (uint16_t)reply->integer;
	return true;
}

/* Reads one range of the slot map: [first, last, [host, port, …] of the master, replicas…]. Slots
 * of a malformed range have no owner. */
static void read_range(const redisReply *range, const struct wr_endpoint *asked,
		       struct wr_redis_cluster_map *map)
{
	uint16_t first, last, node;
	struct wr_endpoint at;

	if (!slot_at(range, 0, &first) || !slot_at(range, 1, &last) ||
	    !wr_redis_address_read(wr_redis_reply_at(range, 2), 0, asked, &at))
		return;
	node = node_of(map, &at);
	if (node == WR_CLUSTER_NO_OWNER)
		return;
	for (uint32_t slot = first; slot <= last; slot++) {
		map->covered += map->owner[slot] == WR_CLUSTER_NO_OWNER;
		map->owner[slot] = node;
	}
}

bool wr_redis_cluster_read(const redisReply *reply, const struct wr_endpoint *asked,
			   struct wr_redis_cluster_map *map)
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

/* ---- Sentinel, ROLE and INFO ---- */

int wr_redis_sentinel_master(const redisReply *reply, const struct wr_endpoint *asked,
			     struct wr_endpoint *master)
{
	if (!reply)
		return -1;
	if (reply->type == REDIS_REPLY_NIL)
		return 0;
	return wr_redis_address_read(reply, 0, asked, master) ? 1 : -1;
}

const redisReply *wr_redis_field(const redisReply *fields, const char *name)
{
	if (!fields || fields->type != REDIS_REPLY_ARRAY)
		return NULL;
	for (size_t i = 0; i + 1 < fields->elements; i += 2)
		if (wr_str_equal(wr_redis_reply_text(fields->element[i]), wr_str(name)))
			return fields->element[i + 1];
	return NULL;
}

static bool is_listed(const struct wr_endpoint_list *list, const struct wr_endpoint *at)
{
	for (size_t i = 0; i < list->count; i++)
		if (wr_endpoint_equal(&list->items[i], at))
			return true;
	return false;
}

static void add_sentinel(const redisReply *fields, const struct wr_endpoint *asked,
			 struct wr_endpoint_list *list)
{
	redisReply *pair[2] = {(redisReply *)wr_redis_field(fields, "ip"),
			       (redisReply *)wr_redis_field(fields, "port")};
	redisReply address = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = pair};
	struct wr_endpoint at;

	if (list->count < WR_ENDPOINTS_MAX && wr_redis_address_read(&address, 0, asked, &at) &&
	    !is_listed(list, &at))
		list->items[list->count++] = at;
}

void wr_redis_sentinel_others(const redisReply *reply, const struct wr_endpoint *asked,
			      struct wr_endpoint_list *list)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i < reply->elements; i++)
		add_sentinel(reply->element[i], asked, list);
}

bool wr_redis_role_may_be_master(const redisReply *reply)
{
	const redisReply *role = wr_redis_reply_at(reply, 0);

	return !wr_redis_reply_is_text(role) ||
	       wr_str_equal(wr_redis_reply_text(role), WR_STR("master"));
}

struct weir_str wr_redis_info_field(struct weir_str info, const char *name)
{
	struct weir_str wanted = wr_str(name);

	while (info.len) {
		struct weir_str line = wr_str_first(info, wr_str_find(info, '\n'));

		info = wr_str_from(info, line.len < info.len ? line.len + 1 : line.len);
		if (line.len && line.ptr[line.len - 1] == '\r')
			line.len--;
		if (wr_str_begins(line, wanted) && line.len > wanted.len &&
		    line.ptr[wanted.len] == ':')
			return wr_str_from(line, wanted.len + 1);
	}
	return WR_STR("");
}
