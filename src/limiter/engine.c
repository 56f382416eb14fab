/* Makes and frees engines, and swaps their rules. Called by every program that decides by rules. */
#include "limiter/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/versioned.h"
#include "limiter/fleet.h"

#define NEAR_PERCENT 80

/* Updates the entry of this process in the table's list of hosts. Called with engine->lock held. */
static void report_host(struct weir_engine *engine)
{
	const struct weir_engine_info *info = &engine->info;
	struct wr_stats_host_report report = {
		.rules_hash = info->hash,
		.generation = info->generation,
		.loaded_ns = info->loaded_ns,
		.loads_good = info->loads_good,
		.loads_failed = info->loads_failed,
		.failed_ns = info->failed_ns,
	};

	memcpy(report.name, engine->stats.report.name, sizeof report.name);
	snprintf(report.error, sizeof report.error, "%.*s", (int)sizeof report.error - 1,
		 info->error);
	wr_stats_report_host(&engine->stats, &report);
}

static void publish_generation(struct weir_engine *engine, struct wr_generation *generation,
			       uint64_t now_ns)
{
	struct weir_engine_info *info = &engine->info;

	generation->number = ++info->generation;
	weir_rules_stamp(generation->rules, generation->number, now_ns);
	info->hash = generation->rules->hash;
	info->loaded_ns = now_ns;
	info->loads_good++;
	info->failed_ns = 0;
	info->error[0] = '\0';
	wr_generation_note(engine, generation, now_ns);
	report_host(engine);
	/* This store and the loads in wr_generation_hold() are sequentially consistent. A request
	 * that loads the new pointer there sees the complete generation (docs/threads.md). */
	__atomic_store_n(&engine->current, generation, __ATOMIC_SEQ_CST);
}

static int apply_options(struct weir_engine *engine, const struct weir_engine_opts *opts)
{
	engine->central = opts->flags & WEIR_ENGINE_CENTRAL;
	engine->near_percent = opts->near_percent ? opts->near_percent : NEAR_PERCENT;
	engine->keys = opts->keys;
	engine->uncounted = opts->flags & WEIR_ENGINE_NO_STATS;
	if (opts->host)
		snprintf(engine->stats.report.name, sizeof engine->stats.report.name, "%s",
			 opts->host);
	if (engine->keys != WEIR_KEYS_TEXT)
		wr_stats_wipe_texts(&engine->stats);
	engine->fleet_size = opts->fleet_size ? opts->fleet_size : 1;
	return opts->fleet_secret ? weir_engine_fleet(engine, opts->fleet_secret) : 0;
}

int weir_engine_new(struct weir_table *table, struct weir_rules *rules,
		    const struct weir_engine_opts *given, struct weir_engine **out)
{
	struct weir_engine_opts opts = {.size = sizeof opts};
	struct weir_engine *engine;
	struct wr_generation *generation;

	if (!table || !out ||
	    (given && !wr_versioned_read(given, &opts, sizeof opts,
					 offsetof(struct weir_engine_opts, fleet_secret))) ||
	    opts.near_percent > 100 || opts.keys > WEIR_KEYS_HIDDEN)
		return WEIR_EINVAL;
	engine = aligned_alloc(_Alignof(struct weir_engine), sizeof *engine);
	if (!engine)
		return WEIR_EMEMORY;
	memset(engine, 0, sizeof *engine);
	engine->magic = WR_ENGINE_MAGIC;
	engine->table = table;
	pthread_mutex_init(&engine->lock, NULL);
	wr_stats_open(&engine->stats, table);
	generation = apply_options(engine, &opts) == 0 ? wr_generation_make(engine, rules) : NULL;
	if (!generation) {
		weir_engine_free(engine);
		return WEIR_EMEMORY;
	}
	engine->current = generation;
	if (rules)
		publish_generation(engine, generation, opts.now_ns);
	else
		generation->number = UINT64_MAX; /* any number but 0, which would mean "free" */
	*out = engine;
	return 0;
}

void weir_engine_free(struct weir_engine *engine)
{
	struct wr_generation *next;

	if (!engine)
		return;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	engine->magic = 0;
	engine->current = NULL;
	wr_generations_reclaim(engine);
	wr_stats_close(&engine->stats);
	for (struct wr_generation *g = engine->generations; g; g = next) {
		next = g->next;
		free(g);
	}
	wr_fleet_secrets_free(engine);
	pthread_mutex_destroy(&engine->lock);
	free(engine);
}

int weir_engine_swap(struct weir_engine *engine, struct weir_rules *rules, uint64_t now_ns)
{
	struct wr_generation *generation;

	if (!engine || !rules)
		return WEIR_EINVAL;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	pthread_mutex_lock(&engine->lock);
	generation = wr_generation_make(engine, rules);
	if (generation) {
		publish_generation(engine, generation, now_ns);
		wr_generations_reclaim(engine);
	}
	pthread_mutex_unlock(&engine->lock);
	return generation ? 0 : WEIR_EMEMORY;
}

int weir_engine_load_failed(struct weir_engine *engine, const char *text, uint64_t now_ns)
{
	if (!engine || !text)
		return WEIR_EINVAL;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	pthread_mutex_lock(&engine->lock);
	engine->info.loads_failed++;
	engine->info.failed_ns = now_ns;
	snprintf(engine->info.error, sizeof engine->info.error, "%s", text);
	report_host(engine);
	pthread_mutex_unlock(&engine->lock);
	return 0;
}

int weir_engine_info(struct weir_engine *engine, struct weir_engine_info *info)
{
	struct weir_engine_info known, *out;

	if (!engine || !info)
		return WEIR_EINVAL;
	out = wr_versioned_target(info, &known, sizeof known,
				  offsetof(struct weir_engine_info, hash));
	if (!out)
		return WEIR_EINVAL;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	pthread_mutex_lock(&engine->lock);
	wr_generations_reclaim(engine);
	*out = engine->info;
	pthread_mutex_unlock(&engine->lock);
	out->size = sizeof *out;
	wr_versioned_write(info, out, sizeof known);
	return 0;
}
