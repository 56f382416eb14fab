/* Brings the kernel's table to the state of a plan, in transactions of bounded size. */
#ifndef WR_SHIELD_APPLY_H
#define WR_SHIELD_APPLY_H

#include <weir/error.h>

#include "shield/plan.h"
#include "shield/text.h"

struct nft_ctx;

/* What this process has written to the kernel. A zeroed struct has no table yet. */
struct wr_nft_present {
	struct wr_nft_elements elements; /* sorted */
	bool has_table;
};

/* Maximum number of elements in one transaction. A transaction holds a lock of nftables that other
 * programs wait for. */
#define WR_NFT_BATCH 2000u

/* Writes the whole table as one transaction: there is no moment at which a former table is gone and
 * the new one is empty. Takes over plan->wanted. Returns 0, or an error; then the kernel still has
 * its former table. */
int wr_nft_apply_all(struct nft_ctx *nft, const struct wr_nft_design *design,
		     const struct wr_protect *protect, struct wr_nft_plan *plan, uint64_t now_ms,
		     struct wr_nft_present *present, struct weir_error *error);

/* Writes only the changes. Takes over plan->wanted. After an error the kernel has a part of the
 * changes, and the caller writes the whole table. */
int wr_nft_apply_changes(struct nft_ctx *nft, struct wr_nft_plan *plan, uint64_t now_ms,
			 struct wr_nft_present *present, struct weir_error *error);

/* Writes the sets of protected addresses. */
int wr_nft_apply_protect(struct nft_ctx *nft, const struct wr_protect *protect,
			 struct weir_error *error);

/* Appends the commands of wr_nft_apply_all(). Returns false if there is no memory. */
bool wr_nft_text_all(struct wr_buf *buf, const struct wr_nft_design *design,
		     const struct wr_protect *protect, const struct wr_nft_plan *plan,
		     uint64_t now_ms, long pid);

/* Marks the timeouts of all present elements as unknown: the next changes write each of them again.
 * Called after the wall clock has stepped, because the kernel's timeouts do not follow it. */
void wr_nft_present_doubt(struct wr_nft_present *present);

#endif
