/* The simulated network between nodes and servers, and the functions that central needs from its
 * host (struct wr_central_host). Messages on one connection in one direction arrive in the order in
 * which they were sent. Messages on different connections may overtake each other. A write is
 * usually delivered as one message, and sometimes as two messages. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim_inner.h"

struct wr_sim_conn {
	struct wr_sim_conn *next; /* list of all connections of the run */
	struct wr_sim_conn *dirty_next;
	struct wr_sim_node *node;
	struct wr_sim_master *master;
	struct wr_central_link *link; /* NULL: the node has closed or lost the connection */
	unsigned server, number;
	bool up, dirty;
	bool asking;     /* the latest command on this connection was ASKING */
	bool input_lost; /* all further bytes to the server are lost */
	bool lost;       /* all further bytes from the server are lost */
	/* arrival time of the latest message at the server (out_ns) and at the node (in_ns) */
	uint64_t out_ns, in_ns;
	struct wr_buf in; /* an incomplete command that the server has received */
};

struct message {
	struct wr_sim_conn *conn;
	/* when the message was sent: in true time, and by the server's clock */
	uint64_t sent_ns, sent_us;
	/* With Sentinels: index of the term in which the server sent the message. A term is the
	 * time in which one server is primary. */
	uint32_t term;
	size_t len;
	uint8_t bytes[];
};

/* ---- Redis ---- */

uint64_t wr_sim_master_us(const struct wr_sim *sim, const struct wr_sim_master *master)
{
	return (uint64_t)((int64_t)(wr_sim_epoch_ns(sim->plan) + sim->now_ns) + master->skew_ns) /
	       1000;
}

struct wr_sim_master *wr_sim_master_new(struct wr_sim *sim, unsigned server, int64_t skew_ns)
{
	struct wr_sim_master *master = wr_sim_alloc(1, sizeof *master);

	*master = (struct wr_sim_master){.next = sim->masters,
					 .redis = wr_sim_redis_new(sim->lua),
					 .skew_ns = skew_ns,
					 .sim = sim,
					 .server = server};
	sim->masters = master;
	wr_sim_cluster_add_instance(sim, master);
	wr_sim_sentinel_add_instance(sim, master);
	return master;
}

void wr_sim_servers_init(struct wr_sim *sim, unsigned endpoints)
{
	sim->endpoints = endpoints;
	sim->servers = wr_sim_alloc(endpoints, sizeof *sim->servers);
}

void wr_sim_servers_start(struct wr_sim *sim)
{
	wr_sim_cluster_start(sim);
	wr_sim_sentinel_init(sim);
	for (unsigned i = 0; i < wr_sim_server_count(sim->plan); i++) {
		int64_t skew_ns =
			wr_sim_has_fault(sim, WR_SIM_SKEW)
				? (int64_t)wr_rng_below(&sim->fault_rng, 4000000000u) - 2000000000
				: 0;

		sim->servers[i].master = wr_sim_master_new(sim, i, skew_ns);
		sim->servers[i].replica = wr_sim_redis_new(sim->lua);
	}
	wr_sim_sentinel_start(sim);
}

/* ---- messages ---- */

#define TRACE_BYTES_MAX 4096u /* longer messages, such as scripts, are not written to the trace */

/* Returns the delay of a message. The random part (jitter) is 20 times as large for one message in
 * fifty. */
static uint64_t message_delay(struct wr_sim *sim, const struct wr_sim_conn *conn)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t jitter_ns = plan->jitter_ns;

	if (sim->fleet)
		return wr_sim_fleet_delay_ns(sim->fleet, conn->node->number, conn->server);
	if (wr_rng_percent(&sim->net_rng, 2))
		jitter_ns *= 20;
	return plan->delay_ns + (jitter_ns ? wr_rng_below(&sim->net_rng, jitter_ns) : 0);
}

/* Returns the time at which a message that is sent now arrives. *last_ns is the arrival time of the
 * previous message in this direction. The result is later than *last_ns and is stored there. */
static uint64_t arrival_ns(struct wr_sim *sim, const struct wr_sim_conn *conn, uint64_t *last_ns)
{
	const struct wr_sim_server *server = &sim->servers[conn->server];
	uint64_t at_ns = sim->now_ns + message_delay(sim, conn);
	uint64_t cut_until_ns = conn->node->cut_until_ns[conn->server];

	if (last_ns == &conn->in_ns && conn->node->slow_until_ns > sim->now_ns)
		at_ns += conn->node->slow_ns;
	if (last_ns == &conn->in_ns && server->slow_until_ns > sim->now_ns)
		at_ns += server->slow_ns;
	if (at_ns < cut_until_ns)
		at_ns = cut_until_ns + message_delay(sim, conn);
	if (at_ns <= *last_ns)
		at_ns = *last_ns + 1;
	*last_ns = at_ns;
	return at_ns;
}

static struct message *message_new(struct wr_sim_conn *conn, const char *bytes, size_t len)
{
	struct message *message = wr_sim_alloc(1, sizeof *message + len);

	message->conn = conn;
	message->sent_ns = conn->node->sim->now_ns;
	message->sent_us = wr_sim_master_us(conn->node->sim, conn->master);
	message->term = conn->master->term;
	message->len = len;
	memcpy(message->bytes, bytes, len);
	return message;
}

static void deliver_to_node(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct message *message = object;
	struct wr_sim_conn *conn = message->conn;

	(void)sim;
	(void)arg;
	conn->node->reply_ns = message->sent_ns;
	conn->node->reply_us = message->sent_us;
	conn->node->reply_term = message->term;
	if (!conn->lost && conn->link)
		wr_central_link_input(conn->link, message->bytes, message->len,
				      wr_sim_node_now(conn->node), wr_sim_node_mono(conn->node));
	free(message);
}

static void send_bytes(struct wr_sim *sim, struct wr_sim_conn *conn, wr_sim_event_fn *run,
		       const struct wr_buf *bytes, uint64_t *last_ns, struct wr_sim_node *node)
{
	size_t first = bytes->len;

	if (bytes->len > 1 && wr_rng_percent(&sim->net_rng, 3))
		first = wr_rng_between(&sim->net_rng, 1, bytes->len - 1);
	wr_sim_schedule(sim, arrival_ns(sim, conn, last_ns), node, run,
			message_new(conn, bytes->ptr, first), 0);
	if (first < bytes->len)
		wr_sim_schedule(sim, arrival_ns(sim, conn, last_ns), node, run,
				message_new(conn, bytes->ptr + first, bytes->len - first), 0);
}

/* Writes bytes to the trace for human readers. These lines are not part of the hash of the
 * trace. */
static void trace_bytes(const struct wr_sim *sim, const struct wr_sim_conn *conn, const char *what,
			const uint8_t *bytes, size_t len)
{
	fprintf(sim->trace, "%llu.%06llu node%u %s ", (unsigned long long)(sim->now_ns / 1000000),
		(unsigned long long)(sim->now_ns % 1000000), conn->node->number, what);
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == '*' || bytes[i] == '$') /* skip a length and the rest of its line */
			while (i < len && bytes[i] != '\n')
				i++;
		else if (bytes[i] > ' ' && bytes[i] < 127)
			fputc(bytes[i], sim->trace);
		else if (bytes[i] == '\n')
			fputc(' ', sim->trace);
	}
	fputc('\n', sim->trace);
}

static void deliver_to_server(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct message *message = object;
	struct wr_sim_conn *conn = message->conn;
	struct wr_buf out = WR_SIM_BUF;

	(void)arg;
	if (sim->servers[conn->server].down_until_ns > sim->now_ns)
		conn->input_lost = true; /* later bytes are lost too, as in a TCP stream */
	if (!conn->input_lost) {
		wr_buf_add(&conn->in, message->bytes, message->len);
		if (sim->trace && message->len < TRACE_BYTES_MAX)
			trace_bytes(sim, conn, "to redis:", message->bytes, message->len);
		conn->master->redis->asking = conn->asking;
		wr_sim_redis_input(conn->master->redis, &conn->in,
				   wr_sim_master_us(sim, conn->master), &out);
		conn->asking = conn->master->redis->asking;
		if (sim->trace && out.len)
			trace_bytes(sim, conn, "from redis:", (const uint8_t *)out.ptr, out.len);
		if (out.len && !conn->lost && conn->link)
			send_bytes(sim, conn, deliver_to_node, &out, &conn->in_ns, conn->node);
	}
	wr_buf_free(&out);
	free(message);
}

/* ---- opening and breaking connections ---- */

static void lose_connection(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct wr_sim_conn *conn = object;
	struct wr_central_link *link = conn->link;

	(void)arg;
	conn->lost = true;
	conn->link = NULL;
	if (!link)
		return;
	wr_sim_trace(sim, conn->node, "connection %u is lost", conn->number);
	wr_central_link_down(link, "lost", wr_sim_node_now(conn->node),
			     wr_sim_node_mono(conn->node));
}

static void finish_connect(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct wr_sim_conn *conn = object;

	(void)arg;
	if (!conn->link || conn->lost)
		return;
	if (sim->servers[conn->server].down_until_ns > sim->now_ns) {
		lose_connection(sim, conn, 0);
		return;
	}
	conn->up = true;
	conn->master = sim->servers[conn->server].master;
	wr_central_link_up(conn->link, wr_sim_node_now(conn->node), wr_sim_node_mono(conn->node));
}

/* Breaks a connection. Bytes in flight to the server are lost in half of the cases. Bytes in flight
 * to the node are lost. */
static void break_conn(struct wr_sim *sim, struct wr_sim_conn *conn)
{
	conn->input_lost = conn->input_lost || wr_rng_percent(&sim->fault_rng, 50);
	conn->lost = true;
	wr_sim_schedule(sim, sim->now_ns + message_delay(sim, conn), conn->node, lose_connection,
			conn, 0);
}

void wr_sim_disconnect(struct wr_sim *sim, unsigned server, struct wr_sim_node *only,
		       unsigned percent)
{
	for (struct wr_sim_conn *conn = sim->conns; conn; conn = conn->next)
		if (conn->link && !conn->lost && conn->server == server &&
		    (!only || conn->node == only) && wr_rng_percent(&sim->fault_rng, percent))
			break_conn(sim, conn);
}

void wr_sim_disconnect_old_master(struct wr_sim *sim, unsigned server)
{
	for (struct wr_sim_conn *conn = sim->conns; conn; conn = conn->next)
		if (conn->link && !conn->lost && conn->up && conn->server == server &&
		    conn->master != sim->servers[server].master)
			break_conn(sim, conn);
}

/* ---- host functions of central ---- */

static void host_open(void *context, struct wr_central_link *link)
{
	struct wr_sim_node *node = ((struct wr_sim_client *)context)->node;
	struct wr_sim *sim = node->sim;
	struct wr_sim_conn *conn = wr_sim_alloc(1, sizeof *conn);

	conn->node = node;
	conn->link = link;
	conn->in = WR_SIM_BUF;
	conn->server = link->at.port - WR_SIM_PORT;
	conn->number = sim->conns ? sim->conns->number + 1 : 1;
	conn->next = sim->conns;
	sim->conns = conn;
	link->data = conn;
	wr_sim_trace(sim, node, "connects (%u)", conn->number);
	arrival_ns(sim, conn, &conn->out_ns);
	wr_sim_schedule(sim, arrival_ns(sim, conn, &conn->out_ns), node, finish_connect, conn, 0);
}

/* Closes a connection. Bytes that the node wrote before still arrive at the server. */
static void host_close(void *context, struct wr_central_link *link)
{
	struct wr_sim_conn *conn = link->data;

	(void)context;
	conn->link = NULL;
}

static void host_dirty(void *context, struct wr_central_link *link)
{
	struct wr_sim_node *node = ((struct wr_sim_client *)context)->node;
	struct wr_sim_conn *conn = link->data;

	if (conn->dirty)
		return;
	conn->dirty = true;
	conn->dirty_next = node->dirty;
	if (!node->queued) {
		struct wr_sim_node **at = &node->sim->dirty;

		while (*at && (*at)->number < node->number)
			at = &(*at)->dirty_next;
		node->dirty_next = *at;
		*at = node;
		node->queued = true;
	}
	node->dirty = conn;
}

void wr_sim_node_send(struct wr_sim_node *node)
{
	while (node->dirty) {
		struct wr_sim_conn *conn = node->dirty;
		struct wr_buf bytes = WR_SIM_BUF;
		const uint8_t *at;
		size_t len;

		node->dirty = conn->dirty_next;
		conn->dirty = false;
		while (conn->link && wr_central_link_output(conn->link, &at, &len)) {
			wr_buf_add(&bytes, at, len);
			wr_central_link_sent(conn->link, len);
		}
		if (bytes.len && conn->up && !node->freeing)
			send_bytes(node->sim, conn, deliver_to_server, &bytes, &conn->out_ns, NULL);
		wr_buf_free(&bytes);
	}
}

static void tick_central(struct wr_sim *sim, void *object, uint64_t arg)
{
	const struct wr_sim_client *client = object;

	(void)sim;
	if (client->central && client->wake_number == arg)
		wr_central_tick(client->central, wr_sim_node_now(client->node),
				wr_sim_node_mono(client->node));
}

/* Sets the timer of central. The timer never fires early. It may fire late, by up to 0.1 % of the
 * wait plus a millisecond. */
static void host_wake_at(void *context, uint64_t mono_ns)
{
	struct wr_sim_client *client = context;
	struct wr_sim_node *node = client->node;
	struct wr_sim *sim = node->sim;
	uint64_t now_ns = wr_sim_node_mono(node);
	uint64_t wait_ns = mono_ns > now_ns ? mono_ns - now_ns : 0;

	client->wake_number++;
	wr_sim_schedule(
		sim, sim->now_ns + wait_ns + wait_ns / 1000 + wr_rng_below(&sim->net_rng, 1000000),
		node, tick_central, client, client->wake_number);
}

static void host_log(void *context, enum wr_central_log_level level, const char *text)
{
	const struct wr_sim_node *node = ((struct wr_sim_client *)context)->node;

	(void)level;
	if (!node->freeing)
		wr_sim_trace(node->sim, node, "log: %s", text);
}

static void host_secret(void *context, const uint8_t secret[WR_CENTRAL_SECRET])
{
	const struct wr_sim_node *node = ((struct wr_sim_client *)context)->node;

	weir_engine_fleet(node->engine, secret);
}

static void host_nodes(void *context, uint32_t nodes)
{
	const struct wr_sim_node *node = ((struct wr_sim_client *)context)->node;

	wr_sim_trace(node->sim, node, "the fleet has %u nodes", nodes);
	weir_fleet_note(node->table, nodes, wr_sim_node_now(node));
}

static bool host_message(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	(void)own;
	wr_sim_order_received(((struct wr_sim_client *)context)->node, bytes, len, age_ns);
	return false;
}

const struct wr_central_host wr_sim_host = {.open = host_open,
					    .close = host_close,
					    .dirty = host_dirty,
					    .wake_at = host_wake_at,
					    .log = host_log,
					    .secret = host_secret,
					    .nodes = host_nodes,
					    .message = host_message};

/* ---- the end ---- */

void wr_sim_net_free(struct wr_sim *sim)
{
	for (size_t i = 0; i < sim->events.count; i++) {
		const struct wr_sim_event *event =
			wr_container_of(sim->events.nodes[i], struct wr_sim_event, heap);

		if (event->run == deliver_to_node || event->run == deliver_to_server)
			free(event->object);
	}
	while (sim->conns) {
		struct wr_sim_conn *conn = sim->conns;

		sim->conns = conn->next;
		wr_buf_free(&conn->in);
		free(conn);
	}
	while (sim->masters) {
		struct wr_sim_master *master = sim->masters;

		sim->report->commands += master->redis->commands;
		sim->report->calls += master->redis->calls;
		if (master->redis->errors)
			wr_sim_fail(sim, "Redis replied with an error: %s", master->redis->error);
		sim->masters = master->next;
		wr_sim_redis_free(master->redis);
		free(master);
	}
	for (unsigned i = 0; i < sim->endpoints; i++)
		wr_sim_redis_free(sim->servers[i].replica);
	free(sim->servers);
	free(sim->cluster);
	free(sim->sentinels);
}
