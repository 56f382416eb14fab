/* The limit of the connections of each client. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/client_count.h"

static struct wr_client_counts *counts;

static int setup(void **state)
{
	(void)state;
	counts = wr_client_counts_new(3);
	return counts ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < WR_CLIENT_BUCKETS; i++)
		assert_null(counts->buckets[i]); /* clients without connections have no entry */
	wr_client_counts_free(counts);
	return 0;
}

/* Counts a connection from this address; see wr_client_counts_enter. */
static bool enter(const char *text, struct wr_address *client, bool *counted)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
		return wr_client_counts_enter(counts, (struct sockaddr *)&four, client, counted);
	assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
	return wr_client_counts_enter(counts, (struct sockaddr *)&six, client, counted);
}

static void test_maximum_per_client(void **state)
{
	static const struct {
		const char *first, *same, *other;
	} cases[] = {
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "2001:db8:1:3::1"},
	};
	struct wr_address client, other;
	bool counted;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (int n = 0; n < 3; n++) {
			assert_true(
				enter(n % 2 ? cases[i].same : cases[i].first, &client, &counted));
			assert_true(counted);
		}
		assert_false(enter(cases[i].first, &client, &counted));
		assert_false(enter(cases[i].same, &client, &counted));
		assert_true(enter(cases[i].other, &other, &counted));
		wr_client_counts_leave(counts, &other);
		wr_client_counts_leave(counts, &client);
		assert_true(enter(cases[i].same, &client, &counted));
		assert_false(enter(cases[i].first, &client, &counted));
		for (int n = 0; n < 3; n++)
			wr_client_counts_leave(counts, &client);
	}
}

static void test_this_machine_is_not_counted(void **state)
{
	static const char *const near[] = {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"};
	struct wr_address client;
	bool counted;

	(void)state;
	for (size_t i = 0; i < sizeof near / sizeof *near; i++)
		for (int n = 0; n < 10; n++) {
			assert_true(enter(near[i], &client, &counted));
			assert_false(counted);
		}
	/* The peer of a Unix socket has no address. */
	assert_true(wr_client_counts_enter(counts, NULL, &client, &counted));
	assert_false(counted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_maximum_per_client, setup, teardown),
		cmocka_unit_test_setup_teardown(test_this_machine_is_not_counted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
