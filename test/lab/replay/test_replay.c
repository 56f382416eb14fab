/* Replay of records: the numbers of each limit, totals, keys and waits. */
#include "lab/replay/replay_test.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rules/helper.h"

#define PER_IP(limit)                                                                              \
	"domain: d\n"                                                                              \
	"requests: [{descriptor: [{key: ip, from: remote_address}]}]\n"                            \
	"descriptors:\n"                                                                           \
	"- key: ip\n"                                                                              \
	"  rate_limit: " limit "\n"

/* Three per minute: 192.0.2.1 sends five within a minute, 192.0.2.2 sends one. */
static void a_limit_has_its_numbers(void **state)
{
	struct wr_lab_replay *replay =
		replay_open(PER_IP("{unit: minute, requests_per_unit: 3}"), NULL);
	const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];
	const struct wr_lab_replay_limit *limit;
	const struct wr_lab_replay_report *report;

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_true(replay_get(replay, "192.0.2.1", 10 * SECOND_NS + i));
	assert_true(replay_get(replay, "192.0.2.2", 10 * SECOND_NS + 3));
	assert_false(replay_get(replay, "192.0.2.1", 20 * SECOND_NS));
	assert_false(replay_get(replay, "192.0.2.1", 50 * SECOND_NS));
	assert_true(replay_get(replay, "192.0.2.1", 60 * SECOND_NS));
	report = replay_end(replay);
	assert_int_equal(report->limit_count, 1);
	limit = &report->limits[0];
	assert_int_equal(limit->requests, 7);
	assert_int_equal(limit->admitted, 5);
	assert_int_equal(limit->refused, 2);
	assert_int_equal(limit->keys, 2);
	assert_int_equal(limit->keys_refused, 1);
	assert_true(limit->keys_exact);
	assert_int_equal(limit->longest_wait_ns, 40 * SECOND_NS);
	assert_int_equal(limit->peak_offered, 4);
	assert_int_equal(limit->peak_admitted, 4);
	assert_int_equal(wr_lab_replay_top(replay, 0, found), 1);
	replay_assert_key(found[0], "192.0.2.1", 2);
	assert_int_equal(report->totals.requests, 7);
	assert_int_equal(report->totals.admitted, 5);
	assert_int_equal(report->totals.refused, 2);
	assert_int_equal(report->totals.first_ns, NOON_NS + 10 * SECOND_NS);
	assert_int_equal(report->totals.last_ns, NOON_NS + 60 * SECOND_NS);
	assert_int_equal(report->clients, 2);
	assert_int_equal(report->clients_refused, 1);
	assert_int_equal(report->evicted, 0);
	assert_int_equal(report->note_count, 0);
	wr_lab_replay_close(replay);
}

static const char mixed[] =
	"domain: d\n"
	"requests:\n"
	"- when: {remote_address: [10.0.0.0/8]}\n"
	"  allow: true\n"
	"- when: {path: '/v1/*'}\n"
	"  descriptor: [{key: ip, from: remote_address}]\n"
	"- when: {path: /v1/posts, method: POST}\n"
	"  descriptor: [{key: route, value: posts}, {key: user, from: identity}]\n"
	"- when: {path: /secret}\n"
	"  descriptor: [{key: user, from: header.x-user, missing: deny}]\n"
	"descriptors:\n"
	"- key: ip\n"
	"  rate_limit: {unit: minute, requests_per_unit: 4}\n"
	"- key: route\n"
	"  value: posts\n"
	"  descriptors:\n"
	"  - key: user\n"
	"    rate_limit: {unit: minute, requests_per_unit: 2}\n"
	"- key: user\n"
	"  rate_limit: {unit: minute, requests_per_unit: 2}\n";

static enum wr_lab_verdict feed(struct wr_lab_replay *replay, const char *client,
				const char *method, const char *target, const char *user,
				uint64_t after_ns)
{
	struct wr_lab_record record = replay_record(client, after_ns);

	record.method = wr_str(method);
	record.target = wr_str(target);
	record.user = wr_str(user);
	return wr_lab_replay_feed(replay, &record, NULL);
}

/* A request that one limit refuses is not charged by the other, and counts there as refused
 * elsewhere. */
static void two_limits_share_a_request(void **state)
{
	struct wr_lab_replay *replay = replay_open(mixed, NULL);
	const struct wr_lab_replay_report *report;
	const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		feed(replay, "192.0.2.1", "POST", "/v1/posts", "alice", i);
	feed(replay, "192.0.2.1", "GET", "/v1/users", "alice", 6);
	feed(replay, "192.0.2.1", "GET", "/v1/users", "alice", 7);
	feed(replay, "192.0.2.1", "GET", "/v1/users", "alice", 8);
	report = replay_end(replay);
	assert_int_equal(report->limits[0].requests, 8);
	assert_int_equal(report->limits[0].admitted, 4);
	assert_int_equal(report->limits[0].elsewhere, 3);
	assert_int_equal(report->limits[0].refused, 1);
	assert_int_equal(report->limits[1].requests, 5);
	assert_int_equal(report->limits[1].admitted, 2);
	assert_int_equal(report->limits[1].refused, 3);
	assert_int_equal(report->limits[2].requests, 0);
	assert_int_equal(wr_lab_replay_top(replay, 1, found), 1);
	replay_assert_key(found[0], "alice", 3); /* without "posts", which is in the rule */
	assert_int_equal(report->totals.admitted, 4);
	assert_int_equal(report->totals.refused, 4);
	assert_int_equal(wr_lab_replay_top_clients(replay, found), 1);
	replay_assert_key(found[0], "192.0.2.1", 4);
	wr_lab_replay_close(replay);
}

static void every_request_has_one_result(void **state)
{
	struct wr_lab_replay *replay = replay_open(mixed, NULL);
	struct wr_lab_record none = replay_record("192.0.2.1", 5);
	const struct wr_lab_replay_report *report;

	(void)state;
	assert_int_equal(feed(replay, "10.1.2.3", "GET", "/v1/a", "", 0), WR_LAB_ADMITTED);
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/other", "", 1), WR_LAB_ADMITTED);
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/v1/a", "", 2), WR_LAB_ADMITTED);
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/secret", "", 3), WR_LAB_REFUSED);
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/a#b", "", 4), WR_LAB_REFUSED);
	none.method = none.target = WR_STR("");
	none.status = 408;
	assert_int_equal(wr_lab_replay_feed(replay, &none, NULL), WR_LAB_NOT_DECIDED);
	none.target = WR_STR("\x16\x03"); /* TLS on a port without TLS */
	none.status = 400;
	assert_int_equal(wr_lab_replay_feed(replay, &none, NULL), WR_LAB_NOT_DECIDED);
	report = replay_end(replay);
	assert_int_equal(report->totals.requests, 7);
	assert_int_equal(report->totals.exempt, 1);
	assert_int_equal(report->totals.unlimited, 1);
	assert_int_equal(report->totals.admitted, 1);
	assert_int_equal(report->totals.missing, 1);
	assert_int_equal(report->totals.malformed, 1);
	assert_int_equal(report->totals.no_request, 2);
	assert_int_equal(report->note_count, 1);
	assert_non_null(strstr(report->notes[0], "no header field x-user"));
	wr_lab_replay_close(replay);
}

/* A CSV of keys and costs has no target: its lines are requests to /. */
static void a_log_of_keys_and_costs_is_replayed(void **state)
{
	struct wr_lab_replay *replay =
		replay_open(PER_IP("{unit: minute, requests_per_unit: 10}"), NULL);
	static const int64_t costs[] = {4, 5, 2, 1, 0, 30, -7};
	const struct wr_lab_replay_limit *limit;

	(void)state;
	for (uint64_t i = 0; i < sizeof costs / sizeof *costs; i++) {
		struct wr_lab_record record = replay_record("192.0.2.1", i);

		record.method = record.target = WR_STR("");
		record.status = 0;
		record.cost = costs[i];
		wr_lab_replay_feed(replay, &record, NULL);
	}
	limit = &replay_end(replay)->limits[0];
	assert_int_equal(limit->admitted, 3); /* 4 + 5 + 1 */
	assert_int_equal(limit->refused, 2);  /* 2 and 30 */
	assert_int_equal(limit->requests, 5); /* a cost of 0 or below takes nothing */
	assert_int_equal(limit->never, 1);    /* 30 never fits */
	wr_lab_replay_close(replay);
}

static void shadow_mode_admits(void **state)
{
	struct wr_lab_replay *replay =
		replay_open("domain: d\n"
			    "requests: [{descriptor: [{key: ip, from: remote_address}]}]\n"
			    "descriptors:\n"
			    "- {key: ip, shadow_mode: true, rate_limit: {unit: minute, "
			    "requests_per_unit: 2}}\n",
			    NULL);
	const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];
	const struct wr_lab_replay_limit *limit;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_true(replay_get(replay, "192.0.2.1", i));
	limit = &replay_end(replay)->limits[0];
	assert_int_equal(limit->admitted, 2);
	assert_int_equal(limit->would_refuse, 3);
	assert_int_equal(limit->refused, 0);
	assert_int_equal(limit->keys_refused, 1);
	assert_int_equal(wr_lab_replay_top(replay, 0, found), 1);
	replay_assert_key(found[0], "192.0.2.1", 3);
	wr_lab_replay_close(replay);
}

static void leaky_buckets_delay(void **state)
{
	struct wr_lab_replay *replay =
		replay_open(PER_IP("{unit: second, requests_per_unit: 4, algorithm: leaky_bucket, "
				   "queue_size: 4}"),
			    NULL);
	const struct wr_lab_replay_report *report;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		replay_get(replay, "192.0.2.1", 0);
	report = replay_end(replay);
	assert_int_equal(report->limits[0].admitted, 5);
	assert_int_equal(report->limits[0].delayed, 4);
	assert_int_equal(report->limits[0].longest_delay_ns, SECOND_NS);
	assert_int_equal(report->limits[0].refused, 5);
	assert_int_equal(report->totals.delayed, 4);
	wr_lab_replay_close(replay);
}

static void deferred_requests_are_counted_apart(void **state)
{
	struct wr_lab_replay *replay =
		replay_open("domain: d\n"
			    "requests: [{descriptor: [{key: ip, from: remote_address}]}]\n"
			    "descriptors:\n"
			    "- key: ip\n"
			    "  rate_limit: {unit: minute, requests_per_unit: 1, on_limit: defer}\n",
			    NULL);
	const struct wr_lab_replay_report *report;

	(void)state;
	assert_int_equal(feed(replay, "192.0.2.1", "POST", "/", "", 0), WR_LAB_ADMITTED);
	assert_int_equal(feed(replay, "192.0.2.1", "POST", "/", "", 1), WR_LAB_REFUSED);
	report = replay_end(replay);
	assert_int_equal(report->limits[0].deferred, 1);
	assert_int_equal(report->limits[0].refused, 0);
	assert_int_equal(report->totals.deferred, 1);
	wr_lab_replay_close(replay);
}

/* ---- names of clients ---- */

/* Clients of old logs are host names. The reader gives each name an address of its own. */
static void a_stand_in_is_shown_by_its_name(void **state)
{
	static const char rules[] =
		"domain: d\n"
		"requests:\n"
		"- descriptor: [{key: ip, from: remote_address}]\n"
		"- descriptor:\n"
		"  - {key: net, from: masked_remote_address}\n"
		"descriptors:\n"
		"- {key: ip, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
		"- {key: net, rate_limit: {unit: minute, requests_per_unit: 1}}\n";
	struct wr_lab_replay *replay = replay_open(rules, NULL);
	const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		struct wr_lab_record record = replay_record("fd00:1234:5678:9abc::1", i);

		record.client = WR_STR("piweba.example.org");
		record.stand_in = true;
		wr_lab_replay_feed(replay, &record, NULL);
	}
	replay_end(replay);
	assert_int_equal(wr_lab_replay_top(replay, 0, found), 1);
	replay_assert_key(found[0], "piweba.example.org", 2);
	assert_int_equal(wr_lab_replay_top(replay, 1, found), 1);
	replay_assert_key(found[0], "piweba.example.org", 2);
	wr_lab_replay_close(replay);
}

/* ---- descriptors from fields ---- */

static void rules_of_envoy_need_descriptors(void **state)
{
	static const char rules[] = "domain: envoy\n"
				    "descriptors:\n"
				    "- key: remote_address\n"
				    "  rate_limit: {unit: minute, requests_per_unit: 2}\n"
				    "- key: path\n"
				    "  value: /login\n"
				    "  descriptors:\n"
				    "  - key: remote_address\n"
				    "    rate_limit: {unit: minute, requests_per_unit: 1}\n";
	const char *const forms[] = {"remote_address=client", "path=path,remote_address=client"};
	struct wr_lab_replay_opts opts = {.descriptors = forms, .descriptor_count = 2};
	struct wr_lab_replay *replay = replay_open(rules, &opts);
	const struct wr_lab_replay_report *report;
	const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];

	(void)state;
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/login?a=1", "", 0), WR_LAB_ADMITTED);
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/login", "", 1), WR_LAB_REFUSED);
	assert_int_equal(feed(replay, "192.0.2.1", "GET", "/home", "", 2), WR_LAB_ADMITTED);
	report = replay_end(replay);
	assert_int_equal(report->limits[0].admitted, 2);
	assert_int_equal(report->limits[0].elsewhere, 1);
	assert_int_equal(report->limits[1].refused, 1);
	assert_int_equal(wr_lab_replay_top(replay, 1, found), 1);
	replay_assert_key(found[0], "192.0.2.1", 1);
	wr_lab_replay_close(replay);
}

static void assert_not_opened(const char *yaml, const struct wr_lab_replay_opts *opts,
			      const char *reason)
{
	struct weir_rules *rules = test_rules(yaml);
	struct wr_lab_replay *replay;
	struct weir_error error = {0};

	assert_true(wr_lab_replay_open(rules, opts, &replay, &error) < 0);
	if (!strstr(error.text, reason))
		fail_msg("%s", error.text);
	weir_rules_free(rules);
}

static void the_domain_is_chosen_like_in_the_gateway(void **state)
{
	static const char none[] =
		"domain: a\n"
		"descriptors: [{key: ip, rate_limit: {unit: minute, requests_per_unit: 1}}]\n";
	struct wr_lab_replay_opts opts = {.domain = "c"};
	const char *const forms[] = {"ip=address"};

	(void)state;
	assert_not_opened(none, &(struct wr_lab_replay_opts){0}, "no requests:");
	assert_not_opened(none, &opts, "--domain c is not in the rules");
	opts = (struct wr_lab_replay_opts){.descriptors = forms, .descriptor_count = 1};
	assert_not_opened(none, &opts, "there is no field 'address'");
	opts = (struct wr_lab_replay_opts){.memory_bytes = 1};
	assert_not_opened(PER_IP("{unit: minute, requests_per_unit: 1}"), &opts, "");
}

/* ---- the next record ---- */

/* The replay gives the same result if it knows the next record, also if that has no request. */
static void the_next_record_changes_nothing(void **state)
{
	enum { COUNT = 400 };
	static struct wr_lab_record records[COUNT];
	static enum wr_lab_verdict verdicts[COUNT];
	static const char *const clients[] = {"192.0.2.1", "192.0.2.2", "10.0.0.9"};
	static const char *const targets[] = {"/v1/posts", "/v1/users", "/other", "/a#b", ""};

	(void)state;
	for (unsigned i = 0; i < COUNT; i++) {
		records[i] = replay_record(clients[i % 7 % 3], i * SECOND_NS);
		records[i].target = wr_str(targets[i % 11 % 5]);
		records[i].method = records[i].target.len ? WR_STR("POST") : WR_STR("");
		records[i].user = WR_STR("alice");
		records[i].status = records[i].target.len ? 200 : 408;
	}
	for (unsigned ahead = 0; ahead < 2; ahead++) {
		struct wr_lab_replay *replay = replay_open(mixed, NULL);
		const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];

		for (unsigned i = 0; i < COUNT; i++) {
			bool known = ahead && i % 13 && i + 1 < COUNT;
			enum wr_lab_verdict verdict = wr_lab_replay_feed(
				replay, &records[i], known ? &records[i + 1] : NULL);

			if (ahead)
				assert_int_equal(verdict, verdicts[i]);
			verdicts[i] = verdict;
		}
		replay_end(replay);
		assert_int_equal(wr_lab_replay_top(replay, 1, found), 1);
		replay_assert_key(found[0], "alice",
				  wr_lab_replay_report(replay)->limits[1].refused);
		assert_in_range(found[0]->count, 20, 200);
		wr_lab_replay_close(replay);
	}
}

/* ---- memory ---- */

/* The smallest table has room for about 6,000 keys. */
static void evictions_are_reported(void **state)
{
	struct wr_lab_replay_opts opts = {.memory_bytes = 256 << 10};
	struct wr_lab_replay *replay =
		replay_open(PER_IP("{unit: hour, requests_per_unit: 3}"), &opts);
	const struct wr_lab_replay_report *report;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		char client[32];

		snprintf(client, sizeof client, "10.0.%u.%u", i / 256, i % 256);
		replay_get(replay, client, i);
	}
	report = replay_end(replay);
	assert_in_range(report->evicted, 10000, 17000);
	assert_int_equal(report->limits[0].keys, 20000);
	wr_lab_replay_close(replay);
}

static void timelines_are_optional(void **state)
{
	struct wr_lab_replay_opts opts = {.timelines = true};
	struct wr_lab_replay *replay =
		replay_open(PER_IP("{unit: minute, requests_per_unit: 2}"), &opts);
	const struct wr_lab_replay_report *report;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		replay_get(replay, "192.0.2.1", i);
	report = replay_end(replay);
	assert_int_equal(report->timeline->peak[WR_LAB_TRACK_ADMITTED], 2);
	assert_int_equal(report->timeline->peak[WR_LAB_TRACK_REFUSED], 3);
	assert_int_equal(report->limits[0].timeline->peak[WR_LAB_TRACK_REFUSED], 3);
	wr_lab_replay_close(replay);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_has_its_numbers),
		cmocka_unit_test(two_limits_share_a_request),
		cmocka_unit_test(every_request_has_one_result),
		cmocka_unit_test(a_log_of_keys_and_costs_is_replayed),
		cmocka_unit_test(shadow_mode_admits),
		cmocka_unit_test(leaky_buckets_delay),
		cmocka_unit_test(deferred_requests_are_counted_apart),
		cmocka_unit_test(a_stand_in_is_shown_by_its_name),
		cmocka_unit_test(rules_of_envoy_need_descriptors),
		cmocka_unit_test(the_domain_is_chosen_like_in_the_gateway),
		cmocka_unit_test(the_next_record_changes_nothing),
		cmocka_unit_test(evictions_are_reported),
		cmocka_unit_test(timelines_are_optional),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
