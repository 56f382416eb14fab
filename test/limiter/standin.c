#include "standin.h"

#include <string.h>

static struct counter *counter_of(struct store *store, const struct wr_question_item *item,
				  const char *id)
{
	struct counter *counter = store->counters;

	for (; counter < store->counters + store->count; counter++)
		if (memcmp(counter->key, item->key, sizeof item->key) == 0 &&
		    strncmp(counter->id, id, item->id_len) == 0)
			return counter;
	assert_true(store->count < 16);
	store->count++;
	memcpy(counter->key, item->key, sizeof item->key);
	memcpy(counter->id, id, item->id_len);
	counter->id[item->id_len] = '\0';
	return counter;
}

static struct wr_answer answer_item(struct counter *counter, const struct wr_question_item *item,
				    uint64_t now_ns)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = item->algorithm,
				   .flags = item->flags,
				   .limit = item->limit + item->granted,
				   .burst = item->burst,
				   .queue_size = item->queue_size,
				   .period_ns = item->period_ns,
				   .max_wait_ns = item->max_wait_ns,
				   .window_start_ns = item->window_start_ns,
				   .window_end_ns = item->window_end_ns};
	struct weir_decision decision;

	assert_int_equal(weir_limit_check(&limit, NULL), 0);
	assert_int_equal(weir_step(&limit, &counter->state, NULL, item->cost, now_ns, &decision),
			 0);
	return (struct wr_answer){.flags = decision.admitted ? WR_ANSWER_ADMITTED : 0,
				  .limit = decision.limit,
				  .remaining = decision.remaining,
				  .retry_after_ns = decision.retry_after_ns,
				  .reset_after_ns = decision.reset_after_ns,
				  .delay_ns = decision.delay_ns,
				  .decided_us = now_ns / 1000 + STORE_CLOCK_US};
}

/* Another item refused: the central store gives the units back itself, so the ask does not. */
static void take_none(struct store *store, struct wr_answer *answers, struct counter **counters,
		      const struct weir_state *before)
{
	bool refused = false;

	for (int i = 0; i < store->item_count; i++)
		refused |= !(answers[i].flags & WR_ANSWER_ADMITTED);
	for (int i = 0; refused && i < store->item_count; i++)
		if (answers[i].flags & WR_ANSWER_ADMITTED) {
			answers[i].flags |= WR_ANSWER_NOT_TAKEN;
			counters[i]->state = before[i];
		}
}

static void read_items(struct store *store, struct counter **counters, uint16_t count)
{
	size_t at = sizeof(struct wr_question_head);

	store->item_count = count;
	for (int i = 0; i < count; i++) {
		struct wr_question_item *item = &store->items[i];

		memcpy(item, store->bytes + at, sizeof *item);
		assert_int_equal(item->bytes, sizeof *item + item->id_len);
		counters[i] =
			counter_of(store, item, (const char *)store->bytes + at + sizeof *item);
		at += item->bytes;
	}
	assert_int_equal(at, store->len);
}

static void write_answer(struct store *store, const struct wr_answer *answers)
{
	size_t bytes = (size_t)store->item_count * sizeof *answers;
	struct wr_question_head head = {.version = WR_QUESTION_VERSION,
					.kind = WR_QUESTION_ANSWER,
					.count = (uint16_t)store->item_count,
					.bytes = (uint32_t)(sizeof head + bytes)};

	memcpy(store->answer, &head, sizeof head);
	memcpy(store->answer + sizeof head, answers, bytes);
	store->answer_len = sizeof head + bytes;
}

void store_serve(struct store *store, uint64_t now_ns)
{
	struct wr_answer answers[WEIR_NEEDS_MAX] = {0};
	struct counter *counters[WEIR_NEEDS_MAX];
	struct weir_state before[WEIR_NEEDS_MAX];
	struct wr_question_head head;

	memcpy(&head, store->bytes, sizeof head);
	assert_int_equal(head.version, WR_QUESTION_VERSION);
	assert_int_equal(head.bytes, store->len);
	store->questions += head.kind == WR_QUESTION_TAKE;
	store->returns += head.kind == WR_QUESTION_RETURN;
	store->reports += head.kind == WR_QUESTION_REPORT;
	read_items(store, counters, head.count);
	for (int i = 0; i < head.count; i++) {
		answers[i].flags = WR_ANSWER_FAILED;
		before[i] = counters[i]->state;
		if (!(store->fail_mask >> i & 1))
			answers[i] = answer_item(counters[i], &store->items[i], now_ns);
	}
	if (store->all_or_none && head.kind == WR_QUESTION_TAKE)
		take_none(store, answers, counters, before);
	store->fail_mask = 0;
	write_answer(store, answers);
}

int store_fetch(struct rig *rig, struct store *store)
{
	store->len = weir_ask_question(rig->ask, store->bytes, sizeof store->bytes);
	assert_true(store->len >= 0);
	return store->len;
}

int store_finish(struct rig *rig, struct store *store, int verdict)
{
	if (verdict == WEIR_WAIT) {
		assert_true(store_fetch(rig, store) > 0);
		store_serve(store, rig->now_ns);
		verdict = weir_ask_answer(rig->ask, store->answer, store->answer_len, rig->now_ns);
	}
	while (store_fetch(rig, store) > 0)
		store_serve(store, rig->now_ns);
	return verdict;
}

int store_ask(struct rig *rig, struct store *store, const char *descriptors)
{
	return store_finish(rig, store, rig_ask(rig, descriptors));
}

int store_admitted(struct rig *rig, struct store *store, const char *descriptors, int crowd)
{
	int count = 0;

	while (crowd--)
		count += store_ask(rig, store, descriptors) == WEIR_ADMIT;
	return count;
}

int store_fails(struct rig *rig, const char *descriptors)
{
	assert_int_equal(rig_ask(rig, descriptors), WEIR_WAIT);
	return weir_ask_store_failed(rig->ask, rig->now_ns);
}

int store_fails_admitted(struct rig *rig, const char *descriptors, int crowd)
{
	int count = 0;

	while (crowd--)
		count += store_fails(rig, descriptors) == WEIR_ADMIT;
	return count;
}
