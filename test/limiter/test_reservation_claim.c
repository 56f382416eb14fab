/* Reservations that are settled again after the table has evicted their markers. */
#include "reservation_test.h"

static const char many_slots[] = "domain: d\n"
				 "descriptors:\n"
				 "- key: c\n"
				 "  rate_limit: {concurrent: 100, max_hold: 2m}\n";

/* Uses 2,000 units of t=1 in many requests, so that its counter is not evicted, and reserves. */
static void reserve_of_busy_key(struct rig *rig, int64_t hits, struct reserved *made)
{
	rig_open(rig, tokens, "d");
	for (int i = 0; i < 40; i++) {
		rig_begin(rig);
		rig_add(rig, "t=1", 50);
		assert_int_equal(rig_decide(rig), WEIR_ADMIT);
	}
	assert_int_equal(reserve(rig, "t=1", hits, 0, made), WEIR_ADMIT);
	assert_int_equal(look(rig, "t=1").remaining, 8000 - hits);
}

/* The table forgets that the reservation was settled. The units are given back once. */
static void evicted_markers_give_nothing_back_twice(void **state)
{
	static const struct {
		enum wr_settle_action action;
		int64_t actual;
		uint32_t refunded;
	} cases[] = {{WR_SETTLE_CANCEL, 0, 600}, {WR_SETTLE_COMMIT, 500, 100}};
	struct reserved made;
	struct settled settled;
	struct rig rig;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		reserve_of_busy_key(&rig, 600, &made);
		settled = settle(&rig, &made, cases[i].action, cases[i].actual);
		assert_int_equal(settled.refunded, cases[i].refunded);
		assert_int_equal(look(&rig, "t=1").remaining, 7400 + cases[i].refunded);
		rig_evict(&rig);
		assert_int_equal(look(&rig, "t=1").remaining, 7400 + cases[i].refunded);
		for (int again = WR_SETTLE_COMMIT; again <= WR_SETTLE_CANCEL; again++) {
			settled = settle(&rig, &made, (enum wr_settle_action)again, 0);
			assert_int_equal(settled.claim, again == WR_SETTLE_COMMIT
								? WR_CLAIM_LOST
								: WR_CLAIM_ALREADY);
			assert_int_equal(settled.refunded, 0);
		}
		assert_int_equal(look(&rig, "t=1").remaining, 7400 + cases[i].refunded);
		rig_close(&rig);
	}
	(void)state;
}

/* The marker of an open reservation is evicted. Its units stay charged, and excess is debt. */
static void evicted_reservations_stay_charged(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	reserve_of_busy_key(&rig, 600, &made);
	rig_evict(&rig);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 750);
	assert_int_equal(settled.claim, WR_CLAIM_LOST);
	assert_int_equal(settled.refunded, 0);
	assert_int_equal(settled.debt, 150);
	assert_int_equal(look(&rig, "t=1").remaining, 7250);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 750).claim, WR_CLAIM_ALREADY);
	rig_close(&rig);

	reserve_of_busy_key(&rig, 600, &made);
	rig_evict(&rig);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_EXPIRY, 0).claim, WR_CLAIM_LOST);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_EXPIRY, 0).claim, WR_CLAIM_ALREADY);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_CANCEL, 0).claim, WR_CLAIM_LOST);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_CANCEL, 0).claim, WR_CLAIM_ALREADY);
	assert_int_equal(look(&rig, "t=1").remaining, 7400);
	rig_close(&rig);
	(void)state;
}

/* The table forgets whether the units were given back at the expiry. A late commit charges them. */
static void evicted_refund_is_charged_by_the_commit(void **state)
{
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	for (int i = 0; i < 100; i++) /* so that the counter is not evicted */
		assert_int_equal(rig_ask(&rig, "r=1"), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "r=1", 600, 5 * SECOND_NS, &made), WEIR_ADMIT);
	rig.now_ns += 5 * SECOND_NS;
	assert_int_equal(settle(&rig, &made, WR_SETTLE_EXPIRY, 0).refunded, 600);
	rig_evict(&rig);
	assert_int_equal(look(&rig, "r=1").remaining, 900);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 550);
	assert_int_equal(settled.claim, WR_CLAIM_LOST);
	assert_int_equal(settled.debt, 550);
	assert_int_equal(look(&rig, "r=1").remaining, 350);
	rig_close(&rig);
	(void)state;
}

/* A release that comes twice frees no slot of another request. */
static void evicted_markers_release_their_own_slot_only(void **state)
{
	struct reserved first, second, third;
	struct rig rig;

	rig_open(&rig, many_slots, "d");
	for (int i = 0; i < 98; i++) /* so that the slots are not evicted */
		assert_int_equal(rig_ask(&rig, "c=1"), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &first), WEIR_ADMIT);
	assert_int_equal(settle(&rig, &first, WR_SETTLE_RELEASE, 0).claim, WR_CLAIM_FIRST);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &second), WEIR_ADMIT);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &third), WEIR_ADMIT);
	rig_evict(&rig);
	assert_int_equal(settle(&rig, &first, WR_SETTLE_RELEASE, 0).claim, WR_CLAIM_LOST);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &first), WEIR_REFUSE);
	/* The slot of an open reservation is given back, although its marker was evicted. */
	assert_int_equal(settle(&rig, &second, WR_SETTLE_RELEASE, 0).claim, WR_CLAIM_LOST);
	assert_int_equal(reserve(&rig, "c=1", 1, 0, &first), WEIR_ADMIT);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evicted_markers_give_nothing_back_twice),
		cmocka_unit_test(evicted_reservations_stay_charged),
		cmocka_unit_test(evicted_refund_is_charged_by_the_commit),
		cmocka_unit_test(evicted_markers_release_their_own_slot_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
