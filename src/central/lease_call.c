/* Calls of the lease script. A call concerns one counter. It contains takes, or reports and renews
 * the lease that this loop holds of the counter, or does both. Called by ask.c, take.c, report.c
 * and lease_renew.c. */
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"
#include "store/lease.h"

#include <weir/host.h>

/* Returns the arguments of the call. All parts of a call ask for the same take: the same counter
 * and the same cost. So the arguments contain this take once and, if there are several parts, how
 * many. If the call has no parts, the arguments contain a take of cost 0. If the call
 * reports and renews a lease, the fields of the hold are added. */
static struct wr_redis_lease_call lease_args(const struct wr_central *central,
					     const struct wr_call *call)
{
	const struct wr_central_lease_hold *hold = call->hold;
	struct wr_redis_lease_call asked = {0};

	if (call->first)
		asked.take = call->first->take;
	if (call->merged)
		asked.take.times = call->count;
	if (!hold)
		return asked;
	if (!call->first)
		asked.take = hold->take;
	asked.holder = central->owner;
	asked.seq = hold->seq;
	asked.after = hold->after;
	asked.spent = hold->spent;
	asked.returned = hold->returned;
	asked.wanted = hold->wanted;
	asked.nodes = central->table ? weir_fleet_nodes(central->table, NULL) : 0;
	if (asked.nodes == 0)
		asked.nodes = central->fleet_size;
	return asked;
}

static bool write_lease_script(struct wr_central_conn *conn, struct wr_call *call,
			       const char *reporter, const struct wr_redis_lease_call *asked)
{
	const struct wr_central_part *part = call->first;
	const char *id = part ? part->id : call->hold->id;
	size_t id_len = part ? part->id_len : call->hold->id_len;
	bool back = call->kind == WR_CALL_RETURN;
	size_t keys = reporter || back ? 3 : 2;

	wr_call_write_script(conn, call, WR_SCRIPT_LEASE, 1 + keys + wr_script_lease_argc(asked));
	wr_command_number(&conn->out, (int64_t)keys);
	wr_call_write_key(conn, call, "", id, id_len);
	wr_call_write_key(conn, call, "l:", id, id_len);
	if (reporter)
		wr_command_text(&conn->out, reporter);
	if (back)
		wr_call_write_reset_marks(conn, call);
	wr_script_lease_args(asked, call->report_seq, &conn->out);
	return wr_command_end(&conn->out);
}

bool wr_central_lease_write(struct wr_central_conn *conn, struct wr_call *call,
			    const char *reporter, const struct wr_take *take)
{
	struct wr_redis_lease_call asked = {.take = *take};

	wr_assert_magic(call, WR_CALL_MAGIC);
	return write_lease_script(conn, call, reporter, &asked);
}

/* ---- takes and renewals ---- */

static enum wr_call_written write_lease(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_redis_lease_call asked;

	wr_call_drop_abandoned(conn->central, call);
	if (call->hold && !wr_central_lease_hold_prepare(conn->central, call->hold))
		call->hold = NULL;
	if (!call->first && !call->hold)
		return WR_CALL_UNWANTED;
	asked = lease_args(conn->central, call);
	if (!write_lease_script(conn, call, NULL, &asked))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	conn->shard->counts.merged += call->merged ? call->count - 1u : 0;
	return WR_CALL_WRITTEN;
}

/* Stores the refusal in the table, so that all processes of the node refuse for a short time
 * without asking Redis. Redis decided at an unknown time between the write of the call and now. The
 * short time begins at the write, so that it does not last too long. The wait times that clients
 * get begin now, so that they are not too short. */
static void publish_refusal(struct wr_central *central, const struct wr_call *call,
			    const struct wr_taken *taken)
{
	const struct wr_central_part *part = call->first;
	const struct wr_central_lease_hold *hold =
		wr_central_lease_hold_find(central->holds, part->key, part->id, part->id_len);
	uint64_t now_ns = central->mono_ns, wait_us = taken->retry_after_us;
	struct wr_store_lease_refusal refusal = {
		.cost = part->take.cost,
		.remaining = taken->remaining < taken->limit ? taken->remaining : taken->limit,
		.limit = taken->limit,
		.retry_mono_ns = wait_us > UINT64_MAX / 2000 ? UINT64_MAX : now_ns + wait_us * 1000,
		.resets_mono_ns = now_ns + taken->reset_after_us * 1000,
		.until_mono_ns = call->mono_ns + (wait_us < WR_LEASE_REFUSED_NS / 1000
							  ? wait_us * 1000
							  : WR_LEASE_REFUSED_NS),
		.identity = wr_store_lease_identity(part->take.limit, part->take.burst,
						    part->take.granted),
	};

	if (!hold || part->take.cost <= 0)
		return;
	wr_store_lease_refuse(central->table, hold->slot,
			      wr_central_lease_slot_owner(central, hold->tag), &refusal, now_ns);
}

static void read_lease(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_central_lease_hold *hold = call->hold;
	struct wr_redis_lease_call asked;
	struct wr_leased leased;

	if (!call->first && !hold) { /* the hold was dropped while its call was in flight */
		wr_central_shard_on_success(conn->shard);
		wr_call_free(central, call);
		return;
	}
	asked = lease_args(central, call);
	if (wr_script_lease_reply(reply, &asked, &leased) < 0) {
		wr_central_shard_on_fault(conn->shard, WR_FAULT_PROTOCOL, WR_STR(""));
		wr_call_fail(central, call, WR_FAULT_PROTOCOL);
		return;
	}
	call->hold = NULL;
	if (hold)
		wr_central_lease_hold_on_reply(central, hold, &leased);
	/* If the call has no takes, the time in the answer is not used to estimate the server's
	 * clock: the call can be a repetition, and its answer then contains an old time. */
	if (!call->first) {
		wr_central_shard_on_success(conn->shard);
		wr_call_free(central, call);
		return;
	}
	if (!leased.taken.outside_window && leased.taken.admitted_times < call->count)
		publish_refusal(central, call, &leased.taken);
	wr_call_takes_answered(conn, call, &leased.taken);
}

static void on_lease_failed(struct wr_central *central, struct wr_call *call)
{
	if (call->hold && !central->freeing)
		wr_central_lease_hold_on_failure(central, call->hold);
	call->hold = NULL;
	wr_call_takes_failed(central, call);
}

const struct wr_call_ops wr_call_lease_ops = {.write = write_lease,
					      .on_reply = read_lease,
					      .on_failure = on_lease_failed,
					      .keyed = true,
					      .feeds_breaker = true,
					      .script = WR_SCRIPT_LEASE};

struct wr_call *wr_central_lease_call_new(struct wr_central *central, struct wr_central_part *part)
{
	struct wr_call *call = wr_call_new(central, WR_CALL_LEASE);

	wr_assert(!part->call && part->leased);
	if (!call)
		return NULL;
	memcpy(call->key, part->key, sizeof call->key);
	wr_call_add(call, part);
	call->hold = wr_central_lease_hold_for(central, part);
	if (call->hold)
		call->hold->call = call;
	return call;
}

bool wr_central_lease_send(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	const struct wr_central_shard *shard = wr_central_key_shard(central, hold->key);
	struct wr_call *call;

	wr_assert_magic(hold, WR_LEASE_HOLD_MAGIC);
	wr_assert(!hold->call);
	if (!shard || !wr_central_shard_is_up(shard))
		return false;
	call = wr_call_new(central, WR_CALL_LEASE);
	if (!call)
		return false;
	memcpy(call->key, hold->key, sizeof call->key);
	call->slot = wr_central_key_slot(central, hold->key);
	call->hold = hold;
	hold->call = call;
	wr_call_send(central, call);
	return true;
}
