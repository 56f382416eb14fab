/* The exchange script: stores the units that each node admitted of a counter, and returns the sum
 * of the other nodes.
 *
 *   EVALSHA sha1 1 PREFIX:1:{H}:e:id args…
 *
 * The key is a hash. It maps a holder to its state: the units that it admitted in a window and in
 * the window before (window, plus, minus, plus before, minus before). The numbers are absolute and
 * only rise within a window. Two states of a holder merge by the maximum of each number. So a call
 * that comes twice, late or not at all does no harm: the next call repairs the state. States of
 * windows before `oldest` are dropped if they are old by the clock of Redis as well.
 *
 * A fixed window is identified by its number, a calendar window by the second in which it begins. A
 * sliding counter needs both windows. A token bucket has no windows: its units are counted in spans
 * in which it fills up completely, because units taken earlier have been refilled. So nothing needs
 * to be stored for longer, and units that are lost, or return after a partition, matter for two
 * spans at most.
 *
 * A holder's name is "region/name". Each holder pushes its own state into the Redis of the other
 * regions with wr_script_push, where states are merged in the same way. If a push fails, the hash
 * records that the other region may lack data. Then the next holder that can reach that region
 * relays to it, while no other holder does: it gets the states of its own region page by page,
 * pushes them, and reports when all states have arrived. So the data arrives even if the holder
 * that admitted the units is gone. */
#ifndef WR_REDIS_SCRIPT_EXCHANGE_H
#define WR_REDIS_SCRIPT_EXCHANGE_H

#include <weir/rules.h>

#include "redis/script.h"

#define WR_EXCHANGE_NAME 96u /* maximum length of a holder's name in bytes, including its region */
#define WR_EXCHANGE_REGION 32u /* maximum length of the region in a holder's name, in bytes */
#define WR_EXCHANGE_VALUE 112u /* size of a buffer for a state as text */
/* The maximum of any number. A larger number is replaced by it. */
#define WR_EXCHANGE_NUMBER_MAX (1ull << 52)
#define WR_EXCHANGE_TAG 8u   /* number of letters of a tag, which identifies another region */
#define WR_EXCHANGE_PAGE 64u /* maximum number of states in a page */

struct wr_exchange_tally {
	uint64_t plus, minus; /* units admitted, and units given back */
};

/* The units that a holder admitted. */
struct wr_exchange_state {
	uint64_t window;
	struct wr_exchange_tally now, before;
};

struct wr_exchange_call {
	struct weir_str holder; /* "region/name", without blanks */
	struct wr_exchange_state state;
	uint64_t oldest;  /* states of earlier windows can be dropped */
	uint64_t unit_ns; /* windows are numbered in multiples of this time since the epoch */
	uint64_t life_us; /* how long the state must be stored */

	/* Tags of other regions, without separators. `lacking` are the regions that may lack data
	 * of this region. `reached` are the regions that this node can reach. */
	struct weir_str lacking, reached;
	struct weir_str relayed; /* tag of the region that the holder relays to, or "" */
	uint64_t relayed_us;     /* when relaying began, from an earlier page */
	/* The last name that has arrived in that region; "" if all names have arrived. */
	struct weir_str last;
	uint64_t relay_ms; /* the time for which no other holder may relay to that region */
};

struct wr_exchanged {
	/* Sums of all other holders in the windows of the call. */
	struct wr_exchange_tally now, before;
	uint32_t others; /* number of other holders */
};

/* The name and the state of a holder, as bytes to be pushed. */
struct wr_exchange_entry {
	struct weir_str holder, value;
};

/* The states that the holder must relay. */
struct wr_exchange_page {
	struct weir_str region; /* tag of the region to relay to; "" if there is nothing to relay */
	uint64_t since_us;      /* when relaying began, by the clock of Redis */
	bool more;
	size_t count;
	struct wr_exchange_entry entries[WR_EXCHANGE_PAGE];
};

size_t wr_script_exchange_argc(void);
void wr_script_exchange_args(const struct wr_exchange_call *call, struct wr_commands *out);

/* Reads the reply. Returns 0, or WEIR_EFORMAT if the reply is malformed. The page points into the
 * reply. */
int wr_script_exchange_reply(const struct redisReply *reply, struct wr_exchanged *exchanged,
			     struct wr_exchange_page *page);

/* Writes a state as the value of an entry. Returns the length of the value. */
size_t wr_exchange_value(const struct wr_exchange_state *state, char value[WR_EXCHANGE_VALUE]);

/* wr_script_push_argc returns the number of arguments of the push script, and wr_script_push_args
 * writes them. The reply to the script is a number without meaning. */
size_t wr_script_push_argc(size_t count);
void wr_script_push_args(const struct wr_exchange_entry *entries, size_t count, uint64_t life_us,
			 struct wr_commands *out);

#endif
