/* A connection to Redis: writes calls to its output buffer, and assigns each reply to the call that
 * it answers. The host moves the bytes (wr_central_link_…). shard.c, sentinels.c and handshake.c
 * pass in the calls. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "central/inner.h"

/* The maximum number of bytes that are passed to the hiredis parser at once. A larger number would
 * be slower, because the parser often moves all unparsed bytes to the front of its buffer. */
#define FEED_BYTES 8192u

/* Returns the connection of a link that the host has passed in. The host drops its pointer to a
 * link when the link is closed, so the connection was not freed. */
static struct wr_central_conn *conn_of(struct wr_central_link *link)
{
	struct wr_central_conn *conn = (struct wr_central_conn *)link;

	wr_assert(conn->magic == WR_CENTRAL_CONN_MAGIC);
	return conn;
}

/* ---- opening and closing ---- */

struct wr_central_conn *wr_central_conn_open(struct wr_central *central,
					     const struct wr_endpoint *at,
					     struct wr_central_shard *shard)
{
	struct wr_central_conn *conn = calloc(1, sizeof *conn);

	wr_assert(!shard || (shard->central == central && !shard->conn));
	if (!conn || !wr_redis_replies_init(&conn->in)) {
		free(conn);
		return NULL; /* no memory; the connection is tried again later */
	}
	conn->link = (struct wr_central_link){.at = *at,
					      .tls = central->target->tls,
					      .purpose = shard ? WR_CENTRAL_LINK_DATA
							       : WR_CENTRAL_LINK_SENTINEL};
	conn->magic = WR_CENTRAL_CONN_MAGIC;
	conn->central = central;
	conn->shard = shard;
	conn->opened_mono_ns = central->mono_ns;
	wr_commands_init(&conn->out, WR_CENTRAL_OUTPUT_MAX);
	if (shard)
		shard->conn = conn;
	else
		central->sentinels->conn = conn;
	central->host.open(central->context, &conn->link);
	return conn;
}

/* Closes the connection. Returns the calls that were written but not answered; the caller must end
 * these calls as failed. `host_knows` is true if the host has already closed the link. */
static struct wr_call_queue detach_conn(struct wr_central_conn *conn, bool host_knows)
{
	struct wr_central *central = conn->central;
	struct wr_call_queue waiting = conn->waiting;

	wr_assert(conn->state != WR_CONN_CLOSED);
	conn->waiting = (struct wr_call_queue){0};
	conn->due = NULL;
	conn->state = WR_CONN_CLOSED;
	conn->next = central->closed;
	central->closed = conn;
	if (!host_knows)
		central->host.close(central->context, &conn->link);
	return waiting;
}

void wr_central_conn_close(struct wr_central_conn *conn)
{
	struct wr_call_queue waiting = detach_conn(conn, false);

	wr_assert_magic(conn, WR_CENTRAL_CONN_MAGIC);
	wr_call_queue_fail(conn->central, &waiting, WR_FAULT_LOST);
}

/* First notifies the shard (or sentinels.c) that the connection is lost, and then fails the calls.
 * A callback of a failed call may ask a new question, and the shard must know of the loss by
 * then. */
static void lose_conn(struct wr_central_conn *conn, enum wr_fault fault, const char *why,
		      bool host_knows)
{
	bool served =
		conn->state == WR_CONN_READY &&
		(conn->served || conn->central->mono_ns - conn->opened_mono_ns >= WR_SILENCE_NS);
	struct wr_call_queue waiting = detach_conn(conn, host_knows);

	if (conn->shard)
		wr_central_shard_on_lost(conn->shard, served, fault, why);
	else
		wr_central_sentinels_on_lost(conn->central, why);
	wr_call_queue_fail(conn->central, &waiting, WR_FAULT_LOST);
}

void wr_central_conn_fail(struct wr_central_conn *conn, enum wr_fault fault, const char *why)
{
	wr_assert_magic(conn, WR_CENTRAL_CONN_MAGIC);
	wr_assert(conn->state != WR_CONN_CLOSED);
	lose_conn(conn, fault, why, false);
}

void wr_central_conns_free_closed(struct wr_central *central)
{
	while (central->closed) {
		struct wr_central_conn *conn = central->closed;

		central->closed = conn->next;
		wr_commands_free(&conn->out);
		wr_redis_replies_free(&conn->in);
		conn->magic = 0;
		free(conn);
	}
}

void wr_central_link_up(struct wr_central_link *link, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_central_conn *conn = conn_of(link);
	struct wr_central *central = conn->central;

	wr_central_enter(central, now_ns, mono_ns);
	if (conn->state == WR_CONN_OPENING) {
		conn->state = WR_CONN_HANDSHAKE;
		wr_central_handshake(conn);
	}
	wr_central_exit(central);
}

void wr_central_link_down(struct wr_central_link *link, const char *why, uint64_t now_ns,
			  uint64_t mono_ns)
{
	struct wr_central_conn *conn = conn_of(link);
	struct wr_central *central = conn->central;

	wr_central_enter(central, now_ns, mono_ns);
	if (conn->state != WR_CONN_CLOSED)
		lose_conn(conn, conn->state == WR_CONN_READY ? WR_FAULT_LOST : WR_FAULT_CONNECT,
			  why, true);
	wr_central_exit(central);
}

/* ---- output ---- */

void wr_central_conn_mark_dirty(struct wr_central_conn *conn)
{
	wr_assert_magic(conn, WR_CENTRAL_CONN_MAGIC);
	if (conn->dirty)
		return;
	conn->dirty = true;
	conn->central->host.dirty(conn->central->context, &conn->link);
}

const struct wr_call_ops wr_call_asking_ops = {.words = {"ASKING"}, .script = -1};

static void write_call(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_central *central = conn->central;
	const struct wr_call_ops *ops = wr_call_ops(call);
	enum wr_call_written written =
		ops->write ? ops->write(conn, call)
			   : wr_call_write_words(conn, ops->words[0], ops->words[1], WR_WORDS_END);

	if (written == WR_CALL_WRITTEN) {
		call->written = true;
		call->shard = conn->shard;
		call->number = ++conn->written;
		call->mono_ns = central->mono_ns;
		wr_call_queue_push(&conn->waiting, call);
		if (conn->waiting.count == 1)
			wr_central_wake_at(central,
					   central->mono_ns + wr_central_silence_ns(central));
		if (!conn->due) {
			conn->due = call;
			wr_central_wake_at(central, central->mono_ns + central->timeout_ns);
		}
	} else if (written == WR_CALL_UNWANTED) {
		wr_call_free(central, call);
	} else {
		wr_call_fail(central, call, WR_FAULT_FULL);
	}
}

static void write_batch(struct wr_central_conn *conn)
{
	struct wr_call_queue batch = conn->shard->unwritten;
	struct wr_call *call, *asking;

	conn->central->batch++;
	/* shard->unwritten is emptied before the calls are written, because a call that fails can
	 * add new calls to it. */
	conn->shard->unwritten = (struct wr_call_queue){0};
	while ((call = wr_call_queue_pop(&batch))) {
		/* ASKING must precede a call that ASK has redirected. The call itself is possibly
		 * not written, because it is not needed any more or does not fit into the buffer.
		 * The server then gets ASKING alone, which does no harm. */
		if (call->asking && (asking = wr_call_new(conn->central, WR_CALL_ASKING)))
			write_call(conn, asking);
		write_call(conn, call);
	}
}

void wr_central_conn_write(struct wr_central_conn *conn, struct wr_call *call)
{
	wr_assert_magic(conn, WR_CENTRAL_CONN_MAGIC);
	wr_assert_magic(call, WR_CALL_MAGIC);
	write_call(conn, call);
	wr_central_conn_mark_dirty(conn);
}

void wr_central_conn_send(struct wr_central_conn *conn, enum wr_call_kind kind, bool *busy)
{
	struct wr_call *call = wr_call_new(conn->central, kind);

	wr_assert_magic(conn, WR_CENTRAL_CONN_MAGIC);
	if (!call)
		return;
	call->busy = busy;
	if (busy)
		*busy = true;
	wr_central_conn_write(conn, call);
}

bool wr_central_link_output(struct wr_central_link *link, const uint8_t **bytes, size_t *len)
{
	struct wr_central_conn *conn = conn_of(link);
	struct wr_central *central = conn->central;

	wr_central_enter(central, central->now_ns, central->mono_ns);
	if (conn->state == WR_CONN_READY && conn->shard && conn->shard->unwritten.first)
		write_batch(conn);
	*len = wr_commands_len(&conn->out);
	*bytes = *len ? conn->out.bytes + conn->out.start : NULL;
	conn->dirty = *len > 0;
	if (!conn->dirty && conn->state == WR_CONN_READY && conn->shard &&
	    conn->shard->unwritten.first)
		wr_central_conn_mark_dirty(conn);
	wr_central_exit(central);
	return *len > 0;
}

void wr_central_link_sent(struct wr_central_link *link, size_t len)
{
	wr_commands_sent(&conn_of(link)->out, len);
}

/* ---- input ---- */

static void read_replies(struct wr_central_conn *conn)
{
	const redisReply *reply;

	while (conn->state != WR_CONN_CLOSED) {
		int rc = wr_redis_replies_next(&conn->in, &reply);
		struct wr_call *call;

		if (rc == 0)
			return;
		call = rc > 0 ? wr_call_queue_pop(&conn->waiting) : NULL;
		if (!call) {
			wr_central_conn_fail(conn, WR_FAULT_PROTOCOL,
					     "the server sent bytes that are not RESP");
			return;
		}
		if (conn->due == call)
			conn->due = conn->waiting.first;
		conn->late = call->late;
		wr_call_reply(conn, call, reply);
		conn->late = false;
	}
}

void wr_central_link_input(struct wr_central_link *link, const uint8_t *bytes, size_t len,
			   uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_central_conn *conn = conn_of(link);
	struct wr_central *central = conn->central;

	wr_central_enter(central, now_ns, mono_ns);
	while (len && conn->state != WR_CONN_CLOSED) {
		size_t piece = len < FEED_BYTES ? len : FEED_BYTES;

		if (wr_redis_replies_feed(&conn->in, bytes, piece))
			read_replies(conn);
		else
			wr_central_conn_fail(conn, WR_FAULT_PROTOCOL, "the reply is too long");
		bytes += piece;
		len -= piece;
	}
	wr_central_exit(central);
}
