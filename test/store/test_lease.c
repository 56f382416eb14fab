/* Tests the functions of leases one after the other, with given times. */
#include "crew.h"

#include "store/lease.h"

#define MS 1000000ull
#define MONO (5000 * SECOND)
#define OWNER 7u
#define OTHER 8u

static struct weir_table *table;
static const struct wr_key key = {0x123456789abcdef0u};

static uint64_t identity(void)
{
	return wr_store_lease_identity(1000, 0, 0);
}

static struct wr_store_lease_terms terms(uint32_t units, uint64_t ends_mono_ns)
{
	return (struct wr_store_lease_terms){
		.units = units,
		.remaining = 600,
		.limit = 1000,
		.ends_mono_ns = ends_mono_ns,
		.resets_mono_ns = MONO + 60 * SECOND,
		.identity = identity(),
	};
}

static int open_table(void **unused)
{
	(void)unused;
	table = table_open("lease", 4 * MIB, 0);
	return 0;
}

static int drop_table(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

static int claimed(uint32_t units, uint64_t ends_mono_ns)
{
	struct wr_store_lease_terms granted = terms(units, ends_mono_ns);
	int slot = wr_store_lease_claim(table, key, OWNER, MONO);

	assert_true(slot >= 0);
	assert_true(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO, NULL));
	return slot;
}

static enum wr_store_lease_answer spend_as(uint64_t of, int64_t cost, uint64_t mono_ns,
					   uint32_t *grant)
{
	struct weir_decision decision;
	uint32_t any;

	return wr_store_lease_spend(table, key, of, cost, mono_ns, &decision, grant ? grant : &any);
}

static enum wr_store_lease_answer spend(int64_t cost, uint64_t mono_ns)
{
	return spend_as(identity(), cost, mono_ns, NULL);
}

static void units_go_one_by_one(void **unused)
{
	struct weir_decision decision;
	uint32_t grant;
	int slot;

	(void)unused;
	assert_int_equal(spend(1, MONO), WR_LEASE_NOTHING);
	slot = claimed(10, MONO + SECOND);
	assert_int_equal(
		wr_store_lease_spend(table, key, identity(), 3, MONO + 1, &decision, &grant),
		WR_LEASE_SPENT);
	assert_int_equal(decision.admitted, 1);
	assert_int_equal(decision.limit, 1000);
	assert_int_equal(decision.remaining, 607);
	assert_int_equal(decision.reset_after_ns, 60 * SECOND - 1);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO), 7);
	assert_int_equal(wr_store_lease_left(table, slot, OTHER, MONO), 0);
	/* There are only seven units. */
	assert_int_equal(spend(8, MONO), WR_LEASE_NOTHING);
	assert_int_equal(spend(7, MONO), WR_LEASE_SPENT);
	assert_int_equal(spend(1, MONO), WR_LEASE_NOTHING);
	/* More units than a slot can hold. */
	assert_int_equal(spend(INT64_MAX, MONO), WR_LEASE_NOTHING);
}

static uint64_t spend_rest(uint64_t most, uint64_t mono_ns)
{
	return wr_store_lease_spend_rest(table, key, identity(), most, mono_ns);
}

/* Units that were used beyond the reserved ones are taken as far as the lease has them. */
static void the_rest_is_spent(void **unused)
{
	int slot;

	(void)unused;
	assert_int_equal(spend_rest(5, MONO), 0);
	slot = claimed(10, MONO + SECOND);
	assert_int_equal(spend(3, MONO), WR_LEASE_SPENT);
	assert_int_equal(spend_rest(5, MONO), 5);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO), 2);
	assert_int_equal(wr_store_lease_spend_rest(table, key, identity() + 2, 5, MONO), 0);
	assert_int_equal(spend_rest(5, MONO + SECOND), 0);
	assert_int_equal(spend_rest(UINT64_MAX, MONO + SECOND - 1), 2);
	assert_int_equal(spend_rest(1, MONO), 0);
	assert_int_equal(spend(1, MONO), WR_LEASE_NOTHING);
}

/* The slot stores the time of a debt only if it had too few units. Another owner that gets the slot
 * does not see the time. */
static void times_of_debts(void **unused)
{
	int slot = claimed(10, MONO + SECOND);

	(void)unused;
	assert_int_equal(spend_rest(10, MONO + 5), 10);
	assert_false(wr_store_lease_owed_since(table, slot, OWNER, MONO + 5));
	assert_int_equal(spend_rest(1, MONO + 5), 0);
	assert_true(wr_store_lease_owed_since(table, slot, OWNER, MONO + 5));
	assert_false(wr_store_lease_owed_since(table, slot, OWNER, MONO + 6));
	assert_false(wr_store_lease_owed_since(table, slot, OTHER, MONO + 5));
	wr_store_lease_release(table, slot, OWNER, MONO + 5);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, MONO + 5), slot);
	assert_false(wr_store_lease_owed_since(table, slot, OTHER, MONO + 5));
}

static void ends(void **unused)
{
	struct wr_store_lease_terms granted;
	uint32_t burnt;
	int slot;

	(void)unused;
	slot = claimed(10, MONO + SECOND);
	assert_int_equal(spend(1, MONO + SECOND - 1), WR_LEASE_SPENT);
	assert_int_equal(spend(1, MONO + SECOND), WR_LEASE_NOTHING);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO + SECOND), 0);
	assert_int_equal(wr_store_lease_withdraw(table, slot, OWNER, 9, MONO + SECOND), 0);
	/* A deposit after its end has no effect. The next deposit removes units that had ended, and
	 * counts them as burnt. */
	granted = terms(5, MONO + SECOND);
	assert_false(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO + SECOND, NULL));
	granted = terms(5, MONO + 2 * SECOND);
	assert_true(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO + SECOND, &burnt));
	assert_int_equal(burnt, 9);
	assert_int_equal(wr_store_lease_burnt(table).expired, 9);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO + SECOND), 5);
	/* A renewal moves the end of all units. */
	granted = terms(2, MONO + 3 * SECOND);
	assert_true(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO + SECOND, &burnt));
	assert_int_equal(burnt, 0);
	assert_int_equal(spend(7, MONO + 3 * SECOND - 1), WR_LEASE_SPENT);
}

static void unspent_units_are_returned_or_burnt(void **unused)
{
	uint32_t grant, again, burnt;
	int slot;

	(void)unused;
	slot = claimed(10, MONO + SECOND);
	assert_int_equal(spend_as(identity(), 4, MONO, &grant), WR_LEASE_SPENT);
	wr_store_lease_unspend(table, key, 4, grant, MONO);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO), 10);
	/* After a report, spent units cannot be given back. */
	assert_int_equal(spend_as(identity(), 4, MONO, &grant), WR_LEASE_SPENT);
	assert_int_equal(wr_store_lease_report(table, slot, OWNER, MONO, &burnt), 6);
	assert_int_equal(burnt, 0);
	wr_store_lease_unspend(table, key, 4, grant, MONO);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO), 6);
	assert_int_equal(wr_store_lease_burnt(table).late, 4);
	/* Units cannot be given back after their end, or after the slot was freed and claimed
	 * again. */
	assert_int_equal(spend_as(identity(), 1, MONO, &grant), WR_LEASE_SPENT);
	wr_store_lease_unspend(table, key, 1, grant, MONO + SECOND);
	assert_int_equal(wr_store_lease_burnt(table).late, 5);
	wr_store_lease_release(table, slot, OWNER, MONO);
	assert_int_equal(wr_store_lease_burnt(table).voided, 5);
	slot = claimed(10, MONO + SECOND);
	assert_int_equal(spend_as(identity(), 1, MONO, &again), WR_LEASE_SPENT);
	assert_int_not_equal(again, grant);
	wr_store_lease_unspend(table, key, 1, grant, MONO);
	assert_int_equal(wr_store_lease_left(table, slot, OWNER, MONO), 9);
	assert_int_equal(wr_store_lease_burnt(table).late, 6);
}

static void changed_limits(void **unused)
{
	uint64_t raised = wr_store_lease_identity(1000, 0, 50),
		 burst = wr_store_lease_identity(1000, 7, 0);
	struct wr_store_lease_terms granted;
	uint32_t burnt;
	int slot;

	(void)unused;
	assert_int_not_equal(identity(), raised);
	assert_int_not_equal(identity(), burst);
	assert_int_not_equal(wr_store_lease_identity(0, 1000, 0),
			     wr_store_lease_identity(1000, 0, 0));
	slot = claimed(10, MONO + SECOND);
	assert_int_equal(spend_as(raised, 1, MONO, NULL), WR_LEASE_NOTHING);
	granted = terms(3, MONO + SECOND);
	granted.identity = raised;
	assert_true(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO, &burnt));
	assert_int_equal(burnt, 10);
	assert_int_equal(wr_store_lease_burnt(table).voided, 10);
	assert_int_equal(spend(1, MONO), WR_LEASE_NOTHING);
	assert_int_equal(spend_as(raised, 3, MONO, NULL), WR_LEASE_SPENT);
}

static void owners_replace_each_other(void **unused)
{
	struct wr_store_lease_terms granted = terms(5, MONO + 3 * SECOND);
	int slot;

	(void)unused;
	/* A claim without a deposit lasts a second. With a deposit it lasts until the end of the
	 * units. */
	slot = wr_store_lease_claim(table, key, OWNER, MONO);
	assert_true(slot >= 0);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, MONO + SECOND - 1), -1);
	assert_int_equal(wr_store_lease_claim(table, key, OWNER, MONO + SECOND - 1), slot);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, MONO + SECOND), -1);
	assert_true(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO + SECOND, NULL));
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, MONO + 3 * SECOND - 1), -1);
	/* The owner died: another owner takes the slot over, and the units that are left are
	 * counted as burnt. */
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, MONO + 3 * SECOND), slot);
	assert_int_equal(wr_store_lease_burnt(table).expired, 5);
	assert_false(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO, NULL));
	assert_int_equal(wr_store_lease_report(table, slot, OWNER, MONO, NULL), 0);
	assert_int_equal(wr_store_lease_void(table, slot, OWNER, MONO), 0);
	wr_store_lease_release(table, slot, OWNER, MONO);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, MONO + 3 * SECOND), slot);
	/* Invalid slot numbers. */
	assert_false(wr_store_lease_deposit(table, -1, OTHER, &granted, MONO, NULL));
	assert_false(wr_store_lease_deposit(table, (int)wr_store_lease_slots(table), OTHER,
					    &granted, MONO, NULL));
	assert_int_equal(wr_store_lease_withdraw(table, INT32_MAX, OTHER, 1, MONO), 0);
	assert_int_equal(wr_store_lease_claim(table, (struct wr_key){0}, OTHER, MONO), -1);
	/* Withdrawn units are not in the slot any more. */
	granted.ends_mono_ns = MONO + 5 * SECOND;
	assert_true(wr_store_lease_deposit(table, slot, OTHER, &granted, MONO + 3 * SECOND, NULL));
	assert_int_equal(wr_store_lease_withdraw(table, slot, OTHER, 2, MONO + 3 * SECOND), 2);
	assert_int_equal(wr_store_lease_withdraw(table, slot, OTHER, 99, MONO + 3 * SECOND), 3);
	assert_int_equal(spend(1, MONO + 3 * SECOND), WR_LEASE_NOTHING);
	assert_int_equal(wr_store_lease_burnt(table).voided, 0);
}

/* An owner that was late gets the number of units that were left in the slot when another owner
 * took it over. */
static void a_late_owner_learns_the_lapsed_units(void **unused)
{
	uint64_t end = MONO + SECOND;
	int slot = claimed(5, end);

	(void)unused;
	assert_int_equal(spend(2, MONO), WR_LEASE_SPENT);
	assert_int_equal(wr_store_lease_lapsed(table, slot, OWNER), 0);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, end), slot);
	assert_int_equal(wr_store_lease_lapsed(table, slot, OTHER), 0);
	assert_int_equal(wr_store_lease_lapsed(table, slot, OWNER), 3);
	assert_int_equal(wr_store_lease_lapsed(table, slot, OWNER), 0);
	assert_int_equal(wr_store_lease_burnt(table).expired, 3);
	/* No units were left the second time: the units of the first time are not returned
	 * again. */
	slot = wr_store_lease_claim(table, key, OWNER, end + SECOND);
	claimed(5, end + 2 * SECOND);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, end + 2 * SECOND), slot);
	assert_int_equal(wr_store_lease_claim(table, key, OWNER, end + 3 * SECOND), slot);
	assert_int_equal(wr_store_lease_claim(table, key, OTHER, end + 4 * SECOND), slot);
	assert_int_equal(wr_store_lease_lapsed(table, slot, OWNER), 0);
	assert_int_equal(wr_store_lease_lapsed(table, -1, OWNER), 0);
	assert_int_equal(wr_store_lease_lapsed(table, (int)wr_store_lease_slots(table), OWNER), 0);
}

/* Every key gets a slot until its eight slots are taken, and again when they are free. */
static void room(void **unused)
{
	uint32_t slots = wr_store_lease_slots(table), taken = 0;
	uint64_t seed = 5;

	(void)unused;
	assert_int_equal(slots, (4 * MIB / 64 - 64) / 128);
	for (uint32_t i = 0; i < slots; i++) {
		struct wr_key one = {seed = seed * 6364136223846793005u + 1442695040888963407u};

		taken += wr_store_lease_claim(table, one, OWNER, MONO) >= 0;
	}
	assert_in_range(taken, slots * 7 / 10, slots);
	seed = 5;
	for (uint32_t i = 0, again = 0; i < slots; i++) {
		struct wr_key one = {seed = seed * 6364136223846793005u + 1442695040888963407u};

		again += wr_store_lease_claim(table, one, OTHER, MONO + 2 * SECOND) >= 0;
		if (i == slots - 1)
			assert_int_equal(again, taken);
	}
}

static void refusals(void **unused)
{
	struct wr_store_lease_refusal refusal = {
		.cost = 3,
		.remaining = 2,
		.limit = 1000,
		.retry_mono_ns = MONO + 700 * MS,
		.resets_mono_ns = MONO + 60 * SECOND,
		.until_mono_ns = MONO + 700 * MS,
		.identity = identity(),
	};
	struct weir_decision decision;
	struct wr_store_lease_terms granted;
	uint32_t grant;
	int slot = claimed(2, MONO + SECOND);

	(void)unused;
	wr_store_lease_refuse(table, slot, OWNER, &refusal, MONO);
	/* Units in the slot are spent nevertheless. A request of the refused cost or more is
	 * refused. */
	assert_int_equal(spend(1, MONO), WR_LEASE_SPENT);
	assert_int_equal(spend(2, MONO), WR_LEASE_NOTHING);
	assert_int_equal(
		wr_store_lease_spend(table, key, identity(), 3, MONO + 1, &decision, &grant),
		WR_LEASE_REFUSED);
	assert_int_equal(decision.admitted, 0);
	assert_int_equal(decision.remaining, 2);
	assert_int_equal(decision.limit, 1000);
	assert_int_equal(decision.retry_after_ns, 700 * MS - 1);
	assert_int_equal(decision.reset_after_ns, 60 * SECOND - 1);
	assert_int_equal(spend_as(wr_store_lease_identity(1001, 0, 0), 3, MONO, NULL),
			 WR_LEASE_NOTHING);
	assert_int_equal(spend(3, MONO + 700 * MS), WR_LEASE_NOTHING);
	/* The refusal is remembered for at most a second. A deposit or wr_store_lease_void() clears
	 * it. */
	refusal.until_mono_ns = refusal.retry_mono_ns = UINT64_MAX;
	wr_store_lease_refuse(table, slot, OWNER, &refusal, MONO);
	assert_int_equal(wr_store_lease_spend(table, key, identity(), 3, MONO, &decision, &grant),
			 WR_LEASE_REFUSED);
	assert_int_equal(decision.retry_after_ns, WEIR_NEVER);
	assert_int_equal(spend(3, MONO + SECOND - MS), WR_LEASE_REFUSED);
	assert_int_equal(spend(3, MONO + SECOND), WR_LEASE_NOTHING);
	granted = terms(1, MONO + SECOND);
	assert_true(wr_store_lease_deposit(table, slot, OWNER, &granted, MONO, NULL));
	assert_int_equal(spend(3, MONO), WR_LEASE_NOTHING);
	wr_store_lease_refuse(table, slot, OWNER, &refusal, MONO);
	wr_store_lease_void(table, slot, OWNER, MONO);
	assert_int_equal(spend(3, MONO), WR_LEASE_NOTHING);
	/* Another owner cannot store a refusal. */
	wr_store_lease_refuse(table, slot, OTHER, &refusal, MONO);
	assert_int_equal(spend(3, MONO), WR_LEASE_NOTHING);
}

/* ---- many at once ---- */

static uint64_t *spent_by_all;

static void spend_many(int number)
{
	for (int i = 0; i < 10000; i++) {
		struct weir_decision decision;
		uint32_t grant;

		if (wr_store_lease_spend(table, key, identity(), 1, MONO, &decision, &grant) !=
		    WR_LEASE_SPENT)
			continue;
		if ((i + number) % 7 == 0)
			wr_store_lease_unspend(table, key, 1, grant, MONO);
		else
			__atomic_fetch_add(spent_by_all, 1, __ATOMIC_RELAXED);
	}
}

static void each_unit_once(void **unused)
{
	int slot = claimed(30000, MONO + SECOND);

	(void)unused;
	spent_by_all = shared_memory(sizeof *spent_by_all);
	crew_run(spend_many);
	assert_int_equal(*spent_by_all + wr_store_lease_left(table, slot, OWNER, MONO), 30000);
	assert_int_equal(wr_store_lease_burnt(table).late, 0);
	shared_free(spent_by_all, sizeof *spent_by_all);
}

/* A table made from another one has no leases. */
static void leases_are_not_imported(void **unused)
{
	struct weir_opts opts = opts_of("lease", 8 * MIB, 0);
	struct weir_table *larger;

	(void)unused;
	claimed(10, MONO + SECOND);
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	larger = table_open("lease", 8 * MIB, 0);
	assert_int_not_equal(larger->header.table_id[0], table->header.table_id[0]);
	weir_close(table);
	table = larger;
	assert_int_equal(spend(1, MONO), WR_LEASE_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(units_go_one_by_one, open_table, drop_table),
		cmocka_unit_test_setup_teardown(the_rest_is_spent, open_table, drop_table),
		cmocka_unit_test_setup_teardown(times_of_debts, open_table, drop_table),
		cmocka_unit_test_setup_teardown(ends, open_table, drop_table),
		cmocka_unit_test_setup_teardown(unspent_units_are_returned_or_burnt, open_table,
						drop_table),
		cmocka_unit_test_setup_teardown(changed_limits, open_table, drop_table),
		cmocka_unit_test_setup_teardown(owners_replace_each_other, open_table, drop_table),
		cmocka_unit_test_setup_teardown(a_late_owner_learns_the_lapsed_units, open_table,
						drop_table),
		cmocka_unit_test_setup_teardown(room, open_table, drop_table),
		cmocka_unit_test_setup_teardown(refusals, open_table, drop_table),
		cmocka_unit_test_setup_teardown(each_unit_once, open_table, drop_table),
		cmocka_unit_test_setup_teardown(leases_are_not_imported, open_table, drop_table),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
