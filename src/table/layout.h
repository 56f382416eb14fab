/* The bytes of a table file. Layout 2.
 *
 *   page 0   struct wr_header    written once, before the file gets its name; checksummed
 *   page 1   struct wr_tallies   counters and cursors that all processes write
 *   …        sections, each on a page of its own, found through header.sections
 *
 * The file contains offsets and indexes, but no pointers, so it may be mapped at any address. A
 * table of another size or layout is another file: no file is ever initialised a second time. Every
 * value that is read from the file, except from page 0, may be damaged by another process, a bug or
 * a disk. So the value is checked before it is used as an index.
 *
 * WR_SECTION_KEYS is an array of rows of 16 cells. A cache line has two cells. A key has two
 * possible rows, and is in one cell of one of them. Its home is one of the eight cache lines of a
 * row, the same in both rows:
 *
 *   row, 512 bytes
 *   +-------+-------+-------+-------+-------+-------+-------+-------+
 *   | 0   1 | 2   3 | 4   5 | 6   7 | 8   9 |10  11 |12  13 |14  15 |
 *   +-------+-------+-------+-------+-------+-------+-------+-------+
 *    0      64      128     192     256     320     384     448   512
 *
 *   cell, 32 bytes: two pairs, each changed by one compare-and-swap; fields with numbers of bits
 *   +--------+----------------------+  id    tag 64, fresh_at 32, version 16, 4 hints of 4
 *   |  tag   | fresh version hints  |
 *   +--------+----------------------+  hot   s0 64, s1 32, version 16, harm 8, kind 3, state 2,
 *   |  s0    | s1 version harm …    |        override 1, changes 2
 *   +--------+----------------------+
 *
 *   state EMPTY      belongs to no key. A file of zeros is a table of empty cells.
 *   state TENTATIVE  claimed for the key whose tag is in s0 (claim.c)
 *   state LIVE       belongs to the key in id if and only if both versions are equal
 *
 * Of a million keys in a table that is three quarters full, about 75 % are in their home cache line
 * of their first row, so that finding them reads one cache line. A key that is in another cell of
 * its first row has a hint in its home cache line: a cache line has eight hints of 4 bits, and a
 * hint is the number of a cell in this row. Three bits of the key's tag select the hint. A wrong or
 * missing hint makes the search slower, but never gives a key a second cell (claim.c).
 */
#ifndef WR_TABLE_LAYOUT_H
#define WR_TABLE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/pair.h"

#define WR_LAYOUT 2
/* The previous layout, which can be imported. In that layout, the word of a span has 32 bits and
 * contains class + 1, and harm is the share of the limit in use. */
#define WR_LAYOUT_SHARES 1
#define WR_MAGIC "weirtabl"
#define WR_PAGE 4096u

enum wr_section {
	WR_SECTION_KEYS, /* struct wr_row[]: the cells of keys */
	/* An array of struct wr_pair, one for each span of the slab. The pair contains the size
	 * class of the span's blocks (span.h). */
	WR_SECTION_SPANS,
	WR_SECTION_SLAB,    /* struct wr_block in spans: the stamps of sliding window logs */
	WR_SECTION_LANES,   /* statistics of rules, in lanes with one writer each (stats/stats.h) */
	WR_SECTION_HISTORY, /* statistics of rules per second and per minute (stats/history.h) */
	WR_SECTION_TOP,     /* the keys with most requests and most refusals (stats/top.h) */
	WR_SECTION_LEASES,  /* units that Redis granted in advance (store/lease.h) */
	WR_SECTION_BANS,    /* bans in force, and the state of weir shield (table/ban.h) */
	/* An operator's pauses, and texts about overrides: struct wr_control, then struct
	 * wr_note[]. */
	WR_SECTION_OVERRIDES,
	WR_SECTION_DEFERRED, /* keys with deferred requests (table/deferred.h) */
	WR_SECTION_EXCHANGE, /* counters that nodes exchange (store/exchange.h) */
	WR_SECTION_RETURNED, /* tokens that were given back to token buckets (store/returned.h) */
	/* Automatic bans that other nodes are to carry out (table/ban_order.h). */
	WR_SECTION_BAN_ORDERS,
	WR_SECTIONS = 16,
};

struct wr_extent {
	uint64_t offset;
	uint64_t bytes;
};

struct wr_header {
	char magic[8];
	uint32_t layout;
	uint32_t header_bytes;
	uint64_t file_bytes;
	uint64_t created_ns;
	/* The memory_bytes that the caller requested for keys and slab together. */
	uint64_t memory_bytes;
	uint64_t table_id[2]; /* random; identifies this table in Redis as the holder of leases */
	struct wr_extent sections[WR_SECTIONS];
	uint8_t secret[WR_SECRET_BYTES];
	uint64_t span_bytes;
	uint64_t checksum; /* checksum of all fields above */
};

_Static_assert(sizeof(struct wr_header) <= WR_PAGE, "the header is one page");

/* Counts of events in which a table lost state, or requests were refused for lack of room. X(field,
 * meaning) */
#define WR_TALLIES(X)                                                                              \
	X(expired, "cells of expired keys, taken for another key")                                 \
	X(evicted, "live keys forgotten, none of them refused: the table is too small")            \
	X(evicted_refused, "refused keys forgotten, because all candidates had used more")         \
	X(stolen, "claims of dead participants taken over")                                        \
	X(log_evicted, "live logs that became brief to make room in the slab")                     \
	X(log_approximate, "requests decided on a brief log: the slab had no room for a ring")     \
	X(log_full, "requests refused because the slab had no room for their log")                 \
	X(log_lost, "logs found missing: their key starts anew")                                   \
	X(override_evicted, "cells of bans and grants forgotten before their end")                 \
	X(ban_unlisted, "bans in force that are not in the list of bans: it had no room")

struct wr_tallies {
	uint64_t superseded; /* 1: a resized table has replaced this one under the same name */
	uint32_t generation; /* latest generation that was assigned to a block of the slab */
	uint32_t cursor[16]; /* per size class: number of the block to look at next */
	/* Number of spans that have a size class. These spans are the first ones of the slab. */
	uint32_t opened;
	/* High 32 bits: time of the latest update, in seconds. Low 32 bits: number of nodes of the
	 * fleet. 0: never set. */
	uint64_t fleet;
	uint32_t spans_of[16]; /* per size class: approximate number of its spans */
	/* Per size class: time in seconds of the latest request for a block. */
	uint32_t asked_s[16];
	uint32_t emptying;     /* number + 1 of the span that is being emptied; 0: no span */
	uint32_t empty_cursor; /* number of the span to consider next for emptying */
	uint64_t reset_ns;     /* time of the latest reset of a key; 0: none */
	uint32_t spare[6];
#define WR_TALLY_FIELD(field, text) uint64_t field;
	WR_TALLIES(WR_TALLY_FIELD)
#undef WR_TALLY_FIELD
};

_Static_assert(sizeof(struct wr_tallies) <= WR_PAGE, "the tallies are one page");

struct wr_cell {
	struct wr_pair id;
	struct wr_pair hot;
};

#define WR_CELLS 16u

/* The number of rows is limited, because a block of the slab stores the number of its cell in 31
 * bits. The size of the slab is limited, because a cell stores the number of its block in 32
 * bits. */
#define WR_ROWS_MAX (INT32_MAX / WR_CELLS) /* all rows together take up to 64 GiB minus one row */
#define WR_SLAB_MAX ((uint64_t)WR_BLOCK_MIN << 32) /* 256 GiB */

struct wr_row {
	_Alignas(64) struct wr_cell cell[WR_CELLS];
};

_Static_assert(sizeof(struct wr_cell) == 32, "32 bytes for every algorithm");
_Static_assert(sizeof(struct wr_row) == 512, "a row is eight cache lines");

/* A block of the slab: the ring of one key's log. A decision swaps `word`. `tenure` tells which
 * cell has the block, and when the block was taken. Each field is followed by its number of bits:
 *
 *   word.lo    newest stamp 64
 *   word.hi    head 16, count 16, pending 16, sealed 1, generation 15
 *   tenure.lo  generation 32, taken 1, cell index 31
 *   tenure.hi  slot 32, time in seconds when the block was taken 32
 *
 * `lo` and `hi` are swapped together. If the name of a taken block is in no cell, the block can be
 * taken again after a minute. `slot` is the length of a third of the period, as a code (brief.h). A
 * thread that takes the block away needs `slot` to make the log brief. `slot` is 0 if the log has
 * to stay exact. */
struct wr_block {
	struct wr_pair word;
	struct wr_pair tenure;
	uint64_t stamps[];
};

_Static_assert(sizeof(struct wr_block) == 32, "header of a block");

#define WR_BLOCK_MIN 64u          /* number of bytes of a block of class 0, which has 4 stamps */
#define WR_SLAB_CLASSES 14u       /* a block of the largest class has 65532 stamps in 512 KiB */
#define WR_SPAN_MAX (512u * 1024) /* maximum number of bytes of a span */
#define WR_SPAN_MIN 4096u

#define WR_PAUSES 64u
#define WR_NOTE_TEXT 119u

/* An operator's pauses of rules. In the section, an array of struct wr_note follows this struct. A
 * section of zeros means that no rule is paused. Bit 0 of `pausing` is set if single rules are
 * paused, and bit 1 if all rules are paused. The other bits are the number of changes of `pausing`.
 * Every decision reads `pausing`; only an operator's commands write it. */
struct wr_control {
	_Alignas(64) uint64_t pausing;
	uint64_t spare[7];
	/* Hashes of the names of paused rules; 0: the element is free. */
	uint64_t paused[WR_PAUSES];
};

/* A note: the rule and the key of an override as text, for people to read. No decision depends on a
 * note. The field `head` contains the tag of the key and the checksum of the text, so that a half
 * written or overwritten text is detected. */
struct wr_note {
	/* lo: tag of the key, or 0 if this element of the array is free; hi: time of the change in
	 * seconds, and checksum, 32 bits each. */
	struct wr_pair head;
	uint8_t rule_len;
	uint8_t key_len;
	char rule[WR_NOTE_TEXT];
	char key[WR_NOTE_TEXT];
};

_Static_assert(sizeof(struct wr_control) == 576, "a page has room for it and for some notes");
_Static_assert(sizeof(struct wr_note) == 256, "four cache lines");

/* The kind of the state in a cell. The kinds 1 to 5 are the values of enum weir_algorithm. */
enum wr_cell_kind {
	/* s0 is the time when an operator reset the key, in ns (store/override.c). */
	WR_KIND_RESET = 0,
	/* A sliding window log. If s1 is 0, s0 is the name of its block in the slab: number and
	 * generation of the block, 32 bits each. Otherwise the log is in the cell, see
	 * table/brief.h. A limit on concurrent requests has this kind too. Its s1 is never 0 and
	 * has the bit WR_LOG_SLOTS, and s0 is the name of the block with its slots. */
	WR_KIND_LOG = 5,
	WR_KIND_SOFT = 6, /* the second state of a key in soft mode (algo/soft.h) */
	/* A ban or grant (table/override.h). s0 contains the end of the ban and the end of the
	 * grant in seconds, 32 bits each. s1 is the granted amount. */
	WR_KIND_OVERRIDE = 7,
};

enum wr_cell_state { WR_EMPTY, WR_TENTATIVE, WR_LIVE };

/* Harm has 8 bits. The highest bit is set if the latest request of the key was refused. The other 7
 * bits are the number of units that the key has used, on a logarithmic scale (algo/harm.h). A
 * refused key has the same weight as a key that was not refused and has used four times as many
 * units. */
#define WR_HARM_MOST 127u
#define WR_HARM_REFUSED 128u
#define WR_HARM_REFUSED_WEIGHT 8u

/* The functions below read and write the fields of hot.hi and id.hi. */
static inline uint32_t wr_hot_s1(struct wr_pair hot)
{
	return (uint32_t)hot.hi;
}

static inline uint16_t wr_hot_version(struct wr_pair hot)
{
	return (uint16_t)(hot.hi >> 32);
}

static inline unsigned wr_hot_harm(struct wr_pair hot)
{
	return (unsigned)(hot.hi >> 48) & 0xff;
}

static inline bool wr_hot_refused(struct wr_pair hot)
{
	return wr_hot_harm(hot) & WR_HARM_REFUSED;
}

/* Returns the weight of a key. Keys with less weight are evicted first. */
static inline unsigned wr_hot_weight(struct wr_pair hot)
{
	unsigned harm = wr_hot_harm(hot);

	return (harm & WR_HARM_MOST) + (harm & WR_HARM_REFUSED ? WR_HARM_REFUSED_WEIGHT : 0);
}

static inline unsigned wr_hot_kind(struct wr_pair hot)
{
	return (unsigned)(hot.hi >> 56) & 7;
}

static inline unsigned wr_hot_state(struct wr_pair hot)
{
	return (unsigned)(hot.hi >> 59) & 3;
}

/* Returns true if s1 belongs to a cell with the slots of a limit on concurrent requests. */
static inline bool wr_hot_has_slots(struct wr_pair hot)
{
	return wr_hot_s1(hot) >> 29 == 1;
}

/* Returns true if the cell contains a log whose ring is in a block of the slab, or if its slots are
 * in a block. Then s0 is the name of the block. */
static inline bool wr_hot_names_block(struct wr_pair hot)
{
	return wr_hot_state(hot) == WR_LIVE && wr_hot_kind(hot) == WR_KIND_LOG &&
	       (wr_hot_s1(hot) == 0 || wr_hot_has_slots(hot)) && hot.lo != 0;
}

/* Returns true if the key has an override. The override itself is in another cell. */
static inline bool wr_hot_override(struct wr_pair hot)
{
	return hot.hi >> 61 & 1;
}

/* Returns the override bit and the count of changes of the override. The count wraps after four
 * changes. A ban that replaces another ban changes this value too. */
static inline unsigned wr_hot_changes(struct wr_pair hot)
{
	return (unsigned)(hot.hi >> 61);
}

/* Returns true if the cell is LIVE and has no override. Needs only one comparison. */
static inline bool wr_hot_plain(struct wr_pair hot)
{
	return (hot.hi >> 59 & 7) == WR_LIVE;
}

static inline struct wr_pair wr_hot(uint64_t s0, uint32_t s1, uint16_t version, unsigned kind,
				    unsigned state)
{
	struct wr_pair hot = {s0, s1 | (uint64_t)version << 32 | (uint64_t)kind << 56 |
					  (uint64_t)state << 59};

	return hot;
}

/* Returns the hot pair with other values of s0, s1 and harm. The other fields stay. */
static inline struct wr_pair wr_hot_with(struct wr_pair hot, uint64_t s0, uint32_t s1,
					 unsigned harm)
{
	struct wr_pair next = {s0, (hot.hi & 0xff00ffff00000000u) | s1 | (uint64_t)harm << 48};

	return next;
}

/* Returns the hot pair with another kind. A cell that was made for a ban or a grant can have a kind
 * that does not fit the state of its key. */
static inline struct wr_pair wr_hot_of_kind(struct wr_pair hot, enum wr_cell_kind kind)
{
	hot.hi = (hot.hi & ~(7ull << 56)) | (uint64_t)kind << 56;
	return hot;
}

/* Returns the hot pair with the override bit set and the count of changes raised. */
static inline struct wr_pair wr_hot_overridden(struct wr_pair hot)
{
	hot.hi = (hot.hi | 1ull << 61) + (1ull << 62);
	return hot;
}

/* Returns the hot pair without the override bit. */
static inline struct wr_pair wr_hot_free(struct wr_pair hot)
{
	hot.hi &= ~(1ull << 61);
	return hot;
}

static inline uint32_t wr_id_fresh_s(struct wr_pair id)
{
	return (uint32_t)id.hi;
}

static inline uint16_t wr_id_version(struct wr_pair id)
{
	return (uint16_t)(id.hi >> 32);
}

/* Returns the id pair of a key that takes over a cell. The hints in the pair stay, because they
 * belong to other keys. */
static inline struct wr_pair wr_id(struct wr_key key, uint16_t version, struct wr_pair before)
{
	struct wr_pair id = {key.tag, (before.hi & 0xffff000000000000u) | (uint64_t)version << 32};

	return id;
}

#endif
