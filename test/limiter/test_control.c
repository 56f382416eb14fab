/* Bans, grants and resets of weir/control.h, and their effect on requests. */
#include "control_test.h"

/* --- ban --- */

static void banned_keys_are_refused_until_the_end(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		rig.now_ns = NOW_NS + SECOND_NS / 4;
		/* Every second key was used before the ban. */
		if (i % 2)
			assert_int_equal(rig_admitted(&rig, fours[i], 1), 1);
		ban(&rig, fours[i], NOW_NS + 10 * SECOND_NS);
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
		assert_int_equal(rig_result(&rig).retry_after_ns, 10 * SECOND_NS - SECOND_NS / 4);
		assert_int_equal(rig_result(&rig).http_status, 429);
		assert_int_equal(rig_status(&rig, 0).flags,
				 WEIR_STATUS_LIMITED | WEIR_STATUS_BANNED);
		assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OVER_LIMIT);
		assert_int_equal(rig_status(&rig, 0).remaining, 0);
		assert_int_equal(rig_status(&rig, 0).decision.banned, 1);
		assert_string_equal(rig_header(&rig, WEIR_PROFILE_X, "Retry-After"), "10");
		rig.now_ns = NOW_NS + 10 * SECOND_NS - 1;
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
		assert_int_equal(rig_result(&rig).retry_after_ns, 1);
		/* The refused requests took no units. */
		rig.now_ns = NOW_NS + 10 * SECOND_NS;
		assert_int_equal(rig_admitted(&rig, fours[i], 9), i % 2 ? 3 : 4);
		assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED);
	}
	rig_close(&rig);
	(void)state;
}

static void ends_are_rounded_up_to_seconds(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	ban(&rig, "fixed=1", NOW_NS + 1);
	assert_int_equal(rig_ask(&rig, "fixed=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, SECOND_NS);
	assert_int_equal(get(&rig, "fixed=1").banned_until_ns, NOW_NS + SECOND_NS);
	rig_close(&rig);
	(void)state;
}

static void bans_are_lifted_or_permanent(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		ban(&rig, fours[i], WEIR_NEVER);
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
		assert_int_equal(rig_result(&rig).retry_after_ns, WEIR_NEVER);
		assert_int_equal(get(&rig, fours[i]).banned_until_ns, WEIR_NEVER);
		assert_null(rig_header(&rig, WEIR_PROFILE_X, "Retry-After"));
		assert_non_null(rig_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-reset"));
		ban(&rig, fours[i], 0);
		assert_int_equal(get(&rig, fours[i]).banned_until_ns, 0);
		assert_int_equal(rig_admitted(&rig, fours[i], 9), 4);
		/* Lifting a ban that does not exist succeeds. */
		ban(&rig, fours[i], 0);
		assert_int_equal(rig_admitted(&rig, fours[i], 9), 0);
	}
	rig_close(&rig);
	(void)state;
}

static void refusal_by_a_ban_is_shown_and_counted(void **state)
{
	struct weir_str type;
	struct rig rig;
	char body[1024];
	int len;

	rig_open(&rig, rules, "d");
	assert_int_equal(weir_control_ban(rig.engine, whose(&rig, "two=1", "long"),
					  NOW_NS + HOUR_NS, NOW_NS, NULL),
			 1);
	assert_int_equal(rig_ask(&rig, "two=1"), WEIR_REFUSE);
	len = weir_ask_body(rig.ask, WEIR_BODY_PROBLEM, body, sizeof body - 1, &type);
	body[len] = '\0';
	assert_string_equal(
		body, "{\"type\":\"https://iana.org/assignments/http-problem-types"
		      "#abnormal-usage-detected\",\"title\":\"Too Many Requests\",\"status\":429,"
		      "\"detail\":\"This client is banned until 2026-11-16T01:00:00Z. "
		      "Try again in 3600 s.\",\"violated-policies\":[\"long\"],"
		      "\"banned-until\":\"2026-11-16T01:00:00Z\"}\n");
	assert_int_equal(rig_stat(&rig, "d/two/1d").refused, 1);
	assert_int_equal(rig_stat(&rig, "d/two/1m").refused, 0);
	/* No units were taken from the other limit, and it is not banned. */
	assert_int_equal(
		weir_control_ban(rig.engine, whose(&rig, "two=1", "long"), 0, NOW_NS, NULL), 1);
	assert_int_equal(rig_admitted(&rig, "two=1", 9), 2);
	rig_close(&rig);
	(void)state;
}

/* A ban refuses no request in shadow mode. In quota mode it refuses only if all quotas refuse.
 * Requests that a ban refuses are not counted by count_rejected. */
static void bans_follow_the_mode_of_the_limit(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	ban(&rig, "shadow=1", NOW_NS + HOUR_NS);
	assert_int_equal(rig_ask(&rig, "shadow=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_SHADOW |
							    WEIR_STATUS_WOULD_REFUSE |
							    WEIR_STATUS_BANNED);
	ban(&rig, "quota=1", NOW_NS + HOUR_NS);
	assert_int_equal(rig_ask(&rig, "quota=1;quota=2"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "quota=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, HOUR_NS);
	ban(&rig, "kept=1", NOW_NS + HOUR_NS);
	assert_int_equal(rig_admitted(&rig, "kept=1", 9), 0);
	ban(&rig, "kept=1", 0);
	assert_int_equal(rig_admitted(&rig, "kept=1", 4), 4);
	rig_close(&rig);
	(void)state;
}

/* If one of several limits is banned, nothing is taken from the others, in either order. */
static void bans_take_nothing_from_other_limits(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	ban(&rig, "log=1", NOW_NS + HOUR_NS);
	ban(&rig, "token=2", NOW_NS + HOUR_NS);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(rig_ask(&rig, "fixed=1;log=1;counter=1"), WEIR_REFUSE);
		assert_int_equal(rig_ask(&rig, "token=2;fixed=1;leaky=1"), WEIR_REFUSE);
	}
	assert_int_equal(get(&rig, "fixed=1").remaining, 4);
	assert_int_equal(get(&rig, "counter=1").remaining, 4);
	assert_int_equal(get(&rig, "leaky=1").remaining, 4);
	rig_close(&rig);
	(void)state;
}

/* --- grant --- */

static void a_grant_adds_until_its_end(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		rig.now_ns = NOW_NS;
		if (i % 2)
			assert_int_equal(rig_admitted(&rig, fours[i], 9), 4);
		grant(&rig, fours[i], 3, NOW_NS + 10 * SECOND_NS);
		assert_int_equal(get(&rig, fours[i]).limit, 7);
		assert_int_equal(get(&rig, fours[i]).granted, 3);
		assert_int_equal(get(&rig, fours[i]).granted_until_ns, NOW_NS + 10 * SECOND_NS);
		assert_int_equal(get(&rig, fours[i]).remaining, i % 2 ? 3 : 7);
		assert_int_equal(rig_admitted(&rig, fours[i], 1), 1);
		assert_int_equal(rig_status(&rig, 0).limit, 7);
		assert_int_equal(rig_status(&rig, 0).remaining, i % 2 ? 2 : 6);
		assert_int_equal(rig_status(&rig, 0).decision.granted, 3);
		assert_int_equal(rig_admitted(&rig, fours[i], 9), i % 2 ? 2 : 6);
		/* Units that were taken before the grant still count. */
		rig.now_ns = NOW_NS + 10 * SECOND_NS;
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
		assert_int_equal(rig_status(&rig, 0).limit, 4);
		assert_int_equal(rig_status(&rig, 0).decision.granted, 0);
		assert_int_equal(get(&rig, fours[i]).granted_until_ns, 0);
	}
	rig_close(&rig);
	(void)state;
}

/* A bucket refills at its own rate, even above the burst. */
static void a_bucket_keeps_its_rate(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	grant(&rig, "token=1", 3, NOW_NS + DAY_NS);
	assert_int_equal(rig_admitted(&rig, "token=1", 9), 7);
	rig.now_ns += HOUR_NS;
	assert_int_equal(rig_admitted(&rig, "token=1", 9), 2);
	rig.now_ns += 9 * HOUR_NS;
	assert_int_equal(rig_admitted(&rig, "token=1", 9), 7);
	/* When the grant ends, 7 units are missing in a bucket of 4: the next request is admitted
	 * in 2 hours. */
	grant(&rig, "token=1", 0, 0);
	assert_int_equal(rig_ask(&rig, "token=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, 2 * HOUR_NS);
	rig_close(&rig);
	(void)state;
}

static void a_grant_applies_to_each_window(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	grant(&rig, "fixed=1", 3, NOW_NS + 2 * DAY_NS);
	assert_int_equal(rig_admitted(&rig, "fixed=1", 9), 7);
	rig.now_ns += DAY_NS;
	assert_int_equal(rig_admitted(&rig, "fixed=1", 9), 7);
	rig.now_ns += DAY_NS;
	assert_int_equal(rig_admitted(&rig, "fixed=1", 9), 4);
	rig_close(&rig);
	(void)state;
}

static void header_fields_show_the_grant(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	grant(&rig, "fixed=1", 3, NOW_NS + DAY_NS);
	assert_int_equal(rig_ask(&rig, "fixed=1"), WEIR_ADMIT);
	assert_string_equal(rig_header(&rig, WEIR_PROFILE_X, "RateLimit-Policy"),
			    "\"fixed/1d\";q=7;w=86400");
	assert_string_equal(rig_header(&rig, WEIR_PROFILE_X, "RateLimit"),
			    "\"fixed/1d\";r=6;t=86400");
	assert_string_equal(rig_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Limit"), "7");
	rig_close(&rig);
	(void)state;
}

/* The soft ceiling is raised too: 4, half of it for soft mode, and 3 granted. */
static void a_grant_raises_the_soft_ceiling(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	grant(&rig, "soft=1", 3, NOW_NS + DAY_NS);
	assert_int_equal(rig_admitted(&rig, "soft=1", 20), 9);
	assert_int_equal(get(&rig, "soft=1").limit, 7);
	rig_close(&rig);
	(void)state;
}

/* A grant is cut to the largest number that an algorithm can count. */
static void a_grant_is_bounded(void **state)
{
	struct rig rig;
	struct weir_counter counter;

	rig_open(&rig, rules, "d");
	grant(&rig, "fixed=1", UINT32_MAX, NOW_NS + DAY_NS);
	counter = get(&rig, "fixed=1");
	assert_int_equal(counter.limit, UINT32_MAX);
	assert_int_equal(counter.granted, UINT32_MAX - 4);
	assert_int_equal(rig_admitted(&rig, "fixed=1", 20), 20);
	/* The bucket may take at most 100 years to fill at 2 per hour. */
	grant(&rig, "token=1", UINT32_MAX, NOW_NS + DAY_NS);
	assert_int_equal(get(&rig, "token=1").limit, 2 * 100 * 8766);
	/* A sixteenth of 1 MiB has 16 spans of 4 KiB: rings of 508 entries. */
	grant(&rig, "log=1", UINT32_MAX, NOW_NS + DAY_NS);
	assert_int_equal(get(&rig, "log=1").limit, 508);
	assert_int_equal(rig_admitted(&rig, "log=1", 600), 508);
	rig_close(&rig);
	(void)state;
}

static void a_key_can_have_a_ban_and_a_grant(void **state)
{
	struct rig rig;
	struct weir_counter counter;

	rig_open(&rig, rules, "d");
	grant(&rig, "fixed=1", 3, NOW_NS + HOUR_NS);
	ban(&rig, "fixed=1", NOW_NS + MINUTE_NS);
	assert_int_equal(rig_ask(&rig, "fixed=1"), WEIR_REFUSE);
	counter = get(&rig, "fixed=1");
	assert_int_equal(counter.banned_until_ns, NOW_NS + MINUTE_NS);
	assert_int_equal(counter.granted_until_ns, NOW_NS + HOUR_NS);
	assert_int_equal(counter.remaining, 7);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(rig_admitted(&rig, "fixed=1", 9), 7);
	grant(&rig, "fixed=1", 0, 0);
	ban(&rig, "fixed=1", NOW_NS + HOUR_NS);
	grant(&rig, "fixed=1", 0, 0);
	assert_int_equal(rig_ask(&rig, "fixed=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).decision.banned, 1);
	rig_close(&rig);
	(void)state;
}

/* --- reset --- */

static void a_reset_clears_the_counter(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		for (int again = 0; again < 3; again++) {
			assert_int_equal(rig_admitted(&rig, fours[i], 9), 4);
			reset(&rig, fours[i]);
			assert_int_equal(get(&rig, fours[i]).remaining, 4);
			assert_int_equal(get(&rig, fours[i]).reset_after_ns, 0);
		}
	}
	reset(&rig, "fixed=never seen");
	rig_close(&rig);
	(void)state;
}

/* Soft mode was used up and would be available again a day later. */
static void a_reset_clears_soft_mode(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "soft=1", 20), 6);
	rig.now_ns += 2 * HOUR_NS;
	reset(&rig, "soft=1");
	assert_int_equal(rig_admitted(&rig, "soft=1", 20), 6);
	rig_close(&rig);
	(void)state;
}

static void a_reset_keeps_bans_and_grants(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	grant(&rig, "log=1", 2, NOW_NS + HOUR_NS);
	assert_int_equal(rig_admitted(&rig, "log=1", 9), 6);
	reset(&rig, "log=1");
	assert_int_equal(rig_admitted(&rig, "log=1", 9), 6);
	ban(&rig, "log=1", NOW_NS + HOUR_NS);
	reset(&rig, "log=1");
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_REFUSE);
	rig_close(&rig);
	(void)state;
}

/* --- get --- */

static void target_with_and_without_a_limit_name(void **state)
{
	struct counters counters = {.count = 0};
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "two=1", 2), 2);
	assert_int_equal(weir_control_get(rig.engine, whom(&rig, "two=1"), NOW_NS, keep, &counters),
			 2);
	assert_true(wr_str_equal(counters.list[0].name, WR_STR("short")));
	assert_true(wr_str_equal(counters.list[0].rule, WR_STR("d/two/1m")));
	assert_int_equal(counters.list[0].requests, 2);
	assert_int_equal(counters.list[0].period_ns, MINUTE_NS);
	assert_int_equal(counters.list[0].algorithm, WEIR_FIXED_WINDOW);
	assert_int_equal(counters.list[0].remaining, 0);
	assert_int_equal(counters.list[0].retry_after_ns, MINUTE_NS);
	assert_int_equal(counters.list[1].remaining, 3);
	assert_int_equal(counters.list[1].retry_after_ns, 0);
	assert_int_equal(counters.list[1].reset_after_ns, DAY_NS);
	counters.count = 0;
	assert_int_equal(weir_control_get(rig.engine, whose(&rig, "two=1", "d/two/1d"), NOW_NS,
					  keep, &counters),
			 1);
	assert_true(wr_str_equal(counters.list[0].name, WR_STR("long")));
	assert_int_equal(
		weir_control_ban(rig.engine, whom(&rig, "two=1"), WEIR_NEVER, NOW_NS, NULL), 2);
	rig_close(&rig);
	(void)state;
}

static void targets_without_limits_are_errors(void **state)
{
	struct weir_error error;
	struct weir_target target;
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(
		weir_control_ban(rig.engine, whom(&rig, "free=1"), WEIR_NEVER, NOW_NS, &error),
		WEIR_ENOENT);
	assert_string_equal(error.text,
			    "no limit applies to this descriptor, or no limit has that name");
	assert_int_equal(weir_control_reset(rig.engine, whom(&rig, "nobody=1"), NOW_NS, NULL),
			 WEIR_ENOENT);
	assert_int_equal(
		weir_control_reset(rig.engine, whose(&rig, "two=1", "middle"), NOW_NS, NULL),
		WEIR_ENOENT);
	target = *whom(&rig, "fixed=1");
	target.domain = WR_STR("elsewhere");
	assert_int_equal(weir_control_reset(rig.engine, &target, NOW_NS, NULL), WEIR_ENOENT);
	target.size--;
	assert_int_equal(weir_control_reset(rig.engine, &target, NOW_NS, NULL), WEIR_EINVAL);
	assert_int_equal(weir_control_reset(NULL, whom(&rig, "fixed=1"), NOW_NS, NULL),
			 WEIR_EINVAL);
	assert_int_equal(weir_control_get(rig.engine, whom(&rig, "fixed=1"), NOW_NS, NULL, NULL),
			 WEIR_EINVAL);
	assert_int_equal(
		weir_control_ban(rig.engine, whom(&rig, "fixed=1"), NOW_NS, NOW_NS, &error),
		WEIR_ETIME);
	assert_int_equal(
		weir_control_grant(rig.engine, whom(&rig, "fixed=1"), 1, NOW_NS - 1, NOW_NS, NULL),
		WEIR_ETIME);
	assert_int_equal(weir_control_reset(rig.engine, whom(&rig, "fixed=1"), UINT64_MAX, NULL),
			 WEIR_ETIME);
	rig_close(&rig);
	(void)state;
}

/* A limit that comes with the request. */
static void target_with_an_override(void **state)
{
	struct weir_target target;
	struct weir_limit limit;
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(weir_limit_per_unit(9, 4, &limit, NULL), 0);
	target = *whom(&rig, "fixed=1");
	target.override = &limit;
	assert_int_equal(weir_control_ban(rig.engine, &target, WEIR_NEVER, NOW_NS, NULL), 1);
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "fixed=1", 9, 4, 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).flags,
			 WEIR_STATUS_LIMITED | WEIR_STATUS_OVERRIDE | WEIR_STATUS_BANNED);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(banned_keys_are_refused_until_the_end),
		cmocka_unit_test(ends_are_rounded_up_to_seconds),
		cmocka_unit_test(bans_are_lifted_or_permanent),
		cmocka_unit_test(refusal_by_a_ban_is_shown_and_counted),
		cmocka_unit_test(bans_follow_the_mode_of_the_limit),
		cmocka_unit_test(bans_take_nothing_from_other_limits),
		cmocka_unit_test(a_grant_adds_until_its_end),
		cmocka_unit_test(a_bucket_keeps_its_rate),
		cmocka_unit_test(a_grant_applies_to_each_window),
		cmocka_unit_test(header_fields_show_the_grant),
		cmocka_unit_test(a_grant_raises_the_soft_ceiling),
		cmocka_unit_test(a_grant_is_bounded),
		cmocka_unit_test(a_key_can_have_a_ban_and_a_grant),
		cmocka_unit_test(a_reset_clears_the_counter),
		cmocka_unit_test(a_reset_clears_soft_mode),
		cmocka_unit_test(a_reset_keeps_bans_and_grants),
		cmocka_unit_test(target_with_and_without_a_limit_name),
		cmocka_unit_test(targets_without_limits_are_errors),
		cmocka_unit_test(target_with_an_override),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
