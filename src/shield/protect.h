/* Protected addresses: the shield never drops their packets, even if they are banned. A prefix or an
 * IPv6 network that contains a protected address is protected as a whole. */
#ifndef WR_SHIELD_PROTECT_H
#define WR_SHIELD_PROTECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"

/* X(enum, reason for the log) */
#define WR_PROTECT_KINDS(X)                                                                        \
	X(WR_PROTECT_FIXED, "loopback, link-local and unspecified addresses are protected")        \
	X(WR_PROTECT_TRUST, "--trust names it")                                                    \
	X(WR_PROTECT_NEVER, "--never names it")                                                    \
	X(WR_PROTECT_RULES, "an entry with `allow: true` in the rules names it")                   \
	X(WR_PROTECT_OWN, "this machine has this address")                                         \
	X(WR_PROTECT_SSH, "a user who has logged in with SSH has this address")

enum wr_protect_kind {
#define WR_PROTECT_ENUM(name, reason) name,
	WR_PROTECT_KINDS(WR_PROTECT_ENUM)
#undef WR_PROTECT_ENUM
		WR_PROTECT_NONE
};

/* Returns the reason as text. */
const char *wr_protect_reason(enum wr_protect_kind kind);

/* A growing list of ranges. A zeroed struct is an empty list. */
struct wr_protect_list {
	struct wr_address_range *items;
	size_t count, room;
};

/* Appends a range. Returns false if there is no memory. */
bool wr_protect_list_add(struct wr_protect_list *list, const struct wr_address_range *range);

/* Sorts the list and joins ranges that overlap or touch. */
void wr_protect_list_join(struct wr_protect_list *list);
void wr_protect_list_free(struct wr_protect_list *list);

/* Returns true if both joined lists have the same ranges. */
bool wr_protect_list_equal(const struct wr_protect_list *a, const struct wr_protect_list *b);

struct wr_protect {
	struct wr_protect_list lists[WR_PROTECT_NONE]; /* each is joined */
};

/* Replaces the list of a kind, and takes over the memory of `list`, which is joined here. Returns
 * true if the list is different from the former one. */
bool wr_protect_replace(struct wr_protect *protect, enum wr_protect_kind kind,
			struct wr_protect_list *list);

/* Fills in the list WR_PROTECT_FIXED. Returns false if there is no memory. */
bool wr_protect_init(struct wr_protect *protect);
void wr_protect_free(struct wr_protect *protect);

/* Returns the first kind of which a range and the given range have an address in common, or
 * WR_PROTECT_NONE. */
enum wr_protect_kind wr_protect_find(const struct wr_protect *protect,
				     const struct wr_address_range *range);

/* Writes the joined ranges of all kinds to an empty list, IPv4 or IPv6 only. Returns false if there
 * is no memory. */
bool wr_protect_all(const struct wr_protect *protect, bool v4, struct wr_protect_list *all);

#endif
