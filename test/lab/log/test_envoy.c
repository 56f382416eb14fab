/* The default text format of Envoy, and Istio's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/log/log_test.h"

static void envoy_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_ENVOY,
		"[2016-04-15T20:17:00.310Z] \"POST /api/v1/locations HTTP/2\" 204 - 154 7 226 100 "
		"\"203.0.113.5, 10.0.35.28\" \"nsq2http\" \"cc21d9b0-cf5c\" \"locations\" "
		"\"tcp://10.0.2.1:80\"");

	assert_int_equal(record->time_ns, 1460751420310000000);
	assert_false(line.slot.whole);
	assert_str(record->client, "10.0.35.28");
	assert_str(record->method, "POST");
	assert_str(record->target, "/api/v1/locations");
	assert_str(record->host, "locations");
	assert_int_equal(record->status, 204);
	assert_int_equal(record->bytes, 7);
	assert_int_equal(record->duration_ns, 226000000);
	assert_int_equal(record->header_count, 3);
	assert_header(record, "x-forwarded-for", "203.0.113.5, 10.0.35.28");
	assert_header(record, "user-agent", "nsq2http");
	assert_header(record, "x-request-id", "cc21d9b0-cf5c");
	test_line_free(&line);
	(void)state;
}

static void empty_fields_are_left_out(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_ENVOY,
		"[2016-04-15T20:17:00.310Z] \"- - -\" 0 DPE 0 0 0 - \"-\" \"-\" \"-\" "
		"\"-\" \"-\"");

	assert_false(record->has_address);
	assert_str(record->target, "- -");
	assert_str(record->host, "");
	assert_int_equal(record->status, 0);
	assert_int_equal(record->header_count, 0);
	test_line_free(&line);
	(void)state;
}

/* A product of the duration and its unit that does not fit 64 bits is the longest duration. */
static void long_durations_are_capped(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_ENVOY,
		"[2016-04-15T20:17:00.310Z] \"GET / HTTP/2\" 204 - 154 7 555555555555555555 100 "
		"\"10.0.35.28\" \"-\" \"-\" \"-\" \"-\"");

	assert_int_equal(record->duration_ns, 1ull << 62);
	test_line_free(&line);
	(void)state;
}

static void istio_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_ENVOY,
		"[2020-11-25T21:26:18.409Z] \"GET /status/418 HTTP/1.1\" 418 - via_upstream - "
		"\"-\" 0 "
		"135 3 1 \"-\" \"curl/7.73.0\" \"84961386\" \"httpbin:8000\" \"10.44.1.27:80\" "
		"outbound|8000||httpbin 10.44.1.23:37652 10.0.45.184:8000 10.44.1.23:46520 - "
		"default");

	assert_int_equal(record->time_ns, 1606339578409000000);
	assert_str(record->client, "10.44.1.23");
	assert_str(record->host, "httpbin:8000");
	assert_int_equal(record->status, 418);
	assert_int_equal(record->bytes, 135);
	assert_int_equal(record->duration_ns, 3000000);
	test_line_free(&line);
	(void)state;
}

static void unreadable_lines_have_reasons(void **state)
{
#define START "[2016-04-15T20:17:00.310Z] \"GET / HTTP/1.1\" "
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"", "no time"},
		{"x", "no time"},
		{"[", "no time"},
		{"[soon] \"GET / HTTP/1.1\"", "no time"},
		{"[2016-04-15T20:17:00.310Z]", "no request in quotes"},
		{"[2016-04-15T20:17:00.310Z] GET", "no request in quotes"},
		{"[2016-04-15T20:17:00.310Z] \"GET", "no request in quotes"},
		{START, "too few fields"},
		{START "x - 1 2 3 4", "no status"},
		{START "1000 - 1 2 3 4", "no status"},
		{START "200 - 1", "too few fields"},
		{START "200 - via_upstream - \"-\"", "too few fields"},
		{START "200 - 1 x 3 4", "no length"},
		{START "200 - 1 2 3 4 \"-\" \"-\"", "too few fields"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const char *reason = test_line_read(&line, WR_LAB_ENVOY, NULL, NULL, cases[i].text);

		if (!reason || strcmp(reason, cases[i].reason) != 0)
			fail_msg("%s: %s", cases[i].text, reason ? reason : "readable");
		test_line_free(&line);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(envoy_line_is_read),
		cmocka_unit_test(empty_fields_are_left_out),
		cmocka_unit_test(long_durations_are_capped),
		cmocka_unit_test(istio_line_is_read),
		cmocka_unit_test(unreadable_lines_have_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
