/* Asks that wait for the central store: valid answers, invalid answers, and no answer. */
#include "standin.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rules/rules.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: a\n" /* the default: strict */
	"  rate_limit: {unit: day, requests_per_unit: 5}\n"
	"- key: b\n"
	"  rate_limit: {unit: day, requests_per_unit: 3, on_store_failure: deny}\n"
	"- key: c\n"
	"  rate_limit: {unit: day, requests_per_unit: 3, on_store_failure: allow}\n"
	"- key: here\n"
	"  rate_limit: {unit: day, requests_per_unit: 2, consistency: local}\n"
	"- key: leaky\n"
	"  rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: "
	"3,\n"
	"    max_wait: 5s}\n"
	"- key: q\n"
	"  quota_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: s\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: month\n"
	"  rate_limit: {calendar: month, requests_per_unit: 1, timezone: Asia/Seoul}\n"
	"- key: kept\n"
	"  rate_limit: {unit: day, requests_per_unit: 9, count_rejected: true}\n";

static void open_rig(struct rig *rig, struct store *store)
{
	memset(store, 0, sizeof *store);
	rig_open_with(rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
}

/* Two nodes with one store share a limit. Without a store, all rules are local. */
static void two_nodes_share_a_limit(void **state)
{
	static struct store store;
	struct rig one, two, alone;
	uint8_t secret[192];
	struct weir_engine_opts opts = {
		.size = sizeof opts, .flags = WEIR_ENGINE_CENTRAL, .fleet_secret = secret};

	memset(secret, 7, sizeof secret);
	open_rig(&one, &store);
	open_rig(&two, &store);
	weir_engine_free(one.engine);
	weir_engine_free(two.engine);
	assert_int_equal(weir_engine_new(one.table, rig_rules(rules), &opts, &one.engine), 0);
	assert_int_equal(weir_engine_new(two.table, rig_rules(rules), &opts, &two.engine), 0);
	assert_int_equal(store_admitted(&one, &store, "a=1", 2), 2);
	assert_int_equal(store_admitted(&two, &store, "a=1", 9), 3);
	assert_int_equal(store_ask(&one, &store, "a=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&one, 0).code, WEIR_STATUS_OVER_LIMIT);
	assert_int_equal(rig_result(&one).retry_after_ns, DAY_NS);
	assert_int_equal(store.count, 1);
	assert_string_equal(store.counters[0].id, "fixed_window/1d");
	assert_int_equal(rig_stat(&one, "d/a/1d").admitted, 2);
	rig_close(&one);
	rig_close(&two);

	rig_open(&alone, rules, "d");
	assert_int_equal(rig_admitted(&alone, "a=1", 9), 5);
	rig_close(&alone);
	(void)state;
}

/* A local rule is decided at once. If it refuses, the central store is not asked. */
static void local_limits_are_decided_first(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	assert_int_equal(rig_ask(&rig, "here=1"), WEIR_ADMIT);
	assert_int_equal(store_ask(&rig, &store, "here=1;a=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "here=1;a=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OVER_LIMIT);
	assert_int_equal(rig_status(&rig, 1).code, WEIR_STATUS_OK);
	assert_int_equal(store.questions, 1);
	/* If the central store refuses, nothing is taken from the local limit. */
	assert_int_equal(store_admitted(&rig, &store, "b=1", 9), 3);
	assert_int_equal(store_ask(&rig, &store, "here=2;b=1"), WEIR_REFUSE);
	assert_int_equal(rig_admitted(&rig, "here=2", 9), 2);
	rig_close(&rig);
	(void)state;
}

/* If one limit refuses, the units of the other limits are given back once. */
static void refusals_give_back(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	assert_int_equal(store_admitted(&rig, &store, "a=1;b=1", 9), 3);
	assert_int_equal(store.returns, 6);
	assert_int_equal(store_admitted(&rig, &store, "a=1", 9), 2);
	/* The local limit was used up while the central store was asked. */
	assert_int_equal(rig_ask(&rig, "a=2;here=1"), WEIR_WAIT);
	struct rig other = {
		.table = rig.table, .engine = rig.engine, .domain = "d", .now_ns = NOW_NS};
	assert_int_equal(rig_admitted(&other, "here=1", 9), 2);
	weir_ask_done(other.ask);
	store.returns = 0;
	assert_int_equal(store_finish(&rig, &store, WEIR_WAIT), WEIR_REFUSE);
	assert_int_equal(store.returns, 1);
	assert_int_equal(store_admitted(&rig, &store, "a=2", 9), 5);
	/* A limit with count_rejected keeps the units. */
	assert_int_equal(store_ask(&rig, &store, "kept=1;b=1"), WEIR_REFUSE);
	assert_int_equal(store_admitted(&rig, &store, "kept=1", 20), 8);
	/* A counter that is named twice is one item with both costs. */
	assert_int_equal(store_ask(&rig, &store, "a=3;a=3"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 1).remaining, 3);
	rig_close(&rig);
	(void)state;
}

static void cancelled_requests_give_back(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	/* The request is cancelled after its admission. */
	assert_int_equal(store_ask(&rig, &store, "a=1;here=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	assert_true(store.len > 0);
	store_serve(&store, rig.now_ns);
	assert_int_equal(store.returns, 1);
	assert_int_equal(weir_ask_question(rig.ask, store.bytes, sizeof store.bytes), 0);
	assert_int_equal(rig_admitted(&rig, "here=1", 9), 2);
	/* The request is cancelled while it waits: the units of the answer are given back. */
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	store_serve(&store, rig.now_ns);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(weir_ask_answer(rig.ask, store.answer, store.answer_len, rig.now_ns),
			 WEIR_REFUSE);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	assert_true(store.len > 0);
	store_serve(&store, rig.now_ns);
	assert_int_equal(store_admitted(&rig, &store, "a=1", 9), 5);
	rig_close(&rig);
	(void)state;
}

/* on_store_failure local, allow and deny. Nothing is given back. */
static void on_store_failure(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	/* Decided on this node's own counter. */
	assert_int_equal(store_fails_admitted(&rig, "a=1", 9), 5);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_FAILED);
	assert_int_equal(weir_ask_question(rig.ask, store.bytes, sizeof store.bytes), 0);
	assert_int_equal(store_fails_admitted(&rig, "c=1", 9), 9);
	assert_int_equal(store_fails(&rig, "b=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, SECOND_NS);
	/* A rule with `deny` refuses the request, so the rule with `local` takes nothing. */
	assert_int_equal(store_fails(&rig, "a=2;b=1"), WEIR_REFUSE);
	assert_int_equal(store_fails_admitted(&rig, "a=2;c=1", 9), 5);
	/* One item failed: the units of the other items were taken, and are given back. */
	store.fail_mask = 2;
	assert_int_equal(store_ask(&rig, &store, "a=3;b=1"), WEIR_REFUSE);
	assert_int_equal(store.returns, 1);
	store.fail_mask = 2;
	assert_int_equal(store_ask(&rig, &store, "a=3;c=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 4);
	assert_int_equal(rig_status(&rig, 1).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_FAILED);
	/* An override has no on_store_failure, so it is decided locally. */
	rig_begin(&rig);
	rig_add_override(&rig, "o=1", 1, 1, 1);
	rig_add_override(&rig, "o=1", 1, 1, 1);
	assert_int_equal(rig_decide(&rig), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, rig.now_ns), WEIR_REFUSE);
	assert_int_equal(weir_ask_store_failed(rig.ask, rig.now_ns), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

static void delays_quotas_and_shadow_mode(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	assert_int_equal(store_ask(&rig, &store, "leaky=1"), WEIR_ADMIT);
	assert_int_equal(store_ask(&rig, &store, "leaky=1;a=1"), WEIR_DELAY);
	assert_int_equal(rig_result(&rig).delay_ns, SECOND_NS);
	assert_int_equal(store_ask(&rig, &store, "q=1;a=2"), WEIR_ADMIT);
	assert_int_equal(store_ask(&rig, &store, "q=1;a=2"), WEIR_REFUSE);
	assert_int_equal(store_ask(&rig, &store, "a=2"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 3);
	assert_int_equal(store_admitted(&rig, &store, "s=1", 4), 4);
	assert_int_equal(rig_stat(&rig, "d/s/1d").shadowed, 3);
	/* Negative costs are sent after the verdict and get no answer. */
	rig_begin(&rig);
	rig_add(&rig, "a=2", -2);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	store_serve(&store, rig.now_ns);
	assert_int_equal(store_admitted(&rig, &store, "a=2", 9), 5);
	rig_close(&rig);
	(void)state;
}

/* The month may end while the central store is asked. */
static void calendar_windows(void **state)
{
	const uint64_t december_in_seoul = 1796050800ull * SECOND_NS;
	static struct store store;
	struct wr_question_item item;
	struct rig rig;

	open_rig(&rig, &store);
	rig.now_ns = december_in_seoul - 1;
	assert_int_equal(rig_ask(&rig, "month=1"), WEIR_WAIT);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	memcpy(&item, store.bytes + sizeof(struct wr_question_head), sizeof item);
	assert_int_equal(item.window_end_ns, december_in_seoul);
	/* The central store's clock may be in October or in December. */
	assert_int_equal(item.window_start_ns, december_in_seoul - 30 * 86400 * SECOND_NS);
	assert_int_equal(item.window_before_ns, december_in_seoul - 61 * 86400 * SECOND_NS);
	assert_int_equal(item.window_after_ns, december_in_seoul + 31 * 86400 * SECOND_NS);
	assert_int_equal(weir_ask_store_failed(rig.ask, december_in_seoul), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).reset_s, 31 * 86400);
	/* The units were taken in December, so November has one unit left. */
	rig.now_ns = december_in_seoul + 5;
	assert_int_equal(rig_ask(&rig, "month=1"), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, rig.now_ns), WEIR_REFUSE);
	rig_close(&rig);
	(void)state;
}

/* Bytes that are not an answer to this question are rejected. */
static void invalid_answers_are_rejected(void **state)
{
	static struct store store;
	struct rig rig;
	uint8_t *bytes = store.answer;

	open_rig(&rig, &store);
	rig_begin(&rig);
	assert_int_equal(weir_ask_question(rig.ask, store.bytes, sizeof store.bytes), WEIR_EINVAL);
	assert_int_equal(rig_ask(&rig, "a=1;b=1"), WEIR_WAIT);
	assert_int_equal(weir_ask_question(rig.ask, store.bytes, 100), WEIR_EROOM);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	/* Until the answer, every call returns the same question. */
	assert_int_equal(weir_ask_question(rig.ask, store.bytes, sizeof store.bytes), store.len);
	store_serve(&store, rig.now_ns);
	for (size_t len = 0; len < store.answer_len; len++)
		assert_int_equal(weir_ask_answer(rig.ask, bytes, len, rig.now_ns), WEIR_EFORMAT);
	assert_int_equal(weir_ask_answer(rig.ask, bytes, store.answer_len + 48, rig.now_ns),
			 WEIR_EFORMAT);
	for (size_t i = 0; i < 12; i++) { /* ends within the flags of the first answer */
		uint8_t before = bytes[i];

		bytes[i] = (uint8_t)(before ^ 0x80);
		assert_int_equal(weir_ask_answer(rig.ask, bytes, store.answer_len, rig.now_ns),
				 WEIR_EFORMAT);
		bytes[i] = before;
	}
	/* The answer has more remaining units than the limit. */
	memset(bytes + 16, 0xff, 4);
	assert_int_equal(weir_ask_answer(rig.ask, bytes, store.answer_len, rig.now_ns),
			 WEIR_EFORMAT);
	memset(bytes + 16, 0, 4);
	assert_int_equal(weir_ask_answer(rig.ask, bytes, store.answer_len, rig.now_ns), WEIR_ADMIT);
	assert_int_equal(weir_ask_answer(rig.ask, bytes, store.answer_len, rig.now_ns),
			 WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

/* Ids of any length fit, the largest question fits WEIR_QUESTION_MAX, and the item has the numbers
 * of the limit. */
static void largest_question(void **state)
{
	static char yaml[16384] = "domain: d\ndescriptors:\n- key: a\n  rate_limits:\n";
	static struct store store;
	struct wr_question_item item;
	struct rig rig;

	for (int i = 0; i < 8; i++)
		snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml),
			 "  - {period: 1h, requests_per_unit: 7, name: %01000d}\n", i);
	rig_open_with(&rig, rig_rules(yaml), "d", WEIR_ENGINE_CENTRAL);
	rig_begin(&rig);
	for (int i = 0; i < 8; i++) {
		char descriptor[16];

		snprintf(descriptor, sizeof descriptor, "a=%d", i);
		assert_int_equal(rig_add(&rig, descriptor, 2), 0);
	}
	assert_int_equal(rig_decide(&rig), WEIR_WAIT);
	store.len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
	assert_int_equal(store.len, 8 + 64 * (152 + 128));
	memcpy(&item, store.bytes + 8, sizeof item);
	assert_int_equal(item.limit, 7);
	assert_int_equal(item.cost, 2);
	assert_int_equal(item.period_ns, HOUR_NS);
	assert_int_equal(item.algorithm, WEIR_FIXED_WINDOW);
	assert_int_equal(item.consistency, WR_STRICT);
	/* Cut ids still differ. */
	assert_memory_not_equal(store.bytes + 8 + 112, store.bytes + 8 + 112 + 112 + 128, 128);
	rig_close(&rig);
	(void)state;
}

/* An answer after a timeout: the LATE message contains the units that the central store took, with
 * the central store's time, and no refusals. */
static void late_takes_are_reported(void **state)
{
	static struct store store;
	static uint8_t question[WEIR_QUESTION_MAX];
	struct wr_question_head head;
	struct wr_question_item item, asked[2];
	struct rig rig;
	int len;

	open_rig(&rig, &store);
	assert_int_equal(store_admitted(&rig, &store, "a=1", 9), 5);
	assert_int_equal(rig_ask(&rig, "a=1;leaky=1"), WEIR_WAIT);
	len = weir_ask_question(rig.ask, question, sizeof question);
	memcpy(store.bytes, question, (size_t)len);
	store.len = len;
	weir_ask_store_failed(rig.ask, rig.now_ns);
	weir_ask_done(rig.ask);
	rig.ask = NULL;
	store_serve(&store, rig.now_ns);
	memcpy(asked, store.items, sizeof asked);
	assert_int_equal(weir_question_late(NULL, 0, store.answer, store.answer_len), WEIR_EINVAL);
	assert_int_equal(weir_question_late(question, (size_t)len, NULL, 0), WEIR_EINVAL);
	assert_int_equal(
		weir_question_late(question, (size_t)len, store.answer, store.answer_len - 1),
		WEIR_EFORMAT);
	for (int cut = 0; cut < len; cut++)
		assert_int_equal(
			weir_question_late(question, (size_t)cut, store.answer, store.answer_len),
			WEIR_EFORMAT);
	len = weir_question_late(question, (size_t)len, store.answer, store.answer_len);
	memcpy(&head, question, sizeof head);
	memcpy(&item, question + sizeof head, sizeof item);
	assert_int_equal(len, sizeof head + item.bytes);
	assert_int_equal(head.bytes, len);
	assert_int_equal(head.kind, WR_QUESTION_LATE);
	assert_int_equal(head.count, 1);
	assert_int_equal(item.algorithm, WEIR_LEAKY_BUCKET);
	assert_memory_equal(item.key, asked[1].key, sizeof item.key);
	assert_int_equal(item.cost, 1);
	assert_int_equal(item.decided_us, rig.now_ns / 1000 + STORE_CLOCK_US);
	assert_memory_equal(question + sizeof head + sizeof item, "leaky_bucket/", 13);
	/* The message is not a question any more, so it cannot be converted twice. */
	assert_int_equal(weir_question_late(question, (size_t)len, store.answer, store.answer_len),
			 WEIR_EFORMAT);
	rig_close(&rig);
	(void)state;
}

/* No message if all items failed or were refused. */
static void late_refusals_are_not_reported(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	for (uint32_t failing = 0; failing < 2; failing++) {
		int len;

		assert_int_equal(store_admitted(&rig, &store, "a=1", 9), failing ? 0 : 5);
		assert_int_equal(rig_ask(&rig, failing ? "a=2" : "a=1"), WEIR_WAIT);
		store.len = len = weir_ask_question(rig.ask, store.bytes, sizeof store.bytes);
		store.fail_mask = failing;
		store_serve(&store, rig.now_ns);
		assert_int_equal(weir_question_late(store.bytes, (size_t)len, store.answer,
						    store.answer_len),
				 0);
	}
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_nodes_share_a_limit),
		cmocka_unit_test(local_limits_are_decided_first),
		cmocka_unit_test(refusals_give_back),
		cmocka_unit_test(cancelled_requests_give_back),
		cmocka_unit_test(on_store_failure),
		cmocka_unit_test(delays_quotas_and_shadow_mode),
		cmocka_unit_test(calendar_windows),
		cmocka_unit_test(invalid_answers_are_rejected),
		cmocka_unit_test(largest_question),
		cmocka_unit_test(late_takes_are_reported),
		cmocka_unit_test(late_refusals_are_not_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
