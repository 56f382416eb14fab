/* Sliding window log: the ring, pending entries and plans. */
#include "algo/algo_test.h"
#include "algo/log.h"

static struct weir_limit logged(uint32_t limit, uint32_t flags)
{
	return LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = limit, .period_ns = MINUTE,
		     .flags = flags);
}

#define LOG(name, slots)                                                                           \
	uint64_t name##_stamps[slots];                                                             \
	struct weir_log name = {.capacity = (slots), .stamps = name##_stamps};                     \
	memset(name##_stamps, 0xee, sizeof name##_stamps)

static void an_entry_one_period_old_is_out(void **unused)
{
	struct weir_limit l = logged(1, 0);
	LOG(log, 1);

	(void)unused;
	assert_int_equal(log_step(&l, &log, 1, T0).reset_after_ns, MINUTE);
	assert_int_equal(log_step(&l, &log, 1, T0 + MINUTE - 1).retry_after_ns, 1);
	assert_int_equal(log_step(&l, &log, 1, T0 + MINUTE).admitted, 1);
}

static void one_instant_is_only_a_count(void **unused)
{
	struct weir_limit l = logged(5, 0);
	LOG(log, 5);

	(void)unused;
	log_step(&l, &log, 2, T0);
	log_step(&l, &log, 1, T0);
	assert_int_equal(log.count, 3);
	assert_int_equal(log.pending, 3);
	for (int i = 0; i < 5; i++)
		assert_int_equal(log_stamps[i], 0xeeeeeeeeeeeeeeee);
	log_step(&l, &log, 1, T0 + 1);
	assert_int_equal(log.count, 4);
	assert_int_equal(log.pending, 1);
	assert_int_equal(log.newest_ns, T0 + 1);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(wr_algo_log_stamp(&log, i), i < 3 ? T0 : T0 + 1);
}

static void waits_for_as_many_as_needed(void **unused)
{
	struct weir_limit l = logged(4, 0);
	LOG(log, 7);

	(void)unused;
	for (uint64_t i = 0; i < 4; i++)
		log_step(&l, &log, 1, T0 + i * SECOND);
	for (uint64_t n = 1; n <= 4; n++)
		assert_int_equal(log_step(&l, &log, (int64_t)n, T0 + 10 * SECOND).retry_after_ns,
				 (50 + n - 1) * SECOND);
	assert_int_equal(log_step(&l, &log, 5, T0 + 10 * SECOND).retry_after_ns, WEIR_NEVER);
	assert_int_equal(log_step(&l, &log, 0, T0 + 62 * SECOND).remaining, 3);
	assert_int_equal(log.count, 4); /* a request of cost 0 does not remove old entries */
	log_step(&l, &log, 1, T0 + 62 * SECOND);
	assert_int_equal(log.count, 2);
}

static void the_ring_wraps(void **unused)
{
	struct weir_limit l = logged(3, 0);
	LOG(log, 3);

	(void)unused;
	for (uint64_t i = 0; i < 1000; i++) {
		struct weir_decision d = log_step(&l, &log, 1, T0 + i * 20 * SECOND);

		assert_int_equal(d.admitted, 1);
		assert_int_equal(d.remaining, i < 2 ? 2 - i : 0);
		if (i >= 2)
			assert_int_equal(log_step(&l, &log, 1, T0 + i * 20 * SECOND).retry_after_ns,
					 20 * SECOND);
	}
}

static void gives_back_the_newest(void **unused)
{
	struct weir_limit l = logged(5, 0);
	LOG(log, 5);
	struct weir_decision d;

	(void)unused;
	log_step(&l, &log, 2, T0);
	log_step(&l, &log, 3, T0 + SECOND);
	d = log_step(&l, &log, -2, T0 + SECOND);
	assert_int_equal(d.remaining, 2);
	assert_int_equal(d.reset_after_ns, MINUTE);
	assert_int_equal(log.pending, 1);
	d = log_step(&l, &log, -2, T0 + SECOND);
	assert_int_equal(d.remaining, 4);
	assert_int_equal(d.reset_after_ns, MINUTE - SECOND);
	assert_int_equal(log.pending, 0); /* the entries that are left are in the ring */
	assert_int_equal(log.newest_ns, T0 + SECOND); /* newest_ns does not go back */
	log_step(&l, &log, 1, T0 + 2 * SECOND);
	assert_int_equal(wr_algo_log_stamp(&log, 0), T0);
	assert_int_equal(wr_algo_log_stamp(&log, 1), T0 + 2 * SECOND);
	assert_int_equal(log_step(&l, &log, INT64_MIN, T0 + 2 * SECOND).reset_after_ns, 0);
	assert_int_equal(log.count, 0);
	assert_int_equal(log_step(&l, &log, 5, T0).reset_after_ns,
			 MINUTE); /* the clock steps back */
}

static void rejected_ones_push_out_the_oldest(void **unused)
{
	struct weir_limit l = logged(3, WEIR_COUNT_REJECTED);
	LOG(log, 3);
	struct weir_decision d;

	(void)unused;
	for (uint64_t i = 0; i < 3; i++)
		log_step(&l, &log, 1, T0 + i * SECOND);
	d = log_step(&l, &log, 1, T0 + 10 * SECOND);
	assert_int_equal(d.admitted, 0);
	/* Until the entry of 1 s leaves; the entry of 0 s is already too old. */
	assert_int_equal(d.retry_after_ns, 51 * SECOND);
	assert_int_equal(log.count, 3);
	assert_int_equal(wr_algo_log_stamp(&log, 0), T0 + SECOND);
	d = log_step(&l, &log, 2, T0 + 20 * SECOND);
	/* Entries of 10 s, 20 s and 20 s: two of them must leave. */
	assert_int_equal(d.retry_after_ns, MINUTE);
	assert_int_equal(wr_algo_log_stamp(&log, 0), T0 + 10 * SECOND);
	d = log_step(&l, &log, INT64_MAX, T0 + 21 * SECOND);
	assert_int_equal(d.retry_after_ns, WEIR_NEVER);
	assert_int_equal(log.count, 3);
	assert_int_equal(wr_algo_log_stamp(&log, 0), T0 + 21 * SECOND);
}

static void the_clock_steps_back(void **unused)
{
	struct weir_limit l = logged(4, 0);
	LOG(log, 4);
	struct weir_decision d;

	(void)unused;
	log_step(&l, &log, 1, T0);
	log_step(&l, &log, 1, T0 + 10 * SECOND);
	log_step(&l, &log, 1, T0 + 20 * SECOND);
	log_step(&l, &log, 1, T0 + 30 * SECOND);
	d = log_step(&l, &log, 2, T0 + 15 * SECOND);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 55 * SECOND);
	assert_int_equal(d.reset_after_ns, MINUTE); /* and not 75 s */
	assert_int_equal(log.newest_ns, T0 + 15 * SECOND);
	assert_int_equal(log.pending, 2);
	/* The stamps that were moved from the future stay corrected after newer stamps follow. */
	assert_int_equal(log_step(&l, &log, 1, T0 + 60 * SECOND).admitted, 1);
	assert_int_equal(wr_algo_log_stamp(&log, 1), T0 + 15 * SECOND);
	assert_int_equal(wr_algo_log_stamp(&log, 2), T0 + 15 * SECOND);
	assert_int_equal(log_step(&l, &log, 3, T0 + 75 * SECOND).admitted, 1);
}

static void a_step_back_to_the_epoch(void **unused)
{
	struct weir_limit l = logged(3, 0);
	LOG(log, 3);

	(void)unused;
	log_step(&l, &log, 1, T0);
	log_step(&l, &log, 2, T0 + SECOND);
	assert_int_equal(log_step(&l, &log, 1, 5).retry_after_ns, MINUTE);
	assert_int_equal(log.pending, 3);
	assert_int_equal(log_step(&l, &log, 3, 5 + MINUTE).admitted, 1);
}

static void a_changed_limit(void **unused)
{
	struct weir_limit five = logged(5, 0), two = logged(2, 0);
	LOG(log, 5);
	struct weir_decision d;

	(void)unused;
	for (uint64_t i = 0; i < 5; i++)
		log_step(&five, &log, 1, T0 + i * SECOND);
	d = log_step(&two, &log, 1, T0 + 10 * SECOND);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.retry_after_ns, 53 * SECOND); /* the entries of 0 … 3 s must leave */
	assert_int_equal(log_step(&five, &log, 2, T0 + 61 * SECOND).admitted, 1);
}

static void rings_that_do_not_fit(void **unused)
{
	struct weir_limit l = logged(4, 0), none = logged(0, WEIR_COUNT_REJECTED);
	LOG(log, 4);
	struct weir_decision d;

	(void)unused;
	log.capacity = 3;
	assert_int_equal(weir_log_step(&l, &log, NULL, 1, T0, &d), WEIR_EINVAL);
	log.capacity = 4;
	log.head = 4;
	assert_int_equal(weir_log_step(&l, &log, NULL, 1, T0, &d), WEIR_EINVAL);
	log.head = 0;
	log.count = 5;
	assert_int_equal(weir_log_step(&l, &log, NULL, 1, T0, &d), WEIR_EINVAL);
	log.count = 1;
	log.pending = 2;
	assert_int_equal(weir_log_step(&l, &log, NULL, 1, T0, &d), WEIR_EINVAL);
	log = (struct weir_log){.capacity = 4};
	assert_int_equal(weir_log_step(&l, &log, NULL, 1, T0, &d), WEIR_EINVAL);
	log = (struct weir_log){0}; /* a limit of 0 needs no ring */
	d = log_step(&none, &log, 1, T0);
	assert_int_equal(d.retry_after_ns, WEIR_NEVER);
	assert_int_equal(d.reset_after_ns, 0);
}

static void asks_for_a_larger_ring(void **unused)
{
	struct weir_limit l = logged(10, 0);
	LOG(log, 4);
	struct weir_log nothing = {0};
	struct weir_decision d;
	struct wr_algo_log_plan p;

	(void)unused;
	wr_algo_log_plan(&l, 10, &nothing, 3, T0, &d, &p);
	assert_true(d.admitted && p.needs_grow);
	assert_int_equal(p.count, 3);
	wr_algo_log_plan(&l, 10, &log, 4, T0, &d, &p);
	assert_false(p.needs_grow);
	wr_algo_log_commit(&log, &p);
	wr_algo_log_plan(&l, 10, &log, 1, T0 + 1, &d, &p);
	assert_true(p.needs_grow);
	assert_int_equal(p.count, 5);
	/* The old entries do not count any more. */
	wr_algo_log_plan(&l, 10, &log, 4, T0 + MINUTE, &d, &p);
	assert_false(p.needs_grow);
}

static void a_plan_changes_nothing(void **unused)
{
	struct weir_limit l = logged(3, 0);
	LOG(log, 3);
	struct weir_decision d;
	struct wr_algo_log_plan p;

	(void)unused;
	log_step(&l, &log, 2, T0);
	struct weir_log before = log;

	wr_algo_log_plan(&l, 3, &log, 1, T0 + 1, &d, &p);
	assert_memory_equal(&before, &log, sizeof log);
	assert_int_equal(p.flush, 2);
	assert_int_equal(p.flush_ns, T0);
	assert_true(p.changed);
	assert_false(p.rebase);
	wr_algo_log_plan(&l, 3, &log, 2, T0 + 1, &d, &p);
	assert_false(p.changed);
	wr_algo_log_plan(&l, 3, &log, 0, T0 - SECOND, &d, &p);
	assert_false(p.changed);
	wr_algo_log_plan(&l, 3, &log, 0, T0 - SECOND - 1, &d, &p);
	assert_true(p.changed && p.rebase);
	assert_int_equal(p.flush, 0);
	wr_algo_log_plan_charge(&l, &log, 2, T0 + 1, &p);
	assert_int_equal(p.count, 3);
	assert_int_equal(wr_algo_log_wait(&l, 3, &log, 2, T0 + 1), MINUTE - 1);
	assert_int_equal(wr_algo_log_wait(&l, 3, &log, 1, T0 + 1), 0);
}

/* The log has random words and stamps, as a damaged table may have. Each step makes a decision and
 * leaves a consistent log. */
static void any_words(void **unused)
{
	struct rnd r = {rnd_seed()};
	LOG(log, 8);

	(void)unused;
	for (int i = 0; i < 200000; i++) {
		struct weir_limit l = logged(1 + (uint32_t)rnd_below(&r, 8),
					     rnd_below(&r, 2) ? WEIR_COUNT_REJECTED : 0);
		struct weir_decision d;

		log.newest_ns = rnd(&r) >> rnd_below(&r, 64);
		log.head = (uint32_t)rnd_below(&r, 10);
		log.count = (uint32_t)rnd_below(&r, 10);
		log.pending = (uint32_t)rnd_below(&r, 10);
		for (int slot = 0; slot < 8; slot++)
			log_stamps[slot] = rnd(&r) >> rnd_below(&r, 64);
		bool ok = wr_algo_log_view_ok(&log);
		int rc = weir_log_step(&l, &log, NULL, (int64_t)rnd_below(&r, 12) - 2, T0, &d);

		assert_int_equal(rc, ok ? 0 : WEIR_EINVAL);
		assert_true(
			!ok ||
			(wr_algo_log_view_ok(&log) && d.reset_after_ns <= MINUTE + SECOND &&
			 (d.retry_after_ns <= MINUTE + SECOND || d.retry_after_ns == WEIR_NEVER)));
	}
}

static void the_largest_log(void **unused)
{
	static uint64_t stamps[WEIR_LOG_MAX];
	struct weir_log log = {.capacity = WEIR_LOG_MAX, .stamps = stamps};
	struct weir_limit l = logged(WEIR_LOG_MAX, 0);

	(void)unused;
	for (uint64_t i = 0; i < 3 * WEIR_LOG_MAX; i++) {
		uint64_t now_ns = T0 + i * (MINUTE / WEIR_LOG_MAX + 1);
		struct weir_decision d = log_step(&l, &log, 1, now_ns);

		assert_int_equal(d.admitted, 1);
	}
	/* The interval above is rounded up by almost 1 ns, so a few entries leave early. */
	assert_int_equal(log_step(&l, &log, WEIR_LOG_MAX, T0 + HOUR).remaining, 0);
	assert_int_equal(log_step(&l, &log, 1, T0 + HOUR).retry_after_ns, MINUTE);
}

static void latecomers(void **unused)
{
	struct weir_limit l = logged(4, 0);
	LOG(log, 4);
	struct weir_decision d;
	struct wr_algo_log_plan p;

	(void)unused;
	log_step(&l, &log, 3, T0);
	d = log_step(&l, &log, 1, T0 - SECOND); /* gets the stamp of the other entries */
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.reset_after_ns, 61 * SECOND);
	assert_int_equal(log.newest_ns, T0);
	assert_int_equal(log.pending, 4);
	d = log_step(&l, &log, 1, T0 - SECOND / 2);
	assert_int_equal(d.retry_after_ns, 60 * SECOND + SECOND / 2);
	assert_int_equal(wr_algo_log_wait(&l, 4, &log, 1, T0 - SECOND / 2),
			 60 * SECOND + SECOND / 2);
	assert_int_equal(wr_algo_log_wait(&l, 4, &log, 5, T0 - SECOND / 2), WEIR_NEVER);
	assert_int_equal(log.newest_ns, T0);
	wr_algo_log_plan_charge(&l, &log, 2, T0 - SECOND / 2, &p);
	assert_int_equal(p.newest_ns, T0);
	assert_false(p.rebase);
	log_step(&l, &log, 1, T0 - SECOND - 1); /* a step back */
	assert_int_equal(log.newest_ns, T0 - SECOND - 1);
}

/* An append drops entries that are a period old. If the new entry is given back, a latecomer, for
 * which the dropped entries are younger than a period, must not be admitted instead of them. */
static void late_after_a_give_back(void **unused)
{
	struct weir_limit one = logged(1, 0), two = logged(2, 0);
	LOG(log, 2);

	(void)unused;
	log_step(&one, &log, 1, T0 - MINUTE);
	log_step(&one, &log, 1, T0);
	log_step(&one, &log, -1, T0);
	assert_int_equal(log.count, 0);
	assert_int_equal(log_step(&one, &log, 1, T0 - SECOND / 2).admitted, 1);
	assert_int_equal(log.newest_ns, T0);

	log = (struct weir_log){.capacity = 2, .stamps = log_stamps};
	log_step(&two, &log, 1, T0 - MINUTE);
	log_step(&two, &log, 1, T0 - MINUTE / 2);
	log_step(&two, &log, 1, T0);
	struct weir_decision d = log_step(&two, &log, -1, T0);

	assert_int_equal(d.reset_after_ns, MINUTE / 2);
	assert_int_equal(log_step(&two, &log, 1, T0 - SECOND / 2).admitted, 1);
	assert_int_equal(log.newest_ns, T0);
	assert_int_equal(wr_algo_log_stamp(&log, 0), T0 - MINUTE / 2);
	assert_int_equal(wr_algo_log_stamp(&log, 1), T0);
}

/* Two limits use one log, as during a reload. The smaller limit refuses and counts a request, but
 * drops no entries that the larger limit admitted. */
static void a_smaller_limit_forgets_nothing(void **unused)
{
	struct weir_limit large = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 100,
					.period_ns = MINUTE, .flags = WEIR_COUNT_REJECTED);
	struct weir_limit small = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 10,
					.period_ns = MINUTE, .flags = WEIR_COUNT_REJECTED);
	uint64_t stamps[128];
	struct weir_log log = {.capacity = 128, .stamps = stamps};

	(void)unused;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(log_step(&large, &log, 1, T0 + i).admitted, 1);
	assert_int_equal(log_step(&small, &log, 1, T0 + SECOND).admitted, 0);
	assert_int_equal(log.count, 100);
	assert_int_equal(log_step(&large, &log, 0, T0 + SECOND).remaining, 0);
	assert_int_equal(log_step(&small, &log, 25, T0 + 2 * SECOND).admitted, 0);
	/* Only 10 of the 25 units are added: 89 of the first entries stay, then 1 and 10. */
	assert_int_equal(log_step(&large, &log, 0, T0 + MINUTE + 10).remaining, 0);
	assert_int_equal(log_step(&large, &log, 0, T0 + MINUTE + 11).remaining, 1);
	assert_int_equal(log_step(&large, &log, 0, T0 + MINUTE + 99).remaining, 89);
	assert_int_equal(log_step(&large, &log, 0, T0 + MINUTE + 2 * SECOND).remaining, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_smaller_limit_forgets_nothing),
		cmocka_unit_test(an_entry_one_period_old_is_out),
		cmocka_unit_test(one_instant_is_only_a_count),
		cmocka_unit_test(waits_for_as_many_as_needed),
		cmocka_unit_test(the_ring_wraps),
		cmocka_unit_test(gives_back_the_newest),
		cmocka_unit_test(rejected_ones_push_out_the_oldest),
		cmocka_unit_test(the_clock_steps_back),
		cmocka_unit_test(latecomers),
		cmocka_unit_test(late_after_a_give_back),
		cmocka_unit_test(a_step_back_to_the_epoch),
		cmocka_unit_test(a_changed_limit),
		cmocka_unit_test(rings_that_do_not_fit),
		cmocka_unit_test(asks_for_a_larger_ring),
		cmocka_unit_test(a_plan_changes_nothing),
		cmocka_unit_test(any_words),
		cmocka_unit_test(the_largest_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
