/* Sentinels: asked who the master is, one after the other until one answers, and asked again once a
 * second, so that a failover is followed even if the old master still answers. While the master
 * that one of them names is away, the others are asked as well: it may know no better. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "central/inner.h"
#include "redis/sentinel.h"

#define POLL_NS (1000 * WR_MS_NS)     /* all is well */
#define POLL_AWAY_NS (200 * WR_MS_NS) /* the master is away */
#define POLL_LEAST_NS (50 * WR_MS_NS) /* between two, whatever happens */
#define ANSWER_NS (250 * WR_MS_NS)    /* to connect, or to answer */
#define OTHERS_POLLS 30u              /* so often they are asked for each other */

static void poll_at(struct wr_central *central, uint64_t mono_ns)
{
	central->watchers->poll_at_ns = mono_ns;
	wr_wake(central, mono_ns);
}

void wr_watchers_soon(struct wr_central *central)
{
	struct wr_watchers *watchers = central->watchers;
	uint64_t at = watchers->polled_ns + POLL_LEAST_NS;

	if (at < central->mono_ns)
		at = central->mono_ns;
	if (watchers->poll_at_ns > at)
		poll_at(central, at);
}

/* On to the next one; after a round there is a pause. */
void wr_watchers_lost(struct wr_central *central, const char *why)
{
	struct wr_watchers *watchers = central->watchers;

	watchers->line = NULL;
	watchers->asking = false;
	watchers->answer_by_ns = 0;
	watchers->at = (watchers->at + 1) % (uint32_t)watchers->list.count;
	if (++watchers->tried < watchers->list.count) {
		poll_at(central, central->mono_ns);
		return;
	}
	watchers->tried = 0;
	if (!watchers->said)
		wr_central_say(central, WR_SAY_WARN, "no sentinel tells who is '%s': %s",
			       central->target->master, why);
	watchers->said = true;
	poll_at(central, central->mono_ns + POLL_NS - wr_random(central) % (POLL_NS / 2));
}

/* ---- who is the master ---- */

static void put_about(struct wr_line *line, const char *what)
{
	wr_command_begin(&line->out, 3);
	wr_command_text(&line->out, "SENTINEL");
	wr_command_text(&line->out, what);
	wr_command_text(&line->out, line->central->target->master);
}

static enum wr_put put_master(struct wr_line *line, struct wr_call *call)
{
	(void)call;
	put_about(line, "get-master-addr-by-name");
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

/* False: it is the one that was known. */
static bool found(struct wr_central *central, const struct wr_endpoint *master)
{
	struct wr_shard *shard = central->shards[0];
	char at[WR_ENDPOINT_TEXT];

	if (wr_endpoint_equal(&shard->at, master))
		return false;
	wr_endpoint_text(master, at);
	if (shard->at.kind != WR_ENDPOINT_ANY)
		wr_central_say(central, WR_SAY_INFO, "the master '%s' is %s now",
			       central->target->master, at);
	wr_shard_move(shard, master);
	return true;
}

/* The master that this one names is away. It may not have heard of a failover: the next one is
 * asked at the next poll. The list of Sentinels, if it is under way, is waited for. */
static void doubt(struct wr_line *line)
{
	struct wr_watchers *watchers = line->central->watchers;

	if (watchers->list.count == 1 || line->waiting.first)
		return;
	watchers->line = NULL;
	watchers->at = (watchers->at + 1) % (uint32_t)watchers->list.count;
	wr_line_close(line);
}

static void heard_master(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = line->central;
	struct wr_watchers *watchers = central->watchers;
	struct weir_str text = wr_reply_text(reply);
	struct wr_endpoint master;
	char why[160] = "they know none of that name";
	int rc = wr_sentinel_master(reply, &line->link.at, &master);

	wr_call_free(central, call);
	watchers->asking = false;
	watchers->answer_by_ns = 0;
	if (rc == 1) {
		watchers->tried = 0;
		watchers->said = false;
		if (!found(central, &master) &&
		    central->shards[0]->breaker.state == WR_BREAKER_OPEN)
			doubt(line);
		return;
	}
	if (rc < 0)
		snprintf(why, sizeof why, "%.*s", (int)(text.len < 150 ? text.len : 150),
			 text.len ? text.ptr : "an answer that makes no sense");
	wr_line_lost(line, WR_FAULT_OTHER, why);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_master_ops = {
	.put = put_master, .heard = heard_master, .failed = failed, .errors = true, .script = -1};

/* ---- who else is there ---- */

static enum wr_put put_sentinels(struct wr_line *line, struct wr_call *call)
{
	(void)call;
	put_about(line, "sentinels");
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

static void heard_sentinels(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	wr_call_free(line->central, call);
	wr_sentinel_others(reply, &line->link.at, &line->central->watchers->list);
}

const struct wr_call_ops wr_sentinels_ops = {.put = put_sentinels,
					     .heard = heard_sentinels,
					     .failed = failed,
					     .errors = true,
					     .script = -1};

/* ---- asking ---- */

static void push(struct wr_line *line, enum wr_call_kind kind)
{
	struct wr_call *call = wr_call_new(line->central, kind);

	if (call)
		wr_line_push(line, call);
}

static void expect_answer(struct wr_central *central)
{
	uint64_t wait = central->timeout_ns > ANSWER_NS ? central->timeout_ns : ANSWER_NS;

	central->watchers->answer_by_ns = central->mono_ns + wait;
	wr_wake(central, central->watchers->answer_by_ns);
}

static void poll(struct wr_central *central)
{
	struct wr_watchers *watchers = central->watchers;
	uint64_t pause = wr_shard_is_up(central->shards[0]) ? POLL_NS : POLL_AWAY_NS;

	watchers->polled_ns = central->mono_ns;
	poll_at(central, central->mono_ns + pause - wr_random(central) % (pause / 4));
	if (watchers->asking || (watchers->line && watchers->line->state != WR_LINK_READY))
		return;
	expect_answer(central);
	if (!watchers->line) {
		wr_line_open(central, &watchers->list.items[watchers->at], NULL);
		return;
	}
	watchers->asking = true;
	push(watchers->line, WR_CALL_MASTER);
	if (watchers->polls++ % OTHERS_POLLS == 0)
		push(watchers->line, WR_CALL_SENTINELS);
}

void wr_watchers_ready(struct wr_central *central)
{
	poll(central);
}

void wr_watchers_tick(struct wr_central *central)
{
	struct wr_watchers *watchers = central->watchers;

	if (watchers->answer_by_ns && central->mono_ns >= watchers->answer_by_ns) {
		watchers->answer_by_ns = 0;
		if (watchers->line)
			wr_line_lost(watchers->line, WR_FAULT_TIMEOUT, "no answer in time");
	}
	if (central->mono_ns >= watchers->poll_at_ns)
		poll(central);
	if (watchers->answer_by_ns)
		wr_wake(central, watchers->answer_by_ns);
	wr_wake(central, watchers->poll_at_ns);
}

bool wr_watchers_start(struct wr_central *central)
{
	struct wr_endpoint unknown = {.kind = WR_ENDPOINT_ANY};

	central->watchers = calloc(1, sizeof *central->watchers);
	central->shards[0] = wr_shard_new(central, &unknown);
	if (!central->watchers || !central->shards[0])
		return false;
	central->shard_count = 1;
	central->watchers->list = central->target->at;
	return true;
}
