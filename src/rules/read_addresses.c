/* Reads lists of addresses and prefixes in rule files. */
#include "rules/read.h"

#include "base/address.h"

static bool read_prefix(struct wr_load *load, const struct wr_yaml *value,
			struct wr_address_range *range)
{
	char text[WR_ADDRESS_TEXT];
	unsigned bits;
	size_t len;

	switch (wr_address_prefix_parse(value->text, range, &bits)) {
	case WR_ADDRESS_PREFIX_OK:
		return true;
	case WR_ADDRESS_PREFIX_HOST_BITS:
		len = wr_address_text(&range->low, bits, text);
		wr_rules_report(load, WR_D_cidr_host_bits, value,
				WR_ARGS(value->text, (struct weir_str){text, len}));
		return false;
	case WR_ADDRESS_PREFIX_BAD:
	default:
		wr_rules_report(load, WR_D_bad_cidr, value, WR_ARGS(value->text));
		return false;
	}
}

/* Returns the list as text: "10.0.0.0-10.255.255.255,…". The text is the same for every spelling of
 * the list. */
static struct weir_str ranges_text(struct wr_load *load, const struct wr_address_range *items,
				   size_t count)
{
	char *text = wr_load_alloc(load, &load->rules->arena, count * 2 * WR_ADDRESS_TEXT + 1);
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		if (i)
			text[len++] = ',';
		len += wr_address_text(&items[i].low, WR_ADDRESS_WHOLE, text + len);
		if (memcmp(&items[i].low, &items[i].high, sizeof items[i].low) == 0)
			continue;
		text[len++] = '-';
		len += wr_address_text(&items[i].high, WR_ADDRESS_WHOLE, text + len);
	}
	return (struct weir_str){text, len};
}

const struct wr_address_ranges *wr_read_addresses(struct wr_load *load,
						  const struct wr_fields *fields,
						  enum wr_rules_key_id key, struct weir_str *text)
{
	const struct wr_yaml *value;
	struct wr_address_ranges *ranges;
	struct wr_address_range *items;
	struct wr_rules_list list;
	size_t count = 0;
	bool good = true;

	if (!wr_get_list(load, fields, key, false, load->bounds.addresses, &list))
		return NULL;
	ranges = wr_load_alloc(load, &load->rules->arena, sizeof *ranges);
	items = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *items);
	while ((value = wr_rules_list_next(&list)))
		good &= read_prefix(load, value, &items[count++]);
	if (!good)
		return NULL;
	count = wr_address_ranges_join(items, count);
	*ranges = (struct wr_address_ranges){items, (uint32_t)count};
	if (text)
		*text = ranges_text(load, items, count);
	return ranges;
}
