/* Tests requests that a proxy describes in header fields. */
#include "limiter/helper.h"

#include <string.h>

#include "base/str.h"
#include "wire/check/forward_auth.h"

#define LINES_MAX 16

static struct weir_header lines[LINES_MAX];
static size_t line_count;
static struct wr_problem problem;
static struct weir_http_view view;

static size_t find(void *context, struct weir_str name, struct weir_str *values, size_t max)
{
	size_t count = 0;

	(void)context;
	for (size_t i = 0; i < line_count; i++)
		if (wr_str_equal_nocase(lines[i].name, name) && ++count <= max)
			values[count - 1] = lines[i].value;
	return count;
}

static int describe(const char *text, struct wr_forward forward)
{
	struct weir_str rest = wr_str(text);

	line_count = 0;
	while (rest.len && line_count < LINES_MAX) {
		struct weir_str line = wr_str_first(rest, wr_str_find(rest, '\n'));
		size_t colon = wr_str_find(line, ':');

		rest = wr_str_from(rest, line.len + (line.len < rest.len));
		if (colon >= line.len)
			return -2;
		lines[line_count++] = (struct weir_header){
			wr_str_first(line, colon), wr_str_trim(wr_str_from(line, colon + 1))};
	}
	forward.header = find;
	forward.host = WR_STR("own");
	return wr_forward_view(&forward, &view, &problem);
}

static int plain(const char *text)
{
	return describe(text, (struct wr_forward){.identity = {"", 0}});
}

static void assert_text(struct weir_str got, const char *wanted)
{
	assert_int_equal(got.len, strlen(wanted));
	assert_memory_equal(got.ptr, wanted, got.len);
}

#define FORWARDED "X-Forwarded-Method: PUT\nX-Forwarded-Uri: /a?b=1\n"
#define ORIGINAL "X-Original-Method: GET\nX-Original-URI: /c\n"

static void test_families(void **state)
{
	(void)state;
	assert_int_equal(plain(FORWARDED), 0);
	assert_text(view.method, "PUT");
	assert_text(view.target, "/a?b=1");
	assert_text(view.host, "own");
	assert_int_equal(view.peer_len, 0);
	assert_int_equal(plain(ORIGINAL "x-forwarded-host: there"), 0);
	assert_text(view.target, "/c");
	assert_text(view.host, "there");
	assert_int_equal(plain(FORWARDED ORIGINAL), -1);
	assert_int_equal(plain(FORWARDED "X-Original-Method: GET"), -1);
	assert_int_equal(
		describe(FORWARDED ORIGINAL, (struct wr_forward){.by = WR_FORWARD_FORWARDED}), 0);
	assert_text(view.target, "/a?b=1");
	assert_int_equal(
		describe(FORWARDED ORIGINAL, (struct wr_forward){.by = WR_FORWARD_ORIGINAL}), 0);
	assert_text(view.target, "/c");
	assert_int_equal(describe(FORWARDED, (struct wr_forward){.by = WR_FORWARD_ORIGINAL}), -1);
}

static void test_incomplete_or_twice(void **state)
{
	(void)state;
	assert_int_equal(plain(""), -1);
	assert_non_null(strstr(problem.detail, "URI is missing"));
	assert_int_equal(plain("X-Forwarded-Uri: /a"), -1);
	assert_non_null(strstr(problem.detail, "method is missing"));
	assert_int_equal(plain("X-Forwarded-Method: GET\nX-Forwarded-Uri:"), -1);
	assert_int_equal(plain(FORWARDED "x-forwarded-uri: /b"), -1);
	assert_non_null(strstr(problem.detail, "occurs 2 times; configure the proxy to replace "
					       "this header instead of adding another"));
	assert_int_equal(plain(FORWARDED "X-Forwarded-Host: a\nX-Forwarded-Host: b"), -1);
	assert_int_equal(plain(ORIGINAL "X-Original-URL: http://h/"), -1);
	assert_int_equal(problem.code, WR_BAD_REQUEST);
}

/* Returns the client's address as text, "none" or "wrong". */
static const char *client(const char *fields, const struct wr_address_ranges *proxies)
{
	static char text[WR_ADDRESS_TEXT];
	char all[512] = FORWARDED;
	struct wr_address address;

	strncat(all, fields, sizeof all - strlen(all) - 1);
	if (describe(all, (struct wr_forward){.proxies = proxies}) != 0)
		return "wrong";
	if (view.peer_len == 0)
		return "none";
	address = wr_address_from(view.peer, view.peer_len);
	text[wr_address_text(&address, WR_ADDRESS_WHOLE, text)] = '\0';
	return text;
}

static void test_addresses(void **state)
{
	(void)state;
	assert_string_equal(client("X-Forwarded-For: 192.0.2.1", NULL), "192.0.2.1");
	assert_string_equal(client("X-Forwarded-For: 1.1.1.1, 192.0.2.1", NULL), "192.0.2.1");
	assert_string_equal(client("X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: 192.0.2.2 ", NULL),
			    "192.0.2.2");
	assert_string_equal(client("X-Forwarded-For: 192.0.2.3:80,,", NULL), "192.0.2.3");
	assert_string_equal(client("X-Forwarded-For: [2001:db8::1]:80", NULL), "2001:db8::1");
	assert_string_equal(client("X-Forwarded-For: 2001:db8::2", NULL), "2001:db8::2");
	assert_string_equal(client("X-Forwarded-For: ::ffff:192.0.2.4", NULL), "192.0.2.4");
	assert_string_equal(client("X-Forwarded-For: [", NULL), "wrong");
	assert_string_equal(client("X-Forwarded-For: 1.2.3.4, host", NULL), "wrong");
	assert_string_equal(client("X-Forwarded-For: ,", NULL), "none");
	assert_string_equal(client("X-Real-IP: 192.0.2.5", NULL), "192.0.2.5");
	assert_string_equal(client("X-Forwarded-For: 192.0.2.6\nX-Real-IP: 1.1.1.1", NULL),
			    "192.0.2.6");
	assert_string_equal(client("X-Real-IP: x", NULL), "wrong");
}

static void test_proxies_are_passed_over(void **state)
{
	const struct wr_address_ranges *near = wr_forward_neighbours();

	(void)state;
	assert_string_equal(client("X-Forwarded-For: 1.1.1.1, 192.0.2.1, 10.0.0.1, ::1", near),
			    "192.0.2.1");
	assert_string_equal(client("X-Forwarded-For: 10.0.0.2, 10.0.0.1", near), "10.0.0.2");
	assert_string_equal(client("X-Forwarded-For: 1.1.1.1, 10.0.0.1", NULL), "10.0.0.1");
}

static void test_neighbours(void **state)
{
	static const char *in[] = {"127.0.0.1",      "::1",         "10.255.0.1",
				   "172.31.255.255", "192.168.0.1", "169.254.1.1",
				   "fe80::1",        "fd00::1",     "100.64.0.1"};
	static const char *out[] = {"128.0.0.1",   "::2",         "11.0.0.1",
				    "172.32.0.0",  "192.169.0.1", "100.128.0.1",
				    "2001:db8::1", "0.0.0.0",     "8.8.8.8"};
	struct wr_address address;

	(void)state;
	for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
		assert_int_equal(wr_address_parse(wr_str(in[i]), &address), 0);
		assert_true(wr_address_ranges_hold(wr_forward_neighbours(), &address));
		assert_int_equal(wr_address_parse(wr_str(out[i]), &address), 0);
		assert_false(wr_address_ranges_hold(wr_forward_neighbours(), &address));
	}
}

static void test_identity(void **state)
{
	struct wr_forward by_field = {.identity = {"x-who", 5}};

	(void)state;
	assert_int_equal(describe(FORWARDED "X-Who: ann", by_field), 0);
	assert_text(view.identity, "ann");
	assert_int_equal(describe(FORWARDED, by_field), 0);
	assert_int_equal(view.identity.len, 0);
	assert_int_equal(describe(FORWARDED "X-Who: a\nX-Who: b", by_field), -1);
	assert_int_equal(plain(FORWARDED "X-Who: ann"), 0);
	assert_int_equal(view.identity.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),   cmocka_unit_test(test_incomplete_or_twice),
		cmocka_unit_test(test_addresses),  cmocka_unit_test(test_proxies_are_passed_over),
		cmocka_unit_test(test_neighbours), cmocka_unit_test(test_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
