/* Elements of the kernel's sets; see element.h. */
#include "shield/element.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64
#define V6_BITS 64u

const char *const wr_nft_set_names[WR_NFT_SET_COUNT] = {
#define SET_NAME(name, text) text,
	WR_NFT_SETS(SET_NAME)
#undef SET_NAME
};

bool wr_nft_elements_add(struct wr_nft_elements *elements, const struct wr_nft_element *element)
{
	if (elements->count == elements->room) {
		size_t room = elements->room ? elements->room * 2 : FIRST_ROOM;
		struct wr_nft_element *items =
			reallocarray(elements->items, room, sizeof *elements->items);

		if (!items)
			return false;
		elements->items = items;
		elements->room = room;
	}
	elements->items[elements->count++] = *element;
	return true;
}

void wr_nft_elements_free(struct wr_nft_elements *elements)
{
	free(elements->items);
	*elements = (struct wr_nft_elements){0};
}

int wr_nft_element_compare(const struct wr_nft_element *a, const struct wr_nft_element *b)
{
	int order;

	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	order = memcmp(&a->address, &b->address, sizeof a->address);
	return order ? order : (int)a->bits - (int)b->bits;
}

static int compare_items(const void *a, const void *b)
{
	return wr_nft_element_compare(a, b);
}

void wr_nft_elements_sort(struct wr_nft_elements *elements)
{
	struct wr_nft_element *items = elements->items;
	size_t kept = 0;

	if (elements->count == 0)
		return;
	qsort(items, elements->count, sizeof *items, compare_items);
	for (size_t i = 1; i < elements->count; i++) {
		if (wr_nft_element_compare(&items[kept], &items[i]) != 0)
			items[++kept] = items[i];
		else if (items[i].until_s > items[kept].until_s)
			items[kept].until_s = items[i].until_s;
	}
	elements->count = kept + 1;
}

/* Sets the bits behind the first `bits` bits of the address to 0, or to 1. */
static void fill_host_bits(struct wr_address *address, unsigned bits, bool ones)
{
	for (unsigned i = bits; i < 128; i++) {
		uint8_t mask = (uint8_t)(0x80 >> i % 8);

		if (ones)
			address->bytes[i / 8] |= mask;
		else
			address->bytes[i / 8] &= (uint8_t)~mask;
	}
}

struct wr_address_range wr_nft_element_range(const struct wr_nft_element *element)
{
	unsigned bits = element->bits + (wr_nft_set_is_v4(element->set) ? 96u : 0u);
	struct wr_address_range range = {element->address, element->address};

	fill_host_bits(&range.high, bits, true);
	return range;
}

uint32_t wr_nft_until(uint32_t until_s, uint32_t now_s)
{
	uint64_t cap_s = ((uint64_t)now_s / WR_NFT_HALF_DAY_S + 2) * WR_NFT_HALF_DAY_S;

	return until_s < cap_s ? until_s : (uint32_t)cap_s;
}

bool wr_nft_element_of(const struct wr_ban *ban, uint32_t now_s, struct wr_nft_element *element)
{
	bool v4 = ban->family == 4;

	if (!(ban->flags & WR_BAN_SHIELD) || ban->flags & WR_BAN_SHADOW || ban->until_s <= now_s ||
	    (!v4 && ban->family != 6) || ban->prefix_bits == 0 ||
	    ban->prefix_bits > (v4 ? 32 : 128))
		return false;
	*element = (struct wr_nft_element){
		.address = wr_address_from(ban->address, v4 ? 4 : 16),
		.until_s = wr_nft_until(ban->until_s, now_s),
		.bits = ban->prefix_bits,
	};
	if (!v4 && wr_address_is_v4(&element->address))
		return false; /* ::ffff:a.b.c.d is never a source address of IPv6 */
	if (!v4 && element->bits > V6_BITS)
		element->bits = V6_BITS;
	if (v4)
		element->set = element->bits == 32 ? WR_NFT_BANNED4 : WR_NFT_NETS4;
	else
		element->set = element->bits == V6_BITS ? WR_NFT_BANNED6 : WR_NFT_NETS6;
	fill_host_bits(&element->address, element->bits + (v4 ? 96u : 0u), false);
	return true;
}
