/* Fuzzes a RateLimitRequest. The first byte selects the options of responses and the verdict
 * of a delay, the second the size of the memory. The fast reader reads the same as protobuf-c.
 * protobuf-c can read the response, which has a status for each descriptor. */
#include "fuzz.h"

#include "wire/grpc/grpc.h"
#include "wire/rls/rls.h"
#include "wire/rls/plain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS 1794787200000000000ull

static const char yaml[] =
	"domain: rl\n"
	"descriptors:\n"
	"  - {key: a, rate_limit: {unit: minute, requests_per_unit: 3, name: n}}\n"
	"  - {key: b, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}\n"
	"  - {key: c, quota_mode: true, metadata: {x: {y: [1]}}, rate_limit: {unit: hour, "
	"requests_per_unit: 2}}\n"
	"  - {key: d, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, "
	"queue_size: 3}}\n"
	"  - {key: e, metadata: {x: {z: t}}, rate_limit: {unlimited: true}}\n"
	"  - {key: f, rate_limit: {unit: day, requests_per_unit: 0, response: {body: no}}}\n";

static struct weir_engine *engine;
static struct wr_rls_memory memory, small;

static void open_all(void)
{
	require(weir_engine_new(make_table(1 << 20), load_rules(yaml), NULL, &engine) == 0);
	require(wr_rls_memory_init(&memory, 768 << 10) == 0);
}

/* Both readers have the same result. */
static void compare_readers(struct weir_str bytes)
{
	Pb__RateLimitRequest *oracle =
		pb__rate_limit_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.ptr);
	const Pb__RateLimitRequest *plain;
	size_t len;
	uint8_t *x, *y;

	wr_rls_memory_reset(&memory);
	plain = wr_rls_read_plain(bytes, &memory);
	require(oracle || !plain);
	if (plain) {
		len = pb__rate_limit_request__get_packed_size(oracle);
		require(pb__rate_limit_request__get_packed_size(plain) == len);
		x = malloc(len + 1);
		y = malloc(len + 1);
		pb__rate_limit_request__pack(oracle, x);
		pb__rate_limit_request__pack(plain, y);
		require(memcmp(x, y, len) == 0);
		free(x);
		free(y);
	}
	if (oracle)
		pb__rate_limit_request__free_unpacked(oracle, NULL);
}

static void check_answer(const Pb__RateLimitResponse *response, size_t descriptors)
{
	size_t len = wr_rls_size(response);
	uint8_t *bytes = malloc(len + 1);
	Pb__RateLimitResponse *read;

	require(len == pb__rate_limit_response__get_packed_size(response));
	wr_rls_pack(response, bytes);
	read = pb__rate_limit_response__unpack(NULL, len, bytes);
	require(read && read->n_statuses == descriptors);
	require(read->overall_code == 1 || read->overall_code == 2);
	for (size_t i = 0; i < read->n_statuses; i++)
		require(read->statuses[i]->code == 1 || read->statuses[i]->code == 2);
	pb__rate_limit_response__free_unpacked(read, NULL);
	free(bytes);
}

static void decide(const Pb__RateLimitRequest *request, uint8_t how)
{
	static _Alignas(16) char room[WEIR_ASK_BYTES];
	static uint64_t now_ns = NOW_NS;
	struct wr_rls_options options = {.dynamic_metadata = how & 1,
					 .bodies = how & 2,
					 .profile_headers = how & 4,
					 .profile = how >> 6,
					 .limit_header = how & 8 ? "l" : NULL,
					 .reset_header = how & 16 ? "r" : NULL};
	const Pb__RateLimitResponse *response;
	struct weir_error error;
	struct weir_ask *ask;
	int verdict;

	require(weir_ask_init(room, sizeof room, engine, wr_rls_domain(request), &ask) == 0);
	if (wr_rls_ask(request, ask, &memory, &error) == 0) {
		verdict = weir_ask_decide(ask, now_ns += 1000000);
		require(verdict > 0);
		if (verdict == WEIR_DELAY && how & 32)
			weir_ask_cancel(ask, now_ns);
		else if (verdict == WEIR_DELAY)
			verdict = WEIR_ADMIT;
		response = wr_rls_answer(ask, verdict, request, &options, &memory);
		if (response)
			check_answer(response, request->n_descriptors);
	}
	weir_ask_done(ask);
}

/* With little memory reading fails without a crash. */
static void read_small(struct weir_str bytes, size_t size)
{
	struct weir_error error = {0};

	require(wr_rls_memory_init(&small, size) == 0);
	if (!wr_rls_read(bytes, &small, &error))
		require(error.code == WR_GRPC_RESOURCE_EXHAUSTED ||
			error.code == WR_GRPC_INVALID_ARGUMENT);
	wr_rls_memory_free(&small);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const Pb__RateLimitRequest *request;
	struct weir_error error = {0};
	struct weir_str bytes;

	if (size < 2)
		return 0;
	if (!engine)
		open_all();
	bytes = (struct weir_str){(const char *)data + 2, size - 2};
	compare_readers(bytes);
	read_small(bytes, 16 * (size_t)data[1] + 16);
	wr_rls_memory_reset(&memory);
	request = wr_rls_read(bytes, &memory, &error);
	require(request || error.code);
	if (request && wr_rls_check(request, &error) == 0)
		decide(request, data[0]);
	return 0;
}
