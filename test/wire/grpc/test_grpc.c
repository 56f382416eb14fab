/* Tests gRPC on HTTP/2: header fields, prefixes, gzip, timeouts, status messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <zlib.h>

#include <weir/algo.h>

#include "base/str.h"
#include "wire/grpc/grpc.h"

#define PATH "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

static void test_timeouts(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t ns;
	} cases[] = {
		{"20m", 0, 20000000},
		{"1H", 0, 3600000000000},
		{"2M", 0, 120000000000},
		{"3S", 0, 3000000000},
		{"4u", 0, 4000},
		{"5n", 0, 5},
		{"0m", 0, 0},
		{"99999999n", 0, 99999999},
		{"99999999H", 0, WEIR_SPAN_MAX_NS},
		{"99999999M", 0, WEIR_SPAN_MAX_NS},
		{"123456789n", -1, 0},
		{"m", -1, 0},
		{"", -1, 0},
		{"20", -1, 0},
		{"20x", -1, 0},
		{"-1m", -1, 0},
		{" 1m", -1, 0},
		{"1 m", -1, 0},
		{"1.5S", -1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t ns = 0;

		if (wr_grpc_timeout_parse(wr_str(cases[i].text), &ns) != cases[i].rc)
			fail_msg("%s", cases[i].text);
		if (cases[i].rc == 0)
			assert_true(ns == cases[i].ns);
	}
}

static void test_texts(void **state)
{
	char out[WR_GRPC_TEXT_MAX], longest[sizeof(((struct weir_error *)0)->text)] = "";

	(void)state;
	assert_int_equal(wr_grpc_text_encode("all fine~", out), 9);
	assert_memory_equal(out, "all fine~", 9);
	assert_int_equal(wr_grpc_text_encode("5 % \n\xc3\xa4", out), 15);
	assert_memory_equal(out, "5 %25 %0A%C3%A4", 15);
	memset(longest, 'x', sizeof longest - 1);
	assert_int_equal(wr_grpc_text_encode(longest, out), sizeof longest - 1);
	/* 256 encoded bytes fit into 768 bytes. A character that does not fit is left out as a
 * whole. */
	memset(longest, '\n', sizeof longest - 1);
	assert_int_equal(wr_grpc_text_encode(longest, out), 768);
	longest[0] = 'x';
	for (size_t i = 1; i + 2 < sizeof longest; i += 2)
		memcpy(longest + i, "\xc3\xa4", 2);
	longest[sizeof longest - 2] = 0;
	assert_int_equal(wr_grpc_text_encode(longest, out), 1 + 127 * 6);
	assert_memory_equal(out + 1 + 126 * 6, "%C3%A4", 6);
}

/* ---- header fields ---- */

static int check(const char *method, const char *path, const char *type, const char *extra_name,
		 const char *extra, struct wr_grpc_head *head)
{
	struct weir_error error;

	*head = (struct wr_grpc_head){0};
	wr_grpc_head_field(head, WR_STR(":method"), wr_str(method));
	wr_grpc_head_field(head, WR_STR(":path"), wr_str(path));
	if (type)
		wr_grpc_head_field(head, WR_STR("content-type"), wr_str(type));
	if (extra)
		wr_grpc_head_field(head, wr_str(extra_name), wr_str(extra));
	return wr_grpc_head_check(head, &error);
}

static void test_heads(void **state)
{
	struct wr_grpc_head head;

	(void)state;
	assert_int_equal(check("POST", PATH, "application/grpc", NULL, NULL, &head), 0);
	assert_int_equal(head.method, WR_GRPC_SHOULD_RATE_LIMIT);
	assert_int_equal(check("POST", PATH, "application/grpc+proto", NULL, NULL, &head), 0);
	assert_int_equal(check("POST", PATH, "Application/gRPC ;x=1", NULL, NULL, &head), 0);
	assert_int_equal(check("POST", PATH, "application/grpc-web", NULL, NULL, &head), 415);
	assert_int_equal(check("POST", PATH, "application/grpc+json", NULL, NULL, &head), 415);
	assert_int_equal(check("POST", PATH, NULL, NULL, NULL, &head), 415);
	assert_int_equal(check("GET", PATH, "application/grpc", NULL, NULL, &head), 405);
	assert_int_equal(check("POST", PATH "x", "application/grpc", NULL, NULL, &head),
			 WR_GRPC_UNIMPLEMENTED);
	assert_int_equal(check("POST", "/grpc.health.v1.Health/Watch", "application/grpc", NULL,
			       NULL, &head),
			 0);
	assert_int_equal(head.method, WR_GRPC_HEALTH_WATCH);
	assert_false(wr_grpc_method_is_many(head.method));
	assert_true(wr_grpc_method_is_many(WR_GRPC_REFLECTION));
}

static void test_head_extras(void **state)
{
	struct wr_grpc_head head;

	(void)state;
	assert_int_equal(check("POST", PATH, "application/grpc", "grpc-timeout", "20m", &head), 0);
	assert_true(head.has_timeout && head.timeout_ns == 20000000);
	assert_int_equal(check("POST", PATH, "application/grpc", "grpc-timeout", "soon", &head),
			 WR_GRPC_INVALID_ARGUMENT);
	assert_int_equal(check("POST", PATH, "application/grpc", "grpc-encoding", "gzip", &head),
			 0);
	assert_int_equal(head.encoding, WR_GRPC_GZIP);
	assert_int_equal(
		check("POST", PATH, "application/grpc", "grpc-encoding", "identity", &head), 0);
	assert_int_equal(check("POST", PATH, "application/grpc", "grpc-encoding", "snappy", &head),
			 WR_GRPC_UNIMPLEMENTED);
	assert_int_equal(check("POST", PATH, "application/grpc", "grpc-tags-bin", "x", &head), 0);
}

/* ---- messages ---- */

static struct wr_buf_room room;

static struct wr_grpc_reader new_reader(uint32_t max)
{
	room = (struct wr_buf_room){.max = 1 << 20};
	return (struct wr_grpc_reader){.max = max, .room = &room};
}

static size_t make_message(uint8_t *bytes, size_t len)
{
	wr_grpc_prefix_write(bytes, len);
	for (size_t i = 0; i < len; i++)
		bytes[WR_GRPC_PREFIX + i] = (uint8_t)(i * 7);
	return WR_GRPC_PREFIX + len;
}

static void test_pieces(void **state)
{
	static const size_t lengths[] = {0, 1, 255, 256, 257, 5000, 100000};
	static uint8_t bytes[100100];

	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t piece = 1; piece < 20000; piece = piece * 3 + 1) {
			struct wr_grpc_reader reader = new_reader(100000);
			size_t len = make_message(bytes, lengths[i]), at = 0;
			struct weir_error error;
			int rc = 0;

			while (at < len && rc == 0) {
				size_t part = len - at < piece ? len - at : piece;
				struct weir_str data = {(char *)bytes + at, part};

				assert_int_equal(wr_grpc_is_partial(&reader), at > 0);
				rc = wr_grpc_read(&reader, &data, &error);
				assert_int_equal(data.len, 0);
				at += part;
			}
			assert_int_equal(rc, 1);
			assert_int_equal(at, len);
			assert_false(wr_grpc_is_partial(&reader));
			assert_int_equal(wr_grpc_message(&reader).len, lengths[i]);
			assert_memory_equal(wr_grpc_message(&reader).ptr, bytes + WR_GRPC_PREFIX,
					    lengths[i]);
			wr_grpc_reader_reset(&reader);
			assert_int_equal(room.held, 0);
		}
}

/* Memory is allocated for the bytes received, not for the announced length. */
static void test_announced(void **state)
{
	struct wr_grpc_reader reader = new_reader(100000);
	uint8_t bytes[1000];
	struct weir_str data = {(char *)bytes, sizeof bytes};
	struct weir_error error;

	(void)state;
	make_message(bytes, 900);
	wr_grpc_prefix_write(bytes, 100000);
	assert_int_equal(wr_grpc_read(&reader, &data, &error), 0);
	assert_int_equal(room.held, 1024);
	wr_grpc_reader_reset(&reader);
}

static int read_bytes(struct wr_grpc_reader *reader, const char *bytes, size_t len)
{
	struct weir_error error = {0};
	struct weir_str data = {bytes, len};
	int rc = wr_grpc_read(reader, &data, &error);

	return rc < 0 ? error.code : rc;
}

static void test_bad_prefixes(void **state)
{
	struct wr_grpc_reader reader = new_reader(1000);

	(void)state;
	assert_int_equal(read_bytes(&reader, "\2\0\0\0\0", 5), WR_GRPC_INVALID_ARGUMENT);
	reader = new_reader(1000);
	assert_int_equal(read_bytes(&reader, "\0\0\0\3\351", 5), WR_GRPC_RESOURCE_EXHAUSTED);
	reader = new_reader(1000);
	assert_int_equal(read_bytes(&reader, "\0\0\0\3\350", 5), 0);
	reader = new_reader(1000);
	assert_int_equal(read_bytes(&reader, "\0\377\377\377\377", 5), WR_GRPC_RESOURCE_EXHAUSTED);
}

static void test_full_room(void **state)
{
	struct wr_grpc_reader reader = new_reader(100000);
	static uint8_t bytes[5000];

	(void)state;
	make_message(bytes, 4000);
	room.max = 3000;
	assert_int_equal(read_bytes(&reader, (char *)bytes, 2000), 0);
	assert_int_equal(read_bytes(&reader, (char *)bytes + 2000, 2000),
			 WR_GRPC_RESOURCE_EXHAUSTED);
	wr_grpc_reader_reset(&reader);
	assert_int_equal(room.held, 0);
}

/* ---- gzip ---- */

static size_t gzip(const void *from, size_t len, uint8_t *to, size_t cap)
{
	z_stream zip = {0};

	assert_int_equal(deflateInit2(&zip, 9, Z_DEFLATED, 31, 8, 0), Z_OK);
	zip.next_in = (Bytef *)from;
	zip.avail_in = (uInt)len;
	zip.next_out = to;
	zip.avail_out = (uInt)cap;
	assert_int_equal(deflate(&zip, Z_FINISH), Z_STREAM_END);
	deflateEnd(&zip);
	return cap - zip.avail_out;
}

static int inflate_into(struct wr_grpc_inflater *inflater, struct weir_str packed, size_t max,
			struct weir_str *message)
{
	static struct wr_rls_memory memory;
	struct weir_error error;

	if (!memory.bytes)
		assert_int_equal(wr_rls_memory_init(&memory, 1 << 20), 0);
	wr_rls_memory_reset(&memory);
	return wr_grpc_inflate(inflater, packed, max, &memory, message, &error);
}

static void test_gzipped(void **state)
{
	static uint8_t zeroes[100001], packed[2000];
	struct wr_grpc_inflater *inflater;
	struct weir_str message;
	size_t len;

	(void)state;
	assert_int_equal(wr_grpc_inflater_new(&inflater), 0);
	len = gzip("hello", 5, packed, sizeof packed);
	assert_int_equal(
		inflate_into(inflater, (struct weir_str){(char *)packed, len}, 1000, &message), 0);
	assert_int_equal(message.len, 5);
	assert_memory_equal(message.ptr, "hello", 5);
	for (size_t cut = 1; cut <= len; cut++)
		assert_int_equal(inflate_into(inflater,
					      (struct weir_str){(char *)packed, len - cut}, 1000,
					      &message),
				 WR_GRPC_INVALID_ARGUMENT);
	packed[len] = 'x';
	assert_int_equal(
		inflate_into(inflater, (struct weir_str){(char *)packed, len + 1}, 1000, &message),
		WR_GRPC_INVALID_ARGUMENT);
	len = gzip(zeroes, 100000, packed, sizeof packed);
	assert_int_equal(
		inflate_into(inflater, (struct weir_str){(char *)packed, len}, 100000, &message),
		0);
	assert_int_equal(message.len, 100000);
	len = gzip(zeroes, 100001, packed, sizeof packed);
	assert_true(len < 200);
	assert_int_equal(
		inflate_into(inflater, (struct weir_str){(char *)packed, len}, 100000, &message),
		WR_GRPC_RESOURCE_EXHAUSTED);
	len = gzip("", 0, packed, sizeof packed);
	assert_int_equal(
		inflate_into(inflater, (struct weir_str){(char *)packed, len}, 10, &message), 0);
	assert_int_equal(message.len, 0);
	wr_grpc_inflater_free(inflater);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeouts),     cmocka_unit_test(test_texts),
		cmocka_unit_test(test_heads),        cmocka_unit_test(test_head_extras),
		cmocka_unit_test(test_pieces),       cmocka_unit_test(test_announced),
		cmocka_unit_test(test_bad_prefixes), cmocka_unit_test(test_full_room),
		cmocka_unit_test(test_gzipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
