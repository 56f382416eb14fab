/* HTTP requests that try to escape their limits: with paths that servers read in different ways,
 * with names that have two values, or with too many limits. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Returns how many of `crowd` requests are admitted. */
static int admitted(struct rig *rig, const char *line, const char *headers, int crowd)
{
	int count = 0;

	while (crowd--)
		count += rig_http(rig, line, headers, "192.0.2.1") == WEIR_ADMIT;
	return count;
}

static const char exempting[] =
	"domain: d\n"
	"requests:\n"
	"- {when: {path: /health}, allow: true}\n"
	"- {when: {path: '/v1/*'}, descriptor: [{key: api, from: remote_address}]}\n"
	"- {when: {path: '/free/*'}, descriptor: [{key: free, value: 1}]}\n"
	"- {when: {path: '/less/*'}, descriptor: [{key: less, value: 1}]}\n"
	"- {when: {path: '/q1/*'}, descriptor: [{key: q1, value: 1}]}\n"
	"- {when: {path: '/q2/*'}, descriptor: [{key: q2, value: 1}]}\n"
	"- {when: {path: '/by/*'}, descriptor: [{key: path, from: path}]}\n"
	"- {when: {path: '/need/*'}, descriptor: [{key: api, from: header.key, missing: deny}]}\n"
	"descriptors:\n"
	"- {key: api, rate_limit: {name: api, unit: day, requests_per_unit: 2}}\n"
	"- {key: free, rate_limit: {unlimited: true, replaces: [{name: api}]}}\n"
	"- {key: less, rate_limit: {unit: day, requests_per_unit: 9, replaces: [{name: api}]}}\n"
	"- {key: q1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}\n"
	"- {key: q2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 9}}\n"
	"- {key: path, rate_limit: {unit: day, requests_per_unit: 2}}\n"
	"- {key: path, value: /by/vip, rate_limit: {unlimited: true}}\n";

static void path_readings_do_not_escape_limits(void **state)
{
	static const char *const tries[] = {
		"GET /v1/users/7",
		"GET /v1/users/7;x=%2f..%2f..%2f..%2fhealth",
		"GET /v1/users/7%2f..%2f..%2f..%2fhealth",
		"GET /v1/users/7/..%5c..%5c..%5chealth",
		"GET /v1/users/7/../../../health",
		"GET /v1//../health",
		"GET /v1/x%2f..%2f..%2ffree/x",
		"GET /v1/x/..;/..;/free/x",
		"GET /v1/x%2f..%2f..%2fless/x",
		"HEAD /v1/users/7",
	};
	struct rig rig;

	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		rig_open(&rig, exempting, "d");
		assert_int_equal(admitted(&rig, tries[i], NULL, 5), 2);
		rig_close(&rig);
	}
	rig_open(&rig, exempting, "d");
	assert_int_equal(admitted(&rig, "GET /health", NULL, 5), 5);
	assert_int_equal(admitted(&rig, "GET /free/x", NULL, 5), 5);
	assert_int_equal(admitted(&rig, "GET /less/x", NULL, 20), 9);
	/* One quota that admits suffices, but not a quota of another reading. */
	assert_int_equal(admitted(&rig, "GET /q1/x", NULL, 5), 2);
	assert_int_equal(admitted(&rig, "GET /q1/x%2f..%2f..%2fq2/x", NULL, 5), 0);
	/* The value of one reading is exempt, the value of another reading is not. */
	assert_int_equal(admitted(&rig, "GET /by/vip", NULL, 5), 5);
	assert_int_equal(admitted(&rig, "GET /by/x/..;/vip", NULL, 5), 2);
	/* A request that one reading denies is not admitted by another reading. */
	assert_int_equal(rig_http(&rig, "GET /need/x%2f..%2f..%2fhealth", NULL, NULL), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 403);
	assert_int_equal(rig_http(&rig, "GET /health#/../v1/users/7", NULL, NULL), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 400);
	rig_close(&rig);
	(void)state;
}

static const char keyed[] =
	"domain: d\n"
	"requests:\n"
	"- {when: {path: /share}, descriptor: [{key: user, from: [header.u, remote_address]}]}\n"
	"- {when: {path: /first}, descriptor: [{key: user, from: query.u, ambiguous: first}]}\n"
	"- {when: {path: /last}, descriptor: [{key: user, from: query.u, ambiguous: last}]}\n"
	"descriptors:\n"
	"- {key: user, rate_limit: {name: all, unit: day, requests_per_unit: 2}}\n"
	"- {key: user, value: bob, rate_limit: {unit: day, requests_per_unit: 3}}\n"
	"- {key: user, value: vip, rate_limit: {unlimited: true, replaces: [{name: all}]}}\n";

/* Requests with two values share one counter per rule, here the counter of the rule for any
 * user. */
static void names_with_two_values(void **state)
{
	struct rig rig;

	rig_open(&rig, keyed, "d");
	assert_int_equal(admitted(&rig, "GET /share", "u: 1\nu: 2", 1), 1);
	assert_int_equal(admitted(&rig, "GET /share", "u: 3\nu: 1", 1), 1);
	assert_int_equal(admitted(&rig, "GET /share", "u: 5\nu: 6\nu: 7", 5), 0);
	assert_int_equal(admitted(&rig, "GET /share", "u: 1\nu: 1", 5), 2);
	assert_int_equal(admitted(&rig, "GET /share", "u: 2", 5), 2);
	assert_int_equal(admitted(&rig, "GET /share", NULL, 5), 2);
	/* A limit on one value applies to every reading with that value; an exemption does not. */
	rig_close(&rig);
	rig_open(&rig, keyed, "d");
	assert_int_equal(admitted(&rig, "GET /share", "u: vip", 5), 5);
	assert_int_equal(admitted(&rig, "GET /share", "u: vip\nu: 2", 5), 2);
	assert_int_equal(admitted(&rig, "GET /share", "u: bob\nu: vip", 5), 3);
	assert_int_equal(admitted(&rig, "GET /share", "u: bob", 5), 3);
	assert_int_equal(admitted(&rig, "GET /first?u=4&u=5", NULL, 5), 2);
	assert_int_equal(admitted(&rig, "GET /first?u=5&u=4", NULL, 5), 2);
	assert_int_equal(admitted(&rig, "GET /last?u=6&u=4", NULL, 5), 0);
	rig_close(&rig);
	(void)state;
}

/* Nine entries with eight limits each: the ninth header exceeds 64. */
static void too_many_limits_are_refused(void **state)
{
	char yaml[4096] = "domain: d\nrequests:\n", headers[256] = "";
	struct weir_status status;
	struct rig rig;

	for (int i = 0; i < 9; i++)
		snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml),
			 "- descriptor: [{key: k, value: %d}, {key: v, from: header.h%d}]\n", i, i);
	snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml),
		 "descriptors:\n- key: k\n  descriptors:\n  - key: v\n    rate_limits:\n");
	for (int i = 0; i < 8; i++)
		snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml),
			 "    - {period: %ds, requests_per_unit: 100%s}\n", i + 1,
			 i ? "" : ", response: {status: 503}");
	rig_open(&rig, yaml, "d");
	for (int i = 0; i < 9; i++) {
		assert_int_equal(admitted(&rig, "GET /", headers, 1), 1);
		snprintf(headers + strlen(headers), sizeof headers - strlen(headers), "h%d: 1\n",
			 i);
	}
	assert_int_equal(admitted(&rig, "GET /", headers, 3), 0);
	assert_int_equal(rig_result(&rig).verdict, WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 503); /* the status of the rule */
	assert_int_equal(rig_result(&rig).retry_after_ns, WEIR_NEVER);
	assert_int_equal(rig_result(&rig).descriptors, 9);
	status = rig_status(&rig, 7);
	assert_int_equal(status.code, WEIR_STATUS_OK);
	status = rig_status(&rig, 8);
	assert_int_equal(status.code, WEIR_STATUS_OVER_LIMIT);
	assert_int_equal(rig_stat(&rig, "unreadable").refused, 3);
	/* The request took nothing: the counter of the eighth header had one request. */
	assert_int_equal(rig_ask(&rig, "k=7|v=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 98);
	rig_close(&rig);
	(void)state;
}

/* Too many descriptors, and limits that do not fit: the calls return 0, and the verdict refuses. */
static void too_many_descriptors_are_refused(void **state)
{
	static const char yaml[] = "domain: d\ndescriptors:\n"
				   "- {key: a, rate_limit: {unit: day, requests_per_unit: 100}}\n";
	struct weir_result result;
	struct rig rig;

	rig_open(&rig, yaml, "d");
	rig_begin(&rig);
	for (int i = 0; i < WEIR_DESCRIPTORS_MAX; i++)
		assert_int_equal(rig_add(&rig, "none=1", 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	rig_begin(&rig);
	for (int i = 0; i <= WEIR_DESCRIPTORS_MAX; i++)
		assert_int_equal(rig_add(&rig, "none=1", 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	result = rig_result(&rig);
	assert_int_equal(result.http_status, 429);
	assert_int_equal(result.descriptors, WEIR_DESCRIPTORS_MAX);
	rig_close(&rig);
	(void)state;
}

/* Returns the units that are left of the first limit after a request for `path` with these hits. */
static uint32_t left_after(struct rig *rig, const char *path, int64_t hits)
{
	struct weir_http_view view = {
		.size = sizeof view, .method = wr_str("GET"), .target = wr_str(path)};

	rig_begin(rig);
	assert_int_equal(weir_ask_hits(rig->ask, hits), 0);
	if (hits < 0)
		assert_int_equal(weir_ask_taken_at(rig->ask, rig->now_ns), 0);
	assert_int_equal(weir_ask_http(rig->ask, &view), 0);
	assert_int_equal(rig_decide(rig), WEIR_ADMIT);
	return rig_status(rig, 0).remaining;
}

/* The cost of an entry applies instead of the hits. Hits of 0 take nothing, and hits below 0 give
 * back their number. */
static void hits_of_requests(void **state)
{
	static const char yaml[] =
		"domain: d\n"
		"requests:\n"
		"- {when: {path: /free}, descriptor: [{key: a, value: 1}]}\n"
		"- {when: {path: /cost}, descriptor: [{key: a, value: 1}], cost: 5}\n"
		"- when: {path: /settled}\n"
		"  descriptor: [{key: a, value: 1}]\n"
		"  cost: {reserve: 20, actual: {from: response.bytes}}\n"
		"descriptors:\n"
		"- {key: a, rate_limit: {unit: day, requests_per_unit: 100}}\n";
	struct rig rig;

	rig_open(&rig, yaml, "d");
	assert_int_equal(left_after(&rig, "/free", 30), 70);
	assert_int_equal(left_after(&rig, "/cost", 30), 65);
	assert_int_equal(left_after(&rig, "/settled", 30), 45);
	assert_int_equal(weir_ask_settles(rig.ask), WEIR_SETTLE_NEEDED);
	assert_int_equal(left_after(&rig, "/cost", 0), 45);
	assert_int_equal(left_after(&rig, "/free", -3), 48);
	assert_int_equal(left_after(&rig, "/cost", -3), 51);
	assert_int_equal(left_after(&rig, "/settled", -3), 54);
	assert_int_equal(weir_ask_settles(rig.ask), 0);
	rig_close(&rig);
	(void)state;
}

/* A client gives units back to a log with the time at which it got its response. */
static void hits_back_to_a_log(void **state)
{
	static const char yaml[] = "domain: d\ndescriptors:\n"
				   "- key: a\n"
				   "  rate_limit: {unit: minute, requests_per_unit: 10,\n"
				   "               algorithm: sliding_window_log}\n";
	struct rig rig;
	uint64_t taken_ns;

	rig_open(&rig, yaml, "d");
	rig_begin(&rig);
	rig_add(&rig, "a=1", 4);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	taken_ns = rig.now_ns + 1000000; /* the response takes a millisecond */
	rig.now_ns += SECOND_NS;
	rig_begin(&rig);
	rig_add(&rig, "a=1", 1);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 5);
	rig_begin(&rig);
	assert_int_equal(weir_ask_taken_at(rig.ask, taken_ns), 0);
	rig_add(&rig, "a=1", -3);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 8);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_readings_do_not_escape_limits),
		cmocka_unit_test(names_with_two_values),
		cmocka_unit_test(too_many_limits_are_refused),
		cmocka_unit_test(too_many_descriptors_are_refused),
		cmocka_unit_test(hits_of_requests),
		cmocka_unit_test(hits_back_to_a_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
