/* Decisions and an owner of exchanged counters that take turns between any two accesses to shared
 * memory, see turns.h. Counts are sent, and units of other nodes are added. */
#include "store/exchange.c"
#include "store/exchange_owner.c"
#include "turns.h"

#define MONO (100ull * SECOND)
#define SYNC (SECOND / 10)
#define OWNER 7u
#define NOW (T0 - T0 % MINUTE)

static struct weir_limit limit;
static struct wr_key keys[2];
static uint64_t counted_for[2], doubt[PARTICIPANTS];
static uint64_t published[2]; /* counts of the latest view, by key */
static uint64_t visits;

static struct wr_store_exchange_name name_of(uint64_t key)
{
	return (struct wr_store_exchange_name){.fleet_key = {key + 1, key + 1},
					       .algorithm = limit.algorithm,
					       .limit = limit.limit,
					       .period_ns = limit.period_ns};
}

static void start_run(void)
{
	struct wr_extent extent = table->header.sections[WR_SECTION_EXCHANGE];

	run_seed = dice.x;
	memset(table->base + extent.offset, 0, extent.bytes);
	table_clear(table);
	limit = sized(WEIR_FIXED_WINDOW, 1000, MINUTE);
	for (uint64_t k = 0; k < 2; k++)
		keys[k] = key_nth(table, &limit, k);
	memset(counted_for, 0, sizeof counted_for);
	memset(published, 0, sizeof published);
	memset(doubt, 0, sizeof doubt);
	visits = 0;
	wr_store_exchange_own(table, OWNER, SYNC, MONO);
}

/* Counts units for a key. The slot of the key may have to be made first. */
static void count_some(int number)
{
	for (int i = 0; i < 3; i++) {
		uint64_t k = rnd_below(&dice, 2);
		struct wr_store_exchange_name name = name_of(k);
		int slot = wr_store_exchange_claim(table, keys[k], &name, MONO);

		if (slot < 0)
			continue;
		doubt[number] = 1;
		wr_store_exchange_count(table, slot, &limit, 1, NOW, MONO);
		counted_for[k]++;
		doubt[number] = 0;
	}
}

static void one_turn(void)
{
	struct wr_store_exchange_view view;
	uint32_t cursor = 0;
	int slot;

	while ((slot = wr_store_exchange_next(table, OWNER, &cursor, 0, NOW, MONO, &view)) >= 0) {
		uint64_t k = view.name.fleet_key[0] - 1;
		struct wr_store_exchange_totals others = {{{NOW, 10 + visits, 0}}};

		visits++;
		at_most("goes backwards", published[k], view.counts[0].plus);
		published[k] = view.counts[0].plus;
		if (rnd_below(&dice, 4))
			wr_store_exchange_apply(table, slot, OWNER, view.incarnation, &others, NOW,
						MONO);
		else
			wr_store_exchange_failed(table, slot, OWNER);
	}
}

static void keep_or_count(int number)
{
	if (number == 0)
		for (int i = 0; i < 3; i++)
			one_turn();
	else
		count_some(number);
}

static unsigned slots_of(struct wr_key key)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	unsigned count = 0;

	for (uint32_t i = 0; i < in.count; i++)
		count += in.slots[i].who.lo == key.tag &&
			 wr_slot_state(in.slots[i].who) == WR_SLOT_LIVE;
	return count;
}

/* The next owner gets all counts, and no key has two slots. */
static void counts_are_published(void **state)
{
	for (int i = 0; i < RUNS(20000); i++) {
		uint64_t slack = 0;

		start_run();
		mortality = *state ? 60 + (unsigned)rnd_below(&dice, 400) : 0;
		race(keep_or_count);
		mortality = 0;
		for (int p = 0; p < PARTICIPANTS; p++)
			slack += is_dead(p) ? doubt[p] : 0;
		/* If a thread died before it set the bit of a slot, a later use sets the bit. */
		for (uint64_t k = 0; *state && k < 2; k++) {
			int slot = wr_store_exchange_find(table, keys[k]);

			if (slot < 0)
				continue;
			wr_store_exchange_count(table, slot, &limit, 1, NOW, MONO + SECOND);
			counted_for[k]++;
		}
		for (int turn = 0; turn < 3; turn++)
			one_turn();
		for (uint64_t k = 0; k < 2; k++) {
			at_most("slots", slots_of(keys[k]), 1);
			at_most("published", published[k], counted_for[k] + slack);
			at_most("counted", counted_for[k], published[k]);
		}
	}
}

/* --- two threads make a slot for one key, while another slot becomes free --- */

static void make_or_free(int number)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_store_exchange_name name = name_of(0);

	if (number == 0)
		for (unsigned i = 0; i < 3; i++)
			__atomic_store_n(&in.slots[i].who.hi, WR_SLOT_FREE, __ATOMIC_RELEASE);
	else
		wr_store_exchange_claim(table, keys[0], &name, MONO);
}

static void one_of_two_makes_it(void **unused)
{
	(void)unused;
	for (int i = 0; i < RUNS(40000); i++) {
		struct wr_store_exchange_section in = wr_store_exchange_section(table);

		start_run();
		for (unsigned k = 0; k < 3; k++)
			in.slots[k].who = (struct wr_pair){99 + k, 4 | WR_SLOT_LIVE};
		race(make_or_free);
		at_most("slots", slots_of(keys[0]), 1);
	}
}

/* --- closing a slot while a thread uses it --- */

static int first_slot;

static void close_or_count(int number)
{
	struct wr_store_exchange_view view;

	if (number == 0) {
		for (uint32_t i = 0; i < 4 * wr_store_exchange_slots(table); i += SWEPT) {
			uint32_t cursor = 0;

			wr_store_exchange_next(table, OWNER, &cursor, 0, NOW + 9 * MINUTE,
					       MONO + 9 * MINUTE, &view);
		}
	} else {
		struct wr_store_exchange_name name = name_of(0);
		int slot = wr_store_exchange_claim(table, keys[0], &name, MONO + 9 * MINUTE);

		if (slot < 0)
			return;
		wr_store_exchange_count(table, slot, &limit, 1, NOW + 9 * MINUTE,
					MONO + 9 * MINUTE);
		counted_for[0]++;
	}
}

/* The key is counted in the same slot, or in a new one. In production a slot is freed many turns
 * after it was closed, and no decision lasts so long. Here a decision may be interrupted for so
 * long, and its count is then lost, which cannot be avoided without a lock. So only the number of
 * slots is checked. */
static void a_key_never_has_two_slots(void **unused)
{
	(void)unused;
	for (int i = 0; i < RUNS(1500); i++) {
		struct wr_store_exchange_name name;

		start_run();
		name = name_of(0);
		first_slot = wr_store_exchange_claim(table, keys[0], &name, MONO);
		race(close_or_count);
		at_most("slots", slots_of(keys[0]), 1);
		at_most("no slot", wr_store_exchange_claim(table, keys[0], &name, MONO + HOUR) < 0,
			0);
		equal("slots", slots_of(keys[0]), 1);
	}
}

static int open_table(void **unused)
{
	if (turns_open(unused) < 0)
		return -1;
	table->header.sections[WR_SECTION_EXCHANGE].bytes = 64 + 128 + 9 * 384; /* 8 slots */
	return wr_store_exchange_slots(table) == 8 ? 0 : -1;
}

int main(void)
{
	static int deadly;
	const struct CMUnitTest tests[] = {
		{"counts_are_published", counts_are_published, seed, NULL, NULL},
		{"what_is_counted_is_published_while_some_die", counts_are_published, seed, NULL,
		 &deadly},
		cmocka_unit_test_setup(one_of_two_makes_it, seed),
		cmocka_unit_test_setup(a_key_never_has_two_slots, seed),
	};

	return cmocka_run_group_tests(tests, open_table, turns_close);
}
