/* Settles reservations: one call takes the marker of a reservation, gives units back and charges
 * units. Called by ask.c with a question of kind SETTLE.
 *
 * The call contains the marker, and all parts whose counters can be in the same script call: without
 * a cluster all counters, in a cluster those of the marker's slot. The marker and these parts are
 * executed together, or not at all. The other parts are sent in calls of their own when Redis has
 * replied that the marker was taken. These are the parts of other slots, and of counters whose units
 * can be leased.
 *
 * Redis does not undo a settlement. So if the ask has ended when the reply comes, the reply only
 * decides whether the other parts are sent. */
#include "central/inner.h"

#include "base/assert.h"

static void add_later(struct wr_call *call, struct wr_central_part *part)
{
	part->call = NULL;
	part->call_next = call->later;
	call->later = part;
}

static void join_or_wait(struct wr_central *central, struct wr_call *call,
			 struct wr_central_part *part)
{
	part->next = NULL;
	part->ask = NULL;
	if (!part->leased && call->count < WR_TAKES_MAX &&
	    wr_central_key_slot(central, part->key) == wr_central_key_slot(central, call->key))
		wr_call_add(call, part);
	else
		add_later(call, part);
}

static void fail_ask(struct wr_central *central, struct wr_central_ask *ask)
{
	struct wr_central_part *marker = ask->parts, *part = marker->next;

	central->counts.faults[WR_FAULT_FULL]++;
	marker->answer = (struct wr_answer){.flags = WR_ANSWER_FAILED};
	marker->next = NULL;
	ask->open--;
	while (part) {
		struct wr_central_part *next = part->next;

		wr_central_part_free(central, part);
		part = next;
	}
}

void wr_central_settle_send(struct wr_central *central, struct wr_central_ask *ask)
{
	struct wr_call *call = wr_call_new(central, WR_CALL_SETTLE);
	struct wr_central_part *marker = ask->parts, *part = marker->next;

	if (!call) {
		fail_ask(central, ask);
		return;
	}
	memcpy(call->key, marker->key, sizeof call->key);
	marker->next = NULL;
	wr_call_add(call, marker);
	while (part) {
		struct wr_central_part *next = part->next;

		join_or_wait(central, call, part);
		part = next;
	}
	wr_call_send(central, call);
}

void wr_call_settle_split(struct wr_call *call)
{
	struct wr_central_part *marker = wr_call_detach_parts(call), *part;

	wr_assert_magic(call, WR_CALL_MAGIC);
	part = marker->call_next;
	wr_call_add(call, marker);
	while (part) {
		struct wr_central_part *next = part->call_next;

		add_later(call, part);
		part = next;
	}
}

/* A settlement whose ask has ended before it was written is not sent: the client was told to try
 * again. */
static enum wr_call_written write_settlement(struct wr_central_conn *conn, struct wr_call *call)
{
	if (!call->first->ask)
		return WR_CALL_UNWANTED;
	if (!wr_call_write_takes(conn, call))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	return WR_CALL_WRITTEN;
}

/* Removes all parts except the marker from the call, and counts those that were executed. */
static void end_parts(struct wr_central *central, struct wr_call *call,
		      struct wr_central_counts *counts, bool executed)
{
	struct wr_central_part *marker = wr_call_detach_parts(call), *part = marker->call_next;

	wr_call_add(call, marker);
	while (part) {
		struct wr_central_part *next = part->call_next;

		if (executed && part->take.cost < 0)
			counts->returned++;
		else if (executed)
			counts->owed++;
		wr_central_part_free(central, part);
		part = next;
	}
}

static void read_settlement(struct wr_central_conn *conn, struct wr_call *call,
			    const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_taken taken[WR_TAKES_MAX];
	struct wr_central_part *later;

	if (!wr_call_read_takes(conn, call, reply, taken))
		return;
	end_parts(central, call, &conn->shard->counts, taken[0].taken);
	if (taken[0].taken) {
		later = call->later;
		call->later = NULL;
		wr_central_send_settled(central, later);
	}
	/* A marker without a cost is not given back if its ask has ended, and its refusal is not
	 * remembered. */
	call->first->take.cost = 0;
	wr_call_takes_answered(conn, call, taken);
}

/* If the call was written, Redis may have taken the marker. The parts that were to follow are then
 * lost. The parts of the call itself are not counted: Redis has executed all of them, or the
 * reservation can still be settled. */
static void on_settlement_failed(struct wr_central *central, struct wr_call *call)
{
	const struct wr_central_part *part = call->written ? call->later : NULL;

	for (; part; part = part->call_next)
		wr_central_count_lost_part(wr_call_counts(central, call), part);
	end_parts(central, call, NULL, false);
	wr_call_takes_failed(central, call);
}

const struct wr_call_ops wr_call_settle_ops = {.write = write_settlement,
					       .on_reply = read_settlement,
					       .on_failure = on_settlement_failed,
					       .keyed = true,
					       .feeds_breaker = true,
					       .script = WR_SCRIPT_TAKE};
