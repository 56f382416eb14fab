/* JSON from clients, and the problems with it (RFC 9457), with a JSON pointer (RFC 6901) to the
 * member. */
#ifndef WR_WIRE_JSON_H
#define WR_WIRE_JSON_H

#include <jansson.h>

#include "base/json_write.h"
#include "limiter/text.h"

#define WR_PROBLEM_POINTER 256
#define WR_PROBLEM_DETAIL 320
#define WR_PROBLEM_TEXT 4096 /* enough for any problem as JSON */

/* X(enum, HTTP status, code in the response): problems with a request. */
#define WR_PROBLEMS(X)                                                                             \
	X(WR_BAD_JSON, 400, "bad_json")                                                            \
	X(WR_BAD_TYPE, 400, "wrong_type")                                                          \
	X(WR_BAD_VALUE, 400, "bad_value")                                                          \
	X(WR_MISSING_MEMBER, 400, "missing_member")                                                \
	X(WR_UNKNOWN_MEMBER, 400, "unknown_member")                                                \
	X(WR_TOO_MANY, 400, "too_many")                                                            \
	X(WR_BAD_REQUEST, 400, "bad_request")                                                      \
	X(WR_UNAUTHORIZED, 401, "unauthorized")                                                    \
	X(WR_FORBIDDEN, 403, "forbidden")                                                          \
	X(WR_NOT_FOUND, 404, "not_found")                                                          \
	X(WR_NOT_ALLOWED, 405, "method_not_allowed")                                               \
	X(WR_TOO_LARGE, 413, "too_large")                                                          \
	X(WR_LONG_TARGET, 414, "target_too_long")                                                  \
	X(WR_BAD_MEDIA, 415, "unsupported_media_type")                                             \
	X(WR_MISDIRECTED, 421, "misdirected")                                                      \
	X(WR_TOO_OFTEN, 429, "too_often")                                                          \
	X(WR_TOO_LONG, 431, "header_too_large")                                                    \
	X(WR_INTERNAL, 500, "internal")                                                            \
	X(WR_BAD_CODING, 501, "unsupported_transfer_coding")                                       \
	X(WR_UNAVAILABLE, 503, "unavailable")                                                      \
	X(WR_BAD_VERSION, 505, "unsupported_http_version")

enum wr_problem_code {
#define WR_PROBLEM_ENUM(name, status, text) name,
	WR_PROBLEMS(WR_PROBLEM_ENUM)
#undef WR_PROBLEM_ENUM
};

struct wr_problem {
	enum wr_problem_code code;
	bool has_pointer; /* `pointer` is set; "" is the whole body */
	char pointer[WR_PROBLEM_POINTER];
	char detail[WR_PROBLEM_DETAIL];
};

/* The location of a value in a document, as a chain on the stack: the name of a member, or an index
 * if the name is NULL. The top of the document is NULL. */
struct wr_json_at {
	const struct wr_json_at *above;
	const char *name;
	size_t index;
};

/* Sets a problem; the format is a sentence that says what is expected. Returns -1. */
int wr_problem(struct wr_problem *problem, enum wr_problem_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int wr_problem_at(struct wr_problem *problem, enum wr_problem_code code,
		  const struct wr_json_at *at, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

int wr_problem_status(enum wr_problem_code code);
const char *wr_problem_phrase(int status);

/* Writes application/problem+json. */
void wr_problem_write(const struct wr_problem *problem, struct wr_text *out);

/* Reads a document. Returns NULL and a problem. A repeated member is an error; depth, numbers and
 * UTF-8 are checked. Strings may have zero bytes. */
json_t *wr_json_read(struct weir_str body, struct wr_problem *problem);

/* Read a value, which must be of this type. `at` is its location. Return 0, or -1 and a problem. */
int wr_json_get_text(const json_t *value, const struct wr_json_at *at, struct weir_str *text,
		     struct wr_problem *problem);
int wr_json_get_int(const json_t *value, const struct wr_json_at *at, int64_t low, int64_t high,
		    int64_t *number, struct wr_problem *problem);
int wr_json_get_bool(const json_t *value, const struct wr_json_at *at, bool *flag,
		     struct wr_problem *problem);
int wr_json_need_object(const json_t *value, const struct wr_json_at *at,
			struct wr_problem *problem);

/* An array of 1 to `most` items. */
int wr_json_need_list(const json_t *value, const struct wr_json_at *at, size_t most,
		      struct wr_problem *problem);

/* Sets the problem of an unknown member at `at`; `known` lists the known ones. Returns -1. */
int wr_json_unknown(const struct wr_json_at *at, const char *known, struct wr_problem *problem);

/* ---- values for the writer of base/json_write.h ---- */

/* "2026-11-16T12:00:00.250Z" */
void wr_json_time(struct wr_json_out *json, uint64_t ns);

/* ---- the same for struct wr_text ---- */

void wr_json_put_text(struct wr_text *out, struct weir_str text);

void wr_json_put_time(struct wr_text *out, uint64_t ns);

/* ---- as values of jansson ---- */

/* A string of any bytes; each byte that is not UTF-8 becomes U+FFFD. Aborts without memory. */
json_t *wr_json_text(struct weir_str text);

/* Errors and warnings about rules, as a list. */
json_t *wr_json_diagnostics(const struct weir_errors *errors);

#endif
