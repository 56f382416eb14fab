/* Tests that weir does not have known faults of envoyproxy/ratelimit, and that it matches
 * descriptors like envoyproxy/ratelimit. The numbers are those of a list of faults.
 * test/e2e/test_serve_grpc.py tests rule files, health and ports. */
#include "wire/rls/talk.h"

#include <stdio.h>
#include <string.h>

static const char rules[] =
	"domain: rl\n"
	"descriptors:\n"
	"  - {key: a, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
	"  - {key: a_b, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
	"  - {key: joined_key, rate_limit: {unit: hour, requests_per_unit: 0}}\n"
	"  - {key: day, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: month, rate_limit: {unit: month, requests_per_unit: 2}}\n"
	"  - {key: year, rate_limit: {unit: year, requests_per_unit: 4000000000}}\n"
	"  - {key: second, rate_limit: {unit: second, requests_per_unit: 1}}\n"
	"  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
	"  - key: one\n"
	"    descriptors:\n"
	"      - {key: two, value: x, descriptors: [{key: three, rate_limit: {unit: hour, "
	"requests_per_unit: 1}}]}\n"
	"      - {key: two, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	"  - {key: lesser, rate_limit: {unit: hour, requests_per_unit: 0, name: lesser}}\n"
	"  - {key: greater, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: "
	"lesser}]}}\n";

static int open_talk(void **state)
{
	static struct talk talk;

	talk_open(&talk, rules);
	*state = &talk;
	return 0;
}

static int close_talk(void **state)
{
	talk_close(*state);
	return 0;
}

static uint32_t remaining(struct talk *talk, size_t at)
{
	assert_true(at < talk->answer->n_statuses);
	return talk->answer->statuses[at]->limit_remaining;
}

/* Fault 1: a limit without a unit in a request ended the process. */
static void test_limit_without_unit(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "rl");
	talk_override(talk, talk_descriptor(talk, "a=1"), 10, PB__RATE_LIMIT_UNIT__UNKNOWN);
	assert_int_equal(talk_send(talk), -1);
	assert_int_equal(talk->code, WR_GRPC_INVALID_ARGUMENT);
	assert_int_equal(talk_ask(talk, "a=1"), OK);
}

static int count_name(void *context, const struct weir_stat *stat)
{
	(void)stat;
	++*(int *)context;
	return 0;
}

static int names(struct talk *talk)
{
	int count = 0;

	assert_int_equal(weir_stats_each(talk->rig.table, count_name, &count), 0);
	return count;
}

/* Fault 2: the statistics of each limit in a request were kept for ever. */
static void test_no_statistics_of_limits_in_requests(void **state)
{
	struct talk *talk = *state;
	int before = names(talk);
	char text[32];

	for (uint32_t i = 1; i <= 10000; i++) {
		talk_begin(talk, "rl");
		snprintf(text, sizeof text, "user=%u", i);
		talk_override(talk, talk_descriptor(talk, text), i, 1 + (int)(i % 6));
		assert_int_equal(talk_send(talk), OK);
		assert_int_equal(remaining(talk, 0), i - 1);
	}
	assert_int_equal(names(talk), before);
}

static void raise_limit(struct talk *talk, const char *from, const char *to)
{
	static char changed[sizeof rules + 64];
	const char *at = strstr(rules, from);

	assert_non_null(at);
	snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - rules), rules, to,
		 at + strlen(from));
	assert_int_equal(weir_engine_swap(talk->rig.engine, rig_rules(changed), talk->rig.now_ns),
			 0);
}

/* Fault 3: a key over its limit was refused until the end of the window, even after the limit was
 * raised. */
static void test_raised_limit_admits_at_once(void **state)
{
	struct talk *talk = *state;
	Pb__RateLimitDescriptor *descriptor;

	assert_int_equal(talk_ask(talk, "day=x"), OK);
	assert_int_equal(talk_ask(talk, "day=x"), OVER);
	raise_limit(talk, "unit: day, requests_per_unit: 1", "unit: day, requests_per_unit: 3");
	assert_int_equal(talk_ask(talk, "day=x"), OK);
	assert_int_equal(remaining(talk, 0), 1);
	for (uint32_t limit = 1; limit <= 2; limit++) {
		talk_begin(talk, "rl");
		talk_override(talk, talk_descriptor(talk, "who=x"), limit, 4);
		assert_int_equal(talk_send(talk), OK);
		assert_int_equal(talk_send(talk), OVER);
	}
	talk_begin(talk, "rl");
	descriptor = talk_descriptor(talk, "who=x");
	talk_override(talk, descriptor, 2, 4);
	descriptor->is_negative_hits = true;
	assert_int_equal(talk_send(talk), OK);
	descriptor->is_negative_hits = false;
	assert_int_equal(talk_send(talk), OK);
}

/* Fault 4: key and value were joined by "_", so that one client could use up the limit of another
 * client. */
static void test_key_and_value_are_separate(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "a=b_c"), OK);
	assert_int_equal(talk_ask(talk, "a=b_c"), OK);
	assert_int_equal(talk_ask(talk, "a=b_c"), OVER);
	assert_int_equal(talk_ask(talk, "a_b=c"), OK);
	assert_int_equal(remaining(talk, 0), 1);
	assert_int_equal(talk_ask(talk, "joined=key"),
			 OK); /* not decided by the rule for joined_key */
	assert_null(talk->answer->statuses[0]->current_limit);
	assert_int_equal(talk_ask(talk, "joined_key=x"), OVER);
	talk_begin(talk,
		   "rl"); /* the same descriptors with limits in the request, without a rule */
	talk_override(talk, talk_descriptor(talk, "p=q|r=s"), 1, 3);
	assert_int_equal(talk_send(talk), OK);
	talk_begin(talk, "rl");
	talk_override(talk, talk_descriptor(talk, "p=q_r|s="), 1, 3);
	talk_override(talk, talk_descriptor(talk, "p=q|r=|s="), 1, 3);
	talk_override(talk, talk_descriptor(talk, "p_q=r|s="), 1, 3);
	assert_int_equal(talk_send(talk), OK);
}

/* Fault 5: with memcached, requests per month or year were not counted, and counters ended at
 * 2^31. */
static void test_long_units_and_large_counts(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "month=x"), OK);
	assert_int_equal(talk_ask(talk, "month=x"), OK);
	assert_int_equal(talk_ask(talk, "month=x"), OVER);
	talk_begin(talk, "rl");
	talk_hits(talk, talk_descriptor(talk, "year=x"), 3000000000);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(remaining(talk, 0), 1000000000);
	assert_int_equal(talk_send(talk), OVER);
	assert_int_equal(talk_ask(talk, "year=x"), OK);
	assert_int_equal(remaining(talk, 0), 999999999);
}

/* Fault 8: a limit was checked and charged in two steps, and a refused request charged the limits
 * of its other descriptors. */
static void test_refused_request_takes_nothing(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "day=x"), OK);
	for (int i = 0; i < 20; i++) {
		talk_begin(talk, "rl");
		talk_descriptor(talk, "wide=x");
		talk_descriptor(talk, "day=x");
		assert_int_equal(talk_send(talk), OVER);
		assert_int_equal(talk->answer->statuses[0]->code, OK);
		assert_int_equal(talk->answer->statuses[1]->code, OVER);
		assert_int_equal(remaining(talk, 0), 5);
	}
	assert_int_equal(talk_ask(talk, "wide=x"), OK);
	assert_int_equal(remaining(talk, 0), 4);
}

/* Fault 9: a counter of a second stayed for five minutes. In weir, expired counters are evicted: a
 * live key stays even if there are many times more expired counters than the table can hold. */
static void test_expired_counters_are_evicted(void **state)
{
	struct talk *talk = *state;
	char text[32];

	assert_int_equal(talk_ask(talk, "day=kept"), OK);
	for (int i = 0; i < 200000; i++) {
		talk->rig.now_ns += SECOND_NS / 5000;
		snprintf(text, sizeof text, "second=%d", i);
		assert_int_equal(talk_ask(talk, text), OK);
	}
	assert_int_equal(talk_ask(talk, "day=kept"), OVER);
}

/* Fault 11: statistics had only two levels of descriptors. */
static void test_statistics_of_deep_descriptors(void **state)
{
	struct talk *talk = *state;

	talk_ask(talk, "one=1|two=x|three=3");
	talk_ask(talk, "one=1|two=x|three=3");
	assert_int_equal(rig_stat(&talk->rig, "rl/one/two=x/three/1h").admitted, 1);
	assert_int_equal(rig_stat(&talk->rig, "rl/one/two=x/three/1h").refused, 1);
}

/* Matching never backtracks from the rule `two: x` to the rule `two`. A descriptor matches only a
 * rule of the same depth. */
static void test_matching(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "one=1|two=x"), OK);
	assert_null(talk->answer->statuses[0]->current_limit);
	assert_int_equal(talk_ask(talk, "one=1|two=y"), OK);
	assert_int_equal(talk_ask(talk, "one=1|two=y"), OVER);
	assert_int_equal(talk_ask(talk, "one=1|two=y|three=3"), OK);
	assert_int_equal(talk_ask(talk, "one=1"), OK);
	assert_null(talk->answer->statuses[0]->current_limit);
	assert_int_equal(talk_ask(talk, "two=y|one=1"), OK);
	assert_null(talk->answer->statuses[0]->current_limit);
	assert_int_equal(talk_ask(talk, "a="), OK); /* an empty value is a value */
	assert_int_equal(remaining(talk, 0), 1);
}

static void test_replaced(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "lesser=x"), OVER);
	talk_begin(talk, "rl");
	talk_descriptor(talk, "lesser=x");
	talk_descriptor(talk, "greater=x");
	assert_int_equal(talk_send(talk), OK);
	assert_null(talk->answer->statuses[0]->current_limit);
	assert_int_equal(remaining(talk, 1), 8);
}

static void test_descriptor_twice_takes_twice(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "rl");
	talk_descriptor(talk, "a=1");
	talk_descriptor(talk, "a=1");
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(talk_ask(talk, "a=1"), OVER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_talk, close_talk)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_limit_without_unit),
		TEST(test_no_statistics_of_limits_in_requests),
		TEST(test_raised_limit_admits_at_once),
		TEST(test_key_and_value_are_separate),
		TEST(test_long_units_and_large_counts),
		TEST(test_refused_request_takes_nothing),
		TEST(test_expired_counters_are_evicted),
		TEST(test_statistics_of_deep_descriptors),
		TEST(test_matching),
		TEST(test_replaced),
		TEST(test_descriptor_twice_takes_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
