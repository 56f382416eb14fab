/* Reservations: tokens that are settled later, in another process, after a restart, or never. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "limiter/reservation.h"

static const char tokens[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: t\n"
	"  rate_limit: {unit: minute, requests_per_unit: 10000}\n"
	"- key: r\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, on_expiry: refund}\n"
	"- key: c\n"
	"  rate_limits:\n"
	"  - {unit: minute, requests_per_unit: 100}\n"
	"  - {concurrent: 2, max_hold: 2m}\n";

struct reserved {
	char text[WR_RESERVATION_TEXT_MAX];
	int len;
	uint64_t expires_ns;
	bool refunds;
};

/* Reserves `hits` units for each descriptor. Returns the verdict. If the request is refused, the token
 * is empty. */
static int reserve(struct rig *rig, const char *descriptors, int64_t hits, uint64_t ttl_ns,
		   struct reserved *made)
{
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char copy[1024], *rest = copy, *one;
	int verdict;

	made->len = 0;
	rig_begin(rig);
	assert_int_equal(wr_reservation_begin(rig->ask, record), 0);
	snprintf(copy, sizeof copy, "%s", descriptors);
	while ((one = strsep(&rest, ";")))
		assert_int_equal(rig_add(rig, one, hits), 0);
	verdict = rig_decide(rig);
	if (verdict == WEIR_ADMIT)
		made->len = wr_reservation_write(rig->ask, ttl_ns, made->text, &made->expires_ns,
						 &made->refunds);
	weir_ask_done(rig->ask);
	rig->ask = NULL;
	return verdict;
}

struct settled {
	int read; /* result of wr_reservation_read */
	enum wr_claim claim;
	uint64_t refunded, debt;
};

static struct settled settle_text(struct rig *rig, struct weir_str text,
				  enum wr_settle_action action, int64_t actual)
{
	_Alignas(16) static char memory[WEIR_ASK_BYTES];
	struct wr_reservation reservation;
	struct settled settled = {0};
	struct weir_ask *ask;

	settled.read = wr_reservation_read(&reservation, rig->engine, text, rig->now_ns);
	if (settled.read != 0)
		return settled;
	settled.claim = wr_reservation_claim(&reservation, rig->engine, action, rig->now_ns);
	if (settled.claim == WR_CLAIM_ALREADY)
		return settled;
	assert_int_equal(
		wr_reservation_restore(&reservation, memory, sizeof memory, rig->engine, &ask), 0);
	wr_reservation_settle(&reservation, ask,
			      &(struct wr_settle_order){action, settled.claim, actual},
			      rig->now_ns);
	settled.refunded = wr_ask_settled_units(ask, &settled.debt);
	weir_ask_done(ask);
	return settled;
}

static struct settled settle(struct rig *rig, const struct reserved *made,
			     enum wr_settle_action action, int64_t actual)
{
	return settle_text(rig, (struct weir_str){made->text, (size_t)made->len}, action, actual);
}

static struct weir_decision look(struct rig *rig, const char *descriptor)
{
	rig_begin(rig);
	assert_int_equal(rig_add(rig, descriptor, 0), 0);
	rig_decide(rig);
	return rig_status(rig, 0).decision;
}

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

static void forged_and_foreign_tokens_are_unknown(void **state)
{
	struct reserved made;
	struct rig rig, other;

	rig_open(&rig, tokens, "d");
	rig_open(&other, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 600, 0, &made), WEIR_ADMIT);
	for (int i = 0; i < made.len; i++) {
		char was = made.text[i];

		made.text[i] = was == 'A' ? 'B' : 'A';
		assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 1).read, WEIR_ENOENT);
		made.text[i] = was;
		assert_int_equal(settle_text(&rig, (struct weir_str){made.text, (size_t)i},
					     WR_SETTLE_COMMIT, 1)
					 .read,
				 WEIR_ENOENT);
	}
	assert_int_equal(settle(&other, &made, WR_SETTLE_COMMIT, 1).read, WEIR_ENOENT);
	assert_int_equal(look(&rig, "t=1").remaining, 9400);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 600).claim, WR_CLAIM_FIRST);
	rig_close(&rig);
	rig_close(&other);
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

/* A rule that is gone is left out; a limit with another number keeps its counter. */
static void rules_changed_in_between(void **state)
{
	static const char less[] = "domain: d\n"
				   "descriptors:\n"
				   "- key: t\n"
				   "  rate_limit: {unit: minute, requests_per_unit: 2000}\n";
	static const char none[] = "domain: other\n"
				   "descriptors:\n"
				   "- key: t\n"
				   "  rate_limit: {unit: minute, requests_per_unit: 2000}\n";
	struct reserved made;
	struct settled settled;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1;r=1", 600, 0, &made), WEIR_ADMIT);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(less), rig.now_ns), 0);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_int_equal(settled.refunded, 100);
	assert_int_equal(look(&rig, "t=1").remaining, 1500);

	assert_int_equal(reserve(&rig, "t=1", 600, 0, &made), WEIR_ADMIT);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(none), rig.now_ns), 0);
	settled = settle(&rig, &made, WR_SETTLE_COMMIT, 500);
	assert_int_equal(settled.claim, WR_CLAIM_FIRST);
	assert_int_equal(settled.refunded, 0);
	rig_close(&rig);
	(void)state;
}

static void long_descriptors_are_refused(void **state)
{
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char descriptor[1600], text[WR_RESERVATION_TEXT_MAX];
	uint64_t expires_ns;
	bool refunds;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	for (int len = 1300; len < 1600; len += 10) {
		int rc;

		memset(descriptor, 'x', sizeof descriptor);
		memcpy(descriptor, "t=", 2);
		descriptor[len] = 0;
		rig_begin(&rig);
		assert_int_equal(wr_reservation_begin(rig.ask, record), 0);
		rig_add(&rig, descriptor, 7);
		assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
		rc = wr_reservation_write(rig.ask, 0, text, &expires_ns, &refunds);
		assert_true(rc == WEIR_EROOM || (rc > 1700 && rc <= (int)WR_RESERVATION_TEXT_MAX));
		assert_true((rc == WEIR_EROOM) == (len >= 1440));
	}
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
		cmocka_unit_test(forged_and_foreign_tokens_are_unknown),
		cmocka_unit_test(expired_reservations_stay_charged),
		cmocka_unit_test(expiry_refunds_once),
		cmocka_unit_test(slots_are_released),
		cmocka_unit_test(rules_changed_in_between),
		cmocka_unit_test(long_descriptors_are_refused),
		cmocka_unit_test(charges_without_a_reservation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
