/* `cost-local FILE` is a part of `make bench-cost`. It measures calls of the engine, without a
 * server: a reservation that is settled, and a slot of a limit on concurrent requests. There are
 * only a few keys, so all of their cells are in the processor's cache. Each round runs all
 * measurements in turn. A figure is the median of the rounds. */
#include "measure.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#define ROUNDS 1001   /* short rounds: the median ignores those that other programs disturb */
#define KEYS 100u     /* hot keys; a batch is one call for each of them */
#define BATCHES 20u   /* batches of one measurement */
#define RESERVED 600  /* units that a request reserves */
#define ACTUAL 500    /* units that it uses */
#define IN_FLIGHT 10u /* slots of a key in use, and entries of its log */
#define SECOND_NS 1000000000ull

static uint64_t now_ns = 1800000000000000000u;
static struct weir_decision taken[KEYS]; /* the latest decision on each key */

/* Exits, because a figure would be wrong: a request was refused or a call failed. */
static void fail(const char *what)
{
	fprintf(stderr, "cost-local: %s\n", what);
	exit(1);
}

static struct weir_limit limit_of(uint32_t algorithm, uint32_t count, uint64_t period_ns)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = algorithm,
				   .limit = count,
				   .period_ns = period_ns};

	if (weir_limit_check(&limit, NULL) < 0)
		fail("the limit is not usable");
	return limit;
}

/* Takes `cost` units, or a slot, for each key. */
static void take(struct weir_table *table, const struct weir_limit *limit, int64_t cost)
{
	for (uint64_t key = 0; key < KEYS; key++) {
		weir_take(table, limit, &key, sizeof key, cost, now_ns, &taken[key]);
		if (!taken[key].admitted)
			fail("a request was refused");
	}
}

/* Settles the latest take of each key. */
static void settle(struct weir_table *table, const struct weir_limit *limit, int64_t cost,
		   int64_t actual)
{
	struct weir_decision after;

	for (uint64_t key = 0; key < KEYS; key++)
		if (weir_settle(table, limit, &key, sizeof key, &taken[key], cost, actual, now_ns,
				&after) < 0)
			fail("a request was not settled");
}

/* ---- buckets ---- */

/* Returns the ns of one take of ACTUAL units. */
static double time_take(struct weir_table *table, const struct weir_limit *limit)
{
	uint64_t start = wr_bench_clock_ns();

	for (uint32_t i = 0; i < BATCHES; i++, now_ns += SECOND_NS)
		take(table, limit, ACTUAL);
	return (double)(wr_bench_clock_ns() - start) / (BATCHES * KEYS);
}

/* Returns the ns of one take of `reserved` units that is settled 1 ms later with ACTUAL units. */
static double time_settled(struct weir_table *table, const struct weir_limit *limit,
			   int64_t reserved)
{
	uint64_t start = wr_bench_clock_ns();

	for (uint32_t i = 0; i < BATCHES; i++, now_ns += SECOND_NS) {
		take(table, limit, reserved);
		now_ns += 1000000;
		settle(table, limit, reserved, ACTUAL);
	}
	return (double)(wr_bench_clock_ns() - start) / (BATCHES * KEYS);
}

static void bench_reserve(void)
{
	struct weir_table *table = wr_bench_table(8192, 4096);
	struct weir_limit limit = limit_of(WEIR_TOKEN_BUCKET, 1000000, 60 * SECOND_NS);
	double takes[ROUNDS], settled[ROUNDS], ratio[ROUNDS], owed[ROUNDS];

	time_settled(table, &limit, RESERVED);
	for (int i = 0; i < ROUNDS; i++) {
		takes[i] = time_take(table, &limit);
		settled[i] = time_settled(table, &limit, RESERVED);
		ratio[i] = settled[i] / takes[i];
		owed[i] = time_settled(table, &limit, ACTUAL / 5) / takes[i];
	}
	wr_bench_figure("take_ns", wr_bench_median(takes, ROUNDS), "weir_take, a token bucket");
	wr_bench_figure("reserve_commit_ns", wr_bench_median(settled, ROUNDS),
			"weir_take of 600 units, then weir_settle with 500");
	wr_bench_figure("reserve_commit_vs_take", wr_bench_median(ratio, ROUNDS),
			"to reach: <= 2.2");
	wr_bench_figure("reserve_debt_vs_take", wr_bench_median(owed, ROUNDS),
			"the same, 100 units reserved, 500 used");
	weir_close(table);
}

/* ---- slots ---- */

/* Takes a slot of each key and frees it, BATCHES times. Sets the ns of one take and of one
 * release. */
static void time_slots(struct weir_table *table, const struct weir_limit *limit, double *take_ns,
		       double *free_ns)
{
	uint64_t taking = 0, freeing = 0;

	for (uint32_t i = 0; i < BATCHES; i++, now_ns += SECOND_NS / 1000) {
		uint64_t start = wr_bench_clock_ns(), middle;

		take(table, limit, 1);
		middle = wr_bench_clock_ns();
		settle(table, limit, 1, 1);
		taking += middle - start;
		freeing += wr_bench_clock_ns() - middle;
	}
	*take_ns = (double)taking / (BATCHES * KEYS);
	*free_ns = (double)freeing / (BATCHES * KEYS);
}

/* Returns the ns of one take of a log that has IN_FLIGHT entries before it. Each take makes the
 * oldest entry expire. */
static double time_log(struct weir_table *table, const struct weir_limit *limit)
{
	uint64_t taking = 0;

	for (uint32_t i = 0; i < BATCHES; i++, now_ns += limit->period_ns / IN_FLIGHT) {
		uint64_t start = wr_bench_clock_ns();

		take(table, limit, 1);
		taking += wr_bench_clock_ns() - start;
	}
	return (double)taking / (BATCHES * KEYS);
}

static void bench_slots(void)
{
	struct weir_table *table = wr_bench_table(32768, 1 << 20);
	struct weir_limit slots = limit_of(WEIR_CONCURRENT, 2 * IN_FLIGHT, 86400 * SECOND_NS);
	struct weir_limit logs = limit_of(WEIR_SLIDING_LOG, 2 * IN_FLIGHT, SECOND_NS);
	double takes[ROUNDS], frees[ROUNDS], log_takes[ROUNDS], ratio[ROUNDS], whole[ROUNDS];

	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		take(table, &slots, 1); /* these slots stay in use */
	time_log(table, &logs);
	for (int i = 0; i < ROUNDS; i++) {
		time_slots(table, &slots, &takes[i], &frees[i]);
		log_takes[i] = time_log(table, &logs);
		ratio[i] = takes[i] / log_takes[i];
		whole[i] = (takes[i] + frees[i]) / log_takes[i];
	}
	wr_bench_figure("log_take_ns", wr_bench_median(log_takes, ROUNDS),
			"weir_take, a sliding window log of 20 with 10 entries");
	wr_bench_figure("concurrent_take_ns", wr_bench_median(takes, ROUNDS),
			"weir_take of a slot, 10 of 20 in use");
	wr_bench_figure("concurrent_release_ns", wr_bench_median(frees, ROUNDS),
			"weir_settle, which frees the slot");
	wr_bench_figure("concurrent_vs_log_take", wr_bench_median(ratio, ROUNDS),
			"to reach: <= 1.2");
	wr_bench_figure("concurrent_and_release_vs_log_take", wr_bench_median(whole, ROUNDS), "");
	weir_close(table);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: cost-local FILE.json\n");
		return 2;
	}
	if (wr_bench_begin(argv[1]) < 0)
		return 1;
	bench_reserve();
	bench_slots();
	return wr_bench_end() == 0 ? 0 : 1;
}
