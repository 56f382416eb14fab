/* Lists of networks in options, and the peers that they contain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "net/networks.h"

static bool holds(const struct wr_networks *networks, const char *text)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return wr_networks_hold(networks, (const struct sockaddr *)&v4);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return wr_networks_hold(networks, (const struct sockaddr *)&v6);
}

/* A socket for IPv4 and IPv6 reports the address of an IPv4 peer as ::ffff:a.b.c.d. */
static void test_peers(void **state)
{
	struct wr_text_list list = {.count = 2, .items = {"10.0.0.0/8", "2001:db8::7"}};
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct wr_networks networks = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(wr_networks_read(&networks, &list, "--x", &error), 0);
	assert_true(holds(&networks, "10.255.0.1"));
	assert_true(holds(&networks, "::ffff:10.1.2.3"));
	assert_true(holds(&networks, "2001:db8::7"));
	assert_false(holds(&networks, "11.0.0.1"));
	assert_false(holds(&networks, "2001:db8::8"));
	assert_false(holds(&networks, "127.0.0.1"));
	assert_false(wr_networks_hold(&networks, NULL));
	assert_false(wr_networks_hold(&networks, &other));
	wr_networks_free(&networks);
}

static void test_empty_list_contains_no_peer(void **state)
{
	struct wr_text_list list = {.count = 0};
	struct wr_networks networks = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(wr_networks_read(&networks, &list, "--x", &error), 0);
	assert_false(holds(&networks, "127.0.0.1"));
	assert_false(holds(&networks, "::1"));
	wr_networks_free(&networks);
}

static void test_invalid_network_is_an_error(void **state)
{
	struct wr_text_list list = {.count = 2, .items = {"10.0.0.0/8", "localhost"}};
	struct wr_networks networks = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(wr_networks_read(&networks, &list, "--x", &error), WEIR_EINVAL);
	assert_string_equal(error.text, "--x 'localhost' is not a network such as 192.0.2.0/24");
	wr_networks_free(&networks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_empty_list_contains_no_peer),
		cmocka_unit_test(test_invalid_network_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
