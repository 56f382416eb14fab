/* Hop-by-hop header fields: by name, and by the list in a Connection field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hop_by_hop.h"
#include "base/str.h"

static void test_names(void **state)
{
	static const char *const dropped[] = {
		"Connection",          "keep-alive",     "TE",     "Transfer-Encoding",
		"Proxy-Authorization", "Content-Length", "Expect", "X-WEIR-DEFERRED"};
	static const char *const stored[] = {"Content-Type", "Host", "Authorization",
					     "teapot",       "t",    ""};

	(void)state;
	for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
		assert_true(wr_hop_by_hop_name(wr_str(dropped[i])));
	for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
		assert_false(wr_hop_by_hop_name(wr_str(stored[i])));
}

static void test_connection_list(void **state)
{
	(void)state;
	assert_true(wr_hop_by_hop_listed(WR_STR("close, x-hop"), WR_STR("X-Hop")));
	assert_true(wr_hop_by_hop_listed(WR_STR("X-Hop"), WR_STR("x-hop")));
	assert_true(wr_hop_by_hop_listed(WR_STR("\tx-hop ,close"), WR_STR("x-hop")));
	assert_true(wr_hop_by_hop_listed(WR_STR(",,x-hop"), WR_STR("x-hop")));
	/* A list without its comma is not valid, but its names are found. */
	assert_true(wr_hop_by_hop_listed(WR_STR("close x-hop"), WR_STR("x-hop")));
	assert_false(wr_hop_by_hop_listed(WR_STR("x-hop-2, xx-hop"), WR_STR("x-hop")));
	assert_false(wr_hop_by_hop_listed(WR_STR(" , "), WR_STR("")));
	assert_false(wr_hop_by_hop_listed(WR_STR(""), WR_STR("x-hop")));
	assert_false(wr_hop_by_hop_listed((struct weir_str){"a\0b", 3}, WR_STR("a")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_connection_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
