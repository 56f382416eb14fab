/* Generations of rules: how long they live, and weir_engine_info. A decision allocates nothing. */
#include "helper.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"

// NOLINTBEGIN(bugprone-reserved-identifier)
/* Heap allocations, counted with the linker's --wrap. */
static uint64_t allocations;
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_aligned_alloc(size_t, size_t);

void *__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	allocations++;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	allocations++;
	return __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	allocations++;
	return __real_aligned_alloc(align, bytes);
}
// NOLINTEND(bugprone-reserved-identifier)

static const char one[] = "domain: d\n"
			  "descriptors:\n"
			  "- key: a\n"
			  "  rate_limit: {unit: day, requests_per_unit: 3, name: one}\n";
static const char two[] = "domain: d\n"
			  "descriptors:\n"
			  "- key: a\n"
			  "  rate_limit: {unit: day, requests_per_unit: 5, name: two}\n";

static struct weir_engine_info info(struct rig *rig)
{
	struct weir_engine_info got = {.size = sizeof got};

	assert_int_equal(weir_engine_info(rig->engine, &got), 0);
	return got;
}

/* A counter survives a change of its limit. */
static void counters_survive_a_swap(void **state)
{
	struct rig rig;

	rig_open(&rig, one, "d");
	assert_int_equal(rig_admitted(&rig, "a=1", 9), 3);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(two), NOW_NS + 1), 0);
	assert_int_equal(rig_admitted(&rig, "a=1", 9), 2);
	assert_int_equal(rig_result(&rig).generation, 2);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(one), NOW_NS + 2), 0);
	assert_int_equal(rig_admitted(&rig, "a=1", 9), 0);
	/* The statistics continue too, because a rule is identified by its path and period. */
	assert_int_equal(rig_stat(&rig, "d/a/1d").admitted, 5);
	assert_int_equal(rig_stat(&rig, "d/a/1d").refused, 6 + 7 + 9);
	rig_close(&rig);
	(void)state;
}

/* A request is decided by the rules with which it began, and their texts stay valid as long as the
 * request. */
static void requests_keep_their_rules(void **state)
{
	struct rig rig;

	rig_open(&rig, one, "d");
	rig_begin(&rig);
	for (int i = 0; i < 5; i++)
		assert_int_equal(weir_engine_swap(rig.engine, rig_rules(two), NOW_NS), 0);
	assert_int_equal(info(&rig).held, 1);
	assert_int_equal(info(&rig).generation, 6);
	rig_add(&rig, "a=1", 4);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE); /* 3 per day */
	assert_int_equal(rig_result(&rig).generation, 1);
	assert_true(wr_str_equal(rig_status(&rig, 0).name, WR_STR("one")));
	assert_non_null(rig_header(&rig, WEIR_PROFILE_X, "RateLimit"));
	weir_ask_done(rig.ask);
	assert_int_equal(info(&rig).held, 0);
	rig_close(&rig);
	(void)state;
}

/* The memory of a generation is freed when its last request ends, not at the next swap. */
static void rules_are_freed_with_their_last_request(void **state)
{
	static char yaml[200000] = "domain: d\ndescriptors:\n";
	size_t len = strlen(yaml), before;
	struct rig rig;

	for (int i = 0; i < 2000; i++)
		len += (size_t)snprintf(
			yaml + len, sizeof yaml - len,
			"- {key: k%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i);
	rig_open(&rig, yaml, "d");
	rig_begin(&rig);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(one), NOW_NS), 0);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	weir_ask_done(rig.ask);
	/* Only glibc's malloc reports the memory in use; the malloc of a sanitizer does not. */
	if (before)
		assert_true(mallinfo2().uordblks + mallinfo2().hblkhd + 500000 < before);
	rig_close(&rig);
	(void)state;
}

static void load_failures_are_reported(void **state)
{
	struct weir_engine_info got;
	struct rig rig;

	rig_open_with(&rig, NULL, "d", 0);
	assert_int_equal(info(&rig).generation, 0);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_result(&rig).generation, 0);
	assert_int_equal(rig_stat(&rig, "domain_not_found").admitted, 1);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(one), NOW_NS + 7), 0);
	got = info(&rig);
	assert_int_equal(got.generation, 1);
	assert_int_equal(got.loaded_ns, NOW_NS + 7);
	assert_int_equal(got.loads_good, 1);
	assert_int_not_equal(got.hash, 0);
	assert_int_equal(
		weir_engine_load_failed(rig.engine, "rules.yaml:3:5: error: no", NOW_NS + 8), 0);
	got = info(&rig);
	assert_string_equal(got.error, "rules.yaml:3:5: error: no");
	assert_int_equal(got.failed_ns, NOW_NS + 8);
	assert_int_equal(got.loads_failed, 1);
	assert_int_equal(got.generation, 1);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(one), NOW_NS + 9), 0);
	got = info(&rig);
	assert_string_equal(got.error, "");
	assert_int_equal(got.failed_ns, 0);
	assert_int_equal(got.loads_failed, 1);
	assert_int_equal(weir_engine_swap(rig.engine, NULL, 1), WEIR_EINVAL);
	got.size = 1;
	assert_int_equal(weir_engine_info(rig.engine, &got), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

/* Several asks at once, as in hosts with waiting requests. */
static void several_asks_at_once(void **state)
{
	static _Alignas(64) char memory[70][WEIR_ASK_BYTES];
	struct weir_entry entry = {WR_STR("a"), WR_STR("1"), WR_STR("")};
	struct weir_ask *asks[70];
	struct rig rig;

	rig_open(&rig, one, "d");
	for (int i = 0; i < 70; i++) {
		assert_int_equal(weir_ask_init(memory[i], sizeof memory[i], rig.engine, WR_STR("d"),
					       &asks[i]),
				 0);
		assert_int_equal(weir_engine_swap(rig.engine, rig_rules(i % 2 ? one : two), NOW_NS),
				 0);
	}
	assert_int_equal(info(&rig).held, 70);
	for (int i = 69; i >= 0; i -= 3) {
		assert_int_equal(weir_ask_add(asks[i], &entry, 1, NULL, 0), 0);
		assert_int_equal(weir_ask_decide(asks[i], NOW_NS), WEIR_ADMIT);
	}
	for (int i = 0; i < 70; i++)
		weir_ask_done(asks[i]);
	assert_int_equal(info(&rig).held, 0);
	/* A second call does nothing. */
	weir_ask_done(asks[0]);
	weir_ask_done(NULL);
	assert_int_equal(weir_ask_decide(asks[0], NOW_NS), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

/* No call of a request allocates. */
static void decisions_allocate_nothing(void **state)
{
	struct weir_str type;
	char bytes[2048];
	struct rig rig;
	uint64_t before;

	rig_open(&rig,
		 "domain: d\n"
		 "requests:\n"
		 "- descriptor: [{key: user, from: [header.x-user, remote_address]}]\n"
		 "- descriptor: [{key: month, value: all}]\n"
		 "descriptors:\n"
		 "- key: user\n"
		 "  rate_limits:\n"
		 "  - {unit: second, requests_per_unit: 2, algorithm: token_bucket}\n"
		 "  - {unit: minute, requests_per_unit: 100, algorithm: sliding_window_log}\n"
		 "  - {unit: hour, requests_per_unit: 100, mode: soft, soft: {overshoot: 5%, for: "
		 "9s}}\n"
		 "- key: month\n"
		 "  rate_limit: {calendar: month, requests_per_unit: 1000, timezone: Asia/Seoul}\n",
		 "d");
	before = allocations;
	for (int i = 0; i < 100; i++) {
		rig.now_ns += SECOND_NS / 10;
		rig_http(&rig, "GET /a/../b%20c?x=y", i % 2 ? "X-User: 7" : NULL, "192.0.2.1");
		rig_header(&rig, i % 4, "x");
		rig_status(&rig, 0);
		weir_ask_body(rig.ask, i % 3, bytes, sizeof bytes, &type);
		if (i % 5 == 0)
			weir_ask_cancel(rig.ask, rig.now_ns);
		rig_begin(&rig);
		rig_add_override(&rig, "user=1", 5, 1, 1);
		rig_decide(&rig);
	}
	assert_int_equal(allocations, before);
	rig_close(&rig);
	(void)state;
}

/* A child process uses the engine that it inherited, and its end does not affect the parent. */
static void engine_in_a_forked_child(void **state)
{
	struct rig rig;
	int status;

	rig_open(&rig, two, "d");
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (child == 0) {
			int ok = rig_ask(&rig, "a=1") == WEIR_ADMIT;

			weir_ask_done(rig.ask);
			weir_engine_free(rig.engine);
			_exit(ok ? 0 : 1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	}
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_REFUSE);
	assert_int_equal(rig_stat(&rig, "d/a/1d").admitted, 5);
	rig_close(&rig);
	(void)state;
}

/* Ten per hour: requests above near_percent count as near_limit. */
static void near_percent(void **state)
{
	static const char yaml[] = "domain: api\n"
				   "descriptors: [{key: user, rate_limit: {unit: hour, "
				   "requests_per_unit: 10}}]\n";
	static const struct {
		uint32_t percent;
		uint64_t near;
	} cases[] = {{0, 2}, {80, 2}, {85, 2}, {90, 1}, {100, 0}, {50, 5}, {1, 10}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_engine_opts opts = {
			.size = sizeof opts, .now_ns = NOW_NS, .near_percent = cases[i].percent};
		struct rig rig = {.table = rig_table(), .domain = "api", .now_ns = NOW_NS};
		struct weir_stat stat;

		assert_int_equal(weir_engine_new(rig.table, rig_rules(yaml), &opts, &rig.engine),
				 0);
		assert_int_equal(rig_admitted(&rig, "user=1", 12), 10);
		stat = rig_stat(&rig, "api/user/1h");
		assert_int_equal(stat.admitted, 10);
		assert_int_equal(stat.near_limit, cases[i].near);
		rig_close(&rig);
	}
}

static void near_percent_out_of_range(void **state)
{
	struct weir_engine_opts opts = {.size = sizeof opts, .near_percent = 101};
	struct weir_table *table = rig_table();
	struct weir_engine *engine;

	(void)state;
	assert_int_equal(weir_engine_new(table, NULL, &opts, &engine), WEIR_EINVAL);
	weir_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_survive_a_swap),
		cmocka_unit_test(requests_keep_their_rules),
		cmocka_unit_test(rules_are_freed_with_their_last_request),
		cmocka_unit_test(load_failures_are_reported),
		cmocka_unit_test(several_asks_at_once),
		cmocka_unit_test(decisions_allocate_nothing),
		cmocka_unit_test(engine_in_a_forked_child),
		cmocka_unit_test(near_percent),
		cmocka_unit_test(near_percent_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
