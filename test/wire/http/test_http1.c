/* Tests the parser of HTTP/1.1 requests: valid heads, refused heads, chunked bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "wire/http/http1.h"

static char memory[WR_HTTP1_HEAD_MAX + 64];

/* Reads a complete head. `head` points into `memory`. */
static int read_head(struct wr_http1 *head, const char *text)
{
	size_t len = strlen(text), scanned = 0;

	memcpy(memory, text, len + 1);
	assert_int_equal(wr_http1_head_end(memory, len, &scanned), len);
	return wr_http1_read(head, memory, len);
}

static void test_head(void **state)
{
	struct wr_http1 head;
	struct wr_http1_field field;
	const char *at;

	(void)state;
	assert_int_equal(read_head(&head, "POST /check/a%20b?deny=403&x=%41 HTTP/1.1\r\n"
					  "Host: weir:8082\r\n"
					  "X-Empty:\r\n"
					  "x-user: \t ann b \t\r\n"
					  "X-User:second\r\n"
					  "Content-Length: 12\r\n"
					  "Expect: 100-Continue\r\n\r\n"),
			 0);
	assert_string_equal(head.method.ptr, "POST");
	assert_string_equal(head.path.ptr, "/check/a b");
	assert_string_equal(head.query.ptr, "deny=403&x=%41");
	assert_int_equal(head.query.len, 14);
	assert_int_equal(head.content_length, 12);
	assert_true(head.expects_continue && head.keep_alive && !head.chunked);
	assert_string_equal(wr_http1_field(&head, WR_STR("X-USER")).ptr, "ann b");
	assert_string_equal(wr_http1_field(&head, WR_STR("x-empty")).ptr, "");
	assert_null(wr_http1_field(&head, WR_STR("x-use")).ptr);
	at = wr_http1_next(&head, head.fields, &field);
	assert_true(wr_str_equal(field.name, WR_STR("Host")));
	assert_true(wr_str_equal(field.value, WR_STR("weir:8082")));
	for (int i = 0; i < 5; i++)
		at = wr_http1_next(&head, at, &field);
	assert_true(wr_str_equal(field.name, WR_STR("Expect")));
	assert_null(wr_http1_next(&head, at, &field));
}

static void test_targets(void **state)
{
	static const struct {
		const char *target, *path, *query;
	} cases[] = {
		{"/", "/", ""},
		{"*", "*", ""},
		{"/a?", "/a", ""},
		{"/a?b?c", "/a", "b?c"},
		{"/%2e%2E/x", "/../x", ""},
		{"http://weir/check/api?by=original", "/check/api", "by=original"},
		{"HTTPS://weir:1/x", "/x", ""},
	};
	struct wr_http1 head;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", cases[i].target);
		assert_int_equal(read_head(&head, text), 0);
		assert_string_equal(head.path.ptr, cases[i].path);
		assert_true(wr_str_equal(head.query, wr_str(cases[i].query)));
	}
}

static void test_connection(void **state)
{
	static const struct {
		const char *version, *field;
		bool keep_alive;
	} cases[] = {
		{"1.1", "X: y", true},
		{"1.1", "Connection: close", false},
		{"1.1", "Connection: Upgrade , CLOSE", false},
		{"1.1", "Connection: closely", true},
		{"1.0", "X: y", false},
		{"1.0", "Connection: Keep-Alive", true},
		{"1.0", "Connection: keep-alive, close", false},
		{"1.9", "X: y", true},
	};
	struct wr_http1 head;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(text, sizeof text, "GET / HTTP/%s\r\nHost: x\r\n%s\r\n\r\n",
			 cases[i].version, cases[i].field);
		assert_int_equal(read_head(&head, text), 0);
		assert_int_equal(head.keep_alive, cases[i].keep_alive);
	}
}

/* Heads that RFC 9112 allows a server to refuse. For each of them, there is another server that
 * reads the head differently. */
static void test_refused(void **state)
{
	static const struct {
		int status;
		const char *text;
	} cases[] = {
		{400, "\r\n\r\n"},
		{400, "GET\r\n\r\n"},
		{400, "GET /\r\n\r\n"},
		{400, "GET / \r\n\r\n"},
		{400, " GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "G@T / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a\tb HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /#a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /%0 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET x HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://x?a=/b HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://u@x/a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"},
		{400, "GET / HTTP/1.0\r\nHost: \xc3\xa4\r\n\r\n"},
		{400, "GET / HTTP/1.1x\r\nHost: x\r\n\r\n"},
		{400, "GET / http/1.1\r\nHost: x\r\n\r\n"},
		{505, "GET / HTTP/2.0\r\nHost: x\r\n\r\n"},
		{505, "GET / HTTP/0.9\r\nHost: x\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nHOST: x\r\n\r\n"},
		{400, "GET / HTTP/1.1\nHost: x\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nX: a\177\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n"},
		{400,
		 "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
		      "Transfer-Encoding: chunked\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
		      "Transfer-Encoding: chunked\r\n\r\n"},
		{400, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{501, "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
		{501, "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n"},
		{501, "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked;q=1\r\n\r\n"},
	};
	struct wr_http1 head;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (read_head(&head, cases[i].text) != cases[i].status)
			fail_msg("%s", cases[i].text);
		assert_null(wr_http1_field(&head, WR_STR("host")).ptr);
	}
}

/* A length above 2^64 counts as a very large length. */
static void test_huge_length(void **state)
{
	struct wr_http1 head;

	(void)state;
	assert_int_equal(read_head(&head, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: "
					  "99999999999999999999999999999999999\r\n\r\n"),
			 0);
	assert_true(head.content_length > UINT32_MAX);
}

/* Copies a text to `memory`, without the zero at its end. */
static void put(size_t at, const char *text)
{
	while (*text)
		memory[at++] = *text++;
}

/* Writes a head with a request line of `line` bytes and fields of `fields` bytes. Returns its
 * length. */
static size_t fill_head(size_t line, size_t fields)
{
	size_t at = line + 2, end = at + fields;

	memset(memory, 'a', end);
	put(0, "GET /");
	put(line - 9, " HTTP/1.1\r\n");
	put(at, "Host: x\r\nX:");
	put(end - 2, "\r\n\r\n");
	return end + 2;
}

static void test_bounds(void **state)
{
	struct wr_http1 head;

	(void)state;
	assert_int_equal(wr_http1_read(&head, memory, fill_head(8192, 32768)), 0);
	assert_int_equal(head.path.len, 8192 - 4 - 9);
	assert_int_equal(wr_http1_field(&head, WR_STR("x")).len, 32768 - 9 - 4);
	assert_int_equal(wr_http1_read(&head, memory, fill_head(8193, 100)), 414);
	assert_int_equal(wr_http1_read(&head, memory, fill_head(100, 32769)), 431);
}

/* The end of a head is found if the head arrives in any two pieces, and no byte is searched
 * twice. */
static void test_end_in_pieces(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\nA: \r\r\n\n\r\n\r\nrest";
	const size_t want = sizeof text - 1 - 4;

	(void)state;
	for (size_t cut = 0; cut < want; cut++) {
		size_t scanned = 0;

		assert_int_equal(wr_http1_head_end(text, cut, &scanned), 0);
		assert_int_equal(scanned, cut);
		assert_int_equal(wr_http1_head_end(text, sizeof text - 1, &scanned), want);
	}
}

/* ---- chunked bodies ---- */

static char body[256];

/* Decodes a body in pieces of `size` bytes. Returns the last outcome, and sets *taken to the number
 * of bytes consumed. */
static int dechunk(const char *text, size_t size, size_t *taken)
{
	struct wr_http1_chunks chunks = {0};
	size_t len = strlen(text), body_len = 0;
	int what = WR_CHUNK_MORE;

	*taken = 0;
	while (*taken < len && what != WR_CHUNK_BAD && what != WR_CHUNK_END) {
		size_t left = len - *taken, used, data_len;
		const char *data;

		what = wr_http1_dechunk(&chunks, text + *taken, left < size ? left : size, &used,
					&data, &data_len);
		*taken += used;
		if (what == WR_CHUNK_DATA) {
			memcpy(body + body_len, data, data_len);
			body_len += data_len;
		}
	}
	body[body_len] = '\0';
	return what;
}

/* Incomplete heads with status 0 can still become valid; the other heads cannot. */
static void test_parts(void **state)
{
	static const struct {
		int status;
		const char *text;
	} cases[] = {
		{0, "GET / HTTP/1.1"},
		{0, "GET / HTTP/1.1\r"},
		{0, "GET / HTTP/1.1\r\nHost: x\r\n\r"},
		{400, "GET / HTTP/1.1\n"},
		{400, "GET / HTTP/1.1\n\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\n\n"},
	};
	static const char line[] = "GET / HTTP/1.1\r\n";
	static char text[WR_HTTP1_HEAD_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t len = strlen(cases[i].text);

		assert_int_equal(wr_http1_part_check(cases[i].text, len, 0), cases[i].status);
		assert_int_equal(wr_http1_part_check(cases[i].text, len, len - 1),
				 cases[i].text[len - 1] == '\n' ? cases[i].status : 0);
	}
	memset(text, 'x', sizeof text);
	assert_int_equal(wr_http1_part_check(text, WR_HTTP1_LINE_MAX + 1, 0), 0);
	assert_int_equal(wr_http1_part_check(text, WR_HTTP1_LINE_MAX + 2, 0), 414);
	memcpy(text, line, sizeof line - 1);
	assert_int_equal(wr_http1_part_check(text, sizeof line - 1 + WR_HTTP1_FIELDS_MAX + 1, 0),
			 0);
	assert_int_equal(wr_http1_part_check(text, sizeof line - 1 + WR_HTTP1_FIELDS_MAX + 2, 0),
			 431);
}

/* Expect is ignored in HTTP/1.0, which has no interim responses. */
static void test_expectations(void **state)
{
	struct wr_http1 head;

	(void)state;
	assert_int_equal(
		read_head(&head, "GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n"), 0);
	assert_true(head.expects_continue);
	assert_int_equal(
		read_head(&head, "GET / HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\n\r\n"), 0);
	assert_false(head.expects_continue);
	assert_int_equal(read_head(&head, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), 0);
	assert_int_equal(read_head(&head, "GET / HTTP/1.1\r\nHost:\r\n\r\n"), 0);
}

static void test_chunks(void **state)
{
	static const char text[] = "5\r\nhello\r\n"
				   "0A;name=\"v\"\r\n, wide wor\r\n"
				   "2 \r\nld\r\n"
				   "000\r\nTrailer: dropped\r\nX: y\r\n\r\nGET /";
	size_t taken;

	(void)state;
	for (size_t size = 1; size < sizeof text; size++) {
		assert_int_equal(dechunk(text, size, &taken), WR_CHUNK_END);
		assert_string_equal(body, "hello, wide world");
		assert_int_equal(taken, sizeof text - 1 - 5);
	}
}

static void test_bad_chunks(void **state)
{
	static const char *const cases[] = {
		"1 2\r\nx\r\n0\r\n\r\n", /* two numbers in the line of the size */
		"\r\n",
		"x\r\n",
		"-1\r\n",
		";a\r\n",
		"5\nhello",
		"5\r\rhello",
		"5\r\nhellox",
		"5\r\nhello\rx",
		"5\r\nhello\n",
		"100000000\r\n",
		"0\r\n\n",
		"0\r\na\n",
		"0\r\na\r\n\r\n", /* a trailer without a colon */
		"0\r\n: a\r\n\r\n",
		"0\r\na : b\r\n\r\n",
		"0\r\na: b\r\n c\r\n\r\n",
		"0\r\na: \001\r\n\r\n",
		"0\r\nGET / HTTP/1.1\r\n\r\n",
		"0\r\n\rx",
		"0\r\nx: y\rz",
		"5\001\r\n",
		"5;\001\r\n",
	};
	char line[600];
	size_t taken;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (dechunk(cases[i], 64, &taken) != WR_CHUNK_BAD)
			fail_msg("%s", cases[i]);
	memset(line, '0', sizeof line - 1);
	line[sizeof line - 1] = '\0';
	assert_int_equal(dechunk(line, 64, &taken), WR_CHUNK_BAD);
	assert_int_equal(taken, WR_HTTP1_CHUNK_LINE_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),          cmocka_unit_test(test_targets),
		cmocka_unit_test(test_connection),    cmocka_unit_test(test_refused),
		cmocka_unit_test(test_huge_length),   cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_end_in_pieces), cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_bad_chunks),    cmocka_unit_test(test_parts),
		cmocka_unit_test(test_expectations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
