/* A cluster: who serves which slot, asked of any node, followed when slots move and masters change.
 *
 * Shards are numbered and keep their number; those that serve no slot any more lose their
 * connection, and their place when another needs it. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "central/inner.h"

#define REFRESH_NS (30000 * WR_MS_NS)     /* all is well */
#define REFRESH_AWAY_NS (500 * WR_MS_NS)  /* a shard is away: its replica may take over */
#define REFRESH_LEAST_NS (100 * WR_MS_NS) /* between two, however much moves */

/* ---- shards ---- */

static bool is_idle(const struct wr_shard *shard)
{
	return shard->slots == 0 && !shard->line && !shard->turn.first;
}

/* One that nobody needs becomes another one. Calls that wait to be tried again know theirs only for
 * counting. */
static struct wr_shard *reuse(struct wr_central *central, const struct wr_endpoint *at)
{
	for (uint32_t i = 0; i < central->shard_count; i++) {
		struct wr_shard *shard = central->shards[i];

		if (!is_idle(shard))
			continue;
		wr_counts_add(&central->counts, &shard->counts);
		*shard = (struct wr_shard){.central = central, .at = *at, .aof = -1};
		return shard;
	}
	return NULL;
}

static struct wr_shard *shard_at(struct wr_central *central, const struct wr_endpoint *at)
{
	struct wr_shard *shard;

	for (uint32_t i = 0; i < central->shard_count; i++)
		if (wr_endpoint_equal(&central->shards[i]->at, at))
			return central->shards[i];
	if (central->shard_count == WR_SHARDS_MAX)
		return reuse(central, at);
	shard = wr_shard_new(central, at);
	if (shard)
		central->shards[central->shard_count++] = shard;
	return shard;
}

static uint16_t number_of(const struct wr_central *central, const struct wr_shard *shard)
{
	for (uint32_t i = 0; i < central->shard_count; i++)
		if (central->shards[i] == shard)
			return (uint16_t)i;
	return WR_CLUSTER_NOBODY;
}

struct wr_shard *wr_route_shard(struct wr_central *central, uint16_t slot)
{
	uint16_t owner;

	if (!central->route)
		return central->shards[0];
	owner = central->route->owner[slot];
	if (owner != WR_CLUSTER_NOBODY)
		return central->shards[owner];
	if (central->route->known)
		wr_route_soon(central);
	return NULL;
}

/* ---- the map ---- */

/* Slots of nodes that could not be noted have no owner. */
static void assign(struct wr_central *central)
{
	struct wr_route *route = central->route;
	uint16_t numbers[WR_CLUSTER_NODES_MAX] = {0};

	for (uint32_t i = 0; i < central->shard_count; i++)
		central->shards[i]->slots = 0;
	for (uint16_t i = 0; i < route->map.count; i++) {
		struct wr_shard *shard = shard_at(central, &route->map.nodes[i]);

		numbers[i] = shard ? number_of(central, shard) : WR_CLUSTER_NOBODY;
		if (shard)
			shard->slots = 1; /* so that it is not taken for idle; counted below */
	}
	for (uint16_t i = 0; i < route->map.count; i++)
		if (numbers[i] != WR_CLUSTER_NOBODY)
			central->shards[numbers[i]]->slots = 0;
	for (uint32_t slot = 0; slot < WR_SLOTS; slot++) {
		uint16_t node = route->map.owner[slot];

		route->owner[slot] = node == WR_CLUSTER_NOBODY ? node : numbers[node];
		if (route->owner[slot] != WR_CLUSTER_NOBODY)
			central->shards[route->owner[slot]]->slots++;
	}
}

/* Those with slots are connected before they are needed; the others need not be. */
static void connect_shards(struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++) {
		struct wr_shard *shard = central->shards[i];
		struct wr_line *line = shard->line;

		if (shard->slots && shard->breaker.state == WR_BREAKER_CLOSED) {
			wr_shard_connect(shard);
		} else if (shard->slots) {
			wr_wake(central, shard->breaker.back_at_ns);
		} else if (line && !line->waiting.first && !shard->turn.first) {
			shard->line = NULL;
			wr_line_close(line);
		}
	}
}

static void send_homeless(struct wr_central *central)
{
	struct wr_queue homeless = central->route->homeless;
	struct wr_call *call;

	central->route->homeless = (struct wr_queue){0};
	while ((call = wr_queue_take(&homeless)))
		wr_call_send(central, call);
}

static void fail_homeless(struct wr_central *central)
{
	struct wr_queue homeless = central->route->homeless;
	struct wr_call *call;

	central->route->homeless = (struct wr_queue){0};
	while ((call = wr_queue_take(&homeless)))
		wr_call_fail(central, call, WR_FAULT_NOWHERE);
}

static bool is_any_away(const struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++)
		if (central->shards[i]->slots && !wr_shard_is_up(central->shards[i]))
			return true;
	return central->route->map.covered < WR_SLOTS;
}

static void refresh_at(struct wr_central *central, uint64_t mono_ns)
{
	central->route->refresh_at_ns = mono_ns;
	wr_wake(central, mono_ns);
}

void wr_route_soon(struct wr_central *central)
{
	struct wr_route *route = central->route;
	uint64_t at = route->refreshed_ns + REFRESH_LEAST_NS;

	if (at < central->mono_ns)
		at = central->mono_ns;
	if (route->refresh_at_ns > at)
		refresh_at(central, at);
}

/* ---- asking ---- */

static enum wr_put put(struct wr_line *line, struct wr_call *call)
{
	(void)call;
	wr_command_begin(&line->out, 2);
	wr_command_text(&line->out, "CLUSTER");
	wr_command_text(&line->out, "SLOTS");
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

/* This node is of no help: on to the next one. */
static void no_help(struct wr_central *central, const redisReply *reply)
{
	struct weir_str text = wr_reply_text(reply);

	if (!central->route->said)
		wr_central_say(
			central, WR_SAY_ERROR,
			"the cluster's slots are not told: %.*s; a server that is no cluster wants "
			"redis://",
			(int)(text.len < 120 ? text.len : 120), text.len ? text.ptr : "");
	central->route->said = true;
	refresh_at(central, central->mono_ns + REFRESH_LEAST_NS);
}

static void heard(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = line->central;
	struct wr_route *route = central->route;

	wr_call_free(central, call);
	route->asking = false;
	route->refreshed_ns = central->mono_ns;
	if (!wr_cluster_read(reply, &line->link.at, &route->map)) {
		no_help(central, reply);
		return;
	}
	assign(central);
	route->tried = 0;
	route->known = true;
	route->hopeless = route->said = false;
	connect_shards(central);
	send_homeless(central);
	refresh_at(central,
		   central->mono_ns + (is_any_away(central) ? REFRESH_AWAY_NS : REFRESH_NS));
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
	central->route->asking = false;
	wr_route_soon(central);
}

const struct wr_call_ops wr_slots_ops = {
	.put = put, .heard = heard, .failed = failed, .errors = true, .script = -1};

static void ask(struct wr_central *central, struct wr_shard *shard)
{
	struct wr_call *call = wr_call_new(central, WR_CALL_SLOTS);

	if (!call)
		return;
	central->route->asking = true;
	wr_line_push(shard->line, call);
}

/* The next one in turn that is connected, or NULL. */
static struct wr_shard *pick_ready(struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++) {
		uint32_t at = (central->route->turn + i) % central->shard_count;

		if (!wr_shard_is_ready(central->shards[at]))
			continue;
		central->route->turn = at + 1;
		return central->shards[at];
	}
	return NULL;
}

static bool is_any_opening(const struct wr_central *central)
{
	for (uint32_t i = 0; i < central->shard_count; i++)
		if (central->shards[i]->line && central->shards[i]->connect_by_ns)
			return true;
	return false;
}

/* Nobody is connected: one after the other is tried, and after a round it is hopeless for now. */
static void try_next(struct wr_central *central)
{
	struct wr_route *route = central->route;
	struct wr_shard *shard = central->shards[route->turn++ % central->shard_count];

	if (++route->tried > central->shard_count) {
		route->tried = 0;
		route->hopeless = true;
		fail_homeless(central);
	}
	wr_shard_connect(shard);
}

static void refresh(struct wr_central *central)
{
	struct wr_shard *shard = pick_ready(central);

	central->route->refreshed_ns = central->mono_ns;
	refresh_at(central,
		   central->mono_ns + REFRESH_AWAY_NS - wr_random(central) % REFRESH_LEAST_NS);
	if (central->route->asking)
		return;
	if (shard)
		ask(central, shard);
	else if (!is_any_opening(central))
		try_next(central);
}

void wr_route_tick(struct wr_central *central)
{
	if (central->mono_ns >= central->route->refresh_at_ns)
		refresh(central);
	wr_wake(central, central->route->refresh_at_ns);
}

void wr_route_ready(struct wr_central *central, struct wr_shard *shard)
{
	if (!central->route->asking && (!central->route->known || shard->slots == 0))
		ask(central, shard);
}

/* At the beginning there is no time to lose. */
void wr_route_failed(struct wr_central *central, struct wr_shard *shard)
{
	(void)shard;
	if (!central->route->known && !central->route->hopeless)
		refresh_at(central, central->mono_ns);
	else
		wr_route_soon(central);
}

struct wr_shard *wr_route_redirect(struct wr_central *central, const struct wr_endpoint *at,
				   uint16_t slot, bool moved)
{
	struct wr_route *route = central->route;
	struct wr_shard *shard = shard_at(central, at);

	if (!shard)
		return NULL;
	/* Nobody probes those without slots. */
	if (shard->slots == 0 && shard->breaker.state == WR_BREAKER_OPEN &&
	    central->mono_ns >= shard->breaker.back_at_ns)
		shard->breaker = (struct wr_breaker){.state = WR_BREAKER_CLOSED};
	if (!moved)
		return shard;
	if (route->owner[slot] != WR_CLUSTER_NOBODY && central->shards[route->owner[slot]]->slots)
		central->shards[route->owner[slot]]->slots--;
	route->owner[slot] = number_of(central, shard);
	shard->slots++;
	wr_route_soon(central);
	return shard;
}

/* ---- beginning and end ---- */

bool wr_route_start(struct wr_central *central)
{
	struct wr_route *route = calloc(1, sizeof *route);

	if (!route)
		return false;
	central->route = route;
	memset(route->owner, 0xff, sizeof route->owner);
	for (size_t i = 0; i < central->target->at.count; i++)
		if (!shard_at(central, &central->target->at.items[i]))
			return false;
	return true;
}

void wr_route_free(struct wr_central *central)
{
	if (central->route)
		fail_homeless(central);
	free(central->route);
	central->route = NULL;
}
