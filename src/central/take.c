/* Takes and give-backs as script calls, and what their replies mean for each limit. */
#include <string.h>

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
		.reset_after_ns = to_ns(taken->reset_after_us),
		.decided_us = taken->decided_us,
	};

	if (taken->outside_window) {
		answer.flags = WR_ANSWER_FAILED;
	} else if (taken->admitted) {
		answer.flags = WR_ANSWER_ADMITTED | (taken->soft ? WR_ANSWER_SOFT : 0) |
			       (taken->taken ? 0 : WR_ANSWER_NOT_TAKEN);
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

static bool is_refusal(const struct wr_answer *answer)
{
	return !(answer->flags & (WR_ANSWER_ADMITTED | WR_ANSWER_FAILED));
}

static void note(struct wr_central *central, const struct wr_call *call,
		 const struct wr_central_part *part, uint64_t last_ns)
{
	wr_refusals_note(central->refusals, part->key, part->identity, part->take.cost,
			 &part->answer, last_ns, call->mono_ns, central->mono_ns);
}

/* Remembers a call that was refused: what each of its limits said, for as long as the longest
 * refusal lasts. Looks are not remembered, nor is what has to be counted there. */
static void remember(struct wr_central *central, const struct wr_call *call)
{
	uint64_t last_ns = 0;

	for (const struct wr_central_part *part = call->first; part; part = part->mate) {
		if (part->take.cost == 0 || part->take.flags & WEIR_COUNT_REJECTED ||
		    part->answer.flags & WR_ANSWER_FAILED)
			return;
		if (is_refusal(&part->answer) && part->answer.retry_after_ns > last_ns)
			last_ns = part->answer.retry_after_ns;
	}
	if (last_ns == 0)
		return;
	if (call->merged) {
		note(central, call, call->last, last_ns);
		return;
	}
	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		note(central, call, part, last_ns);
}

static bool has_something(const struct wr_answer *answer)
{
	return (answer->flags & (WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN | WR_ANSWER_FAILED)) ==
	       WR_ANSWER_ADMITTED;
}

/* Nobody waits for the part any more: what was granted goes back if the asker had left. If the
 * asker gave up, it is held against what the asker did instead. */
static void settle_orphan(struct wr_central *central, struct wr_central_shard *shard,
			  struct wr_central_part *part)
{
	part->call = NULL;
	if (!part->left)
		shard->counts.late++;
	if (!has_something(&part->answer) || part->take.cost <= 0)
		wr_central_part_free(central, part);
	else if (part->left)
		wr_central_give_back(central, part);
	else
		wr_central_late_add(central, part);
}

static void hand_out(struct wr_central *central, struct wr_central_shard *shard,
		     struct wr_call *call)
{
	while (call->first) {
		struct wr_central_part *part = call->first;

		call->first = part->mate;
		count_answer(&shard->counts, &part->answer);
		if (part->ask)
			wr_central_part_answered(central, part);
		else
			settle_orphan(central, shard, part);
	}
	wr_call_free(central, call);
}

/* What one of several takes in a call was told: those before it have taken theirs, those behind it
 * had not yet. */
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
	answer.flags = WR_ANSWER_ADMITTED;
	answer.retry_after_ns = 0;
	if (behind * (uint64_t)cost < answer.limit - answer.remaining)
		answer.remaining += behind * (uint32_t)cost;
	else
		answer.remaining = answer.limit;
	return answer;
}

/* Parts in the order in which they are served: those somebody waits for, those who left, and those
 * who waited too long. */
static void sort_merged(struct wr_call *call)
{
	struct wr_central_part *part = call->first;
	struct wr_call ranks[3] = {{0}, {0}, {0}};

	while (part) {
		struct wr_central_part *mate = part->mate;

		wr_call_add(&ranks[part->ask ? 0 : part->left ? 1 : 2], part);
		part->call = call;
		part = mate;
	}
	call->first = call->last = NULL;
	for (int i = 0; i < 3; i++) {
		if (!ranks[i].first)
			continue;
		if (call->last)
			call->last->mate = ranks[i].first;
		else
			call->first = ranks[i].first;
		call->last = ranks[i].last;
	}
}

static void answer_merged(struct wr_call *call, const struct wr_taken *taken)
{
	struct wr_answer whole = answer_of(taken);
	uint32_t position = 0;

	sort_merged(call);
	for (struct wr_central_part *part = call->first; part; part = part->mate)
		part->answer = merged_answer(&whole, taken, part->take.cost, position++);
}

/* ---- the call ---- */

/* Those who have gone before it was written take nothing. */
void wr_call_drop_abandoned(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_part *part = call->first;

	call->first = call->last = NULL;
	call->count = 0;
	while (part) {
		struct wr_central_part *mate = part->mate;

		if (part->ask)
			wr_call_add(call, part);
		else
			wr_central_part_free(central, part);
		part = mate;
	}
}

/* As an array, which the script's arguments are made from. */
static size_t gather(const struct wr_call *call, struct wr_take takes[WR_TAKES_MAX])
{
	size_t count = 0;

	if (call->merged) {
		takes[0] = call->first->take;
		takes[0].times = call->count;
		return 1;
	}
	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		takes[count++] = part->take;
	return count;
}

static bool put_take(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_take takes[WR_TAKES_MAX];
	const struct wr_central_part *part = call->first;
	char key[WR_REDIS_KEY];
	size_t count = gather(call, takes);
	bool back = call->kind == WR_CALL_RETURN;

	wr_call_write_script(conn, call, WR_SCRIPT_TAKE,
			     1 + count + (back ? count : 0) + wr_script_argc(takes, count));
	wr_command_number(&conn->out, (int64_t)(count + (back ? count : 0)));
	for (size_t i = 0; i < count; i++, part = part->mate)
		wr_command_arg(&conn->out, key,
			       wr_central_part_key(conn->central, call, part, key));
	if (back)
		wr_call_write_reset_marks(conn, call);
	wr_script_args(takes, count, 0, &conn->out);
	return wr_command_end(&conn->out);
}

static enum wr_call_written put_wanted(struct wr_central_conn *conn, struct wr_call *call)
{
	wr_call_drop_abandoned(conn->central, call);
	if (!call->first)
		return WR_CALL_UNWANTED;
	if (!put_take(conn, call))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	conn->shard->counts.merged += call->merged ? call->count - 1u : 0;
	return WR_CALL_WRITTEN;
}

void wr_call_takes_answered(struct wr_central_conn *conn, struct wr_call *call,
			    const struct wr_taken *taken)
{
	wr_central_shard_on_success(conn->shard);
	wr_central_shard_note_clock(conn->shard, call, taken->now_us);
	for (struct wr_central_part *part = call->first; part; part = part->mate)
		part->taken_us = taken->now_us;
	if (call->merged)
		answer_merged(call, taken);
	else
		for (struct wr_central_part *part = call->first; part; part = part->mate)
			part->answer = answer_of(taken++);
	if (call->first && call->first->answer.flags & WR_ANSWER_FAILED)
		conn->shard->counts.faults[WR_FAULT_WINDOW]++;
	remember(conn->central, call);
	hand_out(conn->central, conn->shard, call);
}

static void heard_take(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_take takes[WR_TAKES_MAX];
	struct wr_taken taken[WR_TAKES_MAX];
	size_t count = gather(call, takes);

	if (wr_script_reply(reply, takes, count, taken) < 0) {
		wr_central_shard_on_fault(conn->shard, WR_FAULT_PROTOCOL, WR_STR(""));
		wr_call_fail(conn->central, call, WR_FAULT_PROTOCOL);
		return;
	}
	wr_call_takes_answered(conn, call, taken);
}

void wr_call_takes_failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	struct wr_central_counts *counts = call->shard ? &call->shard->counts : &central->counts;

	(void)fault;
	while (call->first) {
		struct wr_central_part *part = call->first;

		call->first = part->mate;
		part->answer = (struct wr_answer){.flags = WR_ANSWER_FAILED};
		if (part->ask)
			counts->failed++;
		wr_central_part_answered(central, part);
	}
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_take_ops = {.write = put_wanted,
					     .on_reply = heard_take,
					     .on_failure = wr_call_takes_failed,
					     .keyed = true,
					     .feeds_breaker = true,
					     .script = WR_SCRIPT_TAKE};

/* ---- giving back ---- */

static enum wr_call_written put_return(struct wr_central_conn *conn, struct wr_call *call)
{
	if (call->leased ? !wr_lease_write(conn, call, NULL, &call->first->take)
			 : !put_take(conn, call))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	return WR_CALL_WRITTEN;
}

static void heard_return(struct wr_central_conn *conn, struct wr_call *call,
			 const redisReply *reply)
{
	(void)reply;
	wr_central_shard_on_success(conn->shard);
	conn->shard->counts.returned += call->count;
	wr_call_free(conn->central, call);
}

static void failed_return(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	struct wr_central_counts *counts = call->shard ? &call->shard->counts : &central->counts;

	(void)fault;
	counts->returns_lost += call->count;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_return_ops = {.write = put_return,
					       .on_reply = heard_return,
					       .on_failure = failed_return,
					       .keyed = true,
					       .feeds_breaker = true,
					       .script = WR_SCRIPT_TAKE};

/* What the part has got is sent back, with the part. */
void wr_central_give_back(struct wr_central *central, struct wr_central_part *part)
{
	struct wr_call *call = wr_call_new(central, WR_CALL_RETURN);

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
