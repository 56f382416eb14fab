/* An engine and its generations of rules.
 *
 * A request holds the generation of rules that was current when the request began. Each generation
 * counts the requests that hold it in 64 counters (`shards`). Each thread uses one of the counters,
 * because one counter that all threads write would be slow:
 *
 *   request   g = current; add 1 to my thread's counter in g; if current is still g, the request
 *             holds g, otherwise subtract 1 and start again
 *   swap      current = new; when all counters of the old generation are 0, its rules are freed
 *
 * The addition, the write of `current` and the reads after them are sequentially consistent, so
 * either the request sees the new `current`, or the swap sees the counter above 0. If a counter is
 * 0 after the swap, no request that uses it holds the generation: a request that increments the
 * counter later finds the new `current` and decrements the counter again. A request adds to and
 * subtracts from the same counter, so no counter is ever below 0, and the counters may be read one
 * after the other.
 *
 * The struct of a generation is reused, and freed only with the engine. So a request that
 * increments the counter of a generation whose rules were just freed accesses valid memory. */
#ifndef WR_LIMITER_ENGINE_H
#define WR_LIMITER_ENGINE_H

#include <pthread.h>

#include <weir/host.h>

#include "rules/rules.h"
#include "stats/stats.h"
#include "table/table.h"

#define WR_ENGINE_MAGIC 0x676e6577
#define WR_LIMITER_SHARDS 64u

struct wr_limiter_shard {
	_Alignas(64) uint64_t holders;
};

/* The text of a limit in header fields, such as "route.ip/1d";q=10;w=86400. It is written once,
 * when the generation is made. */
struct wr_policy_text {
	uint32_t at;   /* offset into the generation's policy_text */
	uint8_t label; /* length of the name in the text, including its quotes */
	/* Length of the whole text. For a calendar window the text is only the name, so its length
	 * is equal to `label`; the parameters q and w are written with each response. */
	uint8_t len;
};

struct wr_generation {
	struct weir_rules *rules; /* NULL: the generation is not in use, or has no rules */
	/* Slots in the statistics. The slot of limit i of the rule n is slots[first[n->id] + i].
	 * All limits that come with requests to a domain have the slot slots[first[domain->id]]. */
	uint32_t *first;
	uint32_t *slots;
	/* The candidates of the limit with the slot slots[i] have consecutive elements of
	 * candidate_slots. The first of these elements has the index candidates[i]. */
	uint32_t *candidates;
	uint32_t *candidate_slots;
	/* Slots of the costs of rules (settle_count.c), with the same indexes as `slots`. 0: not
	 * looked up yet. */
	uint32_t *cost_slots;
	/* The same for the counts of bans of rules with `ban`. */
	uint32_t *ban_slots;
	/* The texts of the limits, with the same indexes as slots. */
	struct wr_policy_text *policies;
	char *policy_text;
	uint64_t number;
	struct wr_generation *next; /* next in the list of all generations of the engine */
	struct wr_limiter_shard shards[WR_LIMITER_SHARDS];
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the lock begins a line of its own
struct weir_engine {
	uint32_t magic; /* WR_ENGINE_MAGIC between weir_engine_new and weir_engine_free */
	struct wr_generation *current;
	struct weir_table *table;
	const uint8_t *fleet_secret; /* NULL: not known yet; see fleet.h */
	bool central;
	bool uncounted; /* WEIR_ENGINE_NO_STATS is set */
	/* Number of nodes in the fleet, used until the table contains a number; at least 1. */
	uint32_t fleet_size;
	uint32_t near_percent;
	uint32_t keys; /* enum weir_engine_keys */
	struct wr_stats stats;
	/* Clock of leases and exchanges in simulations and tests; NULL: base/clock.h is used. */
	uint64_t (*mono)(void *context);
	void *mono_context;

	_Alignas(64) pthread_mutex_t lock; /* protects the fields below */
	struct wr_generation *generations;
	struct weir_engine_info info;
	struct wr_fleet_secret *fleet_secrets; /* every secret that was ever set */
};

/* Makes a generation of `rules`, which may be NULL. On success the generation owns the rules.
 * Returns NULL if there is no memory; the caller then still owns the rules. Called with
 * engine->lock held. */
struct wr_generation *wr_generation_make(struct weir_engine *engine, struct weir_rules *rules);

/* Writes the amount, period and burst of each limit of a generation to the statistics. */
void wr_generation_note(struct weir_engine *engine, const struct wr_generation *generation,
			uint64_t now_ns);

/* Frees the rules of generations that are neither current nor held. Called with engine->lock
 * held. */
void wr_generations_reclaim(struct weir_engine *engine);

/* Calls wr_generations_reclaim, unless another thread has the lock. Called after a request released
 * a generation that is not current. */
void wr_generation_try_reclaim(struct weir_engine *engine);

/* Returns the next rule in file order, children before siblings. Returns NULL after the last
 * rule. */
const struct wr_node *wr_limiter_node_next(const struct wr_node *node);

/* Returns the name under which the statistics count all limits that come with requests to a domain.
 * The name is written to `name`. */
struct weir_str wr_limiter_overrides_stat(const struct wr_node *domain,
					  char name[WR_STAT_NAME_MAX + 1]);

extern _Thread_local unsigned wr_limiter_shard_number __attribute__((tls_model("initial-exec")));
unsigned wr_limiter_shard_choose(void);

static inline unsigned wr_limiter_shard_mine(void)
{
	return __builtin_expect(wr_limiter_shard_number != 0, 1) ? wr_limiter_shard_number - 1
								 : wr_limiter_shard_choose();
}

static inline void wr_generation_release(struct weir_engine *engine, struct wr_generation *held,
					 unsigned shard)
{
	__atomic_fetch_sub(&held->shards[shard].holders, 1, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&engine->current, __ATOMIC_SEQ_CST) != held, 0))
		wr_generation_try_reclaim(engine);
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
