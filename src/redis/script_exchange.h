/* The exchange script: what each node admitted of a counter by itself, so that all know the sum.
 *
 *   EVALSHA sha1 1 PREFIX:1:{H}:e:id args…
 *
 * The key is a hash, holder → what it admitted in a window and in the one before: (window, plus,
 * minus, plus before, minus before), absolute numbers that only rise within a window. Two states of
 * a holder merge by the maximum of each number; so a call that comes twice, late or not at all does
 * no harm, and the next one heals it. Those of windows before `oldest` are dropped, if they are as
 * old by the clock of Redis.
 *
 * A fixed window's number is its own; a calendar's the second it begins at. A sliding counter needs
 * both windows. A token bucket has no windows: it is counted in spans in which it fills up, for
 * what was taken before has flown in again. Then nothing has to be kept for longer, and what is
 * lost or comes back after a partition matters for two spans at most.
 *
 * A holder's name is "region/name". Each pushes its own state into the Redis of other regions by
 * wr_script_push, where it merges just the same. If that fails, the hash gets a note that the other
 * region may lack something. Whichever holder comes next and can reach that region relays to it,
 * alone: it gets the states of its whole region, page by page, and says when all have arrived. So
 * they arrive even if the holder is gone that admitted something. */
#ifndef WR_REDIS_SCRIPT_EXCHANGE_H
#define WR_REDIS_SCRIPT_EXCHANGE_H

#include <weir/rules.h>

#include "redis/script.h"

#define WR_EXCHANGE_NAME 96u          /* bytes of a holder's name, its region's included */
#define WR_EXCHANGE_REGION 32u        /* … of that */
#define WR_EXCHANGE_VALUE 112u        /* bytes of a state as text */
#define WR_EXCHANGE_MOST (1ull << 52) /* any number; what is above counts as this */
#define WR_EXCHANGE_TAG 8u            /* letters that stand for another region */
#define WR_EXCHANGE_PAGE 64u          /* states relayed at once */

struct wr_exchange_tally {
	uint64_t plus, minus; /* admitted, and given back */
};

/* What a holder admitted. */
struct wr_exchange_state {
	uint64_t window;
	struct wr_exchange_tally now, before;
};

struct wr_exchange_call {
	struct weir_str holder; /* "region/name", without blanks */
	struct wr_exchange_state state;
	uint64_t oldest;  /* windows before this one are of no use to anybody */
	uint64_t unit_ns; /* windows are numbered in multiples of this since the epoch */
	uint64_t life_us; /* for how long what is written matters */

	/* Other regions, by their tags, one behind the other: those that may lack a state of this
	 * one, and those that can be reached. */
	struct weir_str lacking, reached;
	struct weir_str relayed; /* tag of the region that the holder relays to, or "" */
	uint64_t relayed_us;     /* … since when, as an earlier page said */
	struct weir_str last;    /* … the last name that has arrived there; "": all have */
	uint64_t relay_ms;       /* for how long nobody else relays */
};

struct wr_exchanged {
	struct wr_exchange_tally now, before; /* of all others together, in these windows */
	uint32_t others;                      /* how many they are */
};

/* A state under its holder's name, as bytes to be pushed. */
struct wr_exchange_entry {
	struct weir_str holder, value;
};

/* What the holder is to relay. */
struct wr_exchange_page {
	struct weir_str region; /* its tag; "": nothing */
	uint64_t since_us;      /* by the clock of Redis */
	bool more;
	size_t count;
	struct wr_exchange_entry entries[WR_EXCHANGE_PAGE];
};

size_t wr_script_exchange_argc(void);
void wr_script_exchange_args(const struct wr_exchange_call *call, struct wr_commands *out);

/* Reads the reply; WEIR_EFORMAT. The bytes of the page last as long as the reply. */
int wr_script_exchange_reply(const struct redisReply *reply, struct wr_exchanged *exchanged,
			     struct wr_exchange_page *page);

/* The state as an entry's value; returns its length. */
size_t wr_exchange_value(const struct wr_exchange_state *state, char value[WR_EXCHANGE_VALUE]);

/* Push: the reply is a number, which says nothing. */
size_t wr_script_push_argc(size_t count);
void wr_script_push_args(const struct wr_exchange_entry *entries, size_t count, uint64_t life_us,
			 struct wr_commands *out);

#endif
