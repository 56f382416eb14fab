/* Reads the values of a map of a scenario, and reports keys and values that are wrong. */
#include "lab/simulate/scenario_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/str.h"

#define TEXT_MAX 4096u /* longest text */

static const struct wr_diag_row rows[WR_LAB_D_COUNT] = {
#define ROW(id, text) {#id, WEIR_ERROR, text},
	WR_LAB_SCENARIO_DIAGNOSTICS(ROW)
#undef ROW
};

void wr_lab_scenario_report(struct wr_lab_scenario_reader *reader, enum wr_lab_scenario_diag id,
			    const struct wr_yaml *at, const struct weir_str *args)
{
	struct wr_load *load = reader->load;

	wr_assert(id < WR_LAB_D_COUNT);
	wr_diags_add_row(&load->diags, &rows[id],
			 (struct wr_rules_location){load->file, at->line, at->column, at->width},
			 args);
}

int wr_lab_scenario_refuse(const char *path, enum wr_lab_scenario_diag id,
			   const struct weir_str *args, struct weir_errors *errors)
{
	struct wr_rules_file file = {.path = path};
	struct wr_diags diags;
	int rc = wr_diags_init(&diags, errors);

	if (rc != 0)
		return rc;
	wr_diags_add_row(&diags, &rows[id], (struct wr_rules_location){.file = &file}, args);
	return WEIR_ERULES;
}

struct weir_str wr_lab_scenario_number(struct wr_lab_scenario_reader *reader, uint64_t number)
{
	return wr_rules_number_text(reader->load, number);
}

struct weir_str wr_lab_scenario_duration(struct wr_lab_scenario_reader *reader, uint64_t ns)
{
	char text[WR_DURATION_TEXT];
	size_t len = wr_duration_text(ns, text);

	return wr_load_copy(reader->load, &reader->load->tree, (struct weir_str){text, len});
}

/* ---- numbers ---- */

/* Reads a decimal number without a sign, with up to three digits after the point, in thousandths.
 * Returns false if the text is not such a number, or if the number is 2^50 or more. */
static bool parse_milli(struct weir_str text, uint64_t *milli)
{
	size_t digits = 0, decimals = 0;
	bool point = false;

	*milli = 0;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (c == '_')
			continue;
		if (c == '.' && !point && digits) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9' || (point && decimals == 3) || *milli >> 47)
			return false;
		*milli = *milli * 10 + (uint64_t)(c - '0');
		digits++;
		decimals += point;
	}
	for (; decimals < 3; decimals++)
		*milli *= 10;
	return digits > 0 && *milli >> 50 == 0;
}

/* Reads a rate: 400, 400/s, 90/m or 5000/h. */
static bool parse_rate(struct weir_str text, uint64_t *mhz)
{
	static const struct {
		struct weir_str suffix;
		uint64_t seconds;
	} units[] = {{WR_STR("/s"), 1}, {WR_STR("/m"), 60}, {WR_STR("/h"), 3600}};
	uint64_t seconds = 1;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (wr_str_ends(text, units[i].suffix)) {
			text.len -= 2;
			seconds = units[i].seconds;
		}
	if (!parse_milli(text, mhz))
		return false;
	*mhz = (*mhz + seconds / 2) / seconds;
	return true;
}

/* Reads a percentage such as 2.5%, in millionths. */
static bool parse_share(struct weir_str text, uint64_t *ppm)
{
	if (!wr_str_ends(text, WR_STR("%")))
		return false;
	text.len--;
	if (!parse_milli(text, ppm))
		return false;
	*ppm *= 10;
	return true;
}

/* Reads a whole number up to 2^63 - 1. */
static bool parse_long(struct weir_str text, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (c == '_' && i)
			continue;
		if (c < '0' || c > '9' || *number > (INT64_MAX - 9) / 10)
			return false;
		*number = *number * 10 + (uint64_t)(c - '0');
	}
	return text.len > 0;
}

static bool parse_number(const struct wr_lab_map_field *field, const struct wr_yaml *value,
			 uint64_t *number)
{
	if (value->kind != WR_YAML_TEXT)
		return false;
	switch (field->kind) {
	case WR_LAB_NUMBER:
	case WR_LAB_LONG:
		return value->plain && parse_long(value->text, number);
	case WR_LAB_MILLI:
		return value->plain && parse_milli(value->text, number);
	case WR_LAB_RATE:
		return parse_rate(value->text, number);
	case WR_LAB_SHARE:
		return parse_share(value->text, number);
	default:
		/* wr_duration_parse() does not accept a number without a unit. */
		if (wr_str_equal(value->text, WR_STR("0"))) {
			*number = 0;
			return true;
		}
		return wr_duration_parse(value->text, number) == 0;
	}
}

static struct weir_str bound_text(struct wr_lab_scenario_reader *reader,
				  const struct wr_lab_map_field *field, uint64_t bound)
{
	char *text;

	switch (field->kind) {
	case WR_LAB_DURATION:
		return wr_lab_scenario_duration(reader, bound);
	case WR_LAB_MILLI:
	case WR_LAB_RATE:
		text = wr_load_print(reader->load, &reader->load->tree, "%.10g",
				     (double)bound / 1000);
		return wr_str(text);
	case WR_LAB_SHARE:
		text = wr_load_print(reader->load, &reader->load->tree, "%g%%",
				     (double)bound / 10000);
		return wr_str(text);
	default:
		return wr_lab_scenario_number(reader, bound);
	}
}

static void report_number(struct wr_lab_scenario_reader *reader,
			  const struct wr_lab_map_field *field, const struct wr_yaml *value)
{
	static const enum wr_lab_scenario_diag ids[] = {
		[WR_LAB_NUMBER] = WR_LAB_D_not_a_number,
		[WR_LAB_LONG] = WR_LAB_D_not_a_number,
		[WR_LAB_MILLI] = WR_LAB_D_not_a_decimal,
		[WR_LAB_DURATION] = WR_LAB_D_not_a_duration,
		[WR_LAB_RATE] = WR_LAB_D_not_a_rate,
	};
	struct weir_str most = bound_text(reader, field, field->max);

	if (field->kind == WR_LAB_SHARE)
		wr_lab_scenario_report(reader, WR_LAB_D_not_a_share, value,
				       WR_ARGS(wr_str(field->name), most));
	else
		wr_lab_scenario_report(
			reader, ids[field->kind], value,
			WR_ARGS(wr_str(field->name), bound_text(reader, field, field->min), most));
}

/* ---- words and texts ---- */

static bool read_word(struct wr_lab_scenario_reader *reader, const struct wr_lab_map_field *field,
		      const struct wr_yaml *value, uint8_t *into)
{
	struct wr_guess guess = {.word = value->text};
	struct weir_str key = wr_str(field->name), all = WR_STR("");
	struct wr_load *load = reader->load;

	for (const struct wr_rules_word *word = field->words; word->text.len; word++) {
		if (value->kind == WR_YAML_TEXT && wr_str_equal(word->text, value->text)) {
			*into = (uint8_t)word->number;
			return true;
		}
		wr_guess_try(&guess, word->text);
		all = wr_str(wr_load_print(load, &load->tree, "%s%s%s", all.ptr,
					   all.len ? ", " : "", word->text.ptr));
	}
	if (guess.best.len)
		wr_rules_report(load, WR_D_unknown_word_guess, value,
				WR_ARGS(key, value->text, guess.best));
	else
		wr_rules_report(load, WR_D_unknown_word, value, WR_ARGS(key, value->text, all));
	return false;
}

static bool read_text(struct wr_lab_scenario_reader *reader, const struct wr_lab_map_field *field,
		      const struct wr_yaml *value, char **into)
{
	if (value->kind != WR_YAML_TEXT || value->text.len == 0 || value->text.len > TEXT_MAX ||
	    wr_str_has(value->text, '\0')) {
		wr_lab_scenario_report(
			reader, WR_LAB_D_wrong_kind, value,
			WR_ARGS(wr_str(field->name), WR_STR("a text of 1 to 4096 bytes")));
		return false;
	}
	free(*into);
	*into = strndup(value->text.ptr, value->text.len);
	if (!*into)
		longjmp(reader->load->out_of_memory, 1);
	return true;
}

/* ---- values ---- */

bool wr_lab_map_value(struct wr_lab_scenario_reader *reader, const struct wr_lab_map_field *field,
		      const struct wr_yaml *value, void *target)
{
	void *into = (char *)target + field->at;
	uint64_t number;

	switch (field->kind) {
	case WR_LAB_OTHER:
		field->read(reader, value, target);
		return true;
	case WR_LAB_WORD:
		return read_word(reader, field, value, into);
	case WR_LAB_TEXT:
		return read_text(reader, field, value, into);
	default:
		break;
	}
	if (!parse_number(field, value, &number) || number < field->min || number > field->max) {
		report_number(reader, field, value);
		return false;
	}
	if (field->kind == WR_LAB_NUMBER || field->kind == WR_LAB_MILLI ||
	    field->kind == WR_LAB_SHARE)
		*(uint32_t *)into = (uint32_t)number;
	else
		*(uint64_t *)into = number;
	return true;
}

static const struct wr_lab_map_field *find_field(const struct wr_lab_map *fields,
						 struct weir_str name)
{
	for (size_t i = 0; i < fields->count; i++)
		if (wr_str_equal(name, wr_str(fields->fields[i].name)))
			return &fields->fields[i];
	return NULL;
}

static void report_unknown(struct wr_lab_scenario_reader *reader, const struct wr_yaml *key,
			   const struct wr_lab_map *fields)
{
	struct wr_guess guess = {.word = key->text};
	struct wr_load *load = reader->load;
	char *all = wr_load_print(load, &load->tree, "%s", "");

	for (size_t i = 0; i < fields->count; i++) {
		wr_guess_try(&guess, wr_str(fields->fields[i].name));
		all = wr_load_print(load, &load->tree, "%s%s%s", all, i ? ", " : "",
				    fields->fields[i].name);
	}
	if (guess.best.len)
		wr_rules_report(load, WR_D_unknown_key_guess, key,
				WR_ARGS(key->text, wr_str(fields->called), guess.best));
	else
		wr_lab_scenario_report(reader, WR_LAB_D_unknown_scenario_key, key,
				       WR_ARGS(key->text, wr_str(fields->called), wr_str(all)));
}

const struct wr_yaml *wr_lab_map_find(const struct wr_yaml *map, const char *name)
{
	for (const struct wr_yaml_item *item = map->items; item; item = item->next)
		if (item->key && wr_str_equal(item->key->text, wr_str(name)))
			return item->value;
	return NULL;
}

static bool is_twice(const struct wr_yaml *map, const struct wr_yaml_item *item)
{
	for (const struct wr_yaml_item *other = map->items; other != item; other = other->next)
		if (wr_str_equal(other->key->text, item->key->text))
			return !item->merged;
	return false;
}

/* Checks the keys of a map. Returns false if a key is unknown, because it may be a misspelled
 * required key. */
static bool check_keys(struct wr_lab_scenario_reader *reader, const struct wr_yaml *map,
		       const struct wr_lab_map *fields, uint32_t kind, const char *kind_name)
{
	bool known = true;

	for (const struct wr_yaml_item *item = map->items; item; item = item->next) {
		const struct wr_lab_map_field *field = find_field(fields, item->key->text);

		if (!field) {
			report_unknown(reader, item->key, fields);
			known = false;
		} else if (is_twice(map, item)) {
			wr_lab_scenario_report(reader, WR_LAB_D_twice, item->key,
					       WR_ARGS(item->key->text));
		} else if (kind != UINT32_MAX && field->kinds && !(field->kinds >> kind & 1)) {
			wr_lab_scenario_report(reader, WR_LAB_D_not_of_kind, item->key,
					       WR_ARGS(item->key->text, wr_str(kind_name)));
		}
	}
	return known;
}

void wr_lab_map_read(struct wr_lab_scenario_reader *reader, const struct wr_yaml *map,
		     const struct wr_lab_map *fields, void *target, uint32_t kind,
		     const char *kind_name)
{
	bool known;

	if (map->kind != WR_YAML_MAP) {
		wr_lab_scenario_report(reader, WR_LAB_D_not_a_map, map,
				       WR_ARGS(wr_str(fields->called)));
		return;
	}
	known = check_keys(reader, map, fields, kind, kind_name);
	for (size_t i = 0; i < fields->count; i++) {
		const struct wr_lab_map_field *field = &fields->fields[i];
		const struct wr_yaml *value = wr_lab_map_find(map, field->name);
		bool applies = kind == UINT32_MAX || !field->kinds || field->kinds >> kind & 1;

		if (value && applies)
			wr_lab_map_value(reader, field, value, target);
		else if (!value && applies && field->required && known)
			wr_lab_scenario_report(
				reader, WR_LAB_D_missing, map,
				WR_ARGS(wr_str(field->name), wr_str(fields->called)));
	}
}
