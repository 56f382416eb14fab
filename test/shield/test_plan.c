/* Plans: bans → elements → changes. */
#include "shield_test.h"

#include <stdio.h>

static const struct wr_protect nothing_protected;

/* Plans for bans that each end one second later than the former one, the first at NOW_S + 100. */
static struct wr_nft_plan plan_of(const struct wr_protect *protect, size_t size,
				  const char *const *texts)
{
	struct wr_nft_plan plan = {0};

	for (unsigned i = 0; texts[i]; i++) {
		struct wr_ban ban = make_ban(texts[i], NOW_S + 100 + i);

		wr_nft_plan_ban(&plan, protect, &ban, NOW_S);
	}
	wr_nft_plan_finish(&plan, size);
	return plan;
}

static void check_wanted(const struct wr_nft_plan *plan, const char *const *texts)
{
	size_t count = 0;

	while (texts[count]) {
		assert_true(count < plan->wanted.count);
		assert_string_equal(text_of(&plan->wanted.items[count]), texts[count]);
		count++;
	}
	assert_int_equal(plan->wanted.count, count);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_elements_are_sorted_by_set_and_address(void **state)
{
	struct wr_nft_plan plan =
		plan_of(&nothing_protected, 100,
			TEXTS("2001:db8::1", "203.0.113.0/24", "198.51.100.9", "198.51.100.7"));

	(void)state;
	check_wanted(&plan,
		     TEXTS("198.51.100.7", "198.51.100.9", "2001:db8::/64", "203.0.113.0/24"));
	assert_int_equal(plan.left_out, 0);
	assert_int_equal(plan.next_s, NOW_S + 100);
	wr_nft_plan_free(&plan);
}

static void test_prefix_in_a_wider_prefix_is_dropped(void **state)
{
	struct wr_nft_plan plan =
		plan_of(&nothing_protected, 100,
			TEXTS("10.0.0.0/8", "10.1.0.0/16", "10.255.255.0/24", "11.0.0.0/16",
			      "11.0.0.0/24", "2001:db8::/32", "2001:db8:ffff::/48", "10.1.2.3"));

	(void)state;
	check_wanted(&plan, TEXTS("10.1.2.3", "10.0.0.0/8", "11.0.0.0/16", "2001:db8::/32"));
	wr_nft_plan_free(&plan);
}

static void test_full_set_keeps_the_bans_that_end_last(void **state)
{
	struct wr_nft_plan plan = plan_of(&nothing_protected, 2,
					  TEXTS("198.51.100.1", "198.51.100.4", "203.0.113.0/24",
						"198.51.100.2", "2001:db8::1"));

	(void)state;
	check_wanted(&plan, TEXTS("198.51.100.2", "2001:db8::/64", "203.0.113.0/24"));
	assert_int_equal(plan.left_out, 2);
	wr_nft_plan_free(&plan);
}

static void test_protected_address_is_skipped(void **state)
{
	struct wr_protect protect;
	struct wr_nft_plan plan;

	(void)state;
	assert_true(wr_protect_init(&protect));
	plan = plan_of(&protect, 100, TEXTS("127.0.0.1", "198.51.100.7", "96.0.0.0/3", "fe80::1"));
	check_wanted(&plan, TEXTS("198.51.100.7"));
	assert_int_equal(plan.skip_count, 3);
	assert_string_equal(text_of(&plan.skips[0].element), "127.0.0.1");
	assert_string_equal(text_of(&plan.skips[1].element), "fe80::/64");
	assert_string_equal(text_of(&plan.skips[2].element), "96.0.0.0/3");
	assert_int_equal(plan.skips[2].kind, WR_PROTECT_FIXED);
	wr_nft_plan_free(&plan);
	wr_protect_free(&protect);
}

/* ---- changes ---- */

static void add(struct wr_nft_elements *elements, const char *text, uint32_t until_s)
{
	struct wr_nft_element element = make_element(text, until_s);

	assert_true(wr_nft_elements_add(elements, &element));
}

static void test_changes(void **state)
{
	struct wr_nft_elements present = {0}, wanted = {0};
	struct wr_nft_changes changes = {0};

	(void)state;
	add(&present, "198.51.100.1", NOW_S + 50); /* stays */
	add(&wanted, "198.51.100.1", NOW_S + 50);
	add(&present, "198.51.100.2", NOW_S + 50); /* another end */
	add(&wanted, "198.51.100.2", NOW_S + 60);
	add(&present, "198.51.100.3", NOW_S + 50); /* released */
	add(&present, "198.51.100.4", NOW_S);      /* the kernel has removed it */
	add(&wanted, "198.51.100.5", NOW_S + 50);  /* new */
	add(&present, "198.51.100.6", WR_NFT_UNKNOWN);
	wr_nft_elements_sort(&present);
	wr_nft_elements_sort(&wanted);
	assert_true(wr_nft_diff(&present, &wanted, NOW_S, &changes));
	assert_int_equal(changes.add.count, 1);
	assert_string_equal(text_of(&changes.add.items[0]), "198.51.100.5");
	assert_int_equal(changes.renew.count, 1);
	assert_string_equal(text_of(&changes.renew.items[0]), "198.51.100.2");
	assert_int_equal(changes.renew.items[0].until_s, NOW_S + 60);
	assert_int_equal(changes.remove.count, 2);
	assert_string_equal(text_of(&changes.remove.items[0]), "198.51.100.3");
	assert_string_equal(text_of(&changes.remove.items[1]), "198.51.100.6");
	assert_false(changes.nets_differ[WR_NFT_NETS4]);
	wr_nft_changes_free(&changes);
	wr_nft_elements_free(&present);
	wr_nft_elements_free(&wanted);
}

static void test_interval_sets_are_written_as_a_whole(void **state)
{
	struct wr_nft_elements present = {0}, wanted = {0};
	struct wr_nft_changes changes = {0};

	(void)state;
	add(&present, "203.0.113.0/24", NOW_S + 50);
	add(&wanted, "203.0.113.0/24", NOW_S + 50);
	add(&wanted, "2001:db8::/48", NOW_S + 50);
	assert_true(wr_nft_diff(&present, &wanted, NOW_S, &changes));
	assert_int_equal(changes.add.count, 0);
	assert_false(changes.nets_differ[WR_NFT_NETS4]);
	assert_true(changes.nets_differ[WR_NFT_NETS6]);
	wr_nft_changes_free(&changes);
	assert_true(wr_nft_diff(&wanted, &present, NOW_S, &changes));
	assert_int_equal(changes.remove.count, 0);
	assert_true(changes.nets_differ[WR_NFT_NETS6]);
	wr_nft_changes_free(&changes);
	wr_nft_elements_free(&present);
	wr_nft_elements_free(&wanted);
}

/* After the changes, the kernel has the wanted elements: compares the merge of the sorted arrays
 * with one loop per element. */
static void test_changes_of_random_sets(void **state)
{
	uint32_t seed = 7;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct wr_nft_elements present = {0}, wanted = {0};
		struct wr_nft_changes changes = {0};
		size_t adds = 0, removes = 0;
		bool have[32], want[32];

		for (unsigned i = 0; i < 32; i++) {
			char text[32];

			seed = seed * 1664525 + 1013904223;
			have[i] = seed >> 30 & 1;
			want[i] = seed >> 29 & 1;
			snprintf(text, sizeof text, "198.51.100.%u", i);
			if (have[i])
				add(&present, text, NOW_S + 50);
			if (want[i])
				add(&wanted, text, NOW_S + 50);
			adds += want[i] && !have[i];
			removes += have[i] && !want[i];
		}
		wr_nft_elements_sort(&present);
		wr_nft_elements_sort(&wanted);
		assert_true(wr_nft_diff(&present, &wanted, NOW_S, &changes));
		assert_int_equal(changes.add.count, adds);
		assert_int_equal(changes.remove.count, removes);
		assert_int_equal(changes.renew.count, 0);
		wr_nft_changes_free(&changes);
		wr_nft_elements_free(&present);
		wr_nft_elements_free(&wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements_are_sorted_by_set_and_address),
		cmocka_unit_test(test_prefix_in_a_wider_prefix_is_dropped),
		cmocka_unit_test(test_full_set_keeps_the_bans_that_end_last),
		cmocka_unit_test(test_protected_address_is_skipped),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_interval_sets_are_written_as_a_whole),
		cmocka_unit_test(test_changes_of_random_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
