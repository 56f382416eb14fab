/* Requests that limits put off: whose order they keep, when they come behind others, what is
 * counted, and how they are asked about again. */
#include "standin.h"

#include <stdio.h>
#include <string.h>

#include <weir/control.h>

#include "table/deferred.h"

#define NOW_S ((uint32_t)(NOW_NS / SECOND_NS))

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: user\n"
	"  rate_limit: {unit: minute, requests_per_unit: 6, name: u, on_limit: defer}\n"
	"  descriptors:\n"
	"  - key: path\n"
	"    rate_limit: {unit: minute, requests_per_unit: 2, on_limit: defer,\n"
	"                 defer: {headers: [X-A, b], max_body: 10, max_age: 1h,\n"
	"                         max_tries: 3, max_waiting: 4}}\n"
	"- key: all\n"
	"  rate_limit: {unit: minute, requests_per_unit: 8}\n"
	"- key: free\n";

static char record[1024];

/* As rig_ask, by a host that can keep requests. */
static int ask(struct rig *rig, const char *descriptors)
{
	char text[256], *one, *rest = text;

	snprintf(text, sizeof text, "%s", descriptors);
	rig_begin(rig);
	assert_int_equal(weir_ask_record(rig->ask, record, sizeof record), 0);
	while ((one = strsep(&rest, ";")))
		assert_int_equal(rig_add(rig, one, WEIR_HITS_UNSET), 0);
	return rig_decide(rig);
}

static struct weir_deferral deferral(struct rig *rig)
{
	struct weir_deferral got = {.size = sizeof got};

	assert_int_equal(weir_ask_deferral(rig->ask, &got), 0);
	return got;
}

static void drain(struct rig *rig, const void *bytes, size_t len)
{
	rig_begin(rig);
	assert_int_equal(weir_ask_replay(rig->ask, bytes, len), 0);
	assert_int_equal(weir_ask_mark_delivery(rig->ask), 0);
}

static void says_how(void **state)
{
	struct weir_deferral got;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	rig.now_ns = NOW_NS + 15 * SECOND_NS;
	assert_int_equal(ask(&rig, "user=1|path=/a"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "user=1|path=/a"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "user=1|path=/a"), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.rule.len, 14);
	assert_memory_equal(got.rule.ptr, "d/user/path/1m", 14);
	assert_int_equal(got.header_count, 2);
	assert_memory_equal(got.headers[0].ptr, "x-a", 3);
	assert_int_equal(got.max_body, 10);
	assert_int_equal(got.max_age_ns, HOUR_NS);
	assert_int_equal(got.max_tries, 3);
	assert_int_equal(got.max_waiting, 4);
	assert_int_equal(got.wait_ns, 45 * SECOND_NS);
	assert_int_equal(got.interval_ns, 30 * SECOND_NS);
	assert_int_equal(got.in_time, 60 * 2 + 2 * 2 + 1);
	/* Without a word of its own. */
	for (int i = 0; i < 6; i++)
		assert_int_equal(ask(&rig, "user=2"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "user=2"), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.header_count, 10);
	assert_int_equal(got.max_body, 1 << 20);
	assert_int_equal(got.max_age_ns, DAY_NS);
	assert_int_equal(got.max_tries, 20);
	assert_int_equal(got.max_waiting, 1000);
	assert_int_equal(got.in_time, 1440 * 6 + 2 * 6 + 1);
	rig_close(&rig);
}

/* The most specific one, whichever refused, and one name in every table. */
static void keys(void **state)
{
	struct weir_deferral one, two;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	for (int i = 0; i < 6; i++)
		assert_int_equal(ask(&rig, "user=1"), WEIR_ADMIT);
	/* The user's limit refuses, the order is that of the path's. */
	assert_int_equal(ask(&rig, "user=1;user=1|path=/a"), WEIR_DEFER);
	one = deferral(&rig);
	assert_int_equal(ask(&rig, "user=1|path=/a;user=1"), WEIR_DEFER);
	two = deferral(&rig);
	assert_memory_equal(one.key, two.key, sizeof one.key);
	assert_int_equal(ask(&rig, "user=1;user=1|path=/b"), WEIR_DEFER);
	two = deferral(&rig);
	assert_memory_not_equal(one.key, two.key, sizeof one.key);
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	two = deferral(&rig);
	rig_close(&rig);
	/* For ever, as a queue on disk has it: BLAKE2s of the key and the limit's id. */
	assert_memory_equal(two.key,
			    "\xf0\xcf\xa1\xbf\xb0\xe6\xa4\xbc\x7c\xb0\x7d\xde\x47\xb0\xa8\x22", 16);
}

/* One who cannot keep it is told the same as ever, one who will not is refused. */
static void who_cannot(void **state)
{
	struct weir_deferral got = {.size = sizeof got};
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "user=1", 9), 6);
	assert_int_equal(rig_ask(&rig, "user=1"), WEIR_DEFER);
	assert_int_equal(weir_ask_deferral(rig.ask, &got), WEIR_EINVAL);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_EINVAL);
	rig_begin(&rig);
	assert_int_equal(weir_ask_no_defer(rig.ask), 0);
	rig_add(&rig, "user=1", WEIR_HITS_UNSET);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(weir_ask_no_defer(rig.ask), WEIR_EINVAL);
	assert_int_equal(rig_stat(&rig, "d/user/1m").refused, 1);
	rig_close(&rig);
}

/* Counted when it is known what became of it, and once. */
static void counted_once(void **state)
{
	struct weir_str content_type;
	char body[512];
	struct rig rig;
	int len;

	(void)state;
	rig_open(&rig, rules, "d");
	for (int i = 0; i < 6; i++)
		ask(&rig, "user=1");
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 0);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_DEFER);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_EINVAL);
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 1);
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	assert_int_equal(weir_ask_report_deferral(rig.ask, "away"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).verdict, WEIR_REFUSE);
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 1);
	assert_int_equal(rig_stat(&rig, "d/user/1m").refused, 1);
	len = weir_ask_body(rig.ask, WEIR_BODY_PROBLEM, body, sizeof body - 1, &content_type);
	body[len] = 0;
	assert_non_null(
		strstr(body, "could not be queued for later delivery (away). Try again in 60 s."));
	assert_non_null(strstr(body, "],\"not-deferred\":\"away\"}\n"));
	len = weir_ask_body(rig.ask, WEIR_BODY_TEXT, body, sizeof body - 1, &content_type);
	body[len] = 0;
	assert_non_null(strstr(body, "could not be queued for later delivery (away)."));
	rig_close(&rig);
}

/* While some are kept, new ones join the tail without taking anything. */
static void behind_others(void **state)
{
	struct weir_deferral got;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	for (int i = 0; i < 6; i++)
		ask(&rig, "user=1");
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	got = deferral(&rig);
	assert_true(wr_deferred_set(rig.table, got.key, 3, NOW_S));
	rig.now_ns += MINUTE_NS;
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.wait_ns, 0); /* of itself; the position tells the rest */
	assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OVER_LIMIT);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_DEFER);
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 1);
	/* Others of the rule, who only looks, who cannot be kept, and who keeps nothing pass. */
	assert_int_equal(ask(&rig, "user=2"), WEIR_ADMIT);
	rig_begin(&rig);
	weir_ask_record(rig.ask, record, sizeof record);
	rig_add(&rig, "user=1", 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 6);
	assert_int_equal(rig_ask(&rig, "user=1"), WEIR_ADMIT);
	/* Another limit that refuses outright has the last word. */
	for (int i = 0; i < 8; i++)
		assert_int_equal(ask(&rig, "all=1"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "user=1;all=1"), WEIR_REFUSE);
	/* When the last is gone, so is the wait. */
	assert_true(wr_deferred_set(rig.table, got.key, 0, NOW_S));
	assert_int_equal(ask(&rig, "user=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 4);
	rig_close(&rig);
}

/* A ban refuses, and what is paused neither refuses nor keeps anyone waiting. */
static void operators(void **state)
{
	struct weir_str user = {"d/user/1m", 9};
	struct weir_entry entry = {.key = {"user", 4}, .value = {"1", 1}};
	struct weir_target target = {
		.size = sizeof target, .domain = {"d", 1}, .entries = &entry, .count = 1};
	struct weir_deferral got;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	for (int i = 0; i < 6; i++)
		ask(&rig, "user=1");
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	got = deferral(&rig);
	wr_deferred_set(rig.table, got.key, 1, NOW_S);
	assert_int_equal(weir_control_pause(rig.engine, user, NULL), 0);
	assert_int_equal(ask(&rig, "user=1"), WEIR_ADMIT);
	assert_int_equal(weir_control_resume(rig.engine, user, NULL), 0);
	assert_int_equal(ask(&rig, "user=1"), WEIR_DEFER);
	assert_int_equal(weir_control_ban(rig.engine, &target, NOW_NS + HOUR_NS, NOW_NS, NULL), 1);
	assert_int_equal(ask(&rig, "user=1"), WEIR_REFUSE);
	wr_deferred_set(rig.table, got.key, 0, NOW_S);
	assert_int_equal(ask(&rig, "user=1"), WEIR_REFUSE);
	rig_close(&rig);
}

/* Asked again by whoever delivers: the same counters, the same costs, nobody before it. */
static void drained(void **state)
{
	struct weir_deferral got;
	struct weir_str bytes;
	char copy[sizeof record];
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	rig_begin(&rig);
	weir_ask_record(rig.ask, record, sizeof record);
	rig_add(&rig, "user=1", 4);
	rig_add(&rig, "free=1", WEIR_HITS_UNSET);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	rig_begin(&rig);
	weir_ask_record(rig.ask, record, sizeof record);
	rig_add(&rig, "user=1", 4);
	assert_int_equal(rig_decide(&rig), WEIR_DEFER);
	bytes = weir_ask_recorded(rig.ask);
	assert_true(bytes.len > 0);
	memcpy(copy, bytes.ptr, bytes.len);
	got = deferral(&rig);
	wr_deferred_set(rig.table, got.key, 1, NOW_S);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_DEFER);
	for (int i = 0; i < 3; i++) {
		drain(&rig, copy, bytes.len);
		assert_int_equal(rig_decide(&rig), WEIR_DEFER);
		assert_int_equal(rig_result(&rig).retry_after_ns, MINUTE_NS);
		assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_EINVAL);
	}
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 1);
	assert_int_equal(rig_stat(&rig, "d/user/1m").refused, 0);
	rig.now_ns += MINUTE_NS;
	drain(&rig, copy, bytes.len);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 2);
	assert_int_equal(rig_stat(&rig, "d/user/1m").admitted, 2);
	rig_close(&rig);
}

/* A limit that counts rejected requests counts the first refusal, not each try to deliver. */
static void tries_are_not_charged(void **state)
{
	struct weir_str bytes;
	char copy[sizeof record];
	struct rig rig;

	(void)state;
	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: a\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1, on_limit: defer}\n"
		 "- key: b\n"
		 "  rate_limit: {unit: day, requests_per_unit: 9, algorithm: sliding_window_log,\n"
		 "               count_rejected: true}\n",
		 "d");
	assert_int_equal(ask(&rig, "a=1;b=1"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "a=1;b=1"), WEIR_DEFER);
	bytes = weir_ask_recorded(rig.ask);
	memcpy(copy, bytes.ptr, bytes.len);
	for (int i = 0; i < 5; i++) {
		drain(&rig, copy, bytes.len);
		assert_int_equal(rig_decide(&rig), WEIR_DEFER);
		assert_int_equal(rig_status(&rig, 1).remaining, 6); /* were it taken */
	}
	rig_close(&rig);
}

/* One that its counter admits after max_age only, and what is no reason to say so. */
static void too_late(void **state)
{
	static const char text[] =
		"domain: d\n"
		"descriptors:\n"
		"- key: a\n"
		"  rate_limit: {period: 10m, requests_per_unit: 1, algorithm: token_bucket,\n"
		"               on_limit: defer, defer: {max_age: 5m}}\n"
		"- key: never\n"
		"  rate_limit: {period: 10m, requests_per_unit: 0, on_limit: defer}\n";
	struct weir_entry entry = {.key = {"a", 1}, .value = {"1", 1}};
	struct weir_target target = {
		.size = sizeof target, .domain = {"d", 1}, .entries = &entry, .count = 1};
	struct weir_deferral got;
	struct rig rig;

	(void)state;
	rig_open(&rig, text, "d");
	assert_int_equal(ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.wait_ns, 600 * SECOND_NS);
	assert_int_equal(got.in_time, 0);
	assert_int_equal(ask(&rig, "never=1"), WEIR_DEFER);
	assert_int_equal(deferral(&rig).in_time, 0);
	/* Half way there it is in time, and so is one who only comes behind others. */
	rig.now_ns += 300 * SECOND_NS;
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.in_time, 0 + 2 * 1 + 1);
	wr_deferred_set(rig.table, got.key, 2, wr_seconds(rig.now_ns));
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	assert_int_equal(deferral(&rig).in_time, 3);
	/* An operator's grant makes it unsure. */
	wr_deferred_set(rig.table, got.key, 0, wr_seconds(rig.now_ns));
	assert_int_equal(weir_control_grant(rig.engine, &target, 1, WEIR_NEVER, rig.now_ns, NULL),
			 1);
	assert_int_equal(ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	assert_true(deferral(&rig).in_time == UINT64_MAX);
	rig_close(&rig);
}

/* With a central store: it is not asked for one that comes behind others, and it does not charge
 * for tries to deliver. */
static void centrally(void **state)
{
	static struct store store;
	struct weir_deferral got;
	struct weir_str bytes;
	char copy[sizeof record];
	struct rig rig;

	(void)state;
	memset(&store, 0, sizeof store);
	rig_open_with(
		&rig,
		rig_rules(
			"domain: d\n"
			"descriptors:\n"
			"- key: a\n"
			"  rate_limit: {unit: day, requests_per_unit: 1, on_limit: defer}\n"
			"- key: b\n"
			"  rate_limit: {unit: day, requests_per_unit: 9, count_rejected: true}\n"),
		"d", WEIR_ENGINE_CENTRAL);
	assert_int_equal(store_finish(&rig, &store, ask(&rig, "a=1;b=1")), WEIR_ADMIT);
	assert_int_equal(store_finish(&rig, &store, ask(&rig, "a=1;b=1")), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.in_time, 1 + 2 * 1 + 1);
	bytes = weir_ask_recorded(rig.ask);
	memcpy(copy, bytes.ptr, bytes.len);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_DEFER);
	wr_deferred_set(rig.table, got.key, 2, NOW_S);
	assert_int_equal(store.questions, 2);
	assert_int_equal(ask(&rig, "a=1;b=1"), WEIR_DEFER);
	assert_int_equal(deferral(&rig).wait_ns, 0);
	assert_int_equal(weir_ask_question(rig.ask, store.bytes, sizeof store.bytes), 0);
	drain(&rig, copy, bytes.len);
	assert_int_equal(store_finish(&rig, &store, rig_decide(&rig)), WEIR_DEFER);
	assert_int_equal(store.questions, 3);
	assert_int_equal(store.items[1].flags & WEIR_COUNT_REJECTED, 0);
	rig_close(&rig);
}

/* The source is part of a key, so it goes along. */
static void over_http(void **state)
{
	static const char http[] =
		"domain: d\n"
		"requests:\n"
		"- descriptor: [{key: who, from: [header.x-user, remote_address]}]\n"
		"descriptors:\n"
		"- key: who\n"
		"  rate_limit: {unit: day, requests_per_unit: 1, on_limit: defer}\n";
	struct weir_http_view view = {.size = sizeof view,
				      .peer_len = 4,
				      .peer = {10, 0, 0, 1},
				      .method = {"POST", 4},
				      .target = {"/", 1}};
	struct weir_str bytes;
	struct rig rig;

	(void)state;
	rig_open(&rig, http, "d");
	rig_begin(&rig);
	assert_int_equal(weir_ask_record(rig.ask, record, sizeof record), 0);
	assert_int_equal(weir_ask_http(rig.ask, &view), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	bytes = weir_ask_recorded(rig.ask);
	drain(&rig, bytes.ptr, bytes.len);
	assert_int_equal(rig_decide(&rig), WEIR_DEFER);
	rig_close(&rig);
}

static void what_does_not_fit(void **state)
{
	struct weir_deferral got = {.size = sizeof got};
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "user=1", 6), 6);
	for (size_t cap = 0; cap < 34; cap++) {
		rig_begin(&rig);
		assert_int_equal(weir_ask_record(rig.ask, record, cap), 0);
		rig_add(&rig, "user=1", WEIR_HITS_UNSET);
		assert_int_equal(rig_decide(&rig), WEIR_DEFER);
		if (cap < 27) {
			assert_int_equal(weir_ask_deferral(rig.ask, &got), WEIR_EROOM);
			assert_int_equal(weir_ask_recorded(rig.ask).len, 0);
		} else {
			assert_int_equal(weir_ask_deferral(rig.ask, &got), 0);
			assert_int_equal(weir_ask_recorded(rig.ask).len, 27);
		}
	}
	/* Nothing that defers: nothing to keep. An override cannot be said again. */
	assert_int_equal(ask(&rig, "all=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_recorded(rig.ask).len, 0);
	rig_begin(&rig);
	weir_ask_record(rig.ask, record, sizeof record);
	rig_add(&rig, "user=1", WEIR_HITS_UNSET);
	rig_add_override(&rig, "x=1", 5, 2, 1);
	assert_int_equal(rig_decide(&rig), WEIR_DEFER);
	assert_int_equal(weir_ask_deferral(rig.ask, &got), WEIR_EROOM);
	rig_close(&rig);
}

/* Bytes from a disk may be anything. */
static void nonsense(void **state)
{
	struct weir_str bytes;
	char copy[sizeof record], wrong[sizeof record];
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	assert_int_equal(ask(&rig, "user=1;user=1|path=/a"), WEIR_ADMIT);
	bytes = weir_ask_recorded(rig.ask);
	memcpy(copy, bytes.ptr, bytes.len);
	rig_begin(&rig);
	for (size_t len = 0; len < bytes.len; len++) {
		int rc = weir_ask_replay(rig.ask, copy, len);

		/* Cut between two descriptors it is one that is shorter. */
		if (len != 1 && len != 27)
			assert_int_equal(rc, WEIR_EFORMAT);
	}
	for (size_t at = 0; at < bytes.len; at++)
		for (unsigned byte = 0; byte < 256; byte += 5) {
			rig_begin(&rig);
			memcpy(wrong, copy, bytes.len);
			wrong[at] = (char)byte;
			if (weir_ask_replay(rig.ask, wrong, bytes.len) == 0)
				rig_decide(&rig);
		}
	assert_int_equal(weir_ask_replay(rig.ask, NULL, 0), WEIR_EINVAL);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_how),      cmocka_unit_test(keys),
		cmocka_unit_test(who_cannot),    cmocka_unit_test(counted_once),
		cmocka_unit_test(behind_others), cmocka_unit_test(operators),
		cmocka_unit_test(drained),       cmocka_unit_test(tries_are_not_charged),
		cmocka_unit_test(over_http),     cmocka_unit_test(centrally),
		cmocka_unit_test(too_late),      cmocka_unit_test(what_does_not_fit),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
