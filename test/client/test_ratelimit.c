/* weir_ratelimit_parse: one row per provider, drafts, hostile fields. Each row has the header
 * fields of a response and the expected result as text:
 *
 *   wait 3000; refused; "name" ietf tokens limit 100 remaining 50 window 60000 reset 30000
 *
 * Times are in milliseconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/ratelimit.h>

#define FIELDS_MAX 300
#define NOW_NS 1800000000000000000ull /* 2027-01-15T08:00:00Z */
#define TEXT_BYTES 4096

struct row {
	const char *provider;
	int status;
	const char *fields;
	const char *expected;
};

static const struct row waits[] = {
	{"seconds", 429, "Retry-After: 3\n", "wait 3000; refused"},
	{"decimals, Shopify and Discord", 429, "retry-after: 0.2505\n", "wait 251; refused"},
	{"zero", 429, "Retry-After: 0\n", "refused"},
	{"IMF-fixdate", 503, "Retry-After: Fri, 15 Jan 2027 08:00:05 GMT\n", "wait 5000"},
	{"RFC 850", 503, "Retry-After: Friday, 15-Jan-27 08:00:05 GMT\n", "wait 5000"},
	{"asctime", 503, "Retry-After: Fri Jan 15 08:00:05 2027\n", "wait 5000"},
	{"date in the past", 429, "Retry-After: Fri, 15 Jan 2027 07:00:05 GMT\n", "refused"},
	{"the server's clock is a year late", 503,
	 "Date: Thu, 15 Jan 2026 08:00:00 GMT\nRetry-After: Thu, 15 Jan 2026 08:00:09 GMT\n",
	 "wait 9000"},
	{"milliseconds", 429, "Retry-After-Ms: 1500\n", "wait 1500; refused"},
	{"milliseconds, capped to 366 days", 429, "Retry-After-Ms: 99999999999\n",
	 "wait 31622400000; refused"},
	{"two fields that were joined", 429, "Retry-After: 3, 5\n", "wait 5000; refused"},
	{"joined fields, one of them unreadable", 429, "Retry-After: 5 , -1,, soon,3\n",
	 "wait 5000; refused"},
	{"joined fields, a word first", 429, "Retry-After: soon, 3\n", "wait 3000; refused"},
	{"joined dates of all forms", 429,
	 "Retry-After: 2, Fri, 15 Jan 2027 08:00:05 GMT, Friday, 15-Jan-27 08:00:07 GMT,"
	 "Fri Jan 15 08:00:06 2027\n",
	 "wait 7000; refused"},
	{"joined dates, the later one first", 429,
	 "Retry-After: Sat, 16 Jan 2027 08:00:00 GMT, Fri, 15 Jan 2027 08:00:05 GMT\n",
	 "wait 86400000; refused"},
	{"a date with a comma in the middle", 429, "Retry-After: January 15, 2027 08:00:05 GMT\n",
	 "wait 5000; refused"},
	{"joined milliseconds and durations", 429,
	 "Retry-After-Ms: 1500, 700\nX-Retry-In: 1s, 2s\n", "wait 2000; refused"},
	{"separators only", 429, "Retry-After: , ,,\n", "refused"},
	{"the longest wait counts", 429, "Retry-After: 1\nretry-after-ms: 1500\nRetry-After: 0.1\n",
	 "wait 1500; refused"},
	{"weir", 429, "X-Ratelimit-Retry-After: 7\n", "wait 7000; refused"},
	{"Traefik", 429, "X-Retry-In: 1.2s\n", "wait 1200; refused"},
	{"redirect", 301, "Retry-After: 2\n", "wait 2000"},
	{"capped to 366 days", 429, "Retry-After: 99999999999999999999999\n",
	 "wait 31622400000; refused"},
	{"the last year with four digits", 429, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\n",
	 "wait 31622400000; refused"},
	{"negative, words and nothing", 429,
	 "Retry-After: -1\nRetry-After: soon\nRetry-After:\nRetry-After: 1 2\nRetry-After: .\n",
	 "refused"},
};

static const struct row drafts[] = {
	{"drafts 8 to 11", 200,
	 "RateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400\n"
	 "RateLimit: \"burst\";r=50;t=30, \"daily\";r=999\n",
	 "; \"burst\" ietf requests limit 100 remaining 50 window 60000 reset 30000"
	 "; \"daily\" ietf requests limit 1000 remaining 999 window 86400000"},
	{"the state comes before the policy, with partition key and unit", 200,
	 "RateLimit: \"u\";r=9;t=1;pk=:c2Rm:\n"
	 "RateLimit-Policy: \"u\";q=65535;qu=\"content-bytes\";w=10;pk=:c2Rm:;comment=x\n",
	 "; \"u\" ietf bytes limit 65535 remaining 9 window 10000 reset 1000"},
	{"blanks, a token as name, concurrent requests", 200,
	 "RateLimit-Policy: slots ; q=5 ; qu=\"concurrent-requests\"\nRateLimit: slots ; r=1\n",
	 "; \"slots\" ietf concurrent limit 5 remaining 1"},
	{"Retry-After wins over t", 429, "RateLimit: \"a\";r=0;t=30\nRetry-After: 31\n",
	 "wait 31000; refused; \"a\" ietf requests remaining 0 reset 30000"},
	{"t is the wait if there is no other", 429, "RateLimit: \"a\";r=0;t=30, \"b\";r=4;t=99\n",
	 "wait 30000; refused; \"a\" ietf requests remaining 0 reset 30000"
	 "; \"b\" ietf requests remaining 4 reset 99000"},
	{"draft 7", 200,
	 "RateLimit: limit=100, remaining=50, reset=30\nRateLimit-Policy: 100;w=60\n",
	 "; \"\" draft7 requests limit 100 remaining 50 window 60000 reset 30000"},
	{"drafts 3 to 6, one field", 200,
	 "RateLimit-Limit: 100, 10;w=1, 100;w=60\nRateLimit-Remaining: 50\nRateLimit-Reset: 30\n",
	 "; \"\" draft3 requests limit 100 remaining 50 window 60000 reset 30000"
	 "; \"\" draft3 requests limit 10 window 1000"},
	{"drafts 3 to 6, with a policy field", 200,
	 "RateLimit-Policy: 10;w=1\nRateLimit-Limit: 10\nRateLimit-Remaining: 3\nRateLimit-Reset: "
	 "1\n",
	 "; \"\" draft3 requests limit 10 remaining 3 window 1000 reset 1000"},
	{"a cached response", 200, "Age: 2\nRateLimit: \"a\";r=0;t=30\nRetry-After: 1\n",
	 "wait 1000; cached"},
	{"a response that is not cached", 200, "Age: 0\nRateLimit: \"a\";r=1\n",
	 "; \"a\" ietf requests remaining 1"},
};

static const struct row providers[] = {
	{"GitHub, primary limit", 403,
	 "x-ratelimit-limit: 5000\nx-ratelimit-remaining: 0\nx-ratelimit-used: 5000\n"
	 "x-ratelimit-reset: 1800000060\nx-ratelimit-resource: core\n",
	 "wait 60000; refused; \"core\" x requests limit 5000 remaining 0 reset 60000"},
	{"GitHub, secondary limit", 403,
	 "retry-after: 60\nx-ratelimit-limit: 30\nx-ratelimit-remaining: 12\n"
	 "x-ratelimit-reset: 1800000010\n",
	 "wait 60000; refused; \"\" x requests limit 30 remaining 12 reset 10000"},
	{"a 403 that is no refusal", 403,
	 "x-ratelimit-limit: 30\nx-ratelimit-remaining: 12\nx-ratelimit-reset: 1800000010\n",
	 "; \"\" x requests limit 30 remaining 12 reset 10000"},
	{"Twitter", 429,
	 "x-rate-limit-limit: 15\nx-rate-limit-remaining: 0\nx-rate-limit-reset: 1800000900\n"
	 "x-user-limit-24hour-limit: 500\nx-user-limit-24hour-remaining: 400\n",
	 "wait 900000; refused; \"\" x requests limit 15 remaining 0 reset 900000"
	 "; \"24hour\" x requests limit 500 remaining 400 window 86400000"},
	{"OpenAI", 200,
	 "x-ratelimit-limit-requests: 60\nx-ratelimit-limit-tokens: 150000\n"
	 "x-ratelimit-remaining-requests: 59\nx-ratelimit-remaining-tokens: 149984\n"
	 "x-ratelimit-reset-requests: 12ms\nx-ratelimit-reset-tokens: 6m0s\n",
	 "; \"requests\" x requests limit 60 remaining 59 reset 12"
	 "; \"tokens\" x tokens limit 150000 remaining 149984 reset 360000"},
	{"Anthropic", 200,
	 "anthropic-ratelimit-requests-limit: 50\nanthropic-ratelimit-requests-remaining: 49\n"
	 "anthropic-ratelimit-requests-reset: 2027-01-15T08:00:02Z\n"
	 "anthropic-ratelimit-input-tokens-limit: 40000\n"
	 "anthropic-ratelimit-input-tokens-remaining: 7\n",
	 "; \"requests\" vendor requests limit 50 remaining 49 reset 2000"
	 "; \"input-tokens\" vendor tokens limit 40000 remaining 7"},
	{"Discord", 429,
	 "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 0.52\n"
	 "X-RateLimit-Bucket: abcd1234\nX-RateLimit-Scope: user\nRetry-After: 0.65\n",
	 "wait 650; refused; \"abcd1234\" x requests limit 5 remaining 0 reset 520"},
	{"Envoy", 200,
	 "x-ratelimit-limit: 10, 10;w=1;name=\"per-ip\", 1000;w=3600\nx-ratelimit-remaining: 9\n"
	 "x-ratelimit-reset: 1\n",
	 "; \"per-ip\" x requests limit 10 remaining 9 window 1000 reset 1000"
	 "; \"\" x requests limit 1000 window 3600000"},
	{"Kong", 200,
	 "RateLimit-Limit: 6\nRateLimit-Remaining: 4\nRateLimit-Reset: 47\n"
	 "X-RateLimit-Limit-Minute: 6\nX-RateLimit-Remaining-Minute: 4\n",
	 "; \"\" draft3 requests limit 6 remaining 4 reset 47000"
	 "; \"Minute\" x requests limit 6 remaining 4 window 60000"},
	{"Shopify", 200, "X-Shopify-Shop-Api-Call-Limit: 32/40\n",
	 "; \"\" vendor requests limit 40 remaining 8"},
	{"Akamai", 200,
	 "X-RateLimit-Limit: 8\nX-RateLimit-Remaining: 7\nX-RateLimit-Next: "
	 "2027-01-15T08:00:00.250Z\n",
	 "; \"\" x requests limit 8 remaining 7 reset 250"},
	{"lemlist", 200,
	 "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 1\n"
	 "X-RateLimit-Reset: Fri Jan 15 2027 08:00:02 GMT\n",
	 "; \"\" x requests limit 20 remaining 1 reset 2000"},
	{"epoch in milliseconds", 200, "X-RateLimit-Limit: 2\nX-RateLimit-Reset: 1800000001500\n",
	 "; \"\" x requests limit 2 reset 1500"},
	{"Discord, with a fraction of a second", 429,
	 "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060.5\n",
	 "wait 60500; refused; \"\" x requests limit 5 remaining 0 reset 60500"},
	{"epoch in milliseconds, with a fraction", 200,
	 "X-RateLimit-Limit: 2\nX-RateLimit-Reset: 1800000001500.25\n",
	 "; \"\" x requests limit 2 reset 1501"},
	{"weir", 429,
	 "X-Ratelimit-Limit: 100\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Retry-After: 1\n"
	 "RateLimit-Policy: \"api/ip/1s\";q=100;w=1\nRateLimit: \"api/ip/1s\";r=0;t=1\n"
	 "Retry-After: 1\n",
	 "wait 1000; refused; \"\" x requests limit 100 remaining 0"
	 "; \"api/ip/1s\" ietf requests limit 100 remaining 0 window 1000 reset 1000"},
};

static const struct row hostile[] = {
	{"nothing", 200, "", ""},
	{"a quote without an end", 200, "RateLimit: \"a;r=1\nRateLimit: \"b\\\"c\";r=2\n",
	 "; \"b\\\"c\" ietf requests remaining 2"},
	{"separators only", 200, "RateLimit: ,,;;==,;=;\nRateLimit-Policy: =;=,\n", ""},
	{"numbers beyond 64 bits", 200, "RateLimit: \"a\";r=99999999999999999999;t=1e9\n",
	 "; \"a\" ietf requests remaining 18446744073709551615"},
	{"a negative number and a window of 0", 200,
	 "RateLimit: \"a\";r=-1\nRateLimit-Policy: \"a\";q=5;w=0\n",
	 "; \"a\" ietf requests limit 5"},
	{"dates that do not exist", 200,
	 "X-RateLimit-Limit: 1\nX-RateLimit-Reset: 2027-13-01T00:00:00Z\n"
	 "X-RateLimit-Reset: Xxx, 01 Yyy 2027 00:00:00 GMT\nX-RateLimit-Reset: 99:99:99\n",
	 "; \"\" x requests limit 1"},
	{"a reset in the year 9999", 200,
	 "X-RateLimit-Limit: 1\nX-RateLimit-Reset: 9999-12-31T00:00:00Z\n",
	 "; \"\" x requests limit 1 reset 31622400000"},
	{"an epoch beyond 64 bits", 200,
	 "X-RateLimit-Limit: 1\nX-RateLimit-Reset: 99999999999999999999999\n",
	 "; \"\" x requests limit 1 reset 31622400000"},
	{"an epoch beyond 2^64 ns", 200, "X-RateLimit-Limit: 1\nX-RateLimit-Reset: 18446744074\n",
	 "; \"\" x requests limit 1 reset 31622400000"},
	{"more policies than fit", 200,
	 "RateLimit: a;r=1,b;r=1,c;r=1,d;r=1,e;r=1,f;r=1,g;r=1,h;r=1,i;r=1,j;r=1,k;r=1,l;r=1,m;r=1,"
	 "n;r=1,o;r=1,p;r=1,q;r=0;t=5\n",
	 "; \"a\" ietf requests remaining 1; \"b\" ietf requests remaining 1"
	 "; \"c\" ietf requests remaining 1; \"d\" ietf requests remaining 1"
	 "; \"e\" ietf requests remaining 1; \"f\" ietf requests remaining 1"
	 "; \"g\" ietf requests remaining 1; \"h\" ietf requests remaining 1"
	 "; \"i\" ietf requests remaining 1; \"j\" ietf requests remaining 1"
	 "; \"k\" ietf requests remaining 1; \"l\" ietf requests remaining 1"
	 "; \"m\" ietf requests remaining 1; \"n\" ietf requests remaining 1"
	 "; \"o\" ietf requests remaining 1; \"p\" ietf requests remaining 1"},
};

/* Splits lines of "Name: value". */
static size_t split(const char *text, struct weir_header *fields)
{
	size_t count = 0;

	for (const char *end; *text; text = end + 1) {
		const char *colon = strchr(text, ':');

		end = strchr(text, '\n');
		assert_true(count < FIELDS_MAX);
		fields[count].name = (struct weir_str){text, (size_t)(colon - text)};
		fields[count++].value = (struct weir_str){colon + 1, (size_t)(end - colon - 1)};
	}
	return count;
}

static size_t show_ms(char *text, size_t len, const char *name, uint64_t ns)
{
	return (size_t)snprintf(text, len, " %s %llu", name,
				(unsigned long long)((ns + 999999) / 1000000));
}

static size_t show_policy(char *text, size_t len, const struct weir_ratelimit_policy *policy)
{
	static const char *const forms[] = {"?", "ietf", "draft7", "draft3", "x", "vendor"};
	static const char *const units[] = {"requests", "bytes", "tokens", "concurrent", "other"};
	size_t at = (size_t)snprintf(text, len, "; \"%.*s\" %s %s", (int)policy->name.len,
				     policy->name.ptr, forms[policy->form], units[policy->unit]);

	if (policy->has & WEIR_RATELIMIT_HAS_LIMIT)
		at += (size_t)snprintf(text + at, len - at, " limit %llu",
				       (unsigned long long)policy->limit);
	if (policy->has & WEIR_RATELIMIT_HAS_REMAINING)
		at += (size_t)snprintf(text + at, len - at, " remaining %llu",
				       (unsigned long long)policy->remaining);
	if (policy->has & WEIR_RATELIMIT_HAS_WINDOW)
		at += show_ms(text + at, len - at, "window", policy->window_ns);
	if (policy->has & WEIR_RATELIMIT_HAS_RESET)
		at += show_ms(text + at, len - at, "reset", policy->reset_ns);
	return at;
}

static void show(const struct weir_ratelimit *told, char text[TEXT_BYTES])
{
	size_t at = 0;

	text[0] = '\0';
	if (told->wait_ns)
		at = show_ms(text, TEXT_BYTES, "wait", told->wait_ns);
	if (told->refused)
		at += (size_t)snprintf(text + at, TEXT_BYTES - at, "; refused");
	if (told->cached)
		at += (size_t)snprintf(text + at, TEXT_BYTES - at, "; cached");
	for (uint32_t i = 0; i < told->count; i++)
		at += show_policy(text + at, TEXT_BYTES - at, &told->policies[i]);
}

/* Skips the separator that a text may begin with. */
static const char *skip_separator(const char *text)
{
	return text + strspn(text, "; ");
}

static void check_rows(const struct row *rows, size_t count)
{
	struct weir_header fields[FIELDS_MAX];
	char text[TEXT_BYTES];

	for (size_t i = 0; i < count; i++) {
		struct weir_ratelimit told = {.size = sizeof told};
		size_t len = split(rows[i].fields, fields);

		assert_int_equal(weir_ratelimit_parse(fields, len, rows[i].status, NOW_NS, &told),
				 0);
		show(&told, text);
		if (strcmp(skip_separator(text), skip_separator(rows[i].expected)) != 0)
			fail_msg("%s:\n  got      %s\n  expected %s", rows[i].provider, text,
				 rows[i].expected);
	}
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof *(rows))

static void waits_are_read(void **state)
{
	(void)state;
	CHECK(waits);
}

static void all_drafts_are_read(void **state)
{
	(void)state;
	CHECK(drafts);
}

static void providers_are_read(void **state)
{
	(void)state;
	CHECK(providers);
}

static void hostile_fields_are_skipped(void **state)
{
	(void)state;
	CHECK(hostile);
}

static void long_values_and_late_fields_are_not_read(void **state)
{
	static struct weir_header fields[WEIR_RATELIMIT_FIELDS_MAX + 1];
	static char value[WEIR_RATELIMIT_VALUE_MAX + 1];
	struct weir_ratelimit told = {.size = sizeof told};

	(void)state;
	memset(value, '0', sizeof value);
	value[sizeof value - 2] = '7';
	fields[0] = (struct weir_header){{"Retry-After", 11}, {value, sizeof value}};
	fields[WEIR_RATELIMIT_FIELDS_MAX] = (struct weir_header){{"Retry-After", 11}, {"5", 1}};
	assert_int_equal(
		weir_ratelimit_parse(fields, WEIR_RATELIMIT_FIELDS_MAX + 1, 200, NOW_NS, &told), 0);
	assert_int_equal(told.wait_ns, 0);
	fields[0].value.len--; /* "00…07" */
	assert_int_equal(weir_ratelimit_parse(fields, 1, 200, NOW_NS, &told), 0);
	assert_int_equal(told.wait_ns, 7000000000);
}

static void other_sizes_of_the_struct_are_served(void **state)
{
	struct weir_header field = {{"Retry-After", 11}, {"1", 1}};
	struct {
		struct weir_ratelimit told;
		uint64_t more;
	} large = {.told.size = sizeof large, .more = 5};
	struct weir_ratelimit told = {.size = offsetof(struct weir_ratelimit, policies)};

	(void)state;
	assert_int_equal(weir_ratelimit_parse(&field, 1, 429, NOW_NS, &large.told), 0);
	assert_int_equal(large.told.wait_ns, 1000000000);
	assert_int_equal(large.more, 0);
	assert_int_equal(large.told.size, sizeof large);
	told.policies[0].limit = 77;
	assert_int_equal(weir_ratelimit_parse(&field, 1, 429, NOW_NS, &told), 0);
	assert_int_equal(told.wait_ns, 1000000000);
	assert_int_equal(told.policies[0].limit, 77);
	told.size = 8;
	assert_int_equal(weir_ratelimit_parse(&field, 1, 429, NOW_NS, &told), WEIR_EINVAL);
	told.size = sizeof told;
	assert_int_equal(weir_ratelimit_parse(NULL, 1, 429, NOW_NS, &told), WEIR_EINVAL);
	assert_int_equal(weir_ratelimit_parse(NULL, 0, 429, UINT64_MAX, &told), WEIR_ETIME);
	assert_int_equal(weir_ratelimit_parse(NULL, 0, 429, NOW_NS, NULL), WEIR_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_read),
		cmocka_unit_test(all_drafts_are_read),
		cmocka_unit_test(providers_are_read),
		cmocka_unit_test(hostile_fields_are_skipped),
		cmocka_unit_test(long_values_and_late_fields_are_not_read),
		cmocka_unit_test(other_sizes_of_the_struct_are_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
