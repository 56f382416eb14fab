/* Addresses and prefixes: reading, writing, joining and searching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/address.h"
#include "base/str.h"

static struct wr_address parse(const char *text)
{
	struct wr_address address;

	assert_int_equal(wr_address_parse(wr_str(text), &address), 0);
	return address;
}

static const char *show(const char *text, unsigned bits)
{
	static char out[WR_ADDRESS_TEXT + 1];
	struct wr_address address = parse(text);

	out[wr_address_text(&address, bits, out)] = '\0';
	return out;
}

static void each_address_has_one_spelling(void **state)
{
	assert_string_equal(show("192.0.2.1", WR_ADDRESS_WHOLE), "192.0.2.1");
	assert_string_equal(show("::ffff:192.0.2.1", WR_ADDRESS_WHOLE), "192.0.2.1");
	assert_string_equal(show("::FFFF:C000:201", WR_ADDRESS_WHOLE), "192.0.2.1");
	assert_string_equal(show("2001:0DB8:0:0::1", WR_ADDRESS_WHOLE), "2001:db8::1");
	assert_string_equal(show("255.255.255.255", 9), "255.128.0.0/9");
	assert_string_equal(show("255.255.255.255", 0), "0.0.0.0/0");
	assert_string_equal(show("255.255.255.255", 32), "255.255.255.255");
	assert_string_equal(show("2001:db8:ffff::1", 33), "2001:db8:8000::/33");
	assert_string_equal(show("2001:db8:ffff::1", 128), "2001:db8:ffff::1");
	(void)state;
}

static void invalid_addresses_are_refused(void **state)
{
	static const char *const bad[] = {"",         "1.2.3",    "1.2.3.4.5", "1.2.3.256",
					  "01.2.3.4", "::1%eth0", "1.2.3.4 ",  "x",
					  ":::",      "1.2.3.4/8"};
	struct wr_address address;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(wr_address_parse(wr_str(bad[i]), &address), -1);
	assert_int_equal(wr_address_parse((struct weir_str){"1.2.3.4\0x", 9}, &address), -1);
	(void)state;
}

static enum wr_address_prefix_error prefix(const char *text, struct wr_address_range *range)
{
	unsigned bits;

	return wr_address_prefix_parse(wr_str(text), range, &bits);
}

static void prefixes_are_checked(void **state)
{
	static const char *const bad[] = {"10.0.0.0/33",  "10.0.0.0/", "10.0.0.0/08",
					  "10.0.0.0/-1",  "::/129",    "/8",
					  "10.0.0.0/8/8", "a/8",       "10.0.0.0/0x8"};
	struct wr_address_range range;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(prefix(bad[i], &range), WR_ADDRESS_PREFIX_BAD);
	assert_int_equal(prefix("10.0.0.1/8", &range), WR_ADDRESS_PREFIX_HOST_BITS);
	assert_int_equal(prefix("10.0.0.0/8", &range), WR_ADDRESS_PREFIX_OK);
	assert_int_equal(prefix("::/0", &range), WR_ADDRESS_PREFIX_OK);
	assert_int_equal(prefix("0.0.0.0/0", &range), WR_ADDRESS_PREFIX_OK);
	assert_int_equal(prefix("2001:db8::1", &range), WR_ADDRESS_PREFIX_OK);
	assert_memory_equal(&range.low, &range.high, sizeof range.low);
	(void)state;
}

/* An IPv4 prefix in the spelling of IPv6 has the length of the IPv4 prefix. */
static void lengths_of_mapped_prefixes(void **state)
{
	static const struct {
		const char *text;
		unsigned bits;
		bool is_v4;
	} cases[] = {
		{"10.1.2.3", 32, true},       {"10.0.0.0/8", 8, true},
		{"0.0.0.0/0", 0, true},       {"::ffff:10.1.2.3", 32, true},
		{"::ffff:a01:203", 32, true}, {"::ffff:10.0.0.0/104", 8, true},
		{"::ffff:0:0/96", 0, true},   {"::ffff:0:0/95", 95, false},
		{"::/96", 96, false},         {"2001:db8::/32", 32, false},
		{"::1", 128, false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_address_range range;
		unsigned bits;

		assert_int_not_equal(wr_address_prefix_parse(wr_str(cases[i].text), &range, &bits),
				     WR_ADDRESS_PREFIX_BAD);
		if (bits != cases[i].bits || wr_address_is_v4(&range.low) != cases[i].is_v4)
			fail_msg("%s: %u bits", cases[i].text, bits);
	}
	(void)state;
}

static void ranges_contain_their_addresses(void **state)
{
	static const char *const prefix_texts[] = {"10.0.0.0/9",  "10.128.0.0/9",  "192.0.2.7",
						   "10.1.0.0/16", "2001:db8::/32", "192.0.2.9/32"};
	static const char *const in[] = {"10.0.0.0",  "10.255.255.255", "::ffff:10.1.1.1",
					 "192.0.2.7", "192.0.2.9",      "2001:db8:ffff::"};
	static const char *const out[] = {"9.255.255.255", "11.0.0.0", "192.0.2.8",
					  "2001:db9::",    "::",       "192.0.2.6",
					  "ffff::"};
	struct wr_address_range items[6];
	struct wr_address_ranges ranges = {items, 0};

	for (int i = 0; i < 6; i++)
		prefix(prefix_texts[i], &items[i]);
	ranges.count = (uint32_t)wr_address_ranges_join(items, 6);
	assert_int_equal(ranges.count, 4); /* the three ranges in 10.0.0.0/8 are joined */
	for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
		struct wr_address address = parse(in[i]);

		assert_true(wr_address_ranges_hold(&ranges, &address));
	}
	for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
		struct wr_address address = parse(out[i]);

		assert_false(wr_address_ranges_hold(&ranges, &address));
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_address_has_one_spelling),
		cmocka_unit_test(invalid_addresses_are_refused),
		cmocka_unit_test(prefixes_are_checked),
		cmocka_unit_test(lengths_of_mapped_prefixes),
		cmocka_unit_test(ranges_contain_their_addresses),
	};

	return cmocka_run_group_tests_name("base_address", tests, NULL, NULL);
}
