/* Reservations that are settled in time, a second time, after their expiry, or after the rules have
 * changed. */
#include "reservation_test.h"

/* Reserve 600, use 500: 100 units come back, and a second commit gives nothing more. */
static void commit_gives_the_rest_back_once(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 600, 0, &made), WEIR_ADMIT);
	assert_in_range(made.len, 100, 300);
	assert_true(made.expires_ns == rig.now_ns + 60 * SECOND_NS);
	assert_false(made.refunds);
	assert_int_equal(look(&rig, "t=1").remaining, 9400);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_int_equal(settled.claim, WR_CLAIM_FIRST);
	assert_int_equal(settled.refunded, 100);
	assert_int_equal(settled.debt, 0);
	assert_int_equal(look(&rig, "t=1").remaining, 9500);
	/* Sent again, by a commit, a cancel or the expiry: nothing happens. */
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 500).claim, WR_CLAIM_ALREADY);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_CANCEL, 0).claim, WR_CLAIM_ALREADY);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_EXPIRY, 0).claim, WR_CLAIM_ALREADY);
	assert_int_equal(look(&rig, "t=1").remaining, 9500);
	rig_close(&rig);
	(void)state;
}

static void excess_is_debt_and_cancel_gives_all_back(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 9900, 0, &made), WEIR_ADMIT);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 12000);
	assert_int_equal(settled.refunded, 0);
	assert_int_equal(settled.debt, 2100);
	assert_int_equal(look(&rig, "t=1").debt, 2000);
	assert_int_equal(look(&rig, "t=1").remaining, 0);

	assert_int_equal(reserve(&rig, "t=2", 300, 0, &made), WEIR_ADMIT);
	settled = settle(&rig, &made, WR_SETTLE_CANCEL, 0);
	assert_int_equal(settled.refunded, 300);
	assert_int_equal(look(&rig, "t=2").remaining, 10000);
	rig_close(&rig);
	(void)state;
}

/* The units went into the window that has ended, so a commit gives nothing back. */
static void units_go_back_into_their_window_only(void **state)
{
	struct reserved made;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	rig.now_ns += 50 * SECOND_NS;
	assert_int_equal(reserve(&rig, "t=1", 9000, 0, &made), WEIR_ADMIT);
	rig.now_ns += 20 * SECOND_NS; /* the next minute */
	rig_begin(&rig);
	rig_add(&rig, "t=1", 9000);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 1000).refunded, 0);
	assert_int_equal(look(&rig, "t=1").remaining, 1000);
	rig_close(&rig);
	(void)state;
}

/* Two descriptors on one counter take 20 together, and the actual cost counts for both. */
static void merged_needs(void **state)
{
	struct reserved made;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1;t=1", 10, 0, &made), WEIR_ADMIT);
	assert_int_equal(look(&rig, "t=1").remaining, 9980);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 4).refunded, 12);
	assert_int_equal(look(&rig, "t=1").remaining, 9992);
	rig_close(&rig);
	(void)state;
}

/* A reservation of 0 holds nothing; the commit charges all units. */
static void nothing_reserved(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 0, 0, &made), WEIR_ADMIT);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 250);
	assert_int_equal(settled.debt, 250);
	assert_int_equal(look(&rig, "t=1").remaining, 9750);
	for (int action = WR_SETTLE_RELEASE; action <= WR_SETTLE_EXPIRY; action++) {
		assert_int_equal(reserve(&rig, "t=1", 0, 0, &made), WEIR_ADMIT);
		settled = settle(&rig, &made, (enum wr_settle_action)action, 0);
		assert_int_equal(settled.claim, WR_CLAIM_FIRST);
		assert_int_equal(settled.debt + settled.refunded, 0);
		assert_int_equal(look(&rig, "t=1").remaining, 9750);
	}
	rig_close(&rig);
	(void)state;
}

/* A limit without `on_expiry: refund` keeps the units of an expired reservation. A late commit
 * charges what exceeds the reservation. */
static void expired_reservations_stay_charged(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 600, 10 * SECOND_NS, &made), WEIR_ADMIT);
	rig.now_ns += 10 * SECOND_NS;
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_int_equal(settled.claim, WR_CLAIM_FIRST);
	assert_int_equal(settled.refunded, 0);
	assert_int_equal(look(&rig, "t=1").remaining, 9400);

	assert_int_equal(reserve(&rig, "t=2", 600, 10 * SECOND_NS, &made), WEIR_ADMIT);
	rig.now_ns += 10 * SECOND_NS;
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 750).debt, 150);
	assert_int_equal(look(&rig, "t=2").remaining, 9250);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 750).claim, WR_CLAIM_ALREADY);
	/* The token ends a minute after it has expired. */
	rig.now_ns += 60 * SECOND_NS;
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 750).read, WEIR_ENOENT);
	rig_close(&rig);
	(void)state;
}

static void expiry_refunds_once(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "r=1;t=1", 600, 5 * SECOND_NS, &made), WEIR_ADMIT);
	assert_true(made.refunds);
	rig.now_ns += 5 * SECOND_NS;
	assert_int_equal(settle(&rig, &made, WR_SETTLE_EXPIRY, 0).claim, WR_CLAIM_FIRST);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_EXPIRY, 0).claim, WR_CLAIM_ALREADY);
	assert_int_equal(look(&rig, "r=1").remaining, 1000);
	assert_int_equal(look(&rig, "t=1").remaining, 9400);
	/* A late commit charges what was given back, and the excess of the other limit. */
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 700);
	assert_int_equal(settled.claim, WR_CLAIM_EXPIRED);
	assert_int_equal(settled.debt, 700);
	assert_int_equal(look(&rig, "r=1").remaining, 300);
	assert_int_equal(look(&rig, "t=1").remaining, 9300);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 700).claim, WR_CLAIM_ALREADY);
	rig_close(&rig);
	(void)state;
}

/* The bucket lacks 1,000 tokens after the reservation, and 100 tokens flow in each second. The token
 * contains both numbers, so the bucket gets back the tokens that it lacked all the time. */
static void buckets_get_back_what_they_lacked(void **state)
{
	static const struct {
		uint64_t seconds;
		uint32_t refunded;
	} cases[] = {{0, 150}, {1, 150}, {5, 150}, {9, 99}, {10, 0}};
	struct reserved made;
	struct rig rig;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		rig_open(&rig, tokens, "d");
		assert_int_equal(reserve(&rig, "b=1", 800, 0, &made), WEIR_ADMIT);
		assert_int_equal(reserve(&rig, "b=1", 200, 0, &made), WEIR_ADMIT);
		rig.now_ns += cases[i].seconds * SECOND_NS;
		assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 50).refunded,
				 cases[i].refunded);
		assert_int_equal(look(&rig, "b=1").remaining,
				 100 * cases[i].seconds + cases[i].refunded);
		rig_close(&rig);
	}
	(void)state;
}

static void slots_are_released(void **state)
{
	struct reserved first, second, third;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &first), WEIR_ADMIT);
	assert_true(first.expires_ns == rig.now_ns + 2 * MINUTE_NS);
	assert_int_equal(reserve(&rig, "c=1", 1, 10 * SECOND_NS, &second), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &third), WEIR_REFUSE);
	assert_int_equal(settle(&rig, &first, WR_SETTLE_RELEASE, 0).claim, WR_CLAIM_FIRST);
	assert_int_equal(settle(&rig, &first, WR_SETTLE_RELEASE, 0).claim, WR_CLAIM_ALREADY);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &third), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &first), WEIR_REFUSE);
	/* A slot comes back even if the reservation has expired. The other limit keeps its unit. */
	rig.now_ns += 20 * SECOND_NS;
	assert_int_equal(settle(&rig, &second, WR_SETTLE_RELEASE, 0).claim, WR_CLAIM_FIRST);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &first), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &second), WEIR_REFUSE);
	rig_close(&rig);
	(void)state;
}

static void change_rules(struct rig *rig, const char *yaml)
{
	assert_int_equal(weir_engine_swap(rig->engine, rig_rules(yaml), rig->now_ns), 0);
}

/* A rule that is gone is left out; a limit with another number keeps its counter. */
static void rules_changed_in_between(void **state)
{
	static const char less[] = "domain: d\n"
				   "descriptors:\n"
				   "- key: t\n"
				   "  rate_limit: {unit: minute, requests_per_unit: 2000}\n";
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1;r=1", 600, 0, &made), WEIR_ADMIT);
	change_rules(&rig, less);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_false(settled.gone);
	assert_int_equal(settled.refunded, 100);
	assert_int_equal(look(&rig, "t=1").remaining, 1500);
	rig_close(&rig);
	(void)state;
}

/* No rule has a limit that the reservation has charged. A commit charges the actual cost to the
 * limits that the descriptors have now. */
static void all_rules_gone(void **state)
{
	static const char hourly[] = "domain: d\n"
				     "descriptors:\n"
				     "- key: t\n"
				     "  rate_limit: {unit: hour, requests_per_unit: 10000}\n"
				     "- key: c\n"
				     "  rate_limits:\n"
				     "  - {unit: hour, requests_per_unit: 100}\n"
				     "  - {concurrent: 2, max_hold: 2m}\n";
	static const char none[] = "domain: other\n"
				   "descriptors:\n"
				   "- key: t\n"
				   "  rate_limit: {unit: minute, requests_per_unit: 2000}\n";
	struct reserved made, zero, cancelled, slot, third;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 600, 0, &made), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "t=2;t=2", 0, 0, &zero), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "t=3", 600, 0, &cancelled), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &third), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &slot), WEIR_ADMIT);
	change_rules(&rig, hourly);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_true(settled.gone);
	assert_int_equal(settled.claim, WR_CLAIM_FIRST);
	assert_int_equal(settled.refunded, 0);
	assert_int_equal(settled.debt, 500);
	assert_int_equal(look(&rig, "t=1").remaining, 9500);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 500).claim, WR_CLAIM_ALREADY);
	assert_int_equal(settle(&rig, &zero, WR_SETTLE_COMMIT, 20).debt, 40);
	assert_int_equal(look(&rig, "t=2").remaining, 9960);
	settled = settle(&rig, &cancelled, WR_SETTLE_CANCEL, 0);
	assert_true(settled.gone);
	assert_int_equal(settled.refunded, 0);
	assert_int_equal(look(&rig, "t=3").remaining, 10000);
	/* The slot is given back, although the other limit is gone. */
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &third), WEIR_REFUSE);
	settled = settle(&rig, &slot, WR_SETTLE_COMMIT, 7);
	assert_true(settled.gone);
	assert_int_equal(settled.debt, 7);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &third), WEIR_ADMIT);
	assert_int_equal(look(&rig, "c=1").remaining, 0); /* of the slots */

	assert_int_equal(reserve(&rig, "t=4", 600, 0, &made), WEIR_ADMIT);
	change_rules(&rig, none);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_true(settled.gone);
	assert_int_equal(settled.debt, 0);
	rig_close(&rig);
	(void)state;
}

/* A reservation that no limit applies to is settled once, too. */
static void nothing_charged(void **state)
{
	struct reserved made;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "none=1", 5, 0, &made), WEIR_ADMIT);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 5).claim, WR_CLAIM_FIRST);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 5).claim, WR_CLAIM_ALREADY);
	rig_close(&rig);
	(void)state;
}

/* Units that were used without a reservation are charged, also beyond the limit. */
static void charges_without_a_reservation(void **state)
{
	struct rig rig;
	uint64_t owed;

	rig_open(&rig, tokens, "d");
	rig_begin(&rig);
	rig_add(&rig, "t=1", 9000);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	rig_begin(&rig);
	rig_add(&rig, "t=1", 1500);
	rig_add(&rig, "c=1", 3);
	assert_int_equal(wr_ask_charge(rig.ask, rig.now_ns), 0);
	wr_ask_settled_units(rig.ask, &owed);
	assert_int_equal(owed, 1500);
	assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OK);
	assert_int_equal(look(&rig, "t=1").debt, 500);
	assert_int_equal(rig_stat(&rig, "d/t/1m").admitted, 1);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commit_gives_the_rest_back_once),
		cmocka_unit_test(excess_is_debt_and_cancel_gives_all_back),
		cmocka_unit_test(units_go_back_into_their_window_only),
		cmocka_unit_test(merged_needs),
		cmocka_unit_test(nothing_reserved),
		cmocka_unit_test(expired_reservations_stay_charged),
		cmocka_unit_test(expiry_refunds_once),
		cmocka_unit_test(buckets_get_back_what_they_lacked),
		cmocka_unit_test(slots_are_released),
		cmocka_unit_test(rules_changed_in_between),
		cmocka_unit_test(all_rules_gone),
		cmocka_unit_test(nothing_charged),
		cmocka_unit_test(charges_without_a_reservation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
