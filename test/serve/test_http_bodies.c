/* Bodies of a server's requests, as libmicrohttpd hands them over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serve/http_server.h"
#include "serve/service.h"

static struct wr_service service;
static struct wr_loop loop = {.service = &service};
static struct wr_http_server server = {.loop = &loop};

/* One whose head has been read. */
static void begin(struct wr_http_request *request)
{
	*request = (struct wr_http_request){.server = &server};
	request->body = request->few;
	request->body_cap = sizeof request->few;
}

static enum MHD_Result take(struct wr_http_request *request, size_t len)
{
	static const char bytes[16383];
	void *state = request;

	assert_true(len <= sizeof bytes);
	return wr_http_on_request(&server, NULL, "/", "POST", "HTTP/1.1", bytes, &len, &state);
}

static void end(struct wr_http_request *request)
{
	void *state = request;

	wr_http_on_completed(&server, NULL, &state, MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* The larger bodies of a loop share 32 MiB. A body that does not fit is refused; small ones need
 * none. */
static void test_bound_of_all(void **state)
{
	static struct wr_http_request large, medium, small;

	(void)state;
	server.body_bytes = 33554432 - 16384; /* as if others had that much */
	begin(&large);
	begin(&medium);
	begin(&small);
	assert_int_equal(take(&large, 16383), MHD_YES); /* and a zero behind it */
	assert_int_equal(server.body_bytes, 33554432);
	assert_int_equal(take(&medium, 1024), MHD_NO);
	assert_int_equal(take(&small, 1023), MHD_YES);
	assert_int_equal(server.body_bytes, 33554432);
	end(&large);
	assert_int_equal(server.body_bytes, 33554432 - 16384);
	assert_int_equal(take(&medium, 1024), MHD_YES);
	assert_int_equal(server.body_bytes, 33554432 - 16384 + 4096);
	end(&medium);
	end(&small);
	assert_int_equal(server.body_bytes, 33554432 - 16384);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound_of_all)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
