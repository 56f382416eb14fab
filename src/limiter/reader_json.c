/* Reads JSON texts (RFC 8259) byte by byte, and follows the pointers to their values.
 *
 * The containers on the way to a value of a pointer are entered: their members and elements are
 * compared with the pointers. Any other container is skipped: only its quotes, brackets and braces
 * are looked at, and its depth is a number.
 *
 * A value counts when it is complete. If a member occurs twice in an object, the last one counts. */
#include "limiter/reader.h"

#include <string.h>

#include "base/str.h"
#include "limiter/reader_scan.h"

enum json_state {
	TOP,           /* before a text */
	NAME,          /* in an object: before a name, or the end of the object */
	IN_NAME,       /* in a name that is compared with the pointers */
	NAME_ESCAPE,   /* in such a name, after a backslash */
	NAME_HEX,      /* in the four digits of \uXXXX in such a name */
	COLON,         /* before the colon */
	MEMBER,        /* before the value of a member */
	ELEMENT,       /* in an array: before an element, or the end of the array */
	STRING,        /* in a string that is not compared; json->string is its kind */
	STRING_ESCAPE, /* in such a string, after a backslash */
	TOKEN,         /* in a number, true, false or null; its value does not matter */
	NUMBER,        /* in a number that a pointer leads to */
	AFTER,         /* after a member or an element */
	SKIP,          /* in a container that no pointer leads into */
	BROKEN,        /* after an error */
};

enum string_kind {
	OTHER_NAME, /* the name of a member that no pointer leads to */
	VALUE,
	SKIPPED, /* within a container that is skipped */
};

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Returns whether `c` can be in a number, true, false or null, or in a misspelled one. */
static bool is_token(char c)
{
	char lower = (char)(c | 0x20);

	return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') || c == '.' || c == '-' ||
	       c == '+';
}

static bool begins_value(char c)
{
	return c == '{' || c == '[' || c == '"' || c == '-' || (c >= '0' && c <= '9') || c == 't' ||
	       c == 'f' || c == 'n';
}

static const char *pass_space(const char *at, const char *end)
{
	while (at < end && is_space(*at))
		at++;
	return at;
}

/* ---- results ---- */

static void set_results(struct wr_reader_json *json, uint8_t pointers, uint8_t result,
			int64_t value)
{
	for (unsigned left = pointers; left; left &= left - 1) {
		struct wr_reader_pointer *pointer = &json->pointers[__builtin_ctz(left)];

		pointer->result = result;
		pointer->value = value;
	}
}

/* Begins a text: keeps the values of the text before. */
static void keep_results(struct wr_reader_json *json)
{
	for (size_t i = 0; i < json->pointer_count; i++) {
		struct wr_reader_pointer *pointer = &json->pointers[i];

		if (wr_reader_pointer_keeps(pointer))
			continue;
		pointer->kept = pointer->result;
		pointer->kept_value = pointer->value;
	}
}

/* ---- values ---- */

static void end_value(struct wr_reader_json *json)
{
	json->state = json->depth ? AFTER : TOP;
}

static void open_container(struct wr_reader_json *json, bool array, uint8_t live, uint8_t ends)
{
	struct wr_reader_level *level = &json->levels[++json->depth];

	level->live = live;
	level->ends = ends;
	level->array = array;
	if (array)
		wr_reader_index_begin(json, level);
	json->state = array ? ELEMENT : NAME;
}

static void close_container(struct wr_reader_json *json)
{
	set_results(json, json->levels[json->depth--].ends, WEIR_READER_INVALID, 0);
	end_value(json);
}

/* Begins the value of the pointers in json->value, and of the pointers that lead into it. If the
 * value is a number or the like, its first byte is read again in the new state. */
static const char *begin_value(struct wr_reader_json *json, const char *at)
{
	uint8_t ends = json->value & json->ends_at[json->depth];

	if (json->value)
		set_results(json, json->value, WEIR_READER_MISSING, 0);
	json->ends = ends;
	switch (*at) {
	case '{':
	case '[':
		open_container(json, *at == '[', (uint8_t)(json->value & ~ends), ends);
		return at + 1;
	case '"':
		json->state = STRING;
		json->string = VALUE;
		return at + 1;
	case 't':
	case 'f':
	case 'n':
		json->state = TOKEN;
		json->token_result = *at == 'n' ? WR_READER_NULL : WEIR_READER_INVALID;
		return at;
	default:
		json->state = ends ? NUMBER : TOKEN;
		if (ends)
			wr_reader_number_begin(&json->number);
		return at;
	}
}

static void end_number(struct wr_reader_json *json)
{
	int64_t value = 0;
	int result = wr_reader_number_end(&json->number, &value);

	set_results(json, json->ends, (uint8_t)result, value);
	end_value(json);
}

static void end_token(struct wr_reader_json *json)
{
	set_results(json, json->ends, json->token_result, 0);
	end_value(json);
}

static const char *read_number(struct wr_reader_json *json, const char *at, const char *end)
{
	for (; at < end && is_token(*at); at++)
		wr_reader_number_byte(&json->number, *at);
	if (at < end)
		end_number(json);
	return at;
}

static const char *read_token(struct wr_reader_json *json, const char *at, const char *end)
{
	while (at < end && is_token(*at))
		at++;
	if (at < end)
		end_token(json);
	return at;
}

/* ---- strings ---- */

static void end_string(struct wr_reader_json *json)
{
	switch (json->string) {
	case OTHER_NAME:
		json->value = 0;
		json->state = COLON;
		break;
	case VALUE:
		set_results(json, json->ends, WEIR_READER_INVALID, 0);
		end_value(json);
		break;
	default:
		json->state = SKIP;
	}
}

static const char *read_string(struct wr_reader_json *json, const char *at, const char *end)
{
	while ((at = wr_reader_find_either(at, end, '"', '\\')) < end) {
		if (*at == '"') {
			end_string(json);
			return at + 1;
		}
		if (end - at == 1) {
			json->state = STRING_ESCAPE;
			return end;
		}
		at += 2;
	}
	return end;
}

/* ---- names ---- */

/* No pointer leads to the member: the rest of its name is passed over. */
static void give_up_name(struct wr_reader_json *json)
{
	json->string = OTHER_NAME;
	json->state = STRING;
}

/* Reads a name whose first byte is at `at`. In most cases all of it is there, without escapes. */
static const char *begin_name(struct wr_reader_json *json, const char *at, const char *end)
{
	const char *quote = wr_reader_find_either(at, end, '"', '\\');

	if (quote < end && *quote == '"') {
		json->value =
			wr_reader_name_find(json, (struct weir_str){at, (size_t)(quote - at)});
		json->state = COLON;
		return quote + 1;
	}
	wr_reader_name_begin(json);
	json->state = IN_NAME;
	return at;
}

static const char *read_name(struct wr_reader_json *json, const char *at, const char *end)
{
	for (; at < end && json->names; at++) {
		if (*at == '"') {
			json->value = wr_reader_name_end(json);
			json->state = COLON;
			return at + 1;
		}
		if (*at == '\\') {
			json->state = NAME_ESCAPE;
			return at + 1;
		}
		if (json->high)
			json->names = 0;
		wr_reader_name_byte(json, *at);
	}
	if (!json->names)
		give_up_name(json);
	return at;
}

static void read_name_escape(struct wr_reader_json *json, char c)
{
	static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	const char *escape = memchr(escapes, c, sizeof escapes - 1);

	json->state = IN_NAME;
	if (c == 'u') {
		json->state = NAME_HEX;
		json->hex = json->hex_digits = 0;
	} else if (escape && !json->high) {
		wr_reader_name_byte(json, meanings[escape - escapes]);
	} else {
		give_up_name(json);
	}
}

/* Ends \uXXXX. Two of them in a row are one character if they are a surrogate pair. Half a pair
 * alone is not a character, and no pointer can contain it. */
static void end_hex(struct wr_reader_json *json)
{
	bool low = (json->hex & 0xfc00) == 0xdc00;

	json->state = IN_NAME;
	if (low != (json->high != 0)) {
		give_up_name(json);
	} else if (low) {
		wr_reader_name_code_point(json, 0x10000u + ((json->high & 0x3ffu) << 10) +
							(json->hex & 0x3ffu));
		json->high = 0;
	} else if ((json->hex & 0xfc00) == 0xd800) {
		json->high = json->hex;
	} else {
		wr_reader_name_code_point(json, json->hex);
	}
}

static const char *read_name_hex(struct wr_reader_json *json, const char *at)
{
	int digit = wr_hex(*at);

	if (digit < 0) {
		give_up_name(json);
		return at;
	}
	json->hex = (uint16_t)(json->hex << 4 | digit);
	if (++json->hex_digits == 4)
		end_hex(json);
	return at + 1;
}

/* ---- containers ---- */

static void skip_container(struct wr_reader_json *json)
{
	json->skipped = 1;
	json->state = SKIP;
}

static const char *skip(struct wr_reader_json *json, const char *at, const char *end)
{
	while ((at = wr_reader_find_structure(at, end)) < end) {
		char c = *at++;

		if (c == '"') {
			json->state = STRING;
			json->string = SKIPPED;
			at = read_string(json, at, end);
			if (json->state != SKIP)
				return at;
		} else if ((c | 0x20) == '{') {
			json->skipped++;
		} else if (--json->skipped == 0) {
			close_container(json);
			return at;
		}
	}
	return end;
}

/* Each of these functions reads one byte that is not white space. Containers that no pointer leads
 * into are skipped from their first byte on, if they can begin with it: "[DONE]" is an error. */

static const char *before_name(struct wr_reader_json *json, const char *at, const char *end)
{
	if (*at != '"' && *at != '}') {
		json->state = BROKEN;
		return at;
	}
	if (!json->levels[json->depth].live) {
		skip_container(json);
		return at;
	}
	if (*at == '"')
		return begin_name(json, at + 1, end);
	close_container(json);
	return at + 1;
}

static const char *before_element(struct wr_reader_json *json, const char *at)
{
	struct wr_reader_level *level = &json->levels[json->depth];

	if (*at != ']' && !begins_value(*at)) {
		json->state = BROKEN;
		return at;
	}
	if (!level->live) {
		skip_container(json);
		return at;
	}
	if (*at == ']') {
		close_container(json);
		return at + 1;
	}
	json->value = wr_reader_index_next(json, level);
	return begin_value(json, at);
}

static const char *before_member(struct wr_reader_json *json, const char *at)
{
	if (begins_value(*at))
		return begin_value(json, at);
	json->state = BROKEN;
	return at;
}

static const char *before_text(struct wr_reader_json *json, const char *at)
{
	if (!begins_value(*at)) {
		json->state = BROKEN;
		return at;
	}
	keep_results(json);
	json->value = (uint8_t)((1u << json->pointer_count) - 1);
	return begin_value(json, at);
}

static const char *after_value(struct wr_reader_json *json, const char *at)
{
	bool array = json->levels[json->depth].array;

	if (*at == ',')
		json->state = array ? ELEMENT : NAME;
	else if (*at == (array ? ']' : '}'))
		close_container(json);
	else
		json->state = BROKEN;
	return at + 1;
}

static const char *read_colon(struct wr_reader_json *json, const char *at)
{
	json->state = *at == ':' ? MEMBER : BROKEN;
	return at + 1;
}

/* ---- texts ---- */

static const char *pass_error(struct wr_reader_json *json, const char *at, const char *end)
{
	const char *line = json->lines ? memchr(at, '\n', (size_t)(end - at)) : NULL;

	if (!line)
		return end;
	wr_reader_json_end(json);
	return line + 1;
}

/* Reads at least one byte, or changes the state. */
static const char *read_structure(struct wr_reader_json *json, const char *at, const char *end)
{
	at = pass_space(at, end);
	if (at == end)
		return end;
	switch (json->state) {
	case NAME:
		return before_name(json, at, end);
	case COLON:
		return read_colon(json, at);
	case MEMBER:
		return before_member(json, at);
	case ELEMENT:
		return before_element(json, at);
	case AFTER:
		return after_value(json, at);
	default:
		return before_text(json, at);
	}
}

void wr_reader_json_feed(struct wr_reader_json *json, const char *at, const char *end)
{
	while (at < end) {
		switch (json->state) {
		case STRING:
			at = read_string(json, at, end);
			break;
		case STRING_ESCAPE:
			json->state = STRING;
			at++;
			break;
		case SKIP:
			at = skip(json, at, end);
			break;
		case TOKEN:
			at = read_token(json, at, end);
			break;
		case NUMBER:
			at = read_number(json, at, end);
			break;
		case IN_NAME:
			at = read_name(json, at, end);
			break;
		case NAME_ESCAPE:
			read_name_escape(json, *at++);
			break;
		case NAME_HEX:
			at = read_name_hex(json, at);
			break;
		case BROKEN:
			at = pass_error(json, at, end);
			break;
		default:
			at = read_structure(json, at, end);
		}
	}
}

void wr_reader_json_end(struct wr_reader_json *json)
{
	bool whole = json->depth == 0; /* in a container, the end can have cut off the number */

	if (whole && json->state == NUMBER)
		end_number(json);
	else if (whole && json->state == TOKEN)
		end_token(json);
	json->depth = 0;
	json->state = TOP;
}

void wr_reader_json_break(struct wr_reader_json *json)
{
	json->state = BROKEN;
}
