/* SSH connections in the text of /proc/net/tcp, and sessions in utmp. */
#include "shield_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utmp.h>

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

static void test_client(void **state)
{
	struct wr_address_range expected = make_range("203.0.113.5");
	struct wr_address client;

	(void)state;
	assert_true(wr_ssh_client_of("203.0.113.5 40022 192.0.2.1 2222", &client));
	assert_memory_equal(&client, &expected.low, sizeof client);
	assert_false(wr_ssh_client_of("203.0.113.0/24 40022 192.0.2.1 2222", &client));
	assert_false(wr_ssh_client_of("", &client));
	assert_false(wr_ssh_client_of(NULL, &client));
}

/* Writes an entry with an address of 4 or 16 bytes, or without one. */
static void put_entry(FILE *file, short type, const char *address)
{
	struct utmp entry = {.ut_type = type};

	if (address) {
		struct wr_address_range range = make_range(address);
		bool v4 = wr_address_is_v4(&range.low);

		memcpy(entry.ut_addr_v6, range.low.bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
	}
	assert_int_equal(fwrite(&entry, sizeof entry, 1, file), 1);
}

/* Only the sessions of users who are logged in count. A session without an address is local. */
static void test_logins(void **state)
{
	char path[] = "/tmp/weir-utmp-XXXXXX";
	struct wr_address_range v4 = make_range("198.51.100.7"), v6 = make_range("2001:db8::7");
	struct wr_protect_list logins = {0};
	struct weir_error error;
	FILE *file = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(file);
	put_entry(file, BOOT_TIME, NULL);
	put_entry(file, USER_PROCESS, "198.51.100.7");
	put_entry(file, LOGIN_PROCESS, "198.51.100.8");
	put_entry(file, DEAD_PROCESS, "198.51.100.9");
	put_entry(file, USER_PROCESS, NULL);
	put_entry(file, USER_PROCESS, "2001:db8::7");
	fputs("half of an entry", file);
	fclose(file);
	assert_int_equal(wr_ssh_read_logins(path, &logins, &error), 0);
	unlink(path);
	assert_int_equal(logins.count, 2);
	assert_memory_equal(&logins.items[0], &v4, sizeof v4);
	assert_memory_equal(&logins.items[1], &v6, sizeof v6);
	assert_int_equal(wr_ssh_read_logins(path, &logins, &error), 0); /* there is no file */
	assert_int_equal(logins.count, 2);
	wr_protect_list_free(&logins);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_established_ipv4),
		cmocka_unit_test(test_other_lines),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_client),
		cmocka_unit_test(test_logins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
