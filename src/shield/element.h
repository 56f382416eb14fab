/* Elements of the kernel's sets: the form in which a banned address or prefix is in nftables.
 *
 *   set      contents                  type
 *   banned4  IPv4 addresses            hash set
 *   banned6  IPv6 networks of 64 bits  hash set; the rule masks the source address
 *   nets4    shorter IPv4 prefixes     interval set
 *   nets6    shorter IPv6 prefixes     interval set */
#ifndef WR_SHIELD_ELEMENT_H
#define WR_SHIELD_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "table/ban.h"

/* X(enum, name of the set) */
#define WR_NFT_SETS(X)                                                                             \
	X(WR_NFT_BANNED4, "banned4")                                                               \
	X(WR_NFT_BANNED6, "banned6")                                                               \
	X(WR_NFT_NETS4, "nets4")                                                                   \
	X(WR_NFT_NETS6, "nets6")

enum wr_nft_set {
#define WR_NFT_SET_ENUM(name, text) name,
	WR_NFT_SETS(WR_NFT_SET_ENUM)
#undef WR_NFT_SET_ENUM
		WR_NFT_SET_COUNT
};

extern const char *const wr_nft_set_names[WR_NFT_SET_COUNT];

#define WR_NFT_UNKNOWN 0u /* until_s of an element whose timeout in the kernel is not known */

struct wr_nft_element {
	struct wr_address address; /* the first address; IPv4 as ::ffff:a.b.c.d */
	uint32_t until_s;          /* end of the timeout in the kernel, in seconds since 1970 */
	uint8_t set;               /* enum wr_nft_set */
	uint8_t bits;              /* length of the prefix: 1 to 32 for IPv4, 1 to 64 for IPv6 */
};

/* A growing array of elements. A zeroed struct is an empty array. */
struct wr_nft_elements {
	struct wr_nft_element *items;
	size_t count, room;
};

/* Appends a copy of the element. Returns false if there is no memory. */
bool wr_nft_elements_add(struct wr_nft_elements *elements, const struct wr_nft_element *element);
void wr_nft_elements_free(struct wr_nft_elements *elements);

/* Sorts by set, address and length, and joins equal ones: the later end counts. */
void wr_nft_elements_sort(struct wr_nft_elements *elements);

/* Compares set, address and length, for sorting. */
int wr_nft_element_compare(const struct wr_nft_element *a, const struct wr_nft_element *b);

/* Returns the range of addresses that the element covers. */
struct wr_address_range wr_nft_element_range(const struct wr_nft_element *element);

static inline bool wr_nft_set_is_v4(unsigned set)
{
	return set == WR_NFT_BANNED4 || set == WR_NFT_NETS4;
}

static inline bool wr_nft_set_is_nets(unsigned set)
{
	return set == WR_NFT_NETS4 || set == WR_NFT_NETS6;
}

/* Makes the element of a ban. Returns false if the ban is not for the kernel: it has no flag
 * WR_BAN_SHIELD, is a ban in shadow mode, has ended, or has an impossible address. An IPv6 address
 * or a prefix longer than 64 bits becomes its network of 64 bits. The timeout of a ban that ends
 * later than in a day is shortened, so that the ban ends if the shield is killed; the shield
 * prolongs the timeout twice a day. */
bool wr_nft_element_of(const struct wr_ban *ban, uint32_t now_s, struct wr_nft_element *element);

#define WR_NFT_HALF_DAY_S 43200u

/* Returns the end of the timeout of a ban. The ban ends at until_s, or never (WR_FOR_GOOD). The
 * result is until_s, or a multiple of half a day that is 12 to 24 hours after now_s. */
uint32_t wr_nft_until(uint32_t until_s, uint32_t now_s);

#endif
