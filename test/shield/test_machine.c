/* SSH connections in the text of /proc/net/tcp. */
#include "shield_test.h"

#include "shield/machine.h"

static const struct wr_ssh_ports ports = {{22, 2222}, 2};

/* 0100007F is 127.0.0.1 and 0771A8C0 is 192.168.113.7 on a little-endian machine; port 0016 is
 * 22. */
static void test_established_ipv4(void **state)
{
	struct wr_address peer;
	struct wr_address_range expected = make_range("192.168.113.7");

	(void)state;
	assert_true(wr_ssh_line("   1: 0100007F:0016 0771A8C0:D431 01 00000000:00000000 "
				"00:00000000 00000000  0 0 1",
				&ports, &peer));
	assert_memory_equal(&peer, &expected.low, sizeof peer);
}

static void test_other_lines(void **state)
{
	struct wr_address peer;

	(void)state;
	/* the head, a listening socket, another local port, port 22 of the other side, TIME_WAIT */
	assert_false(wr_ssh_line("  sl  local_address rem_address   st tx_queue", &ports, &peer));
	assert_false(wr_ssh_line("   0: 00000000:0016 00000000:0000 0A 00000000", &ports, &peer));
	assert_false(wr_ssh_line("   1: 0100007F:0050 0771A8C0:D431 01 00000000", &ports, &peer));
	assert_false(wr_ssh_line("   1: 0100007F:D431 0771A8C0:0016 01 00000000", &ports, &peer));
	assert_false(wr_ssh_line("   1: 0100007F:0016 0771A8C0:D431 06 00000000", &ports, &peer));
}

static void test_ipv6(void **state)
{
	struct wr_address peer;
	struct wr_address_range expected = make_range("2001:db8::7");

	(void)state;
	assert_true(wr_ssh_line("   2: 00000000000000000000000000000000:08AE "
				"B80D0120000000000000000007000000:D431 01 00000000",
				&ports, &peer));
	assert_memory_equal(&peer, &expected.low, sizeof peer);
	expected = make_range("198.51.100.7"); /* IPv4 on a socket for both families */
	assert_true(wr_ssh_line("   3: 0000000000000000FFFF00000100007F:0016 "
				"0000000000000000FFFF0000076433C6:D431 01 00000000",
				&ports, &peer));
	assert_memory_equal(&peer, &expected.low, sizeof peer);
}

static void test_ports(void **state)
{
	struct wr_ssh_ports few = {0};

	(void)state;
	assert_int_equal(wr_ssh_port_of("203.0.113.5 40022 192.0.2.1 2222"), 2222);
	assert_int_equal(wr_ssh_port_of(NULL), 0);
	assert_int_equal(wr_ssh_port_of("x"), 0);
	wr_ssh_ports_add(&few, 22);
	wr_ssh_ports_add(&few, 22);
	wr_ssh_ports_add(&few, 0);
	wr_ssh_ports_add(&few, 2222);
	assert_int_equal(few.count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_established_ipv4),
		cmocka_unit_test(test_other_lines),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
