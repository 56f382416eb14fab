/* Calls of weir/control.h, and their effect on requests. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include <weir/control.h>

#include "base/str.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: token\n"
	"  rate_limit: {algorithm: token_bucket, burst: 4, unit: hour, requests_per_unit: 2}\n"
	"- key: leaky\n"
	"  rate_limit: {algorithm: leaky_bucket, queue_size: 3, unit: hour, requests_per_unit: 2}\n"
	"- key: fixed\n"
	"  rate_limit: {algorithm: fixed_window, unit: day, requests_per_unit: 4}\n"
	"- key: counter\n"
	"  rate_limit: {algorithm: sliding_window_counter, unit: day, requests_per_unit: 4}\n"
	"- key: log\n"
	"  rate_limit: {algorithm: sliding_window_log, unit: day, requests_per_unit: 4}\n"
	"- key: month\n"
	"  rate_limit: {calendar: month, requests_per_unit: 4}\n"
	"- key: soft\n"
	"  rate_limit: {algorithm: fixed_window, unit: day, requests_per_unit: 4, mode: soft,\n"
	"    soft: {overshoot: 50%, for: 1h}}\n"
	"- key: two\n"
	"  rate_limits:\n"
	"  - {name: short, unit: minute, requests_per_unit: 2}\n"
	"  - {name: long, unit: day, requests_per_unit: 5}\n"
	"- key: shadow\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: quota\n"
	"  quota_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: kept\n"
	"  rate_limit: {unit: day, requests_per_unit: 4, count_rejected: true}\n"
	"- key: free\n"
	"  rate_limit: {unlimited: true}\n"
	"- key: nested\n"
	"  descriptors:\n"
	"  - key: ip\n"
	"    rate_limit: {unit: day, requests_per_unit: 1}\n";

/* Each limit admits four at once. */
static const char *const fours[] = {"token=1",   "leaky=1", "fixed=1",
				    "counter=1", "log=1",   "month=1"};
#define FOURS (sizeof fours / sizeof *fours)

static size_t entries_of(const char *text, struct weir_entry entries[8])
{
	struct weir_str rest = wr_str(text);
	size_t count = 0;

	while (rest.len) {
		struct weir_str one = wr_str_first(rest, wr_str_find(rest, '|'));
		size_t equals = wr_str_find(one, '=');

		entries[count++] = (struct weir_entry){.key = wr_str_first(one, equals),
						       .value = wr_str_from(one, equals + 1)};
		rest = wr_str_from(rest, one.len + (one.len < rest.len));
	}
	return count;
}

/* The target of a descriptor, valid until the next call. */
static const struct weir_target *whom(const struct rig *rig, const char *descriptor)
{
	static struct weir_entry entries[8];
	static struct weir_target target;

	target = (struct weir_target){.size = sizeof target,
				      .domain = wr_str(rig->domain),
				      .entries = entries,
				      .count = entries_of(descriptor, entries)};
	return &target;
}

static const struct weir_target *whose(const struct rig *rig, const char *descriptor,
				       const char *limit)
{
	static struct weir_target target;

	target = *whom(rig, descriptor);
	target.limit = wr_str(limit);
	return &target;
}

static void ban(struct rig *rig, const char *descriptor, uint64_t until_ns)
{
	assert_int_equal(
		weir_control_ban(rig->engine, whom(rig, descriptor), until_ns, rig->now_ns, NULL),
		1);
}

static void grant(struct rig *rig, const char *descriptor, uint32_t extra, uint64_t until_ns)
{
	assert_int_equal(weir_control_grant(rig->engine, whom(rig, descriptor), extra, until_ns,
					    rig->now_ns, NULL),
			 1);
}

static void reset(struct rig *rig, const char *descriptor)
{
	assert_int_equal(weir_control_reset(rig->engine, whom(rig, descriptor), rig->now_ns, NULL),
			 1);
}

struct counters {
	struct weir_counter list[4];
	int count;
};

static int keep(void *context, const struct weir_counter *counter)
{
	struct counters *counters = context;

	counters->list[counters->count++] = *counter;
	return 0;
}

static struct weir_counter get(struct rig *rig, const char *descriptor)
{
	struct counters counters = {.count = 0};

	assert_int_equal(
		weir_control_get(rig->engine, whom(rig, descriptor), rig->now_ns, keep, &counters),
		1);
	return counters.list[0];
}

/* --- ban --- */

static void banned_keys_are_refused_until_the_end(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		rig.now_ns = NOW_NS + SECOND_NS / 4;
		/* A key that was used before, and a new key. */
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
		/* The refusals took nothing. */
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
		      "\"detail\":\"This client was banned. Try again in 3600 s.\","
		      "\"violated-policies\":[\"long\"]}\n");
	assert_int_equal(rig_stat(&rig, "d/two/1d").refused, 1);
	assert_int_equal(rig_stat(&rig, "d/two/1m").refused, 0);
	/* The other limit was not charged, and is not banned. */
	assert_int_equal(
		weir_control_ban(rig.engine, whose(&rig, "two=1", "long"), 0, NOW_NS, NULL), 1);
	assert_int_equal(rig_admitted(&rig, "two=1", 9), 2);
	rig_close(&rig);
	(void)state;
}

/* A ban refuses nothing in shadow mode, refuses in quota mode only if all quotas refuse, and is not
 * charged by count_rejected. */
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
		/* Earlier takes still count. */
		rig.now_ns = NOW_NS + 10 * SECOND_NS;
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
		assert_int_equal(rig_status(&rig, 0).limit, 4);
		assert_int_equal(rig_status(&rig, 0).decision.granted, 0);
		assert_int_equal(get(&rig, fours[i]).granted_until_ns, 0);
	}
	rig_close(&rig);
	(void)state;
}

/* A bucket refills at its own rate, also above the burst. */
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
	/* The grant ends with 7 of 4 units missing: the next token comes in 2 hours. */
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

/* A grant is bounded by what an algorithm can count. */
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
	/* 100 years at 2 per hour. */
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

/* --- pause --- */

static int pause_rule(struct rig *rig, const char *rule)
{
	return weir_control_pause(rig->engine, wr_str(rule), NULL);
}

static int resume_rule(struct rig *rig, const char *rule)
{
	return weir_control_resume(rig->engine, wr_str(rule), NULL);
}

static void a_paused_rule_counts_and_refuses_nothing(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		char rule[32];

		snprintf(rule, sizeof rule, "d/%.*s", (int)(strlen(fours[i]) - 2), fours[i]);
		assert_int_equal(pause_rule(&rig, rule), 0);
		assert_int_equal(rig_admitted(&rig, fours[i], 6), 6);
		assert_int_equal(rig_result(&rig).verdict, WEIR_ADMIT);
		assert_int_equal(rig_status(&rig, 0).flags,
				 WEIR_STATUS_LIMITED | WEIR_STATUS_SHADOW |
					 WEIR_STATUS_WOULD_REFUSE | WEIR_STATUS_PAUSED);
		assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OK);
		assert_int_equal(get(&rig, fours[i]).flags, WEIR_COUNTER_PAUSED);
		assert_int_equal(get(&rig, fours[i]).remaining, 0);
		assert_int_equal(resume_rule(&rig, rule), 0);
		assert_int_equal(get(&rig, fours[i]).flags, 0);
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
	}
	assert_int_equal(rig_stat(&rig, "d/fixed/1d").shadowed, 2);
	assert_int_equal(rig_stat(&rig, "d/fixed/1d").admitted, 4);
	assert_int_equal(rig_stat(&rig, "d/fixed/1d").refused, 1);
	rig_close(&rig);
	(void)state;
}

static void a_pause_applies_to_name_prefixes(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "nested=1|ip=1", 1), 1);
	assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_REFUSE);
	for (int i = 0; i < 5; i++) {
		static const char *const names[] = {"", "d", "d/nested", "d/nested/ip",
						    "d/nested/ip/1d"};

		assert_int_equal(pause_rule(&rig, names[i]), 0);
		assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_ADMIT);
		assert_int_equal(resume_rule(&rig, names[i]), 0);
		assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_REFUSE);
		assert_int_equal(resume_rule(&rig, names[i]), WEIR_ENOENT);
	}
	for (int i = 0; i < 4; i++) {
		static const char *const others[] = {"d/nest", "d/nested/i", "d/nested/", "e"};

		assert_int_equal(pause_rule(&rig, others[i]), 0);
		assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_REFUSE);
	}
	rig_close(&rig);
	(void)state;
}

static void other_rules_are_not_paused(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(pause_rule(&rig, "d/two/1m"), 0);
	assert_int_equal(rig_admitted(&rig, "two=1", 9), 5);
	assert_int_equal(pause_rule(&rig, ""), 0);
	assert_int_equal(rig_ask(&rig, "two=1;log=1"), WEIR_ADMIT);
	ban(&rig, "log=1", WEIR_NEVER);
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_ADMIT);
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "fixed=1", 0, 4, 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(resume_rule(&rig, ""), 0);
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_REFUSE);
	assert_int_equal(rig_ask(&rig, "two=1"), WEIR_REFUSE);
	assert_int_equal(pause_rule(&rig, "d/override"), 0);
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "fixed=1", 0, 4, 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	rig_close(&rig);
	(void)state;
}

static int join(void *context, struct weir_str rule)
{
	char *text = context;

	sprintf(text + strlen(text), "[%.*s]", (int)rule.len, rule.ptr);
	return 0;
}

static void paused_names_are_listed(void **state)
{
	char text[256] = "", unknown[64];
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(pause_rule(&rig, "d/two"), 0);
	assert_int_equal(pause_rule(&rig, "d/two"), 0);
	assert_int_equal(pause_rule(&rig, "d/log/1d"), 0);
	assert_int_equal(pause_rule(&rig, ""), 0);
	assert_int_equal(weir_control_paused(rig.engine, join, text), 0);
	assert_string_equal(text, "[][d/two][d/log/1d]");
	assert_int_equal(resume_rule(&rig, ""), 0);
	assert_int_equal(resume_rule(&rig, "d/two"), 0);
	assert_int_equal(resume_rule(&rig, "d/log/1d"), 0);
	assert_int_equal(pause_rule(&rig, "not/yet"), 0);
	text[0] = '\0';
	assert_int_equal(weir_control_paused(rig.engine, join, text), 0);
	assert_int_equal(sscanf(text, "[%60[^]]", unknown), 1);
	assert_int_equal(unknown[0], '#');
	assert_int_equal(resume_rule(&rig, unknown), 0);
	text[0] = '\0';
	assert_int_equal(weir_control_paused(rig.engine, join, text), 0);
	assert_string_equal(text, "");
	rig_close(&rig);
	(void)state;
}

static void at_most_64_pauses(void **state)
{
	struct weir_error error;
	struct rig rig;
	char name[16];

	rig_open(&rig, rules, "d");
	for (int i = 0; i < WEIR_PAUSES_MAX; i++) {
		snprintf(name, sizeof name, "x/%d", i);
		assert_int_equal(pause_rule(&rig, name), 0);
	}
	assert_int_equal(weir_control_pause(rig.engine, WR_STR("d"), &error), WEIR_EMANY);
	assert_string_equal(error.text,
			    "64 names are paused already: resume one, or pause everything");
	assert_int_equal(pause_rule(&rig, "x/7"), 0);
	assert_int_equal(resume_rule(&rig, "x/9"), 0);
	assert_int_equal(pause_rule(&rig, "d"), 0);
	assert_int_equal(rig_admitted(&rig, "fixed=1", 9), 9);
	rig_close(&rig);
	(void)state;
}

/* --- bans and grants in force --- */

struct seen {
	char text[512];
	int count, stop_at;
};

static int list_one(void *context, const struct weir_override *override)
{
	struct seen *seen = context;

	sprintf(seen->text + strlen(seen->text), "[%.*s %.*s %llu +%u %llu]",
		(int) override->rule.len, override->rule.ptr, (int) override->key.len,
		override->key.ptr,
		(unsigned long long)(override->banned_until_ns
					     ? (override->banned_until_ns - NOW_NS) / SECOND_NS
					     : 0),
		override->granted,
		(unsigned long long)(override->granted_until_ns
					     ? (override->granted_until_ns - NOW_NS) / SECOND_NS
					     : 0));
	assert_int_equal(override->changed_ns, NOW_NS);
	return ++seen->count == seen->stop_at;
}

static void bans_and_grants_are_listed(void **state)
{
	struct seen seen = {.count = 0};
	struct rig rig;

	rig_open(&rig, rules, "d");
	ban(&rig, "nested=1|ip=10.0.0.1", NOW_NS + HOUR_NS);
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, list_one, &seen), 0);
	assert_string_equal(seen.text, "[d/nested/ip/1d d|nested=1|ip=10.0.0.1 3600 +0 0]");
	grant(&rig, "nested=1|ip=10.0.0.1", 5, NOW_NS + MINUTE_NS);
	seen = (struct seen){.count = 0};
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, list_one, &seen), 0);
	assert_string_equal(seen.text, "[d/nested/ip/1d d|nested=1|ip=10.0.0.1 3600 +5 60]");
	ban(&rig, "log=1", WEIR_NEVER);
	seen = (struct seen){.stop_at = 1};
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, list_one, &seen), 1);
	ban(&rig, "log=1", 0);
	seen = (struct seen){.count = 0};
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS + HOUR_NS, list_one, &seen), 0);
	assert_int_equal(seen.count, 0);
	rig_close(&rig);
	(void)state;
}

/* --- the central store --- */

static void a_banned_key_asks_no_question(void **state)
{
	struct rig rig;
	char question[WEIR_QUESTION_MAX];

	rig_open_with(&rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	assert_int_equal(rig_ask(&rig, "fixed=1"), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, NOW_NS), WEIR_ADMIT);
	ban(&rig, "fixed=1", NOW_NS + MINUTE_NS);
	assert_int_equal(get(&rig, "fixed=1").flags, WEIR_COUNTER_CENTRAL);
	assert_int_equal(rig_ask(&rig, "fixed=1;log=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, MINUTE_NS);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_BANNED);
	assert_int_equal(weir_ask_question(rig.ask, question, sizeof question), 0);
	ban(&rig, "shadow=1", NOW_NS + MINUTE_NS);
	assert_int_equal(rig_ask(&rig, "shadow=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "shadow=1;log=1"), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, NOW_NS), WEIR_ADMIT);
	rig_close(&rig);
	(void)state;
}

/* The change applies to a second engine on the table that has its own rules. */
static void changes_apply_to_all_engines(void **state)
{
	struct rig one, other;

	rig_open(&one, rules, "d");
	other = (struct rig){.table = one.table, .domain = "d", .now_ns = NOW_NS};
	assert_int_equal(weir_engine_new(one.table, rig_rules(rules), NULL, &other.engine), 0);
	ban(&one, "fixed=1", WEIR_NEVER);
	assert_int_equal(rig_ask(&other, "fixed=1"), WEIR_REFUSE);
	assert_int_equal(pause_rule(&other, "d"), 0);
	assert_int_equal(rig_ask(&one, "fixed=1"), WEIR_ADMIT);
	weir_ask_done(other.ask);
	weir_engine_free(other.engine);
	rig_close(&one);
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
		cmocka_unit_test(a_paused_rule_counts_and_refuses_nothing),
		cmocka_unit_test(a_pause_applies_to_name_prefixes),
		cmocka_unit_test(other_rules_are_not_paused),
		cmocka_unit_test(paused_names_are_listed),
		cmocka_unit_test(at_most_64_pauses),
		cmocka_unit_test(bans_and_grants_are_listed),
		cmocka_unit_test(a_banned_key_asks_no_question),
		cmocka_unit_test(changes_apply_to_all_engines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
