/* An engine, its generations of rules, and who holds them.
 *
 * A request holds the generation it began with. Holding must not cost what counting on one shared
 * word costs, and a generation must be freed soon after its last request, so each has a counter per
 * shard, a shard being a few threads:
 *
 *   request   g = current; add 1 to g's counter of my shard; if current is still g, it is held,
 *             else subtract and begin again
 *   swap      current = new; when all counters of the old one are 0, nobody holds it
 *
 * The add and the store of `current` are sequentially consistent, and so are the loads behind them:
 * either the request sees that current has moved on, or the swap sees the count. A counter that was
 * 0 after that stays free of holders: who counts up later takes it back. Each holder uses one
 * counter for both, so none is ever below 0 and they may be read one after the other.
 *
 * A generation's struct is used again, never freed before the engine is: a request that counts up
 * on one that has just been freed touches no foreign memory. */
#ifndef WR_LIMITER_ENGINE_H
#define WR_LIMITER_ENGINE_H

#include <pthread.h>

#include <weir/host.h>

#include "rules/rules.h"
#include "stats/stats.h"
#include "table/table.h"

#define WR_SHARDS 64u

struct wr_shard {
	_Alignas(64) uint64_t holders;
};

/* A limit as header fields speak of it, made once: "route.ip/1d";q=10;w=86400 */
struct wr_said {
	uint32_t at;   /* in the generation's said_text */
	uint8_t label; /* length of the name with its quotes */
	uint8_t len;   /* of it all; only the label if the window is a calendar's */
};

struct wr_generation {
	struct weir_rules *rules; /* NULL: not in use, or there are none */
	/* Slots in the statistics: of limit i of node n at first[n->id] + i, of overrides in a
	 * domain at first[domain->id]. */
	uint32_t *first;
	uint32_t *slots;
	uint32_t *
		candidates; /* slots of the candidates of slots[i]: candidate_slots from there on */
	uint32_t *candidate_slots;
	struct wr_said *said; /* numbered as slots */
	char *said_text;
	uint64_t number;
	struct wr_generation *next; /* of all the engine has made */
	struct wr_shard shards[WR_SHARDS];
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the lock begins a line of its own
struct weir_engine {
	struct wr_generation *current;
	struct weir_table *table;
	const uint8_t *fleet_secret; /* NULL: not known yet; see fleet.h */
	bool central;
	bool uncounted;      /* WEIR_ENGINE_NO_STATS */
	uint32_t fleet_size; /* where the table knows none; at least 1 */
	uint32_t near_percent;
	uint32_t keys; /* enum weir_engine_keys */
	struct wr_stats stats;
	/* Another clock for leases and exchanges than base/mono.h: a simulation's or a test's. */
	uint64_t (*mono)(void *context);
	void *mono_context;

	_Alignas(64) pthread_mutex_t lock; /* of all below */
	struct wr_generation *generations;
	struct weir_engine_info info;
	struct wr_fleet_secret *fleet_secrets; /* all there were */
};

/* Makes a generation of rules, which may be NULL. The lock is held. NULL: no memory. */
struct wr_generation *wr_generation_make(struct weir_engine *engine, struct weir_rules *rules);

/* Tells the statistics what the rules of a generation are. */
void wr_generation_note(struct weir_engine *engine, const struct wr_generation *generation,
			uint64_t now_ns);

/* Frees the rules of those that are neither current nor held. The lock is held. */
void wr_generations_reclaim(struct weir_engine *engine);

/* Someone let go of a generation that is not current any more. */
void wr_generation_left(struct weir_engine *engine);

/* The next in file order, children before siblings; NULL behind the last. */
const struct wr_node *wr_node_next(const struct wr_node *node);

/* What overrides in a domain are counted under. */
struct weir_str wr_overrides_stat(const struct wr_node *domain, char name[WR_STAT_NAME_MAX + 1]);

extern _Thread_local unsigned wr_shard_number __attribute__((tls_model("initial-exec")));
unsigned wr_shard_choose(void);

static inline unsigned wr_shard_mine(void)
{
	return __builtin_expect(wr_shard_number != 0, 1) ? wr_shard_number - 1 : wr_shard_choose();
}

static inline void wr_generation_release(struct weir_engine *engine, struct wr_generation *held,
					 unsigned shard)
{
	__atomic_fetch_sub(&held->shards[shard].holders, 1, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&engine->current, __ATOMIC_SEQ_CST) != held, 0))
		wr_generation_left(engine);
}

static inline struct wr_generation *wr_generation_hold(struct weir_engine *engine, unsigned shard)
{
	struct wr_generation *seen = __atomic_load_n(&engine->current, __ATOMIC_SEQ_CST);

	for (;;) {
		struct wr_generation *now;

		__atomic_fetch_add(&seen->shards[shard].holders, 1, __ATOMIC_SEQ_CST);
		now = __atomic_load_n(&engine->current, __ATOMIC_SEQ_CST);
		if (__builtin_expect(now == seen, 1))
			return seen;
		wr_generation_release(engine, seen, shard);
		seen = now;
	}
}

#endif
