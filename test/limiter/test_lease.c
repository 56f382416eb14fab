/* Requests that spend units of leases: without questions, with units that are given back, and with
 * units that are added to this node's own counter. The test does the work of the service and sets
 * the clock of leases. */
#include "standin.h"

#include <string.h>

#include <weir/control.h>

#include "base/str.h"
#include "limiter/engine.h"
#include "limiter/reservation.h"
#include "store/lease.h"

#define OWNER 7u
#define MS 1000000ull
#define GRANTED_US 1700000000123456ull

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: a\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, consistency: lease}\n"
	"- key: b\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, consistency: lease}\n"
	"- key: large\n"
	"  rate_limit: {unit: minute, requests_per_unit: 100000, consistency: lease}\n"
	"- key: bucket\n"
	"  rate_limit: {unit: second, requests_per_unit: 10, burst: 30, algorithm: token_bucket, "
	"consistency: lease}\n"
	"- key: log\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, algorithm: sliding_window_log, "
	"consistency: lease}\n"
	"- key: here\n"
	"  rate_limit: {unit: minute, requests_per_unit: 2, consistency: local}\n"
	"- key: strict\n"
	"  rate_limit: {unit: minute, requests_per_unit: 2}\n"
	"- key: shadow\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, consistency: lease}\n"
	"- key: quota\n"
	"  quota_mode: true\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, consistency: lease}\n"
	"- key: quotas\n"
	"  quota_mode: true\n"
	"  rate_limits:\n"
	"  - {unit: minute, requests_per_unit: 9, consistency: lease}\n"
	"  - {unit: hour, requests_per_unit: 9, consistency: lease}\n"
	"- key: soft\n"
	"  rate_limit: {unit: minute, requests_per_unit: 30, consistency: lease, mode: soft, soft: "
	"{overshoot: 20%, for: 30s}}\n"
	"- key: rejected\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, consistency: lease, count_rejected: "
	"true}\n";

static uint64_t mono_ns;

static uint64_t read_mono(void *context)
{
	(void)context;
	return mono_ns;
}

static void open_rig(struct rig *rig, struct store *store)
{
	memset(store, 0, sizeof *store);
	rig_open_with(rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	rig->engine->mono = read_mono;
	mono_ns = 1000 * SECOND_NS;
}

/* Returns the key of a descriptor in the table, read from its question. */
static struct wr_key tag_of(struct rig *rig, struct store *store, const char *descriptor)
{
	struct wr_question_item item;

	assert_int_equal(rig_ask(rig, descriptor), WEIR_WAIT);
	assert_true(store_fetch(rig, store) > 0);
	memcpy(&item, store->bytes + sizeof(struct wr_question_head), sizeof item);
	assert_int_equal(weir_ask_cancel(rig->ask, rig->now_ns), 0);
	assert_int_equal(item.consistency, 1);
	return (struct wr_key){item.tag};
}

/* Deposits a lease of one second for the key. Returns the slot. */
static int lend_to(struct rig *rig, struct wr_key key, uint32_t units, uint64_t identity)
{
	struct wr_store_lease_terms terms = {.units = units,
					     .remaining = units < 1000 ? 600 : 60000,
					     .limit = units < 1000 ? 1000 : 100000,
					     .ends_mono_ns = mono_ns + SECOND_NS,
					     .resets_mono_ns = mono_ns + 30 * SECOND_NS,
					     .identity = identity,
					     .granted_us = GRANTED_US};
	int slot = wr_store_lease_claim(rig->table, key, OWNER, mono_ns);

	assert_true(wr_store_lease_deposit(rig->table, slot, OWNER, &terms, mono_ns, NULL));
	return slot;
}

/* Deposits a lease of one second for the descriptor. Returns the slot. */
static int lend(struct rig *rig, struct store *store, const char *descriptor, uint32_t units,
		uint64_t identity)
{
	return lend_to(rig, tag_of(rig, store, descriptor), units, identity);
}

static uint32_t left(struct rig *rig, int slot)
{
	return wr_store_lease_left(rig->table, slot, OWNER, mono_ns);
}

static void leased_units_need_no_question(void **state)
{
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 3, wr_store_lease_identity(1000, 0, 0));
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(rig_status(&rig, 0).limit, 1000);
	assert_int_equal(rig_status(&rig, 0).remaining, 602);
	assert_int_equal(rig_status(&rig, 0).decision.reset_after_ns, 30 * SECOND_NS);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=2"), WEIR_WAIT);
	/* Two units in one request, with one unit left. */
	assert_int_equal(rig_ask(&rig, "a=1;a=1"), WEIR_WAIT);
	assert_int_equal(left(&rig, slot), 1);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	assert_int_equal(rig_stat(&rig, "d/a/1m").admitted, 3);
	rig_close(&rig);
	(void)state;
}

static void clock_of_leases(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store);
	lend(&rig, &store, "a=1", 9, wr_store_lease_identity(1000, 0, 0));
	mono_ns += SECOND_NS - 1;
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	mono_ns += 1;
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	/* The time that the host set is used. */
	rig_begin(&rig);
	rig_add(&rig, "a=1", 1);
	assert_int_equal(weir_ask_set_boottime(rig.ask, mono_ns - 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_set_boottime(rig.ask, mono_ns), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

/* Leased units are spent first. The central store is asked for the other limits only. */
static void leased_and_asked_limits_together(void **state)
{
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 9, wr_store_lease_identity(1000, 0, 0));
	store.questions = 0;
	assert_int_equal(store_ask(&rig, &store, "a=1;strict=1"), WEIR_ADMIT);
	assert_int_equal(store.item_count, 1);
	assert_int_equal(store.items[0].limit, 2);
	assert_int_equal(left(&rig, slot), 8);
	assert_int_equal(store_ask(&rig, &store, "a=1;strict=1"), WEIR_ADMIT);
	/* The other limit refuses: the unit is given back. */
	assert_int_equal(store_ask(&rig, &store, "a=1;strict=1"), WEIR_REFUSE);
	assert_int_equal(left(&rig, slot), 7);
	assert_int_equal(rig_status(&rig, 0).remaining, 607);
	/* The table refuses: nothing is spent. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(store_ask(&rig, &store, "a=1;here=1"),
				 i < 2 ? WEIR_ADMIT : WEIR_REFUSE);
	assert_int_equal(left(&rig, slot), 5);
	assert_int_equal(store.returns, 0);
	/* The central store fails: on_store_failure applies to its limits only. */
	assert_int_equal(store_fails(&rig, "a=1;strict=2"), WEIR_ADMIT);
	assert_int_equal(left(&rig, slot), 4);
	/* Two leased limits, one without units: the central store is asked for that one. */
	lend(&rig, &store, "b=1", 1, wr_store_lease_identity(1000, 0, 0));
	assert_int_equal(rig_ask(&rig, "a=1;b=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=1;b=1"), WEIR_WAIT);
	assert_int_equal(left(&rig, slot), 2);
	rig_close(&rig);
	(void)state;
}

static void cancelled_requests_return_units(void **state)
{
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 9, wr_store_lease_identity(1000, 0, 0));
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 9);
	assert_int_equal(store_fetch(&rig, &store), 0);
	/* Cancelled while the central store is asked for another limit. */
	assert_int_equal(rig_ask(&rig, "a=1;strict=1"), WEIR_WAIT);
	assert_int_equal(left(&rig, slot), 8);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 9);
	assert_true(store_fetch(&rig, &store) > 0);
	store_serve(&store, rig.now_ns);
	assert_int_equal(weir_ask_answer(rig.ask, store.answer, store.answer_len, rig.now_ns),
			 WEIR_REFUSE);
	assert_int_equal(left(&rig, slot), 9);
	/* After the report units cannot be given back. */
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	wr_store_lease_report(rig.table, slot, OWNER, mono_ns, NULL);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 8);
	assert_int_equal(wr_store_lease_burnt(rig.table).late, 1);
	rig_close(&rig);
	(void)state;
}

/* Checks that the next message is the last one, and that it charges `cost` units to one counter. A
 * cost below 0 gives units back. Returns the item of the counter. */
static struct wr_question_item assert_told(struct rig *rig, struct store *store,
					   enum wr_question_kind kind, int64_t cost)
{
	struct wr_question_head head;
	struct wr_question_item item;

	assert_true(store_fetch(rig, store) > 0);
	memcpy(&head, store->bytes, sizeof head);
	memcpy(&item, store->bytes + sizeof head, sizeof item);
	assert_int_equal(head.kind, kind);
	assert_int_equal(head.count, 1);
	assert_int_equal(item.cost, cost);
	assert_int_equal(store_fetch(rig, store), 0);
	return item;
}

/* A request uses more units than it reserved. The lease pays for the difference as far as it has
 * units. A message to the central store charges the rest. */
static void debts_are_taken_from_the_lease(void **state)
{
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 9, wr_store_lease_identity(1000, 0, 0));
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_settle(rig.ask, 4, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 5);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_settle(rig.ask, 50, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 0);
	assert_told(&rig, &store, WR_QUESTION_OWE, 49 - 4);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	rig_close(&rig);
	(void)state;
}

/* The central store decided the request, for example the request with whose answer it granted the
 * lease. The lease pays for the debt first, so that it does not admit further requests. */
static void debts_of_asked_requests_are_taken_from_the_lease(void **state)
{
	static struct store store;
	struct wr_key key;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	key = tag_of(&rig, &store, "a=1");
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_ADMIT);
	slot = lend_to(&rig, key, 9, wr_store_lease_identity(1000, 0, 0));
	assert_int_equal(weir_ask_settle(rig.ask, 50, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 0);
	assert_told(&rig, &store, WR_QUESTION_OWE, 49 - 9);
	rig_close(&rig);
	(void)state;
}

/* Admits a request that is settled later. */
static void reserve_leased(struct rig *rig, const char *descriptor, int64_t hits)
{
	static uint8_t record[WR_RESERVATION_BYTES_MAX];

	rig_begin(rig);
	assert_int_equal(wr_reservation_begin(rig->ask, record), 0);
	rig_add(rig, descriptor, hits);
	assert_int_equal(rig_decide(rig), WEIR_ADMIT);
}

/* Checks that the next message gives back `units` into the window of the lease. */
static void assert_returned(struct rig *rig, struct store *store, int64_t units)
{
	struct wr_question_item item = assert_told(rig, store, WR_QUESTION_RETURN, -units);

	assert_int_equal(item.decided_us, GRANTED_US);
}

/* Unused units go back into the lease. If they were reported as spent, or the lease has ended, they go
 * back to the central store. */
static void unused_units_are_returned(void **state)
{
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 100, wr_store_lease_identity(1000, 0, 0));
	reserve_leased(&rig, "a=1", 10);
	assert_int_equal(weir_ask_settle(rig.ask, 4, rig.now_ns), 0);
	assert_int_equal(left(&rig, slot), 96);
	assert_int_equal(store_fetch(&rig, &store), 0);
	reserve_leased(&rig, "a=1", 10);
	wr_store_lease_report(rig.table, slot, OWNER, mono_ns, NULL);
	assert_int_equal(weir_ask_settle(rig.ask, 4, rig.now_ns), 0);
	assert_returned(&rig, &store, 6);
	assert_int_equal(left(&rig, slot), 86);
	reserve_leased(&rig, "a=1", 10);
	mono_ns += SECOND_NS;
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_returned(&rig, &store, 10);
	assert_int_equal(wr_store_lease_burnt(rig.table).late, 0);
	/* The central store counts units of a log with the time of the report, which is unknown. */
	slot = lend(&rig, &store, "log=1", 100, wr_store_lease_identity(1000, 0, 0));
	reserve_leased(&rig, "log=1", 10);
	wr_store_lease_report(rig.table, slot, OWNER, mono_ns, NULL);
	assert_int_equal(weir_ask_settle(rig.ask, 4, rig.now_ns), 0);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(wr_store_lease_burnt(rig.table).late, 6);
	rig_close(&rig);
	(void)state;
}

/* A reservation is settled by the next process of the node, which has lost the lease. */
static void reservations_of_lost_leases_are_returned(void **state)
{
	_Alignas(16) static char memory[WEIR_ASK_BYTES];
	static struct store store;
	struct wr_settle_order commit = {WR_SETTLE_COMMIT, WR_CLAIM_FIRST, 4};
	struct wr_reservation reservation;
	char text[WR_RESERVATION_TEXT_MAX];
	struct rig rig;
	uint64_t expires_ns;
	bool refunds;
	int slot, len;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 100, wr_store_lease_identity(1000, 0, 0));
	reserve_leased(&rig, "a=1", 10);
	len = wr_reservation_write(rig.ask, 0, text, &expires_ns, &refunds);
	assert_true(len > 0);
	weir_ask_done(rig.ask);
	wr_store_lease_release(rig.table, slot, OWNER, mono_ns);
	assert_int_equal(wr_reservation_read(&reservation, rig.engine,
					     (struct weir_str){text, (size_t)len}, rig.now_ns),
			 0);
	assert_int_equal(
		wr_reservation_restore(&reservation, memory, sizeof memory, rig.engine, &rig.ask),
		0);
	assert_true(wr_reservation_settle(&reservation, rig.ask, &commit, rig.now_ns));
	assert_returned(&rig, &store, 6);
	rig_close(&rig);
	(void)state;
}

static void leases_of_changed_limits_are_not_spent(void **state)
{
	struct weir_entry entry = {WR_STR("a"), WR_STR("1"), WR_STR("")};
	struct weir_target who = {
		.size = sizeof who, .domain = WR_STR("d"), .entries = &entry, .count = 1};
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "a=1", 9, wr_store_lease_identity(999, 0, 0));
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	assert_int_equal(left(&rig, slot), 9);
	/* A grant changes the numbers of the limit, so units of the lease are not spent. A ban
	 * refuses at once. */
	lend(&rig, &store, "a=1", 9, wr_store_lease_identity(1000, 0, 0));
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(
		weir_control_grant(rig.engine, &who, 5, rig.now_ns + HOUR_NS, rig.now_ns, NULL), 1);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	slot = lend(&rig, &store, "a=1", 9, wr_store_lease_identity(1000, 0, 5));
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).decision.granted, 5);
	assert_int_equal(weir_control_ban(rig.engine, &who, WEIR_NEVER, rig.now_ns, NULL), 1);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_BANNED);
	assert_int_equal(left(&rig, slot), 8);
	rig_close(&rig);
	(void)state;
}

static void refusals_are_remembered(void **state)
{
	static struct store store;
	struct wr_store_lease_refusal refusal = {.cost = 1, .limit = 1000};
	struct rig rig;
	int slot, shadow;

	open_rig(&rig, &store);
	refusal.until_mono_ns = refusal.retry_mono_ns = mono_ns + 400 * MS;
	refusal.resets_mono_ns = mono_ns + SECOND_NS;
	refusal.identity = wr_store_lease_identity(1000, 0, 0);
	slot = lend(&rig, &store, "a=1", 0, refusal.identity);
	wr_store_lease_refuse(rig.table, slot, OWNER, &refusal, mono_ns);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, 400 * MS);
	assert_int_equal(store_fetch(&rig, &store), 0);
	/* The other limits are not asked, and their units are not spent. */
	slot = lend(&rig, &store, "b=1", 2, refusal.identity);
	assert_int_equal(rig_ask(&rig, "b=1;a=1;strict=1"), WEIR_REFUSE);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(left(&rig, slot), 2);
	/* A limit in shadow mode does not refuse. */
	refusal.identity = wr_store_lease_identity(9, 0, 0);
	shadow = lend(&rig, &store, "shadow=1", 0, refusal.identity);
	wr_store_lease_refuse(rig.table, shadow, OWNER, &refusal, mono_ns);
	assert_int_equal(rig_ask(&rig, "shadow=1;b=1"), WEIR_ADMIT);
	assert_int_equal(rig_stat(&rig, "d/shadow/1m").shadowed, 1);
	mono_ns += 400 * MS;
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	rig_close(&rig);
	(void)state;
}

/* Spent units count against this node's share, like units that the central store admits. */
static void own_use_is_booked(void **state)
{
	static struct store store;
	struct rig rig;
	int spent = 0;

	open_rig(&rig, &store);
	weir_fleet_note(rig.table, 3, NOW_NS);
	lend(&rig, &store, "a=1", 300, wr_store_lease_identity(1000, 0, 0));
	while (rig_ask(&rig, "a=1") == WEIR_ADMIT)
		spent++;
	assert_int_equal(spent, 300);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 100), 33);
	/* The share of a bucket of 30 is 10, at 3 per second: 6 spent leave 4. */
	lend(&rig, &store, "bucket=1", 6, wr_store_lease_identity(10, 30, 0));
	while (rig_ask(&rig, "bucket=1") == WEIR_ADMIT)
		;
	assert_int_equal(store_fails_admitted(&rig, "bucket=1", 100), 4);
	/* The units of a large limit are added in batches of 64: about 20000 of 33333. */
	lend(&rig, &store, "large=1", 20000, wr_store_lease_identity(100000, 0, 0));
	while (rig_ask(&rig, "large=1") == WEIR_ADMIT)
		;
	assert_in_range(store_fails_admitted(&rig, "large=1", 20000), 13333 - 64, 13333 + 64);
	/* The central store's `remaining` is larger than its limit: each unit is added
	 * separately. */
	lend(&rig, &store, "large=2", 900, wr_store_lease_identity(100000, 0, 0));
	while (rig_ask(&rig, "large=2") == WEIR_ADMIT)
		;
	assert_in_range(store_fails_admitted(&rig, "large=2", 40000), 32433 - 64, 32433 + 64);
	rig_close(&rig);
	(void)state;
}

static void limits_that_are_not_leased(void **state)
{
	static struct store store;
	struct rig rig;
	int slot;

	open_rig(&rig, &store);
	slot = lend(&rig, &store, "quota=1", 2, wr_store_lease_identity(9, 0, 0));
	assert_int_equal(rig_ask(&rig, "quota=1"), WEIR_ADMIT);
	assert_int_equal(left(&rig, slot), 1);
	lend(&rig, &store, "quotas=1", 2, wr_store_lease_identity(9, 0, 0));
	assert_int_equal(rig_ask(&rig, "quotas=1"), WEIR_WAIT);
	lend(&rig, &store, "soft=1", 2, wr_store_lease_identity(30, 0, 0));
	assert_int_equal(rig_ask(&rig, "soft=1"), WEIR_WAIT);
	lend(&rig, &store, "rejected=1", 2, wr_store_lease_identity(9, 0, 0));
	assert_int_equal(rig_ask(&rig, "rejected=1"), WEIR_WAIT);
	/* Costs of 0 and below are not spent from leases. */
	slot = lend(&rig, &store, "a=1", 2, wr_store_lease_identity(1000, 0, 0));
	rig_begin(&rig);
	rig_add(&rig, "a=1", 0);
	assert_int_equal(rig_decide(&rig), WEIR_WAIT);
	rig_begin(&rig);
	rig_add(&rig, "a=1", -1);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(left(&rig, slot), 2);
	/* An engine without a central store counts in the table. */
	rig_close(&rig);
	rig_open_with(&rig, rig_rules(rules), "d", 0);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 999);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leased_units_need_no_question),
		cmocka_unit_test(clock_of_leases),
		cmocka_unit_test(leased_and_asked_limits_together),
		cmocka_unit_test(cancelled_requests_return_units),
		cmocka_unit_test(debts_are_taken_from_the_lease),
		cmocka_unit_test(debts_of_asked_requests_are_taken_from_the_lease),
		cmocka_unit_test(unused_units_are_returned),
		cmocka_unit_test(reservations_of_lost_leases_are_returned),
		cmocka_unit_test(leases_of_changed_limits_are_not_spent),
		cmocka_unit_test(refusals_are_remembered),
		cmocka_unit_test(own_use_is_booked),
		cmocka_unit_test(limits_that_are_not_leased),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
