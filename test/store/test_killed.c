/* Processes are killed at random moments, hundreds of times, and other processes replace them.
 * Limits hold, every key stays usable, and no block is lost for ever.
 *
 * The tables have two rows and few spans, and there are more keys than cells, so that dead
 * processes leave claims, logs that were being moved, and blocks in preparation. Each child records
 * every request in shared memory before and after it. A request that a dead child has begun and not
 * ended is in doubt: it may have been counted or not. */
#include "rounds.h"
#include "table/table_test.h"

#include <signal.h>
#include <time.h>

#include "table/slab.h"

#define CHILDREN 4
#define KILLS test_rounds(25, 100)

struct notes {
	uint64_t begun, admitted;
	uint64_t by_key[64];
};

static struct weir_table *table;
static struct weir_limit limit;
static uint64_t keys;
static struct notes *notes; /* the records of each child */
static uint64_t rounds;

static void note(uint64_t *at)
{
	__atomic_store_n(at, *at + 1, __ATOMIC_RELAXED);
}

static void take_noted(struct notes *mine, uint64_t key, uint64_t now_ns)
{
	note(&mine->begun);
	if (take_nth(table, &limit, key, 1, now_ns).admitted) {
		note(&mine->admitted);
		note(&mine->by_key[key % 64]);
	}
}

/* Sends requests until the process is killed. */
static int take_for_ever(void *arg)
{
	int number = (int)(intptr_t)arg;
	struct rnd r = {rounds++ * CHILDREN + (uint64_t)number};

	for (;;)
		take_noted(&notes[number], rnd_below(&r, keys), T0);
	return 0;
}

/* Waits until the child has sent a random number of requests, up to some hundreds. */
static void let_run(struct rnd *r, const struct notes *of)
{
	uint64_t until = __atomic_load_n(&of->begun, __ATOMIC_RELAXED) + rnd_magnitude(r, 400);

	while (__atomic_load_n(&of->begun, __ATOMIC_RELAXED) < until)
		nanosleep(&(struct timespec){0, 1000}, NULL);
	for (uint64_t spin = rnd_below(r, 2000); spin; spin--)
		__asm__ volatile("pause");
}

/* Runs the children and kills them. Returns how many were killed; each may have one request in
 * doubt.
 */
static uint64_t chaos(void)
{
	const int kills = KILLS;
	struct rnd r = {rnd_seed()};
	pid_t pids[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pids[i] = spawn(take_for_ever, (void *)(intptr_t)i);
	for (int i = 0; i < kills; i++) {
		int victim = (int)rnd_below(&r, CHILDREN);

		let_run(&r, &notes[victim]);
		kill(pids[victim], SIGKILL);
		assert_int_equal(reap(pids[victim]), 256 + SIGKILL);
		pids[victim] = spawn(take_for_ever, (void *)(intptr_t)victim);
	}
	for (int i = 0; i < CHILDREN; i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(reap(pids[i]), 256 + SIGKILL);
	}
	return (uint64_t)kills + CHILDREN;
}

static uint64_t admitted_of(uint64_t key)
{
	uint64_t sum = 0;

	for (int i = 0; i < CHILDREN; i++)
		sum += notes[i].by_key[key];
	return sum;
}

static void begin(const struct weir_limit *of, uint64_t how_many, uint64_t rows, uint32_t spans)
{
	table = table_narrow("killed", rows, spans);
	notes = shared_memory(CHILDREN * sizeof *notes);
	limit = *of;
	keys = how_many;
}

static void end(void)
{
	shared_free(notes, CHILDREN * sizeof *notes);
	table_drop(table);
}

static void every_key_is_usable(uint64_t now_ns)
{
	for (uint64_t key = 0; key < keys; key++) {
		struct weir_decision d;

		d = take_nth(table, &limit, key, 1, now_ns);
		assert_true(d.admitted || d.full || d.remaining == 0);
		assert_true(cells_of(table, key_nth(table, &limit, key)) <= 1);
	}
	assert_int_equal(duplicates(table), 0);
}

/* All keys fit, so none is evicted, and at most the limit is admitted. Missing requests were in
 * doubt. */
static void limits_hold(void **algorithm)
{
	static const uint32_t sizes[] = {[WEIR_TOKEN_BUCKET] = 2000, [WEIR_LEAKY_BUCKET] = 2000,
					 [WEIR_FIXED_WINDOW] = 2000, [WEIR_SLIDING_COUNTER] = 2000,
					 [WEIR_SLIDING_LOG] = 300,   [WEIR_CONCURRENT] = 100};
	uint32_t number = (uint32_t)(uintptr_t)*algorithm;
	struct weir_limit of = sized(number, sizes[number], MINUTE);
	uint64_t deaths, sum = 0;

	begin(&of, 8, 32, 16);
	deaths = chaos();
	for (uint64_t key = 0; key < keys; key++) {
		uint64_t admitted = admitted_of(key);

		assert_true(admitted <= limit.capacity);
		while (take_nth(table, &limit, key, 1, T0).admitted)
			admitted++;
		assert_true(admitted <= limit.capacity);
		sum += admitted;
		assert_int_equal(cells_of(table, key_nth(table, &limit, key)), 1);
	}
	assert_true(sum + deaths >= keys * limit.capacity);
	assert_int_equal(duplicates(table), 0);
	assert_int_equal(info_of(table, T0).evicted + info_of(table, T0).evicted_refused, 0);
	assert_int_equal(info_of(table, T0).log_lost, 0);
	end();
}

/* More keys than cells: requests admitted beyond a limit are covered by counted evictions. */
static void crowds_are_counted(void **algorithm)
{
	struct weir_limit of = sized((uint32_t)(uintptr_t)*algorithm, 4, MINUTE);
	struct weir_info info;
	uint64_t sum = 0;

	begin(&of, 48, 2, 4);
	chaos();
	for (uint64_t key = 0; key < keys; key++)
		sum += admitted_of(key);
	info = info_of(table, T0);
	assert_true(sum <= limit.capacity * (keys + info.evicted + info.evicted_refused +
					     info.log_evicted + info.log_lost));
	assert_true(info.evicted + info.evicted_refused > 100);
	every_key_is_usable(T0);
	end();
}

/* After a minute the blocks of dead processes can be taken again: the whole slab, in blocks of
 * another size than the logs had. */
static void blocks_do_not_leak(void **unused)
{
	struct weir_limit of = sized(WEIR_SLIDING_LOG, 60, MINUTE);
	uint32_t later_s = wr_seconds(T0) + 200;
	uint64_t bytes, got = 0;

	(void)unused;
	begin(&of, 40, 2, 4);
	bytes = (uint64_t)table->span_count * table->span_bytes;
	chaos();
	every_key_is_usable(T0);
	for (int i = 0; i < 1000; i++) {
		struct wr_table_log_block block;

		struct wr_slab_wish wish = {
			.cell = &table->rows[0].cell[0], .stamps = 100, .weight = WR_WEIGHT_ALL};

		got += wr_slab_take(table, &wish, later_s * SECOND, &block);
	}
	assert_int_equal(got, bytes / 1024);
	assert_int_equal(wr_slab_used(table), bytes);
	end();
}

#define HOLD(name, number, text)                                                                   \
	{"limits hold while processes are killed: " text, limits_hold, NULL, NULL,                 \
	 (void *)(number)},
#define CROWD(name, number, text)                                                                  \
	{"evictions are counted while processes are killed: " text, crowds_are_counted, NULL,      \
	 NULL, (void *)(number)},

int main(void)
{
	const struct CMUnitTest tests[] = {
		WEIR_ALGORITHMS(HOLD) WEIR_ALGORITHMS(CROWD) cmocka_unit_test(blocks_do_not_leak),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
