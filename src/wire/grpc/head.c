/* Reads and checks the header fields of gRPC requests. Called by serve/grpc/frames.c. */
#include "wire/grpc/grpc.h"

#include <weir/algo.h>

#include "base/error.h"
#include "base/str.h"

static const struct {
	struct weir_str path;
	bool many;
} methods[] = {[WR_GRPC_NO_METHOD] = {{"", 0}, false},
#define METHOD(name, path, many) [name] = {{path, sizeof(path) - 1}, many},
	       WR_GRPC_METHODS(METHOD)
#undef METHOD
};

static uint8_t find_method(struct weir_str path)
{
	for (size_t i = WR_GRPC_NO_METHOD + 1; i < sizeof methods / sizeof *methods; i++)
		if (wr_str_equal(path, methods[i].path))
			return (uint8_t)i;
	return WR_GRPC_NO_METHOD;
}

bool wr_grpc_method_is_many(int method)
{
	return methods[method].many;
}

/* Returns whether the type is application/grpc or application/grpc+proto, with or without
 * parameters. */
static bool is_grpc(struct weir_str type)
{
	struct weir_str bare;

	/* most clients send exactly this value, so it is compared first */
	if (wr_str_equal(type, WR_STR("application/grpc")))
		return true;
	bare = wr_str_trim(wr_str_first(type, wr_str_find(type, ';')));
	return wr_str_equal_nocase(bare, WR_STR("application/grpc")) ||
	       wr_str_equal_nocase(bare, WR_STR("application/grpc+proto"));
}

static bool is_named(struct weir_str name, struct weir_str wanted)
{
	/* the caller has checked that name.len is equal to wanted.len */
	return memcmp(name.ptr, wanted.ptr, wanted.len) == 0;
}

/* Reads one header field. Names are in lower case, as HTTP/2 requires. The name is compared only
 * with known names of the same length. */
void wr_grpc_head_field(struct wr_grpc_head *head, struct weir_str name, struct weir_str value)
{
	if (name.len == 5 && is_named(name, WR_STR(":path"))) {
		head->has_path = true;
		head->method = find_method(value);
	} else if (name.len == 7 && is_named(name, WR_STR(":method"))) {
		head->post = wr_str_equal(value, WR_STR("POST"));
		head->head = wr_str_equal(value, WR_STR("HEAD"));
	} else if (name.len == 12 && is_named(name, WR_STR("content-type"))) {
		head->content_type = is_grpc(value);
	} else if (name.len == 12 && is_named(name, WR_STR("grpc-timeout"))) {
		head->has_timeout = true;
		head->bad_timeout = wr_grpc_timeout_parse(value, &head->timeout_ns) != 0;
	} else if (name.len == 13 && is_named(name, WR_STR("grpc-encoding"))) {
		head->encoding = wr_str_equal_nocase(value, WR_STR("identity")) ? WR_GRPC_IDENTITY
				 : wr_str_equal_nocase(value, WR_STR("gzip"))
					 ? WR_GRPC_GZIP
					 : WR_GRPC_OTHER_ENCODING;
	} else if (name.len == 11 && is_named(name, WR_STR("traceparent"))) {
		wr_trace_read(value, &head->trace);
	}
}

int wr_grpc_head_check(const struct wr_grpc_head *head, struct weir_error *error)
{
	if (!head->post)
		return wr_error(error, 405, "a gRPC call must be a POST request");
	if (!head->content_type)
		return wr_error(error, 415, "a gRPC call must have content-type application/grpc");
	if (head->method == WR_GRPC_NO_METHOD)
		return wr_error(error, WR_GRPC_UNIMPLEMENTED,
				"unknown service or method; server reflection lists the services");
	if (head->bad_timeout)
		return wr_error(
			error, WR_GRPC_INVALID_ARGUMENT,
			"grpc-timeout must be 1 to 8 digits and one of the units H M S m u n");
	if (head->encoding == WR_GRPC_OTHER_ENCODING)
		return wr_error(error, WR_GRPC_UNIMPLEMENTED,
				"the grpc-encoding is not supported; use identity or gzip");
	return 0;
}

int wr_grpc_timeout_parse(struct weir_str text, uint64_t *ns)
{
	static const uint64_t units_ns['u' + 1] = {
		['H'] = 3600000000000, ['M'] = 60000000000, ['S'] = 1000000000,
		['m'] = 1000000,       ['u'] = 1000,        ['n'] = 1};
	uint64_t value = 0, unit;
	unsigned char letter;

	if (text.len < 2 || text.len > 9)
		return -1;
	letter = (unsigned char)text.ptr[text.len - 1];
	unit = letter <= 'u' ? units_ns[letter] : 0;
	for (size_t i = 0; i + 1 < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return -1;
		value = value * 10 + (uint64_t)(text.ptr[i] - '0');
	}
	if (__builtin_mul_overflow(value, unit, ns) || *ns > WEIR_SPAN_MAX_NS)
		*ns = WEIR_SPAN_MAX_NS; /* keeps the sum of the current time and *ns below 2^64 */
	return unit ? 0 : -1;
}
