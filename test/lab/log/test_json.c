/* JSON lines: the fields of Caddy, Traefik, nginx, Envoy and Zeek, names that the user gives, and
 * lines that are not JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/log/log_test.h"

static void caddy_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_JSON,
		"{\"level\":\"info\",\"ts\":1646861401.5241024,\"logger\":\"http.log.access\","
		"\"msg\":\"handled request\",\"request\":{\"remote_ip\":\"198.51.100.2\","
		"\"remote_port\":\"41342\",\"client_ip\":\"192.0.2.9\",\"proto\":\"HTTP/2.0\","
		"\"method\":\"GET\",\"host\":\"a.example\",\"uri\":\"/a?b=\\u00e9\",\"headers\":{"
		"\"User-Agent\":[\"curl/7.82.0\"],\"Accept\":[\"*/*\"],\"Cookie\":[\"a=1\","
		"\"b=2\"],\"X-Api-Key\":[\"k\"]},\"tls\":{\"resumed\":false}},\"bytes_read\":7,"
		"\"user_id\":\"bob\",\"duration\":0.000929675,\"size\":10900,\"status\":200,"
		"\"resp_headers\":{\"Server\":[\"Caddy\"]}}");

	assert_int_equal(record->time_ns, 1646861401524102000);
	assert_false(line.slot.whole);
	assert_str(record->client, "192.0.2.9");
	assert_str(record->method, "GET");
	assert_str(record->target, "/a?b=\xc3\xa9");
	assert_str(record->host, "a.example");
	assert_str(record->user, "bob");
	assert_int_equal(record->status, 200);
	assert_int_equal(record->bytes, 10900);
	assert_int_equal(record->duration_ns, 929675);
	assert_int_equal(record->cost, 1);
	assert_int_equal(record->header_count, 5);
	assert_header(record, "user-agent", "curl/7.82.0");
	assert_header(record, "accept", "*/*");
	assert_header(record, "cookie", "a=1"); /* the second cookie is another header field */
	assert_header(record, "x-api-key", "k");
	assert_header(record, "server", NULL);
	test_line_free(&line);
	(void)state;
}

static void traefik_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_JSON,
		"{\"ClientAddr\":\"192.0.2.7:50000\",\"ClientHost\":\"192.0.2.7\",\"ClientPort\":"
		"\"50000\",\"ClientUsername\":\"-\",\"DownstreamContentSize\":19,"
		"\"DownstreamStatus\":404,\"Duration\":1234567,\"OriginContentSize\":3,"
		"\"OriginStatus\":200,\"RequestHost\":\"a.example\",\"RequestMethod\":\"GET\","
		"\"RequestPath\":\"/x?y=1\",\"RequestProtocol\":\"HTTP/1.1\",\"StartLocal\":"
		"\"2024-01-02T04:04:05.5+01:00\",\"StartUTC\":\"2024-01-02T03:04:05.123456789Z\","
		"\"downstream_Content-Type\":\"text/plain\",\"level\":\"info\",\"msg\":\"\","
		"\"request_User-Agent\":\"curl/8\",\"request_X-Api-Key\":\"k1\","
		"\"time\":\"2024-01-02T03:04:06Z\"}");

	assert_int_equal(record->time_ns, 1704164645123456789);
	assert_str(record->client, "192.0.2.7");
	assert_str(record->method, "GET");
	assert_str(record->target, "/x?y=1");
	assert_str(record->host, "a.example");
	assert_str(record->user, "");
	assert_int_equal(record->status, 404);
	assert_int_equal(record->bytes, 19);
	assert_int_equal(record->duration_ns, 1234567);
	assert_int_equal(record->header_count, 2);
	assert_header(record, "user-agent", "curl/8");
	assert_header(record, "x-api-key", "k1");
	test_line_free(&line);
	(void)state;
}

static void nginx_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_JSON,
		"{\"time_iso8601\":\"2024-01-02T03:04:05+00:00\",\"msec\":\"1704164645.250\","
		"\"remote_addr\":\"2001:db8::1\",\"remote_user\":\"eve\",\"request\":\"POST /login "
		"HTTP/1.1\",\"status\":\"503\",\"body_bytes_sent\":\"12\",\"bytes_sent\":\"99\","
		"\"request_time\":\"0.250\",\"http_user_agent\":\"x\\\"y\",\"http_x_api_key\":"
		"\"abc\",\"http_host\":\"b.example\",\"http_referer\":\"\",\"request_id\":"
		"\"f00\"}");

	assert_int_equal(record->time_ns, 1704164645250000000);
	assert_str(record->client, "2001:db8::1");
	assert_int_equal(record->address.bytes[15], 1);
	assert_str(record->user, "eve");
	assert_str(record->method, "POST");
	assert_str(record->target, "/login");
	assert_str(record->host, "b.example");
	assert_int_equal(record->status, 503);
	assert_int_equal(record->bytes, 12);
	assert_int_equal(record->duration_ns, 250000000);
	assert_int_equal(record->header_count, 2);
	assert_header(record, "user-agent", "x\"y");
	assert_header(record, "x-api-key", "abc");
	test_line_free(&line);
	(void)state;
}

static void envoy_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_JSON,
		"{\"start_time\":\"2024-01-02T03:04:05.250Z\",\"method\":\"GET\",\"path\":\"/e\","
		"\"protocol\":\"HTTP/2\",\"response_code\":200,\"duration\":17,\"bytes_sent\":5,"
		"\"x_forwarded_for\":\"203.0.113.5, 198.51.100.2\",\"authority\":\"c.example\","
		"\"user_agent\":\"u\",\"downstream_remote_address\":\"192.0.2.1:9000\"}");

	assert_int_equal(record->time_ns, 1704164645250000000);
	assert_str(record->client, "192.0.2.1");
	assert_str(record->target, "/e");
	assert_str(record->host, "c.example");
	assert_int_equal(record->duration_ns, 17000000);
	assert_header(record, "x-forwarded-for", "203.0.113.5, 198.51.100.2");
	test_line_free(&line);

	/* without an address, the last entry of X-Forwarded-For is the client */
	record = test_line_good(&line, WR_LAB_JSON,
				"{\"start_time\":\"2024-01-02T03:04:05.250Z\",\"response_code\":"
				"200,\"x_forwarded_for\":\"203.0.113.5, 198.51.100.2\","
				"\"downstream_remote_address\":null}");
	assert_str(record->client, "198.51.100.2");
	test_line_free(&line);
	(void)state;
}

/* An identifier above 2^63 - 1 is no reason to leave out the line. */
static void large_numbers_are_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record =
		test_line_good(&line, WR_LAB_JSON,
			       "{\"ts\":1700000000,\"client_ip\":\"192.0.2.1\",\"status\":200,"
			       "\"trace_id\":17654321098765432109}");

	assert_int_equal(record->time_ns, 1700000000000000000);
	assert_str(record->client, "192.0.2.1");
	assert_int_equal(record->status, 200);
	test_line_free(&line);
	(void)state;
}

static void zeek_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record =
		test_line_good(&line, WR_LAB_JSON,
			       "{\"_path\":\"dns\",\"_write_ts\":\"2018-03-24T17:15:20.866586Z\","
			       "\"ts\":\"2018-03-24T17:15:20.865716Z\",\"id.orig_h\":"
			       "\"10.47.1.100\",\"id.orig_p\":41772,\"query\":\"a.example\"}");

	assert_int_equal(record->time_ns, 1521911720865716000);
	assert_str(record->client, "10.47.1.100");
	assert_str(record->target, "");
	test_line_free(&line);
	(void)state;
}

static void names_of_the_user_replace_known_names(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = &line.slot.record;
	const char *text = "{\"ts\":1,\"when\":1704164645,\"client_ip\":\"192.0.2.1\",\"account\":"
			   "{\"id\":42},\"in\":7,\"out\":\"5\",\"cost\":99,\"took_us\":1500,"
			   "\"status\":200,\"tenant\":\"t1\"}";

	assert_null(test_line_read(&line, WR_LAB_JSON,
				   "time=when, client=Account.Id,cost=in+out,duration=took_us,"
				   "header.x-tenant=tenant",
				   NULL, text));
	assert_int_equal(record->time_ns, 1704164645000000000);
	assert_true(line.slot.whole);
	assert_str(record->client, "42");
	assert_true(record->stand_in);
	assert_int_equal(record->cost, 12);
	assert_int_equal(record->duration_ns, 1500000);
	assert_int_equal(record->status, 200); /* still known by its name */
	assert_header(record, "x-tenant", "t1");
	test_line_free(&line);

	assert_string_equal(test_line_read(&line, WR_LAB_JSON, "time=absent", NULL, text),
			    "no field with a time");
	test_line_free(&line);
	(void)state;
}

static void wrong_names_are_errors(void **state)
{
	static const struct {
		const char *fields, *text;
	} cases[] = {
		{"when=ts", "\"when\" in the names of fields is unknown. Known are: time, client, "
			    "method, target, query, request, host, user, status, bytes, duration, "
			    "cost, header.NAME"},
		{"time", "a name of a field is empty: write time=NAME,client=NAME"},
		{"client=a,cost=b+A",
		 "the names of fields contain \"A\" twice: a field can have one meaning only"},
		{"time=when,time=tenant", "\"time\" has two fields: give one"},
		{"header.X-A=a,client=b,header.x-a=c", "\"header.x-a\" has two fields: give one"},
		{"cost=a,cost=b", "\"cost\" has two fields: give one, or add them: cost=A+B"},
		{"=when",
		 "\"\" in the names of fields is unknown. Known are: time, client, method, "
		 "target, query, request, host, user, status, bytes, duration, cost, "
		 "header.NAME"},
		{"time=", "a name of a field is empty: write time=NAME,client=NAME"},
		{"cost=a+", "a name of a field is empty: write time=NAME,client=NAME"},
		{"header.=a", "\"header.\" in the names of fields is unknown. Known are: time, "
			      "client, method, target, query, request, host, user, status, bytes, "
			      "duration, cost, header.NAME"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_lab_fields *fields;
		struct weir_error error = {.text = ""};

		assert_int_equal(wr_lab_fields_new(&fields, cases[i].fields, &error), WEIR_EINVAL);
		assert_string_equal(error.text, cases[i].text);
		assert_null(fields);
	}
	(void)state;
}

static void costs_are_read(void **state)
{
	static const struct {
		const char *fields;
		int64_t cost;
	} cases[] = {{"", 1},
		     {",\"cost\":0", 0},
		     {",\"cost\":7,\"tokens\":9", 7},
		     {",\"tokens\":9,\"cost\":7", 7},
		     {",\"cost\":\"12\"", 12},
		     {",\"cost\":2.5", 3},
		     {",\"cost\":-3", 1},
		     {",\"cost\":\"-\"", 1},
		     {",\"cost\":null", 1},
		     {",\"prompt_tokens\":100,\"completion_tokens\":20", 120},
		     {",\"prompt_tokens\":100,\"completion_tokens\":20,\"total_tokens\":121", 121},
		     {",\"cost\":1e15", 1000000000000000},
		     {",\"cost\":1000000000000001", WR_LAB_COST_MAX},
		     {",\"cost\":9223372036854775807", WR_LAB_COST_MAX},
		     {",\"cost\":99999999999999999999", WR_LAB_COST_MAX},
		     {",\"cost\":1e18", WR_LAB_COST_MAX},
		     {",\"cost\":1e30", WR_LAB_COST_MAX},
		     {",\"cost\":\"1e30\"", WR_LAB_COST_MAX},
		     {",\"cost\":\"99999999999999999999\"", WR_LAB_COST_MAX},
		     {",\"cost\":\"1.5e3\"", 1500},
		     {",\"cost\":\"1e\"", 1},
		     {",\"cost\":\"1-2\"", 1},
		     {",\"cost\":\"0x10\"", 1},
		     {",\"cost\":\"12\\u0000\"", 1},
		     {",\"prompt_tokens\":9223372036854775807,\"completion_tokens\":20",
		      WR_LAB_COST_MAX},
		     {",\"prompt_tokens\":600000000000000,\"completion_tokens\":600000000000000",
		      WR_LAB_COST_MAX}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		char text[256];

		snprintf(text, sizeof text, "{\"ts\":1704164645,\"ip\":\"192.0.2.1\"%s}",
			 cases[i].fields);
		assert_int_equal(test_line_good(&line, WR_LAB_JSON, text)->cost, cases[i].cost);
		test_line_free(&line);
	}
	(void)state;
}

static void damaged_texts_are_repaired(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_JSON,
		"{\"ts\":1704164645,\"ip\":\"192.0.2.1\",\"request_uri\":\"/\\x22a\\\"b\","
		"\"http_user_agent\":\"\xff\xfe\xc3\xa9\"}");

	assert_str(record->target, "/%22a\"b");
	assert_header(record, "user-agent", "??\xc3\xa9");
	test_line_free(&line);
	(void)state;
}

/* A zero byte is part of its text. It neither ends the text nor makes the line unreadable. */
static void zero_bytes_are_data(void **state)
{
	static const char text[] = "{\"ts\":1704164645,\"ip\":\"192.0.2.1\\u0000x\","
				   "\"uri\":\"/a\\u0000b\",\"http_a\":\"c\\u0000d\","
				   "\"unused\":\"\\u0000\"}";
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(&line, WR_LAB_JSON, text);

	assert_int_equal(record->client.len, 11);
	assert_memory_equal(record->client.ptr, "192.0.2.1\0x", 11);
	assert_true(record->stand_in);
	assert_int_equal(record->target.len, 4);
	assert_memory_equal(record->target.ptr, "/a\0b", 4);
	assert_int_equal(record->header_count, 1);
	assert_int_equal(record->headers[0].value.len, 3);
	assert_memory_equal(record->headers[0].value.ptr, "c\0d", 3);
	test_line_free(&line);
	(void)state;
}

static void query_is_joined(void **state)
{
	struct test_line line;

	assert_str(test_line_good(&line, WR_LAB_JSON,
				  "{\"ts\":1704164645,\"uri\":\"/a\",\"args\":\"b=1\"}")
			   ->target,
		   "/a?b=1");
	test_line_free(&line);
	assert_str(test_line_good(&line, WR_LAB_JSON,
				  "{\"ts\":1704164645,\"request_uri\":\"/a?b=1\",\"args\":\"b=1\"}")
			   ->target,
		   "/a?b=1");
	test_line_free(&line);
	(void)state;
}

static void many_header_fields_have_a_bound(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record;
	char text[4096];
	size_t used =
		(size_t)snprintf(text, sizeof text, "{\"ts\":1704164645,\"ip\":\"192.0.2.1\"");

	for (int i = 0; i < 40; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, ",\"http_x_%d\":\"v%d\"",
					 i, i);
	snprintf(text + used, sizeof text - used, "}");
	record = test_line_good(&line, WR_LAB_JSON, text);
	assert_int_equal(record->header_count, 32);
	for (uint32_t i = 0; i < 32; i++) {
		char name[16], value[16];

		snprintf(name, sizeof name, "x-%u", i);
		snprintf(value, sizeof value, "v%u", i);
		assert_header(record, name, value);
	}
	test_line_free(&line);
	(void)state;
}

static void unreadable_lines_have_reasons(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"x", "not a JSON object"},
		{"[1]", "not a JSON object"},
		{"\"a\"", "not a JSON object"},
		{"{", "invalid JSON (string or '}' expected near end of file)"},
		{"{\"ts\":1704164645,\"ip\":\"192.0.2.1\"",
		 "invalid JSON ('}' expected near end of file)"},
		{"{\"ts\":1704164645,\"ip\":\"192.0.2.1\"} x",
		 "invalid JSON (end of file expected)"},
		{"{\"ts\":1704164645,\"ip\":\"\\ud800bad\"}",
		 "invalid JSON (invalid Unicode '\\uD800')"},
		{"{\"ts\":1704164645,\"ip\":\"a\",\"cost\":1e400}",
		 "invalid JSON (real number overflow)"},
		{"{\"ts\":1704164645,\"\x1b[31m\":x}", "invalid JSON (control character 0x1b)"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":\"1704164645\\u0000\"}", "no time"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":\"2024-01-02T03:04:05Z\\u0000x\"}", "no time"},
		{"{}", "no field with a time"},
		{"{\"ip\":\"192.0.2.1\"}", "no field with a time"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":null}", "no field with a time"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":\"soon\"}", "no time"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":-1}", "no time"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":1e300}", "no time"},
		{"{\"ip\":\"192.0.2.1\",\"ts\":253402300800}", "no time"}, /* the year 10000 */
		{"{\"level\":\"info\",\"ts\":1704164645.5,\"msg\":\"started\"}",
		 "no field of a request"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const char *reason = test_line_read(&line, WR_LAB_JSON, NULL, NULL, cases[i].text);

		if (!reason || strcmp(reason, cases[i].reason) != 0)
			fail_msg("%s: %s", cases[i].text, reason ? reason : "readable");
		test_line_free(&line);
	}
	(void)state;
}

/* A line of nested objects and arrays, as long as a line can be. */
static void deep_nesting_is_unreadable(void **state)
{
	size_t len = 200000;
	char *text = malloc(len + 1);
	struct test_line line;

	assert_non_null(text);
	for (int kind = 0; kind < 2; kind++) {
		for (size_t i = 0; i < len; i++)
			text[i] = kind ? "{\"a\":"[i % 5] : (i < 5 ? "{\"a\":"[i] : '[');
		text[len] = '\0';
		assert_string_equal(test_line_read(&line, WR_LAB_JSON, NULL, NULL, text),
				    "invalid JSON (maximum parsing depth reached)");
		test_line_free(&line);
	}
	free(text);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caddy_line_is_read),
		cmocka_unit_test(traefik_line_is_read),
		cmocka_unit_test(nginx_line_is_read),
		cmocka_unit_test(envoy_line_is_read),
		cmocka_unit_test(large_numbers_are_read),
		cmocka_unit_test(zeek_line_is_read),
		cmocka_unit_test(names_of_the_user_replace_known_names),
		cmocka_unit_test(wrong_names_are_errors),
		cmocka_unit_test(costs_are_read),
		cmocka_unit_test(damaged_texts_are_repaired),
		cmocka_unit_test(zero_bytes_are_data),
		cmocka_unit_test(query_is_joined),
		cmocka_unit_test(many_header_fields_have_a_bound),
		cmocka_unit_test(unreadable_lines_have_reasons),
		cmocka_unit_test(deep_nesting_is_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
