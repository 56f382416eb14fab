/* The counters of a target, including those in the central store. */
#include "standin.h"

#include <string.h>

#include <weir/control.h>

#include "base/str.h"
#include "limiter/peek.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: two\n"
	"  rate_limits:\n"
	"  - {name: short, unit: minute, requests_per_unit: 3}\n"
	"  - {name: here, unit: day, requests_per_unit: 9, consistency: local}\n"
	"  - {name: long, unit: day, requests_per_unit: 5}\n"
	"- key: bucket\n"
	"  rate_limit: {unit: minute, requests_per_unit: 6, algorithm: token_bucket}\n"
	"- key: log\n"
	"  rate_limit: {unit: minute, requests_per_unit: 60000, algorithm: sliding_window_log}\n"
	"- key: told\n"
	"  rate_limit: {unit: minute, requests_per_unit: 6, consistency: eventual}\n";

struct seen {
	struct weir_counter counters[4];
	int count;
};

static int note(void *context, const struct weir_counter *counter)
{
	struct seen *seen = context;

	assert_true(seen->count < 4);
	seen->counters[seen->count++] = *counter;
	return 0;
}

static struct wr_peek *open_peek(struct rig *rig, const char *key, const char *limit)
{
	static struct weir_entry entry;
	static struct weir_target target;
	struct wr_peek *peek;

	entry = (struct weir_entry){.key = wr_str(key), .value = WR_STR("1")};
	target = (struct weir_target){.size = sizeof target,
				      .domain = WR_STR("d"),
				      .entries = &entry,
				      .count = 1,
				      .limit = wr_str(limit)};
	assert_int_equal(wr_peek_open(rig->engine, &target, rig->now_ns, &peek, NULL), 0);
	return peek;
}

static struct seen show(const struct wr_peek *peek)
{
	struct seen seen = {.count = 0};
	int count = wr_peek_show(peek, note, &seen);

	assert_int_equal(count, seen.count);
	return seen;
}

/* Asks the central store and shows the counters. */
static struct seen look(struct rig *rig, struct store *store, const char *key, const char *limit)
{
	struct wr_peek *peek = open_peek(rig, key, limit);
	struct seen seen;

	store->len = wr_peek_question(peek, store->bytes, sizeof store->bytes);
	assert_true(store->len > 0);
	store_serve(store, rig->now_ns);
	wr_peek_answer(peek, store->answer, store->answer_len);
	seen = show(peek);
	wr_peek_close(peek);
	return seen;
}

static void open_rig(struct rig *rig)
{
	rig_open_with(rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
}

/* Another node took units from the same counters: only the central store counts them. */
static void counters_of_the_store(void **state)
{
	struct rig one;
	struct store store = {0};
	struct seen seen;

	open_rig(&one);
	assert_int_equal(store_admitted(&one, &store, "two=1", 2), 2);
	assert_int_equal(store.questions, 2);
	for (int i = 0; i < store.count; i++) /* simulates units that another node took */
		store.counters[i].state.s1++;
	seen = look(&one, &store, "two", "");
	assert_int_equal(seen.count, 3);
	assert_int_equal(store.item_count, 2);
	assert_int_equal(store.items[0].cost, 0);
	assert_int_equal(seen.counters[0].flags, WEIR_COUNTER_CENTRAL | WEIR_COUNTER_STORE);
	assert_int_equal(seen.counters[0].limit, 3);
	assert_int_equal(seen.counters[0].remaining, 0);
	assert_int_equal(seen.counters[0].retry_after_ns, MINUTE_NS);
	assert_int_equal(seen.counters[0].reset_after_ns, MINUTE_NS);
	assert_int_equal(seen.counters[1].flags, 0);
	assert_int_equal(seen.counters[1].remaining, 7);
	assert_int_equal(seen.counters[2].remaining, 2);
	assert_int_equal(seen.counters[2].retry_after_ns, 0);
	rig_close(&one);
	(void)state;
}

/* A peek takes no units and is not counted in the statistics. */
static void a_peek_takes_nothing(void **state)
{
	struct rig rig;
	struct store store = {0};

	open_rig(&rig);
	for (int i = 0; i < 5; i++)
		assert_int_equal(look(&rig, &store, "bucket", "").counters[0].remaining, 6);
	assert_int_equal(rig_stat(&rig, "d/bucket/1m").admitted, 0);
	assert_int_equal(store_admitted(&rig, &store, "bucket=1", 10), 6);
	rig_close(&rig);
	(void)state;
}

static void counters_without_an_answer(void **state)
{
	struct rig rig;
	struct store store = {0};
	struct wr_peek *peek;
	struct seen seen;

	open_rig(&rig);
	assert_int_equal(store_admitted(&rig, &store, "two=1", 2), 2);
	store.fail_mask = 1;
	seen = look(&rig, &store, "two", "");
	assert_int_equal(seen.counters[0].flags, WEIR_COUNTER_CENTRAL);
	assert_int_equal(seen.counters[0].remaining, 1);
	assert_int_equal(seen.counters[2].flags, WEIR_COUNTER_CENTRAL | WEIR_COUNTER_STORE);

	peek = open_peek(&rig, "two", "");
	wr_peek_answer(peek, store.answer, store.answer_len - 1);
	store.answer[0]++;
	wr_peek_answer(peek, store.answer, store.answer_len);
	seen = show(peek);
	assert_int_equal(seen.counters[2].flags, WEIR_COUNTER_CENTRAL);
	assert_int_equal(seen.counters[2].remaining, 3);
	wr_peek_close(peek);
	rig_close(&rig);
	(void)state;
}

static void question_about_one_limit(void **state)
{
	struct rig rig;
	struct store store = {0};
	struct wr_peek *peek;

	open_rig(&rig);
	assert_int_equal(look(&rig, &store, "two", "long").count, 1);
	assert_int_equal(store.item_count, 1);
	peek = open_peek(&rig, "two", "here");
	assert_int_equal(wr_peek_question(peek, store.bytes, sizeof store.bytes), 0);
	wr_peek_answer(peek, store.answer, store.answer_len);
	assert_int_equal(show(peek).counters[0].flags, 0);
	wr_peek_close(peek);
	peek = open_peek(&rig, "two", "");
	assert_int_equal(wr_peek_question(peek, store.bytes, 20), WEIR_EROOM);
	wr_peek_close(peek);
	peek = open_peek(&rig, "nothing", "");
	assert_int_equal(wr_peek_show(peek, note, NULL), WEIR_ENOENT);
	wr_peek_close(peek);
	rig_close(&rig);
	(void)state;
}

/* The question contains grants; bans are those of the table. */
static void grants_and_bans_of_the_table(void **state)
{
	struct weir_entry entry = {.key = WR_STR("bucket"), .value = WR_STR("1")};
	struct weir_target target = {
		.size = sizeof target, .domain = WR_STR("d"), .entries = &entry, .count = 1};
	struct rig rig;
	struct store store = {0};
	struct seen seen;

	open_rig(&rig);
	assert_int_equal(weir_control_grant(rig.engine, &target, 4, WEIR_NEVER, NOW_NS, NULL), 1);
	assert_int_equal(weir_control_ban(rig.engine, &target, WEIR_NEVER, NOW_NS, NULL), 1);
	seen = look(&rig, &store, "bucket", "");
	assert_int_equal(store.items[0].granted, 4);
	assert_int_equal(seen.counters[0].granted, 4);
	assert_true(seen.counters[0].banned_until_ns == WEIR_NEVER);
	assert_int_equal(seen.counters[0].remaining, 10);
	rig_close(&rig);
	(void)state;
}

/* The table has no memory for a log of that size; the counter shows the grant of the central
 * store. */
static void grant_of_a_central_limit(void **state)
{
	struct weir_entry entry = {.key = WR_STR("log"), .value = WR_STR("1")};
	struct weir_target target = {
		.size = sizeof target, .domain = WR_STR("d"), .entries = &entry, .count = 1};
	struct {
		struct wr_question_head head;
		struct wr_answer answer;
	} reply = {{WR_QUESTION_VERSION, WR_QUESTION_ANSWER, 1, sizeof reply},
		   {.flags = WR_ANSWER_ADMITTED, .limit = 60004, .remaining = 60004}};
	uint8_t question[WEIR_QUESTION_MAX];
	struct wr_peek *peek;
	struct rig rig;
	struct seen seen;

	open_rig(&rig);
	assert_int_equal(weir_control_grant(rig.engine, &target, 4, WEIR_NEVER, NOW_NS, NULL), 1);
	peek = open_peek(&rig, "log", "");
	assert_int_equal(show(peek).counters[0].limit, 60000);
	assert_int_equal(show(peek).counters[0].granted, 0);
	assert_true(wr_peek_question(peek, question, sizeof question) > 0);
	wr_peek_answer(peek, &reply, sizeof reply);
	seen = show(peek);
	assert_int_equal(seen.counters[0].limit, 60004);
	assert_int_equal(seen.counters[0].granted, 4);
	wr_peek_close(peek);
	rig_close(&rig);
	(void)state;
}

static void flags_of_eventual_counters(void **state)
{
	struct rig rig;
	struct wr_peek *peek;
	uint8_t bytes[WEIR_QUESTION_MAX];

	open_rig(&rig);
	peek = open_peek(&rig, "told", "");
	assert_int_equal(wr_peek_question(peek, bytes, sizeof bytes), 0);
	assert_int_equal(show(peek).counters[0].flags, WEIR_COUNTER_EVENTUAL);
	wr_peek_close(peek);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_of_the_store),
		cmocka_unit_test(a_peek_takes_nothing),
		cmocka_unit_test(counters_without_an_answer),
		cmocka_unit_test(question_about_one_limit),
		cmocka_unit_test(grants_and_bans_of_the_table),
		cmocka_unit_test(grant_of_a_central_limit),
		cmocka_unit_test(flags_of_eventual_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
