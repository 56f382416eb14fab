/* Slots of limits on concurrent requests, in tables that are full, copied or damaged, and in tables
 * that many processes use, of which some are killed. */
#include "rounds.h"
#include "store/crew.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

#include "table/slab.h"
#include "settle_test.h"

/* --- room --- */

/* The slab has four spans of 4 KiB. Seven keys take blocks of 2 KiB, the eighth takes the last one,
 * and the ninth gets none. It gets one when the others have expired. */
static void a_full_slab_refuses(void **unused)
{
	struct weir_table *narrow = table_narrow("narrow", 4, 2);
	struct weir_limit larger = slots(200), few = slots(100);
	uint32_t keys = 2 * narrow->span_bytes / 2048;
	struct weir_decision d;

	(void)unused;
	for (uint32_t key = 0; key < keys; key++)
		assert_int_equal(take_nth(narrow, &few, key, 1, T0).admitted, 1);
	d = take_nth(narrow, &few, keys, 1, T0);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.full, 1);
	assert_int_equal(d.charged_ns, 0);
	assert_int_equal(d.retry_after_ns, SECOND);
	assert_int_equal(info_of(narrow, T0).log_full, 1);
	assert_int_equal(take_nth(narrow, &few, keys, 0, T0).remaining, 100);
	/* Keys that have a block use it, and keep it when they cannot get a larger one. */
	assert_int_equal(take_nth(narrow, &few, 0, 1, T0).remaining, 98);
	for (uint32_t i = 2; i < 126; i++)
		assert_int_equal(take_nth(narrow, &larger, 0, 1, T0).remaining, 199 - i);
	assert_int_equal(take_nth(narrow, &larger, 0, 1, T0).full, 1);
	assert_int_equal(take_nth(narrow, &few, keys, 1, T0 + 2 * MINUTE).admitted, 1);
	assert_int_equal(info_of(narrow, T0).log_lost, 0);
	table_drop(narrow);
}

/* --- files --- */

static void check_copy(struct weir_table *copy, const uint64_t *tokens, uint64_t now_ns)
{
	struct weir_table *before = table;

	table = copy;
	must_refuse(&limit, "k", now_ns);
	assert_int_equal(give_back(table, &limit, "k", 1, tokens[0], now_ns).remaining, 0);
	for (uint32_t i = 1; i < 20; i++)
		assert_int_equal(give_back(table, &limit, "k", 1, tokens[i], now_ns).remaining, i);
	table = before;
}

/* 20 slots are held, of which one was taken twice. */
static void fill_twenty(uint64_t *tokens)
{
	limit = slots(20);
	for (int i = 0; i < 20; i++)
		tokens[i] = get(&limit, "k", T0);
	give_back(table, &limit, "k", 1, tokens[0], T0);
	get(&limit, "k", T0 + SECOND);
}

static void a_checkpoint_has_the_slots(void **unused)
{
	struct weir_opts opts = opts_of("restored", MIB, 0);
	struct weir_table *copy;
	uint64_t tokens[20];

	(void)unused;
	fill_twenty(tokens);
	assert_int_equal(weir_checkpoint(table, in_folder("saved"), T0 + SECOND, NULL), 0);
	opts.restore_from = in_folder("saved");
	opts.now_ns = T0 + 2 * SECOND;
	assert_int_equal(weir_open(&opts, &copy, NULL), 0);
	check_copy(copy, tokens, T0 + 2 * SECOND);
	table_drop(copy);
	opts.now_ns = T0 + HOUR;
	assert_int_equal(weir_open(&opts, &copy, NULL), 0);
	assert_int_equal(info_of(copy, T0 + HOUR).log_bytes_used, 0);
	table_drop(copy);
	assert_int_equal(remove(in_folder("saved")), 0);
}

static void another_size_keeps_the_slots(void **unused)
{
	struct weir_table *first = table_open("size", MIB, 0), *before = table, *larger, *smaller;
	struct weir_opts opts = opts_of("size", 8 * MIB, 0);
	uint64_t tokens[20];

	(void)unused;
	table = first;
	fill_twenty(tokens);
	table = before;
	assert_int_equal(weir_resize(&opts, T0 + SECOND, NULL), 0);
	larger = table_open("size", 0, 0);
	opts = opts_of("size", 256 * KIB, 64 * KIB);
	assert_int_equal(weir_resize(&opts, T0 + SECOND, NULL), 0);
	smaller = table_open("size", 0, 0);
	check_copy(larger, tokens, T0 + SECOND);
	check_copy(smaller, tokens, T0 + SECOND);
	assert_int_equal(info_of(smaller, T0).log_evicted, 0);
	weir_close(first);
	weir_close(larger);
	table_drop(smaller);
}

/* A cell that names no block, and slots that belong to no block, are repaired. */
static void a_damaged_table(void **unused)
{
	struct wr_table_log_block block;
	struct wr_spot spot;

	(void)unused;
	limit = slots(6);
	get(&limit, "k", T0);
	assert_true(wr_table_find(table, hash_of("k"), &spot));
	assert_true(wr_slab_find(table, spot.hot.lo, &block));
	for (uint32_t i = 0; i < block.capacity; i++)
		block.block->stamps[i] = 0x0101010101010101u * i;
	for (int i = 0; i < 10; i++)
		take(table, &limit, "k", 1, T0 + SECOND);
	must_refuse(&limit, "k", T0 + SECOND);
	/* The times of the damaged slots are in the past or far in the future. */
	assert_int_equal(left(&limit, "k", T0 + 2 * MINUTE), 6);
	get(&limit, "k", T0 + 2 * MINUTE);
	assert_true(wr_table_find(table, hash_of("k"), &spot));
	spot.cell->hot.lo ^= 2;
	assert_int_equal(left(&limit, "k", T0 + 2 * MINUTE), 6);
	assert_int_equal(info_of(table, T0).log_lost, 1);
	get(&limit, "k", T0 + 2 * MINUTE);
	assert_int_equal(left(&limit, "k", T0 + 2 * MINUTE), 5);
}

/* --- many threads --- */

#define TIMES 5000 /* number of slots that a thread takes */

static struct {
	uint64_t held, most, admitted, refused, full;
	uint64_t clock_ns;
	uint64_t begun;
	uint32_t holds[512]; /* for each child: whether it certainly holds a slot */
	uint32_t children;
} * shared;

static void count(uint64_t *at, uint64_t n)
{
	__atomic_fetch_add(at, n, __ATOMIC_RELAXED);
}

/* Takes a slot, holds it for a random time, and gives it back, until the thread has had `times` slots.
 * The number of held slots is counted after a slot is taken and before it is given back, so it is
 * never too high. A refused thread lets others run, because the threads that hold the slots may not be
 * running. */
static void hold_for_a_while(int number)
{
	struct rnd r = {rnd_seed() + (uint64_t)number};
	int times = test_rounds(TIMES, 10 * TIMES);

	for (int taken = 0; taken < times;) {
		uint64_t now_ns =
			__atomic_add_fetch(&shared->clock_ns, rnd_below(&r, 3), __ATOMIC_RELAXED);
		struct weir_decision d = take(table, &limit, "k", 1, now_ns);
		uint64_t held, most;

		if (!d.admitted) {
			count(d.full ? &shared->full : &shared->refused, 1);
			sched_yield();
			continue;
		}
		taken++;
		held = __atomic_add_fetch(&shared->held, 1, __ATOMIC_SEQ_CST);
		most = __atomic_load_n(&shared->most, __ATOMIC_RELAXED);
		while (held > most &&
		       !__atomic_compare_exchange_n(&shared->most, &most, held, true,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
		count(&shared->admitted, 1);
		for (uint64_t spin = rnd_below(&r, 100); spin; spin--)
			__asm__ volatile("pause");
		if (rnd_below(&r, 16) == 0)
			sched_yield();
		__atomic_sub_fetch(&shared->held, 1, __ATOMIC_SEQ_CST);
		give_back(table, &limit, "k", 1, d.charged_ns, now_ns);
	}
}

/* Runs the crew, and returns the largest number of slots that were held at the same time. */
static uint64_t hold_together(void)
{
	uint64_t most;

	shared = shared_memory(sizeof *shared);
	shared->clock_ns = T0;
	crew_run(hold_for_a_while);
	most = shared->most;
	assert_int_equal(shared->held, 0);
	assert_int_equal(shared->full, 0);
	assert_int_equal(shared->admitted, CREW * test_rounds(TIMES, 10 * TIMES));
	assert_true(shared->refused > 0);
	shared_free(shared, sizeof *shared);
	assert_int_equal(cells_of(table, hash_of("k")), 1);
	return most;
}

static void never_more_than_there_are_slots(void **unused)
{
	(void)unused;
	limit = slots(3);
	assert_in_range(hold_together(), 1, 3);
	assert_int_equal(left(&limit, "k", T0 + SECOND), 3);
}

/* The limit was 14 and is 5 now. Three of the slots above 5 are still held. */
static void never_more_after_the_limit_was_lowered(void **unused)
{
	struct weir_limit higher = slots(14);
	uint64_t tokens[14];
	uint32_t kept = 0;

	(void)unused;
	for (int i = 0; i < 14; i++)
		tokens[i] = get(&higher, "k", T0);
	for (int i = 0; i < 14; i++)
		if ((tokens[i] & 15) >= 5 && kept < 3)
			kept++;
		else
			give_back(table, &higher, "k", 1, tokens[i], T0);
	limit = slots(5);
	assert_int_equal(left(&limit, "k", T0), 2);
	assert_in_range(hold_together(), 1, 2);
	assert_int_equal(left(&limit, "k", T0 + SECOND), 2);
}

/* --- killed processes --- */

static int take_twenty_and_wait(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++)
		CHILD_CHECK(take(table, &limit, "k", 1, T0).admitted);
	__atomic_store_n(&shared->begun, 1, __ATOMIC_RELEASE);
	for (;;)
		nanosleep(&(struct timespec){1, 0}, NULL);
}

/* A process is killed while it holds all 20 slots. None is free before max_hold, and all are free
 * after it. */
static void the_slots_of_a_killed_process(void **unused)
{
	pid_t pid;

	(void)unused;
	limit = slots(20);
	shared = shared_memory(sizeof *shared);
	pid = spawn(take_twenty_and_wait, NULL);
	while (!__atomic_load_n(&shared->begun, __ATOMIC_ACQUIRE))
		sched_yield();
	kill(pid, SIGKILL);
	assert_int_equal(reap(pid), 256 + SIGKILL);
	for (uint64_t s = 0; s < 60; s++)
		must_refuse(&limit, "k", T0 + s * SECOND);
	must_refuse(&limit, "k", T0 + MINUTE - 1);
	assert_int_equal(left(&limit, "k", T0 + MINUTE + 31), 20);
	for (int i = 0; i < 20; i++)
		get(&limit, "k", T0 + MINUTE + 32);
	must_refuse(&limit, "k", T0 + MINUTE + 32);
	shared_free(shared, sizeof *shared);
}

#define CHILDREN 4
#define KILLS test_rounds(25, 200)
#define MANY (CHILDREN + 25u)

/* Takes and gives back until the process is killed. `holds` is set after a slot is taken and cleared
 * before it is given back. */
static int hold_until_killed(void *arg)
{
	uint32_t *mine = &shared->holds[(uintptr_t)arg];

	for (;;) {
		struct weir_decision d = take(table, &limit, "k", 1, T0);
		uint32_t sum = 0;

		count(&shared->begun, 1);
		if (!d.admitted)
			continue;
		__atomic_store_n(mine, 1, __ATOMIC_SEQ_CST);
		for (uint32_t i = 0; i < 512; i++)
			sum += __atomic_load_n(&shared->holds[i], __ATOMIC_SEQ_CST);
		CHILD_CHECK(sum <= limit.limit);
		__atomic_store_n(mine, 0, __ATOMIC_SEQ_CST);
		give_back(table, &limit, "k", 1, d.charged_ns, T0);
	}
}

/* Processes are killed at random moments. No slot is used twice before max_hold, and all slots are
 * free after it. */
static void processes_are_killed_while_they_hold_slots(void **unused)
{
	int kills = KILLS;
	struct rnd r = {rnd_seed()};
	pid_t pids[CHILDREN];
	uint32_t held = 0;

	(void)unused;
	limit = slots(CHILDREN + (uint32_t)kills);
	shared = shared_memory(sizeof *shared);
	for (uintptr_t i = 0; i < CHILDREN; i++)
		pids[i] = spawn(hold_until_killed, (void *)i);
	for (uintptr_t i = 0; i < (uintptr_t)kills; i++) {
		uint64_t victim = rnd_below(&r, CHILDREN);
		uint64_t until =
			__atomic_load_n(&shared->begun, __ATOMIC_RELAXED) + rnd_magnitude(&r, 4000);

		while (__atomic_load_n(&shared->begun, __ATOMIC_RELAXED) < until)
			nanosleep(&(struct timespec){0, 1000}, NULL);
		kill(pids[victim], SIGKILL);
		assert_int_equal(reap(pids[victim]), 256 + SIGKILL);
		pids[victim] = spawn(hold_until_killed, (void *)(CHILDREN + i));
	}
	for (int i = 0; i < CHILDREN; i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(reap(pids[i]), 256 + SIGKILL);
	}
	for (uint32_t i = 0; i < 512; i++)
		held += shared->holds[i];
	/* Stamps rise while the clock stands still, but by less than two seconds. */
	assert_true(left(&limit, "k", T0) <= limit.limit - held);
	assert_int_equal(left(&limit, "k", T0 + MINUTE + 2 * SECOND), limit.limit);
	for (uint32_t i = 0; i < limit.limit; i++)
		get(&limit, "k", T0 + MINUTE + 2 * SECOND);
	must_refuse(&limit, "k", T0 + MINUTE + 2 * SECOND);
	shared_free(shared, sizeof *shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_full_slab_refuses),
		TEST(a_checkpoint_has_the_slots),
		TEST(another_size_keeps_the_slots),
		TEST(a_damaged_table),
		TEST(never_more_than_there_are_slots),
		TEST(never_more_after_the_limit_was_lowered),
		TEST(the_slots_of_a_killed_process),
		TEST(processes_are_killed_while_they_hold_slots),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
