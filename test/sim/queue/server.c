/* Redis, and the connections of nodes to it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim.h"

#define EPOCH_US 1700000000000000ull

uint64_t qs_server_time(const struct qs_world *world)
{
	return EPOCH_US + world->now_us + (uint64_t)world->server.ahead_us;
}

/* ---- commands that are not in the simulated Redis ---- */

static void answer_settings(struct qs_world *world, struct weir_str which, struct wr_bytes *out)
{
	static const char *const append[] = {
		"appendonly", "yes", "appendfsync", "always", "no-appendfsync-on-rewrite", "no"};

	if (!world->server.tells) {
		wr_mini_error(out, "NOPERM this user has no permissions to run 'config|get'");
		return;
	}
	if (wr_str_equal(which, WR_STR("*append*"))) {
		wr_mini_array(out, 6);
		for (size_t i = 0; i < 6; i++)
			wr_mini_bulk(out, wr_str(append[i]));
		return;
	}
	wr_mini_array(out, 2);
	wr_mini_bulk(out, which);
	wr_mini_bulk(out, WR_STR("noeviction"));
}

static void answer_info(struct qs_world *world, struct wr_bytes *out)
{
	char text[200];

	snprintf(text, sizeof text,
		 "# Server\r\nrun_id:%llu\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
		 "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n"
		 "aof_last_bgrewrite_status:ok\r\n",
		 (unsigned long long)world->server.run);
	wr_mini_bulk(out, wr_str(text));
}

/* Runs the queue's script, and shows call and answer to the oracle. */
static void run_script(struct qs_world *world, const struct weir_str *argv, size_t argc,
		       struct wr_bytes *out)
{
	struct wr_mini *mini = world->server.mini;
	size_t from = out->len;
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	mini->keys = argv + 3;
	mini->key_count = 1;
	mini->prefixes = mini->scripting = true;
	wr_lua_run(world->lua, mini, WR_LUA_OTHER, wr_bytes_str(&world->server.script), argv + 3, 1,
		   argv + 4, argc - 4, out);
	mini->scripting = false;
	mini->key_count = 0;
	world->report->calls++;
	if (mini->errors)
		qs_fail(world, "%s", mini->error);
	if (redisReaderFeed(reader, (const char *)out->at + from, out->len - from) != REDIS_OK ||
	    redisReaderGetReply(reader, &reply) != REDIS_OK || !reply)
		abort();
	qs_model_call(world, argv + 4, argc - 4, reply);
	freeReplyObject(reply);
	redisReaderFree(reader);
}

/* True: the command was answered here. */
static bool gate(void *context, const struct weir_str *argv, size_t argc, struct wr_bytes *out)
{
	struct qs_world *world = context;
	struct qs_server *server = &world->server;

	if (wr_mini_is(argv[0], "CONFIG")) {
		answer_settings(world, argv[2], out);
	} else if (wr_mini_is(argv[0], "INFO")) {
		answer_info(world, out);
	} else if (wr_mini_is(argv[0], "SCRIPT")) {
		server->knows = true;
		wr_mini_bulk(out, wr_str(wr_script_lines.sha1));
	} else if (wr_mini_is(argv[0], "EVALSHA") && argc > 4) {
		if (server->knows)
			run_script(world, argv, argc, out);
		else
			wr_mini_error(out, "NOSCRIPT No matching script. Please use EVAL.");
	} else {
		qs_fail(world, "Redis was sent %.*s", (int)argv[0].len, argv[0].ptr);
		wr_mini_error(out, "ERR unknown command");
	}
	return true;
}

/* ---- starting and stopping ---- */

static void set_script(struct qs_server *server, const struct qs_mutation *mutation)
{
	const char *at = mutation ? strstr(wr_script_lines.text, mutation->from) : NULL;
	size_t before = at ? (size_t)(at - wr_script_lines.text) : 0;

	if (!mutation) {
		wr_bytes_set(&server->script, wr_script_lines.text, wr_script_lines.len);
		return;
	}
	if (!at) {
		fprintf(stderr, "the script has no '%s'\n", mutation->from);
		abort();
	}
	wr_bytes_add(&server->script, wr_script_lines.text, before);
	wr_bytes_add(&server->script, mutation->to, strlen(mutation->to));
	at += strlen(mutation->from);
	wr_bytes_add(&server->script, at,
		     wr_script_lines.len - (size_t)(at - wr_script_lines.text));
}

void qs_server_start(struct qs_world *world, const struct qs_mutation *mutation)
{
	struct qs_server *server = &world->server;

	set_script(server, mutation);
	server->mini = wr_mini_new(world->lua);
	server->saved = wr_mini_new(world->lua);
	server->mini->gate = gate;
	server->mini->gate_context = world;
	server->up = true;
	server->run = 1;
	server->tells = !(world->plan->faults & 1u << QS_LOSS);
}

void qs_server_free(struct qs_world *world)
{
	struct qs_server *server = &world->server;

	while (server->connections) {
		struct qs_connection *connection = server->connections;

		server->connections = connection->next;
		wr_bytes_free(&connection->to_server);
		wr_bytes_free(&connection->to_node);
		free(connection);
	}
	wr_mini_free(server->mini);
	wr_mini_free(server->saved);
	wr_bytes_free(&server->script);
}

void qs_server_save(struct qs_world *world)
{
	wr_mini_copy(world->server.saved, world->server.mini);
	world->server.saved_model = world->model;
}

static void lose(struct qs_world *world)
{
	struct qs_server *server = &world->server;

	wr_mini_copy(server->mini, server->saved);
	world->model = server->saved_model;
	server->stepped++;
	server->lost = true;
	for (unsigned i = 0; i < world->plan->orders; i++)
		if (world->orders[i].begun && !qs_model_order(&world->model, i))
			world->orders[i].vanished = true;
}

static void start_again(struct qs_world *world, void *object, uint64_t word)
{
	(void)object;
	(void)word;
	world->server.up = true;
	world->server.run++;
	world->server.knows = false;
	qs_note(world, "Redis is back");
}

void qs_server_stop(struct qs_world *world, bool loses)
{
	struct qs_server *server = &world->server;

	if (!server->up)
		return;
	server->up = false;
	for (struct qs_connection *each = server->connections; each; each = each->next) {
		each->broken = each->dead = true;
		each->to_server.len = 0;
		if (each->node)
			qs_node_wake(each->node);
	}
	if (loses)
		lose(world);
	qs_at(world, world->now_us + wr_dice_scale(&world->fate, 10 * MS, 20 * SECOND), NULL,
	      start_again, NULL, 0);
}

/* ---- the wire ---- */

static bool happens(struct qs_world *world, enum qs_fault fault)
{
	bool does = world->faults & 1u << fault && wr_dice_percent(&world->net, 20);

	if (does)
		world->report->seen |= 1u << fault;
	return does;
}

/* The node hears that the connection is gone, now or at its timeout. */
static void maybe_tell(struct qs_world *world, struct qs_connection *connection)
{
	if (wr_dice_percent(&world->net, 30))
		return;
	connection->broken = true;
	if (connection->node)
		qs_node_wake(connection->node);
}

static uint64_t delay(struct qs_world *world)
{
	return wr_dice_between(&world->net, 50, world->plan->delay_us);
}

static void arrive_at_node(struct qs_world *world, void *object, uint64_t word)
{
	struct qs_connection *connection = object;

	(void)world;
	(void)word;
	if (connection->node)
		qs_node_wake(connection->node);
}

/* Bytes that a node has sent are there: `word` of them, and the answer is lost if its top bit is
 * set. */
static void arrive(struct qs_world *world, void *object, uint64_t word)
{
	struct qs_connection *connection = object;
	struct qs_server *server = &world->server;
	bool silent = word >> 63;
	size_t len = (size_t)(word & UINT32_MAX);
	struct wr_bytes in = {0}, out = {0};

	if (server->still_until_us > world->now_us) {
		qs_at(world, server->still_until_us, NULL, arrive, object, word);
		return;
	}
	if (!server->up || connection->to_server.len < len) {
		maybe_tell(world, connection);
		return;
	}
	/* Part of a command stays; as nothing follows a part, it may go. */
	wr_bytes_set(&in, connection->to_server.at, len);
	wr_bytes_drop(&connection->to_server, len);
	wr_mini_talk(server->mini, &in, qs_server_time(world), &out);
	if (connection->dead || silent || !connection->node) {
		maybe_tell(world, connection);
	} else {
		wr_bytes_add(&connection->to_node, out.at, out.len);
		qs_at(world, world->now_us + delay(world), NULL, arrive_at_node, connection, 0);
	}
	wr_bytes_free(&in);
	wr_bytes_free(&out);
}

static bool wire_connect(void *context)
{
	struct qs_node *node = context;
	struct qs_world *world = node->world;
	struct qs_connection *connection;

	qs_node_nap(node, world->now_us + 2 * delay(world));
	errno = ECONNREFUSED;
	if (node->dead || !world->server.up)
		return false;
	if (happens(world, QS_CALL)) {
		qs_node_nap(node, world->now_us + node->opts.timeout_us);
		errno = ETIMEDOUT;
		return false;
	}
	connection = wr_lab_alloc(1, sizeof *connection);
	connection->node = node;
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
	uint64_t at_us = world->now_us + delay(world);
	uint64_t word = len;

	errno = ECONNRESET;
	if (node->dead || connection->broken)
		return -1;
	if (connection->dead)
		return (ssize_t)len;
	if (happens(world, QS_CALL)) {
		/* Of several calls the first few may arrive, and a part of the next. */
		word = wr_dice_percent(&world->net, 50) ? wr_dice_below(&world->net, len) : 0;
		connection->dead = true;
	} else if (happens(world, QS_REPLY)) {
		word |= 1ull << 63;
		connection->dead = true;
	} else if (happens(world, QS_LATE)) {
		at_us += node->opts.timeout_us +
			 wr_dice_scale(&world->net, MS, 2 * world->plan->opts.lease_us);
		connection->dead = true;
	}
	if (at_us < connection->last_us)
		at_us = connection->last_us;
	connection->last_us = at_us;
	wr_bytes_add(&connection->to_server, bytes, len);
	qs_at(world, at_us, NULL, arrive, connection, word);
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
		qs_node_nap(node, until_us);
	errno = ETIMEDOUT;
	if (node->dead || connection->to_node.len == 0)
		return -1;
	len = connection->to_node.len < cap ? connection->to_node.len : cap;
	memcpy(bytes, connection->to_node.at, len);
	wr_bytes_drop(&connection->to_node, len);
	return (ssize_t)len;
}

/* What it has sent may still be carried out. */
static void wire_close(void *context)
{
	struct qs_node *node = context;

	if (node->connection)
		node->connection->node = NULL;
	node->connection = NULL;
}

const struct wr_queue_redis_wire qs_wire = {wire_connect, wire_send, wire_receive, wire_close};
