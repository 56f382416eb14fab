/* Protected addresses: which ranges meet which lists. */
#include "shield_test.h"

static enum wr_protect_kind find(const struct wr_protect *protect, const char *text)
{
	struct wr_address_range range = make_range(text);

	return wr_protect_find(protect, &range);
}

static bool replace(struct wr_protect *protect, enum wr_protect_kind kind, const char *text)
{
	struct wr_address_range range = make_range(text);
	struct wr_protect_list list = {0};

	assert_true(wr_protect_list_add(&list, &range));
	return wr_protect_replace(protect, kind, &list);
}

static void test_fixed_addresses(void **state)
{
	struct wr_protect protect;

	(void)state;
	assert_true(wr_protect_init(&protect));
	assert_int_equal(find(&protect, "127.9.9.9"), WR_PROTECT_FIXED);
	assert_int_equal(find(&protect, "169.254.169.254"), WR_PROTECT_FIXED);
	assert_int_equal(find(&protect, "::1"), WR_PROTECT_FIXED);
	assert_int_equal(find(&protect, "febf::1"), WR_PROTECT_FIXED);
	assert_int_equal(find(&protect, "126.255.255.255"), WR_PROTECT_NONE);
	assert_int_equal(find(&protect, "128.0.0.0"), WR_PROTECT_NONE);
	assert_int_equal(find(&protect, "fec0::1"), WR_PROTECT_NONE);
	assert_int_equal(find(&protect, "::2"), WR_PROTECT_NONE);
	wr_protect_free(&protect);
}

static void test_address_in_a_banned_prefix_protects_the_prefix(void **state)
{
	struct wr_protect protect = {0};

	(void)state;
	assert_true(replace(&protect, WR_PROTECT_SSH, "203.0.113.9"));
	assert_int_equal(find(&protect, "203.0.113.0/24"), WR_PROTECT_SSH);
	assert_int_equal(find(&protect, "203.0.113.9"), WR_PROTECT_SSH);
	assert_int_equal(find(&protect, "203.0.113.8"), WR_PROTECT_NONE);
	assert_int_equal(find(&protect, "203.0.112.0/24"), WR_PROTECT_NONE);
	assert_int_equal(find(&protect, "203.0.113.10/31"), WR_PROTECT_NONE);
	wr_protect_free(&protect);
}

static void test_replace_reports_differences(void **state)
{
	struct wr_protect protect = {0};
	struct wr_protect_list empty = {0};

	(void)state;
	assert_true(replace(&protect, WR_PROTECT_OWN, "192.0.2.1"));
	assert_false(replace(&protect, WR_PROTECT_OWN, "192.0.2.1"));
	assert_true(replace(&protect, WR_PROTECT_OWN, "192.0.2.2"));
	assert_int_equal(find(&protect, "192.0.2.1"), WR_PROTECT_NONE);
	assert_true(wr_protect_replace(&protect, WR_PROTECT_OWN, &empty));
	assert_int_equal(find(&protect, "192.0.2.2"), WR_PROTECT_NONE);
	wr_protect_free(&protect);
}

static void test_all_ranges_are_joined(void **state)
{
	struct wr_protect protect = {0};
	struct wr_protect_list all = {0};
	struct wr_address_range expected = make_range("192.0.2.0/23");

	(void)state;
	replace(&protect, WR_PROTECT_TRUST, "192.0.2.0/24");
	replace(&protect, WR_PROTECT_NEVER, "192.0.3.0/24");
	replace(&protect, WR_PROTECT_OWN, "192.0.2.7");
	replace(&protect, WR_PROTECT_SSH, "2001:db8::1");
	assert_true(wr_protect_all(&protect, true, &all));
	assert_int_equal(all.count, 1);
	assert_memory_equal(&all.items[0], &expected, sizeof expected);
	wr_protect_list_free(&all);
	assert_true(wr_protect_all(&protect, false, &all));
	assert_int_equal(all.count, 1);
	wr_protect_list_free(&all);
	wr_protect_free(&protect);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixed_addresses),
		cmocka_unit_test(test_address_in_a_banned_prefix_protects_the_prefix),
		cmocka_unit_test(test_replace_reports_differences),
		cmocka_unit_test(test_all_ranges_are_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
