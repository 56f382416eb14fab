/* Spenders and owners of leases that take turns between any two accesses to shared memory, see
 * turns.h. There are eight slots and most are in use, so that one slot is used by one key after
 * another.
 */
#include "store/lease.c"
#include "turns.h"

#define MONO (100ull * SECOND)
#define KEYS 2
#define IDENTITIES 2

/* The actions of threads. A thread that dies may have done something that it has not recorded: up
 * to `made` units may exist in addition, and up to `lost` units may be missing. */
static struct {
	uint64_t deposited, spent;
} books[KEYS][IDENTITIES];
static uint64_t unspent, withdrawn, made[PARTICIPANTS], lost[PARTICIPANTS];
static uint64_t spend_mono, ends_mono; /* of a run */

static struct wr_key key_of(uint64_t number)
{
	return (struct wr_key){0x1111111111111111u * (number + 1)};
}

static uint64_t identity(uint64_t number)
{
	return wr_store_lease_identity(100 + (uint32_t)number, 0, 0);
}

/* Makes other owners hold all slots except `open_slots` for a long time. */
static void start_run(unsigned open_slots)
{
	uint32_t slots = WR_LEASE_PROBES;

	run_seed = dice.x;
	table->header.sections[WR_SECTION_LEASES].bytes =
		sizeof(struct lease_head) + slots * sizeof(struct lease_slot);
	memset(head_of(table), 0, sizeof(struct lease_head) + slots * sizeof(struct lease_slot));
	for (uint32_t i = open_slots; i < slots; i++) {
		slot_at(table, i)->who = (struct wr_pair){99 + i, 99};
		slot_at(table, i)->units = units_pair(0, new_grant(table), MONO * 1000);
	}
	memset(books, 0, sizeof books);
	memset(made, 0, sizeof made);
	memset(lost, 0, sizeof lost);
	unspent = withdrawn = 0;
	spend_mono = MONO;
	ends_mono = MONO + SECOND / 2;
}

static uint64_t left_in_all(void)
{
	uint64_t left = 0;

	for (uint32_t i = 0; i < WR_LEASE_PROBES; i++)
		left += units_in(slot_at(table, i)->units);
	return left;
}

/* --- the actions of threads --- */

static void spend_some(int number)
{
	uint64_t key = rnd_below(&dice, KEYS), id = rnd_below(&dice, IDENTITIES);

	for (int i = 0; i < 4; i++) {
		int64_t cost = 1 + (int64_t)rnd_below(&dice, 3);
		struct weir_decision decision;
		uint32_t grant;

		lost[number] = (uint64_t)cost;
		if (wr_store_lease_spend(table, key_of(key), identity(id), cost, spend_mono,
					 &decision, &grant) == WR_LEASE_SPENT) {
			books[key][id].spent += (uint64_t)cost;
			if (rnd_below(&dice, 3) == 0) {
				unspent += (uint64_t)cost;
				wr_store_lease_unspend(table, key_of(key), cost, grant, spend_mono);
			}
		}
		lost[number] = 0;
	}
}

static void deposit(int number, int slot, uint64_t owner, uint64_t key, uint64_t id)
{
	struct wr_store_lease_terms terms = {
		.units = (uint32_t)rnd_below(&dice, 8),
		.limit = 100,
		.ends_mono_ns = ends_mono,
		.identity = identity(id),
	};

	made[number] = terms.units;
	lost[number] = left_in_all(); /* units of another identity, or units that had ended */
	if (wr_store_lease_deposit(table, slot, owner, &terms, MONO, NULL))
		books[key][id].deposited += terms.units;
	made[number] = lost[number] = 0;
}

/* Does the actions of an owner on a slot in random order, for one key and then perhaps for the
 * other key. */
static void keep(int number)
{
	uint64_t owner = 1000 + (uint64_t)number, key = rnd_below(&dice, KEYS);
	int slot = wr_store_lease_claim(table, key_of(key), owner, MONO);

	for (int i = 0; i < 6; i++) {
		uint64_t what = rnd_below(&dice, 10);

		lost[number] = left_in_all() + 9; /* and units that spenders give back meanwhile */
		if (slot < 0 || what == 0) {
			wr_store_lease_release(table, slot, owner, MONO);
			key = rnd_below(&dice, KEYS);
			slot = wr_store_lease_claim(table, key_of(key), owner, MONO);
		} else if (what == 1) {
			wr_store_lease_void(table, slot, owner, MONO);
		} else if (what == 2) {
			wr_store_lease_report(table, slot, owner, MONO, NULL);
		} else if (what == 3) {
			withdrawn += wr_store_lease_withdraw(table, slot, owner, 3, MONO);
		} else {
			deposit(number, slot, owner, key, rnd_below(&dice, IDENTITIES));
		}
		lost[number] = 0;
	}
}

static void run_one_owner(int number)
{
	if (number == 0)
		keep(number);
	else
		spend_some(number);
}

static void run_two_owners(int number)
{
	if (number < 2)
		keep(number);
	else
		spend_some(number);
}

/* --- invariants --- */

/* Checks that deposited units = units spent and not given back + units left + withdrawn + burnt,
 * except for units in doubt after a thread died. */
static void check_conserved(void)
{
	struct wr_store_lease_burnt burnt = wr_store_lease_burnt(table);
	uint64_t in = 0, spent = 0, out, more = 0, less = 0;

	for (int k = 0; k < KEYS; k++)
		for (int i = 0; i < IDENTITIES; i++) {
			in += books[k][i].deposited;
			spent += books[k][i].spent;
		}
	for (int p = 0; p < PARTICIPANTS; p++) {
		more += is_dead(p) ? made[p] : 0;
		less += is_dead(p) ? lost[p] : 0;
	}
	out = spent - unspent + burnt.late + left_in_all() + withdrawn + burnt.expired +
	      burnt.voided;
	at_most("units out", out, in + more);
	at_most("units in", in, out + less);
}

/* No unit is spent for another key or under other numbers than it was granted for. */
static void check_apart(void)
{
	uint64_t slack = 0;

	for (int p = 0; p < PARTICIPANTS; p++)
		slack += is_dead(p) ? made[p] : 0;
	for (int k = 0; k < KEYS; k++)
		for (int i = 0; i < IDENTITIES; i++)
			at_most("spent", books[k][i].spent,
				books[k][i].deposited + unspent + slack);
}

/* A second after a thread died, a new owner gets a slot, and its units are spent once. */
static void check_usable(void)
{
	uint64_t later = MONO + 2 * SECOND;
	struct wr_store_lease_terms terms = {
		.units = 5, .limit = 9, .ends_mono_ns = later + SECOND, .identity = identity(0)};
	struct weir_decision decision;
	int slot = wr_store_lease_claim(table, key_of(0), 5000, later);
	uint32_t grant;

	if (slot < 0) /* the key had two slots, and both were given up */
		slot = wr_store_lease_claim(table, key_of(0), 5000, later);
	at_most("no slot", slot < 0, 0);
	equal("deposit", wr_store_lease_deposit(table, slot, 5000, &terms, later, NULL), true);
	for (int i = 0; i < 5; i++)
		equal("spend",
		      wr_store_lease_spend(table, key_of(0), identity(0), 1, later, &decision,
					   &grant),
		      WR_LEASE_SPENT);
	equal("too much",
	      wr_store_lease_spend(table, key_of(0), identity(0), 1, later, &decision, &grant),
	      WR_LEASE_NOTHING);
}

static void units_are_conserved(void **state)
{
	for (int i = 0; i < RUNS(60000); i++) {
		start_run(1 + (unsigned)rnd_below(&dice, 2));
		mortality = *state ? 40 + (unsigned)rnd_below(&dice, 400) : 0;
		race(i % 2 ? run_one_owner : run_two_owners);
		mortality = 0;
		check_conserved();
		check_apart();
		check_usable();
	}
}

/* Units that have ended by the spender's clock are not spent, even if the owner's clock is
 * behind. */
static void nothing_is_spent_after_its_end(void **state)
{
	for (int i = 0; i < RUNS(20000); i++) {
		start_run(2);
		spend_mono = ends_mono + rnd_below(&dice, 2);
		mortality = *state ? 40 + (unsigned)rnd_below(&dice, 400) : 0;
		race(i % 2 ? run_one_owner : run_two_owners);
		mortality = 0;
		for (int k = 0; k < KEYS; k++)
			for (int id = 0; id < IDENTITIES; id++)
				equal("spent", books[k][id].spent, 0);
		check_conserved();
	}
}

/* --- a slot whose owner was held up is taken over for another key --- */

static void late_or_new(int number)
{
	uint64_t later = MONO + SECOND;
	struct wr_store_lease_terms terms = {
		.units = 4, .limit = 9, .ends_mono_ns = later + SECOND, .identity = identity(0)};

	if (number == 0) { /* this thread has slot 0 for key 0 and uses an old time */
		if (rnd_below(&dice, 2) &&
		    wr_store_lease_deposit(table, 0, 1000, &terms, MONO, NULL))
			books[0][0].deposited += terms.units;
		withdrawn += wr_store_lease_withdraw(table, 0, 1000, 1, MONO);
	} else if (number == 1) {
		int slot = wr_store_lease_claim(table, key_of(1), 1001, later);

		if (slot >= 0 && wr_store_lease_deposit(table, slot, 1001, &terms, later, NULL))
			books[1][0].deposited += terms.units;
	} else {
		spend_mono = later;
		spend_some(number);
	}
}

static void a_slot_that_was_taken_over_is_not_touched(void **unused)
{
	(void)unused;
	for (int i = 0; i < RUNS(60000); i++) {
		start_run(1);
		wr_store_lease_claim(table, key_of(0), 1000, MONO - SECOND);
		race(late_or_new);
		check_conserved();
		check_apart();
		at_most("withdrawn", withdrawn, books[0][0].deposited);
	}
}

int main(void)
{
	static int deadly;
	const struct CMUnitTest tests[] = {
		{"units_are_conserved", units_are_conserved, seed, NULL, NULL},
		{"units_are_conserved_while_some_die", units_are_conserved, seed, NULL, &deadly},
		{"nothing_is_spent_after_its_end", nothing_is_spent_after_its_end, seed, NULL,
		 NULL},
		{"nothing_is_spent_after_its_end_while_some_die", nothing_is_spent_after_its_end,
		 seed, NULL, &deadly},
		cmocka_unit_test_setup(a_slot_that_was_taken_over_is_not_touched, seed),
	};

	return cmocka_run_group_tests(tests, turns_open, turns_close);
}
