/* Reservations: tokens that are settled later, in another process, after a restart, or never. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "limiter/reservation.h"
#include "limiter/reservation_token.h"

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
	"  - {concurrent: 2, max_hold: 2m}\n"
	"- key: b\n"
	"  rate_limit: {unit: second, requests_per_unit: 100, burst: 1000, algorithm: "
	"token_bucket}\n";

/* Limits that admit large costs. */
static const char big[] = "domain: d\n"
			  "descriptors:\n"
			  "- key: t\n"
			  "  rate_limit: {unit: minute, requests_per_unit: 4294967295}\n"
			  "- key: c\n"
			  "  rate_limits:\n"
			  "  - {unit: minute, requests_per_unit: 10000}\n"
			  "  - {concurrent: 2, max_hold: 2m}\n";

static const char many_slots[] = "domain: d\n"
				 "descriptors:\n"
				 "- key: c\n"
				 "  rate_limit: {concurrent: 100, max_hold: 2m}\n";

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
	bool gone;
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
	if (settled.claim == WR_CLAIM_ALREADY ||
	    (settled.claim == WR_CLAIM_LOST && action == WR_SETTLE_EXPIRY))
		return settled;
	assert_int_equal(
		wr_reservation_restore(&reservation, memory, sizeof memory, rig->engine, &ask), 0);
	wr_reservation_settle(&reservation, ask,
			      &(struct wr_settle_order){action, settled.claim, actual},
			      rig->now_ns);
	settled.refunded = wr_ask_settled_units(ask, &settled.debt);
	weir_ask_done(ask);
	settled.gone = reservation.gone;
	if (settled.gone && action == WR_SETTLE_COMMIT) {
		assert_int_equal(wr_reservation_charge(&reservation, actual, memory, sizeof memory,
						       rig->engine, rig->now_ns, &ask),
				 0);
		wr_ask_settled_units(ask, &settled.debt);
		weir_ask_done(ask);
	}
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

/* A request whose descriptors fit gets a token, whatever it is charged. All lengths around the
 * bound are tried. */
static void fitting_descriptors_get_a_token(void **state)
{
	static const struct {
		const char *key;
		int64_t hits;
		size_t most; /* the longest value that fits */
	} cases[] = {{"t=", 7, 1422}, {"t=", 1000000000, 1414}, {"c=", 1, 1386}};
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char descriptor[1600], text[WR_RESERVATION_TEXT_MAX];
	uint64_t expires_ns;
	bool refunds;
	struct rig rig;

	rig_open(&rig, big, "d");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t len = 1360; len < 1460; len++) {
			memset(descriptor, 'x', sizeof descriptor);
			memcpy(descriptor, cases[i].key, 2);
			descriptor[2 + len] = 0;
			rig_begin(&rig);
			assert_int_equal(wr_reservation_begin(rig.ask, record), 0);
			assert_int_equal(rig_add(&rig, descriptor, cases[i].hits), 0);
			assert_int_equal(wr_reservation_fits(rig.ask), len <= cases[i].most);
			assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
			if (len <= cases[i].most)
				assert_in_range(wr_reservation_write(rig.ask, 0, text, &expires_ns,
								     &refunds),
						1, WR_RESERVATION_TEXT_MAX);
		}
	rig_close(&rig);
	(void)state;
}

/* The largest charges have exactly the number of bytes that wr_reservation_fits expects. */
static void largest_charges(void **state)
{
	uint8_t bytes[256];
	struct wr_reservation_charge charge = {.flags = WR_CHARGE_CENTRAL,
					       .own_cost = UINT32_MAX,
					       .cost = 3ull * UINT32_MAX,
					       .charged_ns = INT64_MAX,
					       .candidates = UINT8_MAX,
					       .decided_us = INT64_MAX,
					       .delay_ns = INT64_MAX,
					       .booked = UINT32_MAX,
					       .used = UINT32_MAX,
					       .given = INT64_MAX};

	for (int central = 1; central >= 0; central--) {
		struct wr_reservation_token token = {.at = bytes, .cap = sizeof bytes};

		wr_reservation_token_put_charge(&token, &charge);
		assert_int_equal(token.len, central ? 75 : 44);
		assert_int_equal(token.len, wr_reservation_token_charge_max(charge.own_cost,
									    charge.cost, central));
		charge.flags = 0;
	}
	(void)state;
}

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
		cmocka_unit_test(forged_and_foreign_tokens_are_unknown),
		cmocka_unit_test(expired_reservations_stay_charged),
		cmocka_unit_test(expiry_refunds_once),
		cmocka_unit_test(buckets_get_back_what_they_lacked),
		cmocka_unit_test(slots_are_released),
		cmocka_unit_test(rules_changed_in_between),
		cmocka_unit_test(all_rules_gone),
		cmocka_unit_test(long_descriptors_are_refused),
		cmocka_unit_test(fitting_descriptors_get_a_token),
		cmocka_unit_test(largest_charges),
		cmocka_unit_test(evicted_markers_give_nothing_back_twice),
		cmocka_unit_test(evicted_reservations_stay_charged),
		cmocka_unit_test(evicted_refund_is_charged_by_the_commit),
		cmocka_unit_test(evicted_markers_release_their_own_slot_only),
		cmocka_unit_test(nothing_charged),
		cmocka_unit_test(charges_without_a_reservation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
