/* Reservations with units of the central store and units of this node's table. */
#include "standin.h"

#include <string.h>

#include "limiter/ask.h"
#include "limiter/reservation.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: s\n"
	"  rate_limit: {unit: minute, requests_per_unit: 10000}\n"
	"- key: bucket\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, algorithm: token_bucket}\n"
	"- key: here\n"
	"  rate_limit: {unit: minute, requests_per_unit: 10000, consistency: local}\n"
	"- key: refund\n"
	"  rate_limit: {unit: minute, requests_per_unit: 10000, consistency: local, on_expiry: "
	"refund}\n"
	"- key: bucket_here\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, algorithm: token_bucket, "
	"consistency: local}\n";

struct fixture {
	struct rig rig;
	struct store store;
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char token[WR_RESERVATION_TEXT_MAX];
	int len;
	struct wr_reservation reservation;
};

static struct rig *open_fixture(struct fixture *f)
{
	memset(f, 0, sizeof *f);
	rig_open_with(&f->rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	return &f->rig;
}

/* Admits a request of the central key `s=1` or the like and of this node's key. */
static void admit(struct fixture *f, const char *central, const char *here, int64_t hits)
{
	struct rig *rig = &f->rig;

	rig_begin(rig);
	assert_int_equal(wr_reservation_begin(rig->ask, f->record), 0);
	assert_int_equal(rig_add(rig, central, hits), 0);
	if (here)
		assert_int_equal(rig_add(rig, here, hits), 0);
	assert_int_equal(store_finish(rig, &f->store, rig_decide(rig)), WEIR_ADMIT);
}

/* Writes the token of the admitted request, and ends the request. */
static void write_token(struct fixture *f, uint64_t ttl_ns)
{
	uint64_t expires_ns;
	bool refunds;

	f->len = wr_reservation_write(f->rig.ask, ttl_ns, f->token, &expires_ns, &refunds);
	assert_true(f->len > 0);
	weir_ask_done(f->rig.ask);
	f->rig.ask = NULL;
}

static void reserve(struct fixture *f, const char *central, const char *here, int64_t hits)
{
	admit(f, central, here, hits);
	write_token(f, 5 * SECOND_NS);
}

static void restore(struct fixture *f)
{
	_Alignas(16) static char memory[WEIR_ASK_BYTES];
	struct rig *rig = &f->rig;

	if (rig->ask)
		weir_ask_done(rig->ask);
	assert_int_equal(wr_reservation_read(&f->reservation, rig->engine,
					     (struct weir_str){f->token, (size_t)f->len},
					     rig->now_ns),
			 0);
	assert_true(f->reservation.fleet);
	assert_int_equal(wr_reservation_restore(&f->reservation, memory, sizeof memory, rig->engine,
						&rig->ask),
			 0);
}

/* Settles after the central store has answered the claim. */
static bool settle(struct fixture *f, enum wr_settle_action action, enum wr_claim claim,
		   int64_t actual)
{
	struct wr_settle_order order = {action, claim, actual};
	bool settled;

	restore(f);
	wr_reservation_prepare(&f->reservation, f->rig.ask, &order);
	settled = wr_reservation_settle(&f->reservation, f->rig.ask, &order, f->rig.now_ns);
	weir_ask_done(f->rig.ask);
	f->rig.ask = NULL;
	return settled;
}

static uint32_t left(struct rig *rig, const char *descriptor)
{
	rig_begin(rig);
	assert_int_equal(rig_add(rig, descriptor, 0), 0);
	assert_int_equal(rig_decide(rig), WEIR_ADMIT);
	return rig_status(rig, 0).decision.remaining;
}

/* Uses 2,000 units of the key in many requests, so that its counter is not evicted. */
static void use_often(struct rig *rig, const char *descriptor)
{
	for (int i = 0; i < 40; i++) {
		rig_begin(rig);
		rig_add(rig, descriptor, 50);
		assert_int_equal(rig_decide(rig), WEIR_ADMIT);
	}
}

/* Admits a request for 600 units without the central store. If `reported`, its report is sent. */
static void admit_alone(struct fixture *f, bool reported)
{
	struct rig *rig = &f->rig;

	rig_begin(rig);
	assert_int_equal(wr_reservation_begin(rig->ask, f->record), 0);
	assert_int_equal(rig_add(rig, "s=1", 600), 0);
	assert_int_equal(rig_decide(rig), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig->ask, rig->now_ns), WEIR_ADMIT);
	if (reported)
		assert_true(store_fetch(rig, &f->store) > 0);
}

/* Checks that the ask has given back and charged these units. */
static void assert_settled(struct fixture *f, uint64_t returned, uint64_t owed)
{
	uint64_t charged;

	assert_int_equal(wr_ask_settled_units(f->rig.ask, &charged), returned);
	assert_int_equal(charged, owed);
}

/* When the report of a request was sent, the central store counts all reserved units. Only this
 * node's own counter gets units back. */
static void reported_units_are_not_refunded(void **state)
{
	static struct fixture f;
	struct rig *rig = open_fixture(&f);

	admit_alone(&f, false);
	assert_int_equal(weir_ask_settle(rig->ask, 500, rig->now_ns), 0);
	assert_settled(&f, 100, 0);
	admit_alone(&f, true);
	assert_int_equal(weir_ask_settle(rig->ask, 500, rig->now_ns), 0);
	assert_settled(&f, 0, 0);
	assert_int_equal(store_fetch(rig, &f.store), 0);
	admit_alone(&f, true);
	assert_int_equal(weir_ask_settle(rig->ask, 750, rig->now_ns), 0);
	assert_settled(&f, 0, 150);
	assert_true(store_fetch(rig, &f.store) > 0);
	admit_alone(&f, false);
	assert_int_equal(weir_ask_cancel(rig->ask, rig->now_ns), 0);
	assert_settled(&f, 600, 0);
	assert_int_equal(store_fetch(rig, &f.store), 0);
	admit_alone(&f, true);
	assert_int_equal(weir_ask_cancel(rig->ask, rig->now_ns), 0);
	assert_settled(&f, 0, 0);
	/* The node's own counter has the actual units. */
	rig_begin(rig);
	assert_int_equal(rig_add(rig, "s=1", 10000 - 500 - 500 - 750), 0);
	assert_int_equal(rig_decide(rig), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig->ask, rig->now_ns), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(rig, "s=1", 1), 0);
	rig_close(rig);
	(void)state;
}

/* The units in the table are settled once, whether the first answer of the central store arrives or
 * not. */
static void table_is_settled_once(void **state)
{
	static struct fixture f;
	struct rig *rig = open_fixture(&f);

	reserve(&f, "s=1", "here=1", 600);
	assert_int_equal(left(rig, "here=1"), 9400);
	assert_true(settle(&f, WR_SETTLE_COMMIT, WR_CLAIM_FIRST, 500));
	assert_int_equal(left(rig, "here=1"), 9500);
	assert_false(settle(&f, WR_SETTLE_COMMIT, WR_CLAIM_ALREADY, 500));
	assert_false(settle(&f, WR_SETTLE_CANCEL, WR_CLAIM_ALREADY, 0));
	assert_int_equal(left(rig, "here=1"), 9500);
	/* The answer to the first commit was lost. */
	reserve(&f, "s=1", "here=2", 600);
	assert_true(settle(&f, WR_SETTLE_COMMIT, WR_CLAIM_ALREADY, 500));
	assert_int_equal(left(rig, "here=2"), 9500);
	assert_false(settle(&f, WR_SETTLE_COMMIT, WR_CLAIM_ALREADY, 500));
	assert_int_equal(left(rig, "here=2"), 9500);
	/* Without units of the table, nothing is left to settle. */
	reserve(&f, "s=1", NULL, 600);
	assert_false(settle(&f, WR_SETTLE_CANCEL, WR_CLAIM_ALREADY, 0));
	rig_close(rig);
	(void)state;
}

/* The table has evicted its marker, so the units in the table may have been given back already. */
static void evicted_markers_give_nothing_back(void **state)
{
	static const enum wr_claim claims[] = {WR_CLAIM_FIRST, WR_CLAIM_ALREADY};
	static struct fixture f;

	for (int i = 0; i < 2; i++) {
		struct rig *rig = open_fixture(&f);

		use_often(rig, "here=1");
		reserve(&f, "s=1", "here=1", 600);
		rig_evict(rig);
		assert_int_equal(left(rig, "here=1"), 7400);
		assert_true(settle(&f, WR_SETTLE_CANCEL, claims[i], 0));
		assert_int_equal(left(rig, "here=1"), 7400);
		assert_false(settle(&f, WR_SETTLE_CANCEL, WR_CLAIM_ALREADY, 0));
		rig_close(rig);

		rig = open_fixture(&f);
		use_often(rig, "here=1");
		reserve(&f, "s=1", "here=1", 600);
		rig_evict(rig);
		assert_true(settle(&f, WR_SETTLE_COMMIT, claims[i], 750));
		assert_int_equal(left(rig, "here=1"), 7250);
		assert_false(settle(&f, WR_SETTLE_COMMIT, WR_CLAIM_ALREADY, 750));
		assert_int_equal(left(rig, "here=1"), 7250);
		rig_close(rig);
	}
	(void)state;
}

/* The expiry gives units back to the table once, and nothing if the marker was evicted. */
static void expiry(void **state)
{
	static struct fixture f;

	for (int evicted = 0; evicted < 2; evicted++) {
		struct rig *rig = open_fixture(&f);
		uint32_t after = evicted ? 7400 : 8000;

		use_often(rig, "refund=1");
		reserve(&f, "s=1", "refund=1", 600);
		if (evicted)
			rig_evict(rig);
		rig->now_ns += 5 * SECOND_NS;
		assert_true(settle(&f, WR_SETTLE_EXPIRY, WR_CLAIM_FIRST, 0));
		assert_int_equal(left(rig, "refund=1"), after);
		assert_false(settle(&f, WR_SETTLE_EXPIRY, WR_CLAIM_ALREADY, 0));
		assert_int_equal(left(rig, "refund=1"), after);
		/* The units are charged, because they were or may have been given back. */
		assert_true(settle(&f, WR_SETTLE_COMMIT, WR_CLAIM_EXPIRED, 550));
		assert_int_equal(left(rig, "refund=1"), after - 550);
		rig_close(rig);
	}
	(void)state;
}

/* A token contains how many tokens the bucket lacked and how many had been given back, by the answer of
 * the central store, or by the table's decision and count. */
static void proofs_are_kept(void **state)
{
	static struct fixture f;
	struct rig *rig = open_fixture(&f);

	admit(&f, "bucket=1", "bucket_here=1", 200);
	for (int i = 0; i < 2; i++) {
		rig->ask->needs[i].used = 900;
		rig->ask->needs[i].given = 7;
	}
	write_token(&f, 0);
	restore(&f);
	assert_int_equal(rig->ask->needs[0].decided_by, WR_NEED_CENTRAL);
	assert_int_equal(rig->ask->needs[0].used, 900);
	assert_int_equal(rig->ask->needs[0].given, 7);
	assert_int_equal(rig->ask->needs[1].decided_by, WR_NEED_TABLE);
	assert_int_equal(rig->ask->needs[1].used, 200);
	assert_int_equal(rig->ask->needs[1].given, 7);
	rig_close(rig);
	(void)state;
}

/* A request whose descriptors fit gets a token, even if each number of its charge has its largest
 * value. All lengths around the bound are tried. */
static void fitting_descriptors_get_a_token(void **state)
{
	static struct fixture f;
	struct rig *rig = open_fixture(&f);
	char descriptor[1600];

	for (size_t len = 1330; len < 1400; len++) {
		uint64_t expires_ns;
		bool fits = len <= 1375, refunds;
		int rc;

		memset(descriptor, 'x', sizeof descriptor);
		memcpy(descriptor, "s=", 2);
		descriptor[2 + len] = 0;
		memset(&f.store, 0, sizeof f.store);
		rig_begin(rig);
		assert_int_equal(wr_reservation_begin(rig->ask, f.record), 0);
		assert_int_equal(rig_add(rig, descriptor, 7), 0);
		assert_int_equal(wr_reservation_fits(rig->ask), fits);
		assert_int_equal(store_finish(rig, &f.store, rig_decide(rig)), WEIR_ADMIT);
		rig->ask->needs[0].need.decision.charged_ns = INT64_MAX;
		rig->ask->needs[0].need.decision.delay_ns = INT64_MAX;
		rig->ask->needs[0].decided_us = INT64_MAX;
		rig->ask->needs[0].candidates = UINT8_MAX;
		rig->ask->needs[0].booked = rig->ask->needs[0].used = UINT32_MAX;
		rig->ask->needs[0].given = INT64_MAX;
		rc = wr_reservation_write(rig->ask, 0, f.token, &expires_ns, &refunds);
		assert_int_equal(rc > 0, fits);
	}
	rig_close(rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reported_units_are_not_refunded),
		cmocka_unit_test(table_is_settled_once),
		cmocka_unit_test(evicted_markers_give_nothing_back),
		cmocka_unit_test(expiry),
		cmocka_unit_test(proofs_are_kept),
		cmocka_unit_test(fitting_descriptors_get_a_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
