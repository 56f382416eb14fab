/* Bans and grants in the table: they are found for every key, evicted last, and complete in every
 * process, even after races and killed processes. */
#include "rounds.h"
#include "table/table_test.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "crew.h"
#include "store/store.h"
#include "table/note.h"
#include "table/override.h"
#include "table/pause.h"
#include "table/slab.h"

#define FOREVER (wr_seconds(T0) + 1000000)
#define FOUR 4u
#define ALGORITHMS 6u

static const uint32_t algorithms[] = {WEIR_TOKEN_BUCKET,    WEIR_LEAKY_BUCKET, WEIR_FIXED_WINDOW,
				      WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG,  WEIR_CONCURRENT};

static struct weir_table *table;
static struct weir_limit limit;

static void ban(uint64_t nth, uint32_t until_s)
{
	struct wr_override_change change = {.ban = true, .to = {.banned_until_s = until_s}};

	wr_override_change(table, key_nth(table, &limit, nth), limit.algorithm, &change,
			   wr_seconds(T0));
}

static void grant(uint64_t nth, uint32_t extra, uint32_t until_s)
{
	struct wr_override_change change = {.grant = true,
					    .to = {.granted = extra, .granted_until_s = until_s}};

	wr_override_change(table, key_nth(table, &limit, nth), limit.algorithm, &change,
			   wr_seconds(T0));
}

static bool has_bit(uint64_t nth)
{
	struct wr_spot spot;

	return wr_table_find(table, key_nth(table, &limit, nth), &spot) &&
	       wr_hot_override(spot.hot);
}

/* --- room --- */

/* Two rows of refused keys leave no free cell for a banned key; it gets one nevertheless and keeps
 * it. */
static void refused_keys_do_not_push_out_a_ban(void **unused)
{
	struct weir_limit filler = sized(WEIR_FIXED_WINDOW, 1, HOUR);

	(void)unused;
	for (size_t a = 0; a < ALGORITHMS; a++) {
		table = table_narrow("override", 2, 4);
		limit = sized(algorithms[a], FOUR, HOUR);
		ban(1, FOREVER);
		grant(2, 3, FOREVER);
		for (uint64_t i = 100; i < 1000; i++) {
			take_nth(table, &filler, i, 1, T0);
			take_nth(table, &filler, i, 1, T0);
		}
		assert_int_equal(take_nth(table, &limit, 1, 1, T0).banned, 1);
		assert_int_equal(take_nth(table, &limit, 2, 0, T0).limit, 7);
		assert_int_equal(table->tallies->override_evicted, 0);
		assert_true(table->tallies->evicted_refused > 800);
		table_drop(table);
	}
}

/* Thirty-two cells are sixteen bans. Further losses are counted. */
static void more_bans_than_cells_are_counted(void **unused)
{
	unsigned banned = 0;

	(void)unused;
	table = table_narrow("override", 2, 4);
	limit = sized(WEIR_FIXED_WINDOW, FOUR, HOUR);
	for (uint64_t i = 0; i < 16; i++)
		ban(i, FOREVER);
	assert_int_equal(table->tallies->override_evicted, 0);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(take_nth(table, &limit, i, 1, T0).banned, 1);
	ban(16, FOREVER);
	assert_int_equal(table->tallies->override_evicted, 2);
	assert_int_equal(take_nth(table, &limit, 16, 1, T0).banned, 1);
	for (uint64_t i = 0; i < 17; i++)
		banned += take_nth(table, &limit, i, 0, T0).banned;
	assert_in_range(banned, 14, 16);
	assert_int_equal(info_of(table, T0).override_evicted, table->tallies->override_evicted);
	table_drop(table);
}

/* An override that has ended or was lifted has no cell any more; only the key's own cell may be
 * left. */
static void an_override_that_ended_frees_its_cell(void **unused)
{
	struct wr_spot spot;

	(void)unused;
	table = table_narrow("override", 2, 4);
	limit = sized(WEIR_FIXED_WINDOW, FOUR, HOUR);
	for (uint64_t i = 0; i < 16; i++)
		ban(i, wr_seconds(T0) + 10);
	for (uint64_t i = 100; i < 132; i++)
		take_nth(table, &limit, i, 1, T0 + 10 * SECOND);
	assert_int_equal(table->tallies->override_evicted, 0);
	assert_int_equal(table->tallies->evicted, 0);
	table_clear(table);
	ban(1, FOREVER);
	ban(1, 0);
	assert_false(wr_table_find(table, key_nth(table, &limit, 1), &spot));
	take_nth(table, &limit, 2, 1, T0);
	ban(2, FOREVER);
	assert_true(has_bit(2));
	ban(2, 0);
	assert_false(has_bit(2));
	assert_int_equal(take_nth(table, &limit, 2, 0, T0).remaining, 3);
	for (uint64_t i = 100; i < 131; i++)
		take_nth(table, &limit, i, 1, T0);
	assert_int_equal(table->tallies->evicted, 0);
	table_drop(table);
}

/* The bit of a ban that has ended is cleared by the next request, and the quick path works again.
 */
static void an_ended_ban_leaves_no_trace(void **unused)
{
	(void)unused;
	for (size_t a = 0; a < ALGORITHMS; a++) {
		table = table_narrow("override", 2, 4);
		limit = sized(algorithms[a], FOUR, HOUR);
		take_nth(table, &limit, 1, 1, T0);
		ban(1, wr_seconds(T0) + 10);
		take_nth(table, &limit, 1, 1, T0 + SECOND);
		assert_true(has_bit(1));
		assert_true(take_nth(table, &limit, 1, 1, T0 + 10 * SECOND).admitted);
		assert_false(has_bit(1));
		table_drop(table);
	}
}

/* A log with a ban that loses its ring keeps its cell, the ban and its count. */
static void a_brief_log_keeps_its_ban_and_count(void **unused)
{
	struct weir_limit ring;

	(void)unused;
	table = table_narrow("override", 64, 1);
	limit = sized(WEIR_SLIDING_LOG, 100, HOUR);
	ring = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 100, .period_ns = HOUR,
		     .flags = WEIR_FULL_REFUSES);
	take_nth(table, &limit, 1, 45, T0);
	take_nth(table, &limit, 1, 45, T0 + 1);
	ban(1, FOREVER);
	for (uint64_t i = 100; i < 200; i++)
		for (uint64_t k = 0; k < 2; k++)
			take_nth(table, &ring, i, 48, T0 + k);
	assert_int_equal(table->tallies->log_evicted, 1);
	assert_int_equal(take_nth(table, &limit, 1, 1, T0 + 2).banned, 1);
	ban(1, 0);
	assert_int_equal(take_nth(table, &limit, 1, 0, T0 + 2).remaining, 10);
	table_drop(table);
}

/* In a thousand resets, a ring is taken and freed each time. */
static void a_reset_gives_the_ring_back(void **unused)
{
	(void)unused;
	table = table_narrow("override", 2, 4);
	limit = sized(WEIR_SLIDING_LOG, 100, HOUR);
	for (int i = 0; i < 1000; i++) {
		assert_true(take_nth(table, &limit, 1, 99, T0).admitted);
		assert_true(take_nth(table, &limit, 1, 1, T0 + 1).admitted);
		assert_int_equal(wr_slab_used(table), 1024);
		wr_store_reset(table, &limit, key_nth(table, &limit, 1), T0);
		assert_int_equal(wr_slab_used(table), 0);
	}
	assert_int_equal(table->tallies->log_full, 0);
	table_drop(table);
}

/* Twelve units were taken under a grant, and a thread died while it moved the log to a larger ring.
 * When the grant has ended, another thread finishes this, although the limit alone needs only a
 * ring of four. */
static void a_ring_of_a_grant_can_be_finished_without_it(void **unused)
{
	struct wr_table_log_block log;
	struct wr_table_log_word word;
	struct wr_spot spot;

	(void)unused;
	table = table_narrow("override", 2, 4);
	limit = sized(WEIR_SLIDING_LOG, 2, HOUR);
	grant(1, 30, FOREVER);
	assert_true(take_nth(table, &limit, 1, 6, T0).admitted);
	assert_true(take_nth(table, &limit, 1, 6, T0 + 1).admitted);
	assert_true(wr_table_find(table, key_nth(table, &limit, 1), &spot));
	assert_true(wr_slab_find(table, spot.hot.lo, &log));
	assert_int_equal(log.capacity, 12);
	word = wr_table_log_word_of(log.block->word);
	word.sealed = true;
	log.block->word = wr_table_log_word_pair(word);
	grant(1, 0, 0);
	alarm(60);
	take_nth(table, &limit, 1, -11, T0 + 1);
	alarm(0);
	assert_int_equal(take_nth(table, &limit, 1, 0, T0 + 1).remaining, 1);
	table_drop(table);
}

/* --- compared with a larger limit --- */

static uint32_t granted_at(const uint32_t *until_s, const uint32_t *extra, uint64_t now_ns)
{
	return *until_s > wr_seconds(now_ns) ? *extra : 0;
}

/* The same requests are decided in another table, under a limit that is larger by the grant. Only
 * the size of the limit may differ in the decisions. */
static void as_under_a_larger_limit(void **unused)
{
	struct weir_table *plain = table_open("plain", MIB, 256 * KIB);
	struct rnd r = {rnd_seed()};

	(void)unused;
	table = table_open("override", MIB, 256 * KIB);
	for (int run = 0; run < 400; run++) {
		uint32_t algorithm = algorithms[rnd_below(&r, ALGORITHMS)], until_s = 0, extra = 0;
		uint32_t size = 1 + (uint32_t)rnd_below(&r, 12);
		uint64_t now_ns = T0, key = (uint64_t)run;

		limit = sized(algorithm, size, MINUTE);
		for (int i = 0; i < 60; i++) {
			int64_t cost = (int64_t)rnd_below(&r, 5) - 1;
			struct weir_decision got, expected;
			struct weir_limit sum;
			struct wr_override_change change = {.grant = true};

			now_ns += rnd_below(&r, 20 * SECOND);
			if (rnd_below(&r, 6) == 0) {
				extra = (uint32_t)rnd_below(&r, 6);
				until_s =
					extra ? wr_seconds(now_ns) + 1 + (uint32_t)rnd_below(&r, 60)
					      : 0;
				change.to.granted = extra;
				change.to.granted_until_s = until_s;
				wr_override_change(table, key_nth(table, &limit, key), algorithm,
						   &change, wr_seconds(now_ns));
			}
			sum = sized(algorithm, size, MINUTE);
			sum.capacity += granted_at(&until_s, &extra, now_ns);
			sum.ceiling = sum.capacity;
			sum.narrow_ns = 0;
			got = take_nth(table, &limit, key, cost, now_ns);
			expected = take_nth(plain, &sum, key, cost, now_ns);
			assert_int_equal(got.granted, sum.capacity - limit.capacity);
			expected.granted = got.granted;
			assert_memory_equal(&got, &expected, sizeof got);
		}
	}
	table_drop(plain);
	table_drop(table);
}

/* --- carried to other files --- */

static void say(uint64_t nth, const char *rule, const char *key)
{
	struct wr_table_text_note text;

	wr_note_text(&text, rule, strlen(rule), key, strlen(key), wr_seconds(T0));
	wr_note_write(table, key_nth(table, &limit, nth), &text, wr_seconds(T0));
}

static void check_carried(struct weir_table *to)
{
	struct wr_table_text_note text;

	assert_int_equal(take_nth(to, &limit, 1, 1, T0).banned, 1);
	assert_int_equal(take_nth(to, &limit, 2, 0, T0).limit, 7);
	/* A request of cost 2 takes two units, or one slot. */
	assert_int_equal(take_nth(to, &limit, 2, 0, T0).remaining,
			 limit.algorithm == WEIR_CONCURRENT ? 6 : 5);
	assert_int_equal(take_nth(to, &limit, 3, 0, T0).remaining, 4);
	assert_int_equal(take_nth(to, &limit, 3, 0, T0).banned, 0);
	assert_true(wr_note_read(to, key_nth(to, &limit, 1), &text));
	assert_int_equal(text.rule_len, 4);
	assert_memory_equal(text.rule, "rule", 4);
	assert_memory_equal(text.key, "d|k=1", 5);
	assert_int_equal(text.changed_s, wr_seconds(T0));
	assert_false(wr_note_read(to, key_nth(to, &limit, 2), &text));
	assert_true(wr_pause_has(to, wr_pause_hash("api", 3)));
	assert_int_equal(wr_pause_state(to), WR_PAUSING_SOME | WR_PAUSING_ALL);
}

static void checkpoints_and_resizes_carry_them(void **unused)
{
	struct weir_opts opts = opts_of("carried", 512 * KIB, 128 * KIB);
	struct weir_table *again;

	(void)unused;
	for (size_t a = 0; a < ALGORITHMS; a++) {
		table = table_open("override", MIB, 256 * KIB);
		limit = sized(algorithms[a], FOUR, HOUR);
		ban(1, FOREVER);
		grant(2, 3, FOREVER);
		take_nth(table, &limit, 2, 2, T0);
		ban(3, FOREVER);
		ban(3, 0);
		say(1, "rule", "d|k=1");
		wr_pause_add(table, wr_pause_hash("api", 3));
		wr_pause_all(table, true);
		assert_int_equal(weir_checkpoint(table, in_folder("saved"), T0, NULL), 0);
		opts.restore_from = in_folder("saved");
		opts.now_ns = T0;
		assert_int_equal(weir_open(&opts, &again, NULL), 0);
		check_carried(again);
		table_drop(again);
		opts = opts_of("override", 2 * MIB, 256 * KIB);
		assert_int_equal(weir_resize(&opts, T0, NULL), 0);
		assert_int_equal(weir_moved(table), WEIR_EMOVED);
		weir_close(table);
		table = table_open("override", 0, 0);
		check_carried(table);
		table_drop(table);
		opts = opts_of("carried", 512 * KIB, 128 * KIB);
	}
}

#define ORDERS 3000

struct operation {
	uint32_t obeyed;    /* number of the operator's changes that succeeded */
	uint32_t resize_at; /* before this change the operator waits until the resize begins */
	bool resizing;
};

static struct operation *shared; /* shared by the operator's process and the process that resizes */

/* Bans one key after the other and lifts every second one again, until the table is superseded. */
static int operate_until_moved(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < ORDERS; i++) {
		while (i == shared->resize_at &&
		       !__atomic_load_n(&shared->resizing, __ATOMIC_ACQUIRE))
			sched_yield();
		ban(i, FOREVER);
		if (i >= 10 && i % 2)
			ban(i - 10, 0);
		if (weir_moved(table))
			return 0;
		__atomic_store_n(&shared->obeyed, (uint32_t)i + 1, __ATOMIC_RELEASE);
	}
	while (!weir_moved(table))
		sched_yield();
	return 0;
}

/* Every change that succeeded is in the new table, whenever it was made. */
static void nothing_is_lost_to_a_resize(void **unused)
{
	struct weir_opts opts = opts_of("override", 512 * KIB, 64 * KIB);
	struct rnd r = {rnd_seed()};

	(void)unused;
	limit = sized(WEIR_FIXED_WINDOW, FOUR, HOUR);
	for (int run = 0; run < 20; run++) {
		pid_t child;

		table = table_open("override", 512 * KIB, 64 * KIB);
		shared = shared_memory(sizeof *shared);
		shared->resize_at = (uint32_t)rnd_below(&r, 1000);
		child = spawn(operate_until_moved, NULL);
		while (__atomic_load_n(&shared->obeyed, __ATOMIC_ACQUIRE) < shared->resize_at)
			nanosleep(&(struct timespec){0, 1000}, NULL);
		__atomic_store_n(&shared->resizing, true, __ATOMIC_RELEASE);
		assert_int_equal(weir_resize(&opts, T0, NULL), 0);
		assert_int_equal(reap(child), 0);
		weir_close(table);
		table = table_open("override", 0, 0);
		for (uint64_t i = 0; i < shared->obeyed; i++) {
			bool lifted = i % 2 && i + 10 < shared->obeyed;
			bool in_doubt = i % 2 && i + 10 == shared->obeyed;

			if (!in_doubt)
				assert_int_equal(take_nth(table, &limit, i, 0, T0).banned, !lifted);
		}
		shared_free(shared, sizeof *shared);
		table_drop(table);
	}
}

/* --- notes --- */

static void notes_are_kept_as_long_as_there_is_room(void **unused)
{
	struct wr_table_text_note text;
	unsigned known = 0;
	char key[200];

	(void)unused;
	table = table_open("override", 256 * KIB, 0);
	limit = sized(WEIR_FIXED_WINDOW, FOUR, HOUR);
	assert_int_equal(table->note_count, 13);
	for (uint64_t i = 0; i < 40; i++) {
		ban(i, FOREVER);
		snprintf(key, sizeof key, "k%llu", (unsigned long long)i);
		say(i, "r", key);
	}
	for (uint64_t i = 0; i < 40; i++)
		if (wr_note_read(table, key_nth(table, &limit, i), &text)) {
			snprintf(key, sizeof key, "k%llu", (unsigned long long)i);
			assert_int_equal(text.key_len, strlen(key));
			assert_memory_equal(text.key, key, strlen(key));
			known++;
		}
	assert_int_equal(known, 13);
	/* One note is cut, one is half written. Neither shows the text of another note. */
	ban(0, 0);
	wr_note_forget(table, key_nth(table, &limit, 0));
	memset(key, 'x', sizeof key);
	key[150] = '\0';
	ban(100, FOREVER);
	say(100, key, key);
	assert_true(wr_note_read(table, key_nth(table, &limit, 100), &text));
	assert_int_equal(text.rule_len, WR_NOTE_TEXT);
	for (uint32_t i = 0; i < table->note_count; i++)
		table->notes[i].key[5] ^= 1;
	assert_false(wr_note_read(table, key_nth(table, &limit, 100), &text));
	table_drop(table);
}

/* The keys of bans in shadow mode have notes, but no override. Such a note is replaced only if there
 * is no free array element. */
static void notes_without_override_stay_while_there_is_room(void **unused)
{
	struct wr_table_text_note text;

	(void)unused;
	table = table_open("override", 256 * KIB, 0);
	assert_int_equal(table->note_count, 13);
	wr_note_text(&text, "r", 1, "k", 1, wr_seconds(T0));
	/* Keys whose tags differ by 13 begin at the same element. PROBES is 13 at least. */
	for (uint64_t i = 0; i < 13; i++) {
		wr_note_write(table, (struct wr_key){1 + 13 * i}, &text, wr_seconds(T0));
		for (uint64_t known = 0; known <= i; known++)
			assert_true(wr_note_read(table, (struct wr_key){1 + 13 * known}, &text));
	}
	wr_note_write(table, (struct wr_key){1 + 13 * 13}, &text, wr_seconds(T0));
	assert_true(wr_note_read(table, (struct wr_key){1 + 13 * 13}, &text));
	assert_false(wr_note_read(table, (struct wr_key){1}, &text));
	table_drop(table);
}

/* --- many at once --- */

static struct {
	uint64_t admitted, banned;
	uint32_t stop;
} * tally;

#define ROUNDS 300

/* Two operators ban and lift bans, the other threads take units from the key at the same time. */
static void operate_or_take(int number)
{
	if (number < 2) {
		for (int i = 0; i < ROUNDS; i++) {
			if (number == 0)
				ban(1, i % 2 ? 0 : FOREVER);
			else
				grant(1, i % 2 ? 0 : 5, i % 2 ? 0 : FOREVER);
		}
		__atomic_fetch_add(&tally->stop, 1, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&tally->stop, __ATOMIC_ACQUIRE) < 2) {
		struct weir_decision d = take_nth(table, &limit, 1, 1, T0);

		__atomic_fetch_add(&tally->admitted, d.admitted, __ATOMIC_RELAXED);
		__atomic_fetch_add(&tally->banned, d.banned, __ATOMIC_RELAXED);
	}
}

/* Never more than the limit and the grant is admitted, and the last change of each operator is in
 * force. */
static void operators_and_takers_at_once(void **unused)
{
	(void)unused;
	for (size_t a = 0; a < ALGORITHMS; a++) {
		table = table_open("override", MIB, 256 * KIB);
		tally = shared_memory(sizeof *tally);
		limit = sized(algorithms[a], 1000, HOUR);
		crew_run(operate_or_take);
		assert_true(tally->admitted <= 1005);
		assert_int_equal(cells_of(table, wr_override_key(key_nth(table, &limit, 1))) <= 1,
				 1);
		assert_int_equal(take_nth(table, &limit, 1, 0, T0).banned, 0);
		assert_int_equal(take_nth(table, &limit, 1, 0, T0).limit, 1000);
		ban(1, FOREVER);
		assert_int_equal(take_nth(table, &limit, 1, 1, T0).banned, 1);
		shared_free(tally, sizeof *tally);
		table_drop(table);
	}
}

/* --- killed --- */

#define CHILDREN 3
#define KILLS test_rounds(40, 150)

static struct {
	uint64_t turns[CHILDREN];
	uint64_t admitted;
} * notes;

static uint64_t generation; /* number of the child, so that each child draws other random numbers */

/* An operator, over and over: bans, grants, lifts, resets keys 0 … 7; or a taker from them. */
static int operate_for_ever(void *arg)
{
	int number = (int)(intptr_t)arg;
	struct rnd r = {rnd_seed() + (uint64_t)number + CHILDREN * generation};

	for (;;) {
		uint64_t key = rnd_below(&r, 8);

		switch (number == 0 ? 4 : rnd_below(&r, 5)) {
		case 0:
			ban(key, FOREVER);
			break;
		case 1:
			ban(key, 0);
			break;
		case 2:
			grant(key, 3, FOREVER);
			say(key, "rule", "key");
			break;
		case 3:
			grant(key, 0, 0);
			break;
		default:
			take_nth(table, &limit, key, 1, T0);
		}
		__atomic_fetch_add(&notes->turns[number], 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void let_run(struct rnd *r, const uint64_t *turns)
{
	uint64_t until = __atomic_load_n(turns, __ATOMIC_RELAXED) + rnd_magnitude(r, 200);

	while (__atomic_load_n(turns, __ATOMIC_RELAXED) < until)
		nanosleep(&(struct timespec){0, 1000}, NULL);
	for (uint64_t spin = rnd_below(r, 2000); spin; spin--)
		__asm__ volatile("pause");
}

static void kill_them(void)
{
	struct rnd r = {rnd_seed()};
	pid_t pids[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pids[i] = spawn(operate_for_ever, (void *)(intptr_t)i);
	for (int i = 0; i < KILLS; i++) {
		int victim = (int)rnd_below(&r, CHILDREN);

		let_run(&r, &notes->turns[victim]);
		kill(pids[victim], SIGKILL);
		assert_int_equal(reap(pids[victim]), 256 + SIGKILL);
		generation++;
		pids[victim] = spawn(operate_for_ever, (void *)(intptr_t)victim);
	}
	for (int i = 0; i < CHILDREN; i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(reap(pids[i]), 256 + SIGKILL);
	}
}

/* Whatever dead operators left half done, the next operator's order takes effect for every key, and
 * takers find one cell and one override with its content. */
static void operators_are_killed(void **unused)
{
	(void)unused;
	for (size_t a = 0; a < ALGORITHMS; a += 2) {
		table = table_narrow("override", 2, 4);
		notes = shared_memory(sizeof *notes);
		limit = sized(algorithms[a], 20, HOUR);
		kill_them();
		assert_int_equal(duplicates(table), 0);
		for (uint64_t key = 0; key < 8; key++) {
			struct wr_override found = wr_override_find(
				table, key_nth(table, &limit, key), wr_seconds(T0));
			struct weir_decision d = take_nth(table, &limit, key, 0, T0);

			assert_int_equal(d.banned, found.banned_until_s != 0);
			ban(key, FOREVER);
			assert_int_equal(take_nth(table, &limit, key, 1, T0).banned, 1);
			ban(key, 0);
			grant(key, 0, 0);
			d = take_nth(table, &limit, key, 0, T0);
			assert_int_equal(d.banned, 0);
			assert_int_equal(d.limit, 20);
			assert_false(has_bit(key));
			wr_store_reset(table, &limit, key_nth(table, &limit, key), T0);
			assert_int_equal(take_nth(table, &limit, key, 0, T0).remaining, 20);
		}
		assert_int_equal(table->tallies->override_evicted, 0);
		shared_free(notes, sizeof *notes);
		table_drop(table);
	}
}

/* --- pauses --- */

static void pause_and_resume(int number)
{
	uint64_t hash = wr_pause_hash(&number, sizeof number);

	for (int i = 0; i < 2000; i++) {
		if (!wr_pause_add(table, hash) || !wr_pause_state(table) ||
		    !wr_pause_has(table, hash))
			abort();
		if (!wr_pause_drop(table, hash))
			abort();
	}
}

/* The bit for pauses is set while a thread has a pause, and clear when all have resumed. */
static void the_word_never_misses_a_pause(void **unused)
{
	(void)unused;
	table = table_open("override", MIB, 256 * KIB);
	crew_run(pause_and_resume);
	assert_int_equal(wr_pause_state(table), 0);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_keys_do_not_push_out_a_ban),
		cmocka_unit_test(more_bans_than_cells_are_counted),
		cmocka_unit_test(an_override_that_ended_frees_its_cell),
		cmocka_unit_test(an_ended_ban_leaves_no_trace),
		cmocka_unit_test(a_brief_log_keeps_its_ban_and_count),
		cmocka_unit_test(a_reset_gives_the_ring_back),
		cmocka_unit_test(a_ring_of_a_grant_can_be_finished_without_it),
		cmocka_unit_test(as_under_a_larger_limit),
		cmocka_unit_test(checkpoints_and_resizes_carry_them),
		cmocka_unit_test(nothing_is_lost_to_a_resize),
		cmocka_unit_test(notes_are_kept_as_long_as_there_is_room),
		cmocka_unit_test(notes_without_override_stay_while_there_is_room),
		cmocka_unit_test(operators_and_takers_at_once),
		cmocka_unit_test(operators_are_killed),
		cmocka_unit_test(the_word_never_misses_a_pause),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
