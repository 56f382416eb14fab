/* The limit on wrong tokens, with exact times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/str.h"
#include "serve/admin/guard.h"

static struct wr_admin_guard guard;

static int reset_guard(void **state)
{
	(void)state;
	guard = (struct wr_admin_guard){.lock = PTHREAD_MUTEX_INITIALIZER};
	return 0;
}

static uint64_t send_wrong(const char *text, uint64_t now_ms)
{
	struct wr_address address;

	assert_int_equal(wr_address_parse(wr_str(text), &address), 0);
	return wr_admin_guard_wrong(&guard, &address, now_ms);
}

/* 20 wrong tokens at once, then one a second. A token above the limit is not counted. */
static void test_burst_and_rate(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(send_wrong("192.0.2.1", 5000), 0);
	assert_int_equal(send_wrong("192.0.2.1", 5000), 1000);
	assert_int_equal(send_wrong("192.0.2.1", 5400), 600);
	assert_int_equal(send_wrong("192.0.2.1", 6000), 0);
	assert_int_equal(send_wrong("192.0.2.1", 6000), 1000);
	assert_int_equal(send_wrong("192.0.2.2", 6000), 0);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(send_wrong("192.0.2.1", 27000), 0);
	assert_int_equal(send_wrong("192.0.2.1", 27000), 1000);
}

static void test_ipv6_network_has_one_entry(void **state)
{
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(text, sizeof text, "2001:db8:1:2::%x", i);
		assert_int_equal(send_wrong(text, 1), 0);
	}
	assert_int_equal(send_wrong("2001:db8:1:2:ffff::1", 1), 1000);
	assert_int_equal(send_wrong("2001:db8:1:3::1", 1), 0);
	/* IPv4 addresses have an entry each. */
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(send_wrong("198.51.100.1", 1), 0);
	assert_int_equal(send_wrong("198.51.100.2", 1), 0);
}

/* A thousand addresses replace the entries that are cleared soonest. The address with the most
 * wrong tokens keeps its entry. */
static void test_busiest_address_is_kept(void **state)
{
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(send_wrong("192.0.2.1", 1), 0);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(text, sizeof text, "10.0.%u.%u", i / 256, i % 256);
		assert_int_equal(send_wrong(text, 1), 0);
	}
	assert_int_equal(send_wrong("192.0.2.1", 1), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_burst_and_rate, reset_guard),
		cmocka_unit_test_setup(test_ipv6_network_has_one_entry, reset_guard),
		cmocka_unit_test_setup(test_busiest_address_is_kept, reset_guard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
