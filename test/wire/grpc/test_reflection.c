/* Tests the messages of grpc.reflection and grpc.health.v1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include <grpc/reflection/v1/reflection.pb-c.h>
#include <weir/index.pb-c.h>

#include "base/str.h"
#include "wire/grpc/grpc.h"
#include "wire/grpc/health.h"
#include "wire/grpc/reflection.h"

static struct wr_reflection *reflection;
static struct wr_rls_memory memory;
static Pb__ServerReflectionResponse *answer;

static int open_all(void **state)
{
	(void)state;
	assert_int_equal(wr_rls_memory_init(&memory, 256 << 10), 0);
	return wr_reflection_new(&reflection);
}

static int close_all(void **state)
{
	(void)state;
	if (answer)
		pb__server_reflection_response__free_unpacked(answer, NULL);
	wr_reflection_free(reflection);
	wr_rls_memory_free(&memory);
	return 0;
}

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

static int send(const Pb__ServerReflectionRequest *request)
{
	static uint8_t bytes[1024];
	size_t len = pb__server_reflection_request__pack(request, bytes);
	struct weir_error error;
	struct weir_str out;

	if (answer)
		pb__server_reflection_response__free_unpacked(answer, NULL);
	wr_rls_memory_reset(&memory);
	assert_int_equal(wr_reflection_answer(reflection, (struct weir_str){(char *)bytes, len},
					      &memory, &out, &error),
			 0);
	answer = pb__server_reflection_response__unpack(NULL, out.len, (const uint8_t *)out.ptr);
	assert_non_null(answer);
	assert_non_null(answer->original_request);
	return answer->message_response_case ==
			       PB__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE
		       ? answer->error_response->error_code
		       : 0;
}

static int ask_symbol(const char *name)
{
	Pb__ServerReflectionRequest request = PB__SERVER_REFLECTION_REQUEST__INIT;

	request.message_request_case =
		PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
	request.file_containing_symbol = bytes_of(name);
	return send(&request);
}

static void expect_file(size_t at, const char *name)
{
	const Pb__FileDescriptorResponse *files = answer->file_descriptor_response;
	Weir__Index__File *file;

	assert_true(at < files->n_file_descriptor_proto);
	file = weir__index__file__unpack(NULL, files->file_descriptor_proto[at].len,
					 files->file_descriptor_proto[at].data);
	assert_non_null(file);
	assert_int_equal(file->name.len, strlen(name));
	assert_memory_equal(file->name.data, name, strlen(name));
	weir__index__file__free_unpacked(file, NULL);
}

static void test_services(void **state)
{
	static const char *const names[] = {"envoy.service.ratelimit.v3.RateLimitService",
					    "grpc.health.v1.Health",
					    "grpc.reflection.v1.ServerReflection",
					    "grpc.reflection.v1alpha.ServerReflection",
					    "kuadrant.service.ratelimit.v1.RateLimitService",
					    "weir.v1.Reservations"};
	Pb__ServerReflectionRequest request = PB__SERVER_REFLECTION_REQUEST__INIT;
	const Pb__ListServiceResponse *list;

	(void)state;
	request.message_request_case = PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
	request.list_services = bytes_of("*");
	request.host = bytes_of("me");
	assert_int_equal(send(&request), 0);
	assert_memory_equal(answer->valid_host.data, "me", 2);
	list = answer->list_services_response;
	assert_int_equal(list->n_service, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(list->service[i]->name.len, strlen(names[i]));
		assert_memory_equal(list->service[i]->name.data, names[i], strlen(names[i]));
	}
}

static void test_symbols(void **state)
{
	static const struct {
		const char *name, *file;
	} known[] = {
		{"envoy.service.ratelimit.v3.RateLimitService",
		 "envoy/service/ratelimit/v3/rls.proto"},
		{"envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
		 "envoy/service/ratelimit/v3/rls.proto"},
		{"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
		 "envoy/service/ratelimit/v3/rls.proto"},
		{"envoy.service.ratelimit.v3.RateLimitRequest.domain",
		 "envoy/service/ratelimit/v3/rls.proto"},
		{"envoy.type.v3.RateLimitUnit", "envoy/type/v3/ratelimit_unit.proto"},
		{"google.protobuf.Struct.FieldsEntry", "google/protobuf/struct.proto"},
		{"grpc.health.v1.Health", "grpc/health/v1/health.proto"},
		{"kuadrant.service.ratelimit.v1.CommitRequest.actual_amount",
		 "kuadrant/service/ratelimit/v1/kuadrantrls.proto"},
		{"weir.v1.Reservations.Acquire", "weir/v1/reservations.proto"},
		{"grpc.reflection.v1alpha.ServerReflection",
		 "grpc/reflection/v1alpha/reflection.proto"},
	};
	static const char *const unknown[] = {"",
					      ".",
					      "envoy",
					      "envoy.service.ratelimit.v3",
					      "envoy.service.ratelimit.v3.",
					      "envoy.service.ratelimit.v3.RateLimit",
					      "envoy.service.ratelimit.v3.RateLimitService.",
					      "envoy.type.v3.RateLimitUnit.X.Y"};

	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		assert_int_equal(ask_symbol(known[i].name), 0);
		expect_file(0, known[i].file);
	}
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
		assert_int_equal(ask_symbol(unknown[i]), WR_GRPC_NOT_FOUND);
}

/* rls.proto and the files that it imports are seven files. */
static void test_imports(void **state)
{
	Pb__ServerReflectionRequest request = PB__SERVER_REFLECTION_REQUEST__INIT;

	(void)state;
	request.message_request_case =
		PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
	request.file_by_filename = bytes_of("envoy/service/ratelimit/v3/rls.proto");
	assert_int_equal(send(&request), 0);
	assert_int_equal(answer->file_descriptor_response->n_file_descriptor_proto, 8);
	expect_file(0, "envoy/service/ratelimit/v3/rls.proto");
	request.file_by_filename = bytes_of("rls.proto");
	assert_int_equal(send(&request), WR_GRPC_NOT_FOUND);
}

static void test_extensions(void **state)
{
	Pb__ServerReflectionRequest request = PB__SERVER_REFLECTION_REQUEST__INIT;
	Pb__ExtensionRequest extension = PB__EXTENSION_REQUEST__INIT;

	(void)state;
	request.message_request_case =
		PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE;
	request.all_extension_numbers_of_type = bytes_of("google.protobuf.Duration");
	assert_int_equal(send(&request), 0);
	assert_int_equal(answer->all_extension_numbers_response->n_extension_number, 0);
	request.all_extension_numbers_of_type = bytes_of("grpc.health.v1.Health");
	assert_int_equal(send(&request), WR_GRPC_NOT_FOUND);
	request.message_request_case =
		PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION;
	request.file_containing_extension = &extension;
	assert_int_equal(send(&request), WR_GRPC_NOT_FOUND);
	request.message_request_case = 0;
	assert_int_equal(send(&request), WR_GRPC_INVALID_ARGUMENT);
}

/* ---- health ---- */

static int read_health(const char *bytes, size_t len)
{
	struct weir_error error;

	wr_rls_memory_reset(&memory);
	return wr_grpc_health_read((struct weir_str){bytes, len}, &memory, &error);
}

static void test_health(void **state)
{
	struct weir_error error;
	struct weir_str list;

	(void)state;
	assert_int_equal(read_health("", 0), 0);
	assert_int_equal(read_health("\x0a\x09ratelimit", 11), 0);
	assert_int_equal(read_health("\x0a\x0aratelimit\0", 12), WR_GRPC_NOT_FOUND);
	assert_int_equal(read_health("\x0a\x05other", 7), WR_GRPC_NOT_FOUND);
	assert_int_equal(read_health("\x0a\x05oth", 5), WR_GRPC_INVALID_ARGUMENT);
	assert_int_equal(wr_grpc_health_read_list(WR_STR(""), &memory, &error), 0);
	assert_int_equal(wr_grpc_health_read_list(WR_STR("\xff"), &memory, &error),
			 WR_GRPC_INVALID_ARGUMENT);
	assert_true(wr_str_equal(wr_grpc_health_pack(2, &memory), WR_STR("\x08\x02")));
	list = wr_grpc_health_pack_list(1, &memory);
	assert_true(wr_str_equal(list, WR_STR("\x0a\x04\x12\x02\x08\x01\x0a\x0f\x0a\x09ratelimit"
					      "\x12\x02\x08\x01")));
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {TEST(test_services), TEST(test_symbols),
					   TEST(test_imports), TEST(test_extensions),
					   TEST(test_health)};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
