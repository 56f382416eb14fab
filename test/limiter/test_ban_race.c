/* Automatic bans with several processes and threads, after a restart, and after a resize. */
#include "table/table_test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/control.h>
#include <weir/host.h>
#include <weir/stats.h>

#include "base/str.h"
#include "limiter/helper.h"
#include "table/ban.h"
#include "table/ban_order.h"

#define PROCESSES 3
#define THREADS 3
#define KEYS 40
#define START_NS (NOW_NS + HOUR_NS)

static const char yaml[] = "domain: d\n"
			   "descriptors:\n"
			   "- key: k\n"
			   "  rate_limit: {unit: hour, requests_per_unit: 0,\n"
			   "    ban: {after: 7, within: 1m, for: 10m}}\n";

/* Decides a request of key number n. Returns whether a ban refused it, or -1 after an error. */
static int decide(struct weir_engine *engine, unsigned n, uint64_t now_ns)
{
	_Alignas(16) char memory[WEIR_ASK_BYTES];
	struct weir_status status = {.size = sizeof status};
	struct weir_entry entry = {.key = WR_STR("k")};
	char value[16];
	struct weir_ask *ask;
	int rc;

	snprintf(value, sizeof value, "%u", n);
	entry.value = wr_str(value);
	if (weir_ask_init(memory, sizeof memory, engine, WR_STR("d"), &ask) != 0 ||
	    weir_ask_add(ask, &entry, 1, NULL, 1) != 0)
		return -1;
	rc = weir_ask_decide(ask, now_ns);
	weir_ask_status(ask, 0, &status);
	weir_ask_done(ask);
	return rc == WEIR_REFUSE ? status.decision.banned : -1;
}

static struct weir_engine *engine_on(struct weir_table *table)
{
	struct weir_engine_opts opts = {.size = sizeof opts};
	struct weir_engine *engine;

	opts.now_ns = START_NS;
	assert_int_equal(weir_engine_new(table, rig_rules(yaml), &opts, &engine), 0);
	return engine;
}

struct racer {
	struct weir_engine *engine;
	bool failed;
};

static void *race(void *arg)
{
	struct racer *racer = arg;

	for (unsigned i = 0; i < 40; i++)
		for (unsigned n = 0; n < KEYS; n++)
			racer->failed |= decide(racer->engine, n, START_NS + 1 + i) < 0;
	return NULL;
}

static int race_in_threads(void *arg)
{
	struct racer racers[THREADS];
	pthread_t threads[THREADS];
	struct weir_engine *engine = engine_on(arg);

	for (unsigned i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){.engine = engine};
		CHILD_CHECK(pthread_create(&threads[i], NULL, race, &racers[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHILD_CHECK(!racers[i].failed);
	}
	weir_engine_free(engine);
	return 0;
}

static int check_listed(void *context, const struct wr_ban *ban)
{
	assert_int_equal(ban->level, 1);
	assert_int_equal(ban->until_s, START_NS / SECOND_NS + 600 + 1);
	++*(unsigned *)context;
	return 0;
}

static int check_started(void *context, const struct weir_ban_stat *stat)
{
	*(uint64_t *)context += stat->started;
	return 0;
}

/* Each key is banned exactly once, with level 1, and one order is sent. The requests come within a
 * µs after START_NS, so the end of a ban is rounded up to the next second. */
static void one_ban_per_key(void **unused)
{
	struct weir_table *table = table_open("race", MIB, 0);
	unsigned listed = 0;
	uint64_t started = 0;
	pid_t pids[PROCESSES];

	(void)unused;
	for (unsigned i = 0; i < PROCESSES; i++)
		pids[i] = spawn(race_in_threads, table);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(reap(pids[i]), 0);
	wr_bans_each(table, (uint32_t)(START_NS / SECOND_NS), check_listed, &listed);
	assert_int_equal(listed, KEYS);
	weir_bans_each(table, check_started, &started);
	assert_int_equal(started, KEYS);
	assert_int_equal(wr_ban_order_end(table), KEYS);
	table_drop(table);
}

/* A ban stays in force after the table was closed and opened, and after a resize. So do its level
 * and the refusals of another key. */
static void kept_over_restart_and_resize(void **unused)
{
	struct weir_table *table = table_open("kept", MIB, 0);
	struct weir_opts opts = opts_of("kept", 4 * MIB, 0);
	struct weir_engine *engine = engine_on(table);
	unsigned listed = 0;

	(void)unused;
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(decide(engine, 1, START_NS + 1), 0);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(decide(engine, 2, START_NS + 1), 0);
	for (unsigned round = 0; round < 2; round++) {
		weir_engine_free(engine);
		weir_close(table);
		if (round == 1)
			assert_int_equal(weir_resize(&opts, START_NS + 2, NULL), 0);
		table = table_open("kept", MIB, 0);
		engine = engine_on(table);
		assert_int_equal(decide(engine, 1, START_NS + 3), 1);
		wr_bans_each(table, (uint32_t)(START_NS / SECOND_NS), check_listed, &listed);
		assert_int_equal(listed, round + 1);
	}
	assert_int_equal(decide(engine, 2, START_NS + 4), 0);
	assert_int_equal(decide(engine, 2, START_NS + 5), 1);
	weir_engine_free(engine);
	table_drop(table);
}

static int check_second_ban(void *context, const struct wr_ban *ban)
{
	assert_int_equal(ban->level, 2);
	++*(unsigned *)context;
	return 0;
}

/* A resize between the end of a ban and a day later keeps the level of the key. */
static void level_kept_over_resize(void **unused)
{
	struct weir_table *table = table_open("level", MIB, 0);
	struct weir_opts opts = opts_of("level", 4 * MIB, 0);
	struct weir_engine *engine = engine_on(table);
	uint64_t later_ns = START_NS + 23 * HOUR_NS;
	unsigned listed = 0;

	(void)unused;
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(decide(engine, 1, START_NS + 1), 0);
	assert_int_equal(decide(engine, 1, START_NS + 2), 1);
	weir_engine_free(engine);
	weir_close(table);
	assert_int_equal(weir_resize(&opts, later_ns, NULL), 0);
	table = table_open("level", MIB, 0);
	engine = engine_on(table);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(decide(engine, 1, later_ns + 1), 0);
	wr_bans_each(table, (uint32_t)(later_ns / SECOND_NS), check_second_ban, &listed);
	assert_int_equal(listed, 1);
	weir_engine_free(engine);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_ban_per_key),
		cmocka_unit_test(kept_over_restart_and_resize),
		cmocka_unit_test(level_kept_over_resize),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
