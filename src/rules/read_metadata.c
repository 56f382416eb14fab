/* Reads `metadata`, which is any YAML, and stores it as JSON for responses. */
#include "base/json_write.h"
#include "rules/read.h"

#define STEPS_MAX 1000000

struct metadata {
	struct wr_json_out json;
	size_t steps; /* number of comparisons that is_overridden() has made so far */
};

/* Returns whether a text is a number in JSON: -?digits[.digits], without leading zeros. Other
 * numbers are written as text. */
static bool is_number(struct weir_str text)
{
	size_t i = text.len && text.ptr[0] == '-';
	size_t digits = 0, fraction = 0;

	while (i + digits < text.len && text.ptr[i + digits] >= '0' && text.ptr[i + digits] <= '9')
		digits++;
	if (digits == 0 || digits > 15 || (digits > 1 && text.ptr[i] == '0'))
		return false;
	i += digits;
	if (i < text.len && text.ptr[i] == '.') {
		for (i++; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++)
			fraction++;
		if (fraction == 0)
			return false;
	}
	return i == text.len;
}

static void put_scalar(struct wr_json_out *json, const struct wr_yaml *value)
{
	if (value->plain && (value->text.len == 0 || wr_str_equal(value->text, WR_STR("~")) ||
			     wr_str_equal(value->text, WR_STR("null"))))
		wr_json_null(json);
	else if (value->plain &&
		 (is_number(value->text) || wr_str_equal(value->text, WR_STR("true")) ||
		  wr_str_equal(value->text, WR_STR("false"))))
		wr_json_raw(json, value->text);
	else
		wr_json_string(json, value->text);
}

/* Returns whether the pair `item`, which comes from a map that << names, is ignored because an
 * earlier pair of `map` has the same key. The pairs of `map` itself come first. */
static bool is_overridden(struct metadata *out, const struct wr_yaml *map,
			  const struct wr_yaml_item *item)
{
	const struct wr_yaml_item *other = map->items;

	for (; other != item && out->steps < STEPS_MAX; other = other->next, out->steps++)
		if (other->key && item->key && wr_str_equal(other->key->text, item->key->text))
			return true;
	return false;
}

/* Writes a value as JSON. The function is recursive, but the depth of YAML is bounded. */
static void put_value(struct metadata *out, const struct wr_yaml *value)
{
	bool is_map = value->kind == WR_YAML_MAP;

	if (value->kind == WR_YAML_TEXT) {
		put_scalar(&out->json, value);
		return;
	}
	(is_map ? wr_json_object : wr_json_array)(&out->json);
	for (const struct wr_yaml_item *item = value->items; item; item = item->next) {
		if (item->merged && is_overridden(out, value, item))
			continue;
		if (item->key)
			wr_json_key_str(&out->json, item->key->text);
		put_value(out, item->value);
	}
	(is_map ? wr_json_end_object : wr_json_end_array)(&out->json);
}

struct weir_str wr_read_metadata(struct wr_load *load, const struct wr_yaml *value)
{
	struct metadata out = {0};

	if (value->kind != WR_YAML_MAP) {
		wr_rules_report_type(load, value, WR_STR("metadata"), "a map");
		return WR_STR("");
	}
	wr_buf_clear(&load->buf);
	wr_json_begin(&out.json, &load->buf);
	put_value(&out, value);
	if (load->buf.failed == WEIR_EMEMORY)
		longjmp(load->out_of_memory, 1);
	if (load->buf.failed || out.steps >= STEPS_MAX) {
		wr_rules_report(load, WR_D_text_too_long, value,
				WR_ARGS(WR_STR("metadata"),
					wr_rules_number_text(load, load->bounds.body_bytes)));
		return WR_STR("");
	}
	return wr_load_copy(load, &load->rules->arena, wr_buf_str(&load->buf));
}
