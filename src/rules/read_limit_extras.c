/* Reads the parts of a limit that are maps or lists themselves: soft, response, replaces. */
#include "rules/read.h"

#define OVERSHOOT_MAX_PPM 10000000 /* the overshoot is at most ten times the limit */

/* Sets the ceiling to floor(base · (1 + overshoot)), where base is the limit, or the burst of a
 * token bucket. */
static void set_ceiling(struct wr_load *load, const struct wr_yaml *at,
			struct wr_rules_limit *limit, uint32_t overshoot_ppm)
{
	const struct weir_limit *l = &limit->limit;
	uint64_t base = l->algorithm == WEIR_TOKEN_BUCKET && l->burst ? l->burst : l->limit;
	uint64_t ceiling = base + base * overshoot_ppm / 1000000;

	if (ceiling > UINT32_MAX)
		wr_rules_report(load, WR_D_soft_ceiling, at,
				WR_ARGS(wr_rules_number_text(load, UINT32_MAX)));
	else
		limit->limit.soft_ceiling = (uint32_t)ceiling;
}

void wr_read_soft(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	const struct wr_yaml *value = f->value[WR_KEY_SOFT];
	struct wr_fields soft;
	uint32_t overshoot_ppm;
	int mode = WR_HARD;

	if (wr_get_word(load, f, WR_KEY_MODE, wr_mode_words, &mode))
		limit->mode = (uint8_t)mode;
	if (mode == WR_SOFT && !value)
		wr_rules_report(load, WR_D_mode_without_soft, f->key[WR_KEY_MODE], NULL);
	if (!value)
		return;
	if (mode != WR_SOFT)
		wr_rules_report(load, WR_D_soft_without_mode, f->key[WR_KEY_SOFT], NULL);
	if (!wr_fields_read(load, value, WR_IN_SOFT, WR_STR("soft"), &soft))
		return;
	if (!soft.value[WR_KEY_OVERSHOOT] || !soft.value[WR_KEY_FOR]) {
		wr_rules_report(load, WR_D_soft_incomplete, value, NULL);
		return;
	}
	wr_get_duration(load, &soft, WR_KEY_FOR, &limit->limit.soft_for_ns);
	if (wr_get_share(load, &soft, WR_KEY_OVERSHOOT, OVERSHOOT_MAX_PPM, &overshoot_ppm))
		set_ceiling(load, soft.value[WR_KEY_OVERSHOOT], limit, overshoot_ppm);
}

/* Returns whether a text is a media type: type/subtype, perhaps with parameters, and without bytes
 * that would end a header line. */
static bool is_media_type(struct weir_str text)
{
	if (!wr_str_has(text, '/') || text.ptr[0] == '/')
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < ' ' || text.ptr[i] > '~')
			return false;
	return true;
}

void wr_read_response(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	const struct wr_yaml *value = f->value[WR_KEY_RESPONSE];
	struct wr_rules_response *response;
	struct wr_fields fields;

	if (!value || !wr_fields_read(load, value, WR_IN_RESPONSE, WR_STR("response"), &fields))
		return;
	response = wr_load_alloc(load, &load->rules->arena, sizeof *response);
	wr_get_number(load, &fields, WR_KEY_STATUS, 400, 599, &response->status);
	wr_get_text(load, &fields, WR_KEY_BODY, &response->body);
	if (wr_get_text(load, &fields, WR_KEY_CONTENT_TYPE, &response->content_type) &&
	    !is_media_type(response->content_type))
		wr_rules_report(load, WR_D_bad_content_type, fields.value[WR_KEY_CONTENT_TYPE],
				WR_ARGS(response->content_type));
	limit->response = response;
}

void wr_read_replaces(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	const struct wr_yaml *value;
	struct weir_str *names;
	struct wr_fields fields;
	struct wr_rules_list list;

	if (!wr_get_list(load, f, WR_KEY_REPLACES, true, UINT32_MAX, &list))
		return;
	names = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *names);
	while ((value = wr_rules_list_next(&list))) {
		struct weir_str *name = &names[limit->replace_count];

		if (!wr_fields_read(load, value, WR_IN_REPLACES, WR_STR("replaces"), &fields))
			continue;
		if (wr_get_text(load, &fields, WR_KEY_NAME, name) && name->len)
			limit->replace_count++;
		else if (!fields.value[WR_KEY_NAME] ||
			 fields.value[WR_KEY_NAME]->kind == WR_YAML_TEXT)
			wr_rules_report(load, WR_D_empty_replaces, value, NULL);
	}
	limit->replaces = names;
}
