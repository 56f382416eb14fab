/* The commands of nftables, as text. The end-to-end suite runs them. */
#include "shield_test.h"

#include "shield/text.h"

#define NOW_MS (NOW_S * UINT64_C(1000))

static struct wr_buf buf;

static int set_up(void **state)
{
	(void)state;
	wr_buf_init(&buf, 1 << 20);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	wr_buf_free(&buf);
	return 0;
}

static bool has(const char *part)
{
	return strstr(buf.ptr, part) != NULL;
}

static void test_drop_on_both_hooks_is_before_conntrack(void **state)
{
	struct wr_nft_design design = {.size = 1000, .input = true, .forward = true};

	(void)state;
	wr_nft_text_table(&buf, &design, 7);
	assert_true(has("add table inet weir\ndelete table inet weir\ntable inet weir {\n"));
	assert_true(has("\t\tcomment \"pid 7\"\n"));
	assert_true(has("set banned4 {\n\t\ttype ipv4_addr\n\t\tflags timeout\n\t\tsize 9192\n"));
	assert_true(has("set nets6 {\n\t\ttype ipv6_addr\n\t\tflags interval,timeout\n"));
	assert_true(has("type filter hook prerouting priority -310; policy accept;\n"));
	assert_true(has("ip6 saddr & ffff:ffff:ffff:ffff:: @banned6 goto refuse\n"));
	assert_true(has("counter name dropped drop\n"));
	assert_false(has("hook input"));
	assert_false(has("reject"));
	assert_false(has("rate4"));
}

/* The kernel rejects packets only in the hooks input, forward and output. */
static void test_reject_uses_the_two_hooks(void **state)
{
	struct wr_nft_design design = {
		.size = 1000, .input = true, .forward = true, .reject = true};

	(void)state;
	wr_nft_text_table(&buf, &design, 7);
	assert_true(has("hook input priority -310"));
	assert_true(has("hook forward priority -310"));
	assert_false(has("prerouting"));
	assert_true(has("meta l4proto tcp reject with tcp reset\n"));
}

static void test_one_hook(void **state)
{
	struct wr_nft_design design = {.size = 1000, .forward = true};

	(void)state;
	wr_nft_text_table(&buf, &design, 7);
	assert_true(has("hook forward"));
	assert_false(has("hook input"));
	assert_false(has("prerouting"));
}

static void test_limit(void **state)
{
	struct wr_nft_design design = {.size = 1000,
				       .input = true,
				       .forward = true,
				       .limit = {100, "second"},
				       .ports = {80, 443},
				       .port_count = 2};

	(void)state;
	wr_nft_text_table(&buf, &design, 7);
	assert_true(has("tcp dport { 80, 443 } tcp flags & (syn | ack) == syn update @rate4 { ip "
			"saddr limit rate over 100/second burst 100 packets } goto refuse\n"));
	assert_true(has("update @rate6 { ip6 saddr & ffff:ffff:ffff:ffff:: limit rate over "));
}

static void test_add(void **state)
{
	struct wr_nft_element items[] = {make_element("198.51.100.7", NOW_S + 60),
					 make_element("198.51.100.8", NOW_S)};

	(void)state;
	wr_nft_text_add(&buf, items, 2, false, NOW_MS + 250);
	assert_string_equal(buf.ptr, "add element inet weir banned4 { 198.51.100.7 timeout "
				     "59750ms, 198.51.100.8 timeout 1ms }\n");
}

static void test_renew_removes_first(void **state)
{
	struct wr_nft_element item = make_element("2001:db8::1", NOW_S + 60);

	(void)state;
	wr_nft_text_add(&buf, &item, 1, true, NOW_MS);
	assert_string_equal(buf.ptr,
			    "add element inet weir banned6 { 2001:db8:: timeout 1s }\n"
			    "delete element inet weir banned6 { 2001:db8:: }\n"
			    "add element inet weir banned6 { 2001:db8:: timeout 60000ms }\n");
}

static void test_nets(void **state)
{
	struct wr_nft_element item = make_element("203.0.113.0/24", NOW_S + 60);
	struct wr_nft_elements one = {&item, 1, 1}, none = {0};

	(void)state;
	wr_nft_text_nets(&buf, WR_NFT_NETS4, &one, NOW_MS);
	wr_nft_text_nets(&buf, WR_NFT_NETS6, &none, NOW_MS);
	assert_string_equal(buf.ptr,
			    "flush set inet weir nets4\n"
			    "add element inet weir nets4 { 203.0.113.0/24 timeout 60000ms }\n"
			    "flush set inet weir nets6\n");
}

static void test_never(void **state)
{
	struct wr_address_range ranges[] = {make_range("192.0.2.0/24"), make_range("203.0.113.9")};
	struct wr_protect_list list = {ranges, 2, 2};

	(void)state;
	wr_nft_text_never(&buf, true, &list);
	assert_string_equal(
		buf.ptr, "flush set inet weir never4\n"
			 "add element inet weir never4 { 192.0.2.0-192.0.2.255, 203.0.113.9 }\n");
}

static void test_rates(void **state)
{
	struct wr_nft_rate rate;

	(void)state;
	assert_int_equal(wr_nft_rate_parse(WR_STR("1000/minute"), &rate), 0);
	assert_int_equal(rate.count, 1000);
	assert_string_equal(rate.unit, "minute");
	assert_int_equal(wr_nft_rate_parse(WR_STR("1000000/day"), &rate), 0);
	assert_int_equal(wr_nft_rate_parse(WR_STR("1000001/day"), &rate), -1);
	assert_int_equal(wr_nft_rate_parse(WR_STR("0/second"), &rate), -1);
	assert_int_equal(wr_nft_rate_parse(WR_STR("/second"), &rate), -1);
	assert_int_equal(wr_nft_rate_parse(WR_STR("100"), &rate), -1);
	assert_int_equal(wr_nft_rate_parse(WR_STR("100/s"), &rate), -1);
	assert_int_equal(wr_nft_rate_parse(WR_STR("1; flush ruleset/second"), &rate), -1);
	assert_int_equal(wr_nft_rate_parse(WR_STR("99999999999/second"), &rate), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_drop_on_both_hooks_is_before_conntrack, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_reject_uses_the_two_hooks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_hook, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_add, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_renew_removes_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_never, set_up, tear_down),
		cmocka_unit_test(test_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
