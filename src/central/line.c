/* A connection as bytes: commands out, replies in, each to the call it answers. */
#include <stdlib.h>
#include <string.h>

#include "central/inner.h"

#define FEED_BYTES 8192u /* at a time: the parser moves what it has not read yet */

static struct wr_line *line_of(struct wr_link *link)
{
	return (struct wr_line *)link;
}

/* ---- opening and closing ---- */

struct wr_line *wr_line_open(struct wr_central *central, const struct wr_endpoint *at,
			     struct wr_shard *shard)
{
	struct wr_line *line = calloc(1, sizeof *line);

	if (!line || !wr_replies_init(&line->in)) {
		free(line);
		return NULL; /* the next attempt may fare better */
	}
	line->link = (struct wr_link){.at = *at,
				      .tls = central->target->tls,
				      .purpose = shard ? WR_LINK_DATA : WR_LINK_SENTINEL};
	line->central = central;
	line->shard = shard;
	line->opened_mono_ns = central->mono_ns;
	wr_commands_init(&line->out, WR_OUTPUT_MAX);
	if (shard)
		shard->line = line;
	else
		central->watchers->line = line;
	central->host.open(central->context, &line->link);
	return line;
}

/* Nobody holds it any more but those whose functions it is in. Returns what waited on it. */
static struct wr_queue end(struct wr_line *line, bool host_knows)
{
	struct wr_central *central = line->central;
	struct wr_queue waiting = line->waiting;

	line->waiting = (struct wr_queue){0};
	line->due = NULL;
	line->state = WR_LINK_DEAD;
	line->next = central->dead;
	central->dead = line;
	if (!host_knows)
		central->host.close(central->context, &line->link);
	return waiting;
}

static void fail_all(struct wr_central *central, struct wr_queue *calls)
{
	struct wr_call *call;

	while ((call = wr_queue_take(calls)))
		wr_call_fail(central, call, WR_FAULT_LOST);
}

void wr_line_close(struct wr_line *line)
{
	struct wr_queue waiting = end(line, false);

	fail_all(line->central, &waiting);
}

/* Those who answer for it decide first what comes next: who is told of a failure may ask again. */
static void lose(struct wr_line *line, enum wr_fault fault, const char *why, bool host_knows)
{
	bool served =
		line->state == WR_LINK_READY &&
		(line->served || line->central->mono_ns - line->opened_mono_ns >= WR_SILENCE_NS);
	struct wr_queue waiting = end(line, host_knows);

	if (line->shard)
		wr_shard_lost(line->shard, served, fault, why);
	else
		wr_watchers_lost(line->central, why);
	fail_all(line->central, &waiting);
}

void wr_line_lost(struct wr_line *line, enum wr_fault fault, const char *why)
{
	lose(line, fault, why, false);
}

void wr_lines_bury(struct wr_central *central)
{
	while (central->dead) {
		struct wr_line *line = central->dead;

		central->dead = line->next;
		wr_commands_free(&line->out);
		wr_replies_free(&line->in);
		free(line);
	}
}

void wr_link_up(struct wr_link *link, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_line *line = line_of(link);
	struct wr_central *central = line->central;

	wr_enter(central, now_ns, mono_ns);
	if (line->state == WR_LINK_OPENING) {
		line->state = WR_LINK_GREETING;
		wr_greet(line);
	}
	wr_leave(central);
}

void wr_link_down(struct wr_link *link, const char *why, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_line *line = line_of(link);
	struct wr_central *central = line->central;

	wr_enter(central, now_ns, mono_ns);
	if (line->state != WR_LINK_DEAD)
		lose(line, line->state == WR_LINK_READY ? WR_FAULT_LOST : WR_FAULT_CONNECT, why,
		     true);
	wr_leave(central);
}

/* ---- out ---- */

void wr_line_touch(struct wr_line *line)
{
	if (line->dirty)
		return;
	line->dirty = true;
	line->central->host.dirty(line->central->context, &line->link);
}

static enum wr_put put_asking(struct wr_line *line, struct wr_call *call)
{
	(void)call;
	wr_command_begin(&line->out, 1);
	wr_command_text(&line->out, "ASKING");
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

static void heard_asking(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	(void)reply;
	wr_call_free(line->central, call);
}

static void failed_asking(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_asking_ops = {
	.put = put_asking, .heard = heard_asking, .failed = failed_asking, .script = -1};

static void write_call(struct wr_line *line, struct wr_call *call)
{
	struct wr_central *central = line->central;
	enum wr_put put = wr_call_ops(call)->put(line, call);

	if (put == WR_PUT) {
		call->written = true;
		call->shard = line->shard;
		call->number = ++line->written;
		call->mono_ns = central->mono_ns;
		wr_queue_add(&line->waiting, call);
		if (line->waiting.count == 1)
			wr_wake(central, central->mono_ns + wr_silence_ns(central));
		if (!line->due) {
			line->due = call;
			wr_wake(central, central->mono_ns + central->timeout_ns);
		}
	} else if (put == WR_PUT_NOTHING) {
		wr_call_free(central, call);
	} else {
		wr_call_fail(central, call, WR_FAULT_FULL);
	}
}

/* The ASKING is of no harm if nothing follows it. */
static void write_asking(struct wr_line *line)
{
	struct wr_call *asking = wr_call_new(line->central, WR_CALL_ASKING);

	if (asking)
		write_call(line, asking);
}

static void write_turn(struct wr_line *line)
{
	struct wr_queue turn = line->shard->turn;
	struct wr_call *call;

	line->central->turn++;
	line->shard->turn = (struct wr_queue){0}; /* who is told of a failure may ask again */
	while ((call = wr_queue_take(&turn))) {
		if (call->asking)
			write_asking(line);
		write_call(line, call);
	}
}

void wr_line_push(struct wr_line *line, struct wr_call *call)
{
	write_call(line, call);
	wr_line_touch(line);
}

bool wr_link_output(struct wr_link *link, const uint8_t **bytes, size_t *len)
{
	struct wr_line *line = line_of(link);
	struct wr_central *central = line->central;

	wr_enter(central, central->now_ns, central->mono_ns);
	if (line->state == WR_LINK_READY && line->shard && line->shard->turn.first)
		write_turn(line);
	*len = wr_commands_len(&line->out);
	*bytes = *len ? line->out.bytes + line->out.start : NULL;
	line->dirty = *len > 0;
	if (!line->dirty && line->state == WR_LINK_READY && line->shard && line->shard->turn.first)
		wr_line_touch(line);
	wr_leave(central);
	return *len > 0;
}

void wr_link_sent(struct wr_link *link, size_t len)
{
	wr_commands_sent(&line_of(link)->out, len);
}

/* ---- in ---- */

static void read_replies(struct wr_line *line)
{
	const redisReply *reply;

	while (line->state != WR_LINK_DEAD) {
		int rc = wr_replies_next(&line->in, &reply);
		struct wr_call *call;

		if (rc == 0)
			return;
		call = rc > 0 ? wr_queue_take(&line->waiting) : NULL;
		if (!call) {
			wr_line_lost(line, WR_FAULT_PROTOCOL, "it does not speak like Redis");
			return;
		}
		if (line->due == call)
			line->due = line->waiting.first;
		line->late = call->late;
		wr_call_reply(line, call, reply);
		line->late = false;
	}
}

void wr_link_input(struct wr_link *link, const uint8_t *bytes, size_t len, uint64_t now_ns,
		   uint64_t mono_ns)
{
	struct wr_line *line = line_of(link);
	struct wr_central *central = line->central;

	wr_enter(central, now_ns, mono_ns);
	while (len && line->state != WR_LINK_DEAD) {
		size_t piece = len < FEED_BYTES ? len : FEED_BYTES;

		if (wr_replies_feed(&line->in, bytes, piece))
			read_replies(line);
		else
			wr_line_lost(line, WR_FAULT_PROTOCOL, "its reply is too long");
		bytes += piece;
		len -= piece;
	}
	wr_leave(central);
}
