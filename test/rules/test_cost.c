/* Costs of requests: numbers in texts, `cost:` and `count:` of rule files, limits on concurrent
 * requests. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rules/cost.h"
#include "rules/limit_text.h"

static const struct {
	const char *text;
	int64_t value; /* -1: the text is not a number */
} numbers[] = {
	{"0", 0},
	{"1", 1},
	{"007", 7},
	{" 42\t", 42},
	{"12.0", 12},
	{"12.000", 12},
	{"12.5", 13},
	{"12.0000000000000000000000000001", 13},
	{"0.1", 1},
	{"4294967296", 4294967296},
	{"9223372036854775806.5", INT64_MAX},
	{"9223372036854775807", INT64_MAX},
	{"9223372036854775807.5", INT64_MAX},
	{"9223372036854775808", INT64_MAX},
	{"9223372036854775810", INT64_MAX},
	{"99999999999999999999999999", INT64_MAX},
	{"", -1},
	{"  ", -1},
	{".", -1},
	{".5", -1},
	{"5.", -1},
	{"1.2.3", -1},
	{"-1", -1},
	{"+1", -1},
	{"-0", -1},
	{"1e3", -1},
	{"0x10", -1},
	{"1 2", -1},
	{"1,2", -1},
	{"NaN", -1},
	{"12a", -1},
	{"1\xc2\xa0", -1},
};

static void numbers_in_texts(void **state)
{
	char digits[400];
	int64_t value;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		value = -1;
		if (wr_rules_cost_parse(wr_str(numbers[i].text), &value) !=
			    (numbers[i].value >= 0) ||
		    value != numbers[i].value)
			fail_msg("'%s' is %lld", numbers[i].text, (long long)value);
	}
	memset(digits, '9', sizeof digits);
	assert_true(wr_rules_cost_parse((struct weir_str){digits, sizeof digits}, &value));
	assert_int_equal(value, INT64_MAX);
	digits[1] = '.';
	assert_true(wr_rules_cost_parse((struct weir_str){digits, sizeof digits}, &value));
	assert_int_equal(value, 10);
	assert_false(wr_rules_cost_parse((struct weir_str){NULL, 0}, &value));
	(void)state;
}

static void largest_of_several(void **state)
{
	struct weir_str values[] = {WR_STR("3, 8 ,x"), WR_STR(""), WR_STR("5,-9,"), WR_STR(",")};
	int64_t value;

	assert_true(wr_rules_cost_largest(values, 4, &value));
	assert_int_equal(value, 8);
	assert_true(wr_rules_cost_largest(values + 2, 2, &value));
	assert_int_equal(value, 5);
	assert_false(wr_rules_cost_largest(values + 3, 1, &value));
	assert_false(wr_rules_cost_largest(NULL, 0, &value));
	values[0] = WR_STR("0");
	assert_true(wr_rules_cost_largest(values, 1, &value));
	assert_int_equal(value, 0);
	(void)state;
}

static void default_and_max(void **state)
{
	struct wr_rules_cost_source source = {
		.from = WR_COST_RESPONSE_BYTES, .otherwise = 7, .max = 100};
	enum wr_cost_note note;

	assert_int_equal(wr_rules_cost_value(&source, true, 100, &note), 100);
	assert_int_equal(note, WR_COST_AS_GIVEN);
	assert_int_equal(wr_rules_cost_value(&source, true, 0, &note), 0);
	assert_int_equal(note, WR_COST_AS_GIVEN);
	assert_int_equal(wr_rules_cost_value(&source, true, 101, &note), 100);
	assert_int_equal(note, WR_COST_CLAMPED);
	assert_int_equal(wr_rules_cost_value(&source, true, INT64_MAX, &note), 100);
	assert_int_equal(note, WR_COST_CLAMPED);
	assert_int_equal(wr_rules_cost_value(&source, true, -1, &note), 7);
	assert_int_equal(note, WR_COST_DEFAULTED);
	assert_int_equal(wr_rules_cost_value(&source, false, 50, &note), 7);
	assert_int_equal(note, WR_COST_DEFAULTED);
	source.defaults_to_reserved = true;
	assert_int_equal(wr_rules_cost_value(&source, false, 50, &note), WR_COST_RESERVED);
	assert_int_equal(note, WR_COST_DEFAULTED);
	source.from = WR_COST_NUMBER;
	assert_int_equal(wr_rules_cost_value(&source, false, 0, &note), 7);
	assert_int_equal(note, WR_COST_AS_GIVEN);
	(void)state;
}

static const char yaml[] =
	"domain: d\n"
	"requests:\n"
	"  - {when: {path: /none}, descriptor: [{key: k, value: v}]}\n"
	"  - {when: {path: /five}, descriptor: [{key: k, value: v}], cost: 5}\n"
	"  - {when: {path: /free}, descriptor: [{key: k, value: v}], cost: 0}\n"
	"  - when: {path: /header}\n"
	"    descriptor: [{key: k, from: [query.user, remote_address]}]\n"
	"    cost: {from: header.X-Cost, max: 1000}\n"
	"  - when: {path: /query}\n"
	"    descriptor: [{key: k, value: v}]\n"
	"    cost: {from: query.n, default: 3}\n"
	"  - when: {path: /bytes}\n"
	"    descriptor: [{key: k, value: v}]\n"
	"    cost: {from: request.bytes, default: 50, max: 4000}\n"
	"  - when: {path: /reserve}\n"
	"    descriptor: [{key: k, value: v}]\n"
	"    cost:\n"
	"      reserve: {from: header.x-max-tokens, default: 2000, max: 16000}\n"
	"      actual: {from: response.json./usage/total_tokens}\n"
	"  - when: {path: /number}\n"
	"    descriptor: [{key: k, value: v}]\n"
	"    cost: {reserve: 600, actual: {from: response.header.X-Used, default: 9, max: 700}}\n"
	"  - when: {path: /both}\n"
	"    descriptor: [{key: k, value: v}]\n"
	"    cost: 2\n"
	"  - when: {path: /both}\n"
	"    descriptor: [{key: k, value: w}]\n"
	"    cost: {from: header.x-cost, default: 8}\n"
	"  - when: {path: /unbounded}\n"
	"    descriptor: [{key: k, value: v}]\n"
	"    cost: {from: request.bytes, default: 50}\n"
	"descriptors:\n"
	"  - {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n";

static const struct {
	const char *why;
	const char *target;
	const char *header; /* "name: value\nname: value" */
	const char *costs;  /* for each descriptor: the cost, with "d" for default, "m" for max */
} cases[] = {
	{"no cost", "/none", "", "1"},
	{"a number", "/five", "x-cost: 9", "5"},
	{"zero", "/free", "", "0"},
	{"header", "/header", "x-cost: 12", "12"},
	{"header, another case, blanks", "/header", "X-COST: \t12 ", "12"},
	{"header, a fraction", "/header", "x-cost: 12.01", "13"},
	{"header, zero", "/header", "x-cost: 0", "0"},
	{"header, the largest allowed", "/header", "x-cost: 1000", "1000"},
	{"header, too large", "/header", "x-cost: 1001", "1000m"},
	{"header, far too large", "/header", "x-cost: 99999999999999999999999999999", "1000m"},
	{"header, missing", "/header", "", "1d"},
	{"header, empty", "/header", "x-cost: ", "1d"},
	{"header, not a number", "/header", "x-cost: twelve", "1d"},
	{"header, negative", "/header", "x-cost: -12", "1d"},
	{"header, twice: the largest", "/header", "x-cost: 3\nx-cost: 20", "20"},
	{"header, twice, joined", "/header", "x-cost: 30, 4", "30"},
	{"header, twice, one is valid", "/header", "x-cost: x\nx-cost: 4", "4"},
	{"header, one of several is too large", "/header", "x-cost: 3, 5000", "1000m"},
	{"one cost for all descriptors of an entry", "/header?user=a&user=b", "x-cost: 6", "6 6"},
	{"query", "/query?n=12", "", "12"},
	{"query, encoded", "/query?%6e=%31%32", "", "12"},
	{"query, blanks", "/query?n=+12%20", "", "12"},
	{"query, twice", "/query?n=12&m=99&n=7", "", "12"},
	{"query, missing", "/query?m=12", "", "3d"},
	{"query, not a number", "/query?n=1e9", "", "3d"},
	{"query, without max", "/query?n=4294967295", "", "4294967295"},
	{"query, above any max", "/query?n=4294967296", "", "4294967295m"},
	{"bytes, unknown", "/bytes", "", "50d"},
	{"reserve", "/reserve", "x-max-tokens: 600", "600"},
	{"reserve, missing", "/reserve", "", "2000d"},
	{"reserve, too large", "/reserve", "x-max-tokens: 16001", "16000m"},
	{"reserve, a number", "/number", "", "600"},
	{"two entries", "/both", "x-cost: 5", "2 5"},
	{"two entries, one with default", "/both", "x-cost: many", "2 8d"},
};

#define HEADERS_MAX 20

static size_t split_headers(const char *text, struct weir_header *headers)
{
	size_t count = 0;

	while (*text) {
		size_t len = strcspn(text, "\n");
		struct weir_str line = {text, len};
		size_t colon = wr_str_find(line, ':');

		assert_true(count < HEADERS_MAX && colon < len);
		headers[count++] = (struct weir_header){wr_str_first(line, colon),
							wr_str_from(line, colon + 1)};
		text += len + (text[len] == '\n');
	}
	return count;
}

static void describe(const struct wr_rules_http *http, char text[256])
{
	static const char *const notes[] = {"", "d", "m", "l"};
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < http->count; i++)
		len += (size_t)snprintf(text + len, 256 - len, "%s%lld%s", i ? " " : "",
					(long long)http->descriptors[i].cost,
					notes[http->descriptors[i].cost_note]);
}

static void costs_at_arrival(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	static char memory[WR_HTTP_MEMORY];
	struct weir_header headers[HEADERS_MAX];
	struct wr_rules_http http;
	char costs[256];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_http_view view = {.size = sizeof view,
					      .method = WR_STR("GET"),
					      .target = wr_str(cases[i].target),
					      .peer = {192, 0, 2, 1},
					      .peer_len = 4,
					      .headers = headers};

		view.header_count = split_headers(cases[i].header, headers);
		assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http),
				 0);
		describe(&http, costs);
		if (strcmp(costs, cases[i].costs) != 0)
			fail_msg("%s: %s instead of %s", cases[i].why, costs, cases[i].costs);
	}
	weir_rules_free(rules);
	(void)state;
}

static void bytes_of_the_request(void **state)
{
	static const struct {
		const char *target;
		uint64_t bytes;
		enum weir_length known;
		const char *cost;
	} bodies[] = {
		{"/bytes", 0, WEIR_LENGTH_KNOWN, "0"},
		{"/bytes", 1234, WEIR_LENGTH_KNOWN, "1234"},
		{"/bytes", 4000, WEIR_LENGTH_KNOWN, "4000"},
		{"/bytes", 4001, WEIR_LENGTH_KNOWN, "4000m"},
		{"/bytes", UINT64_MAX, WEIR_LENGTH_KNOWN, "4000m"},
		{"/bytes", 1234, WEIR_LENGTH_UNKNOWN, "50d"},
		/* Chunked: the smaller one of `max` and the longest body that the host accepts. */
		{"/bytes", 0, WEIR_LENGTH_LATER, "4000l"},
		{"/bytes", 3999, WEIR_LENGTH_LATER, "3999l"},
		{"/bytes", 4001, WEIR_LENGTH_LATER, "4000l"},
		{"/bytes", UINT64_MAX, WEIR_LENGTH_LATER, "4000l"},
		{"/unbounded", 1048576, WEIR_LENGTH_LATER, "1048576l"},
		{"/unbounded", 0, WEIR_LENGTH_LATER, "50l"},
	};
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	struct wr_rules_http http;
	char memory[1024], costs[256];

	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct weir_http_view view = {.size = sizeof view,
					      .method = WR_STR("GET"),
					      .target = wr_str(bodies[i].target),
					      .body_bytes = bodies[i].bytes,
					      .body_known = bodies[i].known};

		assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http),
				 0);
		describe(&http, costs);
		assert_string_equal(costs, bodies[i].cost);
	}
	weir_rules_free(rules);
	(void)state;
}

/* A cost is never a reason to refuse a request as malformed. If it cannot be read, it is `max`. */
static void unreadable_costs_are_max(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	static char target[40000], memory[WR_HTTP_MEMORY];
	struct weir_header headers[17];
	struct weir_http_view view = {.size = sizeof view,
				      .method = WR_STR("GET"),
				      .target = WR_STR("/header"),
				      .peer_len = 4,
				      .headers = headers,
				      .header_count = 16};
	struct wr_rules_http http;
	char costs[256], digits[17][3];

	for (size_t i = 0; i < 17; i++) {
		snprintf(digits[i], sizeof digits[i], "%zu", i);
		headers[i] = (struct weir_header){WR_STR("x-cost"), wr_str(digits[i])};
	}
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "15");
	view.header_count = 17;
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "1000m");

	/* The same with several values in one field. */
	headers[0].value = WR_STR("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16");
	view.header_count = 1;
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "16");
	headers[1].value = WR_STR("7");
	view.header_count = 2;
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "1000m");
	headers[0].value = WR_STR("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
	view.header_count = 1;
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "1000m");

	/* A value of 400 digits, and one that does not fit into the memory when it is decoded. */
	snprintf(target, sizeof target, "/query?n=%0*d", 400, 7);
	view.target = wr_str(target);
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "7");
	memset(target + 9, '8', 400);
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "4294967295m");
	target[9] = '%';
	target[10] = '3';
	target[11] = '1';
	assert_int_equal(wr_rules_http_read(domain, &view, memory, 300, &http), 0);
	describe(&http, costs);
	assert_string_equal(costs, "4294967295m");
	weir_rules_free(rules);
	(void)state;
}

static const struct wr_rules_request *entry(const struct weir_rules *rules, int i)
{
	const struct wr_rules_request *request = rules->first_domain->more->requests->first;

	while (i-- > 0)
		request = request->next;
	return request;
}

static void costs_are_compiled(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_rules_cost *cost = entry(rules, 3)->cost;

	assert_null(entry(rules, 0)->cost);
	assert_null(entry(rules, 0)->count);
	assert_int_equal(entry(rules, 1)->cost->arrival.from, WR_COST_NUMBER);
	assert_int_equal(entry(rules, 1)->cost->arrival.otherwise, 5);
	assert_int_equal(cost->arrival.from, WR_COST_HEADER);
	assert_string_equal(cost->arrival.label.ptr, "header.x-cost");
	assert_string_equal(cost->arrival.name.ptr, "x-cost");
	assert_int_equal(cost->arrival.otherwise, 1);
	assert_int_equal(cost->arrival.max, 1000);
	assert_false(cost->settles);
	cost = entry(rules, 6)->cost;
	assert_true(cost->settles);
	assert_int_equal(cost->arrival.otherwise, 2000);
	assert_int_equal(cost->actual.from, WR_COST_RESPONSE_JSON);
	assert_string_equal(cost->actual.label.ptr, "response.json./usage/total_tokens");
	assert_string_equal(cost->actual.name.ptr, "/usage/total_tokens");
	assert_true(cost->actual.defaults_to_reserved);
	assert_int_equal(cost->actual.max, WR_COST_MAX);
	assert_null(cost->actual.source);
	cost = entry(rules, 7)->cost;
	assert_true(cost->settles);
	assert_int_equal(cost->arrival.from, WR_COST_NUMBER);
	assert_int_equal(cost->arrival.otherwise, 600);
	assert_int_equal(cost->actual.from, WR_COST_RESPONSE_HEADER);
	assert_string_equal(cost->actual.name.ptr, "x-used");
	assert_false(cost->actual.defaults_to_reserved);
	assert_int_equal(cost->actual.otherwise, 9);
	assert_int_equal(cost->actual.max, 700);
	weir_rules_free(rules);
	(void)state;
}

static void statuses_that_count(void **state)
{
	struct weir_rules *rules = test_rules(
		"domain: d\n"
		"requests:\n"
		"  - {descriptor: [{key: k, value: v}], count: {status: [401, '403', 2xx]}}\n"
		"  - {descriptor: [{key: k, value: v}], count: {except: [5XX, 404]}}\n"
		"  - {descriptor: [{key: k, value: v}], count: {status: 599}}\n"
		"descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n");
	const struct wr_rules_count *only = entry(rules, 0)->count;
	const struct wr_rules_count *except = entry(rules, 1)->count;
	const struct wr_rules_count *last = entry(rules, 2)->count;

	/* A request without a response, status 0, stays charged. So does an unknown status. */
	assert_true(wr_rules_counts_status(only, 0));
	assert_true(wr_rules_counts_status(except, 0));
	assert_true(wr_rules_counts_status(only, 600));
	for (uint32_t status = 1; status < 600; status++) {
		bool listed = status == 401 || status == 403 || (status >= 200 && status <= 299);
		bool excluded = status == 404 || status >= 500;

		assert_int_equal(wr_rules_counts_status(only, status), listed);
		assert_int_equal(wr_rules_counts_status(except, status), !excluded);
		assert_int_equal(wr_rules_counts_status(last, status), status == 599);
	}
	weir_rules_free(rules);
	(void)state;
}

static void concurrent_limits(void **state)
{
	struct weir_rules *rules = test_rules(
		"domain: d\n"
		"descriptors:\n"
		"  - key: k\n"
		"    rate_limits:\n"
		"      - {concurrent: 20, max_hold: 2m, name: in-flight}\n"
		"      - {period: 2m, requests_per_unit: 5, max_debt: 7, on_expiry: refund}\n"
		"      - {concurrent: 1, max_hold: 60s}\n"
		"      - {unit: minute, requests_per_unit: 5, max_debt: 0}\n"
		"  - key: l\n"
		"    rate_limits:\n"
		"      - {concurrent: 2, max_hold: 1s, name: a, consistency: local}\n"
		"      - {concurrent: 32766, max_hold: 1s, name: b}\n");
	struct wr_match match = test_match(rules, "d", "k=v");
	const struct wr_rules_limit *l = match.limits;
	char text[128];

	assert_int_equal(l[0].limit.algorithm, WEIR_CONCURRENT);
	assert_int_equal(l[0].limit.limit, 20);
	assert_int_equal(l[0].limit.period_ns, 120000000000);
	assert_int_equal(l[0].unit, 0);
	assert_string_equal(l[0].id.ptr, "concurrent/2m");
	assert_string_equal(l[0].stat.ptr, "d/k/concurrent/2m");
	assert_int_equal(wr_rules_limit_text(&l[0], text, sizeof text), 36);
	assert_string_equal(text, "20 concurrent requests (max_hold 2m)");
	/* Limits on concurrent requests do not change the names of the other limits. */
	assert_string_equal(l[1].id.ptr, "fixed_window/2m");
	assert_string_equal(l[1].stat.ptr, "d/k/2m");
	assert_int_equal(l[1].limit.max_debt, 7);
	assert_int_equal(l[1].limit.flags, 0);
	assert_int_equal(l[1].on_expiry, WR_EXPIRY_REFUND);
	assert_int_equal(l[2].unit, 0);
	assert_string_equal(l[2].stat.ptr, "d/k/concurrent/1m");
	wr_rules_limit_text(&l[2], text, sizeof text);
	assert_string_equal(text, "1 concurrent request (max_hold 1m)");
	assert_int_equal(l[3].limit.max_debt, 0);
	assert_int_equal(l[3].limit.flags, WEIR_NO_DEBT);
	assert_int_equal(l[3].on_expiry, WR_EXPIRY_KEEP);
	l = test_match(rules, "d", "l=v").limits;
	assert_string_equal(l[0].id.ptr, "concurrent/1s#a");
	assert_string_equal(l[0].stat.ptr, "d/l/concurrent/1s#a");
	assert_int_equal(l[0].consistency, WR_LOCAL);
	assert_string_equal(l[1].id.ptr, "concurrent/1s#b");
	assert_true(l[0].limit.identity != l[1].limit.identity);
	weir_rules_free(rules);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_in_texts),     cmocka_unit_test(largest_of_several),
		cmocka_unit_test(default_and_max),      cmocka_unit_test(costs_at_arrival),
		cmocka_unit_test(bytes_of_the_request), cmocka_unit_test(unreadable_costs_are_max),
		cmocka_unit_test(costs_are_compiled),   cmocka_unit_test(statuses_that_count),
		cmocka_unit_test(concurrent_limits),
	};

	return cmocka_run_group_tests_name("rules_cost", tests, NULL, NULL);
}
