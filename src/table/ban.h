/* The list of bans in force, in WR_SECTION_BANS.
 *
 * Decisions do not read this list: a decision reads the ban of a key from the key's override cell
 * (table/override.h). The list exists for readers that need more than the key's hash: `weir ban
 * list`, the admin API, the metrics, and weir shield, which needs the addresses of banned clients.
 *
 *   section   a head with the count of changes and the state of the shield, then cells of 64 bytes
 *
 * A table of an older version has no such section, or a smaller one. A section without room for a
 * cell is an empty list, into which nothing can be written.
 *
 * The section also contains bans of addresses without a counter, which `weir shield add` sets. The
 * gateway does not refuse these addresses; only weir shield reads them.
 *
 * A table of 64 MiB has 65,532 cells, and room for 62,000 bans: a ban can be in 256 of the cells, and
 * the first ban without a free one comes when about 97 % of all cells are in use. If there is no room
 * for all bans, those that end first are in force, but they are not in the list. The tally
 * `ban_unlisted` counts them. */
#ifndef WR_TABLE_BAN_H
#define WR_TABLE_BAN_H

#include <weir/rules.h>

#include "base/address.h"
#include "table/table.h"

enum wr_ban_flags {
	WR_BAN_AUTOMATIC = 1, /* set by the `ban` of a rule, not by an operator */
	WR_BAN_SHIELD = 2,    /* weir shield drops the packets of the address */
	WR_BAN_SHADOW = 4,    /* would be in force if the rule were enforced; never in the shield */
	WR_BAN_BARE = 8,      /* the ban of an address without a counter (weir shield add) */
};

/* A ban, as a copy of the list's entry. */
struct wr_ban {
	struct wr_key key; /* of the banned counter; of a bare ban: wr_ban_bare_key() */
	uint64_t rule;     /* wr_ban_rule_hash() of the rule's name in statistics; 0: no rule */
	/* weir_limit.checked of the banned counter: the counters of a rule are new if its algorithm
	 * changes, but its name in statistics stays. 0: not known */
	uint64_t limit;
	uint32_t since_s;
	uint32_t until_s;    /* WR_FOR_GOOD: the ban never ends */
	uint8_t address[16]; /* an IPv4 address is in the first four bytes */
	uint8_t family;      /* 4 or 6; 0: the key contains no address */
	uint8_t prefix_bits; /* 32 or 128 for a single address */
	uint8_t flags;       /* enum wr_ban_flags */
	uint8_t level;       /* 1 for the first ban of a day, 2 for the second; operators: 0 */
};

/* Returns the hash that identifies a rule. `name` is its name as the statistics show it: a long name
 * is cut there (wr_stats_name_of()). */
uint64_t wr_ban_rule_hash(struct weir_str name);

/* Sets the address of the ban. `bits` is the length of the prefix, as wr_address_prefix_parse() sets
 * it. */
void wr_ban_set_address(struct wr_ban *ban, const struct wr_address *address, unsigned bits);

/* Writes the address or prefix of a ban as text, without a zero byte at the end. Returns its length,
 * or 0 if the ban has none. */
size_t wr_ban_address_text(const struct wr_ban *ban, char text[WR_ADDRESS_TEXT]);

/* Returns the key of a bare ban. */
struct wr_key wr_ban_bare_key(const struct weir_table *table, const uint8_t address[16],
			      unsigned family, unsigned prefix_bits);

/* Writes the ban of ban->key to the list. An earlier ban of this key is replaced. If no entry that
 * the key can have is free or has ended, the ban replaces the ban among them that ends first, if the new
 * ban ends later. A ban in shadow mode never replaces another ban, except one in shadow mode, and
 * gives way to any other. A bare ban is never replaced. Returns false if the list has no room, or if
 * the family or the length of the prefix is invalid. For each ban that gets no entry or loses its
 * entry, the tally `ban_unlisted` is raised. */
bool wr_ban_write(struct weir_table *table, const struct wr_ban *ban, uint32_t now_s);

/* Copies the ban of the key. Returns false if the list has no ban of the key in force. */
bool wr_ban_read(const struct weir_table *table, struct wr_key key, uint32_t now_s,
		 struct wr_ban *ban);

/* Removes the ban of the key from the list. */
void wr_ban_forget(struct weir_table *table, struct wr_key key);

/* Returns a count that is different after each wr_ban_write() and wr_ban_forget() of any process.
 * A reader that finds the count unchanged need not read the list again. A process that is killed
 * during a change may leave the count unchanged, so readers read the list every minute anyway. */
uint64_t wr_ban_changes(const struct weir_table *table);

/* Calls `fn` for each ban in force, in no particular order, until `fn` returns a value other than
 * 0. Returns this value, or 0. A ban that is written during the call may be left out; the count of
 * wr_ban_changes() then differs from its value before the call. */
typedef int (*wr_ban_fn)(void *context, const struct wr_ban *ban);
int wr_bans_each(const struct weir_table *table, uint32_t now_s, wr_ban_fn fn, void *context);

/* Copies bans in force from one table to another (resize, import), after their overrides were
 * copied. A ban whose override has another end in `to` is left out, because it was changed there. A
 * ban that is in the list of `to` already stays as it is. */
void wr_bans_import(struct weir_table *to, struct weir_table *from, uint32_t now_s);

/* The state of weir shield, for metrics and the dashboard. One shield at a time writes it. X(field,
 * meaning) */
#define WR_SHIELD_FIELDS(X)                                                                        \
	X(pid, "process id of the shield; 0: there is none")                                       \
	X(updated_s, "time of the latest update, in seconds")                                      \
	X(elements_v4, "IPv4 addresses in the kernel's set")                                       \
	X(elements_v6, "IPv6 networks in the kernel's set")                                        \
	X(prefixes, "shorter prefixes in the kernel's sets")                                       \
	X(packets, "packets that the kernel dropped")                                              \
	X(bytes, "bytes that the kernel dropped")                                                  \
	X(skipped, "bans that are not carried over: protected address, or the rule is suspended")  \
	X(left_out, "bans that are not carried over, because the kernel's set is full")            \
	X(failures, "changes that the kernel did not accept")

struct wr_shield_state {
#define WR_SHIELD_FIELD(field, meaning) uint64_t field;
	WR_SHIELD_FIELDS(WR_SHIELD_FIELD)
#undef WR_SHIELD_FIELD
};

/* A reader may see fields of two updates. All fields are 0 if no shield ran since the table was
 * made. */
void wr_shield_state_write(struct weir_table *table, const struct wr_shield_state *state);
void wr_shield_state_read(const struct weir_table *table, struct wr_shield_state *state);

#endif
