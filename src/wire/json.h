/* Reads JSON from clients, and writes problems (RFC 9457), the responses to wrong requests. A
 * problem about a member has a JSON pointer (RFC 6901) to that member. */
#ifndef WR_WIRE_JSON_H
#define WR_WIRE_JSON_H

#include <jansson.h>

#include "base/json_write.h"
#include "limiter/text.h"

#define WR_PROBLEM_POINTER 256
#define WR_PROBLEM_DETAIL 320
#define WR_PROBLEM_TEXT 4096 /* size of a buffer in which any problem fits as JSON */

/* X(enum, HTTP status, code in the response): the problems that a request can have. */
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
	bool has_pointer; /* `pointer` is set; an empty pointer stands for the whole body */
	char pointer[WR_PROBLEM_POINTER];
	char detail[WR_PROBLEM_DETAIL];
};

/* The location of a value in a JSON document, as steps from the top of the document. Each struct is
 * one step: the name of a member, or an index if `name` is NULL. `above` is the step before it, or
 * NULL if this step is the first. The structs are on the stack. */
struct wr_wire_json_at {
	const struct wr_wire_json_at *above;
	const char *name;
	size_t index;
};

/* Set the problem. `format` is a sentence that describes the expected value. wr_problem_at also
 * sets problem->pointer to the location `at` in the document; NULL stands for the whole body. Both
 * return -1. */
int wr_problem(struct wr_problem *problem, enum wr_problem_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int wr_problem_at(struct wr_problem *problem, enum wr_problem_code code,
		  const struct wr_wire_json_at *at, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

int wr_problem_status(enum wr_problem_code code);
const char *wr_problem_phrase(int status);

/* Writes the problem as a JSON object, the content of application/problem+json. */
void wr_problem_json(const struct wr_problem *problem, struct wr_json_out *json);

/* Reads a JSON document. Too deep nesting, numbers out of range, invalid UTF-8 and repeated members
 * are errors. Strings may contain zero bytes. On failure returns NULL and sets `problem`. */
json_t *wr_wire_json_read(struct weir_str body, struct wr_problem *problem);

/* The functions below read a value that must have the type in the function's name. `at` is the
 * location of the value in the document. The functions return 0. On failure they return -1 and set
 * `problem`. */
int wr_wire_json_get_text(const json_t *value, const struct wr_wire_json_at *at,
			  struct weir_str *text, struct wr_problem *problem);
int wr_wire_json_get_int(const json_t *value, const struct wr_wire_json_at *at, int64_t low,
			 int64_t high, int64_t *number, struct wr_problem *problem);
int wr_wire_json_get_bool(const json_t *value, const struct wr_wire_json_at *at, bool *flag,
			  struct wr_problem *problem);
int wr_wire_json_need_object(const json_t *value, const struct wr_wire_json_at *at,
			     struct wr_problem *problem);

/* Checks that the value is an array of 1 to `most` items. Returns 0, or -1 with `problem` set. */
int wr_wire_json_need_list(const json_t *value, const struct wr_wire_json_at *at, size_t most,
			   struct wr_problem *problem);

/* Sets the problem for the unknown member at `at`. `known` lists the names of the known members.
 * Returns -1. */
int wr_wire_json_unknown(const struct wr_wire_json_at *at, const char *known,
			 struct wr_problem *problem);

#define WR_TIME_TEXT 40 /* size of a buffer for wr_time_text */

/* Writes a time in nanoseconds since 1970 as 2026-11-16T12:00:00.250Z. Returns the text. */
struct weir_str wr_time_text(uint64_t ns, char text[WR_TIME_TEXT]);

/* Writes a time as the string "2026-11-16T12:00:00.250Z". */
void wr_wire_json_time(struct wr_json_out *json, uint64_t ns);

/* ---- values of jansson ---- */

/* Returns a JSON string with the text. Each byte that is not UTF-8 becomes U+FFFD. Aborts the
 * process if there is no memory. */
json_t *wr_wire_json_text(struct weir_str text);

/* Returns a list of the errors and warnings about rules. */
json_t *wr_wire_json_diagnostics(const struct weir_errors *errors);

#endif
