/* The exchange script: stores the units that each node admitted of a counter, and returns the sum
 * of the other nodes.
 *
 *   EVALSHA sha1 1 PREFIX:1:{H}:e:id args…
 *
 * The key is a hash. It maps a holder (a node) to a state: the units that the holder admitted
 * (plus) and gave back (minus) in a window and in the window before. The units are totals, which
 * only rise within a window. When two states of a holder are merged, the higher total is kept for
 * each window. So a call that comes twice, too late or not at all does no harm: the next call
 * repairs the state. States of windows before `oldest` are deleted if they are also old by the
 * clock of Redis.
 *
 * A fixed window is identified by its number, a calendar window by the second in which it begins. A
 * sliding counter needs both windows. A token bucket has no windows: its units are counted in
 * fill intervals, which are as long as an empty bucket needs to become full. Only two fill
 * intervals are stored, because units that were taken earlier have been refilled. So units that are
 * lost, or that arrive only after a partition, matter for two fill intervals at most.
 *
 * A holder's name is "region/name". Each holder pushes its own state into the Redis of the other
 * regions with wr_redis_script_push, where states are merged in the same way. If a push fails, the
 * hash records that the other region may lack data. Then the next holder that can reach that region
 * relays to it, unless another holder already does: the relaying holder gets the states of its own
 * region page by page, pushes them, and tells its own Redis when all states have arrived. So the
 * data arrives even if the holder that admitted the units is gone. */
#ifndef WR_REDIS_SCRIPT_EXCHANGE_H
#define WR_REDIS_SCRIPT_EXCHANGE_H

#include <weir/rules.h>

#include "redis/script.h"

#define WR_EXCHANGE_NAME 96u /* maximum length of a holder's name in bytes, including its region */
#define WR_EXCHANGE_REGION 32u /* maximum length of the region in a holder's name, in bytes */
#define WR_EXCHANGE_VALUE 112u /* size of a buffer for a state as text */
/* Maximum of each number in a state. A larger number is replaced by this maximum. */
#define WR_EXCHANGE_NUMBER_MAX (1ull << 52)
#define WR_EXCHANGE_TAG 8u   /* number of letters of a tag, which identifies another region */
#define WR_EXCHANGE_PAGE 64u /* maximum number of states in a page */

struct wr_redis_exchange_tally {
	uint64_t plus, minus; /* units admitted, and units given back */
};

/* The units that a holder admitted in a window (`now`) and in the window before (`before`). */
struct wr_redis_exchange_state {
	uint64_t window;
	struct wr_redis_exchange_tally now, before;
};

struct wr_redis_exchange_call {
	struct weir_str holder; /* "region/name", without blanks */
	struct wr_redis_exchange_state state;
	uint64_t oldest;  /* number of a window; states of earlier windows can be deleted */
	uint64_t unit_ns; /* a window's number is its start since the epoch, divided by unit_ns */
	uint64_t life_us; /* how long the state must be stored */

	/* Tags of other regions, without separators. `lacking` are the regions that may lack data
	 * of this region. `reached` are the regions that this node can reach. */
	struct weir_str lacking, reached;
	struct weir_str relayed; /* tag of the region that the holder relays to, or "" */
	uint64_t relayed_us;     /* time at which relaying began: since_us of the previous page */
	/* Name of the last holder whose state has arrived in the region `relayed`; "" if all states
	 * have arrived. */
	struct weir_str last;
	uint64_t relay_ms; /* how long no other holder is allowed to relay to the same region */
};

struct wr_exchanged {
	/* The units of all other holders together, in the windows of wr_redis_exchange_call.state.
	 * */
	struct wr_redis_exchange_tally now, before;
	uint32_t others; /* number of other holders */
};

/* The name and the state of a holder, as bytes to be pushed. */
struct wr_redis_exchange_entry {
	struct weir_str holder, value;
};

/* A page: some of the states that the holder must relay to another region. */
struct wr_redis_exchange_page {
	struct weir_str region; /* tag of the region to relay to; "" if there is nothing to relay */
	uint64_t since_us;      /* when relaying began, by the clock of Redis */
	bool more;
	size_t count;
	struct wr_redis_exchange_entry entries[WR_EXCHANGE_PAGE];
};

size_t wr_script_exchange_argc(void);
void wr_script_exchange_args(const struct wr_redis_exchange_call *call, struct wr_commands *out);

/* Reads the reply. Returns 0, or WEIR_EFORMAT if the reply is malformed. The page points into the
 * reply. */
int wr_script_exchange_reply(const struct redisReply *reply, struct wr_exchanged *exchanged,
			     struct wr_redis_exchange_page *page);

/* Writes a state as text, in the form in which the hash stores it. Returns the length of the
 * text. */
size_t wr_redis_exchange_value(const struct wr_redis_exchange_state *state,
			       char value[WR_EXCHANGE_VALUE]);

/* wr_script_push_argc returns the number of arguments of the push script, and wr_script_push_args
 * writes them. The reply to the script is a number without meaning. */
size_t wr_script_push_argc(size_t count);
void wr_script_push_args(const struct wr_redis_exchange_entry *entries, size_t count,
			 uint64_t life_us, struct wr_commands *out);

#endif
