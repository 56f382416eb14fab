/* Handles asks, which are questions in flight. The limits of a question are sent to Redis in one or
 * more calls (commands). The ask ends when Redis has replied to all of these calls, at its timeout,
 * or when it is cancelled. Called by the host through wr_central_take and wr_central_cancel. */
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

/* ---- the list of asks; all have the same timeout, so the list is sorted by deadline ---- */

static struct wr_central_ask *first_ask(const struct wr_central *central)
{
	struct wr_list *link = wr_list_first(&central->asks);

	return link ? wr_container_of(link, struct wr_central_ask, link) : NULL;
}

static void unlink_ask(struct wr_central_ask *ask)
{
	wr_list_remove(&ask->link);
	ask->central->waiting--;
	ask->central = NULL;
}

/* ---- answering ---- */

static size_t write_answer(const struct wr_central_ask *ask, uint8_t bytes[WR_CENTRAL_ANSWER_MAX])
{
	struct wr_question_head head = {
		.version = WR_QUESTION_VERSION, .kind = WR_QUESTION_ANSWER, .count = ask->count};
	uint8_t *at = bytes + sizeof head;

	for (const struct wr_central_part *part = ask->parts; part; part = part->next) {
		struct wr_answer answer = {.flags = WR_ANSWER_FAILED};

		if (!part->call)
			answer = part->answer;
		memcpy(at, &answer, sizeof answer);
		at += sizeof answer;
	}
	head.bytes = (uint32_t)(at - bytes);
	memcpy(bytes, &head, sizeof head);
	return head.bytes;
}

/* Detaches the parts (limits) from the ask. A part whose call has ended is freed. The other parts
 * belong to their calls from now on. */
static void release_parts(struct wr_central *central, struct wr_central_ask *ask)
{
	while (ask->parts) {
		struct wr_central_part *part = ask->parts;

		ask->parts = part->next;
		part->next = NULL;
		part->ask = NULL;
		if (!part->call)
			wr_central_part_free(central, part);
	}
}

/* Ends the ask and passes its answer to ask->done. In the answer, limits without a decision are
 * marked as failed. */
static void finish_ask(struct wr_central_ask *ask)
{
	struct wr_central *central = ask->central;
	uint8_t answer[WR_CENTRAL_ANSWER_MAX];
	size_t len = write_answer(ask, answer);

	release_parts(central, ask);
	unlink_ask(ask);
	ask->done(ask, answer, len);
}

void wr_central_part_answered(struct wr_central *central, struct wr_central_part *part)
{
	struct wr_central_ask *ask = part->ask;

	wr_assert(!ask || ask->open > 0);
	part->call = NULL;
	if (!ask) {
		wr_central_part_free(central, part);
		return;
	}
	if (--ask->open == 0)
		finish_ask(ask);
}

/* ---- asking ---- */

static bool read_parts(struct wr_central *central, struct wr_central_ask *ask,
		       struct wr_central_question *reader)
{
	struct wr_central_part **tail = &ask->parts;

	while (reader->left) {
		struct wr_central_part *part = wr_central_part_new(central);

		if (!part) {
			central->counts.faults[WR_FAULT_FULL]++;
			return false;
		}
		*tail = part;
		tail = &part->next;
		part->ask = ask;
		ask->count++;
		if (!wr_central_question_next(reader, part))
			return false;
	}
	return true;
}

/* Makes a call that contains the part `first` and all later parts of the ask with the same key and
 * group, because limits of one key and group take units together or not at all. But a part with
 * part->leased gets a call of its own, which runs the lease script. */
static struct wr_call *make_call(struct wr_central *central, struct wr_central_part *first)
{
	struct wr_call *call;

	if (first->leased)
		return wr_central_lease_call_new(central, first);
	call = wr_call_new(central, WR_CALL_TAKE);
	if (!call)
		return NULL;
	memcpy(call->key, first->key, sizeof call->key);
	for (struct wr_central_part *part = first; part; part = part->next)
		if (!part->call && !part->settled && !part->leased && call->count < WR_TAKES_MAX &&
		    wr_central_same_key(first->key, part->key) && first->group == part->group)
			wr_call_add(call, part);
	return call;
}

/* Makes the calls for all parts, and only then sends them. If a call were sent earlier and failed
 * at once, its parts would look as if they had no call yet, and this function would make a second
 * call for them. */
static void send_parts(struct wr_central *central, struct wr_central_ask *ask)
{
	struct wr_call_queue calls = {0};
	struct wr_call *call;

	for (struct wr_central_part *part = ask->parts; part; part = part->next) {
		if (part->call || part->settled)
			continue;
		call = make_call(central, part);
		if (!call) {
			central->counts.faults[WR_FAULT_FULL]++;
			part->answer = (struct wr_answer){.flags = WR_ANSWER_FAILED};
			part->settled = true;
			ask->open--;
			continue;
		}
		wr_call_queue_push(&calls, call);
	}
	while ((call = wr_call_queue_pop(&calls)))
		wr_call_send(central, call);
}

void wr_central_take(struct wr_central *central, struct wr_central_ask *ask, const void *question,
		     size_t len, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_central_question reader;

	wr_assert(ask->done);
	wr_central_enter(central, now_ns, mono_ns);
	*ask = (struct wr_central_ask){.done = ask->done};
	if (central->freeing || !wr_central_question_open(&reader, question, len) ||
	    (reader.kind != WR_QUESTION_TAKE && reader.kind != WR_QUESTION_SETTLE) ||
	    !read_parts(central, ask, &reader)) {
		release_parts(central, ask);
		wr_central_exit(central);
		ask->done(ask, NULL, 0);
		return;
	}
	ask->central = central;
	ask->deadline_mono_ns = central->mono_ns + central->timeout_ns;
	wr_list_add_last(&central->asks, &ask->link);
	central->waiting++;
	/* While the calls are being sent, ask->open is one more than the number of unanswered
	 * parts. So the ask does not end before all calls are sent. */
	if (reader.kind == WR_QUESTION_SETTLE) {
		ask->count = 1;
		ask->open = 2;
		wr_central_settle_send(central, ask);
	} else {
		ask->open = (uint16_t)(1 + ask->count - wr_central_recall_refusals(central, ask));
		if (ask->open > 1)
			send_parts(central, ask);
	}
	if (--ask->open == 0)
		finish_ask(ask);
	else
		wr_central_wake_at(central, ask->deadline_mono_ns);
	wr_central_exit(central);
}

/* If Redis has already answered the part, gives back the units that Redis took for it. Otherwise
 * part->cancelled makes sure that the units are given back when the answer comes. */
static void cancel_part(struct wr_central *central, struct wr_central_part *part)
{
	part->next = NULL;
	part->ask = NULL;
	part->cancelled = true;
	if (part->call)
		return;
	if (wr_central_has_units(part))
		wr_central_give_back(central, part);
	else
		wr_central_part_free(central, part);
}

void wr_central_cancel(struct wr_central *central, struct wr_central_ask *ask)
{
	if (!ask->central)
		return;
	wr_assert(ask->central == central);
	wr_central_enter(central, central->now_ns, central->mono_ns);
	unlink_ask(ask);
	while (ask->parts) {
		struct wr_central_part *part = ask->parts;

		ask->parts = part->next;
		cancel_part(central, part);
	}
	wr_central_exit(central);
}

/* ---- timeouts ---- */

/* Called when the ask has timed out. Marks its unanswered calls as late, and counts one timeout for
 * each call. A call can contain merged takes of several asks; only the first of these asks that
 * times out counts the call. Stores in `shards` the shards that count the timeout as a failure, and
 * returns their number. These are the shards of the calls that were written. A call that was not
 * written waits for its connection, so its server was not slow. */
static size_t mark_ask_late(struct wr_central *central, const struct wr_central_ask *ask,
			    struct wr_central_shard *shards[WEIR_NEEDS_MAX])
{
	size_t count = 0;

	for (const struct wr_central_part *part = ask->parts; part; part = part->next) {
		struct wr_call *call = part->call;

		if (!call)
			continue;
		wr_call_counts(central, call)->failed++;
		if (call->late)
			continue;
		call->late = true;
		wr_call_counts(central, call)->faults[WR_FAULT_TIMEOUT]++;
		if (call->written)
			shards[count++] = call->shard;
	}
	return count;
}

void wr_central_asks_expire(struct wr_central *central)
{
	struct wr_central_shard *shards[WEIR_NEEDS_MAX];
	struct wr_central_ask *ask;

	while ((ask = first_ask(central)) && ask->deadline_mono_ns <= central->mono_ns) {
		size_t late = mark_ask_late(central, ask, shards);

		finish_ask(ask);
		for (size_t i = 0; i < late; i++)
			wr_central_shard_on_fault(shards[i], WR_FAULT_TIMEOUT, WR_STR(""));
	}
	if (ask)
		wr_central_wake_at(central, ask->deadline_mono_ns);
}

void wr_central_asks_fail(struct wr_central *central)
{
	struct wr_central_ask *ask;

	wr_assert_magic(central, WR_CENTRAL_MAGIC);
	while ((ask = first_ask(central)))
		finish_ask(ask);
}
