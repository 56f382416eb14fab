/* Makes a generation when rules come into force, and frees its rules after its last request. Called
 * by engine.c, and when a request releases a generation that is not current. */
#include "limiter/candidates.h"
#include "base/assert.h"
#include "limiter/policy.h"

#include <stdlib.h>
#include <string.h>

__attribute__((tls_model("initial-exec"))) _Thread_local unsigned wr_limiter_shard_number;

unsigned wr_limiter_shard_choose(void)
{
	static unsigned last;

	wr_limiter_shard_number =
		__atomic_fetch_add(&last, 1, __ATOMIC_RELAXED) % WR_LIMITER_SHARDS + 1;
	return wr_limiter_shard_number - 1;
}

const struct wr_node *wr_limiter_node_next(const struct wr_node *node)
{
	return wr_node_next(node);
}

struct weir_str wr_limiter_overrides_stat(const struct wr_node *domain,
					  char name[WR_STAT_NAME_MAX + 1])
{
	static const char tail[] = "/override";
	size_t len = domain->key.len;

	wr_assert(domain->depth == 0);
	if (len > WR_STAT_NAME_MAX + 1 - sizeof tail)
		len = WR_STAT_NAME_MAX + 1 - sizeof tail;
	memcpy(name, domain->key.ptr, len);
	memcpy(name + len, tail, sizeof tail);
	return (struct weir_str){name, len + sizeof tail - 1};
}

static void find_slots(struct weir_engine *engine, struct wr_generation *generation)
{
	char name[WR_STAT_NAME_MAX + 1];
	uint32_t at = 0, next = 0;

	for (const struct wr_node *node = generation->rules->first_domain; node;
	     node = wr_limiter_node_next(node)) {
		generation->first[node->id] = at;
		if (node->kind == WR_NODE_DOMAIN)
			generation->slots[at++] = wr_stats_slot(
				&engine->stats, wr_limiter_overrides_stat(node, name));
		for (uint32_t i = 0; i < node->limit_count; i++, at++) {
			const struct wr_rules_limit *limit = &node->limits[i];

			generation->slots[at] = wr_stats_slot(&engine->stats, limit->stat);
			generation->candidates[at] = next;
			for (uint32_t j = 0; j < limit->candidate_count; j++)
				generation->candidate_slots[next++] = wr_limiter_candidate_slot(
					&engine->stats, &limit->candidates[j],
					generation->slots[at]);
		}
	}
}

/* Counts the slots that the rules need in the statistics. *slots is the number of limits plus one
 * for each domain, because all overrides of a domain share a slot. *candidates is the number of
 * candidates, which have slots of their own. */
static void count_slots(const struct weir_rules *rules, uint32_t *slots, uint32_t *candidates)
{
	*slots = *candidates = 0;
	for (const struct wr_node *node = rules->first_domain; node;
	     node = wr_limiter_node_next(node)) {
		*slots += node->limit_count + (node->kind == WR_NODE_DOMAIN);
		for (uint32_t i = 0; i < node->limit_count; i++)
			*candidates += node->limits[i].candidate_count;
	}
}

/* Returns the burst of a token bucket or the queue size of a leaky bucket. A token bucket without
 * `burst` has the limit as its burst. */
static uint32_t burst_of(const struct weir_limit *limit)
{
	if (limit->algorithm == WEIR_LEAKY_BUCKET)
		return limit->queue_size;
	return limit->algorithm == WEIR_TOKEN_BUCKET && !limit->burst ? limit->limit : limit->burst;
}

/* Writes the amount, period, burst and flags of a limit to the statistics. */
static void note_limit(const struct wr_stats *stats, uint32_t slot,
		       const struct wr_rules_limit *limit, uint32_t parent, uint64_t now_ns)
{
	struct wr_rule_numbers note = {
		.loaded_ns = now_ns,
		.period_ns = limit->calendar ? 0 : limit->limit.period_ns,
		.limit = limit->limit.limit,
		.burst = burst_of(&limit->limit),
		.parent = parent,
	};

	note.flags = limit->limit.algorithm << WR_NUMBERS_ALGORITHM;
	note.flags |= limit->unlimited ? WEIR_STAT_UNLIMITED : 0;
	note.flags |= limit->node->flags & WR_SHADOW ? WEIR_STAT_SHADOW : 0;
	note.flags |= limit->node->flags & WR_QUOTA ? WEIR_STAT_QUOTA : 0;
	note.flags |= limit->consistency != WR_LOCAL ? WEIR_STAT_CENTRAL : 0;
	wr_stats_set_numbers(stats, slot, &note);
}

void wr_generation_note(struct weir_engine *engine, const struct wr_generation *generation,
			uint64_t now_ns)
{
	wr_assert(generation->rules);
	for (const struct wr_node *node = generation->rules->first_domain; node;
	     node = wr_limiter_node_next(node)) {
		uint32_t at = generation->first[node->id];

		for (uint32_t i = 0; i < node->limit_count; i++, at++) {
			const struct wr_rules_limit *limit = &node->limits[i];
			const uint32_t *slots =
				&generation->candidate_slots[generation->candidates[at]];

			note_limit(&engine->stats, generation->slots[at], limit, 0, now_ns);
			for (uint32_t j = 0; j < limit->candidate_count; j++)
				note_limit(&engine->stats, slots[j], &limit->candidates[j],
					   generation->slots[at], now_ns);
		}
	}
}

static uint64_t count_holders(const struct wr_generation *generation)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < WR_LIMITER_SHARDS; i++)
		count += __atomic_load_n(&generation->shards[i].holders, __ATOMIC_SEQ_CST);
	return count;
}

/* Returns a free generation, or makes one. The counters of a free generation are not reset, because
 * requests that read `current` just before a swap may still increment and decrement them. */
static struct wr_generation *find_free_generation(struct weir_engine *engine)
{
	struct wr_generation *generation = engine->generations;

	while (generation && generation->number != 0)
		generation = generation->next;
	if (generation)
		return generation;
	generation = aligned_alloc(_Alignof(struct wr_generation), sizeof *generation);
	if (!generation)
		return NULL;
	memset(generation, 0, sizeof *generation);
	generation->next = engine->generations;
	engine->generations = generation;
	return generation;
}

static void clear_generation(struct wr_generation *generation)
{
	weir_rules_free(generation->rules);
	free(generation->first);
	free(generation->slots);
	free(generation->candidates);
	free(generation->candidate_slots);
	free(generation->cost_slots);
	free(generation->ban_slots);
	free(generation->policies);
	free(generation->policy_text);
	generation->rules = NULL;
	generation->first = generation->slots = NULL;
	generation->candidates = generation->candidate_slots = NULL;
	generation->cost_slots = generation->ban_slots = NULL;
	generation->policies = NULL;
	generation->policy_text = NULL;
	generation->number = 0; /* the generation is free */
}

struct wr_generation *wr_generation_make(struct weir_engine *engine, struct weir_rules *rules)
{
	struct wr_generation *generation = find_free_generation(engine);
	uint32_t count, candidates;

	if (!generation || !rules)
		return generation;
	count_slots(rules, &count, &candidates);
	generation->rules = rules;
	generation->first = calloc(rules->node_count + 1, sizeof *generation->first);
	generation->slots = calloc(count + 1, sizeof *generation->slots);
	generation->candidates = calloc(count + 1, sizeof *generation->candidates);
	generation->candidate_slots = calloc(candidates + 1, sizeof *generation->candidate_slots);
	generation->cost_slots = calloc(count + 1, sizeof *generation->cost_slots);
	generation->ban_slots = calloc(count + 1, sizeof *generation->ban_slots);
	if (generation->first && generation->slots && generation->candidates &&
	    generation->candidate_slots && generation->cost_slots && generation->ban_slots) {
		find_slots(engine, generation);
		if (wr_policies_write(generation, count))
			return generation;
	}
	generation->rules = NULL; /* the caller still owns the rules */
	clear_generation(generation);
	return NULL;
}

void wr_generations_reclaim(struct weir_engine *engine)
{
	uint32_t held = 0;

	for (struct wr_generation *g = engine->generations; g; g = g->next) {
		if (g->number == 0 || g == engine->current)
			continue;
		if (count_holders(g) == 0)
			clear_generation(g);
		else
			held++;
	}
	engine->info.held = held;
}

/* Does not wait for the lock, because the thread that has it may be loading rules. If another
 * thread has the lock, a later call or the next swap frees the rules. */
void wr_generation_try_reclaim(struct weir_engine *engine)
{
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	if (pthread_mutex_trylock(&engine->lock) != 0)
		return;
	wr_generations_reclaim(engine);
	pthread_mutex_unlock(&engine->lock);
}
