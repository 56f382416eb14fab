/* Promises of the public headers that concern every caller: option structs of older and newer
 * callers, decisions after an error, and the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/control.h>
#include <weir/host.h>
#include <weir/weir.h>

#define SECOND_NS 1000000000ull
#define NOW_NS (1794787200ull * SECOND_NS)

/* ---- rig ---- */

static struct weir_table *open_table(const struct weir_opts *like)
{
	struct weir_opts opts = *like;
	struct weir_error error = {0};
	struct weir_table *table;
	char name[64];

	snprintf(name, sizeof name, "test-lib-calls-%d", (int)getpid());
	opts.name = name;
	opts.dir = "/dev/shm";
	if (weir_open(&opts, &table, &error) != 0)
		fail_msg("%s", error.text);
	weir_remove(name, opts.dir, NULL);
	return table;
}

static struct weir_table *small_table(void)
{
	struct weir_opts opts = {.size = sizeof opts, .memory_bytes = 1 << 20};

	return open_table(&opts);
}

static struct weir_limit one_per_second(void)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_FIXED_WINDOW,
				   .limit = 1,
				   .period_ns = SECOND_NS};

	assert_int_equal(weir_limit_check(&limit, NULL), 0);
	return limit;
}

static void assert_zero(const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(((const uint8_t *)bytes)[i], 0);
}

/* ---- option structs ---- */

/* struct weir_engine_opts without `host` and `fleet_size`, as an older header had it. */
struct old_engine_opts {
	uint32_t size;
	uint32_t flags;
	const uint8_t *fleet_secret;
	uint64_t now_ns;
	uint32_t near_percent;
	uint32_t keys;
	uint8_t behind[64]; /* memory that does not belong to the struct */
};

static void test_options_of_an_older_caller_get_defaults(void **unused)
{
	struct old_engine_opts old = {.size = offsetof(struct old_engine_opts, behind),
				      .near_percent = 50,
				      .now_ns = NOW_NS};
	struct weir_table *table = small_table();
	struct weir_engine *engine;

	(void)unused;
	assert_int_equal(old.size, offsetof(struct weir_engine_opts, host));
	memset(old.behind, 0xff, sizeof old.behind); /* a `host` read from here would crash */
	assert_int_equal(
		weir_engine_new(table, NULL, (const struct weir_engine_opts *)&old, &engine), 0);
	weir_engine_free(engine);

	old.near_percent = 101; /* fields that the older caller knows are still checked */
	assert_int_equal(
		weir_engine_new(table, NULL, (const struct weir_engine_opts *)&old, &engine),
		WEIR_EINVAL);
	weir_close(table);
}

/* A struct of a newer header, with one more field. */
struct new_engine_opts {
	struct weir_engine_opts known;
	uint64_t unknown;
};

static void test_unknown_options_of_a_newer_caller_must_be_zero(void **unused)
{
	struct new_engine_opts new = {.known.size = sizeof new};
	struct weir_table *table = small_table();
	struct weir_engine *engine;

	(void)unused;
	assert_int_equal(weir_engine_new(table, NULL, &new.known, &engine), 0);
	weir_engine_free(engine);
	new.unknown = 1;
	assert_int_equal(weir_engine_new(table, NULL, &new.known, &engine), WEIR_EINVAL);
	weir_close(table);
}

static void test_a_size_that_was_never_set_is_an_error(void **unused)
{
	static const uint32_t sizes[] = {0, 4, 7, 12, 1u << 20, UINT32_MAX};
	struct weir_engine_opts opts = {0};
	struct weir_watch_opts watch_opts = {0};
	struct weir_table *table = small_table();
	struct weir_engine *engine;
	struct weir_watch *watch;

	(void)unused;
	assert_int_equal(weir_engine_new(table, NULL, NULL, &engine), 0);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct weir_engine *other;
		struct weir_opts table_opts = {.size = sizes[i]};
		struct weir_target target = {.size = sizes[i]};
		struct weir_table *no_table;

		opts.size = watch_opts.size = sizes[i];
		assert_int_equal(weir_engine_new(table, NULL, &opts, &other), WEIR_EINVAL);
		assert_int_equal(weir_watch_start(engine, "/", NULL, &watch_opts, &watch),
				 WEIR_EINVAL);
		assert_int_equal(weir_open(&table_opts, &no_table, NULL), WEIR_EINVAL);
		assert_int_equal(weir_control_reset(engine, &target, NOW_NS, NULL), WEIR_EINVAL);
	}
	weir_engine_free(engine);
	weir_close(table);
}

/* The memory behind the struct of an older caller has 0xff bytes, which are an invalid pointer, an
 * invalid size and an unknown flag. */
static void test_every_option_struct_accepts_an_older_size(void **unused)
{
	struct weir_opts opts;
	struct weir_watch_opts watch_opts;
	struct weir_http_view view;
	struct weir_target target;
	struct weir_entry entry = {.key = {"user", 4}, .value = {"7", 1}};
	_Alignas(16) char memory[WEIR_ASK_BYTES];
	struct weir_table *table;
	struct weir_engine *engine;
	struct weir_watch *watch;
	struct weir_ask *ask;

	(void)unused;
	memset(&opts, 0xff, sizeof opts);
	opts.flags = 0;
	opts.memory_bytes = 1 << 20;
	opts.log_bytes = 0;
	opts.size = offsetof(struct weir_opts, restore_from);
	table = open_table(&opts);
	assert_int_equal(weir_engine_new(table, NULL, NULL, &engine), 0);

	memset(&watch_opts, 0xff, sizeof watch_opts);
	watch_opts.flags = WEIR_WATCH_BY_HOST;
	watch_opts.size = offsetof(struct weir_watch_opts, loaded);
	assert_int_equal(weir_watch_start(engine, "/nowhere", NULL, &watch_opts, &watch), 0);
	assert_int_equal(weir_watch_look(watch), 0);
	weir_watch_stop(watch);

	memset(&target, 0xff, sizeof target);
	target.size = offsetof(struct weir_target, limit);
	target.domain = (struct weir_str){"api", 3};
	target.entries = &entry;
	target.count = 1;
	assert_int_equal(weir_control_reset(engine, &target, NOW_NS, NULL), WEIR_ENOENT);

	memset(&view, 0xff, sizeof view);
	view.size = offsetof(struct weir_http_view, identity);
	view.peer_len = 0;
	view.method = (struct weir_str){"GET", 3};
	view.target = (struct weir_str){"/", 1};
	view.host = (struct weir_str){"", 0};
	assert_int_equal(weir_ask_init(memory, sizeof memory, engine, target.domain, &ask), 0);
	assert_int_equal(weir_ask_http(ask, &view), 0);
	assert_int_equal(weir_ask_decide(ask, NOW_NS), WEIR_ADMIT);
	weir_ask_done(ask);

	weir_engine_free(engine);
	weir_close(table);
}

/* ---- decisions ---- */

static void test_take_and_return_zero_the_decision_on_error(void **unused)
{
	struct weir_table *table = small_table();
	struct weir_limit limit = one_per_second(), unchecked = limit;
	struct weir_decision d;

	(void)unused;
	unchecked.checked = 0;
#define FAILS(rc, call)                                                                            \
	memset(&d, 0xff, sizeof d);                                                                \
	assert_int_equal(call, rc);                                                                \
	assert_zero(&d, sizeof d)
	FAILS(WEIR_EINVAL, weir_take(NULL, &limit, "k", 1, 1, NOW_NS, &d));
	FAILS(WEIR_EINVAL, weir_take(table, NULL, "k", 1, 1, NOW_NS, &d));
	FAILS(WEIR_EINVAL, weir_take(table, &limit, "k", 1, -1, NOW_NS, &d));
	FAILS(WEIR_ELIMIT, weir_take(table, &unchecked, "k", 1, 1, NOW_NS, &d));
	FAILS(WEIR_ETIME, weir_take(table, &limit, "k", 1, 1, UINT64_MAX, &d));
	FAILS(WEIR_EINVAL, weir_return(table, &limit, NULL, 1, 1, NOW_NS, NOW_NS, &d));
	FAILS(WEIR_ELIMIT, weir_return(table, &unchecked, "k", 1, 1, NOW_NS, NOW_NS, &d));
	FAILS(WEIR_ETIME, weir_return(table, &limit, "k", 1, 1, UINT64_MAX, NOW_NS, &d));
	FAILS(WEIR_ETIME, weir_return(table, &limit, "k", 1, 1, NOW_NS, UINT64_MAX, &d));
#undef FAILS
	assert_int_equal(weir_take(table, &limit, "k", 1, 1, NOW_NS, NULL), WEIR_EINVAL);
	assert_int_equal(weir_take(table, &limit, "k", 1, 1, NOW_NS, &d), 0);
	assert_int_equal(d.admitted, 1);
	weir_close(table);
}

static void test_take_all_zeroes_the_decisions_on_error(void **unused)
{
	struct weir_table *table = small_table();
	struct weir_limit limit = one_per_second(), unchecked = limit;
	struct weir_need needs[WEIR_NEEDS_MAX + 1];
	struct weir_decision d[WEIR_NEEDS_MAX + 1];
	int admitted;

	(void)unused;
	unchecked.checked = 0;
	for (size_t i = 0; i <= WEIR_NEEDS_MAX; i++)
		needs[i] = (struct weir_need){&limit, "k", 1, 1};
#define FAILS(rc, count, now_ns)                                                                   \
	memset(d, 0xff, sizeof d);                                                                 \
	admitted = 1;                                                                              \
	assert_int_equal(weir_take_all(table, needs, count, now_ns, d, &admitted), rc);            \
	assert_int_equal(admitted, 0);                                                             \
	assert_zero(d, (count) * sizeof *d)
	FAILS(WEIR_EMANY, WEIR_NEEDS_MAX + 1, NOW_NS);
	FAILS(WEIR_ETIME, 2, UINT64_MAX);
	needs[1].limit = &unchecked;
	FAILS(WEIR_ELIMIT, 2, NOW_NS);
#undef FAILS
	weir_close(table);
}

static void test_take_many_zeroes_the_decisions_on_error(void **unused)
{
	struct weir_table *table = small_table();
	struct weir_limit limit = one_per_second(), unchecked = limit;
	struct weir_need takes[2] = {{&limit, "k", 1, 1}, {&unchecked, "l", 1, 1}};
	struct weir_decision d[2];

	(void)unused;
	unchecked.checked = 0;
	memset(d, 0xff, sizeof d);
	assert_int_equal(weir_take_many(table, takes, 2, NOW_NS, d), WEIR_ELIMIT);
	assert_zero(d, sizeof d);
	memset(d, 0xff, sizeof d);
	assert_int_equal(weir_take_many(table, takes, 1, UINT64_MAX, d), WEIR_ETIME);
	assert_zero(d, sizeof *d);
	weir_close(table);
}

static void test_step_zeroes_the_decision_on_error(void **unused)
{
	struct weir_limit limit = one_per_second(), log = limit;
	struct weir_state state = {0};
	struct weir_log ring = {0};
	struct weir_decision d;

	(void)unused;
	log.algorithm = WEIR_SLIDING_LOG;
	log.checked = 0;
	assert_int_equal(weir_limit_check(&log, NULL), 0);
	memset(&d, 0xff, sizeof d);
	assert_int_equal(weir_step(&limit, &state, NULL, 1, UINT64_MAX, &d), WEIR_ETIME);
	assert_zero(&d, sizeof d);
	memset(&d, 0xff, sizeof d);
	assert_int_equal(weir_step(NULL, &state, NULL, 1, NOW_NS, &d), WEIR_EINVAL);
	assert_zero(&d, sizeof d);
	memset(&d, 0xff, sizeof d);
	assert_int_equal(weir_log_step(&log, &ring, NULL, 1, NOW_NS, &d), WEIR_EINVAL);
	assert_zero(&d, sizeof d);
}

/* ---- clock ---- */

static void test_now_is_clock_realtime(void **unused)
{
	struct timespec before, after;
	uint64_t now_ns;

	(void)unused;
	clock_gettime(CLOCK_REALTIME, &before);
	now_ns = weir_now_ns();
	clock_gettime(CLOCK_REALTIME, &after);
	assert_in_range(now_ns, (uint64_t)before.tv_sec * SECOND_NS + (uint64_t)before.tv_nsec,
			(uint64_t)after.tv_sec * SECOND_NS + (uint64_t)after.tv_nsec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_of_an_older_caller_get_defaults),
		cmocka_unit_test(test_unknown_options_of_a_newer_caller_must_be_zero),
		cmocka_unit_test(test_a_size_that_was_never_set_is_an_error),
		cmocka_unit_test(test_every_option_struct_accepts_an_older_size),
		cmocka_unit_test(test_take_and_return_zero_the_decision_on_error),
		cmocka_unit_test(test_take_all_zeroes_the_decisions_on_error),
		cmocka_unit_test(test_take_many_zeroes_the_decisions_on_error),
		cmocka_unit_test(test_step_zeroes_the_decision_on_error),
		cmocka_unit_test(test_now_is_clock_realtime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
