/* Ends many bans at once: all bans of an address, of a rule, or of the whole table. Called by the
 * admin API, and for such orders of other nodes. A ban of one descriptor is ended by
 * weir_control_ban(). */
#ifndef WR_LIMITER_RELEASE_H
#define WR_LIMITER_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/control.h>
#include <weir/engine.h>
#include <weir/error.h>
#include <weir/rules.h>

#include "base/address.h"
#include "table/ban.h"

/* Selects bans. A ban is selected if it meets all conditions. */
struct wr_release {
	struct weir_str rule; /* the rule's name in statistics; "": any rule */
	/* If `has_address` is true: the ban's network and this network overlap. `bits` is the
	 * length of the prefix, at most 32 for IPv4 and at most 128 for IPv6. */
	bool has_address;
	struct wr_address address;
	uint8_t bits;
	uint8_t flags_on;  /* enum wr_ban_flags: all of these flags are set */
	uint8_t flags_off; /* none of these flags is set */
	/* If not 0: the ban began at this time or earlier. An old message of another node does not
	 * end newer bans. */
	uint32_t begun_s;
};

/* Reads the kind of a ban: "automatic" or "operator" for bans that are in force, "shadow" for bans
 * that would be in force. Returns false if the text is none of these. */
bool wr_release_kind(struct wr_release *release, struct weir_str text);

/* Reads an address or a prefix, such as "192.0.2.7" or "2001:db8::/64", into release->address and
 * release->bits. Bits behind the prefix are ignored. Returns false if the text is neither. */
bool wr_release_address(struct wr_release *release, struct weir_str text);

/* Reads the conditions of an order (WR_ORDER_RELEASE), which has them as the entries of its target:
 * address, rule and kind, or all without a value. Returns WEIR_EINVAL if an entry is invalid. */
int wr_release_read(struct wr_release *release, const struct weir_target *conditions,
		    struct weir_error *error);

/* Returns whether the ban is selected. */
bool wr_release_means(const struct wr_release *release, const struct wr_ban *ban);

/* Ends the selected bans. Returns the number of bans that were ended, or WEIR_ETIME.
 *
 * Reads the whole list of bans. If the list had no room for some bans, reads the whole table too. Of a
 * ban that is not in the list, the address is not known, and the rule only if the key has a note. If
 * an operator has set it, its beginning is not known. Such a ban does not meet a condition that needs
 * what is not known. */
int wr_release_bans(struct weir_engine *engine, const struct wr_release *release, uint64_t now_ns);

/* Returns the number of bans in force that are not in the list of bans. Reads the whole table, unless
 * every ban is in the list. */
uint64_t wr_release_unlisted(struct weir_table *table, uint32_t now_s);

#endif
