/* Tests reading and writing of RLS messages as protojson. */
#include "limiter/helper.h"

#include <string.h>

#include "base/str.h"
#include "wire/rls/rls.h"
#include "wire/rls/json.h"

static struct wr_rls_memory memory;
static struct wr_problem problem;

static Pb__RateLimitRequest *read(const char *body)
{
	wr_rls_memory_reset(&memory);
	return (Pb__RateLimitRequest *)wr_rls_json_read(&pb__rate_limit_request__descriptor,
							wr_str(body), &memory, &problem);
}

static const char *write_message(const ProtobufCMessage *message)
{
	static char text[4096];
	struct wr_json_out json;
	struct wr_buf buf;

	wr_buf_init_fixed(&buf, text, sizeof text);
	wr_json_begin(&json, &buf);
	wr_rls_json_write(message, &json);
	assert_false(wr_buf_failed(&buf));
	return text;
}

static void test_reads(void **state)
{
	const Pb__RateLimitRequest *r = read(
		"{\"domain\":\"d\",\"hitsAddend\":\"3\",\"descriptors\":[{\"entries\":["
		"{\"key\":\"k\",\"value\":\"a\\u0000b\"}],\"hits_addend\":0,"
		"\"isNegativeHits\":true,\"limit\":{\"requestsPerUnit\":4.0,\"unit\":\"DAY\"}}]}");

	(void)state;
	assert_non_null(r);
	assert_int_equal(r->hits_addend, 3);
	assert_int_equal(r->n_descriptors, 1);
	assert_int_equal(r->descriptors[0]->entries[0]->value.len, 3);
	assert_memory_equal(r->descriptors[0]->entries[0]->value.data, "a\0b", 3);
	assert_non_null(r->descriptors[0]->hits_addend);
	assert_int_equal(r->descriptors[0]->hits_addend->value, 0);
	assert_true(r->descriptors[0]->is_negative_hits);
	assert_int_equal(r->descriptors[0]->limit->requests_per_unit, 4);
	assert_int_equal(r->descriptors[0]->limit->unit, 4);
}

/* A member that is null has its default value, like a missing member. */
static void test_null_is_default(void **state)
{
	const Pb__RateLimitRequest *r =
		read("{\"domain\":null,\"descriptors\":[{\"limit\":null,\"hitsAddend\":null}]}");

	(void)state;
	assert_non_null(r);
	assert_int_equal(r->domain.len, 0);
	assert_null(r->descriptors[0]->limit);
	assert_null(r->descriptors[0]->hits_addend);
}

static void test_refuses(void **state)
{
	static const struct {
		const char *body, *pointer;
	} cases[] = {
		{"[]", ""},
		{"{\"Domain\":\"d\"}", "/Domain"},
		{"{\"domain\":1}", "/domain"},
		{"{\"hitsAddend\":-1}", "/hitsAddend"},
		{"{\"hitsAddend\":4294967296}", "/hitsAddend"},
		{"{\"hitsAddend\":1.5}", "/hitsAddend"},
		{"{\"hitsAddend\":\"1e3\"}", "/hitsAddend"},
		{"{\"hitsAddend\":\"\"}", "/hitsAddend"},
		{"{\"hitsAddend\":\"-\"}", "/hitsAddend"},
		{"{\"hitsAddend\":\"12345678901234567890\"}", "/hitsAddend"},
		{"{\"descriptors\":{}}", "/descriptors"},
		{"{\"descriptors\":[{\"entries\":[1]}]}", "/descriptors/0/entries/0"},
		{"{\"descriptors\":[{\"isNegativeHits\":\"true\"}]}",
		 "/descriptors/0/isNegativeHits"},
		{"{\"descriptors\":[{\"limit\":{\"unit\":\"WEEK\"}}]}",
		 "/descriptors/0/limit/unit"},
		{"{\"descriptors\":[{\"hitsAddend\":{\"value\":1}}]}", "/descriptors/0/hitsAddend"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_null(read(cases[i].body));
		assert_string_equal(problem.pointer, cases[i].pointer);
	}
}

static void test_memory_limit(void **state)
{
	struct wr_rls_memory small;

	(void)state;
	assert_int_equal(wr_rls_memory_init(&small, 256), 0);
	assert_null(wr_rls_json_read(
		&pb__rate_limit_request__descriptor,
		WR_STR("{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":"
		       "\"aaaaaaaaaaaaaaaa\","
		       "\"value\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}]}]}"),
		&small, &problem));
	assert_int_equal(problem.code, WR_TOO_LARGE);
	wr_rls_memory_free(&small);
}

static void test_writes(void **state)
{
	Pb__RateLimitResponse response = PB__RATE_LIMIT_RESPONSE__INIT;
	Pb__RateLimitResponse__DescriptorStatus status =
		PB__RATE_LIMIT_RESPONSE__DESCRIPTOR_STATUS__INIT;
	Pb__RateLimitResponse__DescriptorStatus *statuses[] = {&status};
	Pb__RateLimitResponse__RateLimit limit = PB__RATE_LIMIT_RESPONSE__RATE_LIMIT__INIT;
	Pb__Duration reset = PB__DURATION__INIT;

	(void)state;
	assert_string_equal(write_message(&response.base), "{}");
	response.overall_code = PB__RATE_LIMIT_RESPONSE__CODE__OK;
	response.n_statuses = 1;
	response.statuses = statuses;
	status.code = PB__RATE_LIMIT_RESPONSE__CODE__OK;
	status.limit_remaining = 9;
	status.current_limit = &limit;
	status.duration_until_reset = &reset;
	limit.requests_per_unit = 10;
	limit.unit = PB__RATE_LIMIT_RESPONSE__RATE_LIMIT__UNIT__MINUTE;
	reset.seconds = 58;
	assert_string_equal(
		write_message(&response.base),
		"{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\"currentLimit\":"
		"{\"requestsPerUnit\":10,\"unit\":\"MINUTE\"},\"limitRemaining\":9,"
		"\"durationUntilReset\":\"58s\"}]}");
	response.n_statuses = 0;
	response.raw_body = (ProtobufCBinaryData){5, (uint8_t *)"\0\xff.no"};
	assert_string_equal(write_message(&response.base),
			    "{\"overallCode\":\"OK\",\"rawBody\":\"AP8ubm8=\"}");
}

static void test_base64(void **state)
{
	static const char *const cases[][2] = {{"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}};
	Pb__RateLimitResponse response = PB__RATE_LIMIT_RESPONSE__INIT;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		response.raw_body = (ProtobufCBinaryData){i + 1, (uint8_t *)cases[i][0]};
		assert_non_null(strstr(write_message(&response.base), cases[i][1]));
	}
}

static void test_durations_and_wrappers(void **state)
{
	Pb__Duration d = PB__DURATION__INIT;
	Pb__UInt64Value v = PB__UINT64_VALUE__INIT;

	(void)state;
	d.seconds = 1;
	d.nanos = 500000000;
	assert_string_equal(write_message(&d.base), "\"1.500000000s\"");
	assert_string_equal(write_message(&v.base), "\"0\"");
	v.value = UINT64_MAX;
	assert_string_equal(write_message(&v.base), "\"18446744073709551615\"");
}

static int open_memory(void **state)
{
	(void)state;
	return wr_rls_memory_init(&memory, 65536);
}

static int close_memory(void **state)
{
	(void)state;
	wr_rls_memory_free(&memory);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_null_is_default),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_durations_and_wrappers),
	};

	return cmocka_run_group_tests(tests, open_memory, close_memory);
}
