/* Writes takes, give-backs and debts as script calls, and passes the decisions in the replies to
 * the asks. Called through wr_call_send, and by lease_call.c for takes of counters whose units can
 * be leased. */
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

static uint64_t to_ns(uint64_t us)
{
	return us > WEIR_NEVER / 1000 ? WEIR_NEVER : us * 1000;
}

/* ---- answers ---- */

static struct wr_answer answer_of(const struct wr_taken *taken)
{
	struct wr_answer answer = {
		.limit = taken->limit,
		.remaining = taken->remaining < taken->limit ? taken->remaining : taken->limit,
		.debt = taken->debt,
		.reset_after_ns = to_ns(taken->reset_after_us),
		.decided_us = taken->decided_us,
		.given = taken->given,
	};

	if (taken->outside_window) {
		answer.flags = WR_ANSWER_FAILED;
	} else if (taken->admitted) {
		answer.flags = WR_ANSWER_ADMITTED | (taken->soft ? WR_ANSWER_SOFT : 0) |
			       (taken->taken ? 0 : WR_ANSWER_NOT_TAKEN) |
			       (taken->taken && taken->proven ? WR_ANSWER_PROVEN : 0);
		answer.delay_ns = to_ns(taken->delay_us);
	} else {
		answer.retry_after_ns = to_ns(taken->retry_after_us);
	}
	return answer;
}

static void count_answer(struct wr_central_counts *counts, const struct wr_answer *answer)
{
	if (answer->flags & WR_ANSWER_FAILED)
		counts->failed++;
	else if (answer->flags & WR_ANSWER_ADMITTED)
		counts->admitted++;
	else
		counts->refused++;
}

static void note_refusal(struct wr_central *central, const struct wr_call *call,
			 const struct wr_central_part *part, uint64_t last_ns)
{
	wr_refusals_note(central->refusals, part->key, part->identity, part->take.cost,
			 &part->answer, last_ns, call->mono_ns, central->mono_ns);
}

static bool is_slot(const struct wr_central_part *part)
{
	return part->take.algorithm == WEIR_CONCURRENT;
}

/* Stores the answers of a refused call in the cache of refusals, for the time that the longest
 * refusal lasts. Stores nothing if a part has cost 0, has failed, or has a limit that counts
 * rejected requests. A refusal by a concurrent limit is not stored: a slot can be given back at any
 * time, and its wait is only an estimate. */
static void remember_refusals(struct wr_central *central, const struct wr_call *call)
{
	uint64_t last_ns = 0;

	for (const struct wr_central_part *part = call->first; part; part = part->call_next) {
		if (part->take.cost == 0 || part->take.flags & WEIR_COUNT_REJECTED ||
		    part->answer.flags & WR_ANSWER_FAILED)
			return;
		if (!(part->answer.flags & WR_ANSWER_ADMITTED) && !is_slot(part) &&
		    part->answer.retry_after_ns > last_ns)
			last_ns = part->answer.retry_after_ns;
	}
	if (last_ns == 0)
		return;
	if (call->merged) {
		note_refusal(central, call, call->last, last_ns);
		return;
	}
	for (const struct wr_central_part *part = call->first; part; part = part->call_next)
		if (!is_slot(part))
			note_refusal(central, call, part, last_ns);
}

/* Called for a part whose ask has ended. If the ask was cancelled, granted units are given back. If
 * the ask timed out, on_store_failure has decided on the request, and late.c corrects the count. */
static void settle_orphan(struct wr_central *central, struct wr_central_shard *shard,
			  struct wr_central_part *part)
{
	part->call = NULL;
	if (!part->cancelled)
		shard->counts.late++;
	if (!wr_central_has_units(part))
		wr_central_part_free(central, part);
	else if (part->cancelled)
		wr_central_give_back(central, part);
	else
		wr_central_late_add(central, part);
}

static void hand_out_answers(struct wr_central *central, struct wr_central_shard *shard,
			     struct wr_call *call)
{
	while (call->first) {
		struct wr_central_part *part = call->first;

		call->first = part->call_next;
		count_answer(&shard->counts, &part->answer);
		if (part->ask)
			wr_central_part_answered(central, part);
		else
			settle_orphan(central, shard, part);
	}
	wr_call_free(central, call);
}

/* Returns the answer for the take at `position` in a merged call. The takes get units in the order
 * of their positions. */
static struct wr_answer merged_answer(const struct wr_answer *whole, const struct wr_taken *taken,
				      int64_t cost, uint32_t position)
{
	struct wr_answer answer = *whole;
	uint32_t behind;

	if (taken->outside_window)
		return answer;
	if (position >= taken->admitted_times) {
		answer.flags = 0;
		answer.retry_after_ns = to_ns(taken->retry_after_us);
		answer.decided_us = 0;
		return answer;
	}
	behind = taken->admitted_times - position - 1;
	answer.flags = WR_ANSWER_ADMITTED | (whole->flags & WR_ANSWER_PROVEN);
	answer.retry_after_ns = 0;
	if (behind * (uint64_t)cost < answer.limit - answer.remaining)
		answer.remaining += behind * (uint32_t)cost;
	else
		answer.remaining = answer.limit;
	return answer;
}

/* Sorts the parts in the order in which they get units: first the parts whose ask still waits, then
 * those whose ask was cancelled, then those whose ask timed out. */
static void sort_merged(struct wr_call *call)
{
	struct wr_central_part *all = wr_call_detach_parts(call), *next;

	for (int rank = 0; rank < 3; rank++)
		for (struct wr_central_part *part = all, **from = &all; part; part = next) {
			next = part->call_next;
			if (rank != (part->ask ? 0 : part->cancelled ? 1 : 2)) {
				from = &part->call_next;
				continue;
			}
			*from = next;
			wr_call_add(call, part);
		}
}

static void answer_merged(struct wr_call *call, const struct wr_taken *taken)
{
	struct wr_answer whole = answer_of(taken);
	uint32_t position = 0;

	sort_merged(call);
	for (struct wr_central_part *part = call->first; part; part = part->call_next)
		part->answer = merged_answer(&whole, taken, part->take.cost, position++);
}

/* ---- writing and reading ---- */

void wr_call_drop_abandoned(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = wr_call_detach_parts(call);

	wr_assert_magic(call, WR_CALL_MAGIC);
	while (part) {
		struct wr_central_part *next = part->call_next;

		if (part->ask)
			wr_call_add(call, part);
		else
			wr_central_part_free(central, part);
		part = next;
	}
}

/* Copies the takes of the call into an array for the script's arguments. Returns the number of
 * takes. */
static size_t copy_takes(const struct wr_call *call, struct wr_take takes[WR_TAKES_MAX])
{
	size_t count = 0;

	if (call->merged) {
		takes[0] = call->first->take;
		takes[0].times = call->count;
		return 1;
	}
	for (const struct wr_central_part *part = call->first; part; part = part->call_next)
		takes[count++] = part->take;
	return count;
}

bool wr_call_write_takes(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_take takes[WR_TAKES_MAX];
	size_t count = copy_takes(call, takes), keys = count;

	wr_assert_magic(call, WR_CALL_MAGIC);
	for (size_t i = 0; i < count; i++)
		keys += (takes[i].cost < 0) + wr_take_uses_given(&takes[i]);
	wr_call_write_script(conn, call, WR_SCRIPT_TAKE, 1 + keys + wr_script_argc(takes, count));
	wr_command_number(&conn->out, (int64_t)keys);
	wr_call_write_part_keys(conn, call);
	wr_call_write_reset_marks(conn, call);
	wr_call_write_given_counts(conn, call);
	wr_script_args(takes, count, 0, &conn->out);
	return wr_command_end(&conn->out);
}

static enum wr_call_written write_take_call(struct wr_central_conn *conn, struct wr_call *call)
{
	wr_call_drop_abandoned(conn->central, call);
	if (!call->first)
		return WR_CALL_UNWANTED;
	if (!wr_call_write_takes(conn, call))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	conn->shard->counts.merged += call->merged ? call->count - 1u : 0;
	return WR_CALL_WRITTEN;
}

void wr_call_takes_answered(struct wr_central_conn *conn, struct wr_call *call,
			    const struct wr_taken *taken)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	wr_assert(conn->shard);
	wr_central_shard_on_success(conn->shard);
	wr_central_shard_note_clock(conn->shard, call, taken->now_us);
	for (struct wr_central_part *part = call->first; part; part = part->call_next)
		part->taken_us = taken->now_us;
	if (call->merged)
		answer_merged(call, taken);
	else
		for (struct wr_central_part *part = call->first; part; part = part->call_next)
			part->answer = answer_of(taken++);
	if (call->first && call->first->answer.flags & WR_ANSWER_FAILED)
		conn->shard->counts.faults[WR_FAULT_WINDOW]++;
	remember_refusals(conn->central, call);
	hand_out_answers(conn->central, conn->shard, call);
}

bool wr_call_read_takes(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply,
			struct wr_taken taken[WR_TAKES_MAX])
{
	struct wr_take takes[WR_TAKES_MAX];

	wr_assert_magic(call, WR_CALL_MAGIC);
	if (wr_script_reply(reply, takes, copy_takes(call, takes), taken) == 0)
		return true;
	wr_central_shard_on_fault(conn->shard, WR_FAULT_PROTOCOL, WR_STR(""));
	wr_call_fail(conn->central, call, WR_FAULT_PROTOCOL);
	return false;
}

static void read_takes(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_taken taken[WR_TAKES_MAX];

	if (wr_call_read_takes(conn, call, reply, taken))
		wr_call_takes_answered(conn, call, taken);
}

void wr_call_takes_failed(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_counts *counts = wr_call_counts(central, call);

	wr_assert_magic(call, WR_CALL_MAGIC);
	while (call->first) {
		struct wr_central_part *part = call->first;

		call->first = part->call_next;
		part->answer = (struct wr_answer){.flags = WR_ANSWER_FAILED};
		if (part->ask)
			counts->failed++;
		wr_central_part_answered(central, part);
	}
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_take_ops = {.write = write_take_call,
					     .on_reply = read_takes,
					     .on_failure = wr_call_takes_failed,
					     .keyed = true,
					     .feeds_breaker = true,
					     .script = WR_SCRIPT_TAKE};

/* ---- give-backs and debts ---- */

static enum wr_call_written write_settlement(struct wr_central_conn *conn, struct wr_call *call)
{
	if (call->leased ? !wr_central_lease_write(conn, call, NULL, &call->first->take)
			 : !wr_call_write_takes(conn, call))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	return WR_CALL_WRITTEN;
}

static void read_return(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	(void)reply;
	wr_central_shard_on_success(conn->shard);
	conn->shard->counts.returned += call->count;
	wr_call_free(conn->central, call);
}

/* Called for a part of a give-back that failed. The slot of a concurrent limit is freed later,
 * because freeing it twice is harmless. Other units are lost: Redis may have executed the call, and
 * a second give-back would free units of other requests. */
static void lose_return(struct wr_central *central, struct wr_call *call,
			struct wr_central_part *part)
{
	bool refused = call->fault == WR_FAULT_OTHER || call->fault == WR_FAULT_WRONGTYPE;

	if (is_slot(part) && !refused && !central->freeing && part->take.decided_us) {
		part->call = NULL;
		part->take.cost = -part->take.cost;
		part->answer.decided_us = part->taken_us = part->take.decided_us;
		if (wr_central_late_keep(central, part))
			return;
	}
	wr_call_counts(central, call)->returns_lost++;
	wr_central_part_free(central, part);
}

static void on_return_failed(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = wr_call_detach_parts(call);

	while (part) {
		struct wr_central_part *next = part->call_next;

		lose_return(central, call, part);
		part = next;
	}
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_return_ops = {.write = write_settlement,
					       .on_reply = read_return,
					       .on_failure = on_return_failed,
					       .keyed = true,
					       .feeds_breaker = true,
					       .script = WR_SCRIPT_TAKE};

/* A debt is sent only once, as a give-back is. If the call fails after it was written, Redis may
 * have charged the debt, and a second call would charge it twice. */
static void read_owe(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	(void)reply;
	wr_central_shard_on_success(conn->shard);
	conn->shard->counts.owed += call->count;
	wr_call_free(conn->central, call);
}

static void on_owe_failed(struct wr_central *central, struct wr_call *call)
{
	wr_call_counts(central, call)->owed_lost += call->count;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_owe_ops = {.write = write_settlement,
					    .on_reply = read_owe,
					    .on_failure = on_owe_failed,
					    .keyed = true,
					    .feeds_breaker = true,
					    .script = WR_SCRIPT_TAKE};

void wr_central_give_back(struct wr_central *central, struct wr_central_part *part)
{
	struct wr_call *call = wr_call_new(central, WR_CALL_RETURN);

	wr_assert(!part->ask);
	if (!call) {
		central->counts.returns_lost++;
		wr_central_part_free(central, part);
		return;
	}
	call->leased = part->leased;
	part->take.cost = -part->take.cost;
	part->take.decided_us = part->answer.decided_us;
	part->take.delay_us = part->answer.delay_ns / 1000;
	memcpy(call->key, part->key, sizeof call->key);
	wr_call_add(call, part);
	wr_call_send(central, call);
}
