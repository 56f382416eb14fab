/* Control messages between nodes. The messages are in a stream in Redis, which each chief loop
 * reads every 400 ms. They carry automatic bans and an operator's commands (bans, grants,
 * resets) to all nodes.
 * Called by the timer and by wr_central_publish. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

#define LISTEN_NS (400 * WR_MS_NS)
#define LISTEN_SOON_NS (5 * WR_MS_NS) /* pause between two reads if there are more messages */
#define PUBLISH_AGAIN_NS (200 * WR_MS_NS)
#define READ_AT_ONCE 128u
#define LONG_AT_ONCE 4u /* maximum number of messages of one read that took long */
/* Approximate number of messages that the Redis stream keeps. A node that joins the fleet learns
 * the bans that are in force from these messages. */
#define STREAM_LENGTH "16384"
/* After the clock of Redis has stepped back, messages are read again from this long before the new
 * time of Redis. */
#define STEP_BACK_MS 10000u

/* ---- TIME: the clock of Redis ---- */

/* The ids in a Redis stream begin with the time of the server. A new master with a slower clock
 * assigns ids below the ids that were already read. In this case the read position is moved back,
 * so some messages are read twice. */
static void read_time(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central_duties *duties = &conn->central->duties;
	bool for_stream = call->step == WR_TIME_FOR_STREAM;
	uint64_t s, us;
	bool valid = wr_redis_number_read(wr_redis_reply_text(wr_redis_reply_at(reply, 0)),
					  UINT64_MAX, &s) &&
		     wr_redis_number_read(wr_redis_reply_text(wr_redis_reply_at(reply, 1)),
					  UINT64_MAX, &us) &&
		     s <= UINT32_MAX * 4ull;

	if (valid)
		wr_central_shard_note_clock(conn->shard, call, s * 1000000 + us);
	wr_call_free(conn->central, call);
	if (!valid || !for_stream)
		return;
	duties->redis_us = s * 1000000 + us;
	if (duties->read_ms > duties->redis_us / 1000 + 1000) {
		duties->read_ms = duties->redis_us / 1000 - STEP_BACK_MS;
		duties->read_seq = 0;
	}
}

const struct wr_call_ops wr_call_time_ops = {
	.words = {"TIME"}, .on_reply = read_time, .keyed = true, .script = -1};

/* ---- XREAD: reading the stream ---- */

static enum wr_call_written write_xread(struct wr_central_conn *conn, struct wr_call *call)
{
	const struct wr_central_duties *duties = &conn->central->duties;
	char key[WR_REDIS_KEY], count[16], id[48];

	(void)call;
	wr_central_fleet_key(conn->central, "control", key);
	snprintf(count, sizeof count, "%u", READ_AT_ONCE);
	snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)duties->read_ms,
		 (unsigned long long)duties->read_seq);
	return wr_call_write_words(conn, "XREAD", "COUNT", count, "STREAMS", key, id, WR_WORDS_END);
}

static uint64_t age_ns(const struct wr_central_duties *duties)
{
	uint64_t now_ms = duties->redis_us / 1000;
	uint64_t age_ms = now_ms > duties->read_ms ? now_ms - duties->read_ms : 0;

	return age_ms > UINT64_MAX / WR_MS_NS ? UINT64_MAX : age_ms * WR_MS_NS;
}

/* Reads one entry of the Redis stream: [id, [name, value, …]]. Returns true if its message took
 * long. */
static bool read_entry(struct wr_central *central, const redisReply *entry)
{
	struct wr_central_duties *duties = &central->duties;
	struct weir_str id = wr_redis_reply_text(wr_redis_reply_at(entry, 0));
	const redisReply *fields = wr_redis_reply_at(entry, 1);
	size_t dash = wr_str_find(id, '-');
	struct weir_str bytes = wr_redis_reply_text(wr_redis_field(fields, "m"));
	uint64_t ms, seq;
	bool own;

	if (dash == id.len || !wr_redis_number_read(wr_str_first(id, dash), UINT64_MAX, &ms) ||
	    !wr_redis_number_read(wr_str_from(id, dash + 1), UINT64_MAX, &seq))
		return false;
	duties->read_ms = ms;
	duties->read_seq = seq;
	if (bytes.len == 0 || bytes.len > WR_CENTRAL_MESSAGE_MAX)
		return false;
	own = wr_str_equal(wr_redis_reply_text(wr_redis_field(fields, "h")),
			   wr_str(central->holder));
	return central->host.message(central->context, bytes.ptr, bytes.len, age_ns(duties), own);
}

/* The messages behind the last one that was passed to the host are read again soon. */
static void read_entries(struct wr_central_conn *conn, struct wr_call *call,
			 const redisReply *reply)
{
	struct wr_central *central = conn->central;
	const redisReply *entries = wr_redis_reply_at(wr_redis_reply_at(reply, 0), 1);
	size_t count = entries && entries->type == REDIS_REPLY_ARRAY ? entries->elements : 0;
	size_t done = 0, took_long = 0;

	wr_call_free(central, call);
	for (; done < count && took_long < LONG_AT_ONCE; done++)
		took_long += read_entry(central, entries->element[done]);
	if (count >= READ_AT_ONCE || done < count)
		central->duties.listen_at_ns = central->mono_ns + LISTEN_SOON_NS;
	wr_central_wake_at(central, central->duties.listen_at_ns);
}

static void on_listen_failed(struct wr_central *central, struct wr_call *call)
{
	wr_central_wake_at(central, central->duties.listen_at_ns);
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_listen_ops = {.write = write_xread,
					       .on_reply = read_entries,
					       .on_failure = on_listen_failed,
					       .keyed = true,
					       .script = -1};

static void read_stream(struct wr_central *central)
{
	struct wr_call *time = wr_call_new_fleet(central, WR_CALL_TIME, "control", NULL);
	struct wr_call *call =
		wr_call_new_fleet(central, WR_CALL_LISTEN, "control", &central->duties.listening);

	central->duties.listen_at_ns = central->mono_ns + LISTEN_NS;
	if (time) {
		time->step = WR_TIME_FOR_STREAM;
		wr_call_send(central, time);
	}
	if (call)
		wr_call_send(central, call);
}

/* ---- XADD: publishing, one message at a time to keep the order ---- */

static struct wr_central_message *first_message(const struct wr_central_duties *duties)
{
	struct wr_list *link = wr_list_first(&duties->messages);

	return link ? wr_container_of(link, struct wr_central_message, link) : NULL;
}

static enum wr_call_written write_xadd(struct wr_central_conn *conn, struct wr_call *call)
{
	const struct wr_central_message *message = first_message(&conn->central->duties);
	char key[WR_REDIS_KEY];

	(void)call;
	wr_central_fleet_key(conn->central, "control", key);
	wr_command_begin(&conn->out, 10);
	wr_command_text(&conn->out, "XADD");
	wr_command_text(&conn->out, key);
	wr_command_text(&conn->out, "MAXLEN");
	wr_command_text(&conn->out, "~");
	wr_command_text(&conn->out, STREAM_LENGTH);
	wr_command_text(&conn->out, "*");
	wr_command_text(&conn->out, "h");
	wr_command_text(&conn->out, conn->central->holder);
	wr_command_text(&conn->out, "m");
	wr_command_arg(&conn->out, message->bytes, message->len);
	return wr_call_write_end(conn);
}

static void publish_first(struct wr_central *central)
{
	struct wr_call *call =
		wr_call_new_fleet(central, WR_CALL_PUBLISH, "control", &central->duties.publishing);

	central->duties.publish_at_ns = central->mono_ns + PUBLISH_AGAIN_NS;
	wr_central_wake_at(central, central->duties.publish_at_ns);
	if (call)
		wr_call_send(central, call);
}

static void drop_first(struct wr_central_duties *duties)
{
	struct wr_list *link = wr_list_pop(&duties->messages);

	duties->message_count--;
	free(wr_container_of(link, struct wr_central_message, link));
}

static void on_published(struct wr_central_conn *conn, struct wr_call *call,
			 const redisReply *reply)
{
	struct wr_central *central = conn->central;

	(void)reply;
	wr_call_free(central, call);
	drop_first(&central->duties);
	if (central->duties.message_count)
		publish_first(central);
}

static void on_publish_failed(struct wr_central *central, struct wr_call *call)
{
	wr_central_wake_at(central, central->duties.publish_at_ns);
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_publish_ops = {.write = write_xadd,
						.on_reply = on_published,
						.on_failure = on_publish_failed,
						.keyed = true,
						.script = -1};

int wr_central_publish(struct wr_central *central, const void *bytes, size_t len, uint64_t mono_ns)
{
	struct wr_central_duties *duties = &central->duties;
	struct wr_central_message *message;

	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	if (len == 0 || len > WR_CENTRAL_MESSAGE_MAX || duties->message_count >= WR_MESSAGES_MAX)
		return WEIR_EROOM;
	message = malloc(sizeof *message + len);
	if (!message)
		return WEIR_EROOM;
	message->link = (struct wr_list){0};
	message->len = len;
	memcpy(message->bytes, bytes, len);
	wr_central_enter(central, central->now_ns, mono_ns);
	wr_list_add_last(&duties->messages, &message->link);
	duties->message_count++;
	if (!duties->publishing)
		publish_first(central);
	wr_central_exit(central);
	return 0;
}

void wr_central_read_place(const struct wr_central *central, uint64_t *ms, uint64_t *seq)
{
	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	*ms = central->duties.read_ms;
	*seq = central->duties.read_seq;
}

uint32_t wr_central_publishing(const struct wr_central *central)
{
	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	return central->duties.message_count;
}

/* ---- timer ---- */

void wr_central_control_tick(struct wr_central *central)
{
	struct wr_central_duties *duties = &central->duties;

	wr_assert(duties->message_count <= WR_MESSAGES_MAX);
	if (duties->message_count && !duties->publishing &&
	    central->mono_ns >= duties->publish_at_ns)
		publish_first(central);
	if (duties->message_count && !duties->publishing)
		wr_central_wake_at(central, duties->publish_at_ns);
	if (!central->chief)
		return;
	if (!duties->listening && central->mono_ns >= duties->listen_at_ns)
		read_stream(central);
	if (!duties->listening)
		wr_central_wake_at(central, duties->listen_at_ns);
}

void wr_central_control_free(struct wr_central *central)
{
	while (central->duties.message_count)
		drop_first(&central->duties);
}
