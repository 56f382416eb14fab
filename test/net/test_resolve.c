/* Lookups of names. The names are addresses, so that getaddrinfo() asks no server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "net/resolve.h"

static unsigned found_count, refused_count;

static void found(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		  const struct weir_error *error)
{
	(void)wait;
	if (addresses) {
		assert_int_equal(addresses->count, 1);
		found_count++;
		return;
	}
	assert_int_equal(error->code, WEIR_ESYS);
	assert_string_equal(error->text, "too many names are being looked up");
	refused_count++;
}

static void find(struct wr_names *names, unsigned number, struct wr_name_wait *wait)
{
	char name[16];

	snprintf(name, sizeof name, "127.0.0.%u", number);
	wait->found = found;
	wr_names_find(names, name, wait);
}

/* 32 lookups may be in progress. Their callbacks run only in uv_run(), so no lookup ends before. */
static void test_number_of_lookups_is_limited(void **state)
{
	struct wr_name_wait waits[32], again, more;
	struct wr_names *names;
	uv_loop_t uv;

	(void)state;
	assert_int_equal(uv_loop_init(&uv), 0);
	names = wr_names_new(&uv);
	for (unsigned i = 0; i < 32; i++)
		find(names, i, &waits[i]);
	find(names, 31, &again); /* shares the lookup of waits[31] */
	assert_int_equal(refused_count, 0);
	find(names, 32, &more);
	assert_int_equal(refused_count, 1);
	assert_int_equal(found_count, 0);
	uv_run(&uv, UV_RUN_DEFAULT);
	assert_int_equal(found_count, 33);
	find(names, 32, &more);
	uv_run(&uv, UV_RUN_DEFAULT);
	assert_int_equal(found_count, 34);
	assert_int_equal(refused_count, 1);
	wr_names_stop(names);
	assert_int_equal(uv_loop_close(&uv), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_number_of_lookups_is_limited)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
