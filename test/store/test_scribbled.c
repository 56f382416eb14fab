/* Random bytes in the cells, the spans and the slab, before and while requests are decided: no
 * crash, no endless loop, and the limits of new keys hold afterwards. */
#include "store/crew.h"

#include <signal.h>
#include <unistd.h>

static struct weir_table *table;
static struct weir_limit limits[10];

static void choose_limits(void)
{
	for (uint32_t i = 0; i < 5; i++) {
		limits[i] = sized(i + 1, 20, MINUTE);
		limits[i + 5] = limits[i];
		limits[i + 5].identity = 1;
		if (i + 1 != WEIR_LEAKY_BUCKET) {
			limits[i + 5].soft_ceiling = 25;
			limits[i + 5].soft_for_ns = SECOND;
		}
		limits[i + 5] = checked(limits[i + 5]);
	}
}

static void scribble(struct rnd *r, void *at, uint64_t bytes, int how_many)
{
	for (int i = 0; i < how_many; i++) {
		uint64_t *word = (uint64_t *)at + rnd_below(r, bytes / 8);
		uint64_t value = rnd_below(r, 2) ? rnd(r) : *word ^ 1ull << rnd_below(r, 64);

		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	}
}

static void scribble_all(struct rnd *r, int how_many)
{
	scribble(r, table->rows, table->row_count * sizeof *table->rows, how_many);
	scribble(r, table->spans, table->span_count * sizeof *table->spans, how_many / 64 + 1);
	scribble(r, table->slab, (uint64_t)table->span_count * table->span_bytes, how_many);
	scribble(r, table->tallies, sizeof *table->tallies, 1);
}

static void ask_anything(struct rnd *r, uint64_t now_ns)
{
	const struct weir_limit *limit = &limits[rnd_below(r, 10)];
	struct weir_decision d =
		take_nth(table, limit, rnd_below(r, 100), (int64_t)rnd_below(r, 30) - 3, now_ns);

	if (d.remaining > d.limit)
		abort();
}

static void ask_for_all(struct rnd *r, uint64_t now_ns)
{
	struct weir_need needs[3];
	struct weir_decision d[3];
	int admitted;

	for (int i = 0; i < 3; i++)
		needs[i] = (struct weir_need){&limits[rnd_below(r, 10)], r, 4,
					      (int64_t)rnd_below(r, 5)};
	if (weir_take_all(table, needs, 3, now_ns, d, &admitted) < 0)
		abort();
}

/* Keys that were never used are limited correctly, although the table is damaged. There may be no
 * room for a log for a minute, so the test waits some time. */
static void new_keys_are_limited(uint64_t now_ns)
{
	for (uint32_t i = 0; i < 5; i++)
		for (uint64_t key = 1000; key < 1020; key++) {
			unsigned admitted = 0, full = 0;

			for (int k = 0; k < 25; k++) {
				struct weir_decision d =
					take_nth(table, &limits[i], key, 1, now_ns);

				admitted += d.admitted;
				full += d.full;
			}
			if (!full)
				assert_int_equal(admitted, 20);
			assert_true(admitted <= 20);
		}
}

static void cells_and_slab(void **unused)
{
	struct rnd r = {rnd_seed()};

	(void)unused;
	choose_limits();
	table = table_narrow("scribbled", 8, 4);
	for (int round = 0; round < 400; round++) {
		uint64_t now_ns = T0 + rnd_below(&r, HOUR);

		table_clear(table);
		for (int i = 0; i < 200; i++)
			ask_anything(&r, now_ns);
		alarm(60);
		for (int i = 0; i < 300; i++) {
			scribble_all(&r, 4);
			ask_anything(&r, now_ns + rnd_below(&r, 3 * MINUTE));
			ask_for_all(&r, now_ns + rnd_below(&r, 3 * MINUTE));
		}
		weir_info(table, now_ns, &(struct weir_info){.size = sizeof(struct weir_info)});
		alarm(0);
	}
	table_drop(table);
}

static void new_keys_after_it(void **unused)
{
	struct rnd r = {rnd_seed()};

	(void)unused;
	choose_limits();
	for (int round = 0; round < 30; round++) {
		table = table_open("after", 256 * KIB, 128 * KIB);
		for (int i = 0; i < 2000; i++)
			ask_anything(&r, T0);
		scribble_all(&r, 100000);
		alarm(60);
		for (int i = 0; i < 2000; i++)
			ask_anything(&r, T0);
		new_keys_are_limited(T0 + 10 * MINUTE);
		alarm(0);
		table_drop(table);
	}
}

/* A damaged table can be saved and resized without a crash. */
static void carried(void **unused)
{
	struct rnd r = {rnd_seed()};

	(void)unused;
	choose_limits();
	for (int round = 0; round < 30; round++) {
		struct weir_opts opts = opts_of("carried", MIB, 256 * KIB);

		table = table_open("carried", 256 * KIB, 128 * KIB);
		for (int i = 0; i < 2000; i++)
			ask_anything(&r, T0);
		scribble_all(&r, 2000);
		alarm(60);
		assert_int_equal(weir_checkpoint(table, in_folder("saved"), T0, NULL), 0);
		assert_int_equal(weir_resize(&opts, T0, NULL), 0);
		alarm(0);
		weir_close(table);
		table = table_open("carried", 0, 0);
		new_keys_are_limited(T0 + 10 * MINUTE);
		table_drop(table);
	}
}

static void one_scribbles_all_ask(int number)
{
	struct rnd r = {(uint64_t)number};

	alarm(100);
	for (int i = 0; i < 3000; i++) {
		if (number == 0)
			scribble_all(&r, 2);
		ask_anything(&r, T0 + (uint64_t)i * SECOND);
		ask_for_all(&r, T0 + (uint64_t)i * SECOND);
	}
}

static void scribbling_during_decisions(void **unused)
{
	(void)unused;
	choose_limits();
	table = table_narrow("while", 8, 4);
	crew_run(one_scribbles_all_ask);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_and_slab),
		cmocka_unit_test(new_keys_after_it),
		cmocka_unit_test(carried),
		cmocka_unit_test(scribbling_during_decisions),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
