/* Only wr_generation_hold and swaps, with delays between any two accesses to provoke races. */
#include "helper.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

static void pause_sometimes(void)
{
	static _Thread_local uint64_t dice = 1;

	dice = dice * 6364136223846793005u + 1442695040888963407u;
	if (dice >> 60 == 0)
		sched_yield();
}

// NOLINTBEGIN(bugprone-reserved-identifier)
#define __atomic_load_n(...) (pause_sometimes(), __atomic_load_n(__VA_ARGS__))
#define __atomic_fetch_add(...) (pause_sometimes(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...) (pause_sometimes(), __atomic_fetch_sub(__VA_ARGS__))
// NOLINTEND(bugprone-reserved-identifier)
#include "limiter/engine.h"

#define WORKERS 4
#define SWAPS 100000

struct worker {
	struct weir_engine *engine;
	int *stop;
	uint64_t held, bad;
};

/* A held generation keeps its number; a free generation has 0. */
static void *hold_all_the_time(void *arg)
{
	struct worker *worker = arg;
	unsigned shard = wr_limiter_shard_mine();
	uint64_t newest = 0;

	while (!__atomic_load_n(worker->stop, __ATOMIC_RELAXED)) {
		struct wr_generation *held = wr_generation_hold(worker->engine, shard);
		uint64_t number = held->number;

		pause_sometimes();
		worker->bad += number == 0 || number < newest || held->number != number;
		newest = number;
		wr_generation_release(worker->engine, held, shard);
		__atomic_fetch_add(&worker->held, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void swap(struct weir_engine *engine, uint64_t number)
{
	struct wr_generation *generation;

	pthread_mutex_lock(&engine->lock);
	generation = wr_generation_make(engine, NULL);
	assert_non_null(generation);
	generation->number = number;
	__atomic_store_n(&engine->current, generation, __ATOMIC_SEQ_CST);
	pause_sometimes();
	wr_generations_reclaim(engine);
	pthread_mutex_unlock(&engine->lock);
}

static bool all_have_held(struct worker *workers)
{
	for (int i = 0; i < WORKERS; i++)
		if (__atomic_load_n(&workers[i].held, __ATOMIC_RELAXED) < 1000)
			return false;
	return true;
}

static void hold_and_swap(void **state)
{
	struct worker workers[WORKERS];
	pthread_t threads[WORKERS];
	unsigned made = 0;
	struct rig rig;
	int stop = 0;

	rig_open_with(&rig, NULL, "d", 0);
	swap(rig.engine, 1);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.engine = rig.engine, .stop = &stop};
		pthread_create(&threads[i], NULL, hold_all_the_time, &workers[i]);
	}
	for (uint64_t i = 2; i < SWAPS || !all_have_held(workers); i++)
		swap(rig.engine, i);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].bad, 0);
	}
	/* At most the generations held at once, the current one and the next one. */
	for (const struct wr_generation *g = rig.engine->generations; g; g = g->next)
		made++;
	assert_in_range(made, 2, WORKERS + 2);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_and_swap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
