/* Simulated threads that take and free slots of a limit on concurrent requests, or settle requests
 * of a log, in random orders of their accesses to shared memory, see turns.h. Meanwhile other
 * threads move the key to a larger block, evict it, reset it, or lower its limit. */
#include "store/store.h"
#include "table/slab.h"
#include "turns.h"

#define KEY 1u

static struct weir_limit limit;

/* The slots that simulated threads hold for certain: counted after a slot is taken, and until it is
 * given back. A slot of a killed thread stays counted. */
static unsigned held, most_held, admitted;

static void start_run(uint32_t spans)
{
	turns_start(spans);
	held = most_held = admitted = 0;
}

static struct weir_limit slots(uint32_t count)
{
	return sized(WEIR_CONCURRENT, count, MINUTE);
}

static uint32_t left(const struct weir_limit *l, uint64_t now_ns)
{
	return take_nth(table, l, KEY, 0, now_ns).remaining;
}

static void give_nth(const struct weir_limit *l, uint64_t token, uint64_t now_ns)
{
	wr_store_return(table, l, key_nth(table, l, KEY), 1, token, now_ns);
}

static void hold_once(const struct weir_limit *l, uint64_t now_ns)
{
	struct weir_decision d = take_nth(table, l, KEY, 1, now_ns);

	if (!d.admitted)
		return;
	admitted++;
	held++;
	most_held = held > most_held ? held : most_held;
	for (uint64_t steps = rnd_below(&dice, 40); steps; steps--)
		step_point();
	held--;
	give_nth(l, d.charged_ns, now_ns);
}

static unsigned deaths(void)
{
	unsigned count = 0;

	for (int i = 0; i < PARTICIPANTS; i++)
		count += is_dead(i);
	return count;
}

/* Checks that each slot is free, except one for each killed thread, and that all are free after
 * max_hold. */
static void check_free(const struct weir_limit *l, uint64_t now_ns)
{
	at_most("held", l->limit - left(l, now_ns), deaths());
	equal("free after max_hold", left(l, now_ns + MINUTE + SECOND), l->limit);
	equal("log_lost", table->tallies->log_lost, 0);
	equal("duplicates", duplicates(table), 0);
}

static unsigned some_mortality(const void *deadly)
{
	return deadly ? 200 + (unsigned)rnd_below(&dice, 3000) : 0;
}

/* --- one limit --- */

static void hold_thrice(int number)
{
	for (uint64_t i = 0; i < 3; i++)
		hold_once(&limit, T0 + (uint64_t)number % 2 * 3 + i);
}

static void never_more_than_there_are_slots(void **state)
{
	unsigned long full = 0;

	for (int i = 0; i < RUNS(12000); i++) {
		start_run(4);
		limit = slots(1 + (uint32_t)rnd_below(&dice, 3));
		mortality = some_mortality(*state);
		race(hold_thrice);
		mortality = 0;
		at_most("held at once", most_held, limit.limit);
		full += most_held == limit.limit;
		check_free(&limit, T0 + 6);
	}
	at_most("runs in which all slots were held", (uint64_t)RUNS(12000) / 4, full);
}

/* --- a larger limit moves the key to a larger block --- */

static struct weir_limit larger;

static void hold_or_move(int number)
{
	for (uint64_t i = 0; i < 3; i++)
		hold_once(number == 2 ? &larger : &limit, T0 + i);
}

/* Without killed threads, every slot is free in the end: no slot was copied to the new block and
 * forgotten. */
static void a_key_that_moves_loses_no_slot(void **state)
{
	unsigned long moved = 0;

	for (int i = 0; i < RUNS(16000); i++) {
		start_run(4);
		limit = slots(2);
		larger = slots(5);
		if (rnd_below(&dice, 2))
			hold_once(&limit, T0);
		mortality = some_mortality(*state);
		race(hold_or_move);
		mortality = 0;
		at_most("held at once", most_held, larger.limit);
		moved += table->tallies->generation > 1;
		check_free(&larger, T0 + 6);
	}
	at_most("runs that moved", (uint64_t)RUNS(16000) / 8, moved);
}

static void hold_or_raise(int number)
{
	hold_once(number ? &larger : &limit, T0 + (uint64_t)number);
}

/* At each access of the first thread, the second moves the key. */
static void a_move_at_each_step(void **unused)
{
	unsigned long at = 0;
	bool interrupted;

	(void)unused;
	limit = slots(2);
	larger = slots(20);
	for (int first = 0; first < 2; first++)
		do {
			start_run(4);
			if (first)
				hold_once(&limit, T0);
			interrupted = interrupt(hold_or_raise, ++at);
			equal("admitted", admitted, 1u + (unsigned)first + interrupted);
			equal("free", left(&larger, T0 + 2), 20);
		} while (interrupted || (at = 0));
}

/* --- a lowered limit, while higher slots are still held --- */

/* 6 slots were held under the limit 6. Some of the slots that a limit of 3 cannot take are kept.
 * Returns their number, which is 1 or 2. */
static uint32_t keep_higher(void)
{
	struct weir_limit six = slots(6);
	uint32_t keep = 1 + (uint32_t)rnd_below(&dice, 2), kept = 0;
	uint64_t tokens[6];

	for (int i = 0; i < 6; i++)
		tokens[i] = take_nth(table, &six, KEY, 1, T0).charged_ns;
	for (int i = 0; i < 6; i++)
		if ((tokens[i] & 7) >= 3 && kept < keep)
			kept++;
		else
			give_nth(&six, tokens[i], T0);
	return kept;
}

static void a_lowered_limit_holds(void **state)
{
	unsigned long full = 0;

	for (int i = 0; i < RUNS(12000); i++) {
		uint32_t kept;

		start_run(4);
		kept = keep_higher();
		limit = slots(3);
		mortality = some_mortality(*state);
		race(hold_thrice);
		mortality = 0;
		at_most("held at once", most_held, 3 - kept);
		full += most_held == 3 - kept;
		at_most("held", 3 - left(&limit, T0 + 6), kept + deaths());
	}
	at_most("runs in which all slots were held", (uint64_t)RUNS(12000) / 4, full);
}

/* --- an expired key is used again while others want its cell or its block --- */

static void hold_or_displace(int number)
{
	struct weir_limit other = sized(WEIR_FIXED_WINDOW, 1, HOUR);
	struct weir_limit ring = sized(WEIR_SLIDING_LOG, 100, HOUR);

	if (number == 0) {
		for (uint64_t i = 0; i < 3; i++)
			hold_once(&limit, T0 + i);
	} else if (number == 1) {
		take_nth(table, &other, 20, 1, T0);
		take_nth(table, &other, 21, 1, T0);
	} else {
		take_nth(table, &ring, 22, 97, T0);
		take_nth(table, &ring, 22, 3, T0 + 1);
	}
}

/* Two cells are free, all others belong to refused keys, and all other blocks of the only span belong
 * to logs that are in use. A key that is evicted while it holds slots is counted. */
static void an_evicted_key_is_counted(void **state)
{
	struct weir_limit filler = sized(WEIR_FIXED_WINDOW, 1, HOUR);
	struct weir_limit ring = sized(WEIR_SLIDING_LOG, 100, HOUR);
	unsigned long evicted = 0;

	for (int i = 0; i < RUNS(6000); i++) {
		uint64_t lost;

		start_run(1);
		limit = slots(60);
		hold_once(&limit, T0 - 10 * MINUTE);
		for (uint64_t key = 100; key < 107; key++) {
			take_nth(table, &ring, key, 97, T0);
			take_nth(table, &ring, key, 3, T0 + 1);
			take_nth(table, &ring, key, 1, T0 + 1);
		}
		for (uint64_t key = 200; key < 222; key++) {
			take_nth(table, &filler, key, 1, T0);
			take_nth(table, &filler, key, 1, T0);
		}
		mortality = some_mortality(*state);
		race(hold_or_displace);
		mortality = 0;
		lost = table->tallies->evicted + table->tallies->evicted_refused +
		       table->tallies->log_evicted;
		evicted += table->tallies->expired;
		/* Give-backs to a key that was evicted have no effect. */
		at_most("held", 60 - left(&limit, T0 + 3), deaths());
		at_most("held at once", most_held, limit.limit * (1 + lost));
		equal("log_lost", table->tallies->log_lost, 0);
		equal("duplicates", duplicates(table), 0);
	}
	at_most("runs with an expired key", (uint64_t)RUNS(6000) / 4, evicted);
}

/* --- a reset, a ban and a grant meanwhile --- */

static void hold_or_order(int number)
{
	struct wr_key key = key_nth(table, &limit, KEY);
	uint32_t now_s = wr_seconds(T0);
	struct wr_override_change grant = {.grant = true,
					   .to = {.granted = 3, .granted_until_s = now_s + 100}};
	struct wr_override_change none = {.grant = true};

	if (number < 2) {
		hold_thrice(number);
	} else if (rnd_below(&dice, 2)) {
		wr_store_reset(table, &limit, key, T0);
		wr_store_reset(table, &limit, key, T0);
	} else {
		wr_override_change(table, key, limit.algorithm, &grant, now_s);
		if (rnd_below(&dice, 2))
			wr_override_change(table, key, limit.algorithm, &none, now_s);
	}
}

static void orders_lose_no_slot(void **state)
{
	for (int i = 0; i < RUNS(16000); i++) {
		struct wr_override_change none = {.grant = true};

		start_run(4);
		limit = slots(1 + (uint32_t)rnd_below(&dice, 2));
		if (rnd_below(&dice, 2))
			hold_once(&limit, T0);
		mortality = some_mortality(*state);
		race(hold_or_order);
		mortality = 0;
		wr_override_change(table, key_nth(table, &limit, KEY), limit.algorithm, &none,
				   wr_seconds(T0));
		check_free(&limit, T0 + 6);
	}
}

/* --- settling on a log: entries are removed from the middle of the ring --- */

static uint64_t kept[PARTICIPANTS]; /* units that each thread has used */
static unsigned long in_part;       /* requests that could not give back all units */

static void reserve_and_settle(int number)
{
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t now_ns = T0 + rnd_below(&dice, 4), reserved = 2 + rnd_below(&dice, 3);
		uint64_t actual = rnd_below(&dice, reserved + 1), returned, owed;
		struct weir_decision d = take_nth(table, &limit, KEY, (int64_t)reserved, now_ns);

		if (!d.admitted)
			continue;
		kept[number] += reserved;
		wr_store_settle(table, &limit, key_nth(table, &limit, KEY), (int64_t)reserved,
				(int64_t)actual, 0, d.charged_ns, now_ns, &returned, &owed, &d);
		kept[number] -= returned;
		at_most("returned", returned, reserved - actual);
		in_part += returned < reserved - actual;
	}
}

/* In the end, the log contains exactly the units that were used. A killed thread has taken or given
 * back the units of at most one request more or less than it recorded. */
static void a_settled_log_is_exact(void **state)
{
	unsigned long moved = 0;

	in_part = 0;
	for (int i = 0; i < RUNS(4000); i++) {
		uint64_t used = 0, recorded = 0;

		start_run(4);
		memset(kept, 0, sizeof kept);
		limit = sized(WEIR_SLIDING_LOG, 24, MINUTE);
		mortality = some_mortality(*state);
		race(reserve_and_settle);
		mortality = 0;
		for (int p = 0; p < PARTICIPANTS; p++)
			recorded += kept[p];
		used = limit.limit - left(&limit, T0 + 6);
		moved += table->tallies->generation > 1;
		at_most("used", used, recorded + 4 * deaths());
		at_most("recorded", recorded, used + 4 * deaths());
		equal("log_lost", table->tallies->log_lost, 0);
		equal("duplicates", duplicates(table), 0);
	}
	at_most("runs that moved", (uint64_t)RUNS(4000) / 8, moved);
	/* If several threads are faster four times in a row, a thread gets no block. */
	at_most("given back in part", in_part, (uint64_t)RUNS(4000) / 100);
}

#define BOTH(name)                                                                                 \
	{#name, name, seed, NULL, NULL},                                                           \
	{                                                                                          \
#name "_while_some_die", name, seed, NULL, &deadly                                 \
	}

int main(void)
{
	static int deadly;
	const struct CMUnitTest tests[] = {
		BOTH(never_more_than_there_are_slots),
		BOTH(a_key_that_moves_loses_no_slot),
		cmocka_unit_test_setup(a_move_at_each_step, seed),
		BOTH(a_lowered_limit_holds),
		BOTH(an_evicted_key_is_counted),
		BOTH(orders_lose_no_slot),
		BOTH(a_settled_log_is_exact),
	};

	return cmocka_run_group_tests(tests, turns_open, turns_close);
}
