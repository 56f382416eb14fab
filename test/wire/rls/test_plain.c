/* Compares the fast codec with protobuf-c: they read the same messages and write the same bytes. */
#include "wire/rls/talk.h"

#include <string.h>

#include "base/str.h"
#include "wire/rls/plain.h"

#define ROUNDS 20000

static uint64_t seed = 1;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t random_below(uint64_t bound)
{
	return random_number() % bound;
}

/* Returns a random number; numbers of all lengths are equally likely. */
static uint64_t random_size(void)
{
	return random_number() >> random_below(64);
}

static ProtobufCBinaryData random_text(void)
{
	static uint8_t bytes[] =
		"\0\xffkey_with_some_length and a value that goes on for more than "
		"127 bytes, so that its length takes two, which is where one "
		"would go wrong first";

	return (ProtobufCBinaryData){random_below(random_below(8) ? 12 : sizeof bytes), bytes};
}

static struct talk talk;

static void random_descriptor(void)
{
	static const char *const texts[] = {"", "a=1", "a=|b=2", "a=1|b=2|c=3"};
	Pb__RateLimitDescriptor *descriptor = talk_descriptor(&talk, texts[random_below(4)]);

	for (size_t i = 0; i < descriptor->n_entries; i++) {
		descriptor->entries[i]->key = random_text();
		descriptor->entries[i]->value = random_text();
	}
	if (random_below(3) == 0)
		talk_hits(&talk, descriptor, random_below(2) * random_size());
	if (random_below(3) == 0)
		talk_override(&talk, descriptor, (uint32_t)random_size(), (int)random_size());
	descriptor->is_negative_hits = random_below(4) == 0;
}

static void make_request(void)
{
	talk_begin(&talk, "");
	talk.request.domain = random_text();
	talk.request.hits_addend = (uint32_t)(random_below(2) * random_size());
	for (uint64_t i = random_below(5); i > 0; i--)
		random_descriptor();
}

/* Checks that two messages are equal, by comparing their packed bytes. */
static void expect_alike(const Pb__RateLimitRequest *a, const Pb__RateLimitRequest *b)
{
	static uint8_t x[TALK_BYTES], y[TALK_BYTES];
	size_t len = pb__rate_limit_request__pack(a, x);

	assert_int_equal(pb__rate_limit_request__pack(b, y), len);
	assert_memory_equal(x, y, len);
}

static void test_reads_alike(void **state)
{
	static uint8_t bytes[TALK_BYTES];

	(void)state;
	assert_int_equal(wr_rls_memory_init(&talk.memory, 1 << 20), 0);
	for (int i = 0; i < ROUNDS; i++) {
		const Pb__RateLimitRequest *plain;
		size_t len;

		make_request();
		len = pb__rate_limit_request__pack(&talk.request, bytes);
		wr_rls_memory_reset(&talk.memory);
		plain = wr_rls_read_plain((struct weir_str){(char *)bytes, len}, &talk.memory);
		assert_non_null(plain);
		expect_alike(plain, &talk.request);
	}
	wr_rls_memory_free(&talk.memory);
}

/* Reads messages in which random bytes were changed. The fast codec reads no message that
 * protobuf-c refuses, and reads all other plain messages like protobuf-c. */
static void test_changed_bytes(void **state)
{
	static uint8_t bytes[TALK_BYTES];
	int plain_ones = 0;

	(void)state;
	assert_int_equal(wr_rls_memory_init(&talk.memory, 1 << 20), 0);
	for (int i = 0; i < ROUNDS; i++) {
		Pb__RateLimitRequest *oracle;
		const Pb__RateLimitRequest *plain;
		size_t len;

		make_request();
		len = pb__rate_limit_request__pack(&talk.request, bytes);
		for (uint64_t k = random_below(3); len && k < 3; k++)
			bytes[random_below(len)] = (uint8_t)(random_number() >> random_below(60));
		len -= len && random_below(4) == 0;
		oracle = pb__rate_limit_request__unpack(NULL, len, bytes);
		wr_rls_memory_reset(&talk.memory);
		plain = wr_rls_read_plain((struct weir_str){(char *)bytes, len}, &talk.memory);
		assert_true(oracle || !plain);
		if (plain)
			expect_alike(plain, oracle);
		plain_ones += plain != NULL;
		if (oracle)
			pb__rate_limit_request__free_unpacked(oracle, NULL);
	}
	assert_true(plain_ones > ROUNDS / 10);
	wr_rls_memory_free(&talk.memory);
}

/* A message with a repeated field is not plain. */
static void test_fields_twice(void **state)
{
	static const struct weir_str cases[] = {
		WR_STR("\x0a\x02rl\x0a\x02rl"),
		WR_STR("\x18\x01\x18\x02"),
		WR_STR("\x12\x08\x12\x02\x08\x05\x12\x02\x10\x02"),
		WR_STR("\x12\x06\x12\x04\x08\x05\x08\x06"),
		WR_STR("\x12\x08\x1a\x02\x08\x05\x1a\x02\x08\x06"),
		WR_STR("\x12\x06\x1a\x04\x08\x05\x08\x06"),
		WR_STR("\x12\x04\x20\x01\x20\x00"),
		WR_STR("\x12\x08\x0a\x06\x0a\x01x\x0a\x01y"),
	};

	(void)state;
	assert_int_equal(wr_rls_memory_init(&talk.memory, 4096), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		wr_rls_memory_reset(&talk.memory);
		assert_null(wr_rls_read_plain(cases[i], &talk.memory));
		assert_non_null(wr_rls_read(cases[i], &talk.memory, &talk.error));
	}
	wr_rls_memory_free(&talk.memory);
}

static void test_small_memory(void **state)
{
	static uint8_t bytes[TALK_BYTES];

	(void)state;
	talk_begin(&talk, "rl");
	for (int i = 0; i < 4; i++)
		talk_hits(&talk, talk_descriptor(&talk, "a=1|b=2|c=3"), 7);
	for (size_t size = 16; size < 4096; size += 16) {
		size_t len = pb__rate_limit_request__pack(&talk.request, bytes);
		const Pb__RateLimitRequest *read;

		assert_int_equal(wr_rls_memory_init(&talk.memory, size), 0);
		read = wr_rls_read((struct weir_str){(char *)bytes, len}, &talk.memory,
				   &talk.error);
		if (read)
			expect_alike(read, &talk.request);
		else
			assert_int_equal(talk.error.code, WR_GRPC_RESOURCE_EXHAUSTED);
		assert_true(read || size < 2048);
		wr_rls_memory_free(&talk.memory);
	}
}

static void random_status(Pb__RateLimitResponse__DescriptorStatus *status,
			  Pb__RateLimitResponse__RateLimit *limit, Pb__Duration *reset)
{
	pb__rate_limit_response__descriptor_status__init(status);
	pb__rate_limit_response__rate_limit__init(limit);
	pb__duration__init(reset);
	status->code = (Pb__RateLimitResponse__Code)random_below(3);
	status->limit_remaining = (uint32_t)(random_below(2) * random_size());
	limit->requests_per_unit = (uint32_t)(random_below(4) ? random_size() : 0);
	limit->unit = (Pb__RateLimitResponse__RateLimit__Unit)random_below(8);
	limit->name = random_text();
	reset->seconds = (int64_t)(random_size() >> 1);
	if (random_below(2))
		status->current_limit = limit;
	if (random_below(2))
		status->duration_until_reset = reset;
}

static void test_writes_alike(void **state)
{
	static uint8_t ours[TALK_BYTES], theirs[TALK_BYTES];
	Pb__RateLimitResponse__DescriptorStatus statuses[4], *list[4];
	Pb__RateLimitResponse__RateLimit limits[4];
	Pb__Duration resets[4];

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		Pb__RateLimitResponse response = PB__RATE_LIMIT_RESPONSE__INIT;
		size_t len;

		response.overall_code = (Pb__RateLimitResponse__Code)random_below(3);
		response.n_statuses = random_below(5);
		response.statuses = list;
		for (size_t k = 0; k < response.n_statuses; k++) {
			random_status(&statuses[k], &limits[k], &resets[k]);
			list[k] = &statuses[k];
		}
		assert_true(wr_rls_is_plain(&response));
		len = pb__rate_limit_response__pack(&response, theirs);
		assert_int_equal(wr_rls_size_plain(&response), len);
		wr_rls_pack_plain(&response, ours);
		assert_memory_equal(ours, theirs, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_alike),  cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_fields_twice), cmocka_unit_test(test_small_memory),
		cmocka_unit_test(test_writes_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
