/* Reads lines of JSON: one object in each line. The texts that a record needs are written over the
 * line, where there is always enough room for them: each text of an object is in the line already,
 * in quotes. */
#include <jansson.h>

#include "base/str.h"
#include "base/utf8.h"
#include "lab/log/example.h"
#include "lab/log/value.h"

#define PATH_BYTES 256u
#define DEPTH_MAX 4u /* deeper objects have no known fields */

struct reading {
	struct wr_lab_parser *parser;
	struct wr_lab_slot *slot;
	struct wr_lab_values values;
	char *at, *end; /* the room in the line that is not used yet */
	uint64_t given; /* which names of the user the line has */
	char path[PATH_BYTES];
};

/* ---- texts ---- */

/* Copies a text into the line. */
static struct weir_str keep(struct reading *reading, struct weir_str text)
{
	struct weir_str copy = {reading->at, text.len};

	if (text.len > (size_t)(reading->end - reading->at))
		return (struct weir_str){"", 0};
	memcpy(reading->at, text.ptr, text.len);
	reading->at += text.len;
	return copy;
}

static struct weir_str string_of(const json_t *value)
{
	return (struct weir_str){json_string_value(value), json_string_length(value)};
}

/* Returns a value. A string stays where it is until keep_texts(). */
static struct wr_lab_value value_of(struct reading *reading, const json_t *json)
{
	struct wr_lab_value value = {.kind = WR_LAB_VALUE_NONE, .text = {"", 0}};
	char digits[24];

	switch (json_typeof(json)) {
	case JSON_STRING:
		value.kind = WR_LAB_VALUE_TEXT;
		value.text = string_of(json);
		break;
	case JSON_INTEGER:
		value.kind = WR_LAB_VALUE_INTEGER;
		value.integer = json_integer_value(json);
		snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
		value.text = keep(reading, wr_str(digits));
		break;
	case JSON_REAL:
		value.kind = WR_LAB_VALUE_REAL;
		value.real = json_real_value(json);
		break;
	default:
		break;
	}
	return value;
}

/* Copies the strings of all values into the line: the target before the query, with a byte between
 * them. */
static void keep_texts(struct reading *reading)
{
	for (unsigned i = 0; i < WR_LAB_MEANINGS_COUNT; i++) {
		struct wr_lab_value *value = &reading->values.items[i];

		if (value->kind != WR_LAB_VALUE_TEXT)
			continue;
		if (i == WR_LAB_MEANS_QUERY && reading->at < reading->end)
			reading->at++;
		value->text = keep(reading, value->text);
	}
}

/* ---- fields ---- */

/* Adds header fields: one for a string, and one for each string of an array. */
static void add_header(struct reading *reading, const struct wr_lab_meaning *meaning,
		       const json_t *json)
{
	struct weir_str name;
	const json_t *item;
	size_t i;

	if (!json_is_string(json) && !json_is_array(json))
		return;
	name = keep(reading, meaning->header);
	wr_lab_meaning_hyphens(meaning, (char *)(uintptr_t)name.ptr, name.len);
	if (json_is_string(json))
		wr_lab_slot_header(reading->slot, name, keep(reading, string_of(json)));
	json_array_foreach(json, i, item) {
		if (json_is_string(item))
			wr_lab_slot_header(reading->slot, name, keep(reading, string_of(item)));
	}
}

/* Traefik writes durations as `Duration` in nanoseconds. Other servers write `duration`. */
static void fix_unit(struct wr_lab_meaning *meaning, struct weir_str path)
{
	if (meaning->means == WR_LAB_MEANS_DURATION && wr_str_equal(path, WR_STR("Duration")))
		meaning->unit_ns = 1;
}

static void add_field(struct reading *reading, struct weir_str path, const json_t *json)
{
	struct wr_lab_meaning meaning = wr_lab_fields_find(reading->parser->fields, path);
	struct wr_lab_value value;

	if (meaning.given && !json_is_null(json))
		reading->given |= 1ull << (meaning.given - 1);
	if (meaning.means == WR_LAB_MEANS_HEADER) {
		add_header(reading, &meaning, json);
		return;
	}
	if (meaning.means == WR_LAB_MEANS_NOTHING ||
	    !wr_lab_values_want(&reading->values, &meaning))
		return;
	fix_unit(&meaning, path);
	value = value_of(reading, json);
	if (value.kind != WR_LAB_VALUE_NONE)
		wr_lab_values_put(&reading->values, &meaning, value);
}

/* Reads the fields of an object and of the objects in it. `used` bytes of the path are the names of
 * the objects around it. */
static void add_object(struct reading *reading, size_t used, unsigned depth, json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) {
		size_t len = strlen(key);

		if (used + len + 1 >= PATH_BYTES)
			continue;
		memcpy(reading->path + used, key, len);
		if (!json_is_object(value)) {
			add_field(reading, (struct weir_str){reading->path, used + len}, value);
		} else if (depth < DEPTH_MAX) {
			reading->path[used + len] = '.';
			add_object(reading, used + len + 1, depth + 1, value);
		}
	}
}

/* ---- lines ---- */

/* Repairs what nginx writes without `escape=json`, and bytes that are not UTF-8: \x22 becomes %22,
 * and an invalid byte becomes a question mark. Returns the new length. */
static size_t repair(char *line, size_t len)
{
	size_t to = 0;

	for (size_t from = 0; from < len;) {
		size_t bytes = wr_utf8_len(line + from, len - from);

		if (line[from] == '\\' && len - from >= 4 && line[from + 1] == 'x') {
			line[to++] = '%';
			line[to++] = line[from + 2];
			line[to++] = line[from + 3];
			from += 4;
		} else if (bytes == 0) {
			line[to++] = '?';
			from++;
		} else {
			bytes = line[from] == '\\' && len - from >= 2 ? 2 : bytes;
			memmove(line + to, line + from, bytes);
			to += bytes;
			from += bytes;
		}
	}
	return to;
}

/* Returns why a line is not JSON: "invalid JSON (real number overflow)". The library quotes a part of
 * the line behind its reason. It is left out, because an example shows the line itself. */
static const char *reason_of(struct wr_lab_parser *parser, const json_error_t *error)
{
	const char *near = strstr(error->text, " near '");
	struct weir_str text = wr_str(error->text);
	char shown[WR_LAB_REASON_BYTES - sizeof "invalid JSON ()"];

	if (near)
		text.len = (size_t)(near - error->text);
	wr_lab_show(shown, sizeof shown, text);
	snprintf(parser->reason, sizeof parser->reason, "invalid JSON (%s)", shown);
	return parser->reason;
}

/* Returns an object, or NULL and the reason. May shorten the line. A text may contain \u0000, as nginx writes it for
 * bytes that are not HTTP. The zero byte is then part of the text. */
static json_t *load(struct wr_lab_parser *parser, char *line, size_t *len, const char **reason)
{
	json_error_t error;
	json_t *root;

	while (*len && (*line == ' ' || *line == '\t')) {
		line++;
		--*len;
	}
	*reason = "not a JSON object";
	if (*len == 0 || *line != '{')
		return NULL;
	root = json_loadb(line, *len, JSON_ALLOW_NUL, &error);
	if (!root && (json_error_code(&error) == json_error_invalid_utf8 ||
		      json_error_code(&error) == json_error_invalid_syntax)) {
		*len = repair(line, *len);
		root = json_loadb(line, *len, JSON_ALLOW_NUL, &error);
	}
	/* An identifier above 2^63 must not make the line unreadable. */
	if (!root && json_error_code(&error) == json_error_numeric_overflow)
		root = json_loadb(line, *len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
	*reason = root ? NULL : reason_of(parser, &error);
	return root;
}

const char *wr_lab_json_read(struct wr_lab_parser *parser, char *line, size_t len,
			     struct wr_lab_slot *slot)
{
	struct reading reading = {.parser = parser, .slot = slot, .at = line, .end = line + len};
	const struct wr_lab_record *record = &slot->record;
	const char *reason;
	json_t *root = load(parser, line, &len, &reason);

	if (!root)
		return reason;
	add_object(&reading, 0, 1, root);
	keep_texts(&reading);
	json_decref(root);
	reason = wr_lab_values_record(&reading.values, parser, slot);
	if (!reason && !record->has_address && !record->method.len && !record->target.len &&
	    !record->status && reading.values.items[WR_LAB_MEANS_COST].kind == WR_LAB_VALUE_NONE)
		reason = "no field of a request";
	if (!reason)
		wr_lab_fields_saw(parser->fields, reading.given);
	return reason;
}
