/* Elements of the kernel's sets: which ban becomes which element. */
#include "shield_test.h"

static void check(const char *ban_text, unsigned set, const char *expected)
{
	struct wr_ban ban = make_ban(ban_text, NOW_S + 60);
	struct wr_nft_element element;

	assert_true(wr_nft_element_of(&ban, NOW_S, &element));
	assert_int_equal(element.set, set);
	assert_string_equal(text_of(&element), expected);
	assert_int_equal(element.until_s, NOW_S + 60);
}

static void test_address_and_prefix_have_their_set(void **state)
{
	(void)state;
	check("198.51.100.7", WR_NFT_BANNED4, "198.51.100.7");
	check("198.51.100.0/24", WR_NFT_NETS4, "198.51.100.0/24");
	check("198.51.100.6/31", WR_NFT_NETS4, "198.51.100.6/31");
	check("2001:db8:0:7::/64", WR_NFT_BANNED6, "2001:db8:0:7::/64");
	check("2001:db8::/48", WR_NFT_NETS6, "2001:db8::/48");
}

static void test_ipv6_becomes_its_network_of_64_bits(void **state)
{
	(void)state;
	check("2001:db8:0:7:1:2:3:4", WR_NFT_BANNED6, "2001:db8:0:7::/64");
	check("2001:db8:0:7:8000::/65", WR_NFT_BANNED6, "2001:db8:0:7::/64");
}

static bool is_carried(struct wr_ban ban)
{
	struct wr_nft_element element;

	return wr_nft_element_of(&ban, NOW_S, &element);
}

static void test_bans_that_are_not_for_the_kernel(void **state)
{
	struct wr_ban ban = make_ban("198.51.100.7", NOW_S + 1), other;

	(void)state;
	assert_true(is_carried(ban));
	other = ban;
	other.flags = 0;
	assert_false(is_carried(other));
	other = ban;
	other.flags |= WR_BAN_SHADOW;
	assert_false(is_carried(other));
	other = ban;
	other.until_s = NOW_S;
	assert_false(is_carried(other));
	other = ban;
	other.family = 0;
	assert_false(is_carried(other));
	other = ban;
	other.prefix_bits = 33;
	assert_false(is_carried(other));
	other = ban;
	other.prefix_bits = 0;
	assert_false(is_carried(other));
}

/* A source address ::ffff:a.b.c.d in an IPv6 packet does not exist. */
static void test_mapped_address_is_not_carried(void **state)
{
	struct wr_ban ban = make_ban("2001:db8::", NOW_S + 1);

	(void)state;
	memset(ban.address, 0, 16);
	ban.address[10] = ban.address[11] = 0xff;
	assert_false(is_carried(ban));
}

static void test_range(void **state)
{
	struct wr_nft_element element = make_element("198.51.0.0/16", 0);
	struct wr_address_range range = wr_nft_element_range(&element);
	struct wr_address_range expected = make_range("198.51.0.0/16");

	(void)state;
	assert_memory_equal(&range, &expected, sizeof range);
	element = make_element("2001:db8::1", 0);
	range = wr_nft_element_range(&element);
	expected = make_range("2001:db8::/64");
	assert_memory_equal(&range, &expected, sizeof range);
}

/* 1,700,000,000 is 33,600 s after a multiple of half a day, 1,699,966,400. */
static void test_long_bans_are_renewed_twice_a_day(void **state)
{
	uint32_t cap_s = 1700000000u - 1700000000u % 43200u + 86400u;

	(void)state;
	assert_int_equal(wr_nft_until(NOW_S + 3600, NOW_S), NOW_S + 3600);
	assert_int_equal(wr_nft_until(UINT32_MAX, NOW_S), cap_s);
	assert_int_equal(wr_nft_until(cap_s, NOW_S), cap_s);
	assert_int_equal(wr_nft_until(cap_s + 1, NOW_S), cap_s);
	assert_int_equal(wr_nft_until(UINT32_MAX, cap_s - 43201), cap_s);
	assert_int_equal(wr_nft_until(UINT32_MAX, cap_s - 43200), cap_s + 43200);
}

static void test_equal_elements_are_joined_with_the_later_end(void **state)
{
	struct wr_nft_elements elements = {0};
	struct wr_nft_element items[] = {make_element("2001:db8::1", NOW_S + 5),
					 make_element("198.51.100.7", NOW_S + 9),
					 make_element("2001:db8::2", NOW_S + 8)};

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(wr_nft_elements_add(&elements, &items[i]));
	wr_nft_elements_sort(&elements);
	assert_int_equal(elements.count, 2);
	assert_string_equal(text_of(&elements.items[0]), "198.51.100.7");
	assert_string_equal(text_of(&elements.items[1]), "2001:db8::/64");
	assert_int_equal(elements.items[1].until_s, NOW_S + 8);
	wr_nft_elements_free(&elements);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_address_and_prefix_have_their_set),
		cmocka_unit_test(test_ipv6_becomes_its_network_of_64_bits),
		cmocka_unit_test(test_bans_that_are_not_for_the_kernel),
		cmocka_unit_test(test_mapped_address_is_not_carried),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_long_bans_are_renewed_twice_a_day),
		cmocka_unit_test(test_equal_elements_are_joined_with_the_later_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
