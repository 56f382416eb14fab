/* Redis Cluster: finds the shard that owns a slot. The slot map says which server owns which slots,
 * and any server of the cluster returns it. The map is read again when slots move or masters
 * change. The index of a shard in central->shards does not change. A shard without slots is
 * disconnected, and its structure can be reused for another server. Called by call.c, shard.c and
 * the timer. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

/* Pause between two reads of the slot map while all shards are up. */
#define REFRESH_NS (30000 * WR_MS_NS)
/* Pause between two reads of the slot map while a shard is down. It is short, because a replica may
 * take over the slots of the shard. */
#define REFRESH_DOWN_NS (500 * WR_MS_NS)
#define REFRESH_MIN_NS (100 * WR_MS_NS) /* minimum pause between two reads of the slot map */

/* ---- shards ---- */

/* Finds an idle shard, which has no slots, no connection and no unwritten calls, and gives it the
 * address `at`. Calls that wait for a retry may still point to this shard, but they use the pointer
 * only to count events. Returns NULL if no shard is idle. */
static struct wr_central_shard *reuse_idle_shard(struct wr_central *central,
						 const struct wr_endpoint *at)
{
	for (uint32_t i = 0; i < central->shard_count; i++) {
		struct wr_central_shard *shard = central->shards[i];

		if (shard->slots || shard->conn || shard->unwritten.first)
			continue;
		wr_central_counts_add(&central->counts, &shard->counts);
		*shard = (struct wr_central_shard){.central = central, .at = *at, .aof = -1};
		return shard;
	}
	return NULL;
}

static struct wr_central_shard *shard_at(struct wr_central *central, const struct wr_endpoint *at)
{
	struct wr_central_shard *shard;

	for (uint32_t i = 0; i < central->shard_count; i++)
		if (wr_endpoint_equal(&central->shards[i]->at, at))
			return central->shards[i];
	if (central->shard_count == WR_SHARDS_MAX)
		return reuse_idle_shard(central, at);
	shard = wr_central_shard_new(central, at);
	if (shard)
		central->shards[central->shard_count++] = shard;
	return shard;
}

static uint16_t index_of(const struct wr_central *central, const struct wr_central_shard *shard)
{
	for (uint32_t i = 0; i < central->shard_count; i++)
		if (central->shards[i] == shard)
			return (uint16_t)i;
	return WR_CLUSTER_NO_OWNER;
}

struct wr_central_shard *wr_central_slot_shard(struct wr_central *central, uint16_t slot)
{
	uint16_t owner;

	wr_assert(slot < WR_REDIS_SLOTS);
	if (!central->cluster)
		return central->shards[0];
	owner = central->cluster->owner[slot];
	if (owner != WR_CLUSTER_NO_OWNER)
		return central->shards[owner];
	if (central->cluster->known)
		wr_central_cluster_refresh_soon(central);
	return NULL;
}

/* ---- the slot map ---- */

/* Copies the latest slot map into owner[]. Each server of the map needs a struct wr_central_shard.
 * If a server cannot get one (too many shards, or no memory), its slots have no owner. */
static void assign_slots(struct wr_central *central)
{
	struct wr_central_cluster *cluster = central->cluster;
	uint16_t numbers[WR_CLUSTER_NODES_MAX] = {0};

	for (uint32_t i = 0; i < central->shard_count; i++)
		central->shards[i]->slots = 0;
	for (uint16_t i = 0; i < cluster->map.count; i++) {
		struct wr_central_shard *shard = shard_at(central, &cluster->map.nodes[i]);

		numbers[i] = shard ? index_of(central, shard) : WR_CLUSTER_NO_OWNER;
		if (shard)
			/* Until the end of this loop, `slots` must not be 0. Otherwise shard_at()
			 * could give this shard to another server of the slot map. The true number
			 * of slots is counted after the loop. */
			shard->slots = 1;
	}
	for (uint16_t i = 0; i < cluster->map.count; i++)
		if (numbers[i] != WR_CLUSTER_NO_OWNER)
			central->shards[numbers[i]]->slots = 0;
	for (uint32_t slot = 0; slot < WR_REDIS_SLOTS; slot++) {
		uint16_t node = cluster->map.owner[slot];

		cluster->owner[slot] = node == WR_CLUSTER_NO_OWNER ? node : numbers[node];
		if (cluster->owner[slot] != WR_CLUSTER_NO_OWNER)
			central->shards[cluster->owner[slot]]->slots++;
	}
}

/* Connects the shards that own slots, and disconnects idle shards without slots. */
static void connect_shards(struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++) {
		struct wr_central_shard *shard = central->shards[i];
		struct wr_central_conn *conn = shard->conn;

		if (shard->slots && shard->breaker.state == WR_BREAKER_CLOSED) {
			wr_central_shard_connect(shard);
		} else if (shard->slots) {
			wr_central_wake_at(central, shard->breaker.probe_at_ns);
		} else if (conn && !conn->waiting.first && !shard->unwritten.first) {
			shard->conn = NULL;
			wr_central_conn_close(conn);
		}
	}
}

static void send_unrouted(struct wr_central *central)
{
	struct wr_call_queue unrouted = central->cluster->unrouted;
	struct wr_call *call;

	central->cluster->unrouted = (struct wr_call_queue){0};
	while ((call = wr_call_queue_pop(&unrouted)))
		wr_call_send(central, call);
}

static bool is_any_shard_down(const struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++)
		if (central->shards[i]->slots && !wr_central_shard_is_up(central->shards[i]))
			return true;
	return central->cluster->map.covered < WR_REDIS_SLOTS;
}

static void refresh_at(struct wr_central *central, uint64_t mono_ns)
{
	central->cluster->refresh_at_ns = mono_ns;
	wr_central_wake_at(central, mono_ns);
}

void wr_central_cluster_refresh_soon(struct wr_central *central)
{
	struct wr_central_cluster *cluster = central->cluster;
	uint64_t at = cluster->refreshed_ns + REFRESH_MIN_NS;

	wr_assert(cluster);
	if (at < central->mono_ns)
		at = central->mono_ns;
	if (cluster->refresh_at_ns > at)
		refresh_at(central, at);
}

/* ---- reading the slot map ---- */

/* Called if the reply is not a slot map. Another server is asked after a pause. */
static void reject_slots(struct wr_central *central, const redisReply *reply)
{
	struct weir_str text = wr_redis_reply_text(reply);

	if (!central->cluster->logged)
		wr_central_log(
			central, WR_CENTRAL_LOG_ERROR,
			"CLUSTER SLOTS returned no slot map: %.*s; use redis:// if the server is "
			"not part of a cluster",
			(int)(text.len < 120 ? text.len : 120), text.len ? text.ptr : "");
	central->cluster->logged = true;
	refresh_at(central, central->mono_ns + REFRESH_MIN_NS);
}

static void read_slots(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_central_cluster *cluster = central->cluster;

	wr_call_free(central, call);
	cluster->refreshed_ns = central->mono_ns;
	if (!wr_redis_cluster_read(reply, &conn->link.at, &cluster->map)) {
		reject_slots(central, reply);
		return;
	}
	assign_slots(central);
	cluster->tried = 0;
	cluster->known = true;
	cluster->unreachable = cluster->logged = false;
	connect_shards(central);
	send_unrouted(central);
	refresh_at(central,
		   central->mono_ns + (is_any_shard_down(central) ? REFRESH_DOWN_NS : REFRESH_NS));
}

static void on_slots_failed(struct wr_central *central, struct wr_call *call)
{
	wr_call_free(central, call);
	wr_central_cluster_refresh_soon(central);
}

const struct wr_call_ops wr_call_slots_ops = {.words = {"CLUSTER", "SLOTS"},
					      .on_reply = read_slots,
					      .on_failure = on_slots_failed,
					      .reads_errors = true,
					      .script = -1};

/* Returns a shard with a ready connection, or NULL if no connection is ready. The search begins at
 * next_node, so that the servers are asked in turn. */
static struct wr_central_shard *pick_ready(struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++) {
		uint32_t at = (central->cluster->next_node + i) % central->shard_count;

		if (!wr_central_shard_is_ready(central->shards[at]))
			continue;
		central->cluster->next_node = at + 1;
		return central->shards[at];
	}
	return NULL;
}

static bool is_any_opening(const struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++)
		if (central->shards[i]->conn && central->shards[i]->connect_by_ns)
			return true;
	return false;
}

/* Called if no shard is connected. Connects the shard with the index next_node, and advances
 * next_node. If all shards were tried without success, the calls that wait for the slot map
 * fail. */
static void connect_next(struct wr_central *central)
{
	struct wr_central_cluster *cluster = central->cluster;
	struct wr_central_shard *shard =
		central->shards[cluster->next_node++ % central->shard_count];

	if (++cluster->tried > central->shard_count) {
		cluster->tried = 0;
		cluster->unreachable = true;
		wr_call_queue_fail(central, &central->cluster->unrouted, WR_FAULT_NO_OWNER);
	}
	wr_central_shard_connect(shard);
}

static void refresh_slots(struct wr_central *central)
{
	struct wr_central_shard *shard = pick_ready(central);

	central->cluster->refreshed_ns = central->mono_ns;
	refresh_at(central, central->mono_ns + REFRESH_DOWN_NS -
				    wr_central_random(central) % REFRESH_MIN_NS);
	if (central->cluster->asking)
		return;
	if (shard)
		wr_central_conn_send(shard->conn, WR_CALL_SLOTS, &central->cluster->asking);
	else if (!is_any_opening(central))
		connect_next(central);
}

void wr_central_cluster_tick(struct wr_central *central)
{
	wr_assert(central->cluster);
	if (central->mono_ns >= central->cluster->refresh_at_ns)
		refresh_slots(central);
	wr_central_wake_at(central, central->cluster->refresh_at_ns);
}

void wr_central_cluster_on_ready(struct wr_central *central, struct wr_central_shard *shard)
{
	wr_assert(shard->central == central && shard->conn);
	if (!central->cluster->asking && (!central->cluster->known || shard->slots == 0))
		wr_central_conn_send(shard->conn, WR_CALL_SLOTS, &central->cluster->asking);
}

/* Until the first slot map has been read, the next server is tried without a pause. */
void wr_central_cluster_on_failure(struct wr_central *central)
{
	wr_assert(central->cluster);
	if (!central->cluster->known && !central->cluster->unreachable)
		refresh_at(central, central->mono_ns);
	else
		wr_central_cluster_refresh_soon(central);
}

struct wr_central_shard *wr_central_cluster_redirect(struct wr_central *central,
						     const struct wr_endpoint *at, uint16_t slot,
						     bool moved)
{
	struct wr_central_cluster *cluster = central->cluster;
	struct wr_central_shard *shard = shard_at(central, at);

	wr_assert(cluster);
	if (!shard)
		return NULL;
	/* The timer sends no PING to a shard without slots, so the breaker of such a shard would
	 * stay open. Therefore the breaker is closed here when its pause is over. */
	if (shard->slots == 0 && shard->breaker.state == WR_BREAKER_OPEN &&
	    central->mono_ns >= shard->breaker.probe_at_ns)
		shard->breaker = (struct wr_breaker){.state = WR_BREAKER_CLOSED};
	if (!moved)
		return shard;
	if (cluster->owner[slot] != WR_CLUSTER_NO_OWNER &&
	    central->shards[cluster->owner[slot]]->slots)
		central->shards[cluster->owner[slot]]->slots--;
	cluster->owner[slot] = index_of(central, shard);
	shard->slots++;
	wr_central_cluster_refresh_soon(central);
	return shard;
}

/* ---- start and end ---- */

bool wr_central_cluster_start(struct wr_central *central)
{
	struct wr_central_cluster *cluster = calloc(1, sizeof *cluster);

	wr_assert(!central->cluster && central->shard_count == 0);
	if (!cluster)
		return false;
	central->cluster = cluster;
	memset(cluster->owner, 0xff, sizeof cluster->owner);
	for (size_t i = 0; i < central->target->at.count; i++)
		if (!shard_at(central, &central->target->at.items[i]))
			return false;
	return true;
}

void wr_central_cluster_free(struct wr_central *central)
{
	if (central->cluster)
		wr_call_queue_fail(central, &central->cluster->unrouted, WR_FAULT_NO_OWNER);
	free(central->cluster);
	central->cluster = NULL;
}
