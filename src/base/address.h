/* Internet addresses and lists of prefixes. Every address has 16 bytes. An IPv4 address is stored
 * as ::ffff:a.b.c.d, so that its IPv4 and IPv6 spellings are equal. */
#ifndef WR_BASE_ADDRESS_H
#define WR_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_ADDRESS_TEXT 64 /* size of a buffer for the text of any address or prefix */

struct wr_address {
	uint8_t bytes[16];
};

struct wr_address_range {
	struct wr_address low;
	struct wr_address high; /* the last address of the range */
};

/* A sorted list of ranges. No two ranges overlap or touch, so that a binary search finds an
 * address. */
struct wr_address_ranges {
	const struct wr_address_range *items;
	uint32_t count;
};

/* Makes an address from 4 or 16 bytes. */
struct wr_address wr_address_from(const uint8_t *bytes, size_t len);
bool wr_address_is_v4(const struct wr_address *address);

/* Reads an IPv4 or IPv6 address. Returns 0, or -1 if the text is not an address. */
int wr_address_parse(struct weir_str text, struct wr_address *address);

/* Writes the address as text, without a zero byte at the end. If `bits` is less than the length of
 * the address (32 or 128), writes the prefix of this length instead: "10.1.0.0/16". Returns the
 * length of the text. */
size_t wr_address_text(const struct wr_address *address, unsigned bits, char text[WR_ADDRESS_TEXT]);
#define WR_ADDRESS_WHOLE 128u

enum wr_address_prefix_error {
	WR_ADDRESS_PREFIX_OK,
	WR_ADDRESS_PREFIX_BAD, /* not an address, or the prefix length is out of range */
	/* Not all bits behind the prefix are 0, as in 10.1.2.3/8. *range is set as if they were 0:
	 * to the range of 10.0.0.0/8. */
	WR_ADDRESS_PREFIX_HOST_BITS
};

/* Reads a prefix such as "10.0.0.0/8", or an address such as "::1" or "192.0.2.7". Sets *range and
 * the prefix length *bits: at most 32 if range->low is an IPv4 address, and otherwise at most 128. The
 * prefix ::ffff:10.0.0.0/104 is 10.0.0.0/8. A prefix of ::ffff:0:0 that is shorter than /96 is an IPv6
 * prefix. */
enum wr_address_prefix_error
wr_address_prefix_parse(struct weir_str text, struct wr_address_range *range, unsigned *bits);

/* Sorts the ranges in place, and joins ranges that overlap or touch. Returns the new number of
 * ranges. */
size_t wr_address_ranges_join(struct wr_address_range *items, size_t count);

/* Returns whether one of the ranges contains the address. */
bool wr_address_ranges_hold(const struct wr_address_ranges *ranges,
			    const struct wr_address *address);

#endif
