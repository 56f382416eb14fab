/* The rules of tune: hostile texts, keys, and the routes of given rules. */
#include "lab/tune/tune_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/helper.h"

/* ---- hostile texts ---- */

static void hostile_texts_cannot_break_the_rules(void **state)
{
	static const char *const targets[] = {
		"/a\"b",         "/a'b",   "/a: b",        "/- x",  "/#x",          "/{x}",
		"/x*",           "/a\\b",  "/%0a- key: x", "/%00",  "/\xff\xfe",    "/\xe2\x80\xae",
		"/&anchor",      "/!tag",  "/[x",          "/null", "/~",           "/a,b",
		"/%22]}",        "/..%2f", "/;x=1",        "/true", "/caf\xc3\xa9", "/%c3%a9",
		"//evil/x",      "/a%2Fb", "/ ",           "/\x7f", "/<script>",    "/0x1f",
		"http://h/x\"y", "*",      "/%",           "/%zz",  "/\xc2\x85x",
	};
	static const char *const key = "header.x-key,cookie.a\"b,query.c: d,address";
	struct wr_lab_tune_opts opts = any_unit;
	struct trace trace = {0};
	struct wr_lab_tune *tune;
	struct weir_rules *rules;
	uint64_t by_limits = 0;
	char *yaml;

	(void)state;
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		for (uint32_t client = 0; client < 40; client++)
			trace_add(&trace, client, targets[i], (i * 40 + client) * SECOND_NS)
				->method = i % 2 ? "POST" : "GET";
	for (uint32_t client = 0; client < 40; client++)
		for (unsigned i = 0; i < 400; i++)
			trace_add(&trace, client, "/", HOUR_NS + client * MINUTE_NS);
	opts.key = key;
	tune = tune_trace(&trace, opts);
	yaml = tune_yaml(tune);
	rules = test_rules(yaml);
	assert_true(rules->request_count > 3);
	/* Malformed targets are refused, but not by the limits. */
	assert_int_equal(tune_replay_with(tune, &trace, &by_limits), 40);
	assert_int_equal(by_limits, 0);
	assert_true(wr_lab_tune_report(tune)->malformed > 0);
	weir_rules_free(rules);
	free(yaml);
	wr_lab_tune_close(tune);
	free(trace.items);
}

static void quoted_texts_are_read_back(void **state)
{
	static const char text[] = "a\"b\\c\n\t\x01#: {x}\xc3\xa9\xe2\x80\xae\x7f";
	char all[1024];
	struct weir_rules *rules;
	struct wr_buf yaml;

	(void)state;
	wr_buf_init(&yaml, 1024);
	wr_lab_yaml_text(&yaml, wr_str(text));
	assert_false(wr_buf_failed(&yaml));
	snprintf(all, sizeof all, "domain: %s\n", wr_buf_str(&yaml).ptr);
	rules = test_rules(all);
	assert_int_equal(rules->first_domain->key.len, sizeof text - 1);
	assert_memory_equal(rules->first_domain->key.ptr, text, sizeof text - 1);
	weir_rules_free(rules);
	wr_buf_clear(&yaml);
	wr_lab_yaml_text(&yaml, WR_STR("\xff"));
	assert_string_equal(wr_buf_str(&yaml).ptr, "\"\xef\xbf\xbd\"");
	wr_buf_free(&yaml);
}

/* ---- keys ---- */

static void wrong_keys_are_errors(void **state)
{
	static const struct {
		const char *key, *text;
	} cases[] = {
		{"nope", "--key: "},       {"header.", "--key: "},
		{"", "--key: a source"},   {"address,,user", "--key: a source is empty"},
		{"header.a b", "--key: "}, {"path.id", "--key: "},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_lab_tune_opts opts = {.key = cases[i].key, .untouched_ppm = 999000};
		struct weir_error error = {0};
		struct wr_lab_tune *tune;

		assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), WEIR_EINVAL);
		assert_null(tune);
		if (strncmp(error.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s: %s", cases[i].key, error.text);
	}
}

/* Two users behind one address, and a user at two addresses. */
static void users_are_clients(void **state)
{
	struct wr_lab_tune_opts opts = any_unit;
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	trace_add(&trace, 1, "/", 0)->user = "ann";
	trace_add(&trace, 2, "/", 0)->user = "ann";
	trace_add(&trace, 2, "/", 0)->user = "bob";
	trace_add(&trace, 3, "/", 0);
	opts.key = "user";
	tune = tune_trace(&trace, opts);
	assert_int_equal(wr_lab_tune_report(tune)->clients, 2);
	assert_int_equal(wr_lab_tune_report(tune)->no_key, 1);
	assert_int_equal(wr_lab_tune_report(tune)->routes[0].limit.need, 2);
	assert_string_equal(tune->table.clients[0].name, "ann");
	wr_lab_tune_close(tune);
	opts.key = "user, address";
	tune = tune_trace(&trace, opts);
	assert_int_equal(wr_lab_tune_report(tune)->clients, 3);
	assert_int_equal(wr_lab_tune_report(tune)->no_key, 0);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* A whole /64 is one client. A host name is shown as it is in the log. */
static void addresses_are_masked_and_names_kept(void **state)
{
	static const char *const clients[] = {"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"};
	struct wr_lab_tune_opts opts = any_unit;
	struct weir_error error = {0};
	struct wr_lab_record record;
	struct wr_lab_tune *tune;

	(void)state;
	opts.untouched_ppm = 999000;
	assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), 0);
	for (size_t i = 0; i < 3; i++) {
		record = replay_record(clients[i], i);
		assert_int_equal(wr_lab_tune_feed(tune, &record, &error), 0);
	}
	record.client = WR_STR("proxy.example.com");
	record.stand_in = true;
	record.address.bytes[0] = 0xfd;
	assert_int_equal(wr_lab_tune_feed(tune, &record, &error), 0);
	assert_int_equal(wr_lab_tune_end(tune, &error), 0);
	assert_int_equal(wr_lab_tune_report(tune)->clients, 3);
	assert_string_equal(tune->table.clients[2].name, "proxy.example.com");
	wr_lab_tune_close(tune);
}

/* ---- given rules ---- */

static const char given[] =
	"domain: shop\n"
	"requests:\n"
	"  - when: {remote_address: [10.0.0.0/31, \"2001:db8::/32\", 10.9.0.7]}\n"
	"    allow: true\n"
	"  - when: {method: [POST, PUT], path: [/login, \"/sessions/{id}\"], host: "
	"\"*.example.com\"}\n"
	"    descriptor: [{key: login, value: \"a: *b\"}, {key: who, from: [identity, "
	"masked_remote_address], v4_prefix: 24, v6_prefix: 48}]\n"
	"    count: {status: [401, 403]}\n"
	"  - when: {method: POST, path: /login}\n"
	"    descriptor: [{key: login, value: \"a: *b\"}, {key: who, from: remote_address}]\n"
	"  - descriptor: [{key: login, value: \"a: *b\"}]\n"
	"    cost: 3\n"
	"  - when: {path: /v1/*}\n"
	"    descriptor: [{key: tenant, from: header.x-tenant, default: none, ambiguous: first}]\n"
	"    cost: {from: query.n, default: 2, max: 9}\n"
	"  - when: {path: \"/files/{name}\"}\n"
	"    descriptor: [{key: name, from: path.name}, {key: ip, from: remote_address, missing: "
	"deny}]\n"
	"    cost: {reserve: {from: header.x-max, default: 5}, actual: {from: response.bytes, max: "
	"7}}\n"
	"    count: {except: [5xx, 404]}\n";

static void assert_same_parts(const struct wr_rules_request *a, const struct wr_rules_request *b)
{
	for (uint32_t i = 0; i < a->part_count; i++) {
		const struct wr_rules_part *x = &a->parts[i], *y = &b->parts[i];

		assert_int_equal(x->has_default, y->has_default);
		assert_int_equal(x->missing, y->missing);
		assert_int_equal(x->ambiguous, y->ambiguous);
		assert_true(wr_str_equal(x->otherwise, y->otherwise));
		for (uint32_t k = 0; k < x->source_count; k++) {
			assert_int_equal(x->sources[k].v4_bits, y->sources[k].v4_bits);
			assert_int_equal(x->sources[k].v6_bits, y->sources[k].v6_bits);
			assert_int_equal(x->sources[k].commas, y->sources[k].commas);
		}
	}
}

static void entries_are_written_as_they_were(void **state)
{
	struct weir_rules *rules = test_rules(given), *again;
	const struct wr_rules_request *a, *b;
	struct wr_buf yaml;

	(void)state;
	wr_buf_init(&yaml, 1 << 16);
	wr_buf_add_str(&yaml, WR_STR("domain: shop\nrequests:\n"));
	for (a = rules->first_domain->more->requests->first; a; a = a->next)
		wr_lab_tune_entry(a, &yaml);
	assert_false(wr_buf_failed(&yaml));
	again = test_rules(wr_buf_str(&yaml).ptr);
	assert_int_equal(again->request_count, rules->request_count);
	a = rules->first_domain->more->requests->first;
	b = again->first_domain->more->requests->first;
	for (; a; a = a->next, b = b->next) {
		assert_int_equal(wr_rules_request_id(a), wr_rules_request_id(b));
		assert_same_parts(a, b);
		assert_int_equal(a->cost != NULL, b->cost != NULL);
		assert_int_equal(a->count != NULL, b->count != NULL);
		if (a->count)
			assert_memory_equal(a->count, b->count, sizeof *a->count);
		if (a->cost && b->cost) {
			assert_int_equal(a->cost->settles, b->cost->settles);
			assert_int_equal(a->cost->arrival.otherwise, b->cost->arrival.otherwise);
			assert_int_equal(a->cost->arrival.max, b->cost->arrival.max);
			assert_int_equal(a->cost->actual.max, b->cost->actual.max);
			assert_int_equal(a->cost->actual.defaults_to_reserved,
					 b->cost->actual.defaults_to_reserved);
		}
	}
	weir_rules_free(rules);
	weir_rules_free(again);
	wr_buf_free(&yaml);
}

/* The first three entries with descriptors share the node login; the second and the third share
 * their counters too. */
static void routes_of_given_rules_are_tuned(void **state)
{
	struct weir_rules *rules = test_rules(given);
	struct wr_lab_tune_opts opts = any_unit;
	const struct wr_lab_tune_report *report;
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 0; client < 10; client++)
		for (unsigned i = 0; i < 4; i++) {
			trace_add(&trace, client, "/login", client * SECOND_NS)->method = "POST";
			trace_add(&trace, client, "/v1/x?n=4", client * SECOND_NS);
		}
	opts.rules = rules;
	tune = tune_trace(&trace, opts);
	report = wr_lab_tune_report(tune);
	assert_int_equal(report->exempt, 16); /* two clients of 10.0.0.0/31 */
	assert_int_equal(report->route_count, 4);
	assert_string_equal(report->routes[0].text, "login=a: *b, who");
	assert_int_equal(report->routes[0].requests, 32);
	assert_int_equal(report->routes[0].limit.need, 4);
	assert_string_equal(report->routes[1].text, "login=a: *b");
	assert_int_equal(report->routes[1].clients, 1);
	assert_int_equal(report->routes[1].units, 64 * 3);
	assert_string_equal(report->routes[2].text, "tenant");
	assert_int_equal(report->routes[2].units, 32 * 4);
	assert_string_equal(report->routes[3].text, "name, ip");
	assert_int_equal(report->routes[3].reason, WR_LAB_NO_LIMIT);
	assert_int_equal(tune_replay(tune, &trace), 0);
	wr_lab_tune_close(tune);
	weir_rules_free(rules);
	free(trace.items);
}

static void rules_without_requests_are_an_error(void **state)
{
	struct weir_rules *rules = test_rules("domain: d\ndescriptors: [{key: a}]\n");
	struct wr_lab_tune_opts opts = {.rules = rules, .untouched_ppm = 999000};
	struct weir_error error = {0};
	struct wr_lab_tune *tune;

	(void)state;
	assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), WEIR_EINVAL);
	assert_string_equal(error.text,
			    "--rules: no domain has requests:; leave out --rules to find "
			    "the routes in the log");
	opts.domain = "x";
	assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), WEIR_EINVAL);
	assert_string_equal(error.text, "--rules: no domain x has requests:; leave out --rules to "
					"find the routes in the log");
	weir_rules_free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_texts_cannot_break_the_rules),
		cmocka_unit_test(quoted_texts_are_read_back),
		cmocka_unit_test(wrong_keys_are_errors),
		cmocka_unit_test(users_are_clients),
		cmocka_unit_test(addresses_are_masked_and_names_kept),
		cmocka_unit_test(entries_are_written_as_they_were),
		cmocka_unit_test(routes_of_given_rules_are_tuned),
		cmocka_unit_test(rules_without_requests_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
