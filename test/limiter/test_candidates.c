/* Candidates count the same requests as their rule and do not affect decisions. */
#include "standin.h"

#include <weir/control.h>

#include <pthread.h>
#include <stdio.h>

#include "base/str.h"

struct wanted {
	const char *text;
	struct weir_candidate found;
	char rule[64];
	int count;
};

static int take_candidate(void *context, const struct weir_candidate *candidate)
{
	struct wanted *wanted = context;

	wanted->count++;
	if (!wr_str_equal(candidate->text, wr_str(wanted->text)))
		return 0;
	wanted->found = *candidate;
	snprintf(wanted->rule, sizeof wanted->rule, "%.*s", (int)candidate->rule.len,
		 candidate->rule.ptr);
	return 0;
}

static struct wanted candidate(struct rig *rig, const char *text)
{
	struct wanted wanted = {.text = text};

	assert_int_equal(weir_candidates_each(rig->table, take_candidate, &wanted), 0);
	return wanted;
}

#define LIVE                                                                                       \
	"domain: api\n"                                                                            \
	"descriptors:\n"                                                                           \
	"  - key: user\n"                                                                          \
	"    rate_limit: {unit: second, requests_per_unit: 2, "

/* A rule of two per second, with one candidate with a burst of five and one with a burst of one. */
static void candidates_are_counted(void **state)
{
	struct rig rig;
	struct wanted more, less;

	rig_open(&rig,
		 LIVE "candidates: [{unit: second, requests_per_unit: 2, algorithm: token_bucket, "
		      "burst: 5}, {unit: minute, requests_per_unit: 1}]}\n",
		 "api");
	assert_int_equal(rig_admitted(&rig, "user=7", 6), 2);
	more = candidate(&rig, "token_bucket, 2 per second, burst 5");
	assert_int_equal(more.count, 2);
	assert_string_equal(more.rule, "api/user/1s");
	assert_int_equal(more.found.would_admit, 5);
	assert_int_equal(more.found.would_refuse, 1);
	assert_int_equal(more.found.admits_more, 3);
	assert_int_equal(more.found.refuses_more, 0);
	assert_int_equal(more.found.algorithm, WEIR_TOKEN_BUCKET);
	assert_int_equal(more.found.limit, 2);
	assert_int_equal(more.found.burst, 5);
	assert_int_equal(more.found.period_ns, SECOND_NS);
	assert_int_equal(more.found.loaded_ns, NOW_NS);
	less = candidate(&rig, "fixed_window, 1 per minute");
	assert_int_equal(less.found.would_admit, 1);
	assert_int_equal(less.found.would_refuse, 5);
	assert_int_equal(less.found.admits_more, 0);
	assert_int_equal(less.found.refuses_more, 1);
	/* The counts of candidates are not part of the rule's counts, and candidates are not listed
	 * as rules. */
	assert_int_equal(rig_stat(&rig, "api/user/1s").admitted, 2);
	assert_int_equal(rig_stat(&rig, "api/user/1s").refused, 4);
	/* Another key has another counter. */
	rig_ask(&rig, "user=8");
	less = candidate(&rig, "fixed_window, 1 per minute");
	assert_int_equal(less.found.would_admit, 2);
	rig_close(&rig);
	(void)state;
}

/* The same candidate under two limits of one descriptor has two counters. */
static void equal_candidates_of_two_limits(void **state)
{
	struct rig rig;
	struct wanted found;

	rig_open(&rig,
		 "domain: api\n"
		 "descriptors:\n"
		 "  - key: user\n"
		 "    rate_limits:\n"
		 "      - {unit: second, requests_per_unit: 9, candidates: [{unit: hour, "
		 "requests_per_unit: 3}]}\n"
		 "      - {unit: minute, requests_per_unit: 9, candidates: [{unit: hour, "
		 "requests_per_unit: 3}]}\n",
		 "api");
	assert_int_equal(rig_admitted(&rig, "user=7", 4), 4);
	found = candidate(&rig, "fixed_window, 3 per hour");
	assert_int_equal(found.count, 2);
	assert_int_equal(found.found.would_admit, 3);
	assert_int_equal(found.found.would_refuse, 1);
	rig_close(&rig);
	(void)state;
}

static uint64_t random_from(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Sends requests of four users at random times, with costs from 1 to 3, and some with costs of 0
 * and -1. Writes the verdicts to `verdicts`. Returns how many requests are counted. */
static uint64_t odd_traffic(struct rig *rig, bool gives_back, char *verdicts, int count)
{
	uint64_t random = 42, counted = 0;

	for (int i = 0; i < count; i++) {
		char descriptor[32];
		int64_t cost = (int64_t)(random_from(&random) % 5) - 1;

		snprintf(descriptor, sizeof descriptor, "user=%d", (int)(random_from(&random) % 4));
		cost = cost < 0 && !gives_back ? 0 : cost;
		rig_begin(rig);
		rig_add(rig, descriptor, cost);
		verdicts[i] = (char)rig_decide(rig);
		counted += cost > 0;
		rig->now_ns += random_from(&random) % 100 * 1000000;
	}
	return counted;
}

/* A candidate with the numbers of its rule always agrees with it, and the rule decides the same
 * with and without a candidate: for all costs, and across windows. */
static void equal_limit_agrees_with_its_rule(void **state)
{
	static const struct {
		const char *limit, *candidate, *rule;
		bool gives_back;
	} limits[] = {
		{"unit: second, requests_per_unit: 5", "fixed_window, 5 per second", "1s", true},
		{"period: 2s, requests_per_unit: 5, algorithm: sliding_window_log",
		 "sliding_window_log, 5 per 2s", "2s", true},
		{"unit: second, requests_per_unit: 5, algorithm: sliding_window_counter",
		 "sliding_window_counter, 5 per second", "1s", true},
		{"unit: second, requests_per_unit: 5, algorithm: token_bucket, burst: 7",
		 "token_bucket, 5 per second, burst 7", "1s", true},
		{"unit: second, requests_per_unit: 5, algorithm: leaky_bucket, queue_size: 3, "
		 "max_wait: 5s",
		 "leaky_bucket, 5 per second, queue_size 3, max_wait 5s", "1s", false},
		{"calendar: day, timezone: Asia/Seoul, requests_per_unit: 50",
		 "fixed_window, 50 per calendar day in Asia/Seoul", "day@Asia/Seoul", true},
		{"unit: second, requests_per_unit: 5, mode: soft, soft: {overshoot: 40%, for: 2s}",
		 "fixed_window, 5 per second, up to 7 for 2s", "1s", true},
	};
	enum { COUNT = 3000 };

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		static char with[COUNT], without[COUNT];
		struct weir_stat stat;
		struct wanted found;
		uint64_t counted;
		char text[512];
		struct rig rig;

		snprintf(text, sizeof text,
			 "domain: api\ndescriptors: [{key: user, rate_limit: {%s}}]\n",
			 limits[i].limit);
		rig_open(&rig, text, "api");
		odd_traffic(&rig, limits[i].gives_back, without, COUNT);
		rig_close(&rig);
		snprintf(text, sizeof text,
			 "domain: api\ndescriptors: [{key: user, rate_limit: {%s, candidates: "
			 "[{%s}]}}]\n",
			 limits[i].limit, limits[i].limit);
		rig_open(&rig, text, "api");
		counted = odd_traffic(&rig, limits[i].gives_back, with, COUNT);
		assert_memory_equal(with, without, COUNT);
		found = candidate(&rig, limits[i].candidate);
		snprintf(text, sizeof text, "api/user/%s", limits[i].rule);
		stat = rig_stat(&rig, text);
		assert_int_equal(found.found.would_admit + found.found.would_refuse, counted);
		assert_int_equal(found.found.would_admit, stat.admitted);
		assert_int_equal(found.found.would_refuse, stat.refused);
		assert_true(stat.refused > 100);
		assert_int_equal(found.found.admits_more + found.found.refuses_more, 0);
		assert_int_equal(found.found.would_delay, stat.delayed);
		assert_int_equal(found.found.would_delay_us, stat.delay_us);
		rig_close(&rig);
	}
	(void)state;
}

/* The counts of candidates equal those of the same limits stepped separately. */
static void candidates_equal_stepped_limits(void **state)
{
	struct weir_limit live = {.size = sizeof live,
				  .algorithm = WEIR_FIXED_WINDOW,
				  .limit = 4,
				  .period_ns = SECOND_NS};
	struct weir_limit other = {.size = sizeof other,
				   .algorithm = WEIR_SLIDING_COUNTER,
				   .limit = 3,
				   .period_ns = SECOND_NS};
	struct weir_state live_state[3] = {{0}}, other_state[3] = {{0}};
	uint64_t admit = 0, refuse = 0, more = 0, fewer = 0, random = 1;
	struct wanted found;
	struct rig rig;

	weir_limit_check(&live, NULL);
	weir_limit_check(&other, NULL);
	rig_open(&rig,
		 "domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, "
		 "requests_per_unit: 4, candidates: [{unit: second, requests_per_unit: 3, "
		 "algorithm: sliding_window_counter}]}}]\n",
		 "api");
	for (int i = 0; i < 5000; i++) {
		unsigned user = (unsigned)random_from(&random) % 3;
		struct weir_decision enforced, would;
		char descriptor[32];

		snprintf(descriptor, sizeof descriptor, "user=%u", user);
		rig_ask(&rig, descriptor);
		weir_step(&live, &live_state[user], NULL, 1, rig.now_ns, &enforced);
		weir_step(&other, &other_state[user], NULL, 1, rig.now_ns, &would);
		admit += would.admitted;
		refuse += !would.admitted;
		more += would.admitted && !enforced.admitted;
		fewer += !would.admitted && enforced.admitted;
		rig.now_ns += random_from(&random) % 200 * 1000000;
	}
	found = candidate(&rig, "sliding_window_counter, 3 per second");
	assert_int_equal(found.found.would_admit, admit);
	assert_int_equal(found.found.would_refuse, refuse);
	assert_int_equal(found.found.admits_more, more);
	assert_int_equal(found.found.refuses_more, fewer);
	assert_true(more > 20 && fewer > 20);
	rig_close(&rig);
	(void)state;
}

/* Candidates do not count requests that another rule refused, that a ban refused, or that cost
 * nothing. */
static void requests_not_counted(void **state)
{
	struct weir_entry entry = {WR_STR("user"), WR_STR("9"), WR_STR("")};
	struct weir_target target = {
		.size = sizeof target, .domain = WR_STR("api"), .entries = &entry, .count = 1};
	struct wanted found;
	struct rig rig;

	rig_open(&rig,
		 "domain: api\n"
		 "descriptors:\n"
		 "  - {key: user, rate_limit: {unit: second, requests_per_unit: 9, candidates: "
		 "[{unit: second, requests_per_unit: 5}]}}\n"
		 "  - {key: door, rate_limit: {unit: second, requests_per_unit: 2}}\n",
		 "api");
	assert_int_equal(rig_admitted(&rig, "user=7;door=1", 5), 2);
	rig_begin(&rig);
	rig_add(&rig, "user=7", 0);
	rig_decide(&rig);
	found = candidate(&rig, "fixed_window, 5 per second");
	assert_int_equal(found.found.would_admit, 2);
	assert_int_equal(found.found.would_refuse, 0);
	assert_int_equal(weir_control_ban(rig.engine, &target, WEIR_NEVER, NOW_NS, NULL), 1);
	assert_int_equal(rig_ask(&rig, "user=9"), WEIR_REFUSE);
	assert_int_equal(candidate(&rig, "fixed_window, 5 per second").found.would_admit, 2);
	rig_close(&rig);
	(void)state;
}

/* For a rule in shadow mode, candidates are compared with the decisions that the rule would have
 * made. */
static void candidates_of_a_shadow_rule(void **state)
{
	struct wanted found;
	struct rig rig;

	rig_open(&rig,
		 "domain: api\ndescriptors: [{key: user, shadow_mode: true, rate_limit: {unit: "
		 "second, requests_per_unit: 1, candidates: [{unit: second, requests_per_unit: "
		 "3}]}}]\n",
		 "api");
	assert_int_equal(rig_admitted(&rig, "user=7", 5), 5);
	found = candidate(&rig, "fixed_window, 3 per second");
	assert_int_equal(found.found.would_admit, 3);
	assert_int_equal(found.found.would_refuse, 2);
	assert_int_equal(found.found.admits_more, 2);
	assert_int_equal(found.found.refuses_more, 0);
	rig_close(&rig);
	(void)state;
}

/* The central store decides the rule, and the table its candidates. */
static void candidates_of_a_central_rule(void **state)
{
	struct store store = {0};
	struct wanted found;
	struct rig rig;

	rig_open_with(&rig,
		      rig_rules("domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, "
				"requests_per_unit: 2, candidates: [{unit: second, "
				"requests_per_unit: 4}]}}]\n"),
		      "api", WEIR_ENGINE_CENTRAL);
	assert_int_equal(store_admitted(&rig, &store, "user=7", 6), 2);
	assert_int_equal(store.questions, 6);
	found = candidate(&rig, "fixed_window, 4 per second");
	assert_int_equal(found.found.would_admit, 4);
	assert_int_equal(found.found.would_refuse, 2);
	assert_int_equal(found.found.admits_more, 2);
	rig_close(&rig);
	(void)state;
}

/* A candidate with other numbers is another candidate. With the old numbers again it continues its
 * counts. */
static void changed_numbers_are_another_candidate(void **state)
{
	static const char *const yaml[] = {
		LIVE "candidates: [{unit: second, requests_per_unit: 1}]}\n",
		LIVE "candidates: [{unit: second, requests_per_unit: 3}]}\n",
	};
	struct rig rig;

	rig_open(&rig, yaml[0], "api");
	rig_admitted(&rig, "user=7", 2);
	rig.now_ns += SECOND_NS;
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(yaml[1]), rig.now_ns), 0);
	rig_admitted(&rig, "user=7", 2);
	rig.now_ns += SECOND_NS;
	assert_int_equal(candidate(&rig, "fixed_window, 1 per second").found.would_refuse, 1);
	assert_int_equal(candidate(&rig, "fixed_window, 1 per second").found.loaded_ns, NOW_NS);
	assert_int_equal(candidate(&rig, "fixed_window, 3 per second").found.would_admit, 2);
	assert_int_equal(candidate(&rig, "fixed_window, 3 per second").found.loaded_ns,
			 NOW_NS + SECOND_NS);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(yaml[0]), rig.now_ns), 0);
	rig_admitted(&rig, "user=7", 2);
	assert_int_equal(candidate(&rig, "fixed_window, 1 per second").found.would_refuse, 2);
	rig_close(&rig);
	(void)state;
}

/* If the directory is full, candidates are not counted, and no rule gets their counts. */
static void full_directory(void **state)
{
	char yaml[16384];
	size_t len = 0;
	struct rig rig;

	len += (size_t)snprintf(yaml, sizeof yaml, "domain: api\ndescriptors:\n");
	for (int i = 0; i < 120; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len,
					"  - {key: k%d, rate_limit: {unit: hour, "
					"requests_per_unit: 1, candidates: [{unit: hour, "
					"requests_per_unit: 2}]}}\n",
					i);
	rig_open(&rig, yaml, "api");
	for (int i = 0; i < 120; i++) {
		char descriptor[16];

		snprintf(descriptor, sizeof descriptor, "k%d=1", i);
		assert_int_equal(rig_admitted(&rig, descriptor, 2), 1);
	}
	assert_true(candidate(&rig, "none").count < 120);
	assert_true(rig_stat(&rig, "other").admitted == rig_stat(&rig, "other").refused);
	rig_close(&rig);
	(void)state;
}

/* ---- threads ---- */

#define THREADS 4
#define EACH 4000

static void *ask_much(void *arg)
{
	struct weir_engine *engine = arg;
	_Alignas(16) char memory[WEIR_ASK_BYTES];

	for (int i = 0; i < EACH; i++) {
		struct weir_entry entry = {WR_STR("user"), WR_STR("7"), WR_STR("")};
		struct weir_ask *ask;

		entry.value.ptr += i % 2; /* two keys: user "7" and no user */
		entry.value.len -= (size_t)(i % 2);
		weir_ask_init(memory, sizeof memory, engine, WR_STR("api"), &ask);
		weir_ask_add(ask, &entry, 1, NULL, 1);
		weir_ask_decide(ask, NOW_NS + (uint64_t)i);
		weir_ask_done(ask);
	}
	return NULL;
}

/* All requests are counted by rule and candidate, and each limit holds exactly. */
static void threads_count_exactly(void **state)
{
	struct wanted more, fewer;
	pthread_t ids[THREADS];
	struct rig rig;

	rig_open(
		&rig,
		"domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, "
		"requests_per_unit: 300, candidates: [{unit: hour, requests_per_unit: 500}, {unit: "
		"day, requests_per_unit: 100}]}}]\n",
		"api");
	weir_tick(rig.table, NOW_NS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, ask_much, rig.engine);
	for (uint64_t s = 1; s < 50; s++) /* ticks run meanwhile */
		weir_tick(rig.table, NOW_NS + s * SECOND_NS);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	assert_int_equal(rig_stat(&rig, "api/user/1h").admitted, 600);
	assert_int_equal(rig_stat(&rig, "api/user/1h").refused, THREADS * EACH - 600);
	more = candidate(&rig, "fixed_window, 500 per hour");
	assert_int_equal(more.found.would_admit, 1000);
	assert_int_equal(more.found.would_refuse, THREADS * EACH - 1000);
	fewer = candidate(&rig, "fixed_window, 100 per day");
	assert_int_equal(fewer.found.would_admit, 200);
	assert_int_equal(fewer.found.would_refuse, THREADS * EACH - 200);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(candidates_are_counted),
		cmocka_unit_test(equal_candidates_of_two_limits),
		cmocka_unit_test(candidates_equal_stepped_limits),
		cmocka_unit_test(equal_limit_agrees_with_its_rule),
		cmocka_unit_test(candidates_of_a_shadow_rule),
		cmocka_unit_test(requests_not_counted),
		cmocka_unit_test(candidates_of_a_central_rule),
		cmocka_unit_test(changed_numbers_are_another_candidate),
		cmocka_unit_test(full_directory),
		cmocka_unit_test(threads_count_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
