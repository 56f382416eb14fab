/* Writes the questions of an ask to the central store, and reads the answers: weir_ask_question,
 * weir_ask_answer and weir_ask_store_failed. Called by hosts with a central store. The format is
 * described in limiter/question.h. */
#include "limiter/question.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/hash.h"
#include "base/str.h"
#include "limiter/defer.h"
#include "limiter/message.h"
#include "limiter/settle.h"
#include "limiter/share.h"
#include "rules/calendar.h"

/* The longest wait for which now_ns + wait does not overflow. */
#define LONGEST_NS ((uint64_t)INT64_MAX / 2)

_Static_assert(sizeof(struct wr_question_head) + WEIR_NEEDS_MAX * (sizeof(struct wr_question_item) +
								   WR_QUESTION_ID) <=
		       WEIR_QUESTION_MAX,
	       "WEIR_QUESTION_MAX is enough");

static bool is_asked(const struct weir_ask *ask, uint8_t i)
{
	return wr_ask_need_is_asked(&ask->needs[i]) && ask->needs[i].same_as == i;
}

/* The id of a limit that came with the request consists of the algorithm and the period. For the
 * same key, it therefore shares the counter of a rule with this algorithm and period. */
size_t wr_ask_need_id(const struct wr_ask_need *need, char id[WR_QUESTION_ID + 1])
{
	const struct weir_limit *limit = need->need.limit;
	char period[WR_DURATION_TEXT];

	if (!need->rule) {
		wr_duration_text(limit->period_ns, period);
		return (size_t)snprintf(id, WR_QUESTION_ID + 1, "%s/%s",
					weir_algorithm_name((int)limit->algorithm), period);
	}
	if (need->rule->id.len <= WR_QUESTION_ID) {
		memcpy(id, need->rule->id.ptr, need->rule->id.len);
		return need->rule->id.len;
	}
	memcpy(id, need->rule->id.ptr, WR_QUESTION_ID - 17);
	snprintf(id + WR_QUESTION_ID - 17, 18, "~%016llx",
		 (unsigned long long)XXH3_64bits(need->rule->id.ptr, need->rule->id.len));
	return WR_QUESTION_ID;
}

/* Returns the cost of a need in a message of this kind: negative in a RETURN, 0 in a RESET,
 * otherwise the cost of the request. */
static int64_t cost_in(enum wr_question_kind kind, const struct wr_ask_need *need)
{
	int64_t cost = need->message_cost ? need->message_cost : need->need.cost;

	if (kind == WR_QUESTION_RETURN)
		return cost < 0 ? cost : -cost;
	return kind == WR_QUESTION_RESET ? 0 : kind == WR_QUESTION_TAKE ? need->need.cost : cost;
}

static uint64_t decided_us(const struct weir_ask *ask, const struct wr_ask_need *need,
			   enum wr_question_kind kind)
{
	if (kind == WR_QUESTION_REPORT)
		return ask->now_ns / 1000;
	return kind == WR_QUESTION_RETURN ? need->decided_us : 0;
}

/* Returns the group of a need (limiter/question.h). Enforced limits have group 0. The quotas of a
 * descriptor are one group. Each limit that is only counted is a group of its own. */
static uint32_t group_of(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	if (need->class == WR_ENFORCED)
		return 0;
	if (need->class == WR_QUOTA_CLASS)
		return 1u + need->descriptor;
	return 1u + WEIR_DESCRIPTORS_MAX + (uint32_t)(need - ask->needs);
}

/* Returns the numbers of the whole limit, even if the decision used only this node's share. */
static struct wr_limiter_limit_numbers numbers_of(const struct wr_ask_need *need)
{
	const struct weir_limit *limit = need->need.limit;

	return need->failed
		       ? need->whole
		       : (struct wr_limiter_limit_numbers){limit->limit, limit->burst,
							   limit->queue_size, limit->soft_ceiling,
							   limit->soft_for_ns};
}

/* Sets the start of the previous calendar window and the end of the next one. */
static void add_neighbours(struct wr_question_item *item, const struct wr_rules_limit *rule)
{
	uint64_t start_ns, end_ns;

	if (item->window_start_ns) {
		wr_calendar_window(rule->zone, rule->calendar, item->window_start_ns - 1, &start_ns,
				   &end_ns);
		item->window_before_ns = start_ns;
	}
	wr_calendar_window(rule->zone, rule->calendar, item->window_end_ns, &start_ns, &end_ns);
	item->window_after_ns = end_ns;
}

static void append_to_message(struct wr_message *message, const void *bytes, size_t len)
{
	if (message->len + len <= message->cap)
		memcpy(message->at + message->len, bytes, len);
	message->len += len;
}

/* Returns the field `used` of an item (limiter/question.h). */
static uint32_t used_in(const struct weir_ask *ask, const struct wr_ask_need *need,
			enum wr_question_kind kind)
{
	if (need->need.limit->algorithm != WEIR_TOKEN_BUCKET)
		return 0;
	if (kind == WR_QUESTION_TAKE)
		return need->need.cost > 0 && (ask->reserves || wr_ask_need_settles(ask, need));
	return kind == WR_QUESTION_RETURN ? need->used : 0;
}

void wr_message_add_item(struct wr_message *message, struct wr_question_item *item, const char *id,
			 size_t id_len)
{
	wr_assert(message->count < WEIR_NEEDS_MAX && id_len <= WR_QUESTION_ID);
	item->bytes = (uint16_t)(sizeof *item + id_len);
	item->id_len = (uint16_t)id_len;
	append_to_message(message, item, sizeof *item);
	append_to_message(message, id, id_len);
	message->count++;
}

/* Returns the kind of a message that consists of the item of this need only. */
static enum wr_question_kind item_kind(const struct wr_message *message,
				       const struct wr_ask_need *need)
{
	if (message->kind != WR_QUESTION_SETTLE)
		return message->kind;
	return need->message == WR_MESSAGE_RETURN ? WR_QUESTION_RETURN : WR_QUESTION_OWE;
}

void wr_message_add(struct wr_message *message, const struct weir_ask *ask,
		    const struct wr_ask_need *need)
{
	enum wr_question_kind kind = item_kind(message, need);
	const struct weir_limit *limit = need->need.limit;
	struct wr_limiter_limit_numbers numbers = numbers_of(need);
	char id[WR_QUESTION_ID + 1];
	size_t id_len = wr_ask_need_id(need, id);
	struct wr_question_item item = {
		.algorithm = (uint8_t)limit->algorithm,
		.consistency = need->rule ? need->rule->consistency : (uint8_t)WR_STRICT,
		.flags = wr_limiter_defer_flags(ask, limit),
		.key = {need->fleet_key[0], need->fleet_key[1]},
		.tag = need->need.key.tag,
		.cost = cost_in(kind, need),
		.limit = numbers.limit,
		.burst = numbers.burst,
		.queue_size = numbers.queue_size,
		.soft_ceiling = numbers.soft_ceiling,
		.period_ns = limit->period_ns,
		.max_wait_ns = limit->max_wait_ns,
		.soft_for_ns = numbers.soft_for_ns,
		.window_start_ns = limit->window_start_ns,
		.window_end_ns = limit->window_end_ns,
		.decided_us = decided_us(ask, need, kind),
		.delay_ns = kind == WR_QUESTION_RETURN ? need->need.decision.delay_ns : 0,
		.granted = need->granted,
		.group = group_of(ask, need),
		.max_debt = limit->max_debt,
		.used = used_in(ask, need, kind),
		.given = kind == WR_QUESTION_RETURN ? need->given : 0,
	};

	if (need->rule && need->rule->calendar)
		add_neighbours(&item, need->rule);
	wr_message_add_item(message, &item, id, id_len);
}

int wr_message_end(const struct wr_message *message)
{
	struct wr_question_head head = {.version = WR_QUESTION_VERSION,
					.kind = (uint8_t)message->kind,
					.count = message->count,
					.bytes = (uint32_t)message->len};

	if (message->count == 0)
		return 0;
	if (message->len > message->cap)
		return WEIR_EROOM;
	memcpy(message->at, &head, sizeof head);
	return (int)message->len;
}

/* Writes a message about all needs whose `message` field has this value, and clears the field. Each
 * need is written only once, because a second message would give back or count the units again. */
static int write_pending(struct weir_ask *ask, enum wr_question_kind kind,
			 enum wr_ask_need_message message, void *bytes, size_t cap)
{
	struct wr_message pending = wr_message(kind, bytes, cap);
	int len;

	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].message == message)
			wr_message_add(&pending, ask, &ask->needs[i]);
	len = wr_message_end(&pending);
	for (uint8_t i = 0; len > 0 && i < ask->need_count; i++)
		if (ask->needs[i].message == message)
			ask->needs[i].message = WR_MESSAGE_NONE;
	return len;
}

int weir_ask_central(const struct weir_ask *ask)
{
	if (!wr_ask_ok(ask))
		return WEIR_EINVAL;
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].decided_by == WR_NEED_CENTRAL ||
		    (ask->needs[i].eventual && ask->needs[i].exchange < 0))
			return 1;
	return 0;
}

int weir_ask_question(struct weir_ask *ask, void *bytes, size_t cap)
{
	struct wr_message question = wr_message(WR_QUESTION_TAKE, bytes, cap);
	int len;

	if (!wr_ask_ok(ask) || ask->state == WR_ASK_OPEN || (!bytes && cap))
		return WEIR_EINVAL;
	if (ask->state == WR_ASK_WAITING) {
		for (uint8_t i = 0; i < ask->need_count; i++)
			if (is_asked(ask, i))
				wr_message_add(&question, ask, &ask->needs[i]);
		return wr_message_end(&question);
	}
	len = write_pending(ask, WR_QUESTION_RETURN, WR_MESSAGE_RETURN, bytes, cap);
	if (len == 0)
		len = write_pending(ask, WR_QUESTION_REPORT, WR_MESSAGE_REPORT, bytes, cap);
	return len ? len : write_pending(ask, WR_QUESTION_OWE, WR_MESSAGE_OWE, bytes, cap);
}

void wr_ask_return_to_central(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		bool keeps = !ask->cancelled && need->need.limit->flags & WEIR_COUNT_REJECTED;

		if (!is_asked(ask, i) || !need->taken || keeps)
			continue;
		need->taken = false;
		need->message = need->need.cost > 0 ? WR_MESSAGE_RETURN : WR_MESSAGE_NONE;
	}
}

static uint32_t clamp_units(uint64_t units)
{
	return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

static void apply_answer(struct weir_ask *ask, struct wr_ask_need *need,
			 const struct wr_answer *answer)
{
	bool admitted = answer->flags & WR_ANSWER_ADMITTED;

	if (answer->flags & WR_ANSWER_FAILED) {
		wr_ask_need_store_failed(ask, need);
		return;
	}
	need->taken = admitted && !(answer->flags & WR_ANSWER_NOT_TAKEN);
	need->decided_us = answer->decided_us;
	need->used =
		answer->flags & WR_ANSWER_PROVEN
			? clamp_units((uint64_t)answer->limit - answer->remaining + answer->debt)
			: 0;
	need->given = answer->given;
	need->need.decision = (struct weir_decision){
		.admitted = admitted,
		.soft = (answer->flags & WR_ANSWER_SOFT) != 0,
		.limit = answer->limit,
		.remaining = answer->remaining,
		.granted = need->granted < answer->limit ? need->granted : answer->limit,
		.retry_after_ns = admitted ? 0 : answer->retry_after_ns,
		.reset_after_ns = answer->reset_after_ns,
		.delay_ns = admitted ? answer->delay_ns : 0,
		.debt = answer->debt,
	};
}

bool wr_answer_fits(const void *bytes, size_t len, uint16_t asked)
{
	const uint8_t *at = bytes;
	struct wr_question_head head;

	if (len != sizeof head + asked * sizeof(struct wr_answer))
		return false;
	memcpy(&head, at, sizeof head);
	if (head.version != WR_QUESTION_VERSION || head.kind != WR_QUESTION_ANSWER ||
	    head.count != asked || head.bytes != len)
		return false;
	for (uint16_t i = 0; i < asked; i++) {
		struct wr_answer answer;

		memcpy(&answer, at + sizeof head + i * sizeof answer, sizeof answer);
		if (answer.flags & ~(uint32_t)WR_ANSWER_ALL || answer.remaining > answer.limit ||
		    answer.delay_ns > LONGEST_NS || answer.reset_after_ns > LONGEST_NS)
			return false;
	}
	return true;
}

/* Continues the decision after the central store has answered or failed. Sets ask->now_ns to
 * now_ns, unless now_ns is earlier, so that time never goes back for the ask. */
static int resume_decision(struct weir_ask *ask, uint64_t now_ns)
{
	if (now_ns > ask->now_ns)
		ask->now_ns = now_ns;
	ask->state = WR_ASK_DECIDED;
	if (ask->cancelled) {
		wr_ask_return_to_central(ask);
		ask->verdict = WEIR_REFUSE;
		return WEIR_REFUSE;
	}
	if (ask->has_calendar)
		wr_ask_open_windows(ask);
	return wr_ask_decide_rest(ask);
}

int weir_ask_answer(struct weir_ask *ask, const void *bytes, size_t len, uint64_t now_ns)
{
	const uint8_t *at = bytes;
	uint16_t asked = 0;
	int verdict;

	if (!wr_ask_ok(ask) || !bytes || ask->state != WR_ASK_WAITING)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	for (uint8_t i = 0; i < ask->need_count; i++)
		asked += is_asked(ask, i);
	if (!wr_answer_fits(bytes, len, asked))
		return WEIR_EFORMAT;
	at += sizeof(struct wr_question_head);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_answer answer;

		if (!is_asked(ask, i))
			continue;
		memcpy(&answer, at, sizeof answer);
		at += sizeof answer;
		apply_answer(ask, &ask->needs[i], &answer);
	}
	verdict = resume_decision(ask, now_ns);
	wr_ask_cap_shares(ask);
	return verdict;
}

/* The central store may have taken the units although no answer came. They are not given back here,
 * and if the request is admitted, they are also reported. So the central store may count them
 * twice, but it counts them at least once. */
int weir_ask_store_failed(struct weir_ask *ask, uint64_t now_ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_WAITING)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_asked(ask, i))
			wr_ask_need_store_failed(ask, &ask->needs[i]);
	return resume_decision(ask, now_ns);
}
