/* Writes commands of nftables. Every command names the table `inet weir`. Each function appends to a
 * buffer, so that several of them make one transaction. */
#ifndef WR_SHIELD_TEXT_H
#define WR_SHIELD_TEXT_H

#include "base/buffer.h"
#include "shield/element.h"
#include "shield/plan.h"
#include "shield/protect.h"
#include "shield/rate.h"

#define WR_NFT_TABLE "inet weir"
#define WR_NFT_PORTS_MAX 16

/* What the table does. */
struct wr_nft_design {
	uint32_t size; /* maximum number of addresses of a hash set */
	bool input, forward;
	bool reject; /* refuse with a TCP reset or an ICMP message; otherwise drop silently */
	struct wr_nft_rate limit;
	uint16_t ports[WR_NFT_PORTS_MAX]; /* destination ports of `limit` */
	size_t port_count;
};

/* Removes the table, if there is one. */
void wr_nft_text_remove(struct wr_buf *buf);

/* Makes an empty table in place of any former one. `pid` is stored in the comment of the counter
 * `owner`. */
void wr_nft_text_table(struct wr_buf *buf, const struct wr_nft_design *design, long pid);

/* Returns the number of rules in the table. */
unsigned wr_nft_rules_of(const struct wr_nft_design *design);

/* Adds elements of one hash set, with the rest of their timeouts at now_ms (milliseconds since
 * 1970). With `again`, elements that are already in the set get the new timeout: "add" alone does
 * not change the timeout in kernels before 6.12. */
void wr_nft_text_add(struct wr_buf *buf, const struct wr_nft_element *items, size_t count,
		     bool again, uint64_t now_ms);

/* Removes elements of one hash set. It is not an error if the kernel has already removed some of
 * them. */
void wr_nft_text_delete(struct wr_buf *buf, const struct wr_nft_element *items, size_t count);

/* Replaces all elements of an interval set. */
void wr_nft_text_nets(struct wr_buf *buf, unsigned set, const struct wr_nft_elements *elements,
		      uint64_t now_ms);

/* Replaces all elements of the set never4 or never6. */
void wr_nft_text_never(struct wr_buf *buf, bool v4, const struct wr_protect_list *list);

#endif
