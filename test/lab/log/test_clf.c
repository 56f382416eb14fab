/* The formats common, combined and vhost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "lab/log/log_test.h"

#define TIME "[20/Feb/2016:00:00:45 -0500]"
#define TIME_NS 1455944445000000000

static void common_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record =
		test_line_good(&line, WR_LAB_COMMON,
			       "192.0.2.7 - frank " TIME " \"GET /a?b=1 HTTP/1.0\" 200 2326");
	static const uint8_t address[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 7};

	assert_int_equal(record->time_ns, TIME_NS);
	assert_true(line.slot.whole);
	assert_str(record->client, "192.0.2.7");
	assert_true(record->has_address);
	assert_false(record->stand_in);
	assert_memory_equal(record->address.bytes, address, 16);
	assert_str(record->method, "GET");
	assert_str(record->target, "/a?b=1");
	assert_str(record->host, "");
	assert_str(record->user, "frank");
	assert_int_equal(record->header_count, 0);
	assert_int_equal(record->status, 200);
	assert_int_equal(record->bytes, 2326);
	assert_int_equal(record->duration_ns, 0);
	assert_int_equal(record->cost, 1);
	test_line_free(&line);
	(void)state;
}

static void combined_line_is_read(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record =
		test_line_good(&line, WR_LAB_COMBINED,
			       "192.0.2.7 - - " TIME " \"POST /login HTTP/1.1\" 503 - "
			       "\"https://a.example/x\" \"Mozilla/5.0 (X11)\"");

	assert_str(record->method, "POST");
	assert_str(record->target, "/login");
	assert_str(record->user, "");
	assert_int_equal(record->status, 503);
	assert_int_equal(record->bytes, 0);
	assert_int_equal(record->header_count, 2);
	assert_header(record, "referer", "https://a.example/x");
	assert_header(record, "user-agent", "Mozilla/5.0 (X11)");
	test_line_free(&line);

	/* the format common does not read the fields behind the length */
	record = test_line_good(&line, WR_LAB_COMMON,
				"192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 1 \"a\" \"b\"");
	assert_int_equal(record->header_count, 0);
	test_line_free(&line);
	(void)state;
}

static void absent_header_fields_are_left_out(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = test_line_good(
		&line, WR_LAB_COMBINED,
		"192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 5 \"-\" \"curl/8.0\"");

	assert_int_equal(record->header_count, 1);
	assert_header(record, "referer", NULL);
	assert_header(record, "user-agent", "curl/8.0");
	test_line_free(&line);
	(void)state;
}

static void virtual_host_is_read(void **state)
{
	static const char *const hosts[] = {"a.example", "a.example:443", "a.example:8080"};

	for (size_t i = 0; i < 3; i++) {
		struct test_line line;
		const struct wr_lab_record *record;
		char text[256];

		snprintf(text, sizeof text,
			 "%s 192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"",
			 hosts[i]);
		record = test_line_good(&line, WR_LAB_VHOST, text);
		assert_str(record->host, "a.example");
		assert_str(record->client, "192.0.2.7");
		assert_header(record, "user-agent", "x");
		test_line_free(&line);
	}
	(void)state;
}

static void clients_are_read(void **state)
{
	static const struct {
		const char *text, *client;
		uint8_t first, last;
		bool stand_in;
	} cases[] = {
		{"0.0.0.0", "0.0.0.0", 0, 0, false},
		{"255.255.255.255", "255.255.255.255", 0, 255, false},
		{"1.22.133.4", "1.22.133.4", 0, 4, false},
		{"2001:db8::1", "2001:db8::1", 0x20, 1, false},
		{"::ffff:192.0.2.7", "::ffff:192.0.2.7", 0, 7, false},
		{"192.0.2.7:41234", "192.0.2.7", 0, 7, false},
		{"[2001:db8::1]:443", "2001:db8::1", 0x20, 1, false},
		{"[2001:db8::1]", "2001:db8::1", 0x20, 1, false},
		{"in24.inetnebr.com", "in24.inetnebr.com", 0xfd, 0, true},
		{"256.1.1.1", "256.1.1.1", 0xfd, 0, true},
		{"1.2.3", "1.2.3", 0xfd, 0, true},
		{"1.2.3.4.5", "1.2.3.4.5", 0xfd, 0, true},
		{"1.2.3.04", "1.2.3.04", 0xfd, 0, true},
		{"1..3.4444", "1..3.4444", 0xfd, 0, true},
		{"1234.1.1.1", "1234.1.1.1", 0xfd, 0, true},
		{".1.2.3.4", ".1.2.3.4", 0xfd, 0, true},
		{"12345678901234", "12345678901234", 0xfd, 0, true},
		{"1.2.3.4.", "1.2.3.4.", 0xfd, 0, true},
		{"host:80", "host:80", 0xfd, 0, true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const struct wr_lab_record *record;
		char text[256];

		snprintf(text, sizeof text, "%s - - " TIME " \"GET / HTTP/1.1\" 200 5",
			 cases[i].text);
		record = test_line_good(&line, WR_LAB_COMMON, text);
		assert_str(record->client, cases[i].client);
		assert_true(record->has_address);
		if (record->stand_in != cases[i].stand_in ||
		    record->address.bytes[0] != cases[i].first)
			fail_msg("%s", cases[i].text);
		if (!cases[i].stand_in)
			assert_int_equal(record->address.bytes[15], cases[i].last);
		test_line_free(&line);
	}
	(void)state;
}

/* Names have different stand-ins in their first 64 bits, and a name always has the same one. */
static void stand_ins_tell_names_apart(void **state)
{
	struct wr_address first[100];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 100; i++) {
			struct test_line line;
			const struct wr_lab_record *record;
			char text[128];

			snprintf(text, sizeof text, "host%d - - " TIME " \"GET / HTTP/1.1\" 200 5",
				 i);
			record = test_line_good(&line, WR_LAB_COMMON, text);
			if (round == 0)
				first[i] = record->address;
			assert_memory_equal(&record->address, &first[i], 16);
			for (int j = 0; j < i; j++)
				assert_memory_not_equal(first[j].bytes, first[i].bytes, 8);
			test_line_free(&line);
		}
	}
	(void)state;
}

/* The parser remembers the last client. */
static void remembered_client_changes_nothing(void **state)
{
	struct wr_lab_client last = {.len = 0};
	static const char *const clients[] = {"2001:db8::1", "2001:db8::2", "a.example",
					      "b.example", "2001:db8::1"};

	for (size_t i = 0; i < 5; i++) {
		char bytes[128] = "";
		struct wr_lab_slot slot = {.many = NULL}, fresh = {.many = NULL};
		struct wr_lab_client none = {.len = 0};

		snprintf(bytes, sizeof bytes, "%s", clients[i]);
		for (int again = 0; again < 2; again++) {
			wr_lab_slot_reset(&slot);
			wr_lab_slot_reset(&fresh);
			wr_lab_slot_client(&slot, wr_str(bytes), &last);
			wr_lab_slot_client(&fresh, wr_str(bytes), &none);
			assert_memory_equal(&slot.record.address, &fresh.record.address, 16);
			assert_int_equal(slot.record.stand_in, fresh.record.stand_in);
			assert_str(slot.record.client, clients[i]);
		}
	}
	(void)state;
}

static void dash_is_no_client(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record =
		test_line_good(&line, WR_LAB_COMMON, "- - - " TIME " \"GET / HTTP/1.1\" 200 5");

	assert_false(record->has_address);
	assert_str(record->client, "");
	test_line_free(&line);
	(void)state;
}

static void requests_are_read(void **state)
{
	static const struct {
		const char *request, *method, *target;
	} cases[] = {
		{"GET /a b c HTTP/1.1", "GET", "/a b c"},
		{"GET / HTTP/2.0", "GET", "/"},
		{"GET / HTTP/2", "GET", "/"},
		{"GET /shuttle", "GET", "/shuttle"}, /* HTTP/0.9 */
		{"OPTIONS * HTTP/1.1", "OPTIONS", "*"},
		{"CONNECT a.example:443 HTTP/1.1", "CONNECT", "a.example:443"},
		{"GET http://a.example/x HTTP/1.1", "GET", "http://a.example/x"},
		{"VERSION-CONTROL /x HTTP/1.1", "VERSION-CONTROL", "/x"},
		{"GET /\\x22a\\\"b\\\\c HTTP/1.1", "GET", "/\"a\"b\\c"},
		{"GET /a\\tb HTTP/1.1", "GET", "/a\tb"},
		{"GET /a\\\" b HTTP/1.1", "GET", "/a\" b"}, /* a blank behind the quote */
		{"GET /\\xzz HTTP/1.1", "GET", "/\\xzz"},
		{"GET /q\"x HTTP/1.1", "GET", "/q\"x"}, /* a quote that is not escaped */
		/* requests that are not HTTP */
		{"-", "", ""},
		{"", "", ""},
		{"GET", "", ""},
		{"GET ", "", ""},
		{" / HTTP/1.1", "", ""},
		{"GET  HTTP/1.1", "", ""},
		{"\\x16\\x03\\x01\\x02\\x00", "", ""},
		{"\\x00\\x00\\x008qoOTfEMdb5", "", ""},
		{"MGLNDD_192.0.2.7_443", "", ""},
		{"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1", "", ""}, /* 33 letters */
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const struct wr_lab_record *record;
		char text[256];

		snprintf(text, sizeof text, "192.0.2.7 - - " TIME " \"%s\" 400 166 \"-\" \"x\"",
			 cases[i].request);
		record = test_line_good(&line, WR_LAB_COMBINED, text);
		assert_str(record->method, cases[i].method);
		assert_str(record->target, cases[i].target);
		assert_int_equal(record->status, 400);
		assert_header(record, "user-agent", "x");
		test_line_free(&line);
	}
	(void)state;
}

static void users_may_have_blanks(void **state)
{
	static const struct {
		const char *head, *user;
	} cases[] = {{"192.0.2.7 - -", ""},          {"192.0.2.7 - bob", "bob"},
		     {"192.0.2.7 - bob b", "bob b"}, {"192.0.2.7 ident bob", "bob"},
		     {"192.0.2.7 - [x] y", "[x] y"}, {"192.0.2.7", ""}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		char text[256];

		snprintf(text, sizeof text, "%s " TIME " \"GET / HTTP/1.1\" 200 5", cases[i].head);
		assert_str(test_line_good(&line, WR_LAB_COMMON, text)->user, cases[i].user);
		test_line_free(&line);
	}
	(void)state;
}

static void further_fields_are_read(void **state)
{
	static const struct {
		const char *fields, *forwarded;
		uint64_t duration_ns;
	} cases[] = {
		{"", NULL, 0},
		{" \"203.0.113.5, 198.51.100.2\"", "203.0.113.5, 198.51.100.2", 0},
		{" \"-\" 0.250", NULL, 250000000},
		{" rt=0.005 uct=\"0.001\" urt=0.004", NULL, 5000000},
		{" request_time=12.000", NULL, 12000000000},
		{" \"2001:db8::1\" 0.1 0.2", "2001:db8::1", 100000000},
		{" 42 \"web@docker\" \"http://10.0.0.2:80\" 17ms", NULL, 17000000}, /* Traefik */
		{" 17", NULL, 0},
		{" \"no address\"", NULL, 0},
		{" \"not closed", NULL, 0},
		{" ", NULL, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const struct wr_lab_record *record;
		char text[256];

		snprintf(text, sizeof text,
			 "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 5 \"r\" \"u\"%s",
			 cases[i].fields);
		record = test_line_good(&line, WR_LAB_COMBINED, text);
		assert_header(record, "referer", "r");
		assert_header(record, "user-agent", "u");
		assert_header(record, "x-forwarded-for", cases[i].forwarded);
		assert_int_equal(record->duration_ns, cases[i].duration_ns);
		test_line_free(&line);
	}
	(void)state;
}

static void numbers_have_bounds(void **state)
{
	static const struct {
		const char *numbers;
		uint32_t status;
		uint64_t bytes;
	} cases[] = {{"200 1234567", 200, 1234567},
		     {"200 12345678", 200, 12345678},
		     {"200 123456789012", 200, 123456789012},
		     {"- -", 0, 0},
		     {"000 0", 0, 0},
		     {"999 922337203685477579", 999, 922337203685477579}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const struct wr_lab_record *record;
		char text[256];

		snprintf(text, sizeof text, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" %s",
			 cases[i].numbers);
		record = test_line_good(&line, WR_LAB_COMMON, text);
		assert_int_equal(record->status, cases[i].status);
		assert_int_equal(record->bytes, cases[i].bytes);
		test_line_free(&line);
	}
	(void)state;
}

static void unreadable_lines_have_reasons(void **state)
{
	static const struct {
		enum wr_lab_format format;
		const char *text, *reason;
	} cases[] = {
		{WR_LAB_COMBINED, "", "no time"},
		{WR_LAB_COMBINED, "garbage", "no time"},
		{WR_LAB_COMBINED, "2025/12/17 09:00:00 [error] 7#7: *1 connect() failed",
		 "no time"},
		{WR_LAB_COMBINED, "192.0.2.7 - - [20/Feb/2016:00:00:45 -0500", "no time"},
		{WR_LAB_COMBINED,
		 "192.0.2.7 - - [01/Jan/10000:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1", "no time"},
		{WR_LAB_COMBINED, TIME " \"GET / HTTP/1.1\" 200 5", "no time"},
		{WR_LAB_COMBINED, " " TIME " \"GET / HTTP/1.1\" 200 5", "no client"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME, "no request in quotes"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " GET / HTTP/1.1 200 5",
		 "no request in quotes"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1",
		 "no request in quotes"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\\",
		 "no request in quotes"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\"", "no status"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 1000 5", "no status"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" x 5", "no status"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200", "no length"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 5x", "no length"},
		{WR_LAB_COMBINED, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 12345678x",
		 "no length"},
		{WR_LAB_VHOST, "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 5",
		 "no virtual host"},
		{WR_LAB_VHOST, "192.0.2.7 " TIME " \"GET / HTTP/1.1\" 200 5", "no client"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const char *reason =
			test_line_read(&line, cases[i].format, NULL, NULL, cases[i].text);

		if (!reason || strcmp(reason, cases[i].reason) != 0)
			fail_msg("%s: %s", cases[i].text, reason ? reason : "readable");
		test_line_free(&line);
	}
	(void)state;
}

/* Quotes at every place around the 64 bytes that are searched at once. */
static void quotes_are_found_at_every_place(void **state)
{
	for (size_t len = 1; len < 200; len++) {
		struct test_line line;
		const struct wr_lab_record *record;
		char target[256], text[1024];

		memset(target, 'a', len);
		target[0] = '/';
		target[len] = '\0';
		snprintf(text, sizeof text,
			 "192.0.2.7 - - " TIME " \"GET %s HTTP/1.1\" 200 5 \"%s\" \"\\\"%s\"",
			 target, target, target);
		record = test_line_good(&line, WR_LAB_COMBINED, text);
		assert_str(record->target, target);
		assert_header(record, "referer", target);
		assert_int_equal(record->headers[1].value.len, len + 1);
		assert_int_equal(record->headers[1].value.ptr[0], '"');
		test_line_free(&line);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(common_line_is_read),
		cmocka_unit_test(combined_line_is_read),
		cmocka_unit_test(absent_header_fields_are_left_out),
		cmocka_unit_test(virtual_host_is_read),
		cmocka_unit_test(clients_are_read),
		cmocka_unit_test(stand_ins_tell_names_apart),
		cmocka_unit_test(remembered_client_changes_nothing),
		cmocka_unit_test(dash_is_no_client),
		cmocka_unit_test(requests_are_read),
		cmocka_unit_test(users_may_have_blanks),
		cmocka_unit_test(further_fields_are_read),
		cmocka_unit_test(numbers_have_bounds),
		cmocka_unit_test(unreadable_lines_have_reasons),
		cmocka_unit_test(quotes_are_found_at_every_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
