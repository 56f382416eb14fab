/* Reads and writes Internet addresses and prefixes, and finds an address in a list of ranges. */
#include "base/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/str.h"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct wr_address wr_address_from(const uint8_t *bytes, size_t len)
{
	struct wr_address address;

	wr_assert(len == 4 || len == 16);
	if (len == 16) {
		memcpy(address.bytes, bytes, 16);
	} else {
		memcpy(address.bytes, mapped, 12);
		memcpy(address.bytes + 12, bytes, 4);
	}
	return address;
}

bool wr_address_is_v4(const struct wr_address *address)
{
	return memcmp(address->bytes, mapped, 12) == 0;
}

int wr_address_parse(struct weir_str text, struct wr_address *address)
{
	char copy[INET6_ADDRSTRLEN];
	uint8_t bytes[16];

	if (text.len == 0 || text.len >= sizeof copy || wr_str_has(text, '\0'))
		return -1;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	if (inet_pton(AF_INET, copy, bytes) == 1)
		*address = wr_address_from(bytes, 4);
	else if (inet_pton(AF_INET6, copy, bytes) == 1)
		*address = wr_address_from(bytes, 16);
	else
		return -1;
	return 0;
}

/* Sets bit number `bit` of the address and all bits after it: to 1 if `ones` is true, otherwise to
 * 0. Bit 0 is the first bit of the address. */
static void fill_bits(struct wr_address *address, unsigned bit, bool ones)
{
	for (unsigned i = bit / 8; i < 16; i++) {
		uint8_t below = i == bit / 8 ? (uint8_t)(0xffu >> bit % 8) : 0xff;

		address->bytes[i] = ones ? (uint8_t)(address->bytes[i] | below)
					 : (uint8_t)(address->bytes[i] & ~below);
	}
}

static size_t put_octet(char *text, unsigned octet)
{
	size_t len = 0;

	if (octet >= 100)
		text[len++] = (char)('0' + octet / 100);
	if (octet >= 10)
		text[len++] = (char)('0' + octet / 10 % 10);
	text[len++] = (char)('0' + octet % 10);
	return len;
}

size_t wr_address_text(const struct wr_address *address, unsigned bits, char text[WR_ADDRESS_TEXT])
{
	bool v4 = wr_address_is_v4(address);
	unsigned all = v4 ? 32 : 128;
	struct wr_address masked = *address;
	size_t len = 0;

	if (bits < all)
		fill_bits(&masked, bits + 128 - all, false);
	if (v4) {
		for (int i = 12; i < 16; i++) {
			len += put_octet(text + len, masked.bytes[i]);
			text[len++] = '.';
		}
		len--;
	} else {
		len = strlen(inet_ntop(AF_INET6, masked.bytes, text, WR_ADDRESS_TEXT));
	}
	if (bits < all) {
		text[len++] = '/';
		len += put_octet(text + len, bits);
	}
	return len;
}

enum wr_address_prefix_error wr_address_prefix_parse(struct weir_str text,
						     struct wr_address_range *range, unsigned *bits)
{
	size_t slash = wr_str_find(text, '/');
	struct weir_str tail = wr_str_from(text, slash);
	unsigned all, number = 0;

	if (wr_address_parse(wr_str_first(text, slash), &range->low) != 0)
		return WR_ADDRESS_PREFIX_BAD;
	all = wr_str_has(text, ':') ? 128 : 32;
	if (tail.len == 0) {
		number = all;
	} else {
		if (tail.len < 2 || tail.len > 4 || (tail.len > 2 && tail.ptr[1] == '0'))
			return WR_ADDRESS_PREFIX_BAD;
		for (size_t i = 1; i < tail.len; i++) {
			if (tail.ptr[i] < '0' || tail.ptr[i] > '9')
				return WR_ADDRESS_PREFIX_BAD;
			number = number * 10 + (unsigned)(tail.ptr[i] - '0');
		}
	}
	if (number > all)
		return WR_ADDRESS_PREFIX_BAD;
	*bits = number;
	range->high = range->low;
	fill_bits(&range->high, number + 128 - all, true);
	struct wr_address low = range->low;

	fill_bits(&range->low, number + 128 - all, false);
	/* ::ffff:10.0.0.0/104 is 10.0.0.0/8. A shorter prefix than /96 has other addresses too. */
	if (wr_address_is_v4(&range->low))
		*bits = number + 32 - all;
	return memcmp(&low, &range->low, sizeof low) ? WR_ADDRESS_PREFIX_HOST_BITS
						     : WR_ADDRESS_PREFIX_OK;
}

static int compare_lows(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct wr_address_range));
}

/* Returns whether a range that begins at `low` overlaps or touches a range that ends at `high`. */
static bool ranges_touch(const struct wr_address *high, const struct wr_address *low)
{
	struct wr_address next = *high;

	if (memcmp(high, low, sizeof *low) >= 0)
		return true;
	for (int i = 15; i >= 0; i--)
		if (++next.bytes[i])
			break;
	return memcmp(&next, low, sizeof *low) == 0;
}

size_t wr_address_ranges_join(struct wr_address_range *items, size_t count)
{
	size_t joined = 0;

	qsort(items, count, sizeof *items, compare_lows);
	for (size_t i = 0; i < count; i++) {
		if (joined && ranges_touch(&items[joined - 1].high, &items[i].low)) {
			if (memcmp(&items[joined - 1].high, &items[i].high, 16) < 0)
				items[joined - 1].high = items[i].high;
		} else {
			items[joined++] = items[i];
		}
	}
	return joined;
}

bool wr_address_ranges_hold(const struct wr_address_ranges *ranges,
			    const struct wr_address *address)
{
	size_t low = 0, high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(&ranges->items[middle].low, address, sizeof *address) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && memcmp(address, &ranges->items[low - 1].high, sizeof *address) <= 0;
}
