/* Deferred requests: the key of their queue, the wait behind queued requests, statistics, and
 * delivery. */
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

/* Does the same as rig_ask, for a host that queues requests. */
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

static void begin_delivery(struct rig *rig, const void *bytes, size_t len)
{
	rig_begin(rig);
	assert_int_equal(weir_ask_replay(rig->ask, bytes, len), 0);
	assert_int_equal(weir_ask_mark_delivery(rig->ask), 0);
}

static void deferral_of_a_rule(void **state)
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
	/* A rule with the default settings. */
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

/* The queue is that of the most specific limit, whichever limit refused, and has the same key in
 * every table. */
static void key_of_the_queue(void **state)
{
	struct weir_deferral one, two;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	for (int i = 0; i < 6; i++)
		assert_int_equal(ask(&rig, "user=1"), WEIR_ADMIT);
	/* The limit of the user refuses, but the key of the queue is that of the path. */
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
	/* The key never changes, because queues on disk contain it: BLAKE2s of the key and the
	 * limit's id. */
	assert_memory_equal(two.key,
			    "\xf0\xcf\xa1\xbf\xb0\xe6\xa4\xbc\x7c\xb0\x7d\xde\x47\xb0\xa8\x22", 16);
}

/* A host that does not record gets WEIR_DEFER; a host that called weir_ask_no_defer gets
 * WEIR_REFUSE. */
static void hosts_that_do_not_queue(void **state)
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

/* A deferred request is counted once, when the host has reported it. */
static void deferred_requests_are_counted_once(void **state)
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

/* While requests are queued, new requests are queued behind them and take nothing. */
static void wait_behind_queued_requests(void **state)
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
	assert_int_equal(got.wait_ns, 0); /* wait of the request itself, without the queue */
	assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OVER_LIMIT);
	assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_DEFER);
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 1);
	/* Not affected: other keys of the rule, requests of cost 0, requests that cannot be
	 * deferred, and asks that are not recorded. */
	assert_int_equal(ask(&rig, "user=2"), WEIR_ADMIT);
	rig_begin(&rig);
	weir_ask_record(rig.ask, record, sizeof record);
	rig_add(&rig, "user=1", 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 6);
	assert_int_equal(rig_ask(&rig, "user=1"), WEIR_ADMIT);
	/* Another limit that refuses without deferring makes the verdict WEIR_REFUSE. */
	for (int i = 0; i < 8; i++)
		assert_int_equal(ask(&rig, "all=1"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "user=1;all=1"), WEIR_REFUSE);
	/* After the last delivery there is no wait. */
	assert_true(wr_deferred_set(rig.table, got.key, 0, NOW_S));
	assert_int_equal(ask(&rig, "user=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 4);
	rig_close(&rig);
}

/* A ban refuses. A paused rule neither refuses nor queues. */
static void bans_and_pauses(void **state)
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

/* A delivery uses the same counters and costs, and does not wait behind other requests. */
static void deliveries(void **state)
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
		begin_delivery(&rig, copy, bytes.len);
		assert_int_equal(rig_decide(&rig), WEIR_DEFER);
		assert_int_equal(rig_result(&rig).retry_after_ns, MINUTE_NS);
		assert_int_equal(weir_ask_report_deferral(rig.ask, NULL), WEIR_EINVAL);
	}
	assert_int_equal(rig_stat(&rig, "d/user/1m").deferred, 1);
	assert_int_equal(rig_stat(&rig, "d/user/1m").refused, 0);
	rig.now_ns += MINUTE_NS;
	begin_delivery(&rig, copy, bytes.len);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 2);
	assert_int_equal(rig_stat(&rig, "d/user/1m").admitted, 2);
	rig_close(&rig);
}

/* A limit with count_rejected counts the first refusal, but not each attempt of delivery. */
static void deliveries_are_not_charged_as_rejected(void **state)
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
		begin_delivery(&rig, copy, bytes.len);
		assert_int_equal(rig_decide(&rig), WEIR_DEFER);
		/* The number that would remain if the request took a unit. */
		assert_int_equal(rig_status(&rig, 1).remaining, 6);
	}
	rig_close(&rig);
}

/* in_time is 0 only if the counter admits no request within max_age. */
static void in_time_is_zero_after_max_age(void **state)
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
	/* After half of the wait the request is in time, and so is a request that only waits behind
	 * others. */
	rig.now_ns += 300 * SECOND_NS;
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	got = deferral(&rig);
	assert_int_equal(got.in_time, 0 + 2 * 1 + 1);
	wr_deferred_set(rig.table, got.key, 2, wr_seconds(rig.now_ns));
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	assert_int_equal(deferral(&rig).in_time, 3);
	/* With an operator's grant, in_time is not known. */
	wr_deferred_set(rig.table, got.key, 0, wr_seconds(rig.now_ns));
	assert_int_equal(weir_control_grant(rig.engine, &target, 1, WEIR_NEVER, rig.now_ns, NULL),
			 1);
	assert_int_equal(ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(ask(&rig, "a=1"), WEIR_DEFER);
	assert_true(deferral(&rig).in_time == UINT64_MAX);
	rig_close(&rig);
}

/* With a central store: a request behind queued requests asks no question, and refused attempts of
 * delivery are not counted. */
static void with_a_central_store(void **state)
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
	begin_delivery(&rig, copy, bytes.len);
	assert_int_equal(store_finish(&rig, &store, rig_decide(&rig)), WEIR_DEFER);
	assert_int_equal(store.questions, 3);
	assert_int_equal(store.items[1].flags & WEIR_COUNT_REJECTED, 0);
	rig_close(&rig);
}

/* The record contains the source, because it is part of the key. */
static void records_of_http_requests(void **state)
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
	begin_delivery(&rig, bytes.ptr, bytes.len);
	assert_int_equal(rig_decide(&rig), WEIR_DEFER);
	rig_close(&rig);
}

/* A record does not tell when units were taken, so the host cannot queue a request that gives units
 * back. */
static void requests_that_give_back_are_not_recorded(void **state)
{
	struct weir_deferral got = {.size = sizeof got};
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "user=1", 6), 6);
	assert_int_equal(rig_admitted(&rig, "user=2", 1), 1);
	rig_begin(&rig);
	assert_int_equal(weir_ask_record(rig.ask, record, sizeof record), 0);
	rig_add(&rig, "user=1", 4);
	rig_add(&rig, "user=2", -1);
	assert_int_equal(weir_ask_taken_at(rig.ask, rig.now_ns), 0);
	assert_int_equal(rig_decide(&rig), WEIR_DEFER);
	assert_int_equal(weir_ask_deferral(rig.ask, &got), WEIR_EROOM);
	assert_int_equal(weir_ask_recorded(rig.ask).len, 0);
	rig_close(&rig);
}

static void records_that_do_not_fit(void **state)
{
	struct weir_deferral got = {.size = sizeof got};
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "user=1", 6), 6);
	for (size_t cap = 0; cap < 42; cap++) {
		rig_begin(&rig);
		assert_int_equal(weir_ask_record(rig.ask, record, cap), 0);
		rig_add(&rig, "user=1", WEIR_HITS_UNSET);
		assert_int_equal(rig_decide(&rig), WEIR_DEFER);
		if (cap < 35) {
			assert_int_equal(weir_ask_deferral(rig.ask, &got), WEIR_EROOM);
			assert_int_equal(weir_ask_recorded(rig.ask).len, 0);
		} else {
			assert_int_equal(weir_ask_deferral(rig.ask, &got), 0);
			assert_int_equal(weir_ask_recorded(rig.ask).len, 35);
		}
	}
	/* Without a limit that defers the record is empty. An override cannot be recorded. */
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

/* Invalid records are rejected. */
static void invalid_records_are_rejected(void **state)
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

		/* A record that is cut between two descriptors is a valid, shorter record. */
		if (len != 1 && len != 35)
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
		cmocka_unit_test(deferral_of_a_rule),
		cmocka_unit_test(key_of_the_queue),
		cmocka_unit_test(hosts_that_do_not_queue),
		cmocka_unit_test(deferred_requests_are_counted_once),
		cmocka_unit_test(wait_behind_queued_requests),
		cmocka_unit_test(bans_and_pauses),
		cmocka_unit_test(deliveries),
		cmocka_unit_test(deliveries_are_not_charged_as_rejected),
		cmocka_unit_test(records_of_http_requests),
		cmocka_unit_test(with_a_central_store),
		cmocka_unit_test(in_time_is_zero_after_max_age),
		cmocka_unit_test(requests_that_give_back_are_not_recorded),
		cmocka_unit_test(records_that_do_not_fit),
		cmocka_unit_test(invalid_records_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
