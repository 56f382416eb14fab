/* Internet addresses and lists of prefixes. Every address is 16 bytes. IPv4 is ::ffff:a.b.c.d, so
 * that both spellings of an IPv4 address are equal. */
#ifndef WR_RULES_ADDRESS_H
#define WR_RULES_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_ADDRESS_TEXT 64 /* with "/128" */

struct wr_address {
	uint8_t bytes[16];
};

struct wr_range {
	struct wr_address low;
	struct wr_address high; /* inclusive */
};

/* Sorted, and no two touch, so that a binary search finds an address. */
struct wr_ranges {
	const struct wr_range *items;
	uint32_t count;
};

/* Makes an address of 4 or 16 bytes. */
struct wr_address wr_address_from(const uint8_t *bytes, size_t len);
bool wr_address_is_v4(const struct wr_address *address);
int wr_address_parse(struct weir_str text, struct wr_address *address);

/* Writes the address. If `bits` is less than 32 or 128, it is masked and followed by "/bits".
 * Returns the length. */
size_t wr_address_text(const struct wr_address *address, unsigned bits, char text[WR_ADDRESS_TEXT]);
#define WR_ADDRESS_WHOLE 128u

enum wr_prefix_error {
	WR_PREFIX_OK,
	WR_PREFIX_BAD,      /* not an address, or bits out of range */
	WR_PREFIX_HOST_BITS /* 10.1.2.3/8: range is that of 10.0.0.0/8 */
};

/* Reads "10.0.0.0/8", "::1" or "192.0.2.7". */
enum wr_prefix_error wr_prefix_parse(struct weir_str text, struct wr_range *range, unsigned *bits);

/* Sorts and joins ranges in place. Returns the new count. */
size_t wr_ranges_join(struct wr_range *items, size_t count);
bool wr_ranges_hold(const struct wr_ranges *ranges, const struct wr_address *address);

#endif
