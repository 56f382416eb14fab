/* Simulated threads that take turns between any two accesses to the keys of a table, see turns.h.
 * Tables have two rows, so that every key competes with every other key. */
#include "store/store.h"
#include "table/pause.h"
#include "table/slab.h"
#include "table/span.h"
#include "turns.h"

static void start_run(void)
{
	run_seed = dice.x;
	table_clear(table);
}

/* --- claiming: keys come and go in a table that is full or nearly so --- */

static struct weir_limit limit;
static uint64_t wanted[PARTICIPANTS];

static struct wr_row crowds[32][2];

/* Two rows of cells: some empty, some of expired keys, some live, some refused. */
static void make_crowd(struct wr_row rows[2])
{
	struct weir_limit filler = sized(WEIR_FIXED_WINDOW, 2, MINUTE);
	unsigned free_cells = (unsigned)rnd_below(&dice, 5);
	bool some_refused = rnd_below(&dice, 2);

	table_clear(table);
	for (uint64_t i = 1000; i < 1000 + 2 * WR_CELLS; i++) {
		uint64_t then_ns = rnd_below(&dice, 8) ? T0 : T0 - 2 * MINUTE;
		struct wr_spot spot;

		take_nth(table, &filler, i, 1, then_ns);
		if (some_refused && rnd_below(&dice, 4) == 0)
			take_nth(table, &filler, i, 2, then_ns);
		if (rnd_below(&dice, 2 * WR_CELLS) < free_cells &&
		    wr_table_find(table, key_nth(table, &filler, i), &spot))
			memset(&spot.cell->hot, 0, sizeof spot.cell->hot);
	}
	memcpy(rows, table->rows, sizeof crowds[0]);
}

static void make_crowds(void)
{
	for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++)
		make_crowd(crowds[i]);
	limit = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
}

static void start_crowded(void)
{
	run_seed = dice.x;
	memcpy(table->rows, crowds[rnd_below(&dice, sizeof crowds / sizeof *crowds)],
	       sizeof crowds[0]);
}

static struct wr_key keys[8];

static void claim_one(uint64_t number)
{
	struct wr_spot spot;

	wr_table_claim(table, keys[number], WEIR_FIXED_WINDOW, wr_seconds(T0), &spot);
}

static void claim_wanted(int number)
{
	claim_one(wanted[number]);
}

/* The last thread claims other keys at the same time, so that a later scan of the other threads
 * finds another victim. */
static void claim_or_disturb(int number)
{
	if (number < PARTICIPANTS - 1)
		claim_one(1);
	else
		for (uint64_t other = 2; other < 5; other++)
			claim_one(other);
}

static void name_keys(void)
{
	for (uint64_t i = 0; i < sizeof keys / sizeof *keys; i++)
		keys[i] = key_nth(table, &limit, i);
}

static void one_key_never_gets_two_cells(void **unused)
{
	(void)unused;
	make_crowds();
	name_keys();
	for (int i = 0; i < RUNS(60000); i++) {
		start_crowded();
		race(claim_or_disturb);
		at_most("cells", cells_of(table, keys[1]), 1);
		claim_one(1);
		equal("cells", cells_of(table, keys[1]), 1);
	}
}

/* Several rounds, in which dead threads leave claims that other threads confirm or take over. */
static void one_key_never_gets_two_cells_when_claimants_die(void **unused)
{
	(void)unused;
	make_crowds();
	name_keys();
	for (int i = 0; i < RUNS(25000); i++) {
		start_crowded();
		mortality = 40 + (unsigned)rnd_below(&dice, 400);
		for (int round = 0; round < 3; round++) {
			for (int p = 0; p < PARTICIPANTS; p++)
				wanted[p] = 1 + rnd_below(&dice, 3);
			race(claim_wanted);
			equal("duplicates", duplicates(table), 0);
		}
		mortality = 0;
		for (uint64_t key = 1; key <= 3; key++) {
			claim_one(key);
			equal("cells", cells_of(table, keys[key]), 1);
		}
	}
}

/* --- decisions: the number of admitted requests, and requests of threads that died --- */

static struct weir_limit limits[2];
static unsigned asked[PARTICIPANTS], admitted[PARTICIPANTS];
static uint64_t cost;

/* Returns a random algorithm. */
static uint32_t some_algorithm(void)
{
	return 1 + (uint32_t)rnd_below(&dice, WEIR_CONCURRENT);
}

/* Returns the number of units that a request takes: its cost, or one slot. */
static uint64_t units(void)
{
	return limit.algorithm == WEIR_CONCURRENT ? 1 : cost;
}

static unsigned sum(const unsigned *list)
{
	unsigned total = 0;

	for (int i = 0; i < PARTICIPANTS; i++)
		total += list[i];
	return total;
}

static void three_takes(int number)
{
	for (int i = 0; i < 3; i++) {
		asked[number]++;
		admitted[number] += take_nth(table, &limit, 1, (int64_t)cost, T0).admitted;
	}
}

/* Exactly the limit is admitted. If threads die, at most the limit is admitted, and only requests
 * of dead threads are missing. */
static void exactly_the_limit(void **state)
{
	for (int i = 0; i < RUNS(5000); i++) {
		uint32_t algorithm = some_algorithm();
		uint32_t size = 1 + (uint32_t)rnd_below(&dice, 8);
		unsigned deaths = 0, more = 0;

		start_run();
		mortality = *state ? 50 + (unsigned)rnd_below(&dice, 400) : 0;
		limit = sized(algorithm, size, MINUTE);
		cost = 1 + rnd_below(&dice, 3);
		memset(asked, 0, sizeof asked);
		memset(admitted, 0, sizeof admitted);
		race(three_takes);
		mortality = 0;
		for (int p = 0; p < PARTICIPANTS; p++)
			deaths += is_dead(p);
		at_most("admitted", sum(admitted) * units(), size);
		while (take_nth(table, &limit, 1, (int64_t)cost, T0).admitted)
			more++;
		at_most("admitted in all", (sum(admitted) + more) * units(), size);
		at_most("fit", size / units(), sum(admitted) + more + deaths);
		equal("cells", cells_of(table, key_nth(table, &limit, 1)), size / units() ? 1 : 0);
	}
}

static void both(int number)
{
	struct weir_need needs[2] = {{&limits[0], "a", 1, (int64_t)cost},
				     {&limits[1], "b", 1, (int64_t)cost}};
	struct weir_decision d[2];

	for (int i = 0; i < 3; i++) {
		int yes = 0;

		if (weir_take_all(table, needs, 2, T0, d, &yes) < 0)
			abort();
		admitted[number] += (unsigned)yes;
	}
}

static uint32_t used(const struct weir_limit *l, const char *key)
{
	struct weir_decision d = take(table, l, key, 0, T0);

	return d.limit - d.remaining;
}

/* Whether both limits are queues. A position in a queue is not given back if another position is
 * behind it. With one queue this never happens, because units are taken from the queue last. With
 * two queues it may happen in the first. */
static bool two_queues(void)
{
	return limits[0].algorithm == WEIR_LEAKY_BUCKET && limits[1].algorithm == WEIR_LEAKY_BUCKET;
}

/* All or none: both counters contain exactly the admitted requests, and the smaller limit is never
 * exceeded. Concurrent requests may cause each other to be refused, so the units that are left are
 * taken afterwards. */
static void all_or_none(void **unused)
{
	(void)unused;
	mortality = 0;
	for (int i = 0; i < RUNS(5000); i++) {
		uint32_t tight = 1 + (uint32_t)rnd_below(&dice, 6);

		start_run();
		cost = 1;
		limits[0] = sized(some_algorithm(), tight, MINUTE);
		limits[1] = sized(some_algorithm(), tight + (uint32_t)rnd_below(&dice, 3), MINUTE);
		memset(admitted, 0, sizeof admitted);
		race(both);
		at_most("admitted", sum(admitted), tight);
		if (two_queues()) {
			at_most("admitted", sum(admitted), used(&limits[0], "a"));
			at_most("admitted", sum(admitted), used(&limits[1], "b"));
			continue;
		}
		equal("taken from the one", used(&limits[0], "a"), sum(admitted));
		equal("taken from the other", used(&limits[1], "b"), sum(admitted));
		for (int again = 0; again < 8; again++)
			both(0);
		equal("admitted in all", sum(admitted), tight);
	}
}

/* --- logs: rings that grow, and the blocks of the slab --- */

static void log_takes(int number)
{
	for (int i = 0; i < 12; i++) {
		asked[number]++;
		admitted[number] +=
			take_nth(table, &limit, 1 + (uint64_t)(i & 1), 1, T0 + (uint64_t)i)
				.admitted;
	}
}

static void logs_that_grow(void **state)
{
	for (int i = 0; i < RUNS(1500); i++) {
		unsigned deaths = 0, more = 0;

		start_run();
		mortality = *state ? 300 + (unsigned)rnd_below(&dice, 3000) : 0;
		limit = sized(WEIR_SLIDING_LOG, 10 + (uint32_t)rnd_below(&dice, 5), MINUTE);
		memset(asked, 0, sizeof asked);
		memset(admitted, 0, sizeof admitted);
		race(log_takes);
		mortality = 0;
		for (int p = 0; p < PARTICIPANTS; p++)
			deaths += is_dead(p);
		at_most("admitted", sum(admitted), 2 * limit.limit);
		for (uint64_t key = 1; key <= 2; key++)
			while (take_nth(table, &limit, key, 1, T0 + 12).admitted)
				more++;
		at_most("admitted in all", sum(admitted) + more, 2 * limit.limit);
		at_most("the limit", 2 * limit.limit, sum(admitted) + more + deaths);
		equal("log_full", table->tallies->log_full, 0);
		equal("log_lost", table->tallies->log_lost, 0);
		equal("cells", duplicates(table), 0);
		/* Blocks of dead threads can be taken again after a minute: then all blocks but two
		 * can be taken. */
		take_nth(table, &limit, 1, -100, T0 + 12);
		take_nth(table, &limit, 2, -100, T0 + 12);
	}
}

/* --- an expired key is used again while others want its cell and its block --- */

static void wake_or_displace(int number)
{
	if (number == 0)
		for (int i = 0; i < 3; i++)
			admitted[0] += take_nth(table, &limit, 1, 1, T0).admitted;
	else
		take_nth(table, &limit, 10 + (uint64_t)number, 3, T0);
}

/* All other cells belong to refused keys. The only span has 8 rings, of which 7 belong to refused
 * keys. So only the cell and the ring of the expired key can be taken. If the key loses units that
 * it took, the loss is counted. */
static void the_loss_of_a_key_used_again_is_counted(void **unused)
{
	struct weir_limit filler = sized(WEIR_FIXED_WINDOW, 1, HOUR);
	struct weir_limit ring = sized(WEIR_SLIDING_LOG, 100, HOUR);

	(void)unused;
	table->span_count = 1;
	for (int i = 0; i < RUNS(4000); i++) {
		unsigned more = 0;

		start_run();
		limit = sized(WEIR_SLIDING_LOG, 100, MINUTE);
		take_nth(table, &limit, 1, 97, T0 - 10 * MINUTE);
		for (uint64_t key = 100; key < 107; key++)
			take_nth(table, &ring, key, 100, T0);
		for (uint64_t key = 100; key < 107; key++)
			take_nth(table, &ring, key, 1, T0);
		for (uint64_t key = 200; key < 224; key++) {
			take_nth(table, &filler, key, 1, T0);
			take_nth(table, &filler, key, 1, T0);
		}
		memset(admitted, 0, sizeof admitted);
		race(wake_or_displace);
		while (take_nth(table, &limit, 1, 1, T0).admitted)
			more++;
		at_most("admitted", admitted[0] + more,
			limit.limit *
				(1 + table->tallies->evicted + table->tallies->evicted_refused +
				 table->tallies->log_evicted));
		equal("duplicates", duplicates(table), 0);
	}
	table->span_count = 4;
}

/* --- a span is cut for another size while threads walk over its blocks --- */

#define LARGE_LOGS 4u
static unsigned large[LARGE_LOGS]; /* number of admitted requests of each log */

static void take_large(uint64_t key, int64_t units, uint64_t now_ns)
{
	if (take_nth(table, &limit, key, units, now_ns).admitted)
		large[key] += (unsigned)units;
}

static void walk_or_fill(int number)
{
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 4, MINUTE);

	for (uint64_t i = 0; number == 0 && i < 2; i++)
		take_nth(table, &small, 300, 1, T0 + 30 * SECOND + i);
	for (uint64_t i = 0; number == 1 && i < LARGE_LOGS; i++) {
		/* These entries will be too old, so that stamps in the middle of the ring are
		 * read. */
		take_nth(table, &limit, i, 125, T0);
		for (uint64_t k = 0; k < 9; k++)
			take_large(i, k ? 1 : 119, T0 + 30 * SECOND + k);
	}
}

/* Both spans are cut for small logs, all of them expired. One thread walks over their blocks. At
 * each of its steps another thread cuts the span for large logs and fills them. The walk must not
 * overwrite the stamps of the large logs. */
static void interrupt_walks(uint64_t small_logs)
{
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	unsigned long at = 0;
	bool interrupted;

	do {
		start_run();
		wr_span_open(table, 0);
		wr_span_open(table, 0);
		table->tallies->empty_cursor = 1; /* the walk is in the span that was opened last */
		for (uint64_t key = 100; key < 100 + small_logs; key++) {
			take_nth(table, &small, key, 1, T0 - 10 * MINUTE);
			take_nth(table, &small, key, 1, T0 - 10 * MINUTE + 1);
		}
		limit = sized(WEIR_SLIDING_LOG, 252, MINUTE);
		memset(large, 0, sizeof large);
		interrupted = interrupt(walk_or_fill, ++at);
		for (uint64_t key = 0; key < LARGE_LOGS; key++) {
			for (int more = 0; more < 300; more++)
				take_large(key, 1, T0 + MINUTE);
			at_most("admitted", large[key], 252);
		}
		equal("log_lost", table->tallies->log_lost, 0);
		equal("duplicates", duplicates(table), 0);
	} while (interrupted);
	at_most("interruptions", 20, at);
}

/* The number of small logs decides where the walk starts. */
static void a_late_walk_harms_no_log(void **unused)
{
	(void)unused;
	table->span_count = 2;
	for (uint64_t small_logs = 1; small_logs <= 16; small_logs++)
		interrupt_walks(small_logs);
	table->span_count = 4;
}

static uint64_t asking;

static void ask_once(int number)
{
	(void)number;
	take_nth(table, &limit, 1000 + asking / 2, 1, T0 + SECOND + asking);
}

/* A decision looks at a bounded number of blocks, whatever the slab contains: it makes at most
 * 6,000 accesses, most of them to empty 128 blocks of a span. */
static void a_decision_takes_a_bounded_number_of_steps(void **unused)
{
	struct weir_limit small = sized(WEIR_SLIDING_LOG, 5, HOUR);
	unsigned long most = 0;

	(void)unused;
	table->row_count = 256;
	table->span_count = 16;
	start_run();
	for (uint64_t key = 0; key < 3000; key++)
		for (uint64_t k = 0; k < 2; k++)
			take_nth(table, &small, key, 1, T0 + k);
	limit = sized(WEIR_SLIDING_LOG, 100, MINUTE);
	for (asking = 0; asking < 2000; asking++) {
		interrupt(ask_once, 1u << 30);
		if (steps_taken() > most)
			most = steps_taken();
	}
	/* The same with keys that weigh so much that spans are emptied for them. */
	for (asking = 0; asking < 2000; asking++) {
		if (asking % 2 == 0)
			for (uint64_t k = 0; k < 20; k++)
				take_nth(table, &limit, 1000 + asking / 2, 1, T0 + 25 * SECOND + k);
		limit.flags = 0;
		interrupt(ask_once, 1u << 30);
		if (steps_taken() > most)
			most = steps_taken();
	}
	at_most("steps", most, 6000);
	table->row_count = 2;
	table->span_count = 4;
}

/* --- operators: bans, grants and resets among takes --- */

#define UNTIL_S (wr_seconds(T0) + 1000)

/* Random bits of a run. Bit 0: units are granted too; bit 1: a grant is ended too. */
static unsigned grant_bits;

static void order_ban(bool banned)
{
	struct wr_override_change change = {.ban = true,
					    .to = {.banned_until_s = banned ? UNTIL_S : 0}};

	wr_override_change(table, key_nth(table, &limit, 1), limit.algorithm, &change,
			   wr_seconds(T0));
}

static void order_grant(uint32_t extra)
{
	struct wr_override_change change = {
		.grant = true, .to = {.granted = extra, .granted_until_s = extra ? UNTIL_S : 0}};

	wr_override_change(table, key_nth(table, &limit, 1), limit.algorithm, &change,
			   wr_seconds(T0));
}

/* The first thread bans, the second only lifts bans, the third takes units. The second and the
 * third may find that no override is in force, and clear the bit. */
static void ban_lift_or_take(int number)
{
	if (number == 0) {
		if (grant_bits & 1)
			order_grant(3);
		order_ban(true);
	} else if (number == 1) {
		order_ban(false);
		if (grant_bits & 2)
			order_grant(0);
	} else {
		for (int i = 0; i < 3; i++)
			take_nth(table, &limit, 1, 1, T0);
	}
}

static bool in_force(void)
{
	return wr_override_any(wr_override_find(table, key_nth(table, &limit, 1), wr_seconds(T0)));
}

static bool written(void)
{
	return wr_override_any(wr_override_read(table, key_nth(table, &limit, 1), wr_seconds(T0)));
}

/* After an operator's call has returned, all threads find the override. If an operator dies during
 * a change, the next operator's change takes effect nevertheless. */
static void an_override_is_found_after_it_was_set(void **state)
{
	for (int i = 0; i < RUNS(20000); i++) {
		start_run();
		limit = sized(some_algorithm(), 4, MINUTE);
		grant_bits = (unsigned)rnd_below(&dice, 4);
		mortality = 0;
		if (rnd_below(&dice, 2))
			take_nth(table, &limit, 1, 1, T0);
		if (rnd_below(&dice, 2))
			order_ban(true);
		if (rnd_below(&dice, 4) == 0)
			order_ban(false);
		mortality = *state ? 30 + (unsigned)rnd_below(&dice, 300) : 0;
		race(ban_lift_or_take);
		mortality = 0;
		if (!is_dead(0) && written())
			equal("in force", in_force(), 1);
		equal("cells", duplicates(table), 0);
		order_ban(true);
		equal("banned", take_nth(table, &limit, 1, 1, T0).banned, 1);
		order_ban(false);
		order_grant(0);
		equal("banned", take_nth(table, &limit, 1, 0, T0).banned, 0);
		equal("written", written(), 0);
		equal("limit", take_nth(table, &limit, 1, 0, T0).limit, 4);
	}
}

static void grant_or_take(int number)
{
	if (number == 0) {
		order_grant(4);
		if (grant_bits & 1)
			order_grant(2);
		if (grant_bits & 2)
			order_grant(0);
	} else {
		three_takes(number);
	}
}

static void give_one_back(int number)
{
	if (number == 0)
		take_nth(table, &limit, 1, -1, T0);
}

/* No key is admitted more than the limit plus the largest grant, even if operators change the grant
 * meanwhile. A ring that grew for the grant can be used after the grant has ended. */
static void no_more_than_was_granted(void **state)
{
	for (int i = 0; i < RUNS(8000); i++) {
		start_run();
		limit = sized(some_algorithm(), 1 + (uint32_t)rnd_below(&dice, 4), MINUTE);
		grant_bits = (unsigned)rnd_below(&dice, 4);
		cost = 1 + rnd_below(&dice, 3);
		memset(asked, 0, sizeof asked);
		memset(admitted, 0, sizeof admitted);
		mortality = *state ? 50 + (unsigned)rnd_below(&dice, 400) : 0;
		race(grant_or_take);
		mortality = 0;
		at_most("admitted", sum(admitted) * units(), limit.limit + 4);
		order_grant(0);
		race(give_one_back);
		equal("limit", take_nth(table, &limit, 1, 0, T0).limit, limit.limit);
		equal("log_lost", table->tallies->log_lost, 0);
	}
}

static void reset_or_take(int number)
{
	if (number == 0)
		wr_store_reset(table, &limit, key_nth(table, &limit, 1), T0);
	else
		three_takes(number);
}

/* After a reset the limit is admitted once more, not twice. */
static void a_reset_is_one_more_limit(void **state)
{
	for (int i = 0; i < RUNS(8000); i++) {
		unsigned more = 0;

		start_run();
		limit = sized(some_algorithm(), 1 + (uint32_t)rnd_below(&dice, 6), MINUTE);
		cost = 1;
		memset(asked, 0, sizeof asked);
		memset(admitted, 0, sizeof admitted);
		mortality = *state ? 50 + (unsigned)rnd_below(&dice, 400) : 0;
		race(reset_or_take);
		mortality = 0;
		while (take_nth(table, &limit, 1, 1, T0).admitted)
			more++;
		at_most("admitted", sum(admitted) + more, 2 * limit.limit);
		equal("log_lost", table->tallies->log_lost, 0);
		wr_store_reset(table, &limit, key_nth(table, &limit, 1), T0);
		equal("remaining", take_nth(table, &limit, 1, 0, T0).remaining, limit.limit);
		equal("cells", duplicates(table), 0);
	}
}

static bool missed;

/* Each thread has its own rule name. Two threads pause and resume, one only pauses. */
static void pause_or_resume(int number)
{
	uint64_t hash = 100 + (uint64_t)number;

	wr_pause_add(table, hash);
	missed |= !wr_pause_state(table) || !wr_pause_has(table, hash);
	if (number < 2)
		wr_pause_drop(table, hash);
}

/* While a thread has a pause, the bit for pauses is always set. */
static void no_pause_is_missed(void **unused)
{
	(void)unused;
	for (int i = 0; i < RUNS(20000); i++) {
		start_run();
		memset(table->control, 0, sizeof *table->control);
		missed = false;
		race(pause_or_resume);
		equal("missed", missed, 0);
		equal("pausing", wr_pause_state(table), WR_PAUSING_SOME);
		wr_pause_drop(table, 102);
		equal("pausing", wr_pause_state(table), 0);
	}
}

int main(void)
{
	static int deadly;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_key_never_gets_two_cells, seed),
		cmocka_unit_test_setup(one_key_never_gets_two_cells_when_claimants_die, seed),
		{"exactly_the_limit", exactly_the_limit, seed, NULL, NULL},
		{"exactly_the_limit_while_some_die", exactly_the_limit, seed, NULL, &deadly},
		cmocka_unit_test_setup(all_or_none, seed),
		cmocka_unit_test_setup(the_loss_of_a_key_used_again_is_counted, seed),
		cmocka_unit_test_setup(a_late_walk_harms_no_log, seed),
		cmocka_unit_test_setup(a_decision_takes_a_bounded_number_of_steps, seed),
		{"logs_that_grow", logs_that_grow, seed, NULL, NULL},
		{"logs_that_grow_while_some_die", logs_that_grow, seed, NULL, &deadly},
		{"an_override_is_found_after_it_was_set", an_override_is_found_after_it_was_set,
		 seed, NULL, NULL},
		{"what_an_operator_said_is_found_while_some_die",
		 an_override_is_found_after_it_was_set, seed, NULL, &deadly},
		cmocka_unit_test_setup(no_pause_is_missed, seed),
		{"no_more_than_was_granted", no_more_than_was_granted, seed, NULL, NULL},
		{"no_more_than_was_granted_while_some_die", no_more_than_was_granted, seed, NULL,
		 &deadly},
		{"a_reset_is_one_more_limit", a_reset_is_one_more_limit, seed, NULL, NULL},
		{"a_reset_is_one_more_limit_while_some_die", a_reset_is_one_more_limit, seed, NULL,
		 &deadly},
	};

	return cmocka_run_group_tests(tests, turns_open, turns_close);
}
