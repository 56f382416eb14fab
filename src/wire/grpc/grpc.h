/* Reads and writes what gRPC adds to HTTP/2: header fields, the five-byte prefix of a message,
 * compression, timeouts, status and status message. serve/grpc has the streams and sockets.
 *
 *   5-byte prefix:  | 0 or 1: compressed | length, 4 bytes, highest first |  then the message
 */
#ifndef WR_WIRE_GRPC_GRPC_H
#define WR_WIRE_GRPC_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#include "base/buffer.h"
#include "wire/memory.h"
#include "wire/trace.h"

#define WR_GRPC_PREFIX 5

/* The status codes that weir sends. */
enum wr_grpc_code {
	WR_GRPC_OK = 0,
	WR_GRPC_CANCELLED = 1,
	WR_GRPC_INVALID_ARGUMENT = 3,
	WR_GRPC_DEADLINE_EXCEEDED = 4,
	WR_GRPC_NOT_FOUND = 5,
	WR_GRPC_PERMISSION_DENIED = 7,
	WR_GRPC_RESOURCE_EXHAUSTED = 8,
	WR_GRPC_FAILED_PRECONDITION = 9,
	WR_GRPC_UNIMPLEMENTED = 12,
	WR_GRPC_INTERNAL = 13,
	WR_GRPC_UNAVAILABLE = 14,
};

/* X(enum, path, many): the gRPC methods of weir. `many` is true if a client is allowed to send any
 * number of messages in one request. */
#define WR_GRPC_METHODS(X)                                                                         \
	X(WR_GRPC_SHOULD_RATE_LIMIT,                                                               \
	  "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", false)                   \
	X(WR_GRPC_CHECK_RATE_LIMIT,                                                                \
	  "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit", false)                 \
	X(WR_GRPC_REPORT, "/kuadrant.service.ratelimit.v1.RateLimitService/Report", false)         \
	X(WR_GRPC_RESERVE, "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve", false)       \
	X(WR_GRPC_COMMIT, "/kuadrant.service.ratelimit.v1.RateLimitService/Commit", false)         \
	X(WR_GRPC_ACQUIRE, "/weir.v1.Reservations/Acquire", false)                                 \
	X(WR_GRPC_RELEASE, "/weir.v1.Reservations/Release", false)                                 \
	X(WR_GRPC_CANCEL, "/weir.v1.Reservations/Cancel", false)                                   \
	X(WR_GRPC_HEALTH_CHECK, "/grpc.health.v1.Health/Check", false)                             \
	X(WR_GRPC_HEALTH_WATCH, "/grpc.health.v1.Health/Watch", false)                             \
	X(WR_GRPC_HEALTH_LIST, "/grpc.health.v1.Health/List", false)                               \
	X(WR_GRPC_REFLECTION, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", true)   \
	X(WR_GRPC_REFLECTION_ALPHA,                                                                \
	  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", true)

enum wr_grpc_method {
	WR_GRPC_NO_METHOD,
#define WR_GRPC_METHOD_ENUM(name, path, many) name,
	WR_GRPC_METHODS(WR_GRPC_METHOD_ENUM)
#undef WR_GRPC_METHOD_ENUM
};

enum wr_grpc_encoding {
	WR_GRPC_IDENTITY,
	WR_GRPC_GZIP,
	WR_GRPC_OTHER_ENCODING,
};

#define WR_GRPC_ACCEPTED "identity,gzip" /* the value of grpc-accept-encoding */

/* ---- header fields (head.c) ---- */

/* The header fields of a request. The caller zeroes the struct before the first field. */
struct wr_grpc_head {
	uint8_t method;   /* enum wr_grpc_method */
	uint8_t encoding; /* enum wr_grpc_encoding */
	bool post;
	bool head; /* the HTTP method is HEAD, so the response has no body */
	bool has_path;
	bool content_type; /* content-type is application/grpc or application/grpc+proto */
	bool has_timeout;
	bool bad_timeout;
	uint64_t timeout_ns;
	struct wr_trace trace;
};

void wr_grpc_head_field(struct wr_grpc_head *head, struct weir_str name, struct weir_str value);

/* Checks the header fields. Returns 0 if they are valid. On failure fills in `error` and returns
 * its code: an HTTP status (400 or more) if the request is not gRPC, otherwise a gRPC code. */
int wr_grpc_head_check(const struct wr_grpc_head *head, struct weir_error *error);

/* Returns whether a client may send any number of messages in one call of this method. */
bool wr_grpc_method_is_many(int method);

/* Parses the value of grpc-timeout: one to eight digits and one of the units H M S m u n. "20m" is
 * 20 ms. Returns 0, or -1 if the text is malformed. */
int wr_grpc_timeout_parse(struct weir_str text, uint64_t *ns);

/* ---- messages (frame.c) ---- */

#define WR_GRPC_INLINE 256 /* longest message that fits into wr_grpc_reader without malloc */

/* A message that is being received. The caller zeroes the struct and sets `max` and `room`. */
struct wr_grpc_reader {
	uint32_t max; /* maximum length of a message */
	uint32_t len; /* length of the message; set when the prefix has been read */
	uint8_t prefix[WR_GRPC_PREFIX];
	uint8_t prefix_used;
	bool compressed;
	struct wr_buf_room *room;      /* limits the memory of the long messages of a connection */
	struct wr_buf message;         /* the bytes received so far; initialized after the prefix */
	char here[WR_GRPC_INLINE + 1]; /* the first memory of `message` */
};

/* Consumes bytes from the front of *data until a message is complete. Returns 1 if the message is
 * complete, or 0 if more bytes are needed. On failure returns -1 and sets `error` to a gRPC code
 * and a text. */
int wr_grpc_read(struct wr_grpc_reader *reader, struct weir_str *data, struct weir_error *error);

static inline struct weir_str wr_grpc_message(const struct wr_grpc_reader *reader)
{
	return wr_buf_str(&reader->message);
}

/* Returns whether a message has begun to arrive and is incomplete. */
static inline bool wr_grpc_is_partial(const struct wr_grpc_reader *reader)
{
	return reader->prefix_used > 0 &&
	       (reader->prefix_used < WR_GRPC_PREFIX || reader->message.len < reader->len);
}

/* Frees the message. The reader can then read the next message. */
void wr_grpc_reader_reset(struct wr_grpc_reader *reader);

void wr_grpc_prefix_write(uint8_t prefix[WR_GRPC_PREFIX], size_t len);

/* ---- compression (inflate.c) ---- */

struct wr_grpc_inflater;

/* Allocates an inflater. Returns 0, or WEIR_EMEMORY if there is no memory. */
int wr_grpc_inflater_new(struct wr_grpc_inflater **out);
void wr_grpc_inflater_free(struct wr_grpc_inflater *inflater);

/* Inflates one gzip member into `memory`. The result has at most `max` bytes. Returns 0, or a gRPC
 * code on failure. */
int wr_grpc_inflate(struct wr_grpc_inflater *inflater, struct weir_str packed, size_t max,
		    struct wr_rls_memory *memory, struct weir_str *message,
		    struct weir_error *error);

/* ---- status (status.c) ---- */

#define WR_GRPC_TEXT_MAX 768 /* maximum length of the value of grpc-message */

/* Writes the value of grpc-message: `%` and every byte that is not printable ASCII become %XX. If
 * the value would be longer than WR_GRPC_TEXT_MAX, the end of the text is left out, and no UTF-8
 * character is cut in half. Returns the length of the value. */
size_t wr_grpc_text_encode(const char *text, char encoded[WR_GRPC_TEXT_MAX]);

#endif
