/* Writes entries of `requests:` as YAML from their compiled form, for rules that tune proposes with
 * --rules. An entry that is written and loaded again matches the same requests and makes the same
 * descriptors. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/tune/inner.h"
#include "rules/cost_text.h"

#define PREFIX_V4 32u /* default of v4_prefix */
#define PREFIX_V6 64u /* default of v6_prefix */

/* Appends "NAME: ", preceded by a comma if it is not the first member of its map. */
static void add_member(struct wr_buf *yaml, bool *any, const char *name)
{
	wr_buf_printf(yaml, "%s%s: ", *any ? ", " : "", name);
	*any = true;
}

static void add_texts(struct wr_buf *yaml, bool *any, const char *name, struct wr_texts texts)
{
	if (texts.count == 0)
		return;
	add_member(yaml, any, name);
	wr_buf_add_char(yaml, '[');
	for (uint32_t i = 0; i < texts.count; i++) {
		wr_buf_add_str(yaml, i ? WR_STR(", ") : WR_STR(""));
		wr_lab_yaml_text(yaml, texts.items[i]);
	}
	wr_buf_add_char(yaml, ']');
}

/* ---- when ---- */

static bool get_bit(const struct wr_address *address, unsigned bit)
{
	return address->bytes[bit / 8] >> (7 - bit % 8) & 1;
}

static void set_bits(struct wr_address *address, unsigned from, bool value)
{
	for (unsigned bit = from; bit < 128; bit++) {
		uint8_t mask = (uint8_t)(1u << (7 - bit % 8));

		if (value)
			address->bytes[bit / 8] |= mask;
		else
			address->bytes[bit / 8] &= (uint8_t)~mask;
	}
}

/* Adds one to the address. Returns false after the last address. */
static bool next_address(struct wr_address *address)
{
	for (size_t i = sizeof address->bytes; i-- > 0;)
		if (++address->bytes[i] != 0)
			return true;
	return false;
}

/* Returns the length of the largest prefix that begins at `low` and ends at or before `high`. */
static unsigned largest_prefix(struct wr_address low, const struct wr_address *high)
{
	unsigned bits = 128;

	while (bits > 0 && !get_bit(&low, bits - 1)) {
		struct wr_address last = low;

		set_bits(&last, bits - 1, true);
		if (memcmp(last.bytes, high->bytes, sizeof last.bytes) > 0)
			break;
		bits--;
	}
	return bits;
}

/* Appends the prefixes that together are the range. */
static void add_range(struct wr_buf *yaml, bool *any, const struct wr_address_range *range)
{
	struct wr_address low = range->low;

	while (memcmp(low.bytes, range->high.bytes, sizeof low.bytes) <= 0) {
		unsigned bits = largest_prefix(low, &range->high);
		bool v4 = wr_address_is_v4(&low) && bits >= 96;
		char text[WR_ADDRESS_TEXT];
		size_t len = wr_address_text(&low, v4 ? bits - 96 : bits, text);

		wr_buf_add_str(yaml, *any ? WR_STR(", ") : WR_STR(""));
		wr_lab_yaml_text(yaml, (struct weir_str){text, len});
		*any = true;
		set_bits(&low, bits, true);
		if (!next_address(&low))
			break;
	}
}

static void add_when(struct wr_buf *yaml, const struct wr_rules_request *entry)
{
	bool any = false, any_address = false;

	if (!entry->methods.count && !entry->hosts.count && !entry->path_count && !entry->addresses)
		return;
	wr_buf_add_str(yaml, WR_STR("when: {"));
	add_texts(yaml, &any, "method", entry->methods);
	add_texts(yaml, &any, "host", entry->hosts);
	if (entry->path_count) {
		add_member(yaml, &any, "path");
		for (uint32_t i = 0; i < entry->path_count; i++) {
			wr_buf_add_str(yaml, i ? WR_STR(", ") : WR_STR("["));
			wr_lab_yaml_text(yaml, entry->paths[i].text);
		}
		wr_buf_add_char(yaml, ']');
	}
	if (entry->addresses) {
		add_member(yaml, &any, "remote_address");
		wr_buf_add_char(yaml, '[');
		for (uint32_t i = 0; i < entry->addresses->count; i++)
			add_range(yaml, &any_address, &entry->addresses->items[i]);
		wr_buf_add_char(yaml, ']');
	}
	wr_buf_add_str(yaml, WR_STR("}\n    "));
}

/* ---- descriptor ---- */

static const char *ambiguity_word(enum wr_ambiguity ambiguous)
{
	switch (ambiguous) {
#define AMBIGUITY_CASE(name, number, text)                                                         \
	case name:                                                                                 \
		return text;
		WR_AMBIGUITIES(AMBIGUITY_CASE)
#undef AMBIGUITY_CASE
	}
	return "share";
}

static void add_masks(struct wr_buf *yaml, bool *any, const struct wr_rules_part *part)
{
	bool masked = false;

	for (uint32_t i = 0; i < part->source_count; i++)
		masked |= part->sources[i].kind == WR_FROM_MASKED_REMOTE_ADDRESS;
	if (!masked)
		return;
	if (part->sources->v4_bits != PREFIX_V4) {
		add_member(yaml, any, "v4_prefix");
		wr_buf_add_uint(yaml, part->sources->v4_bits);
	}
	if (part->sources->v6_bits != PREFIX_V6) {
		add_member(yaml, any, "v6_prefix");
		wr_buf_add_uint(yaml, part->sources->v6_bits);
	}
}

static void add_sources(struct wr_buf *yaml, bool *any, const struct wr_rules_part *part)
{
	enum wr_ambiguity usual =
		part->missing == WR_MISSING_DENY ? WR_AMBIGUOUS_DENY : WR_AMBIGUOUS_SHARE;

	add_member(yaml, any, "from");
	for (uint32_t i = 0; i < part->source_count; i++) {
		wr_buf_add_str(yaml, i ? WR_STR(", ") : WR_STR("["));
		wr_lab_yaml_text(yaml, part->sources[i].label);
	}
	wr_buf_add_char(yaml, ']');
	add_masks(yaml, any, part);
	if (part->has_default) {
		add_member(yaml, any, "default");
		wr_lab_yaml_text(yaml, part->otherwise);
	}
	if (part->missing == WR_MISSING_DENY) {
		add_member(yaml, any, "missing");
		wr_buf_add_str(yaml, WR_STR("deny"));
	}
	if (part->ambiguous != usual) {
		add_member(yaml, any, "ambiguous");
		wr_buf_add_str(yaml, wr_str(ambiguity_word(part->ambiguous)));
	}
}

static void add_descriptor(struct wr_buf *yaml, const struct wr_rules_request *entry)
{
	wr_buf_add_str(yaml, WR_STR("descriptor: ["));
	for (uint32_t i = 0; i < entry->part_count; i++) {
		const struct wr_rules_part *part = &entry->parts[i];
		bool any = false;

		wr_buf_add_str(yaml, i ? WR_STR(", {") : WR_STR("{"));
		add_member(yaml, &any, "key");
		wr_lab_yaml_text(yaml, part->key);
		if (part->source_count) {
			add_sources(yaml, &any, part);
		} else {
			add_member(yaml, &any, "value");
			wr_lab_yaml_text(yaml, part->value);
		}
		wr_buf_add_char(yaml, '}');
	}
	wr_buf_add_str(yaml, WR_STR("]\n"));
}

/* ---- cost and count ---- */

static void add_cost_source(struct wr_buf *yaml, const struct wr_rules_cost_source *source,
			    bool actual)
{
	if (source->from == WR_COST_NUMBER) {
		wr_buf_add_uint(yaml, (uint64_t)source->otherwise);
		return;
	}
	wr_buf_add_str(yaml, WR_STR("{from: "));
	wr_lab_yaml_text(yaml, source->label);
	if (actual && source->defaults_to_reserved)
		wr_buf_add_str(yaml, WR_STR(", default: reserved"));
	else
		wr_buf_printf(yaml, ", default: %llu", (unsigned long long)source->otherwise);
	if (source->max != WR_COST_MAX)
		wr_buf_printf(yaml, ", max: %llu", (unsigned long long)source->max);
	wr_buf_add_char(yaml, '}');
}

static void add_cost(struct wr_buf *yaml, const struct wr_rules_cost *cost)
{
	wr_buf_add_str(yaml, cost->settles ? WR_STR("    cost: {reserve: ") : WR_STR("    cost: "));
	add_cost_source(yaml, &cost->arrival, false);
	if (cost->settles) {
		wr_buf_add_str(yaml, WR_STR(", actual: "));
		add_cost_source(yaml, &cost->actual, true);
		wr_buf_add_char(yaml, '}');
	}
	wr_buf_add_char(yaml, '\n');
}

static void add_count(struct wr_buf *yaml, const struct wr_rules_count *count)
{
	bool except = wr_rules_count_is_except(count), any = false;
	char text[WR_STATUS_TEXT];
	uint32_t status = 100;

	wr_buf_printf(yaml, "    count: {%s: [", except ? "except" : "status");
	while (wr_rules_count_next(count, !except, &status, text)) {
		wr_buf_printf(yaml, "%s%.3s", any ? ", " : "", text);
		any = true;
	}
	wr_buf_add_str(yaml, WR_STR("]}\n"));
}

void wr_lab_tune_entry(const struct wr_rules_request *entry, struct wr_buf *yaml)
{
	wr_buf_add_str(yaml, WR_STR("  - "));
	add_when(yaml, entry);
	if (entry->allow) {
		wr_buf_add_str(yaml, WR_STR("allow: true\n"));
		return;
	}
	add_descriptor(yaml, entry);
	if (entry->cost)
		add_cost(yaml, entry->cost);
	if (entry->count)
		add_count(yaml, entry->count);
}

/* ---- the key ---- */

int wr_lab_tune_source(const char *key, struct wr_buf *yaml, struct weir_error *error)
{
	struct weir_str rest = wr_str(key);
	bool any = false;

	if (strcmp(key, "all") == 0) {
		wr_buf_add_str(yaml, WR_STR("value: all"));
		return 0;
	}
	wr_buf_add_str(yaml, WR_STR("from: ["));
	while (rest.len || !any) {
		struct weir_str source = wr_str_trim(wr_str_first(rest, wr_str_find(rest, ',')));

		rest = wr_str_from(rest, wr_str_find(rest, ','));
		rest = wr_str_from(rest, rest.len ? 1 : 0);
		if (wr_str_equal(source, WR_STR("address")))
			source = WR_STR("masked_remote_address");
		else if (wr_str_equal(source, WR_STR("user")))
			source = WR_STR("identity");
		if (source.len == 0)
			return wr_error(error, WEIR_EINVAL,
					"--key: a source is empty; use address, user, header.NAME "
					"or another source of docs/rules.md");
		wr_buf_add_str(yaml, any ? WR_STR(", ") : WR_STR(""));
		wr_lab_yaml_text(yaml, source);
		any = true;
	}
	wr_buf_add_char(yaml, ']');
	return 0;
}
