/* The simulated Redis that holds the queue, and the connections of nodes to this Redis. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim.h"

#define EPOCH_US 1700000000000000ull

uint64_t qs_server_time(const struct qs_sim *sim)
{
	return EPOCH_US + sim->now_us + (uint64_t)sim->server.skew_us;
}

/* ---- commands that src/sim does not have ---- */

static void answer_settings(struct qs_sim *sim, struct weir_str which, struct wr_buf *out)
{
	static const char *const append[] = {
		"appendonly", "yes", "appendfsync", "always", "no-appendfsync-on-rewrite", "no"};

	if (!sim->server.shows_config) {
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

static void answer_info(struct qs_sim *sim, struct wr_buf *out)
{
	char text[200];

	snprintf(text, sizeof text,
		 "# Server\r\nrun_id:%llu\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
		 "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n"
		 "aof_last_bgrewrite_status:ok\r\n",
		 (unsigned long long)sim->server.run_id);
	wr_sim_reply_bulk(out, wr_str(text));
}

/* Runs the queue's script and passes the call and its reply to the oracle. */
static void run_script(struct qs_sim *sim, const struct weir_str *argv, size_t argc,
		       struct wr_buf *out)
{
	struct wr_sim_redis *redis = sim->server.redis;
	size_t from = out->len;
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	redis->keys = argv + 3;
	redis->key_count = 1;
	redis->keys_are_prefixes = redis->in_script = true;
	wr_sim_lua_run(sim->lua, redis, WR_SIM_LUA_OTHER, wr_buf_str(&sim->server.script), argv + 3,
		       1, argv + 4, argc - 4, out);
	redis->in_script = false;
	redis->key_count = 0;
	sim->report->calls++;
	if (redis->errors)
		qs_fail(sim, "%s", redis->error);
	if (redisReaderFeed(reader, out->ptr + from, out->len - from) != REDIS_OK ||
	    redisReaderGetReply(reader, &reply) != REDIS_OK || !reply)
		abort();
	qs_model_call(sim, argv + 4, argc - 4, reply);
	freeReplyObject(reply);
	redisReaderFree(reader);
}

/* Implements `intercept` of struct wr_sim_redis. Replies to every command, so it always returns
 * true. */
static bool intercept_command(void *context, const struct weir_str *argv, size_t argc,
			      struct wr_buf *out)
{
	struct qs_sim *sim = context;
	struct qs_server *server = &sim->server;

	if (wr_sim_redis_word_is(argv[0], "CONFIG")) {
		answer_settings(sim, argv[2], out);
	} else if (wr_sim_redis_word_is(argv[0], "INFO")) {
		answer_info(sim, out);
	} else if (wr_sim_redis_word_is(argv[0], "SCRIPT")) {
		server->script_loaded = true;
		wr_sim_reply_bulk(out, wr_str(wr_queue_script_lines.sha1));
	} else if (wr_sim_redis_word_is(argv[0], "EVALSHA") && argc > 4) {
		if (server->script_loaded)
			run_script(sim, argv, argc, out);
		else
			wr_sim_reply_error(out, "NOSCRIPT No matching script. Please use EVAL.");
	} else {
		qs_fail(sim, "Redis received the unknown command %.*s", (int)argv[0].len,
			argv[0].ptr);
		wr_sim_reply_error(out, "ERR unknown command");
	}
	return true;
}

/* ---- start and stop ---- */

static void set_script(struct qs_server *server, const struct qs_mutation *mutation)
{
	const char *at = mutation ? strstr(wr_queue_script_lines.text, mutation->from) : NULL;
	size_t before = at ? (size_t)(at - wr_queue_script_lines.text) : 0;

	server->script = WR_SIM_BUF;
	if (!mutation) {
		wr_buf_add(&server->script, wr_queue_script_lines.text, wr_queue_script_lines.len);
		return;
	}
	if (!at) {
		fprintf(stderr, "the script has no '%s'\n", mutation->from);
		abort();
	}
	wr_buf_add(&server->script, wr_queue_script_lines.text, before);
	wr_buf_add(&server->script, mutation->to, strlen(mutation->to));
	at += strlen(mutation->from);
	wr_buf_add(&server->script, at,
		   wr_queue_script_lines.len - (size_t)(at - wr_queue_script_lines.text));
}

void qs_server_start(struct qs_sim *sim, const struct qs_mutation *mutation)
{
	struct qs_server *server = &sim->server;

	set_script(server, mutation);
	server->redis = wr_sim_redis_new(sim->lua);
	server->saved = wr_sim_redis_new(sim->lua);
	server->redis->intercept = intercept_command;
	server->redis->intercept_context = sim;
	server->up = true;
	server->run_id = 1;
	server->shows_config = !(sim->plan->faults & 1u << QS_LOSS);
}

void qs_server_free(struct qs_sim *sim)
{
	struct qs_server *server = &sim->server;

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

void qs_server_save(struct qs_sim *sim)
{
	wr_sim_redis_copy(sim->server.saved, sim->server.redis);
	sim->server.saved_model = sim->model;
}

static void lose_data(struct qs_sim *sim)
{
	struct qs_server *server = &sim->server;

	wr_sim_redis_copy(server->redis, server->saved);
	sim->model = server->saved_model;
	server->stepped++;
	server->lost = true;
	for (unsigned i = 0; i < sim->plan->posts; i++)
		if (sim->posts[i].begun && !qs_model_find(&sim->model, i))
			sim->posts[i].vanished = true;
}

static void restart_server(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	sim->server.up = true;
	sim->server.run_id++;
	sim->server.script_loaded = false;
	qs_trace(sim, "Redis is back");
}

void qs_server_stop(struct qs_sim *sim, bool loses)
{
	struct qs_server *server = &sim->server;

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
		lose_data(sim);
	qs_schedule(sim, sim->now_us + wr_rng_scale(&sim->fault_rng, 10 * MS, 20 * SECOND), NULL,
		    restart_server, NULL, 0);
}

/* ---- the wire ---- */

static bool fault_happens(struct qs_sim *sim, enum qs_fault fault)
{
	bool does = sim->faults & 1u << fault && wr_rng_percent(&sim->net_rng, 20);

	if (does)
		sim->report->seen |= 1u << fault;
	return does;
}

/* Breaks the connection in 70 % of the cases, so that the node gets an error at once. Otherwise the
 * node gets an error at its timeout. */
static void maybe_break(struct qs_sim *sim, struct qs_connection *connection)
{
	if (wr_rng_percent(&sim->net_rng, 30))
		return;
	connection->broken = true;
	if (connection->node)
		qs_node_wake(connection->node);
}

static uint64_t message_delay(struct qs_sim *sim)
{
	return wr_rng_between(&sim->net_rng, 50, sim->plan->delay_us);
}

static void deliver_to_node(struct qs_sim *sim, void *object, uint64_t arg)
{
	struct qs_connection *connection = object;

	(void)sim;
	(void)arg;
	if (connection->node)
		qs_node_wake(connection->node);
}

/* Event: bytes of a node arrive at the server. The low bits of `arg` are the number of bytes. If
 * the top bit is set, the reply is lost. */
static void deliver_to_server(struct qs_sim *sim, void *object, uint64_t arg)
{
	struct qs_connection *connection = object;
	struct qs_server *server = &sim->server;
	bool silent = arg >> 63;
	size_t len = (size_t)(arg & UINT32_MAX);
	struct wr_buf in = WR_SIM_BUF, out = WR_SIM_BUF;

	if (server->paused_until_us > sim->now_us) {
		qs_schedule(sim, server->paused_until_us, NULL, deliver_to_server, object, arg);
		return;
	}
	if (!server->up || connection->to_server.len < len) {
		maybe_break(sim, connection);
		return;
	}
	/* An incomplete command at the end is dropped, because the rest of the command was lost. */
	wr_buf_add(&in, connection->to_server.ptr, len);
	wr_buf_drop(&connection->to_server, len);
	wr_sim_redis_input(server->redis, &in, qs_server_time(sim), &out);
	if (connection->dead || silent || !connection->node) {
		maybe_break(sim, connection);
	} else {
		wr_buf_add(&connection->to_node, out.ptr, out.len);
		qs_schedule(sim, sim->now_us + message_delay(sim), NULL, deliver_to_node,
			    connection, 0);
	}
	wr_buf_free(&in);
	wr_buf_free(&out);
}

static bool wire_connect(void *context)
{
	struct qs_node *node = context;
	struct qs_sim *sim = node->sim;
	struct qs_connection *connection;

	qs_node_block(node, sim->now_us + 2 * message_delay(sim));
	errno = ECONNREFUSED;
	if (node->dead || !sim->server.up)
		return false;
	if (fault_happens(sim, QS_CALL)) {
		qs_node_block(node, sim->now_us + node->opts.timeout_us);
		errno = ETIMEDOUT;
		return false;
	}
	connection = wr_sim_alloc(1, sizeof *connection);
	connection->node = node;
	connection->to_server = connection->to_node = WR_SIM_BUF;
	connection->next = sim->server.connections;
	sim->server.connections = connection;
	node->connection = connection;
	return true;
}

static ssize_t wire_send(void *context, const void *bytes, size_t len)
{
	struct qs_node *node = context;
	struct qs_sim *sim = node->sim;
	struct qs_connection *connection = node->connection;
	uint64_t at_us = sim->now_us + message_delay(sim);
	uint64_t arg = len;

	errno = ECONNRESET;
	if (node->dead || connection->broken)
		return -1;
	if (connection->dead)
		return (ssize_t)len;
	if (fault_happens(sim, QS_CALL)) {
		/* In half of the cases the first bytes arrive: some complete calls and a part of
		 * the next call. Otherwise all bytes are lost. */
		arg = wr_rng_percent(&sim->net_rng, 50) ? wr_rng_below(&sim->net_rng, len) : 0;
		connection->dead = true;
	} else if (fault_happens(sim, QS_REPLY)) {
		arg |= 1ull << 63;
		connection->dead = true;
	} else if (fault_happens(sim, QS_LATE)) {
		at_us += node->opts.timeout_us +
			 wr_rng_scale(&sim->net_rng, MS, 2 * sim->plan->opts.lease_us);
		connection->dead = true;
	}
	if (at_us < connection->last_us)
		at_us = connection->last_us;
	connection->last_us = at_us;
	wr_buf_add(&connection->to_server, bytes, len);
	qs_schedule(sim, at_us, NULL, deliver_to_server, connection, arg);
	return (ssize_t)len;
}

static ssize_t wire_receive(void *context, void *bytes, size_t cap)
{
	struct qs_node *node = context;
	struct qs_sim *sim = node->sim;
	struct qs_connection *connection = node->connection;
	uint64_t until_us = sim->now_us + node->opts.timeout_us;
	size_t len;

	while (!node->dead && connection->to_node.len == 0 && !connection->broken &&
	       sim->now_us < until_us)
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
