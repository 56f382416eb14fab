/* What all calls have in common: whom they go to, what an error reply means for them, and when they
 * are tried again. */
#include <stdio.h>
#include <string.h>

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
	[WR_CALL_PUBLISH] = &wr_call_publish_ops,
};

const struct wr_call_ops *wr_call_ops(const struct wr_call *call)
{
	return kinds[call->kind];
}

/* ---- keys ---- */

/* The 128 bits of a key's hash, six to a letter. */
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

size_t wr_central_counter_key(const struct wr_central *central, const uint64_t key[2],
			      const char *mark, struct weir_str id, char text[WR_REDIS_KEY])
{
	char *at = text;

	memcpy(at, central->prefix, central->prefix_len);
	at += central->prefix_len;
	*at++ = '{';
	wr_central_key_text(key, at);
	at += 22;
	*at++ = '}';
	*at++ = ':';
	for (; *mark; mark++)
		*at++ = *mark;
	memcpy(at, id.ptr, id.len);
	return (size_t)(at - text) + id.len;
}

size_t wr_central_part_key(const struct wr_central *central, const struct wr_call *call,
			   const struct wr_central_part *part, char key[WR_REDIS_KEY])
{
	return wr_central_counter_key(central, call->key, "",
				      (struct weir_str){part->id, part->id_len}, key);
}

uint16_t wr_central_key_slot(const struct wr_central *central, const uint64_t key[2])
{
	char text[WR_CENTRAL_KEY_TEXT];

	if (!central->cluster)
		return 0;
	wr_central_key_text(key, text);
	return wr_slot_of(text, strlen(text));
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
	return central->cluster ? wr_slot_of(key, strlen(key)) : 0;
}

/* ---- scripts ---- */

static const struct wr_script *script_of(enum wr_script_name name)
{
	static const struct wr_script *const scripts[WR_SCRIPT_NAMES] = {
		[WR_SCRIPT_TAKE] = &wr_script_take,
		[WR_SCRIPT_LEASE] = &wr_script_lease,
		[WR_SCRIPT_EXCHANGE] = &wr_script_exchange,
		[WR_SCRIPT_PUSH] = &wr_script_push,
		[WR_SCRIPT_NODES] = &wr_script_nodes};

	return scripts[name];
}

void wr_call_write_script(struct wr_central_conn *conn, struct wr_call *call,
			  enum wr_script_name name, size_t args)
{
	const struct wr_script *script = script_of(name);

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

/* The first call that learns of the missing script brings it along; those that were written before
 * that one need not. */
static bool plan_script(struct wr_central_conn *conn, struct wr_call *call)
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

	if (central->reports.calls && (call->kind == WR_CALL_TAKE || call->kind == WR_CALL_LEASE))
		wr_central_reports_send_before(central, call);
	if (wr_call_ops(call)->keyed && (call->first || call->hold || call->of))
		call->slot = wr_central_key_slot(central, call->key);
	shard = wr_central_slot_shard(central, call->slot);
	call->shard = shard;
	if (call->kind == WR_CALL_TAKE || call->kind == WR_CALL_LEASE)
		(shard ? &shard->counts : &central->counts)->asked += call->count;
	if (shard)
		wr_central_shard_push(shard, call);
	else if (central->cluster && !central->cluster->known && !central->cluster->unreachable)
		wr_call_queue_push(&central->cluster->unrouted, call);
	else
		wr_call_fail(central, call, WR_FAULT_NO_OWNER);
}

void wr_call_fail(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	struct wr_central_counts *counts = call->shard ? &call->shard->counts : &central->counts;

	counts->faults[fault]++;
	wr_call_ops(call)->on_failure(central, call, fault);
}

/* ---- replies ---- */

/* Follows a redirection. False: it leads nowhere. */
static bool follow(struct wr_central_conn *conn, struct wr_call *call, bool moved,
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

static void wait_a_moment(struct wr_central *central, struct wr_call *call)
{
	call->mono_ns = central->mono_ns + TRYAGAIN_NS;
	wr_call_queue_push(&central->again, call);
	wr_central_wake_at(central, call->mono_ns);
}

/* Keys of a slot that is being moved are here and there until all are, and no node carries out a
 * call for several of them. For one it does. So each limit is asked for by itself: the limiter
 * gives back what one took if another refuses, as it does for limits of different keys. Reports and
 * leases need their keys together and wait. */
static void ask_singly(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = call->first;

	if ((call->kind != WR_CALL_TAKE && call->kind != WR_CALL_RETURN) || call->merged)
		return;
	call->first = call->last = NULL;
	call->count = 0;
	while (part) {
		struct wr_central_part *mate = part->mate;
		struct wr_call *one = call->first ? wr_call_new(central, call->kind) : NULL;

		wr_call_add(one ? one : call, part);
		if (one) {
			one->tries = call->tries;
			one->leased = call->leased;
			one->shard = call->shard;
			memcpy(one->key, call->key, sizeof one->key);
			wait_a_moment(central, one);
		}
		part = mate;
	}
}

/* Redis has not done it, so it may be asked again. False: not this one. */
static bool try_again(struct wr_central_conn *conn, struct wr_call *call, enum wr_fault fault,
		      struct weir_str text)
{
	struct wr_central_shard *shard = conn->shard;

	if (!shard || !wr_call_ops(call)->keyed || ++call->tries > WR_TRIES_MAX)
		return false;
	call->written = call->late = false;
	if (fault == WR_FAULT_NOSCRIPT) { /* the same server, which wants its ASKING again */
		if (!plan_script(conn, call))
			return false;
		wr_call_queue_push(&shard->turn, call);
		wr_central_conn_mark_dirty(conn);
	} else if (fault == WR_FAULT_TRYAGAIN) {
		call->asking = false;
		ask_singly(conn->central, call);
		wait_a_moment(conn->central, call);
	} else if (!follow(conn, call, fault == WR_FAULT_MOVED, text)) {
		return false;
	}
	shard->counts.again++;
	shard->counts.faults[fault]++;
	return true;
}

static void heard_error(struct wr_central_conn *conn, struct wr_call *call, struct weir_str text)
{
	const struct wr_call_ops *ops = wr_call_ops(call);
	enum wr_fault fault = wr_fault_of(text.ptr, text.len);
	enum wr_fault_act act = wr_fault_act(fault);

	if (act == WR_ACT_AGAIN && try_again(conn, call, fault, text))
		return;
	if (conn->shard && ops->feeds_breaker && (act == WR_ACT_NONE || act == WR_ACT_AGAIN))
		wr_central_shard_on_success(
			conn->shard); /* it answers; the trouble is this call's own */
	if (conn->shard && (ops->feeds_breaker || act != WR_ACT_COUNT))
		wr_central_shard_on_fault(conn->shard, fault, text);
	else if (conn->shard)
		wr_central_shard_warn(conn->shard, fault, text);
	wr_call_fail(conn->central, call, fault);
}

void wr_call_reply(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	const struct wr_call_ops *ops = wr_call_ops(call);

	if (reply->type == REDIS_REPLY_ERROR && !ops->reads_errors) {
		heard_error(conn, call, wr_redis_reply_text(reply));
		return;
	}
	ops->on_reply(conn, call, reply);
}
