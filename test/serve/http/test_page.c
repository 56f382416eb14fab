/* Tests the recognition of requests of web pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "serve/http/page.h"

static void test_names_of_this_machine(void **state)
{
	static const char *const local[] = {"localhost",      "LOCALHOST:8082", "127.0.0.1",
					    "127.0.0.1:8082", "127.9.9.9:1",    "[::1]",
					    "[::1]:8082"};
	static const char *const others[] = {"",
					     "evil.example",
					     "evil.example:8082",
					     "localhost.evil.example",
					     "127.0.0.1.evil.example",
					     "127.evil.example",
					     "10.0.0.1",
					     "[::2]",
					     "[::1",
					     "[::1].evil.example",
					     "0.0.0.0",
					     ":8082"};

	(void)state;
	for (size_t i = 0; i < sizeof local / sizeof *local; i++)
		if (!wr_page_host_is_local(wr_str(local[i])))
			fail_msg("%s is this machine", local[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (wr_page_host_is_local(wr_str(others[i])))
			fail_msg("%s is not this machine", others[i]);
}

static void test_port_of_a_host(void **state)
{
	(void)state;
	assert_true(wr_page_host_has_port(WR_STR("a.example:8082"), 8082));
	assert_true(wr_page_host_has_port(WR_STR("[2001:db8::1]:8082"), 8082));
	assert_true(wr_page_host_has_port(WR_STR("a.example"), 80));
	assert_true(wr_page_host_has_port(WR_STR("[2001:db8::1]"), 80));
	assert_false(wr_page_host_has_port(WR_STR("a.example"), 8082));
	assert_false(wr_page_host_has_port(WR_STR("a.example:8081"), 8082));
	assert_false(wr_page_host_has_port(WR_STR("a.example:80820"), 8082));
	assert_false(wr_page_host_has_port(WR_STR("[2001:db8::8082]"), 8082));
	assert_false(wr_page_host_has_port(WR_STR("["), 8082));
}

static void test_foreign_origins(void **state)
{
	(void)state;
	assert_false(wr_page_is_foreign(WR_STR(""), WR_STR("a:1")));
	assert_false(wr_page_is_foreign(WR_STR("http://a:1"), WR_STR("a:1")));
	assert_false(wr_page_is_foreign(WR_STR("https://A:1"), WR_STR("a:1")));
	assert_true(wr_page_is_foreign(WR_STR("http://a:2"), WR_STR("a:1")));
	assert_true(wr_page_is_foreign(WR_STR("http://a"), WR_STR("a:1")));
	assert_true(wr_page_is_foreign(WR_STR("null"), WR_STR("a:1")));
	assert_true(wr_page_is_foreign(WR_STR("x:"), WR_STR("")));
}

static void test_media_type(void **state)
{
	(void)state;
	assert_true(wr_page_is_json(WR_STR("application/json")));
	assert_true(wr_page_is_json(WR_STR("Application/JSON; charset=utf-8")));
	assert_true(wr_page_is_json(WR_STR(" application/json ;x")));
	assert_false(wr_page_is_json(WR_STR("")));
	assert_false(wr_page_is_json(WR_STR("text/plain")));
	assert_false(wr_page_is_json(WR_STR("text/plain; application/json")));
	assert_false(wr_page_is_json(WR_STR("application/jsonp")));
	assert_false(wr_page_is_json(WR_STR("application/x-www-form-urlencoded")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_this_machine),
		cmocka_unit_test(test_port_of_a_host),
		cmocka_unit_test(test_foreign_origins),
		cmocka_unit_test(test_media_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
