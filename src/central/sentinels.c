/* Asks Redis Sentinel for the address of the master. The Sentinels are tried one after the other
 * until one answers. This Sentinel is then asked again every second, so that a failover is noticed
 * even if the old master still answers. While the master is down, the other Sentinels are asked as
 * well, because a Sentinel may not know of the failover yet. Called by conn.c, shard.c and the
 * timer. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

#define POLL_NS (1000 * WR_MS_NS)     /* pause between polls while the master is up */
#define POLL_DOWN_NS (200 * WR_MS_NS) /* pause between polls while the master is down */
#define POLL_MIN_NS (50 * WR_MS_NS)   /* minimum pause between two polls */
#define ANSWER_NS (250 * WR_MS_NS)    /* minimum timeout for connecting, and for an answer */
#define POLLS_PER_LIST 30u            /* every 30th poll asks for the list of Sentinels as well */

static void poll_at(struct wr_central *central, uint64_t mono_ns)
{
	central->sentinels->poll_at_ns = mono_ns;
	wr_central_wake_at(central, mono_ns);
}

void wr_central_sentinels_poll_soon(struct wr_central *central)
{
	struct wr_central_sentinels *sentinels = central->sentinels;
	uint64_t at = sentinels->polled_ns + POLL_MIN_NS;

	wr_assert(sentinels);
	if (at < central->mono_ns)
		at = central->mono_ns;
	if (sentinels->poll_at_ns > at)
		poll_at(central, at);
}

/* Continues with the next Sentinel. When every Sentinel has failed once, the next attempt is made
 * after a pause. */
void wr_central_sentinels_on_lost(struct wr_central *central, const char *why)
{
	struct wr_central_sentinels *sentinels = central->sentinels;

	wr_assert(sentinels && sentinels->at < sentinels->list.count);
	sentinels->conn = NULL;
	sentinels->answer_by_ns = 0;
	sentinels->at = (sentinels->at + 1) % (uint32_t)sentinels->list.count;
	if (++sentinels->tried < sentinels->list.count) {
		poll_at(central, central->mono_ns);
		return;
	}
	sentinels->tried = 0;
	if (!sentinels->logged)
		wr_central_log(central, WR_CENTRAL_LOG_WARN,
			       "no Sentinel names the master '%s': %s", central->target->master,
			       why);
	sentinels->logged = true;
	poll_at(central, central->mono_ns + POLL_NS - wr_central_random(central) % (POLL_NS / 2));
}

/* ---- the master ---- */

static enum wr_call_written write_query(struct wr_central_conn *conn, struct wr_call *call)
{
	const char *query = call->kind == WR_CALL_MASTER ? "get-master-addr-by-name" : "sentinels";

	return wr_call_write_words(conn, "SENTINEL", query, conn->central->target->master,
				   WR_WORDS_END);
}

/* Moves the shard to the master's address. Returns false if the address has not changed. */
static bool adopt_master(struct wr_central *central, const struct wr_endpoint *master)
{
	struct wr_central_shard *shard = central->shards[0];
	char at[WR_ENDPOINT_TEXT];

	if (wr_endpoint_equal(&shard->at, master))
		return false;
	wr_endpoint_text(master, at);
	if (shard->at.kind != WR_ENDPOINT_ANY)
		wr_central_log(central, WR_CENTRAL_LOG_INFO, "the master '%s' is now %s",
			       central->target->master, at);
	wr_central_shard_move(shard, master);
	return true;
}

/* Called if the master that this Sentinel names is down. The Sentinel may not know of a failover,
 * so the next poll asks another Sentinel. If the list of Sentinels was requested, the connection
 * stays open until the list has come. */
static void try_other_sentinel(struct wr_central_conn *conn)
{
	struct wr_central_sentinels *sentinels = conn->central->sentinels;

	if (sentinels->list.count == 1 || conn->waiting.first)
		return;
	sentinels->conn = NULL;
	sentinels->at = (sentinels->at + 1) % (uint32_t)sentinels->list.count;
	wr_central_conn_close(conn);
}

static void read_master(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_central_sentinels *sentinels = central->sentinels;
	struct weir_str text = wr_redis_reply_text(reply);
	struct wr_endpoint master;
	char why[160] = "they know no master of that name";
	int rc = wr_redis_sentinel_master(reply, &conn->link.at, &master);

	wr_call_free(central, call);
	sentinels->answer_by_ns = 0;
	if (rc == 1) {
		sentinels->tried = 0;
		sentinels->logged = false;
		if (!adopt_master(central, &master) &&
		    central->shards[0]->breaker.state == WR_BREAKER_OPEN)
			try_other_sentinel(conn);
		return;
	}
	if (rc < 0)
		snprintf(why, sizeof why, "%.*s", (int)(text.len < 150 ? text.len : 150),
			 text.len ? text.ptr : "the reply is malformed");
	wr_central_conn_fail(conn, WR_FAULT_OTHER, why);
}

const struct wr_call_ops wr_call_master_ops = {
	.write = write_query, .on_reply = read_master, .reads_errors = true, .script = -1};

/* ---- the other Sentinels ---- */

static void read_sentinels(struct wr_central_conn *conn, struct wr_call *call,
			   const redisReply *reply)
{
	wr_call_free(conn->central, call);
	wr_redis_sentinel_others(reply, &conn->link.at, &conn->central->sentinels->list);
}

const struct wr_call_ops wr_call_sentinels_ops = {
	.write = write_query, .on_reply = read_sentinels, .reads_errors = true, .script = -1};

/* ---- polling ---- */

void wr_central_sentinels_poll(struct wr_central *central)
{
	struct wr_central_sentinels *sentinels = central->sentinels;
	uint64_t pause = wr_central_shard_is_up(central->shards[0]) ? POLL_NS : POLL_DOWN_NS;

	wr_assert(sentinels && sentinels->at < sentinels->list.count);
	sentinels->polled_ns = central->mono_ns;
	poll_at(central, central->mono_ns + pause - wr_central_random(central) % (pause / 4));
	if (sentinels->asking || (sentinels->conn && sentinels->conn->state != WR_CONN_READY))
		return;
	sentinels->answer_by_ns =
		central->mono_ns +
		(central->timeout_ns > ANSWER_NS ? central->timeout_ns : ANSWER_NS);
	wr_central_wake_at(central, sentinels->answer_by_ns);
	if (!sentinels->conn) {
		wr_central_conn_open(central, &sentinels->list.items[sentinels->at], NULL);
		return;
	}
	wr_central_conn_send(sentinels->conn, WR_CALL_MASTER, &sentinels->asking);
	if (sentinels->polls++ % POLLS_PER_LIST == 0)
		wr_central_conn_send(sentinels->conn, WR_CALL_SENTINELS, NULL);
}

void wr_central_sentinels_tick(struct wr_central *central)
{
	struct wr_central_sentinels *sentinels = central->sentinels;

	wr_assert(sentinels);
	if (sentinels->answer_by_ns && central->mono_ns >= sentinels->answer_by_ns) {
		sentinels->answer_by_ns = 0;
		if (sentinels->conn)
			wr_central_conn_fail(sentinels->conn, WR_FAULT_TIMEOUT,
					     "no reply within the timeout");
	}
	if (central->mono_ns >= sentinels->poll_at_ns)
		wr_central_sentinels_poll(central);
	if (sentinels->answer_by_ns)
		wr_central_wake_at(central, sentinels->answer_by_ns);
	wr_central_wake_at(central, sentinels->poll_at_ns);
}

bool wr_central_sentinels_start(struct wr_central *central)
{
	struct wr_endpoint unknown = {.kind = WR_ENDPOINT_ANY};

	wr_assert(!central->sentinels && central->shard_count == 0);
	central->sentinels = calloc(1, sizeof *central->sentinels);
	central->shards[0] = wr_central_shard_new(central, &unknown);
	if (!central->sentinels || !central->shards[0])
		return false;
	central->shard_count = 1;
	central->sentinels->list = central->target->at;
	return true;
}
