/* The policy of the deliverer: exact waits, final responses, stored header fields, the target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/str.h"
#include "serve/deliver/policy.h"

#define SECOND UINT64_C(1000000)

static void test_final(void **state)
{
	static const unsigned final[] = {200, 201, 202, 204, 301, 302, 304, 400,
					 401, 403, 404, 409, 410, 422, 451, 499};
	static const unsigned again[] = {0, 100, 101, 408, 425, 429, 500, 501, 502, 503, 504, 599};

	(void)state;
	for (size_t i = 0; i < sizeof final / sizeof *final; i++)
		assert_true(wr_deliver_is_final(final[i]));
	for (size_t i = 0; i < sizeof again / sizeof *again; i++)
		assert_false(wr_deliver_is_final(again[i]));
}

static void test_absent(void **state)
{
	(void)state;
	for (unsigned status = 500; status < 510; status++)
		assert_int_equal(wr_deliver_is_absent(status),
				 status == 502 || status == 503 || status == 504);
}

/* The delay doubles with each attempt, up to five minutes. Jitter reduces it to no less than
 * half. */
static void test_backoff(void **state)
{
	static const uint64_t whole[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300};

	(void)state;
	for (uint32_t tries = 0; tries < 12; tries++) {
		assert_int_equal(wr_deliver_backoff_us(tries, 0), whole[tries] * SECOND / 2);
		assert_int_equal(wr_deliver_backoff_us(tries, whole[tries] * SECOND / 2),
				 whole[tries] * SECOND);
		assert_true(wr_deliver_backoff_us(tries, UINT64_MAX) <= whole[tries] * SECOND);
	}
	assert_int_equal(wr_deliver_backoff_us(UINT32_MAX, 0), 150 * SECOND);
}

static uint64_t retry_after(const char *text, uint64_t now_us)
{
	uint64_t wait_us = 7;

	return wr_deliver_retry_after(wr_str(text), now_us, &wait_us) ? wait_us : UINT64_MAX;
}

static void test_retry_after(void **state)
{
	/* Sun, 06 Nov 1994 08:49:37 GMT. RFC 9110 has three formats for it. */
	const uint64_t date = 784111777 * SECOND;

	(void)state;
	assert_int_equal(retry_after("0", 0), 0);
	assert_int_equal(retry_after("120", date), 120 * SECOND);
	assert_int_equal(retry_after(" 3\t", date), 3 * SECOND);
	assert_true(retry_after("99999999999999999999999", date) >= UINT32_MAX * SECOND);
	assert_int_equal(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", date - 30 * SECOND),
			 30 * SECOND);
	assert_int_equal(retry_after("Sunday, 06-Nov-94 08:49:37 GMT", date - 1), 1);
	assert_int_equal(retry_after("Sun Nov  6 08:49:37 1994", date - SECOND), SECOND);
	assert_int_equal(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", date + SECOND), 0);
	assert_int_equal(retry_after("", date), UINT64_MAX);
	assert_int_equal(retry_after("-1", date), UINT64_MAX);
	assert_int_equal(retry_after("1.5", date), UINT64_MAX);
	assert_int_equal(retry_after("soon", date), UINT64_MAX);
	assert_int_equal(retry_after("in a while, as far as we can tell", date), UINT64_MAX);
}

static void test_wait(void **state)
{
	(void)state;
	assert_int_equal(wr_deliver_wait_us(5, 0, 100), 5);
	assert_int_equal(wr_deliver_wait_us(5, 9, 100), 9);
	assert_int_equal(wr_deliver_wait_us(5, 900, 100), 100);
	assert_int_equal(wr_deliver_wait_us(5, 9, 0), 0);
}

static void test_fields(void **state)
{
	static const char *const dropped[] = {
		"Connection",       "keep-alive", "Proxy-Authorization", "TE",
		"trailer",          "UPGRADE",    "Transfer-Encoding",   "Content-Length",
		"Proxy-Connection", "Expect",     "X-Weir-Deferred",     "X-Hop",
		"x-other"};
	static const char *const kept[] = {"Content-Type", "Host",      "Authorization", "Accept",
					   "X-Request-Id", "X-Hop-Not", "teapot",        "close"};
	const struct weir_str connection[] = {WR_STR("close, x-hop"), WR_STR(" , X-Other ,")};

	(void)state;
	for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
		assert_false(wr_deliver_keeps(wr_str(dropped[i]), connection, 2));
	for (size_t i = 0; i + 1 < sizeof kept / sizeof *kept; i++)
		assert_true(wr_deliver_keeps(wr_str(kept[i]), connection, 2));
	assert_true(wr_deliver_keeps(WR_STR("x-hop"), NULL, 0));
}

static void expect_target(const char *text, const char *url, const char *socket)
{
	struct wr_deliver_target target;
	struct weir_error error;

	assert_int_equal(wr_deliver_target_read(text, &target, &error), 0);
	assert_string_equal(target.url, url);
	assert_string_equal(target.unix_socket, socket);
}

static void test_target(void **state)
{
	static const char *const bad[] = {"",
					  "api:3000",
					  "ftp://api",
					  "http://",
					  "http://api/path",
					  "http://api?x=y",
					  "http://user@api",
					  "unix:",
					  "unix:relative",
					  "http://api:99999",
					  "http://a b"};
	char longest[200] = "unix:/";
	struct wr_deliver_target target;
	struct weir_error error;

	(void)state;
	expect_target("http://127.0.0.1:3000", "http://127.0.0.1:3000/", "");
	expect_target("https://api.example/", "https://api.example/", "");
	expect_target("http://[::1]:8080", "http://[::1]:8080/", "");
	expect_target("unix:/run/weir/deliver.sock", "http://localhost/", "/run/weir/deliver.sock");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(wr_deliver_target_read(bad[i], &target, &error), WEIR_EINVAL);
		assert_non_null(strstr(error.text, bad[i]));
	}
	memset(longest + 6, 'x', 150);
	assert_int_equal(wr_deliver_target_read(longest, &target, &error), WEIR_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_final),   cmocka_unit_test(test_absent),
		cmocka_unit_test(test_backoff), cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_wait),    cmocka_unit_test(test_fields),
		cmocka_unit_test(test_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
