/* Forced orders of steps on blocks and spans of the slab: a simulated thread is interrupted at each
 * of its accesses in turn, and another thread runs to its end at this point, see turns.h. */
#include "store/store.h"
#include "table/slab.h"
#include "table/span.h"
#include "turns.h"

#define MOST 100u /* limit of logs whose ring has 124 stamps; a span has eight such rings */
#define RINGS 8u

static struct weir_limit limit;
static unsigned admitted;

static void start_run(uint32_t spans)
{
	turns_start(spans);
	admitted = 0;
}

static void take_counted(uint64_t key, int64_t units, uint64_t now_ns)
{
	if (take_nth(table, &limit, key, units, now_ns).admitted)
		admitted += (unsigned)units;
}

/* Uses the whole limit of a key, in steps after which the key has the same weight each time. */
static void use_all(uint64_t key, uint64_t now_ns)
{
	for (uint64_t i = 0; i < 20; i++)
		take_counted(key, i ? 1 : MOST - 19, now_ns + i);
}

/* Sends requests until one is refused. */
static void ask_on(uint64_t key, uint64_t now_ns)
{
	for (unsigned i = 0; i < 3 * MOST; i++)
		take_counted(key, 1, now_ns);
}

/* Sends requests for a key until it is refused, so that its weight is higher. The log gets a
 * ring. */
static void make_refused_ring(uint64_t key, uint64_t now_ns)
{
	use_all(key, now_ns);
	take_nth(table, &limit, key, 1, now_ns + 20);
}

/* --- an expired key gets a request while its ring or its cell is evicted --- */

#define SLEEPER 1u

/* The key has used its limit twice, so that its weight does not change when it uses the limit
 * again. */
static void put_to_sleep(void)
{
	use_all(SLEEPER, T0 - 20 * MINUTE);
	use_all(SLEEPER, T0 - 10 * MINUTE);
	admitted = 0;
}

static void want_its_ring_or_wake(int number)
{
	if (number == 1) {
		use_all(SLEEPER, T0 + 100);
		return;
	}
	take_nth(table, &limit, 20, 97, T0);
	take_nth(table, &limit, 20, 3, T0 + 1);
}

/* The other seven rings belong to refused keys, so the ring of the expired key is taken first. When
 * the key is in use again, it weighs too much. */
static void a_key_used_again_keeps_its_ring(void **unused)
{
	unsigned long at = 0;
	bool interrupted;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, MOST, MINUTE);
	do {
		start_run(1);
		put_to_sleep();
		for (uint64_t key = 100; key < 100 + RINGS - 1; key++)
			make_refused_ring(key, T0 - SECOND);
		admitted = 0;
		interrupted = interrupt(want_its_ring_or_wake, ++at);
		if (!interrupted)
			use_all(SLEEPER, T0 + 100);
		ask_on(SLEEPER, T0 + 200);
		equal("admitted", admitted, MOST);
		equal("evicted", table->tallies->evicted, 0);
		equal("log_lost", table->tallies->log_lost, 0);
	} while (interrupted);
	at_most("interruptions", 50, at);
}

static void want_its_cell_or_wake(int number)
{
	struct weir_limit other = sized(WEIR_FIXED_WINDOW, 1, HOUR);

	if (number == 1)
		use_all(SLEEPER, T0 + 100);
	else
		take_nth(table, &other, 20, 1, T0);
}

/* All other cells belong to refused keys, so the cell of the expired key is taken first. */
static void a_key_used_again_keeps_its_cell(void **unused)
{
	struct weir_limit filler = sized(WEIR_FIXED_WINDOW, 1, HOUR);
	unsigned long at = 0;
	bool interrupted;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, MOST, MINUTE);
	do {
		start_run(1);
		for (uint64_t key = 200; key < 200 + 2 * WR_CELLS - 1; key++) {
			take_nth(table, &filler, key, 1, T0);
			take_nth(table, &filler, key, 1, T0);
		}
		put_to_sleep();
		interrupted = interrupt(want_its_cell_or_wake, ++at);
		if (!interrupted)
			use_all(SLEEPER, T0 + 100);
		ask_on(SLEEPER, T0 + 200);
		equal("admitted", admitted, MOST);
		equal("duplicates", duplicates(table), 0);
	} while (interrupted);
	at_most("interruptions", 50, at);
}

/* --- the generation in a block's word wraps --- */

#define LIGHT 1u
#define HEAVY 2u
static uint32_t light_generation;
static unsigned heavy_admitted;

static void append_or_take_its_ring(int number)
{
	if (number == 0) {
		take_counted(LIGHT, 1, T0 + 2);
		return;
	}
	/* The next block's generation differs in bit 15, which the word does not have. */
	table->tallies->generation = light_generation + 0x7fff;
	heavy_admitted += take_nth(table, &limit, HEAVY, 1, T0 + 1).admitted;
}

/* All rings are taken, and the ring of the key with the least weight is the cheapest. A heavier key
 * takes this ring before the light key has read its word, so the light key reads the log of another
 * key. */
static void a_wrapped_generation_is_noticed(void **unused)
{
	unsigned long at = 0;
	bool interrupted;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, MOST, MINUTE);
	do {
		struct wr_spot spot;

		start_run(1);
		take_counted(LIGHT, 70, T0);
		take_counted(LIGHT, 1, T0 + 1);
		for (uint64_t key = 100; key < 100 + RINGS - 1; key++)
			make_refused_ring(key, T0 - SECOND);
		heavy_admitted = 0;
		for (int i = 0; i < 8; i++)
			heavy_admitted += 10 * take_nth(table, &limit, HEAVY, 10, T0).admitted;
		admitted = 71;
		assert_true(wr_table_find(table, key_nth(table, &limit, LIGHT), &spot));
		assert_true(wr_hot_names_block(spot.hot));
		light_generation = (uint32_t)spot.hot.lo;
		interrupted = interrupt(append_or_take_its_ring, ++at);
		if (interrupted)
			equal("log_evicted", table->tallies->log_evicted, 1);
		ask_on(LIGHT, T0 + 3);
		equal("admitted", admitted, MOST);
		for (unsigned i = 0; i < 3 * MOST; i++)
			heavy_admitted += take_nth(table, &limit, HEAVY, 1, T0 + 3).admitted;
		at_most("admitted to the heavy one", heavy_admitted, MOST);
		equal("log_lost", table->tallies->log_lost, 0);
	} while (interrupted);
	at_most("interruptions", 10, at);
}

/* --- two threads empty one span --- */

#define SMALL_NS (T0 + 30 * SECOND)

static void empty_or_fill(int number)
{
	if (number == 0) {
		take_nth(table, &limit, 300, 5, SMALL_NS - 1);
		take_nth(table, &limit, 300, 1, SMALL_NS);
		return;
	}
	take_counted(1, 1, SMALL_NS);
	take_counted(1, 3, SMALL_NS + 1);
}

/* The second block of the span belongs to a small log. Its newest stamp is at the same address as
 * the fifth entry of the large log, and has the same value. A thread that resets the word of the
 * small log late must not reset this stamp. */
static void a_late_reset_harms_no_log(void **unused)
{
	struct weir_limit expired = sized(WEIR_SLIDING_LOG, 4, SECOND);
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	unsigned long at = 0;
	bool interrupted;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, 8, MINUTE);
	do {
		start_run(2);
		wr_span_open(table, 0);
		take_nth(table, &limit, 1, 3, T0);
		take_nth(table, &limit, 1, 1, T0 + 1);
		wr_span_open(table, 0);
		take_nth(table, &expired, 200, 1, T0);
		take_nth(table, &expired, 200, 1, T0 + 1);
		take_nth(table, &small, 201, 1, SMALL_NS - 1);
		take_nth(table, &small, 201, 1, SMALL_NS);
		table->tallies->empty_cursor = 1;
		interrupted = interrupt(empty_or_fill, ++at);
		if (!interrupted)
			empty_or_fill(1);
		equal("admitted", admitted, 4);
		/* Four entries are too old, four are younger than a minute. */
		for (int i = 0; i < 10; i++)
			take_counted(1, 1, T0 + MINUTE + 1);
		at_most("admitted within a minute", admitted, 8);
		equal("log_lost", table->tallies->log_lost, 0);
	} while (interrupted);
	at_most("interruptions", 50, at);
}

/* --- a span is cut twice while a walk is interrupted --- */

static unsigned of_key[16];

static void take_of(const struct weir_limit *l, uint64_t key, int64_t units, uint64_t now_ns)
{
	if (take_nth(table, l, key, units, now_ns).admitted)
		of_key[key] += (unsigned)units;
}

/* One thread walks. The other cuts the span of the walk for large logs, fills them, and cuts it for
 * small logs again. This takes less than a minute, after which the block that the walk has found
 * could be taken by others. */
static void walk_or_cut_twice(int number)
{
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	struct weir_limit large = sized(WEIR_SLIDING_LOG, 252, SECOND);

	if (number == 0) {
		take_of(&small, 1, 1, T0);
		take_of(&small, 1, 1, T0 + 1);
		return;
	}
	for (uint64_t key = 2; key < 6; key++) {
		take_nth(table, &large, key, 200, T0);
		take_nth(table, &large, key, 1, T0 + 1);
	}
	/* The large logs have expired then, and their class was not used for a minute. */
	memset(table->tallies->asked_s, 0, sizeof table->tallies->asked_s);
	table->tallies->empty_cursor = 1;
	for (int steps = 0; steps < 2; steps++)
		if (wr_span_empty(table, 0, WR_PRICE_LIVE, T0 + 10 * SECOND))
			break;
	for (uint64_t key = 6; key < 6 + 6; key++)
		for (uint64_t k = 0; k < 3; k++)
			take_of(&small, key, 1, T0 + 10 * SECOND + k);
}

/* Checks that every small log admits its four requests, whichever blocks the walk had looked at.
 * Returns how often the span was cut twice. */
static unsigned cut_twice(uint64_t small_logs)
{
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	unsigned long at = 0;
	unsigned times = 0;
	bool interrupted;

	do {
		start_run(2);
		memset(of_key, 0, sizeof of_key);
		wr_span_open(table, 0);
		wr_span_open(table, 0);
		table->tallies->empty_cursor = 1;
		for (uint64_t key = 100; key < 100 + small_logs; key++) {
			take_nth(table, &small, key, 1, T0 - 10 * MINUTE);
			take_nth(table, &small, key, 1, T0 - 10 * MINUTE + 1);
		}
		interrupted = interrupt(walk_or_cut_twice, ++at);
		times += table->spans[1].lo == (5ull << 32 | 1);
		equal("log_lost", table->tallies->log_lost, 0);
		for (uint64_t key = 1; key < 12; key++) {
			for (int more = 0; more < 6 && (key == 1 || key >= 6); more++)
				take_of(&small, key, 1, T0 + 11 * SECOND);
			equal("admitted", of_key[key], key == 1 || key >= 6 ? 4 : 0);
		}
	} while (interrupted);
	at_most("interruptions", 10, at);
	return times;
}

static void a_span_that_is_cut_twice_harms_no_log(void **unused)
{
	unsigned times = 0;

	(void)unused;
	for (uint64_t small_logs = 1; small_logs <= 16; small_logs++)
		times += cut_twice(small_logs);
	at_most("times", 5000, times);
}

/* --- all of it in random orders --- */

#define CROWD 10u
static struct weir_limit sizes[4];
static unsigned of_crowd[CROWD];

static const struct weir_limit *limit_of(uint64_t key)
{
	return &sizes[key % 4];
}

static void take_in_crowd(uint64_t key, int64_t units, uint64_t now_ns)
{
	if (take_nth(table, limit_of(key), key, units, now_ns).admitted)
		of_crowd[key] += (unsigned)units;
}

/* Uses few different times, so that many logs have the same stamps. */
static void ask_in_crowd(int number)
{
	(void)number;
	for (int i = 0; i < 10; i++) {
		uint64_t key = rnd_below(&dice, CROWD);
		uint32_t most = limit_of(key)->limit;

		take_in_crowd(key, 1 + (int64_t)rnd_below(&dice, most / 4),
			      T0 + rnd_below(&dice, 4));
	}
}

/* Both spans are cut for small logs, some of them live. Logs of four sizes compete for their
 * blocks, and some logs have to stay exact. No key is admitted more than its limit, and no log is
 * lost. */
static void no_order_admits_more(void **state)
{
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	unsigned long brief = 0, emptied = 0;

	for (int i = 0; i < RUNS(3000); i++) {
		start_run(2);
		sizes[0] = sized(WEIR_SLIDING_LOG, 4, MINUTE);
		sizes[1] = sized(WEIR_SLIDING_LOG, 12, MINUTE);
		sizes[2] = sized(WEIR_SLIDING_LOG, 100, MINUTE);
		sizes[3] = sized(WEIR_SLIDING_LOG, 1000, MINUTE);
		sizes[rnd_below(&dice, 4)].flags |= WEIR_FULL_REFUSES;
		memset(of_crowd, 0, sizeof of_crowd);
		wr_span_open(table, 0);
		wr_span_open(table, 0);
		for (uint64_t key = 100; key < 116; key++)
			for (uint64_t k = 0; k < 2; k++)
				take_nth(table, &small, key, 1,
					 T0 - (key % 2 ? 10 * MINUTE : SECOND) + k);
		mortality = *state ? 300 + (unsigned)rnd_below(&dice, 3000) : 0;
		race(ask_in_crowd);
		mortality = 0;
		for (uint64_t key = 0; key < CROWD; key++) {
			uint32_t most = limit_of(key)->limit;

			for (int more = 0; more < 8; more++)
				take_in_crowd(key, most / 4, T0 + SECOND);
			for (int more = 0; more < 300; more++)
				take_in_crowd(key, 1, T0 + SECOND + 1);
			at_most("admitted", of_crowd[key], most);
		}
		equal("evicted", table->tallies->evicted, 0);
		equal("log_lost", table->tallies->log_lost, 0);
		equal("duplicates", duplicates(table), 0);
		brief += table->tallies->log_approximate;
		emptied += table->spans[0].lo >> 32 > 1 || table->spans[1].lo >> 32 > 1;
	}
	at_most("requests of brief logs", (uint64_t)RUNS(3000), brief);
	at_most("runs with an emptied span", (uint64_t)RUNS(3000) / 4, emptied);
}

int main(void)
{
	static int deadly;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_key_used_again_keeps_its_ring, seed),
		cmocka_unit_test_setup(a_key_used_again_keeps_its_cell, seed),
		cmocka_unit_test_setup(a_wrapped_generation_is_noticed, seed),
		cmocka_unit_test_setup(a_late_reset_harms_no_log, seed),
		cmocka_unit_test_setup(a_span_that_is_cut_twice_harms_no_log, seed),
		{"no_order_admits_more", no_order_admits_more, seed, NULL, NULL},
		{"no_order_admits_more_while_some_die", no_order_admits_more, seed, NULL, &deadly},
	};

	return cmocka_run_group_tests(tests, turns_open, turns_close);
}
