/* Responses to a decision: statuses as in RLS, header fields with exact values, and bodies. */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: minute\n"
	"  rate_limit: {unit: minute, requests_per_unit: 10, name: per-minute}\n"
	"- key: post\n"
	"  rate_limit: {unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 5}\n"
	"- key: slow\n"
	"  rate_limit: {period: 90s, requests_per_unit: 2, algorithm: token_bucket}\n"
	"- key: log\n"
	"  rate_limit: {period: 5m, requests_per_unit: 2, algorithm: sliding_window_log}\n"
	"- key: ban\n"
	"  rate_limit: {unit: day, requests_per_unit: 0}\n"
	"- key: month\n"
	"  rate_limit: {calendar: month, requests_per_unit: 3}\n"
	"- key: tick\n"
	"  rate_limit: {period: 100ms, requests_per_unit: 1}\n"
	"- key: odd\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, name: \"a\\\"b\\\\c<é&>\\n\"}\n"
	"- key: own\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, response: {status: 503}}\n"
	"- key: nested\n"
	"  value: x\n"
	"  descriptors:\n"
	"  - key: ip\n"
	"    metadata: {team: edge}\n"
	"    rate_limit: {unit: day, requests_per_unit: 1}\n";

/* The response of envoyproxy/ratelimit: 10 per minute, 9 left, 58 s. */
static void status_fields(void **state)
{
	struct weir_status s;
	struct rig rig;

	rig_open(&rig, rules, "d");
	rig.now_ns += 2 * SECOND_NS;
	assert_int_equal(rig_ask(&rig, "minute=1"), WEIR_ADMIT);
	s = rig_status(&rig, 0);
	assert_int_equal(s.code, WEIR_STATUS_OK);
	assert_int_equal(s.requests_per_unit, 10);
	assert_int_equal(s.unit, 2);
	assert_int_equal(s.remaining, 9);
	assert_int_equal(s.reset_s, 58);
	assert_true(wr_str_equal(s.name, WR_STR("per-minute")));
	assert_true(wr_str_equal(s.rule, WR_STR("d/minute/1m")));
	/* reset_s is rounded up. At the start of a window it is the whole period. It is never 0. */
	rig.now_ns = NOW_NS + MINUTE_NS - 1;
	rig_ask(&rig, "minute=1");
	assert_int_equal(rig_status(&rig, 0).reset_s, 1);
	rig.now_ns = NOW_NS + MINUTE_NS;
	rig_ask(&rig, "minute=1");
	assert_int_equal(rig_status(&rig, 0).reset_s, 60);
	/* The same holds for a key that was never used. */
	rig_begin(&rig);
	rig_add(&rig, "minute=new", 0);
	rig_decide(&rig);
	assert_int_equal(rig_status(&rig, 0).reset_s, 60);
	assert_int_equal(rig_status(&rig, 0).remaining, 10);
	rig_begin(&rig);
	rig_add(&rig, "post=new", 0);
	rig_decide(&rig);
	assert_int_equal(rig_status(&rig, 0).reset_s, 1);
	/* The limit in a status is the burst, requests_per_unit is the rate. */
	assert_int_equal(rig_ask(&rig, "post=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).requests_per_unit, 2);
	assert_int_equal(rig_status(&rig, 0).limit, 5);
	assert_int_equal(rig_status(&rig, 0).remaining, 4);
	/* RLS has no unit for this period. */
	rig_ask(&rig, "slow=1");
	assert_int_equal(rig_status(&rig, 0).unit, 0);
	assert_int_equal(rig_status(&rig, 0).period_ns, 90 * SECOND_NS);
	/* The metadata of the rule, or "" if it has none. */
	rig_ask(&rig, "nested=x|ip=192.0.2.1;minute=1");
	assert_true(wr_str_equal(rig_status(&rig, 0).metadata, WR_STR("{\"team\":\"edge\"}")));
	assert_int_equal(rig_status(&rig, 1).metadata.len, 0);
	/* Without a rule the status is OK, and the other fields are zero. */
	rig_ask(&rig, "nothing=1");
	s = rig_status(&rig, 0);
	assert_int_equal(s.code, WEIR_STATUS_OK);
	assert_int_equal(s.flags | s.remaining | s.requests_per_unit | s.reset_s, 0);
	assert_int_equal(weir_ask_status(rig.ask, 1, &s), WEIR_EINVAL);
	s.size = 4;
	assert_int_equal(weir_ask_status(rig.ask, 0, &s), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

static void the_tightest_limit_is_shown(void **state)
{
	struct weir_status s = {.size = sizeof s};
	struct rig rig;

	rig_open(&rig, rules, "d");
	/* The limit with the fewest remaining units is shown: 1 of 2, not 2 of 3 or 9 of 10. */
	rig_ask(&rig, "minute=1;month=1;log=1");
	assert_int_equal(weir_ask_tightest(rig.ask, &s), 0);
	assert_true(wr_str_equal(s.rule, WR_STR("d/log/5m")));
	/* If the remaining units are equal, the limit with the longest wait is shown: 1 of 2 in 5
	 * minutes, not 1 of 2 in 90 s. */
	rig_ask(&rig, "slow=2;log=2");
	s.size = sizeof s;
	assert_int_equal(weir_ask_tightest(rig.ask, &s), 0);
	assert_true(wr_str_equal(s.rule, WR_STR("d/log/5m")));
	rig_ask(&rig, "log=3;slow=3");
	assert_int_equal(weir_ask_tightest(rig.ask, &s), 0);
	assert_true(wr_str_equal(s.rule, WR_STR("d/log/5m")));
	/* If the request is refused, the status is that of a limit that refused, even if another
	 * limit has fewer units left. */
	assert_int_equal(rig_admitted(&rig, "month=9", 2), 2);
	assert_int_equal(rig_admitted(&rig, "nested=x|ip=9", 1), 1);
	rig_begin(&rig);
	rig_add(&rig, "nested=x|ip=9", 0);
	rig_add(&rig, "month=9", 2);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(weir_ask_tightest(rig.ask, &s), 0);
	assert_true(wr_str_equal(s.rule, WR_STR("d/nested=x/ip/1d")));
	rig_ask(&rig, "minute=9");
	rig_begin(&rig);
	rig_add(&rig, "log=9", 1);
	rig_add(&rig, "minute=9", 10);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(weir_ask_tightest(rig.ask, &s), 0);
	/* The log has 2 units left and admits the request. */
	assert_int_equal(s.decision.remaining, 9);
	assert_true(wr_str_equal(s.rule, WR_STR("d/minute/1m")));
	rig_ask(&rig, "none=1");
	assert_int_equal(weir_ask_tightest(rig.ask, &s), WEIR_ENOENT);
	rig_close(&rig);
	(void)state;
}

static void assert_header(struct rig *rig, int profile, const char *name, const char *value)
{
	const char *found = rig_header(rig, profile, name);

	if (!value) {
		assert_null(found);
		return;
	}
	if (!found)
		fail_msg("no %s", name);
	assert_string_equal(found, value);
}

/* A request succeeds after Retry-After seconds, and is refused one second earlier. */
static void profile_x_of_a_refusal(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	rig.now_ns += 2500000000u; /* 2.5 s into the minute */
	for (int left = 9; left >= 0; left--) {
		char text[8];

		assert_int_equal(rig_ask(&rig, "minute=1"), WEIR_ADMIT);
		snprintf(text, sizeof text, "%d", left);
		assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Limit", "10");
		assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Remaining", text);
		assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Retry-After", NULL);
		assert_header(&rig, WEIR_PROFILE_X, "Retry-After", NULL);
		assert_header(&rig, WEIR_PROFILE_X, "Cache-Control", NULL);
	}
	assert_int_equal(rig_ask(&rig, "minute=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 429);
	assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Limit", "10");
	assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Remaining", "0");
	assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Retry-After", "58"); /* 57.5 s */
	assert_header(&rig, WEIR_PROFILE_X, "Retry-After", "58");
	assert_header(&rig, WEIR_PROFILE_X, "Cache-Control", "no-store");
	assert_header(&rig, WEIR_PROFILE_X, "RateLimit-Policy", "\"per-minute\";q=10;w=60");
	assert_header(&rig, WEIR_PROFILE_X, "RateLimit", "\"per-minute\";r=0;t=58");
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_X), 7);
	rig.now_ns += 57 * SECOND_NS;
	assert_int_equal(rig_ask(&rig, "minute=1"), WEIR_REFUSE);
	assert_header(&rig, WEIR_PROFILE_X, "Retry-After", "1");
	rig.now_ns += SECOND_NS;
	assert_int_equal(rig_ask(&rig, "minute=1"), WEIR_ADMIT);
	rig_close(&rig);
	(void)state;
}

/* A wait below a second becomes a second. If waiting does not help, there is no field. */
static void retry_after_is_rounded_up(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "tick=1", 2), 1);
	assert_header(&rig, WEIR_PROFILE_X, "Retry-After", "1");
	assert_header(&rig, WEIR_PROFILE_X, "RateLimit-Policy", "\"tick/100ms\";q=1;w=1");
	assert_int_equal(rig_ask(&rig, "ban=1"), WEIR_REFUSE);
	assert_header(&rig, WEIR_PROFILE_X, "Retry-After", NULL);
	assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Retry-After", NULL);
	assert_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Limit", "0");
	assert_header(&rig, WEIR_PROFILE_X, "RateLimit-Policy", "\"ban/1d\";q=0;w=86400");
	assert_header(&rig, WEIR_PROFILE_X, "Cache-Control", "no-store");
	/* Two limits refuse: the wait is until both admit. */
	assert_int_equal(rig_admitted(&rig, "log=1", 3), 2);
	assert_int_equal(rig_ask(&rig, "tick=1;log=1"), WEIR_REFUSE);
	assert_header(&rig, WEIR_PROFILE_X, "Retry-After", "300");
	rig_close(&rig);
	(void)state;
}

static void ietf_lists(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	rig.now_ns += SECOND_NS / 2;
	assert_int_equal(rig_ask(&rig, "minute=1;post=1;nested=x|ip=192.0.2.1;month=1"),
			 WEIR_ADMIT);
	/* 2 per second with a burst of 5 is a quota of 5 in 2.5 s, and the next token comes in half
	 * a second. A rule without a name is shown with its keys; values of clients are not
	 * shown. */
	assert_header(
		&rig, WEIR_PROFILE_IETF, "RateLimit-Policy",
		"\"per-minute\";q=10;w=60, \"post/1s\";q=5;w=3, \"nested.ip/1d\";q=1;w=86400, "
		"\"month/30d\";q=3;w=2592000");
	assert_header(&rig, WEIR_PROFILE_IETF, "RateLimit",
		      "\"per-minute\";r=9;t=60, \"post/1s\";r=4;t=1, \"nested.ip/1d\";r=0;t=86400, "
		      "\"month/30d\";r=2;t=1296000");
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_IETF), 2);
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_X), 4);
	/* A counter that is named twice has one item. */
	rig_ask(&rig, "minute=1;minute=1");
	assert_header(&rig, WEIR_PROFILE_IETF, "RateLimit", "\"per-minute\";r=7;t=60");
	/* Names are quoted. Characters that RFC 9651 does not allow are replaced. */
	rig_ask(&rig, "odd=1");
	assert_header(&rig, WEIR_PROFILE_IETF, "RateLimit-Policy",
		      "\"a\\\"b\\\\c<??&>?\";q=1;w=3600");
	rig_close(&rig);
	(void)state;
}

static void profiles_github_and_none(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	rig.now_ns += SECOND_NS / 2;
	assert_int_equal(rig_ask(&rig, "minute=1"), WEIR_ADMIT);
	assert_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-limit", "10");
	assert_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-remaining", "9");
	assert_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-used", "1");
	assert_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-reset", "1794787260");
	assert_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-resource", "per-minute");
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_GITHUB), 5);
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_NONE), 0);
	assert_int_equal(rig_admitted(&rig, "minute=1", 10), 9);
	assert_header(&rig, WEIR_PROFILE_GITHUB, "retry-after", "60");
	assert_header(&rig, WEIR_PROFILE_GITHUB, "x-ratelimit-used", "10");
	assert_header(&rig, WEIR_PROFILE_GITHUB, "RateLimit", NULL);
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_NONE), 1);
	assert_header(&rig, WEIR_PROFILE_NONE, "Cache-Control", "no-store");
	assert_int_equal(rig_ask(&rig, "none=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_X), 0);

	assert_int_equal(weir_profile_by_name(WR_STR("x")), WEIR_PROFILE_X);
	assert_int_equal(weir_profile_by_name(WR_STR("github")), WEIR_PROFILE_GITHUB);
	assert_int_equal(weir_profile_by_name(WR_STR("twitter")), -1);
	rig_close(&rig);
	(void)state;
}

/* Sixty-four limits with long names: the lists are bounded and end with a complete item. */
static void lists_are_bounded(void **state)
{
	char yaml[8192] = "domain: d\ndescriptors:\n- key: a\n  rate_limits:\n";
	struct weir_str name, value;
	struct rig rig;

	for (int i = 0; i < 8; i++)
		snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml),
			 "  - {period: %ds, requests_per_unit: 100, name: %0*d}\n", i + 1, 200, i);
	rig_open(&rig, yaml, "d");
	rig_begin(&rig);
	for (int i = 0; i < 8; i++) {
		char descriptor[16];

		snprintf(descriptor, sizeof descriptor, "a=%d", i);
		assert_int_equal(rig_add(&rig, descriptor, 1), 0);
	}
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_X), 4);
	for (size_t i = 2; i < 4; i++) {
		assert_int_equal(weir_ask_header(rig.ask, i, &name, &value), 0);
		assert_in_range(value.len, 1400, 1700);
		assert_int_not_equal(value.ptr[value.len - 1], ' ');
		assert_int_not_equal(value.ptr[value.len - 1], ',');
	}
	assert_int_equal(weir_ask_header(rig.ask, 4, &name, &value), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

static const char *body(struct rig *rig, int type, const char *content_type)
{
	static char text[2048];
	struct weir_str name;
	int len = weir_ask_body(rig->ask, type, text, sizeof text - 1, &name);

	assert_in_range(len, 1, sizeof text - 1);
	text[len] = '\0';
	assert_true(wr_str_equal(name, wr_str(content_type)));
	return text;
}

static void bodies_of_refusals(void **state)
{
	struct weir_str type;
	struct rig rig;
	char cut[8];

	rig_open(&rig, rules, "d");
	rig_ask(&rig, "odd=1");
	assert_int_equal(weir_ask_body(rig.ask, 0, cut, sizeof cut, &type), WEIR_EINVAL);
	assert_int_equal(rig_ask(&rig, "odd=1"), WEIR_REFUSE);
	assert_string_equal(
		body(&rig, WEIR_BODY_PROBLEM, "application/problem+json"),
		"{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
		"\"title\":\"Too Many Requests\",\"status\":429,"
		"\"detail\":\"A rate limit was exceeded. Try again in 3600 s.\","
		"\"violated-policies\":[\"a\\\"b\\\\c<??&>?\"]}\n");
	assert_string_equal(body(&rig, WEIR_BODY_TEXT, "text/plain; charset=utf-8"),
			    "A rate limit was exceeded. Try again in 3600 s. Limit: "
			    "a\"b\\c<??&>?.\n");
	assert_non_null(strstr(body(&rig, WEIR_BODY_HTML, "text/html; charset=utf-8"),
			       "<p>A rate limit was exceeded. Try again in 3600 s. Limit: "
			       "a&quot;b\\c&lt;??&amp;&gt;?.</p>"));
	assert_non_null(strstr(body(&rig, WEIR_BODY_HTML, "text/html; charset=utf-8"),
			       "<title>429 Too Many Requests</title>"));
	assert_int_equal(weir_ask_body(rig.ask, WEIR_BODY_TEXT, cut, sizeof cut, &type), 68);
	assert_memory_equal(cut, "A rate l", 8);
	/* The body names all limits that refused, and no others. */
	assert_int_equal(rig_admitted(&rig, "log=1", 3), 2);
	assert_int_equal(rig_ask(&rig, "minute=1;log=1;odd=1"), WEIR_REFUSE);
	assert_non_null(strstr(body(&rig, WEIR_BODY_PROBLEM, "application/problem+json"),
			       "\"violated-policies\":[\"log/5m\",\"a\\\"b\\\\c<??&>?\"]"));
	/* Waiting does not help, so the body has no wait. */
	rig_ask(&rig, "ban=1");
	assert_non_null(strstr(body(&rig, WEIR_BODY_PROBLEM, "application/problem+json"),
			       "\"detail\":\"A rate limit was exceeded.\","));
	/* A rule with its own status and the default body. */
	assert_int_equal(rig_admitted(&rig, "own=1", 2), 1);
	assert_int_equal(rig_result(&rig).http_status, 503);
	assert_non_null(strstr(body(&rig, WEIR_BODY_PROBLEM, "application/problem+json"),
			       "\"status\":503,"));
	rig_close(&rig);
	(void)state;
}

static void body_type_by_accept(void **state)
{
	static const struct {
		const char *accept;
		int type;
	} cases[] = {
		{"", WEIR_BODY_PROBLEM},
		{"*/*", WEIR_BODY_PROBLEM},
		{"application/json", WEIR_BODY_PROBLEM},
		{"application/*", WEIR_BODY_PROBLEM},
		{"text/plain", WEIR_BODY_TEXT},
		{"Text/Plain; charset=utf-8", WEIR_BODY_TEXT},
		{"text/*", WEIR_BODY_TEXT},
		{"text/html", WEIR_BODY_HTML},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", WEIR_BODY_HTML},
		{"application/json, text/plain, */*", WEIR_BODY_PROBLEM},
		{"text/html;q=0.5, text/plain;q=0.7", WEIR_BODY_TEXT},
		{"text/html;q=0.5, application/json;q=0.7", WEIR_BODY_PROBLEM},
		{"text/html;q=0, */*", WEIR_BODY_PROBLEM},
		{"text/plain;q=0.001", WEIR_BODY_TEXT},
		{"image/png", WEIR_BODY_PROBLEM},
		{"application/problem+json, text/html", WEIR_BODY_PROBLEM},
		{";;;,,,=q", WEIR_BODY_PROBLEM},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (weir_body_type(wr_str(cases[i].accept)) != cases[i].type)
			fail_msg("%s", cases[i].accept);
	/* Any Accept header gets a body type, and no byte after its end is read. */
	for (uint64_t dice = 1, n = 0; n < 20000; n++) {
		static const char letters[] = "*/,;=q.01 \ttexhmlapicojsnr-+";
		char text[40] = "", *exact;
		size_t len = n % sizeof text;
		int type;

		for (size_t i = 0; i < len; i++) {
			dice = dice * 6364136223846793005u + 1442695040888963407u;
			text[i] = letters[(dice >> 33) % (sizeof letters - 1)];
		}
		exact = malloc(len + !len);
		assert_non_null(exact);
		memcpy(exact, text, len);
		type = weir_body_type((struct weir_str){exact, len});
		assert_in_range(type, WEIR_BODY_PROBLEM, WEIR_BODY_HTML);
		free(exact);
	}
	(void)state;
}

/* Requests that are refused without a limit. */
static void refusals_without_limits(void **state)
{
	static const char yaml[] = "domain: d\n"
				   "requests:\n"
				   "- descriptor: [{key: a, from: header.a, missing: deny}]\n"
				   "descriptors:\n"
				   "- key: a\n"
				   "  rate_limit: {unit: day, requests_per_unit: 1}\n";
	static char target[40000];
	struct rig rig;

	rig_open(&rig, yaml, "d");
	assert_int_equal(rig_http(&rig, "GET /", NULL, NULL), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 403);
	assert_int_equal(weir_ask_headers(rig.ask, WEIR_PROFILE_X), 1);
	assert_string_equal(body(&rig, WEIR_BODY_PROBLEM, "application/problem+json"),
			    "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
			    "\"detail\":\"A value that the rules require is missing from the "
			    "request.\","
			    "\"violated-policies\":[]}\n");
	assert_string_equal(body(&rig, WEIR_BODY_TEXT, "text/plain; charset=utf-8"),
			    "A value that the rules require is missing from the request.\n");
	snprintf(target, sizeof target, "GET /%0*d", (int)sizeof target - 6, 0);
	assert_int_equal(rig_http(&rig, target, "a: 1", NULL), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 400);
	assert_int_equal(rig_stat(&rig, "unreadable").refused, 1);
	assert_int_equal(rig_http(&rig, "GET /?a=#", "a: 1", NULL), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 400);
	assert_string_equal(body(&rig, WEIR_BODY_TEXT, "text/plain; charset=utf-8"),
			    "The request target is malformed, or the request has too many or too "
			    "long parts.\n");
	assert_int_equal(rig_stat(&rig, "unreadable").refused, 2);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_fields),
		cmocka_unit_test(the_tightest_limit_is_shown),
		cmocka_unit_test(profile_x_of_a_refusal),
		cmocka_unit_test(retry_after_is_rounded_up),
		cmocka_unit_test(ietf_lists),
		cmocka_unit_test(profiles_github_and_none),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(bodies_of_refusals),
		cmocka_unit_test(body_type_by_accept),
		cmocka_unit_test(refusals_without_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
