/* Tests the limit on the memory of a server's large requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serve/http/server.h"

static struct wr_serve_http_server server = {.large.max = WR_HTTP_LARGE_MAX};
static struct wr_serve_http_connection client = {.server = &server};

static bool take(struct wr_serve_http_request *request, size_t len)
{
	static const char bytes[16383];

	assert_true(len <= sizeof bytes);
	return wr_serve_http_request_body(request, bytes, len);
}

/* All large bodies of a server together have 32 MiB. A body that does not fit is refused. A small
 * body needs no memory of the 32 MiB. */
static void test_bound_of_all(void **state)
{
	struct wr_serve_http_request *large = wr_serve_http_request_new(&client);
	struct wr_serve_http_request *medium = wr_serve_http_request_new(&client);
	struct wr_serve_http_request *small = wr_serve_http_request_new(&client);

	(void)state;
	server.large.held = 33554432 - 16384; /* as if other requests used that much */
	assert_true(take(large, 16383));      /* 16384 bytes with the zero at the end */
	assert_int_equal(server.large.held, 33554432);
	assert_false(take(medium, 1024));
	assert_true(take(small, 1023));
	assert_int_equal(server.large.held, 33554432);
	wr_serve_http_request_free(large);
	assert_int_equal(server.large.held, 33554432 - 16384);
	wr_serve_http_request_free(medium); /* a refused body gets no more bytes */
	medium = wr_serve_http_request_new(&client);
	assert_true(take(medium, 1024));
	assert_int_equal(server.large.held, 33554432 - 16384 + 2048);
	wr_serve_http_request_free(medium);
	wr_serve_http_request_free(small);
	assert_int_equal(server.large.held, 33554432 - 16384);
	wr_pool_free(&server.spare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound_of_all)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
