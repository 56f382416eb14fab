/* Reads the values of a map in a rule file and reports keys and values that are wrong. */
#include "rules/fields.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/duration.h"

/* Maximum number of bytes of a value in a message. Longer than the maximum in diag.c, which cuts
 * the value between two characters. */
#define VALUE_SHOWN 200

const struct wr_rules_key_info wr_keys[WR_KEY_COUNT] = {
#define WR_KEY_ROW(id, name, maps, lyft) {{name, sizeof(name) - 1}, maps, lyft},
	WR_KEYS(WR_KEY_ROW)
#undef WR_KEY_ROW
};

#define WR_WORD4(name, number, text, extra) {{text, sizeof(text) - 1}, number},
#define WR_WORD3(name, number, text) {{text, sizeof(text) - 1}, number},
#define WR_NO_WORD                                                                                 \
	{                                                                                          \
		{"", 0}, 0                                                                         \
	}
/* WEIR_CONCURRENT is the last algorithm and has no word, because rule files write `concurrent: N`
 * instead. Its row ends the list. */
#define WR_ALGORITHM_WORD(name, number, text)                                                      \
	{{text, (number) == WEIR_CONCURRENT ? 0 : sizeof(text) - 1}, number},
const struct wr_rules_word wr_algorithm_words[] = {WEIR_ALGORITHMS(WR_ALGORITHM_WORD)};
const struct wr_rules_word wr_unit_words[] = {WR_UNITS(WR_WORD4) WR_NO_WORD};
const struct wr_rules_word wr_calendar_words[] = {WR_CALENDARS(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_mode_words[] = {WR_MODES(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_on_limit_words[] = {WR_ON_LIMITS(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_consistency_words[] = {WR_CONSISTENCIES(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_rules_store_failure_words[] = {WR_STORE_FAILURES(WR_WORD3)
								     WR_NO_WORD};
const struct wr_rules_word wr_on_full_words[] = {WR_ON_FULLS(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_on_expiry_words[] = {WR_ON_EXPIRIES(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_missing_words[] = {WR_MISSINGS(WR_WORD3) WR_NO_WORD};
const struct wr_rules_word wr_ambiguity_words[] = {WR_AMBIGUITIES(WR_WORD3) WR_NO_WORD};

const char *wr_rules_map_name(uint32_t kind)
{
	switch (kind & -kind) {
#define WR_RULES_MAP_CASE(name, bit, text)                                                         \
	case bit:                                                                                  \
		return text;
		WR_RULES_MAPS(WR_RULES_MAP_CASE)
#undef WR_RULES_MAP_CASE
	default:
		return "nothing";
	}
}

static bool is_null(const struct wr_yaml *value)
{
	return value->kind == WR_YAML_TEXT && value->plain &&
	       (value->text.len == 0 || wr_str_equal(value->text, WR_STR("~")) ||
		wr_str_equal_nocase(value->text, WR_STR("null")));
}

/* Reports a value of a wrong type. `before` is text before the key: "" or "an entry of ". A plain
 * text is repeated, because it may look like a number or like true. The texts are on the stack,
 * because a file can have millions of such values. */
static void report_type(struct wr_load *load, const struct wr_yaml *at, const char *before,
			struct weir_str key, const char *wanted)
{
	static const char *const names[] = {"text", "a map", "a list"};
	struct weir_str start = wr_str_first(at->text, VALUE_SHOWN);
	char what[64], value[VALUE_SHOWN + 3];

	snprintf(what, sizeof what, "%s`%s`", before, key.ptr);
	snprintf(value, sizeof value, "%s", names[at->kind]);
	if (is_null(at))
		snprintf(value, sizeof value, "an empty value");
	else if (at->kind == WR_YAML_TEXT && at->plain)
		snprintf(value, sizeof value, "'%.*s'", (int)start.len, start.ptr);
	wr_rules_report(load, WR_D_wrong_type, at,
			WR_ARGS(wr_str(what), wr_str(wanted), wr_str(value)));
}

void wr_rules_report_type(struct wr_load *load, const struct wr_yaml *at, struct weir_str key,
			  const char *wanted)
{
	report_type(load, at, "", key, wanted);
}

/* Reports a key that is in the wrong map. If envoyproxy/ratelimit has both the key and the map,
 * this is only a warning, because envoyproxy/ratelimit accepts its keys in any map. */
static void report_misplaced(struct wr_load *load, const struct wr_yaml *key,
			     enum wr_rules_map kind, const struct wr_rules_key_info *info)
{
	const uint32_t shared = WR_IN_ROOT | WR_IN_DESCRIPTOR | WR_IN_LIMIT | WR_IN_REPLACES;
	struct weir_str here = wr_str(wr_rules_map_name(kind));

	if (info->lyft && kind & shared)
		wr_rules_report(load, WR_D_idle_key, key, WR_ARGS(info->name, here));
	else
		wr_rules_report(load, WR_D_misplaced_key, key,
				WR_ARGS(info->name, here, wr_str(wr_rules_map_name(info->maps))));
}

static void report_unknown(struct wr_load *load, const struct wr_yaml *key, enum wr_rules_map kind)
{
	struct weir_str here = wr_str(wr_rules_map_name(kind));
	struct wr_guess guess = {.word = key->text};

	for (int i = 0; i < WR_KEY_COUNT; i++) {
		if (wr_str_equal(wr_keys[i].name, key->text)) {
			report_misplaced(load, key, kind, &wr_keys[i]);
			return;
		}
		if (wr_keys[i].maps & kind)
			wr_guess_try(&guess, wr_keys[i].name);
	}
	if (guess.best.len)
		wr_rules_report(load, WR_D_unknown_key_guess, key,
				WR_ARGS(key->text, here, guess.best));
	else
		wr_rules_report(load, WR_D_unknown_key, key, WR_ARGS(key->text, here));
}

static int key_number(struct weir_str name, enum wr_rules_map kind)
{
	for (int i = 0; i < WR_KEY_COUNT; i++)
		if (wr_keys[i].maps & kind && wr_str_equal(wr_keys[i].name, name))
			return i;
	return -1;
}

bool wr_fields_read(struct wr_load *load, const struct wr_yaml *map, enum wr_rules_map kind,
		    struct weir_str called, struct wr_fields *fields)
{
	wr_assert(kind);
	*fields = (struct wr_fields){.at = map};
	if (map->kind != WR_YAML_MAP) {
		wr_rules_report_type(load, map, called, "a map");
		return false;
	}
	for (const struct wr_yaml_item *item = map->items; item; item = item->next) {
		int key = key_number(item->key->text, kind);

		if (key < 0) {
			uint32_t errors = load->diags.errors->errors;

			report_unknown(load, item->key, kind);
			fields->misread |= load->diags.errors->errors > errors;
			continue;
		}
		if (fields->key[key] && item->merged)
			continue;
		if (fields->key[key])
			wr_rules_report(load, WR_D_yaml_duplicate_key, item->key,
					WR_ARGS(item->key->text));
		fields->key[key] = item->key;
		fields->value[key] = is_null(item->value) ? NULL : item->value;
	}
	return true;
}

bool wr_get_text(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		 struct weir_str *text)
{
	const struct wr_yaml *value = fields->value[key];
	uint32_t max = key == WR_KEY_BODY ? load->bounds.body_bytes : load->bounds.text_bytes;

	if (!value)
		return false;
	if (value->kind != WR_YAML_TEXT) {
		wr_rules_report_type(load, value, wr_keys[key].name, "text");
		return false;
	}
	if (value->text.len > max) {
		wr_rules_report(load, WR_D_text_too_long, value,
				WR_ARGS(wr_keys[key].name, wr_rules_number_text(load, max)));
		return false;
	}
	if (wr_str_has(value->text, '\0')) {
		wr_rules_report(load, WR_D_zero_byte, value, WR_ARGS(wr_keys[key].name));
		return false;
	}
	*text = wr_load_copy(load, &load->rules->arena, value->text);
	return true;
}

/* Reads a boolean of YAML 1.1, as envoyproxy/ratelimit does. */
static int read_truth(const struct wr_yaml *value)
{
	static const char *const words[2][4] = {{"false", "no", "off", "n"},
						{"true", "yes", "on", "y"}};

	for (int i = 0; i < 8; i++)
		if (value->kind == WR_YAML_TEXT && value->plain &&
		    wr_str_equal_nocase(value->text, wr_str(words[i / 4][i % 4])))
			return i / 4;
	return -1;
}

bool wr_get_flag(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key)
{
	const struct wr_yaml *value = fields->value[key];
	int answer = value ? read_truth(value) : 0;

	if (answer < 0)
		wr_rules_report_type(load, value, wr_keys[key].name,
				     "true or false without quotes");
	return answer > 0;
}

/* Reads a number of YAML 1.1, as envoyproxy/ratelimit does: 1_000, 0x10, 0o17, 017, 0b11. */
bool wr_rules_number_parse(const struct wr_yaml *value, uint64_t *number)
{
	char digits[40];
	size_t len = 0, start = 0;
	int base = 10;
	char *end;

	if (value->kind != WR_YAML_TEXT || !value->plain || value->text.len >= sizeof digits)
		return false;
	for (size_t i = 0; i < value->text.len; i++)
		if (value->text.ptr[i] != '_')
			digits[len++] = wr_lower(value->text.ptr[i]);
	digits[len] = '\0';
	start = digits[0] == '+';
	if (digits[start] == '0' && digits[start + 1]) {
		char kind = digits[start + 1];

		base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
		start += kind == 'x' || kind == 'b' || kind == 'o' ? 2 : 1;
	}
	if (wr_hex(digits[start]) < 0)
		return false;
	*number = strtoull(digits + start, &end, base);
	return *end == '\0' && *number <= UINT32_MAX;
}

bool wr_get_number(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		   uint32_t min, uint32_t max, uint32_t *number)
{
	const struct wr_yaml *value = fields->value[key];
	uint64_t parsed;

	wr_assert(min <= max);
	if (!value)
		return false;
	if (!wr_rules_number_parse(value, &parsed) || parsed < min || parsed > max) {
		wr_rules_report(load, WR_D_bad_number, value,
				WR_ARGS(wr_keys[key].name, wr_rules_number_text(load, min),
					wr_rules_number_text(load, max)));
		return false;
	}
	*number = (uint32_t)parsed;
	return true;
}

bool wr_get_duration(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		     uint64_t *ns)
{
	const struct wr_yaml *value = fields->value[key];

	if (!value)
		return false;
	if (value->kind != WR_YAML_TEXT) {
		wr_rules_report_type(load, value, wr_keys[key].name, "a duration");
		return false;
	}
	if (wr_duration_parse(value->text, ns) != 0) {
		wr_rules_report(load, WR_D_bad_duration, value, WR_ARGS(value->text));
		return false;
	}
	return true;
}

/* Reads a percentage such as "12.5%". It has at most four digits after the point, because it is
 * stored in parts of a million. */
static bool parse_share(struct weir_str text, uint64_t *ppm)
{
	uint64_t scale = 10000;
	bool point = false, digit = false;

	*ppm = 0;
	if (text.len < 2 || text.len > 12 || text.ptr[text.len - 1] != '%')
		return false;
	for (size_t i = 0; i + 1 < text.len; i++) {
		char c = text.ptr[i];

		if (c == '.' && !point && digit) {
			point = true;
		} else if (c >= '0' && c <= '9' && !(point && scale == 1)) {
			digit = true;
			scale /= point ? 10 : 1;
			*ppm = *ppm * 10 + (uint64_t)(c - '0');
		} else {
			return false;
		}
	}
	*ppm *= scale;
	return digit;
}

bool wr_get_share(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		  uint32_t max_ppm, uint32_t *ppm)
{
	const struct wr_yaml *value = fields->value[key];
	uint64_t parsed;

	if (!value)
		return false;
	if (value->kind != WR_YAML_TEXT || !parse_share(value->text, &parsed) || parsed > max_ppm) {
		char *most = wr_load_print(load, &load->tree, "%u%%", max_ppm / 10000);

		wr_rules_report(load, WR_D_bad_share, value,
				WR_ARGS(wr_keys[key].name, wr_str(most)));
		return false;
	}
	*ppm = (uint32_t)parsed;
	return true;
}

static struct weir_str all_words(struct wr_load *load, const struct wr_rules_word *words)
{
	const char *all = words->text.ptr;

	while ((++words)->text.len)
		all = wr_load_print(load, &load->tree, "%s, %s", all, words->text.ptr);
	return wr_str(all);
}

bool wr_get_word(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		 const struct wr_rules_word *words, int *number)
{
	const struct wr_yaml *value = fields->value[key];
	struct wr_guess guess = {0};

	if (!value)
		return false;
	if (value->kind != WR_YAML_TEXT) {
		wr_rules_report_type(load, value, wr_keys[key].name, "text");
		return false;
	}
	guess.word = value->text;
	for (const struct wr_rules_word *word = words; word->text.len; word++) {
		if (wr_str_equal_nocase(word->text, value->text)) {
			*number = word->number;
			return true;
		}
		wr_guess_try(&guess, word->text);
	}
	if (guess.best.len)
		wr_rules_report(load, WR_D_unknown_word_guess, value,
				WR_ARGS(wr_keys[key].name, value->text, guess.best));
	else
		wr_rules_report(load, WR_D_unknown_word, value,
				WR_ARGS(wr_keys[key].name, value->text, all_words(load, words)));
	return false;
}

bool wr_get_list(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		 bool of_maps, uint32_t max, struct wr_rules_list *list)
{
	const struct wr_yaml *value = fields->value[key];

	wr_assert(max > 0);
	*list = (struct wr_rules_list){.kind = of_maps ? WR_YAML_MAP : WR_YAML_TEXT};
	if (!value)
		return false;
	if (value->kind == WR_YAML_TEXT && !of_maps) {
		list->single = value;
		list->count = 1;
		return true;
	}
	if (value->kind != WR_YAML_LIST) {
		wr_rules_report_type(load, value, wr_keys[key].name,
				     of_maps ? "a list of maps" : "text or a list of texts");
		return false;
	}
	list->items = value->items;
	for (const struct wr_yaml_item *item = value->items; item; item = item->next) {
		if (item->value->kind == list->kind)
			list->count++;
		else
			report_type(load, item->value, "an entry of ", wr_keys[key].name,
				    of_maps ? "a map" : "text");
	}
	if (!value->items && (!of_maps || key == WR_KEY_RATE_LIMITS)) {
		wr_rules_report(load, WR_D_empty_list, value, WR_ARGS(wr_keys[key].name));
		return false;
	}
	if (list->count > max) {
		const char *what =
			wr_load_print(load, &load->tree, "entries of `%s`", wr_keys[key].name.ptr);

		wr_rules_report(load, WR_D_too_many, value,
				WR_ARGS(wr_rules_number_text(load, max), wr_str(what)));
		return false;
	}
	return true;
}

const struct wr_yaml *wr_rules_list_next(struct wr_rules_list *list)
{
	const struct wr_yaml *value = list->single;

	list->single = NULL;
	while (!value && list->items) {
		if (list->items->value->kind == list->kind)
			value = list->items->value;
		list->items = list->items->next;
	}
	return value;
}
