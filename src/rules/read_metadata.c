/* Reads `metadata`, which is any YAML, and stores it as JSON for responses. */
#include "rules/read.h"

#include <stdio.h>

#define STEPS_MAX 1000000

struct json_out {
	char *text; /* NULL: only the length is counted */
	size_t len;
	size_t steps; /* work to find pairs that << must not override */
};

static void put_text(struct json_out *out, const char *bytes, size_t len)
{
	if (out->text)
		memcpy(out->text + out->len, bytes, len);
	out->len += len;
}

static void put_string(struct json_out *out, struct weir_str text)
{
	put_text(out, "\"", 1);
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		char escape[8];

		if (c == '"' || c == '\\')
			put_text(out, "\\", 1);
		if (c < 0x20)
			put_text(out, escape,
				 (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
		else
			put_text(out, text.ptr + i, 1);
	}
	put_text(out, "\"", 1);
}

/* A number as JSON writes it: -?digits[.digits], no leading zeros. Others stay text. */
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

static void put_scalar(struct json_out *out, const struct wr_yaml *value)
{
	if (value->plain && (value->text.len == 0 || wr_str_equal(value->text, WR_STR("~")) ||
			     wr_str_equal(value->text, WR_STR("null"))))
		put_text(out, "null", 4);
	else if (value->plain &&
		 (is_number(value->text) || wr_str_equal(value->text, WR_STR("true")) ||
		  wr_str_equal(value->text, WR_STR("false"))))
		put_text(out, value->text.ptr, value->text.len);
	else
		put_string(out, value->text);
}

/* Pairs that came by << are behind those of the map itself. */
static bool is_overridden(struct json_out *out, const struct wr_yaml *map,
			  const struct wr_yaml_item *item)
{
	const struct wr_yaml_item *other = map->items;

	for (; other != item && out->steps < STEPS_MAX; other = other->next, out->steps++)
		if (other->key && item->key && wr_str_equal(other->key->text, item->key->text))
			return true;
	return false;
}

/* Recursive; the depth of YAML is bounded. */
static void put_value(struct json_out *out, const struct wr_yaml *value)
{
	bool first = true;

	if (value->kind == WR_YAML_TEXT) {
		put_scalar(out, value);
		return;
	}
	put_text(out, value->kind == WR_YAML_MAP ? "{" : "[", 1);
	for (const struct wr_yaml_item *item = value->items; item; item = item->next) {
		if (item->merged && is_overridden(out, value, item))
			continue;
		if (!first)
			put_text(out, ",", 1);
		first = false;
		if (item->key) {
			put_string(out, item->key->text);
			put_text(out, ":", 1);
		}
		put_value(out, item->value);
	}
	put_text(out, value->kind == WR_YAML_MAP ? "}" : "]", 1);
}

struct weir_str wr_read_metadata(struct wr_load *load, const struct wr_yaml *value)
{
	struct json_out out = {0};

	if (value->kind != WR_YAML_MAP) {
		wr_rules_report(
			load, WR_D_wrong_type, value,
			WR_ARGS(WR_STR("metadata"), WR_STR("a map"),
				value->kind == WR_YAML_LIST ? WR_STR("a list") : WR_STR("text")));
		return WR_STR("");
	}
	put_value(&out, value);
	if (out.len > load->bounds.body_bytes || out.steps >= STEPS_MAX) {
		wr_rules_report(load, WR_D_text_too_long, value,
				WR_ARGS(WR_STR("metadata"),
					wr_rules_number_text(load, load->bounds.body_bytes)));
		return WR_STR("");
	}
	out = (struct json_out){.text = wr_load_alloc(load, &load->rules->arena, out.len + 1)};
	put_value(&out, value);
	return (struct weir_str){out.text, out.len};
}
