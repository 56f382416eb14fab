#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/str.h"
#include "serve/admin/guard.h"

static struct wr_guard guard;

static int fresh(void **state)
{
	(void)state;
	guard = (struct wr_guard){.lock = PTHREAD_MUTEX_INITIALIZER};
	return 0;
}

static uint64_t wrong(const char *text, uint64_t now_ms)
{
	struct wr_address address;

	assert_int_equal(wr_address_parse(wr_str(text), &address), 0);
	return wr_guard_wrong(&guard, &address, now_ms);
}

/* 20 at once, then one a second; what is answered 429 is not counted on top. */
static void test_burst_then_pace(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(wrong("192.0.2.1", 5000), 0);
	assert_int_equal(wrong("192.0.2.1", 5000), 1000);
	assert_int_equal(wrong("192.0.2.1", 5400), 600);
	assert_int_equal(wrong("192.0.2.1", 6000), 0);
	assert_int_equal(wrong("192.0.2.1", 6000), 1000);
	assert_int_equal(wrong("192.0.2.2", 6000), 0);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(wrong("192.0.2.1", 27000), 0);
	assert_int_equal(wrong("192.0.2.1", 27000), 1000);
}

static void test_an_ipv6_network_is_one(void **state)
{
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(text, sizeof text, "2001:db8:1:2::%x", i);
		assert_int_equal(wrong(text, 1), 0);
	}
	assert_int_equal(wrong("2001:db8:1:2:ffff::1", 1), 1000);
	assert_int_equal(wrong("2001:db8:1:3::1", 1), 0);
	/* IPv4 addresses are not one network */
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(wrong("198.51.100.1", 1), 0);
	assert_int_equal(wrong("198.51.100.2", 1), 0);
}

/* A thousand others push out those that are due soonest; the busiest stays in its set. */
static void test_many_addresses(void **state)
{
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(wrong("192.0.2.1", 1), 0);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(text, sizeof text, "10.0.%u.%u", i / 256, i % 256);
		assert_int_equal(wrong(text, 1), 0);
	}
	assert_int_equal(wrong("192.0.2.1", 1), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_burst_then_pace, fresh),
		cmocka_unit_test_setup(test_an_ipv6_network_is_one, fresh),
		cmocka_unit_test_setup(test_many_addresses, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
