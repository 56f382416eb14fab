/* A simulated Redis Cluster. Each master has its own view of the owners of slots, and slots move
 * while they are in use. The network (net.c) and the faults (fault.c) call these functions.
 *
 * The masters behave like those of Redis 7.0. While a slot moves, its old owner runs a command if
 * it has all keys of the command. Otherwise it redirects the client to the new owner (ASK).
 * The client sends ASKING and then the command to the new owner, which runs the command. But if the
 * command has several keys and one of them is missing, the new owner replies TRYAGAIN. When all
 * keys have moved, the new owner serves the slot. The other masters learn this later. Until then
 * they redirect clients to the old owner, which redirects the clients to the new owner (MOVED). */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/sim_inner.h"

#define MS 1000000ull

static struct wr_sim_redis *redis_of(const struct wr_sim *sim, unsigned server)
{
	return sim->servers[server].master->redis;
}

unsigned wr_sim_server_count(const struct wr_sim_plan *plan)
{
	if (plan->sentinels)
		return plan->instances;
	return plan->shards ? plan->shards : plan->regions;
}

/* ---- replies to clients ---- */

/* Returns the number of keys of a command. Sets *first to the index of the first key. */
static size_t find_keys(const struct weir_str *argv, size_t argc, size_t *first)
{
	int64_t count;

	*first = 1;
	if (wr_sim_redis_word_is(argv[0], "EVAL") || wr_sim_redis_word_is(argv[0], "EVALSHA")) {
		*first = 3;
		return argc > 3 && wr_sim_redis_parse_int(argv[2], &count) ? (size_t)count : 0;
	}
	if (wr_sim_redis_word_is(argv[0], "XREAD")) { /* the key is the second to last word */
		*first = argc - 2;
		return 1;
	}
	return wr_sim_redis_word_is(argv[0], "GET") || wr_sim_redis_word_is(argv[0], "SET") ||
	       wr_sim_redis_word_is(argv[0], "DEL") || wr_sim_redis_word_is(argv[0], "XADD");
}

static size_t count_missing(struct wr_sim_redis *redis, const struct weir_str *keys, size_t count)
{
	size_t missing = 0;

	for (size_t i = 0; i < count; i++)
		missing += !wr_sim_redis_find(redis, keys[i]);
	return missing;
}

static void reply_redirect(struct wr_buf *out, const char *word, uint16_t slot, unsigned server)
{
	wr_buf_printf(out, "-%s %u 10.0.0.1:%u\r\n", word, slot, WR_SIM_PORT + server);
}

static struct wr_sim_move *find_move(struct wr_sim *sim, uint16_t slot)
{
	for (unsigned i = 0; i < WR_SIM_MOVES; i++)
		if (sim->cluster->moves[i].active && sim->cluster->moves[i].slot == slot)
			return &sim->cluster->moves[i];
	return NULL;
}

/* Replies to CLUSTER SLOTS with [first slot, last slot, [host, port]] for each range of slots. */
static void reply_slots(const uint8_t *view, struct wr_buf *out)
{
	size_t ranges = 1;

	for (unsigned slot = 1; slot < WR_REDIS_SLOTS; slot++)
		ranges += view[slot] != view[slot - 1];
	wr_sim_reply_array(out, ranges);
	for (unsigned slot = 0, last; slot < WR_REDIS_SLOTS; slot = last + 1) {
		for (last = slot; last + 1 < WR_REDIS_SLOTS && view[last + 1] == view[slot];)
			last++;
		wr_sim_reply_array(out, 3);
		wr_sim_reply_int(out, slot);
		wr_sim_reply_int(out, last);
		wr_sim_reply_array(out, 2);
		wr_sim_reply_bulk(out, WR_STR("10.0.0.1"));
		wr_sim_reply_int(out, WR_SIM_PORT + view[slot]);
	}
}

/* Returns false if this master is to run the command with these keys. Otherwise replies with an
 * error or a redirection and returns true. */
static bool refuse_keys(struct wr_sim_master *master, const struct weir_str *keys, size_t count,
			bool asking, struct wr_buf *out)
{
	struct wr_sim *sim = master->sim;
	uint16_t slot = wr_redis_slot_of(keys[0].ptr, keys[0].len);
	unsigned owner = sim->cluster->view[master->server][slot];
	const struct wr_sim_move *move = find_move(sim, slot);

	for (size_t i = 1; i < count; i++)
		if (wr_redis_slot_of(keys[i].ptr, keys[i].len) != slot) {
			wr_sim_redis_unexpected(master->redis, "a call for keys of several slots");
			wr_sim_reply_error(out,
					   "CROSSSLOT Keys in request don't hash to the same slot");
			return true;
		}
	if (owner == master->server && move && move->from == master->server &&
	    count_missing(master->redis, keys, count)) {
		reply_redirect(out, "ASK", slot, move->to);
		sim->report->redirected++;
		return true;
	}
	if (owner == master->server)
		return false;
	sim->report->redirected++;
	if (!move || move->to != master->server || !asking) {
		reply_redirect(out, "MOVED", slot, owner);
		return true;
	}
	if (count > 1 && count_missing(master->redis, keys, count)) {
		wr_sim_reply_error(out, "TRYAGAIN Multiple keys request during rehashing of slot");
		return true;
	}
	return false;
}

/* Implements `intercept` of struct wr_sim_redis. Returns true if it has replied to the command. */
static bool intercept_command(void *context, const struct weir_str *argv, size_t argc,
			      struct wr_buf *out)
{
	struct wr_sim_master *master = context;
	struct wr_sim *sim = master->sim;
	bool asking = master->redis->asking;
	size_t first, count;

	master->redis->asking = false;
	if (wr_sim_redis_word_is(argv[0], "ASKING")) {
		master->redis->asking = true;
		wr_sim_reply_status(out, "OK");
		return true;
	}
	if (wr_sim_redis_word_is(argv[0], "CLUSTER")) {
		reply_slots(sim->cluster->view[master->server], out);
		return true;
	}
	count = find_keys(argv, argc, &first);
	if (count == 0)
		return false;
	if (sim->cluster->clusterdown_until_ns[master->server] > sim->now_ns) {
		wr_sim_reply_error(out, "CLUSTERDOWN The cluster is down");
		return true;
	}
	return refuse_keys(master, argv + first, count, asking, out);
}

void wr_sim_cluster_add_instance(struct wr_sim *sim, struct wr_sim_master *master)
{
	if (!sim->plan->shards)
		return;
	master->redis->intercept = intercept_command;
	master->redis->intercept_context = master;
}

/* ---- slots that move ---- */

/* Moves one key of the slot. Returns false if the old owner has no key of this slot. */
static bool move_key(struct wr_sim *sim, const struct wr_sim_move *move)
{
	struct wr_sim_redis *from = redis_of(sim, move->from), *to = redis_of(sim, move->to);

	for (size_t i = 0; i < from->bucket_count; i++)
		for (const struct wr_sim_redis_value *value = from->buckets[i]; value;
		     value = value->next)
			if (wr_redis_slot_of(value->key.ptr, value->key.len) == move->slot) {
				wr_sim_redis_move_value(to, from, value);
				return true;
			}
	return false;
}

static void learn_owner(struct wr_sim *sim, void *object, uint64_t arg)
{
	unsigned server = arg >> 48, owner = arg >> 32 & 0xffff;
	uint16_t slot = (uint16_t)arg;

	(void)object;
	if (sim->cluster->number[slot] == (arg >> 16 & 0xffff))
		sim->cluster->view[server][slot] = (uint8_t)owner;
}

static void finish_move(struct wr_sim *sim, struct wr_sim_move *move)
{
	while (move_key(sim, move)) {
	}
	wr_sim_trace(sim, NULL, "slot %u is served by %u", move->slot, move->to);
	sim->cluster->number[move->slot]++;
	for (unsigned i = 0; i < sim->plan->shards; i++)
		if (i == move->to || i == move->from)
			sim->cluster->view[i][move->slot] = move->to;
		else
			/* The other masters learn the new owner later. */
			wr_sim_schedule(sim,
					sim->now_ns + wr_rng_scale(&sim->fault_rng, MS, 500 * MS),
					NULL, learn_owner, NULL,
					(uint64_t)i << 48 | (uint64_t)move->to << 32 |
						(uint64_t)sim->cluster->number[move->slot] << 16 |
						move->slot);
	move->active = false;
}

static void step_move(struct wr_sim *sim, void *object, uint64_t number)
{
	struct wr_sim_move *move = object;

	if (!move->active || move->number != number)
		return;
	if (sim->now_ns >= move->end_ns) {
		finish_move(sim, move);
		return;
	}
	move_key(sim, move);
	wr_sim_schedule(sim,
			sim->now_ns + 1 + wr_rng_below(&sim->fault_rng, move->end_ns - sim->now_ns),
			NULL, step_move, move, number);
}

/* Picks the slot of a random key of the server. Returns false if the server has no keys. */
static bool pick_slot(struct wr_sim *sim, unsigned server, uint16_t *slot)
{
	const struct wr_sim_redis *redis = redis_of(sim, server);
	uint64_t count = 0;

	for (size_t i = 0; i < redis->bucket_count; i++)
		for (const struct wr_sim_redis_value *value = redis->buckets[i]; value;
		     value = value->next)
			if (wr_rng_below(&sim->fault_rng, ++count) == 0)
				*slot = wr_redis_slot_of(value->key.ptr, value->key.len);
	return count > 0;
}

static void begin_move(struct wr_sim *sim)
{
	struct wr_sim_move *move = sim->cluster->moves;
	unsigned from = (unsigned)wr_rng_below(&sim->fault_rng, sim->plan->shards);
	unsigned to = (from + 1 + (unsigned)wr_rng_below(&sim->fault_rng, sim->plan->shards - 1)) %
		      sim->plan->shards;
	uint16_t slot;

	while (move < sim->cluster->moves + WR_SIM_MOVES && move->active)
		move++;
	if (move == sim->cluster->moves + WR_SIM_MOVES || !pick_slot(sim, from, &slot) ||
	    find_move(sim, slot) || sim->cluster->view[from][slot] != from)
		return;
	*move = (struct wr_sim_move){
		.active = true,
		.slot = slot,
		.from = (uint8_t)from,
		.to = (uint8_t)to,
		.number = ++sim->cluster->moved,
		.end_ns = sim->now_ns + wr_rng_scale(&sim->fault_rng, MS, 2000 * MS),
	};
	wr_sim_trace(sim, NULL, "slot %u moves from %u to %u until %llu ms", slot, from, to,
		     (unsigned long long)(move->end_ns / MS));
	step_move(sim, move, move->number);
}

void wr_sim_cluster_move(struct wr_sim *sim)
{
	for (uint64_t i = wr_rng_between(&sim->fault_rng, 1, 3); i > 0; i--)
		begin_move(sim);
}

void wr_sim_cluster_down(struct wr_sim *sim, unsigned server)
{
	sim->cluster->clusterdown_until_ns[server] =
		sim->now_ns + wr_rng_scale(&sim->fault_rng, 5 * MS, 2000 * MS);
	wr_sim_trace(sim, NULL, "%u replies CLUSTERDOWN", server);
}

/* ---- failover ---- */

bool wr_sim_cluster_is_moving(const struct wr_sim *sim, unsigned server)
{
	for (unsigned i = 0; sim->cluster && i < WR_SIM_MOVES; i++)
		if (sim->cluster->moves[i].active &&
		    (sim->cluster->moves[i].from == server || sim->cluster->moves[i].to == server))
			return true;
	return false;
}

void wr_sim_cluster_take_over(struct wr_sim *sim, unsigned server)
{
	struct wr_sim_redis *redis = redis_of(sim, server);

	for (size_t i = 0; sim->cluster && i < redis->bucket_count; i++)
		for (struct wr_sim_redis_value *value = redis->buckets[i], *next; value;
		     value = next) {
			uint16_t slot = wr_redis_slot_of(value->key.ptr, value->key.len);

			next = value->next;
			if (sim->cluster->view[server][slot] != server)
				wr_sim_redis_drop_value(redis, value);
		}
}

/* ---- start and end ---- */

void wr_sim_cluster_start(struct wr_sim *sim)
{
	unsigned shards = sim->plan->shards;

	if (!shards)
		return;
	sim->cluster = wr_sim_alloc(1, sizeof *sim->cluster);
	for (unsigned i = 0; i < shards; i++)
		for (unsigned slot = 0; slot < WR_REDIS_SLOTS; slot++)
			sim->cluster->view[i][slot] = (uint8_t)(slot * shards / WR_REDIS_SLOTS);
}

void wr_sim_cluster_heal(struct wr_sim *sim)
{
	struct wr_sim_cluster *cluster = sim->cluster;

	if (!cluster)
		return;
	memset(cluster->clusterdown_until_ns, 0, sizeof cluster->clusterdown_until_ns);
	for (unsigned i = 0; i < WR_SIM_MOVES; i++)
		if (cluster->moves[i].active)
			finish_move(sim, &cluster->moves[i]);
}
