/* Calls of the lease script: what is asked of a counter that units are borrowed from. Each is about
 * one counter, and may speak for the hold that this loop has of it. */
#include <string.h>

#include "base/str.h"
#include "central/inner.h"
#include "store/lease.h"

#include <weir/host.h>

static uint32_t nodes_of(const struct wr_central *central)
{
	uint32_t nodes = central->table ? weir_fleet_nodes(central->table, NULL) : 0;

	return nodes ? nodes : central->fleet_size;
}

/* What the call asks for: of its parts, or of the hold's counter nothing. */
static struct wr_lease_call asked_by(const struct wr_central *central, const struct wr_call *call)
{
	const struct wr_hold *hold = call->hold;
	struct wr_lease_call asked = {0};

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
	asked.nodes = nodes_of(central);
	return asked;
}

static bool put_script(struct wr_line *line, struct wr_call *call, const char *reporter,
		       const struct wr_lease_call *asked)
{
	const struct wr_central_part *part = call->first;
	struct weir_str id = part ? (struct weir_str){part->id, part->id_len}
				  : (struct weir_str){call->hold->id, call->hold->id_len};
	bool back = call->kind == WR_CALL_RETURN;
	size_t keys = reporter || back ? 3 : 2;
	char key[WR_REDIS_KEY];

	wr_put_script(line, call, WR_SCRIPT_LEASE, 1 + keys + wr_script_lease_argc(asked));
	wr_command_number(&line->out, (int64_t)keys);
	wr_command_arg(&line->out, key, wr_counter_name(line->central, call->key, "", id, key));
	wr_command_arg(&line->out, key, wr_counter_name(line->central, call->key, "l:", id, key));
	if (reporter)
		wr_command_text(&line->out, reporter);
	if (back)
		wr_put_reset_marks(line, call);
	wr_script_lease_args(asked, call->report_seq, &line->out);
	return wr_command_end(&line->out);
}

bool wr_lease_put(struct wr_line *line, struct wr_call *call, const char *reporter,
		  const struct wr_take *take)
{
	struct wr_lease_call asked = {.take = *take};

	return put_script(line, call, reporter, &asked);
}

/* ---- takes and renewals ---- */

static enum wr_put put(struct wr_line *line, struct wr_call *call)
{
	struct wr_lease_call asked;

	wr_takes_drop_gone(line->central, call);
	if (call->hold && !wr_hold_say(line->central, call->hold))
		call->hold = NULL;
	if (!call->first && !call->hold)
		return WR_PUT_NOTHING;
	asked = asked_by(line->central, call);
	if (!put_script(line, call, NULL, &asked))
		return WR_PUT_NO_ROOM;
	line->shard->counts.calls++;
	line->shard->counts.merged += call->merged ? call->count - 1u : 0;
	return WR_PUT;
}

/* So that all processes of the node refuse by themselves, for a moment: from when the call was
 * written, since Redis may have decided then. Waits are told from now, so waiting that long
 * suffices. */
static void refuse(struct wr_central *central, const struct wr_call *call,
		   const struct wr_taken *taken)
{
	const struct wr_central_part *part = call->first;
	const struct wr_hold *hold =
		wr_hold_find(central->holds, part->key, part->id, part->id_len);
	uint64_t now_ns = central->mono_ns, wait_us = taken->retry_after_us;
	struct wr_lease_refusal refusal = {
		.cost = part->take.cost,
		.remaining = taken->remaining < taken->limit ? taken->remaining : taken->limit,
		.limit = taken->limit,
		.retry_mono_ns = wait_us > UINT64_MAX / 2000 ? UINT64_MAX : now_ns + wait_us * 1000,
		.resets_mono_ns = now_ns + taken->reset_after_us * 1000,
		.until_mono_ns = call->mono_ns + (wait_us < WR_LEASE_REFUSED_NS / 1000
							  ? wait_us * 1000
							  : WR_LEASE_REFUSED_NS),
		.identity =
			wr_lease_identity(part->take.limit, part->take.burst, part->take.granted),
	};

	if (!hold || part->take.cost <= 0)
		return;
	wr_lease_refuse(central->table, hold->slot, wr_hold_owner(central, hold), &refusal, now_ns);
}

static void heard(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = line->central;
	struct wr_hold *hold = call->hold;
	struct wr_lease_call asked;
	struct wr_leased leased;

	if (!call->first && !hold) { /* it has been dropped meanwhile */
		wr_shard_passed(line->shard);
		wr_call_free(central, call);
		return;
	}
	asked = asked_by(central, call);
	if (wr_script_lease_reply(reply, &asked, &leased) < 0) {
		wr_shard_fault(line->shard, WR_FAULT_PROTOCOL, WR_STR(""));
		wr_call_fail(central, call, WR_FAULT_PROTOCOL);
		return;
	}
	call->hold = NULL;
	if (hold)
		wr_hold_heard(central, hold, &leased);
	if (!call->first) { /* its time may be that of an answer that comes again */
		wr_shard_passed(line->shard);
		wr_call_free(central, call);
		return;
	}
	if (!leased.taken.astray && leased.taken.admitted_times < call->count)
		refuse(central, call, &leased.taken);
	wr_takes_heard(line, call, &leased.taken);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	if (call->hold && !central->freeing)
		wr_hold_failed(central, call->hold);
	call->hold = NULL;
	wr_takes_failed(central, call, fault);
}

const struct wr_call_ops wr_lease_ops = {.put = put,
					 .heard = heard,
					 .failed = failed,
					 .keyed = true,
					 .counts = true,
					 .script = WR_SCRIPT_LEASE};

struct wr_call *wr_lease_call_for(struct wr_central *central, struct wr_central_part *part)
{
	struct wr_call *call = wr_call_new(central, WR_CALL_LEASE);

	if (!call)
		return NULL;
	memcpy(call->key, part->key, sizeof call->key);
	wr_call_add(call, part);
	call->hold = wr_hold_for(central, part);
	if (call->hold)
		call->hold->out = call;
	return call;
}

bool wr_lease_send(struct wr_central *central, struct wr_hold *hold)
{
	const struct wr_shard *shard = wr_key_shard(central, hold->key);
	struct wr_call *call;

	if (!shard || !wr_shard_is_up(shard))
		return false;
	call = wr_call_new(central, WR_CALL_LEASE);
	if (!call)
		return false;
	memcpy(call->key, hold->key, sizeof call->key);
	call->slot = wr_key_slot(central, hold->key);
	call->hold = hold;
	hold->out = call;
	wr_call_send(central, call);
	return true;
}
