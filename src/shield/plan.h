/* The arithmetic of the shield: which elements the kernel's sets should have, and which changes lead
 * there. Reads no clock and makes no system call.
 *
 *   bans → elements → without protected addresses → that fit → changes to the present elements */
#ifndef WR_SHIELD_PLAN_H
#define WR_SHIELD_PLAN_H

#include "shield/element.h"
#include "shield/protect.h"
#include "shield/suspend.h"

#define WR_NFT_PREFIXES_MAX 4096u /* maximum number of elements in each of nets4 and nets6 */

/* A protected element, and the reason of its protection. */
struct wr_nft_skip {
	struct wr_nft_element element;
	enum wr_protect_kind kind;
};

struct wr_nft_plan {
	struct wr_nft_elements wanted; /* sorted */
	struct wr_nft_skip *skips;     /* bans of protected addresses, sorted by element */
	size_t skip_count, skip_room;
	size_t suspended
		[WR_SUSPEND_NONE]; /* number of bans that are skipped because of their rule */
	size_t left_out;           /* number of elements that do not fit */
	uint32_t next_s;           /* time at which the plan changes by itself; UINT32_MAX: never */
	bool out_of_memory;
};

void wr_nft_plan_free(struct wr_nft_plan *plan);

/* Adds a ban to the plan. `now_s` is the same for all bans of a plan. */
void wr_nft_plan_ban(struct wr_nft_plan *plan, const struct wr_protect *protect,
		     const struct wr_ban *ban, uint32_t now_s);

/* Completes the plan after the last ban: sorts, drops prefixes within other prefixes, and drops the
 * elements that end first if there are more than `size` addresses. A wide prefix that replaces a
 * narrower one ends no later than needed: when it ends, the plan changes (next_s) and the narrower
 * one is added. */
void wr_nft_plan_finish(struct wr_nft_plan *plan, size_t size);

/* The changes that turn the present elements into the wanted ones. */
struct wr_nft_changes {
	struct wr_nft_elements add;         /* not in the kernel */
	struct wr_nft_elements renew;       /* in the kernel, with another timeout */
	struct wr_nft_elements remove;      /* in the kernel, and not wanted */
	bool nets_differ[WR_NFT_SET_COUNT]; /* this interval set has to be written again */
};

/* Finds the changes. Both arrays are sorted. A present element that is not wanted and whose timeout
 * has ended needs no change. The elements of interval sets are not listed, because these sets are
 * small and are written as a whole. Returns false if there is no memory. The caller calls
 * wr_nft_changes_free() in both cases. */
bool wr_nft_diff(const struct wr_nft_elements *present, const struct wr_nft_elements *wanted,
		 uint32_t now_s, struct wr_nft_changes *changes);
void wr_nft_changes_free(struct wr_nft_changes *changes);

/* Returns the part of the sorted elements that belongs to a set. */
struct wr_nft_elements wr_nft_elements_of_set(const struct wr_nft_elements *elements, unsigned set);

#endif
