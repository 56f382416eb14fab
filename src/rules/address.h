/* Internet addresses and lists of prefixes. Every address has 16 bytes. An IPv4 address is stored
 * as ::ffff:a.b.c.d, so that its IPv4 and IPv6 spellings are equal. */
#ifndef WR_RULES_ADDRESS_H
#define WR_RULES_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_ADDRESS_TEXT 64 /* room for the longest address and "/128" */

struct wr_address {
	uint8_t bytes[16];
};

struct wr_range {
	struct wr_address low;
	struct wr_address high; /* the last address of the range */
};

/* A sorted list of ranges. No two ranges overlap or touch, so that a binary search finds an
 * address. */
struct wr_ranges {
	const struct wr_range *items;
	uint32_t count;
};

/* Makes an address from 4 or 16 bytes. */
struct wr_address wr_address_from(const uint8_t *bytes, size_t len);
bool wr_address_is_v4(const struct wr_address *address);
int wr_address_parse(struct weir_str text, struct wr_address *address);

/* Writes the address as text. If `bits` is less than the length of the address (32 or 128), the
 * other bits are written as 0, and "/bits" follows. Returns the length of the text. */
size_t wr_address_text(const struct wr_address *address, unsigned bits, char text[WR_ADDRESS_TEXT]);
#define WR_ADDRESS_WHOLE 128u

enum wr_prefix_error {
	WR_PREFIX_OK,
	WR_PREFIX_BAD, /* not an address, or bits out of range */
	/* Bits behind the prefix length, as in 10.1.2.3/8: the range is 10.0.0.0/8. */
	WR_PREFIX_HOST_BITS
};

/* Reads a prefix such as "10.0.0.0/8", or an address such as "::1" or "192.0.2.7". Sets *range and
 * the prefix length *bits. */
enum wr_prefix_error wr_prefix_parse(struct weir_str text, struct wr_range *range, unsigned *bits);

/* Sorts the ranges in place and joins those that overlap or touch. Returns the new number of
 * ranges. */
size_t wr_ranges_join(struct wr_range *items, size_t count);
bool wr_ranges_hold(const struct wr_ranges *ranges, const struct wr_address *address);

#endif
