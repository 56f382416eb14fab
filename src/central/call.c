/* Functions that all kinds of calls use. A call is a command to Redis. The functions write keys and
 * scripts, find the shard of a call, and handle error replies and retries. Called by the files that
 * define a kind of call, and by conn.c and shard.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

#define TRYAGAIN_NS (2 * WR_MS_NS)

static const struct wr_call_ops *const kinds[WR_CALL_KINDS] = {
	[WR_CALL_TAKE] = &wr_call_take_ops,           [WR_CALL_RETURN] = &wr_call_return_ops,
	[WR_CALL_REPORT] = &wr_call_report_ops,       [WR_CALL_RESET] = &wr_call_reset_ops,
	[WR_CALL_EXCHANGE] = &wr_call_exchange_ops,   [WR_CALL_PUSH] = &wr_call_push_ops,
	[WR_CALL_LEASE] = &wr_call_lease_ops,         [WR_CALL_ASKING] = &wr_call_asking_ops,
	[WR_CALL_HANDSHAKE] = &wr_call_handshake_ops, [WR_CALL_PING] = &wr_call_ping_ops,
	[WR_CALL_INFO] = &wr_call_info_ops,           [WR_CALL_SLOTS] = &wr_call_slots_ops,
	[WR_CALL_MASTER] = &wr_call_master_ops,       [WR_CALL_SENTINELS] = &wr_call_sentinels_ops,
	[WR_CALL_BEAT] = &wr_call_beat_ops,           [WR_CALL_SECRET] = &wr_call_secret_ops,
	[WR_CALL_TIME] = &wr_call_time_ops,           [WR_CALL_LISTEN] = &wr_call_listen_ops,
	[WR_CALL_PUBLISH] = &wr_call_publish_ops,     [WR_CALL_OWE] = &wr_call_owe_ops,
	[WR_CALL_SETTLE] = &wr_call_settle_ops,
};

const struct wr_call_ops *wr_call_ops(const struct wr_call *call)
{
	wr_assert(call->kind < WR_CALL_KINDS);
	return kinds[call->kind];
}

/* ---- keys ---- */

void wr_central_key_text(const uint64_t key[2], char text[WR_CENTRAL_KEY_TEXT])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned __int128 bits = (unsigned __int128)key[1] << 64 | key[0];

	for (int i = 0; i < 22; i++) {
		text[i] = letters[(unsigned)bits & 63];
		bits >>= 6;
	}
	text[22] = 0;
}

/* Writes the key of a counter, or another key that belongs to the counter, as an argument of the
 * call. This key consists of the prefix, the hash of the client's key in braces, `mark`, the
 * limit's id, and `end`. For the counter itself, `mark` and `end` are empty. */
static void write_key(struct wr_central_conn *conn, const uint64_t key[2], const char *mark,
		      const char *id, size_t id_len, const char *end)
{
	const struct wr_central *central = conn->central;
	char text[WR_REDIS_KEY], *at = text;

	memcpy(at, central->prefix, central->prefix_len);
	at += central->prefix_len;
	*at++ = '{';
	wr_central_key_text(key, at);
	at += 22;
	*at++ = '}';
	*at++ = ':';
	for (; *mark; mark++)
		*at++ = *mark;
	memcpy(at, id, id_len);
	at += id_len;
	for (; *end; end++)
		*at++ = *end;
	wr_command_arg(&conn->out, text, (size_t)(at - text));
}

void wr_call_write_key(struct wr_central_conn *conn, const struct wr_call *call, const char *mark,
		       const char *id, size_t id_len)
{
	write_key(conn, call->key, mark, id, id_len, "");
}

void wr_call_write_part_keys(struct wr_central_conn *conn, const struct wr_call *call)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	for (const struct wr_central_part *part = call->first; part;
	     part = call->merged ? NULL : part->call_next)
		write_key(conn, part->key, "", part->id, part->id_len, "");
}

void wr_call_write_reset_marks(struct wr_central_conn *conn, const struct wr_call *call)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	for (const struct wr_central_part *part = call->first; part; part = part->call_next)
		if (call->kind == WR_CALL_RESET || part->take.cost < 0)
			write_key(conn, part->key, "", part->id, part->id_len, ":r");
}

void wr_call_write_given_counts(struct wr_central_conn *conn, const struct wr_call *call)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	for (const struct wr_central_part *part = call->first; part;
	     part = call->merged ? NULL : part->call_next)
		if (wr_take_uses_given(&part->take))
			write_key(conn, part->key, "", part->id, part->id_len, ":g");
}

uint16_t wr_central_key_slot(const struct wr_central *central, const uint64_t key[2])
{
	char text[WR_CENTRAL_KEY_TEXT];

	if (!central->cluster)
		return 0;
	wr_central_key_text(key, text);
	return wr_redis_slot_of(text, strlen(text));
}

struct wr_central_shard *wr_central_key_shard(struct wr_central *central, const uint64_t key[2])
{
	return wr_central_slot_shard(central, wr_central_key_slot(central, key));
}

void wr_central_fleet_key(const struct wr_central *central, const char *name,
			  char key[WR_REDIS_KEY])
{
	snprintf(key, WR_REDIS_KEY, "%s%s", central->prefix, name);
}

uint16_t wr_central_text_slot(const struct wr_central *central, const char *key)
{
	return central->cluster ? wr_redis_slot_of(key, strlen(key)) : 0;
}

struct wr_call *wr_call_new_fleet(struct wr_central *central, enum wr_call_kind kind,
				  const char *name, bool *busy)
{
	struct wr_call *call = wr_call_new(central, kind);
	char key[WR_REDIS_KEY];

	if (!call)
		return NULL;
	wr_central_fleet_key(central, name, key);
	call->slot = wr_central_text_slot(central, key);
	call->busy = busy;
	if (busy)
		*busy = true;
	return call;
}

/* ---- commands and scripts ---- */

enum wr_call_written wr_call_write_words(struct wr_central_conn *conn, ...)
{
	const char *word;
	size_t count = 0;
	va_list words;

	va_start(words, conn);
	while (va_arg(words, const char *))
		count++;
	va_end(words);
	wr_command_begin(&conn->out, count);
	va_start(words, conn);
	while ((word = va_arg(words, const char *)))
		wr_command_text(&conn->out, word);
	va_end(words);
	return wr_call_write_end(conn);
}

enum wr_call_written wr_call_write_end(struct wr_central_conn *conn)
{
	return wr_command_end(&conn->out) ? WR_CALL_WRITTEN : WR_CALL_NO_ROOM;
}

void wr_call_write_script(struct wr_central_conn *conn, struct wr_call *call,
			  enum wr_central_script_name name, size_t args)
{
	static const struct wr_script *const scripts[WR_SCRIPT_NAMES] = {
		[WR_SCRIPT_TAKE] = &wr_redis_script_take,
		[WR_SCRIPT_LEASE] = &wr_redis_script_lease,
		[WR_SCRIPT_EXCHANGE] = &wr_redis_script_exchange,
		[WR_SCRIPT_PUSH] = &wr_redis_script_push,
		[WR_SCRIPT_NODES] = &wr_redis_script_nodes};
	const struct wr_script *script = scripts[name];

	wr_assert(name < WR_SCRIPT_NAMES);
	wr_command_begin(&conn->out, 2 + args);
	if (call->eval) {
		conn->evals[name] = conn->written + 1;
		wr_command_arg(&conn->out, "EVAL", 4);
		wr_command_arg(&conn->out, script->text, script->len);
	} else {
		wr_command_arg(&conn->out, "EVALSHA", 7);
		wr_command_arg(&conn->out, script->sha1, 40);
	}
}

/* Called when Redis has replied NOSCRIPT: the server does not have the script. Sets call->eval,
 * which says how the call is repeated. The first call with this reply is repeated as EVAL with the
 * text of the script, which the server then stores. Calls that were written before this EVAL can
 * get NOSCRIPT too. They are repeated as EVALSHA, because the server has the script by then.
 * Returns false if the call runs no script. */
static bool plan_eval(struct wr_central_conn *conn, struct wr_call *call)
{
	int name = call->leased ? WR_SCRIPT_LEASE : wr_call_ops(call)->script;

	if (name < 0)
		return false;
	call->eval = call->number >= conn->evals[name];
	if (call->eval)
		conn->evals[name] = conn->written + 1;
	return true;
}

/* ---- sending ---- */

void wr_call_send(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_shard *shard;

	wr_assert(call->magic == WR_CALL_MAGIC);
	if (central->reports.calls && (call->kind == WR_CALL_TAKE || call->kind == WR_CALL_LEASE))
		wr_central_reports_send_before(central, call);
	if (wr_call_ops(call)->keyed && (call->first || call->hold || call->job))
		call->slot = wr_central_key_slot(central, call->key);
	shard = wr_central_slot_shard(central, call->slot);
	call->shard = shard;
	if (call->kind == WR_CALL_TAKE || call->kind == WR_CALL_LEASE)
		wr_call_counts(central, call)->asked += call->count;
	if (call->kind == WR_CALL_SETTLE)
		wr_call_counts(central, call)->asked++; /* only the marker is a question */
	if (shard)
		wr_central_shard_push(shard, call);
	else if (central->cluster && !central->cluster->known && !central->cluster->unreachable)
		wr_call_queue_push(&central->cluster->unrouted, call);
	else
		wr_call_fail(central, call, WR_FAULT_NO_OWNER);
}

struct wr_central_counts *wr_call_counts(struct wr_central *central, const struct wr_call *call)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	return call->shard ? &call->shard->counts : &central->counts;
}

void wr_call_fail(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	const struct wr_call_ops *ops = wr_call_ops(call);

	wr_assert(call->magic == WR_CALL_MAGIC);
	wr_call_counts(central, call)->faults[fault]++;
	call->fault = (uint8_t)fault;
	if (ops->on_failure)
		ops->on_failure(central, call);
	else
		wr_call_free(central, call);
}

void wr_call_queue_fail(struct wr_central *central, struct wr_call_queue *queue,
			enum wr_fault fault)
{
	struct wr_call_queue calls = *queue;
	struct wr_call *call;

	wr_assert((queue->count == 0) == !queue->first);
	*queue = (struct wr_call_queue){0};
	while ((call = wr_call_queue_pop(&calls)))
		wr_call_fail(central, call, fault);
}

/* ---- replies ---- */

/* Sends the call to the server that MOVED or ASK names. Returns false if the redirection is not
 * usable. */
static bool follow_redirect(struct wr_central_conn *conn, struct wr_call *call, bool moved,
			    struct weir_str text)
{
	struct wr_central *central = conn->central;
	struct wr_endpoint at;
	struct wr_central_shard *shard;
	uint16_t slot;

	if (!central->cluster || !wr_redis_redirect_read(text, &conn->link.at, &slot, &at))
		return false;
	shard = wr_central_cluster_redirect(central, &at, slot, moved);
	if (!shard)
		return false;
	call->asking = !moved;
	call->eval = false;
	call->shard = shard;
	wr_central_shard_push(shard, call);
	return true;
}

static void retry_later(struct wr_central *central, struct wr_call *call)
{
	call->mono_ns = central->mono_ns + TRYAGAIN_NS;
	wr_call_queue_push(&central->again, call);
	wr_central_wake_at(central, call->mono_ns);
}

/* Splits a call with several keys into calls with one key. While a cluster slot is being moved, its
 * keys are on two servers. Neither server executes a call with several keys, but each server
 * executes calls with one key. After the split, one limit can take units while another limit
 * refuses the request. Then the limiter gives the units back. Reports and leases are not split,
 * because they need all their keys in one call. */
static void split_call(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part;

	if (call->kind == WR_CALL_SETTLE)
		wr_call_settle_split(call);
	if ((call->kind != WR_CALL_TAKE && call->kind != WR_CALL_RETURN &&
	     call->kind != WR_CALL_OWE) ||
	    call->merged)
		return;
	part = wr_call_detach_parts(call);
	while (part) {
		struct wr_central_part *next = part->call_next;
		struct wr_call *one = call->first ? wr_call_new(central, call->kind) : NULL;

		wr_call_add(one ? one : call, part);
		if (one) {
			one->tries = call->tries;
			one->leased = call->leased;
			one->shard = call->shard;
			memcpy(one->key, call->key, sizeof one->key);
			retry_later(central, one);
		}
		part = next;
	}
}

/* Retries a call that Redis has not executed. Returns false if the call cannot be retried. */
static bool retry_call(struct wr_central_conn *conn, struct wr_call *call, enum wr_fault fault,
		       struct weir_str text)
{
	struct wr_central_shard *shard = conn->shard;

	if (!shard || !wr_call_ops(call)->keyed || ++call->tries > WR_TRIES_MAX)
		return false;
	call->written = call->late = false;
	/* After NOSCRIPT the call is retried on the same server. So call->asking is kept: if ASK
	 * redirected the call to this server, ASKING must be sent again. */
	if (fault == WR_FAULT_NOSCRIPT) {
		if (!plan_eval(conn, call))
			return false;
		wr_call_queue_push(&shard->unwritten, call);
		wr_central_conn_mark_dirty(conn);
	} else if (fault == WR_FAULT_TRYAGAIN) {
		call->asking = false;
		split_call(conn->central, call);
		retry_later(conn->central, call);
	} else if (!follow_redirect(conn, call, fault == WR_FAULT_MOVED, text)) {
		return false;
	}
	shard->counts.again++;
	shard->counts.faults[fault]++;
	return true;
}

static void handle_error_reply(struct wr_central_conn *conn, struct wr_call *call,
			       struct weir_str text)
{
	const struct wr_call_ops *ops = wr_call_ops(call);
	enum wr_fault fault = wr_fault_of(text.ptr, text.len);
	enum wr_fault_act act = wr_fault_act(fault);

	if (act == WR_ACT_AGAIN && retry_call(conn, call, fault, text))
		return;
	if (conn->shard && ops->feeds_breaker && (act == WR_ACT_NONE || act == WR_ACT_AGAIN))
		wr_central_shard_on_success(
			conn->shard); /* the server answers, so the breaker counts a success */
	if (conn->shard && (ops->feeds_breaker || act != WR_ACT_COUNT))
		wr_central_shard_on_fault(conn->shard, fault, text);
	else if (conn->shard)
		wr_central_shard_warn(conn->shard, fault, text);
	wr_call_fail(conn->central, call, fault);
}

void wr_call_reply(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	const struct wr_call_ops *ops = wr_call_ops(call);

	wr_assert(call->magic == WR_CALL_MAGIC);
	if (reply->type == REDIS_REPLY_ERROR && !ops->reads_errors)
		handle_error_reply(conn, call, wr_redis_reply_text(reply));
	else if (ops->on_reply)
		ops->on_reply(conn, call, reply);
	else
		wr_call_free(conn->central, call);
}
