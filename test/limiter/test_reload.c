/* Rules that change while threads decide requests. */
#include "helper.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

#define RELOADS 1000
#define WORKERS 4

/* In every generation limit and name match, so a decision that mixes two generations is detected.
 */
static void make_yaml(char *yaml, size_t cap, int number)
{
	snprintf(yaml, cap,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: a\n"
		 "  rate_limit: {unit: day, requests_per_unit: %d, name: n%d}\n"
		 "- key: b\n"
		 "  rate_limit: {unit: second, requests_per_unit: 1000000}\n",
		 1000000 + number, 1000000 + number);
}

struct worker {
	struct weir_engine *engine;
	const int *stop;
	uint64_t asked, bad;
};

static int consistent(struct weir_ask *ask, uint64_t *newest)
{
	struct weir_status status = {.size = sizeof status};
	struct weir_result result = {.size = sizeof result};
	char name[16];

	if (weir_ask_status(ask, 0, &status) || weir_ask_result(ask, &result))
		return 0;
	snprintf(name, sizeof name, "n%u", status.requests_per_unit);
	if (!wr_str_equal(status.name, wr_str(name)) || result.generation < *newest)
		return 0;
	*newest = result.generation;
	return 1;
}

static void *ask_all_the_time(void *arg)
{
	_Alignas(64) char memory[WEIR_ASK_BYTES];
	struct weir_entry entries[] = {{WR_STR("a"), WR_STR("1"), WR_STR("")},
				       {WR_STR("b"), WR_STR("1"), WR_STR("")}};
	struct worker *worker = arg;
	uint64_t newest = 0;

	while (!__atomic_load_n(worker->stop, __ATOMIC_RELAXED)) {
		struct weir_ask *ask;

		if (weir_ask_init(memory, sizeof memory, worker->engine, WR_STR("d"), &ask) ||
		    weir_ask_add(ask, &entries[0], 1, NULL, 1) ||
		    weir_ask_add(ask, &entries[1], 1, NULL, 1) ||
		    weir_ask_decide(ask, NOW_NS) != WEIR_ADMIT || !consistent(ask, &newest))
			worker->bad++;
		weir_ask_done(ask);
		if (__atomic_add_fetch(&worker->asked, 1, __ATOMIC_RELAXED) == 200000)
			break;
	}
	return NULL;
}

static struct weir_rules *rules_number(int number)
{
	char yaml[512];

	make_yaml(yaml, sizeof yaml, number);
	return rig_rules(yaml);
}

static size_t heap(void)
{
	return mallinfo2().uordblks + mallinfo2().hblkhd;
}

static void a_thousand_reloads_under_load(void **state)
{
	struct weir_engine_info info = {.size = sizeof info};
	struct worker workers[WORKERS];
	pthread_t threads[WORKERS];
	uint64_t asked = 0;
	size_t before = 0;
	struct rig rig;
	int stop = 0;

	rig_open_with(&rig, rules_number(0), "d", 0);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.engine = rig.engine, .stop = &stop};
		pthread_create(&threads[i], NULL, ask_all_the_time, &workers[i]);
	}
	for (int i = 1; i <= RELOADS; i++) {
		assert_int_equal(weir_engine_swap(rig.engine, rules_number(i), NOW_NS + i), 0);
		if (i == 100)
			before = heap();
	}
	for (int i = 0; i < WORKERS; i++)
		while (!__atomic_load_n(&workers[i].asked, __ATOMIC_RELAXED))
			usleep(1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].bad, 0);
		asked += workers[i].asked;
	}
	assert_int_equal(weir_engine_info(rig.engine, &info), 0);
	assert_int_equal(info.generation, RELOADS + 1);
	assert_int_equal(info.held, 0);
	/* Only a few generations are in memory at the same time. */
	assert_true(heap() < before + 8 * 150000);
	/* Every request was counted in the same counter. */
	assert_int_equal(rig_stat(&rig, "d/a/1d").admitted, asked);
	rig_ask(&rig, "a=1");
	assert_int_equal(rig_status(&rig, 0).remaining, 1000000 + RELOADS - asked - 1);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_reloads_under_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
