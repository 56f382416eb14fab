/* The simulated Redis that holds the queue, and the connections of nodes to this Redis. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim.h"

#define EPOCH_US 1700000000000000ull

uint64_t qs_server_time(const struct qs_world *world)
{
	return EPOCH_US + world->now_us + (uint64_t)world->server.skew_us;
}

/* ---- commands that src/sim does not have ---- */

static void answer_settings(struct qs_world *world, struct weir_str which, struct wr_buf *out)
{
	static const char *const append[] = {
		"appendonly", "yes", "appendfsync", "always", "no-appendfsync-on-rewrite", "no"};

	if (!world->server.shows_config) {
		wr_sim_reply_error(out, "NOPERM this user has no permissions to run 'config|get'");
		return;
	}
	if (wr_str_equal(which, WR_STR("*append*"))) {
		wr_sim_reply_array(out, 6);
		for (size_t i = 0; i < 6; i++)
			wr_sim_reply_bulk(out, wr_str(append[i]));
		return;
	}
	wr_sim_reply_array(out, 2);
	wr_sim_reply_bulk(out, which);
	wr_sim_reply_bulk(out, WR_STR("noeviction"));
}

static void answer_info(struct qs_world *world, struct wr_buf *out)
{
	char text[200];

	snprintf(text, sizeof text,
		 "# Server\r\nrun_id:%llu\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
		 "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n"
		 "aof_last_bgrewrite_status:ok\r\n",
		 (unsigned long long)world->server.run_id);
	wr_sim_reply_bulk(out, wr_str(text));
}

/* Runs the queue's script and passes the call and its reply to the oracle. */
static void run_script(struct qs_world *world, const struct weir_str *argv, size_t argc,
		       struct wr_buf *out)
{
	struct wr_sim_redis *redis = world->server.redis;
	size_t from = out->len;
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	redis->keys = argv + 3;
	redis->key_count = 1;
	redis->keys_are_prefixes = redis->in_script = true;
	wr_sim_lua_run(world->lua, redis, WR_SIM_LUA_OTHER, wr_buf_str(&world->server.script),
		       argv + 3, 1, argv + 4, argc - 4, out);
	redis->in_script = false;
	redis->key_count = 0;
	world->report->calls++;
	if (redis->errors)
		qs_fail(world, "%s", redis->error);
	if (redisReaderFeed(reader, out->ptr + from, out->len - from) != REDIS_OK ||
	    redisReaderGetReply(reader, &reply) != REDIS_OK || !reply)
		abort();
	qs_model_call(world, argv + 4, argc - 4, reply);
	freeReplyObject(reply);
	redisReaderFree(reader);
}

/* The function `intercept` of struct wr_sim_redis. Replies to every command, so it always returns
 * true. */
static bool intercept_command(void *context, const struct weir_str *argv, size_t argc,
			      struct wr_buf *out)
{
	struct qs_world *world = context;
	struct qs_server *server = &world->server;

	if (wr_sim_redis_word_is(argv[0], "CONFIG")) {
		answer_settings(world, argv[2], out);
	} else if (wr_sim_redis_word_is(argv[0], "INFO")) {
		answer_info(world, out);
	} else if (wr_sim_redis_word_is(argv[0], "SCRIPT")) {
		server->script_loaded = true;
		wr_sim_reply_bulk(out, wr_str(wr_script_lines.sha1));
	} else if (wr_sim_redis_word_is(argv[0], "EVALSHA") && argc > 4) {
		if (server->script_loaded)
			run_script(world, argv, argc, out);
		else
			wr_sim_reply_error(out, "NOSCRIPT No matching script. Please use EVAL.");
	} else {
		qs_fail(world, "Redis received the unknown command %.*s", (int)argv[0].len,
			argv[0].ptr);
		wr_sim_reply_error(out, "ERR unknown command");
	}
	return true;
}

/* ---- start and stop ---- */

static void set_script(struct qs_server *server, const struct qs_mutation *mutation)
{
	const char *at = mutation ? strstr(wr_script_lines.text, mutation->from) : NULL;
	size_t before = at ? (size_t)(at - wr_script_lines.text) : 0;

	server->script = WR_SIM_BUF;
	if (!mutation) {
		wr_buf_add(&server->script, wr_script_lines.text, wr_script_lines.len);
		return;
	}
	if (!at) {
		fprintf(stderr, "the script has no '%s'\n", mutation->from);
		abort();
	}
	wr_buf_add(&server->script, wr_script_lines.text, before);
	wr_buf_add(&server->script, mutation->to, strlen(mutation->to));
	at += strlen(mutation->from);
	wr_buf_add(&server->script, at, wr_script_lines.len - (size_t)(at - wr_script_lines.text));
}

void qs_server_start(struct qs_world *world, const struct qs_mutation *mutation)
{
	struct qs_server *server = &world->server;

	set_script(server, mutation);
	server->redis = wr_sim_redis_new(world->lua);
	server->saved = wr_sim_redis_new(world->lua);
	server->redis->intercept = intercept_command;
	server->redis->intercept_context = world;
	server->up = true;
	server->run_id = 1;
	server->shows_config = !(world->plan->faults & 1u << QS_LOSS);
}

void qs_server_free(struct qs_world *world)
{
	struct qs_server *server = &world->server;

	while (server->connections) {
		struct qs_connection *connection = server->connections;

		server->connections = connection->next;
		wr_buf_free(&connection->to_server);
		wr_buf_free(&connection->to_node);
		free(connection);
	}
	wr_sim_redis_free(server->redis);
	wr_sim_redis_free(server->saved);
	wr_buf_free(&server->script);
}

void qs_server_save(struct qs_world *world)
{
	wr_sim_redis_copy(world->server.saved, world->server.redis);
	world->server.saved_model = world->model;
}

static void lose_data(struct qs_world *world)
{
	struct qs_server *server = &world->server;

	wr_sim_redis_copy(server->redis, server->saved);
	world->model = server->saved_model;
	server->stepped++;
	server->lost = true;
	for (unsigned i = 0; i < world->plan->orders; i++)
		if (world->orders[i].begun && !qs_model_order(&world->model, i))
			world->orders[i].vanished = true;
}

static void restart_server(struct qs_world *world, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	world->server.up = true;
	world->server.run_id++;
	world->server.script_loaded = false;
	qs_trace(world, "Redis is back");
}

void qs_server_stop(struct qs_world *world, bool loses)
{
	struct qs_server *server = &world->server;

	if (!server->up)
		return;
	server->up = false;
	for (struct qs_connection *each = server->connections; each; each = each->next) {
		each->broken = each->dead = true;
		wr_buf_clear(&each->to_server);
		if (each->node)
			qs_node_wake(each->node);
	}
	if (loses)
		lose_data(world);
	qs_schedule(world, world->now_us + wr_rng_scale(&world->fault_rng, 10 * MS, 20 * SECOND),
		    NULL, restart_server, NULL, 0);
}

/* ---- the wire ---- */

static bool fault_happens(struct qs_world *world, enum qs_fault fault)
{
	bool does = world->faults & 1u << fault && wr_rng_percent(&world->net_rng, 20);

	if (does)
		world->report->seen |= 1u << fault;
	return does;
}

/* Tells the node in 70 % of the cases that the connection is broken. Otherwise the node learns that
 * at its timeout. */
static void maybe_break(struct qs_world *world, struct qs_connection *connection)
{
	if (wr_rng_percent(&world->net_rng, 30))
		return;
	connection->broken = true;
	if (connection->node)
		qs_node_wake(connection->node);
}

static uint64_t message_delay(struct qs_world *world)
{
	return wr_rng_between(&world->net_rng, 50, world->plan->delay_us);
}

static void deliver_to_node(struct qs_world *world, void *object, uint64_t arg)
{
	struct qs_connection *connection = object;

	(void)world;
	(void)arg;
	if (connection->node)
		qs_node_wake(connection->node);
}

/* Event: bytes of a node arrive at the server. The low bits of `arg` are the number of bytes. If
 * the top bit is set, the reply is lost. */
static void deliver_to_server(struct qs_world *world, void *object, uint64_t arg)
{
	struct qs_connection *connection = object;
	struct qs_server *server = &world->server;
	bool silent = arg >> 63;
	size_t len = (size_t)(arg & UINT32_MAX);
	struct wr_buf in = WR_SIM_BUF, out = WR_SIM_BUF;

	if (server->paused_until_us > world->now_us) {
		qs_schedule(world, server->paused_until_us, NULL, deliver_to_server, object, arg);
		return;
	}
	if (!server->up || connection->to_server.len < len) {
		maybe_break(world, connection);
		return;
	}
	/* An incomplete command is dropped, because no bytes follow it. */
	wr_buf_add(&in, connection->to_server.ptr, len);
	wr_buf_drop(&connection->to_server, len);
	wr_sim_redis_input(server->redis, &in, qs_server_time(world), &out);
	if (connection->dead || silent || !connection->node) {
		maybe_break(world, connection);
	} else {
		wr_buf_add(&connection->to_node, out.ptr, out.len);
		qs_schedule(world, world->now_us + message_delay(world), NULL, deliver_to_node,
			    connection, 0);
	}
	wr_buf_free(&in);
	wr_buf_free(&out);
}

static bool wire_connect(void *context)
{
	struct qs_node *node = context;
	struct qs_world *world = node->world;
	struct qs_connection *connection;

	qs_node_block(node, world->now_us + 2 * message_delay(world));
	errno = ECONNREFUSED;
	if (node->dead || !world->server.up)
		return false;
	if (fault_happens(world, QS_CALL)) {
		qs_node_block(node, world->now_us + node->opts.timeout_us);
		errno = ETIMEDOUT;
		return false;
	}
	connection = wr_sim_alloc(1, sizeof *connection);
	connection->node = node;
	connection->to_server = connection->to_node = WR_SIM_BUF;
	connection->next = world->server.connections;
	world->server.connections = connection;
	node->connection = connection;
	return true;
}

static ssize_t wire_send(void *context, const void *bytes, size_t len)
{
	struct qs_node *node = context;
	struct qs_world *world = node->world;
	struct qs_connection *connection = node->connection;
	uint64_t at_us = world->now_us + message_delay(world);
	uint64_t arg = len;

	errno = ECONNRESET;
	if (node->dead || connection->broken)
		return -1;
	if (connection->dead)
		return (ssize_t)len;
	if (fault_happens(world, QS_CALL)) {
		/* In half of the cases the first bytes arrive: the first calls, and a part of the
		 * next call. */
		arg = wr_rng_percent(&world->net_rng, 50) ? wr_rng_below(&world->net_rng, len) : 0;
		connection->dead = true;
	} else if (fault_happens(world, QS_REPLY)) {
		arg |= 1ull << 63;
		connection->dead = true;
	} else if (fault_happens(world, QS_LATE)) {
		at_us += node->opts.timeout_us +
			 wr_rng_scale(&world->net_rng, MS, 2 * world->plan->opts.lease_us);
		connection->dead = true;
	}
	if (at_us < connection->last_us)
		at_us = connection->last_us;
	connection->last_us = at_us;
	wr_buf_add(&connection->to_server, bytes, len);
	qs_schedule(world, at_us, NULL, deliver_to_server, connection, arg);
	return (ssize_t)len;
}

static ssize_t wire_receive(void *context, void *bytes, size_t cap)
{
	struct qs_node *node = context;
	struct qs_world *world = node->world;
	struct qs_connection *connection = node->connection;
	uint64_t until_us = world->now_us + node->opts.timeout_us;
	size_t len;

	while (!node->dead && connection->to_node.len == 0 && !connection->broken &&
	       world->now_us < until_us)
		qs_node_block(node, until_us);
	errno = ETIMEDOUT;
	if (node->dead || connection->to_node.len == 0)
		return -1;
	len = connection->to_node.len < cap ? connection->to_node.len : cap;
	memcpy(bytes, connection->to_node.ptr, len);
	wr_buf_drop(&connection->to_node, len);
	return (ssize_t)len;
}

/* Closes a connection. Redis may still run the calls that the node has sent. */
static void wire_close(void *context)
{
	struct qs_node *node = context;

	if (node->connection)
		node->connection->node = NULL;
	node->connection = NULL;
}

const struct wr_queue_redis_wire qs_wire = {wire_connect, wire_send, wire_receive, wire_close};
