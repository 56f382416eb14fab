/* Shared by the suites of the shield: bans and elements from text. */
#ifndef WR_TEST_SHIELD_TEST_H
#define WR_TEST_SHIELD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/str.h"
#include "shield/plan.h"

#define NOW_S 1700000000u

/* A ban with the flag WR_BAN_SHIELD of an address or prefix. */
static inline struct wr_ban make_ban(const char *text, uint32_t until_s)
{
	struct wr_ban ban = {.until_s = until_s, .flags = WR_BAN_SHIELD};
	struct wr_address_range range;
	unsigned bits;
	bool v4;

	assert_int_equal(wr_address_prefix_parse(wr_str(text), &range, &bits),
			 WR_ADDRESS_PREFIX_OK);
	v4 = wr_address_is_v4(&range.low);
	ban.family = v4 ? 4 : 6;
	ban.prefix_bits = (uint8_t)bits;
	memcpy(ban.address, range.low.bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
	return ban;
}

static inline struct wr_nft_element make_element(const char *text, uint32_t until_s)
{
	struct wr_ban ban = make_ban(text, UINT32_MAX);
	struct wr_nft_element element;

	assert_true(wr_nft_element_of(&ban, NOW_S, &element));
	element.until_s = until_s;
	return element;
}

/* Returns "ADDRESS/BITS" of an element, without the bits of a whole address. */
static inline const char *text_of(const struct wr_nft_element *element)
{
	static char text[WR_ADDRESS_TEXT];
	unsigned bits = element->set == WR_NFT_BANNED4 ? WR_ADDRESS_WHOLE : element->bits;

	text[wr_address_text(&element->address, bits, text)] = 0;
	return text;
}

static inline struct wr_address_range make_range(const char *text)
{
	struct wr_address_range range;
	unsigned bits;

	assert_int_equal(wr_address_prefix_parse(wr_str(text), &range, &bits),
			 WR_ADDRESS_PREFIX_OK);
	return range;
}

#endif
