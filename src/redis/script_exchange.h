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
 * A holder's name is "region/name": regions push what is theirs into the Redis of the others by
 * wr_script_push, where it merges just the same. */
#ifndef WR_REDIS_SCRIPT_EXCHANGE_H
#define WR_REDIS_SCRIPT_EXCHANGE_H

#include <weir/rules.h>

#include "redis/script.h"

#define WR_EXCHANGE_NAME 96u          /* bytes of a holder's name, its region's included */
#define WR_EXCHANGE_REGION 32u        /* … of that */
#define WR_EXCHANGE_VALUE 112u        /* bytes of a state as text */
#define WR_EXCHANGE_MOST (1ull << 52) /* any number; what is above counts as this */

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
	bool entries;     /* the states of the holder's whole region are asked for, too */
};

struct wr_exchanged {
	struct wr_exchange_tally now, before; /* of all others together, in these windows */
	uint32_t others;                      /* how many they are */
};

/* A state under its holder's name, as bytes to be pushed. */
struct wr_exchange_entry {
	struct weir_str holder, value;
};

size_t wr_script_exchange_argc(void);
void wr_script_exchange_args(const struct wr_exchange_call *call, struct wr_commands *out);

/* Reads the reply; WEIR_EFORMAT. Up to `cap` entries of those asked for, *count of them; their
 * bytes last as long as the reply. */
int wr_script_exchange_reply(const struct redisReply *reply, struct wr_exchanged *exchanged,
			     struct wr_exchange_entry *entries, size_t cap, size_t *count);

/* The state as an entry's value; returns its length. */
size_t wr_exchange_value(const struct wr_exchange_state *state, char value[WR_EXCHANGE_VALUE]);

/* Push: the reply is a number, which says nothing. */
size_t wr_script_push_argc(size_t count);
void wr_script_push_args(const struct wr_exchange_entry *entries, size_t count, uint64_t life_us,
			 struct wr_commands *out);

#endif
