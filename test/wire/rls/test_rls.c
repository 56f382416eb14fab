/* Tests the responses to RateLimitRequests: bytes, costs, limits in requests, statuses, header
 * fields. */
#include "wire/rls/talk.h"

#include <string.h>

#include "base/str.h"

static const char rules[] =
	"domain: rl\n"
	"descriptors:\n"
	"  - {key: foo, value: bar, rate_limit: {unit: minute, requests_per_unit: 10}}\n"
	"  - {key: named, rate_limit: {unit: hour, requests_per_unit: 3, name: by-name}}\n"
	"  - {key: week, rate_limit: {unit: week, requests_per_unit: 5}}\n"
	"  - {key: free, rate_limit: {unlimited: true}}\n"
	"  - {key: white}\n"
	"  - {key: dark, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	"  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	"  - {key: ban, rate_limit: {unit: hour, requests_per_unit: 0}}\n"
	"  - {key: big, rate_limit: {unit: year, requests_per_unit: 4000000000}}\n"
	"  - key: own\n"
	"    rate_limit: {unit: hour, requests_per_unit: 1, response: {status: 429, content_type: "
	"text/plain, body: slow down}}\n"
	"  - {key: leak, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, "
	"queue_size: 5}}\n"
	"  - {key: tagged, metadata: {a: 1, deep: {x: true}}, rate_limit: {unit: hour, "
	"requests_per_unit: 2}}\n"
	"  - {key: other, metadata: {a: 2, deep: {x: 7, y: [z, null]}}, rate_limit: {unit: hour, "
	"requests_per_unit: 2}}\n";

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

static const Pb__RateLimitResponse__DescriptorStatus *status(struct talk *talk, size_t at)
{
	assert_true(at < talk->answer->n_statuses);
	return talk->answer->statuses[at];
}

/* Converts pairs of hexadecimal digits, separated by one character, to bytes. Returns their
 * number. */
static size_t from_hex(const char *text, uint8_t *bytes)
{
	size_t len = (strlen(text) + 1) / 3;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(wr_hex(text[3 * i]) << 4 | wr_hex(text[3 * i + 1]));
	return len;
}

static void expect_bytes(struct talk *talk, const char *question, const char *wanted)
{
	uint8_t bytes[256], expected[256];
	size_t len = from_hex(question, bytes), expected_len = from_hex(wanted, expected);

	assert_int_equal(talk_send_bytes(talk, bytes, len), OK);
	assert_int_equal(talk->len, expected_len);
	assert_memory_equal(talk->bytes, expected, expected_len);
}

#define ASK_FOO_BAR "0a 02 72 6c 12 0c 0a 0a 0a 03 66 6f 6f 12 03 62 61 72"
#define ASK_FOO_BAZ "0a 02 72 6c 12 0c 0a 0a 0a 03 66 6f 6f 12 03 62 61 7a"

static void test_golden_bytes(void **state)
{
	struct talk *talk = *state;

	expect_bytes(talk, ASK_FOO_BAZ, "08 01 12 02 08 01");
	talk->rig.now_ns += 2 * SECOND_NS;
	expect_bytes(talk, ASK_FOO_BAR, "08 01 12 0e 08 01 12 04 08 0a 10 02 18 09 22 02 08 3a");
}

/* Unknown fields are ignored, such as unit_multiplier in a limit, or an unknown group. */
static void test_unknown_fields(void **state)
{
	struct talk *talk = *state;

	talk->rig.now_ns += 2 * SECOND_NS;
	expect_bytes(talk, ASK_FOO_BAR " 9a 06 02 61 62 a0 06 01 a5 06 01 02 03 04",
		     "08 01 12 0e 08 01 12 04 08 0a 10 02 18 09 22 02 08 3a");
	expect_bytes(talk, "0a 02 72 6c 12 0f 0a 0a 0a 03 66 6f 6f 12 03 62 61 72 a0 06 05",
		     "08 01 12 0e 08 01 12 04 08 0a 10 02 18 08 22 02 08 3a");
	expect_bytes(talk, "0a 02 72 6c 12 0f 0a 0d 0a 03 66 6f 6f 12 03 62 61 72 a0 06 05",
		     "08 01 12 0e 08 01 12 04 08 0a 10 02 18 07 22 02 08 3a");
}

static void expect_code(struct talk *talk, int code, const char *part)
{
	assert_int_equal(talk_send(talk), -1);
	assert_int_equal(talk->code, code);
	assert_int_equal(talk->error.code, code);
	if (!strstr(talk->error.text, part))
		fail_msg("'%s' does not say '%s'", talk->error.text, part);
}

static void test_bad_requests(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "");
	talk_descriptor(talk, "foo=bar");
	expect_code(talk, WR_GRPC_INVALID_ARGUMENT, "rate limit domain must not be empty");
	talk_begin(talk, "rl");
	expect_code(talk, WR_GRPC_INVALID_ARGUMENT, "descriptor list must not be empty");
	assert_int_equal(talk_send_bytes(talk, "\x0a\x05rl", 4), -1);
	assert_int_equal(talk->code, WR_GRPC_INVALID_ARGUMENT);
	assert_int_equal(talk_send_bytes(talk, "\x12\x00\xff", 3), -1);
	assert_int_equal(talk->code, WR_GRPC_INVALID_ARGUMENT);
}

/* A request that is refused because it is too large takes no units. */
static void test_many_parts(void **state)
{
	static uint8_t bytes[128 << 10];
	struct talk *talk = *state;

	for (size_t i = 0; i < sizeof bytes; i += 2)
		bytes[i] = 0x12;
	assert_int_equal(talk_send_bytes(talk, bytes, sizeof bytes), -1);
	assert_int_equal(talk->code, WR_GRPC_RESOURCE_EXHAUSTED);
	assert_int_equal(talk_ask(talk, "foo=bar"), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 9);
}

static void test_all_descriptors(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "rl");
	for (int i = 0; i < 32; i++)
		talk_descriptor(talk, i % 2 ? "nothing=here" : "big=x");
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(talk->answer->n_statuses, 32);
	assert_int_equal(status(talk, 30)->current_limit->requests_per_unit, 4000000000);
	assert_null(status(talk, 31)->current_limit);
}

/* A request with too many descriptors is refused, and is not an error: by default, Envoy lets a
 * request pass after an error. */
static void test_more_descriptors(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "rl");
	for (int i = 0; i < 33; i++)
		talk_descriptor(talk, "big=x");
	assert_int_equal(talk_send(talk), OVER);
	assert_int_equal(talk->answer->n_statuses, 32);
	talk_begin(talk, "rl");
	talk_descriptor(talk, "big=x");
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining,
			 3999999999); /* the refused requests took nothing */
}

static void test_no_rules(void **state)
{
	struct talk *talk = *state;

	talk_close(talk);
	talk_open(talk, NULL);
	talk_begin(talk, "rl");
	talk_descriptor(talk, "foo=bar");
	expect_code(talk, WR_GRPC_FAILED_PRECONDITION, "no rate limit configuration loaded");
}

static void test_unknown_domain(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "elsewhere");
	talk_override(talk, talk_descriptor(talk, "foo=bar"), 0, PB__RATE_LIMIT_UNIT__SECOND);
	assert_int_equal(talk_send(talk), OK);
	assert_null(status(talk, 0)->current_limit);
}

static void test_statuses_in_order(void **state)
{
	struct talk *talk = *state;

	talk_begin(talk, "rl");
	talk_descriptor(talk, "foo=bar");
	talk_descriptor(talk, "nothing=here");
	talk_descriptor(talk, "named=x");
	talk_descriptor(talk, "free=x");
	talk_descriptor(talk, "white=x");
	talk_descriptor(talk, "");
	talk_descriptor(talk, "week=x");
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(talk->answer->n_statuses, 7);
	assert_int_equal(status(talk, 0)->limit_remaining, 9);
	assert_int_equal(status(talk, 0)->current_limit->unit, 2);
	assert_int_equal(status(talk, 0)->duration_until_reset->seconds, 60);
	assert_null(status(talk, 1)->current_limit);
	assert_int_equal(status(talk, 1)->limit_remaining, 0);
	assert_null(status(talk, 1)->duration_until_reset);
	assert_memory_equal(status(talk, 2)->current_limit->name.data, "by-name", 7);
	assert_int_equal(status(talk, 2)->duration_until_reset->seconds, 3600);
	assert_null(status(talk, 3)->current_limit);
	assert_int_equal(status(talk, 3)->limit_remaining, UINT32_MAX);
	assert_null(status(talk, 4)->current_limit);
	assert_null(status(talk, 5)->current_limit);
	assert_int_equal(status(talk, 6)->current_limit->unit, 7);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(status(talk, i)->code, OK);
}

static void test_hits(void **state)
{
	struct talk *talk = *state;
	Pb__RateLimitDescriptor *own;

	talk_begin(talk, "rl");
	talk->request.hits_addend = 3;
	talk_descriptor(talk, "foo=bar");
	own = talk_descriptor(talk, "week=x");
	talk_hits(talk, own, 2);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 7);
	assert_int_equal(status(talk, 1)->limit_remaining, 3);
	talk->request.hits_addend = 8; /* more than the first descriptor has left: takes nothing */
	assert_int_equal(talk_send(talk), OVER);
	assert_int_equal(status(talk, 0)->code, OVER);
	assert_int_equal(status(talk, 0)->limit_remaining, 0);
	assert_int_equal(status(talk, 1)->code, OK);
	assert_int_equal(status(talk, 1)->limit_remaining, 3);
	talk_hits(talk, own, UINT64_MAX);
	talk->request.hits_addend = 1;
	assert_int_equal(talk_send(talk), OVER);
	assert_int_equal(status(talk, 1)->code, OVER);
}

static void test_peeking(void **state)
{
	struct talk *talk = *state;
	Pb__RateLimitDescriptor *look;

	talk_begin(talk, "rl");
	look = talk_descriptor(talk, "named=x");
	talk_hits(talk, look, 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(talk_send(talk), OK);
		assert_int_equal(status(talk, 0)->limit_remaining, 3);
	}
	talk_hits(talk, look, 3);
	assert_int_equal(talk_send(talk), OK);
	talk_hits(talk, look, 0);
	assert_int_equal(talk_send(talk), OVER);
	talk->request.hits_addend = 5; /* the hits of the descriptor are used instead */
	talk->rig.now_ns += HOUR_NS;
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 3);
}

static void test_giving_back(void **state)
{
	struct talk *talk = *state;
	Pb__RateLimitDescriptor *refund;

	for (int i = 0; i < 3; i++)
		assert_int_equal(talk_ask(talk, "named=x"), OK);
	assert_int_equal(talk_ask(talk, "named=x"), OVER);
	talk_begin(talk, "rl");
	refund = talk_descriptor(talk, "named=x");
	refund->is_negative_hits = true;
	assert_int_equal(talk_send(talk), OK); /* gives 1 unit back */
	assert_int_equal(status(talk, 0)->limit_remaining, 1);
	talk_hits(talk, refund, 100); /* more than was taken: the limit is full afterwards */
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 3);
	talk_hits(talk, refund, UINT64_MAX);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 3);
}

static void test_overrides(void **state)
{
	struct talk *talk = *state;
	Pb__RateLimitDescriptor *descriptor;

	talk_begin(talk, "rl");
	descriptor = talk_descriptor(talk, "foo=bar");
	talk_override(talk, descriptor, 2, PB__RATE_LIMIT_UNIT__HOUR);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->current_limit->requests_per_unit, 2);
	assert_int_equal(status(talk, 0)->current_limit->unit, 3);
	assert_int_equal(status(talk, 0)->limit_remaining, 1);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(talk_send(talk), OVER);
	assert_int_equal(talk_ask(talk, "foo=bar"),
			 OK); /* the limit of the rule has a counter of its own */
	assert_int_equal(status(talk, 0)->limit_remaining, 9);
	talk_begin(talk, "rl");
	descriptor = talk_descriptor(talk, "no=rule");
	talk_override(talk, descriptor, 0, PB__RATE_LIMIT_UNIT__DAY);
	assert_int_equal(talk_send(talk), OVER);
	talk_override(talk, descriptor, UINT32_MAX, PB__RATE_LIMIT_UNIT__YEAR);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, UINT32_MAX - 1);
}

static void test_bad_overrides(void **state)
{
	static const int units[] = {0, 7, 8, -1, INT32_MIN, INT32_MAX};
	struct talk *talk = *state;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		talk_begin(talk, "rl");
		talk_descriptor(talk, "foo=bar");
		talk_override(talk, talk_descriptor(talk, "foo=bar"), 5, units[i]);
		expect_code(talk, WR_GRPC_INVALID_ARGUMENT, "descriptor 1 has the unknown unit");
	}
	assert_int_equal(talk_ask(talk, "foo=bar"), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 9);
}

static void test_shadow_and_quota(void **state)
{
	struct talk *talk = *state;

	talk_ask(talk, "dark=x");
	assert_int_equal(talk_ask(talk, "dark=x"), OK);
	assert_int_equal(status(talk, 0)->code, OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 0);
	assert_int_equal(status(talk, 0)->current_limit->requests_per_unit, 1);
	assert_int_equal(talk_ask(talk, "quota=x"), OK);
	talk_begin(talk, "rl");
	talk_descriptor(talk, "quota=x");
	talk_descriptor(talk, "quota=y");
	assert_int_equal(talk_send(talk), OK); /* one of two quotas is exhausted */
	assert_int_equal(status(talk, 0)->code, OVER);
	assert_int_equal(status(talk, 1)->code, OK);
	assert_int_equal(talk_send(talk), OVER);
}

/* The shadow mode of the service changes the overall code, but not the statuses. */
static void test_global_shadow(void **state)
{
	struct talk *talk = *state;

	talk->shadow = true;
	talk->options.bodies = true;
	assert_int_equal(talk_ask(talk, "ban=x"), OK);
	assert_int_equal(status(talk, 0)->code, OVER);
	assert_int_equal(talk->answer->raw_body.len, 0);
}

static void test_delay_beyond_deadline(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "leak=x"), OK);
	talk->patience = WEIR_DELAY;
	talk_begin(talk, "rl");
	talk_descriptor(talk, "foo=bar");
	talk_descriptor(talk, "leak=x");
	assert_int_equal(talk_send(talk), OVER);
	assert_int_equal(status(talk, 0)->code, OK);
	assert_int_equal(status(talk, 1)->code, OVER);
	assert_int_equal(status(talk, 1)->limit_remaining, 0);
	assert_int_equal(talk_ask(talk, "foo=bar"), OK); /* nothing was taken */
	assert_int_equal(status(talk, 0)->limit_remaining, 9);
}

/* A request of cost 0 gets the remaining number at once, even if other requests wait. */
static void test_looking_does_not_wait(void **state)
{
	struct talk *talk = *state;

	for (int i = 0; i < 3; i++)
		assert_int_equal(talk_ask(talk, "leak=x"), OK);
	talk->patience = WEIR_DELAY;
	talk_begin(talk, "rl");
	talk_hits(talk, talk_descriptor(talk, "leak=x"), 0);
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 3);
}

static void test_reference_headers(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "foo=bar"), OK);
	assert_int_equal(talk->answer->n_response_headers_to_add, 0);
	talk->options.limit_header = "RateLimit-Limit";
	talk->options.remaining_header = "RateLimit-Remaining";
	talk->options.reset_header = "RateLimit-Reset";
	talk_begin(talk, "rl");
	talk_descriptor(talk, "foo=bar");
	talk_descriptor(talk, "named=x"); /* the limit with the least remaining units */
	assert_int_equal(talk_send(talk), OK);
	assert_int_equal(talk->answer->n_response_headers_to_add, 3);
	assert_string_equal(talk_header(talk, "RateLimit-Limit"), "3");
	assert_string_equal(talk_header(talk, "RateLimit-Remaining"), "2");
	assert_string_equal(talk_header(talk, "RateLimit-Reset"), "3600");
	assert_int_equal(talk_ask(talk, "nothing=here"), OK);
	assert_int_equal(talk->answer->n_response_headers_to_add, 0);
}

static void test_profile_headers(void **state)
{
	struct talk *talk = *state;

	talk->options.profile_headers = true;
	talk->options.profile = WEIR_PROFILE_GITHUB;
	assert_int_equal(talk_ask(talk, "foo=bar"), OK);
	assert_string_equal(talk_header(talk, "x-ratelimit-remaining"), "9");
	assert_int_equal(talk_ask(talk, "ban=x"), OVER);
	assert_string_equal(talk_header(talk, "Cache-Control"), "no-store");
}

static bool body_says(struct talk *talk, const char *part)
{
	return memmem(talk->answer->raw_body.data, talk->answer->raw_body.len, part,
		      strlen(part)) != NULL;
}

static void test_bodies(void **state)
{
	struct talk *talk = *state;

	assert_int_equal(talk_ask(talk, "ban=x"), OVER);
	assert_int_equal(talk->answer->raw_body.len, 0);
	talk_ask(talk, "own=x");
	assert_int_equal(talk->answer->raw_body.len, 0);
	assert_int_equal(talk_ask(talk, "own=x"), OVER);
	assert_int_equal(talk->answer->raw_body.len, 9);
	assert_true(body_says(talk, "slow down"));
	assert_string_equal(talk_header(talk, "content-type"), "text/plain");
	talk->options.bodies = true;
	assert_int_equal(talk_ask(talk, "ban=x"), OVER);
	assert_true(body_says(talk, "\"status\":429"));
	assert_string_equal(talk_header(talk, "content-type"), "application/problem+json");
	assert_int_equal(talk_ask(talk, "foo=bar"), OK);
	assert_int_equal(talk->answer->raw_body.len, 0);
}

/* ---- dynamic metadata ---- */

static const Pb__Value *field(const Pb__Struct *from, const char *key)
{
	for (size_t i = 0; from && i < from->n_fields; i++)
		if (strcmp(from->fields[i]->key, key) == 0)
			return from->fields[i]->value;
	return NULL;
}

static void expect_text(const Pb__Value *value, const char *text, size_t len)
{
	assert_non_null(value);
	assert_int_equal(value->kind_case, PB__VALUE__KIND_STRING_VALUE);
	assert_int_equal(value->string_value.len, len);
	assert_memory_equal(value->string_value.data, text, len);
}

static const Pb__Struct *descriptor_at(struct talk *talk, size_t at)
{
	const Pb__Value *list = field(talk->answer->dynamic_metadata, "descriptors");

	assert_true(at < list->list_value->n_values);
	return list->list_value->values[at]->struct_value;
}

static void test_metadata_of_request(void **state)
{
	struct talk *talk = *state;
	Pb__RateLimitDescriptor *descriptor;

	talk_ask(talk, "foo=bar");
	assert_null(talk->answer->dynamic_metadata);
	talk->options.dynamic_metadata = true;
	talk_begin(talk, "rl");
	talk->request.hits_addend = 2;
	talk_descriptor(talk, "a=1|b=2");
	descriptor = talk_descriptor(talk, "foo=bar");
	talk_override(talk, descriptor, 5, PB__RATE_LIMIT_UNIT__MINUTE);
	talk_hits(talk, descriptor, 4);
	assert_int_equal(talk_send(talk), OK);
	expect_text(field(talk->answer->dynamic_metadata, "domain"), "rl", 2);
	assert_true(field(talk->answer->dynamic_metadata, "hitsAddend")->number_value == 2);
	assert_null(field(talk->answer->dynamic_metadata, "metadata"));
	expect_text(field(descriptor_at(talk, 0), "entries")->list_value->values[1], "b=2", 3);
	assert_null(field(descriptor_at(talk, 0), "limit"));
	expect_text(field(descriptor_at(talk, 1), "limit"), "requests_per_unit:5 unit:MINUTE", 31);
	assert_true(field(descriptor_at(talk, 1), "hitsAddend")->number_value == 4);
}

/* The response has the metadata of the rules that admitted the request. Maps are merged. If two
 * rules have a value for a member, the first rule wins. */
static void test_metadata_of_rules(void **state)
{
	struct talk *talk = *state;
	const Pb__Struct *merged, *deep;

	talk->options.dynamic_metadata = true;
	talk_begin(talk, "rl");
	talk_descriptor(talk, "tagged=x");
	talk_descriptor(talk, "other=x");
	assert_int_equal(talk_send(talk), OK);
	merged = field(talk->answer->dynamic_metadata, "metadata")->struct_value;
	deep = field(merged, "deep")->struct_value;
	assert_true(field(merged, "a")->number_value == 1);
	assert_true(field(deep, "x")->bool_value);
	assert_int_equal(field(deep, "y")->list_value->n_values, 2);
	assert_int_equal(field(deep, "y")->list_value->values[1]->kind_case,
			 PB__VALUE__KIND_NULL_VALUE);
	talk_send(talk);
	assert_int_equal(talk_send(talk), OVER);
	assert_null(field(talk->answer->dynamic_metadata, "metadata"));
}

/* Each value has a counter of its own, whatever its bytes are. Responses are always UTF-8. */
static void test_any_bytes(void **state)
{
	struct talk *talk = *state;
	static const char zero[] = "\x0a\x02rl\x12\x0f\x0a\x0d\x0a\x05named\x12\x04"
				   "x\x00y\xff";

	talk->options.dynamic_metadata = true;
	for (int i = 0; i < 3; i++)
		assert_int_equal(talk_send_bytes(talk, zero, sizeof zero - 1), OK);
	assert_int_equal(talk_send_bytes(talk, zero, sizeof zero - 1), OVER);
	expect_text(field(descriptor_at(talk, 0), "entries")->list_value->values[0], "named=x\0y?",
		    10);
	assert_int_equal(talk_ask(talk, "named=x"), OK);
	assert_int_equal(status(talk, 0)->limit_remaining, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_talk, close_talk)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_golden_bytes),
		TEST(test_unknown_fields),
		TEST(test_bad_requests),
		TEST(test_many_parts),
		TEST(test_all_descriptors),
		TEST(test_more_descriptors),
		TEST(test_no_rules),
		TEST(test_unknown_domain),
		TEST(test_statuses_in_order),
		TEST(test_hits),
		TEST(test_peeking),
		TEST(test_giving_back),
		TEST(test_overrides),
		TEST(test_bad_overrides),
		TEST(test_shadow_and_quota),
		TEST(test_global_shadow),
		TEST(test_delay_beyond_deadline),
		TEST(test_looking_does_not_wait),
		TEST(test_reference_headers),
		TEST(test_profile_headers),
		TEST(test_bodies),
		TEST(test_metadata_of_request),
		TEST(test_metadata_of_rules),
		TEST(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
