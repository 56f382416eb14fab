/* Sentinels: asked who the master is, one after the other until one answers, and asked again once a
 * second, so that a failover is followed even if the old master still answers. While the master
 * that one of them names is away, the others are asked as well: it may know no better. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "central/inner.h"

#define POLL_NS (1000 * WR_MS_NS)     /* all is well */
#define POLL_AWAY_NS (200 * WR_MS_NS) /* the master is away */
#define POLL_LEAST_NS (50 * WR_MS_NS) /* between two, whatever happens */
#define ANSWER_NS (250 * WR_MS_NS)    /* to connect, or to answer */
#define OTHERS_POLLS 30u              /* so often they are asked for each other */

static void poll_at(struct wr_central *central, uint64_t mono_ns)
{
	central->sentinels->poll_at_ns = mono_ns;
	wr_central_wake_at(central, mono_ns);
}

void wr_central_sentinels_poll_soon(struct wr_central *central)
{
	struct wr_central_sentinels *sentinels = central->sentinels;
	uint64_t at = sentinels->polled_ns + POLL_LEAST_NS;

	if (at < central->mono_ns)
		at = central->mono_ns;
	if (sentinels->poll_at_ns > at)
		poll_at(central, at);
}

/* On to the next one; after a round there is a pause. */
void wr_central_sentinels_on_lost(struct wr_central *central, const char *why)
{
	struct wr_central_sentinels *sentinels = central->sentinels;

	sentinels->conn = NULL;
	sentinels->asking = false;
	sentinels->answer_by_ns = 0;
	sentinels->at = (sentinels->at + 1) % (uint32_t)sentinels->list.count;
	if (++sentinels->tried < sentinels->list.count) {
		poll_at(central, central->mono_ns);
		return;
	}
	sentinels->tried = 0;
	if (!sentinels->logged)
		wr_central_log(central, WR_SAY_WARN, "no sentinel tells who is '%s': %s",
			       central->target->master, why);
	sentinels->logged = true;
	poll_at(central, central->mono_ns + POLL_NS - wr_central_random(central) % (POLL_NS / 2));
}

/* ---- who is the master ---- */

static void put_about(struct wr_central_conn *conn, const char *what)
{
	wr_command_begin(&conn->out, 3);
	wr_command_text(&conn->out, "SENTINEL");
	wr_command_text(&conn->out, what);
	wr_command_text(&conn->out, conn->central->target->master);
}

static enum wr_call_written put_master(struct wr_central_conn *conn, struct wr_call *call)
{
	(void)call;
	put_about(conn, "get-master-addr-by-name");
	return wr_command_end(&conn->out) ? WR_CALL_WRITTEN : WR_CALL_NO_ROOM;
}

/* False: it is the one that was known. */
static bool found(struct wr_central *central, const struct wr_endpoint *master)
{
	struct wr_central_shard *shard = central->shards[0];
	char at[WR_ENDPOINT_TEXT];

	if (wr_endpoint_equal(&shard->at, master))
		return false;
	wr_endpoint_text(master, at);
	if (shard->at.kind != WR_ENDPOINT_ANY)
		wr_central_log(central, WR_SAY_INFO, "the master '%s' is %s now",
			       central->target->master, at);
	wr_central_shard_move(shard, master);
	return true;
}

/* The master that this one names is away. It may not have heard of a failover: the next one is
 * asked at the next poll. The list of Sentinels, if it is under way, is waited for. */
static void doubt(struct wr_central_conn *conn)
{
	struct wr_central_sentinels *sentinels = conn->central->sentinels;

	if (sentinels->list.count == 1 || conn->waiting.first)
		return;
	sentinels->conn = NULL;
	sentinels->at = (sentinels->at + 1) % (uint32_t)sentinels->list.count;
	wr_central_conn_close(conn);
}

static void heard_master(struct wr_central_conn *conn, struct wr_call *call,
			 const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_central_sentinels *sentinels = central->sentinels;
	struct weir_str text = wr_redis_reply_text(reply);
	struct wr_endpoint master;
	char why[160] = "they know none of that name";
	int rc = wr_redis_sentinel_master(reply, &conn->link.at, &master);

	wr_call_free(central, call);
	sentinels->asking = false;
	sentinels->answer_by_ns = 0;
	if (rc == 1) {
		sentinels->tried = 0;
		sentinels->logged = false;
		if (!found(central, &master) &&
		    central->shards[0]->breaker.state == WR_BREAKER_OPEN)
			doubt(conn);
		return;
	}
	if (rc < 0)
		snprintf(why, sizeof why, "%.*s", (int)(text.len < 150 ? text.len : 150),
			 text.len ? text.ptr : "an answer that makes no sense");
	wr_central_conn_fail(conn, WR_FAULT_OTHER, why);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_master_ops = {.write = put_master,
					       .on_reply = heard_master,
					       .on_failure = failed,
					       .reads_errors = true,
					       .script = -1};

/* ---- who else is there ---- */

static enum wr_call_written put_sentinels(struct wr_central_conn *conn, struct wr_call *call)
{
	(void)call;
	put_about(conn, "sentinels");
	return wr_command_end(&conn->out) ? WR_CALL_WRITTEN : WR_CALL_NO_ROOM;
}

static void heard_sentinels(struct wr_central_conn *conn, struct wr_call *call,
			    const redisReply *reply)
{
	wr_call_free(conn->central, call);
	wr_redis_sentinel_others(reply, &conn->link.at, &conn->central->sentinels->list);
}

const struct wr_call_ops wr_call_sentinels_ops = {.write = put_sentinels,
						  .on_reply = heard_sentinels,
						  .on_failure = failed,
						  .reads_errors = true,
						  .script = -1};

/* ---- asking ---- */

static void push(struct wr_central_conn *conn, enum wr_call_kind kind)
{
	struct wr_call *call = wr_call_new(conn->central, kind);

	if (call)
		wr_central_conn_write(conn, call);
}

static void expect_answer(struct wr_central *central)
{
	uint64_t wait = central->timeout_ns > ANSWER_NS ? central->timeout_ns : ANSWER_NS;

	central->sentinels->answer_by_ns = central->mono_ns + wait;
	wr_central_wake_at(central, central->sentinels->answer_by_ns);
}

static void poll(struct wr_central *central)
{
	struct wr_central_sentinels *sentinels = central->sentinels;
	uint64_t pause = wr_central_shard_is_up(central->shards[0]) ? POLL_NS : POLL_AWAY_NS;

	sentinels->polled_ns = central->mono_ns;
	poll_at(central, central->mono_ns + pause - wr_central_random(central) % (pause / 4));
	if (sentinels->asking || (sentinels->conn && sentinels->conn->state != WR_CONN_READY))
		return;
	expect_answer(central);
	if (!sentinels->conn) {
		wr_central_conn_open(central, &sentinels->list.items[sentinels->at], NULL);
		return;
	}
	sentinels->asking = true;
	push(sentinels->conn, WR_CALL_MASTER);
	if (sentinels->polls++ % OTHERS_POLLS == 0)
		push(sentinels->conn, WR_CALL_SENTINELS);
}

void wr_central_sentinels_poll(struct wr_central *central)
{
	poll(central);
}

void wr_central_sentinels_tick(struct wr_central *central)
{
	struct wr_central_sentinels *sentinels = central->sentinels;

	if (sentinels->answer_by_ns && central->mono_ns >= sentinels->answer_by_ns) {
		sentinels->answer_by_ns = 0;
		if (sentinels->conn)
			wr_central_conn_fail(sentinels->conn, WR_FAULT_TIMEOUT,
					     "no answer in time");
	}
	if (central->mono_ns >= sentinels->poll_at_ns)
		poll(central);
	if (sentinels->answer_by_ns)
		wr_central_wake_at(central, sentinels->answer_by_ns);
	wr_central_wake_at(central, sentinels->poll_at_ns);
}

bool wr_central_sentinels_start(struct wr_central *central)
{
	struct wr_endpoint unknown = {.kind = WR_ENDPOINT_ANY};

	central->sentinels = calloc(1, sizeof *central->sentinels);
	central->shards[0] = wr_central_shard_new(central, &unknown);
	if (!central->sentinels || !central->shards[0])
		return false;
	central->shard_count = 1;
	central->sentinels->list = central->target->at;
	return true;
}
