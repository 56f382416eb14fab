/* Writes problems as JSON, and reads JSON with jansson. Called by the HTTP handlers. */
#include "wire/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <weir/algo.h>

#include "base/assert.h"
#include "base/utf8.h"

#define NAME_SHOWN 64 /* maximum length of a member's name in a JSON pointer */

static const struct {
	int status;
	const char *text;
} problems[] = {
#define PROBLEM_ROW(name, status, text) [name] = {status, text},
	WR_PROBLEMS(PROBLEM_ROW)
#undef PROBLEM_ROW
};

/* The HTTP statuses that weir sends. */
static const struct {
	int status;
	const char *phrase;
} phrases[] = {
	{200, "OK"},
	{202, "Accepted"},
	{204, "No Content"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{421, "Misdirected Request"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"},
};

const char *wr_problem_phrase(int status)
{
	for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "Error";
}

int wr_problem_status(enum wr_problem_code code)
{
	wr_assert(code < sizeof problems / sizeof *problems);
	return problems[code].status;
}

/* Writes one step of a JSON pointer. In names, ~ becomes ~0 and / becomes ~1. */
static void put_step(struct wr_limiter_text *out, const struct wr_wire_json_at *at)
{
	struct weir_str name;

	wr_limiter_text_char(out, '/');
	if (!at->name) {
		wr_limiter_text_number(out, at->index);
		return;
	}
	name = wr_str_first(wr_str(at->name), NAME_SHOWN);
	while (name.len && ((unsigned char)at->name[name.len] & 0xc0) == 0x80)
		name.len--; /* do not cut a UTF-8 character in half */
	for (size_t i = 0; i < name.len; i++) {
		if (name.ptr[i] == '~')
			wr_limiter_text_put(out, WR_STR("~0"));
		else if (name.ptr[i] == '/')
			wr_limiter_text_put(out, WR_STR("~1"));
		else
			wr_limiter_text_char(out, name.ptr[i]);
	}
}

static void put_pointer(struct wr_limiter_text *out, const struct wr_wire_json_at *at)
{
	if (!at)
		return;
	put_pointer(out, at->above); // NOLINT(misc-no-recursion): weir's formats limit the depth
	put_step(out, at);
}

static int set_problem(struct wr_problem *problem, enum wr_problem_code code, const char *format,
		       va_list args)
{
	problem->code = code;
	vsnprintf(problem->detail, sizeof problem->detail, format, args);
	return -1;
}

int wr_problem(struct wr_problem *problem, enum wr_problem_code code, const char *format, ...)
{
	va_list args;

	problem->has_pointer = false;
	problem->pointer[0] = '\0';
	va_start(args, format);
	set_problem(problem, code, format, args);
	va_end(args);
	return -1;
}

int wr_problem_at(struct wr_problem *problem, enum wr_problem_code code,
		  const struct wr_wire_json_at *at, const char *format, ...)
{
	struct wr_limiter_text pointer = {problem->pointer, sizeof problem->pointer - 1, 0};
	va_list args;

	problem->has_pointer = true;
	put_pointer(&pointer, at);
	problem->pointer[wr_limiter_text_fits(&pointer) ? pointer.len : 0] = '\0';
	va_start(args, format);
	set_problem(problem, code, format, args);
	va_end(args);
	return -1;
}

struct weir_str wr_time_text(uint64_t ns, char text[WR_TIME_TEXT])
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm utc;
	size_t len;

	gmtime_r(&seconds, &utc);
	len = strftime(text, WR_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + len, WR_TIME_TEXT - len, ".%03uZ", (unsigned)(ns % 1000000000 / 1000000));
	return wr_str(text);
}

void wr_wire_json_time(struct wr_json_out *json, uint64_t ns)
{
	char text[WR_TIME_TEXT];

	wr_json_string(json, wr_time_text(ns, text));
}

void wr_problem_json(const struct wr_problem *problem, struct wr_json_out *json)
{
	int status = problems[problem->code].status;

	wr_assert(problem->code < sizeof problems / sizeof *problems);
	wr_json_object(json);
	wr_json_member_string(json, "type", WR_STR("about:blank"));
	wr_json_member_string(json, "title", wr_str(wr_problem_phrase(status)));
	wr_json_member_uint(json, "status", (uint64_t)status);
	wr_json_member_string(json, "code", wr_str(problems[problem->code].text));
	wr_json_member_string(json, "detail", wr_str(problem->detail));
	if (problem->has_pointer)
		wr_json_member_string(json, "pointer", wr_str(problem->pointer));
	wr_json_end_object(json);
}

/* Reports the line and column of jansson's error, but not its text: the text may contain any bytes
 * of the body. */
json_t *wr_wire_json_read(struct weir_str body, struct wr_problem *problem)
{
	json_error_t error;
	json_t *document;

	if (body.len == 0) {
		wr_problem_at(problem, WR_BAD_JSON, NULL, "the body is empty; JSON is expected");
		return NULL;
	}
	document = json_loadb(body.ptr, body.len,
			      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
	if (document)
		return document;
	if (json_error_code(&error) == json_error_duplicate_key)
		wr_problem_at(problem, WR_BAD_JSON, NULL,
			      "line %d, column %d: an object has two members of the same name",
			      error.line, error.column);
	else if (json_error_code(&error) == json_error_numeric_overflow)
		wr_problem_at(problem, WR_BAD_JSON, NULL,
			      "line %d, column %d: a number is too large", error.line,
			      error.column);
	else
		wr_problem_at(problem, WR_BAD_JSON, NULL,
			      "line %d, column %d: this is not valid JSON in UTF-8", error.line,
			      error.column);
	return NULL;
}

int wr_wire_json_get_text(const json_t *value, const struct wr_wire_json_at *at,
			  struct weir_str *text, struct wr_problem *problem)
{
	if (!json_is_string(value))
		return wr_problem_at(problem, WR_BAD_TYPE, at, "a string is expected here");
	*text = (struct weir_str){json_string_value(value), json_string_length(value)};
	return 0;
}

int wr_wire_json_get_int(const json_t *value, const struct wr_wire_json_at *at, int64_t low,
			 int64_t high, int64_t *number, struct wr_problem *problem)
{
	wr_assert(low <= high);
	if (!json_is_integer(value))
		return wr_problem_at(problem, WR_BAD_TYPE, at, "a whole number is expected here");
	*number = json_integer_value(value);
	if (*number < low || *number > high)
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "%" PRId64 " is not within %" PRId64 " to %" PRId64, *number,
				     low, high);
	return 0;
}

int wr_wire_json_get_bool(const json_t *value, const struct wr_wire_json_at *at, bool *flag,
			  struct wr_problem *problem)
{
	if (!json_is_boolean(value))
		return wr_problem_at(problem, WR_BAD_TYPE, at, "true or false is expected here");
	*flag = json_is_true(value);
	return 0;
}

int wr_wire_json_need_object(const json_t *value, const struct wr_wire_json_at *at,
			     struct wr_problem *problem)
{
	return json_is_object(value)
		       ? 0
		       : wr_problem_at(problem, WR_BAD_TYPE, at, "an object is expected here");
}

int wr_wire_json_need_list(const json_t *value, const struct wr_wire_json_at *at, size_t most,
			   struct wr_problem *problem)
{
	wr_assert(most > 0);
	if (!json_is_array(value))
		return wr_problem_at(problem, WR_BAD_TYPE, at, "a list is expected here");
	if (json_array_size(value) == 0)
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "the list is empty; it needs at least one item");
	if (json_array_size(value) > most)
		return wr_problem_at(problem, WR_TOO_MANY, at,
				     "the list has %zu items; at most %zu are allowed",
				     json_array_size(value), most);
	return 0;
}

int wr_wire_json_unknown(const struct wr_wire_json_at *at, const char *known,
			 struct wr_problem *problem)
{
	return wr_problem_at(problem, WR_UNKNOWN_MEMBER, at,
			     "unknown member; the members here are: %s", known);
}
