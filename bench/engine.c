/* Run by `make bench-engine`. Measures decisions and compares them with the floor, which is the
 * least work that a decision needs (workload.h). */
#include "measure.h"
#include "workload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 21
#define SECOND 1000000000u
#define YEAR_S 31557600u

/* The functions below count heap allocations. The linker option --wrap requires these names. */
// NOLINTBEGIN(bugprone-reserved-identifier)
static uint64_t allocations;
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);

void *__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	allocations++;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	allocations++;
	return __real_realloc(old, bytes);
}

// NOLINTEND(bugprone-reserved-identifier)

/* Returns a limit for benchmarks with many keys. The limit is high, and the period is so long that
 * no used key expires. */
static struct weir_limit limit_of(int algorithm)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = (uint32_t)algorithm,
				   .limit = 10000,
				   .period_ns = 86400ull * SECOND};

	if (algorithm == WEIR_LEAKY_BUCKET)
		limit.queue_size = 9999;
	if (algorithm == WEIR_SLIDING_LOG)
		limit.limit = 4; /* the log of a key then fits a block of the smallest size */
	return limit;
}

/* Returns a limit for benchmarks with one hot key. It always admits one request per µs. */
static struct weir_limit hot_limit(void)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_TOKEN_BUCKET,
				   .limit = 1000000,
				   .period_ns = SECOND};

	return limit;
}

static double ns_each(uint64_t (*work)(struct wr_workload *, uint64_t), struct wr_workload *on,
		      uint64_t count)
{
	uint64_t start = wr_bench_clock_ns();

	work(on, count);
	return (double)(wr_bench_clock_ns() - start) / (double)count;
}

struct pair_of {
	double engine_ns, floor_ns, ratio, find_ratio, many_ratio;
};

/* Measures decisions, the floor, wr_work_find() and wr_work_many() in turn, in short rounds. Returns
 * the medians of all rounds: the ns per decision, the ns per run of the floor, and the ratios of a
 * decision, of wr_work_find() and of wr_work_many() to the floor of the same round. */
static struct pair_of compare(struct wr_workload *work, uint64_t count)
{
	double engine[ROUNDS], floor[ROUNDS], ratio[ROUNDS], find[ROUNDS], many[ROUNDS];

	ns_each(wr_work_engine, work, count / 4);
	ns_each(wr_work_floor, work, count / 4);
	for (int i = 0; i < ROUNDS; i++) {
		engine[i] = ns_each(wr_work_engine, work, count);
		floor[i] = ns_each(wr_work_floor, work, count);
		ratio[i] = engine[i] / floor[i];
		find[i] = ns_each(wr_work_find, work, count) / floor[i];
		many[i] = ns_each(wr_work_many, work, count) / floor[i];
	}
	return (struct pair_of){wr_bench_median(engine, ROUNDS), wr_bench_median(floor, ROUNDS),
				wr_bench_median(ratio, ROUNDS), wr_bench_median(find, ROUNDS),
				wr_bench_median(many, ROUNDS)};
}

/* Writes a figure whose name is `prefix`, an underscore and `name`. */
static void figure(const char *prefix, const char *name, double value, const char *remark)
{
	char whole[128];

	snprintf(whole, sizeof whole, "%s_%s", prefix, name);
	wr_bench_figure(whole, value, remark);
}

static void report(const char *prefix, struct pair_of result, const char *remark)
{
	figure(prefix, "ns", result.engine_ns, remark);
	figure(prefix, "floor_ns", result.floor_ns, "");
	figure(prefix, "find_vs_floor", result.find_ratio, "part for finding the key and a swap");
	figure(prefix, "vs_floor", result.ratio, "to reach: <= 1.8");
	figure(prefix, "many_vs_floor", result.many_ratio, "batches of 16; to reach: <= 1.2");
}

static void bench_one_key(void)
{
	struct wr_workload work;
	struct pair_of result;

	wr_workload_open(&work, hot_limit(), 1, 0.75, 0);
	result = compare(&work, 500000);
	report("hot_key", result, "one key, one thread");
	wr_workload_close(&work);
}

struct worker {
	struct wr_workload work;
	uint64_t (*run)(struct wr_workload *, uint64_t);
	uint64_t count;
};

static void *worker_main(void *arg)
{
	struct worker *worker = arg;

	worker->run(&worker->work, worker->count);
	return NULL;
}

/* Starts `threads` threads (1 or 2). Each of them does the work `run` `count` times. Returns the
 * speed of all threads together: how many times the work was done, divided by the elapsed ns. */
static double speed(struct wr_workload *work, int threads,
		    uint64_t (*run)(struct wr_workload *, uint64_t), uint64_t count)
{
	struct worker workers[2];
	pthread_t ids[2];
	uint64_t start = wr_bench_clock_ns();

	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){*work, run, count};
		workers[i].work.draw.seed = (uint64_t)i * 977 + 5;
		pthread_create(&ids[i], NULL, worker_main, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	work->now_ns += count * WR_TICK_NS;
	return (double)count * threads / (double)(wr_bench_clock_ns() - start);
}

static void bench_two_threads(struct wr_workload *work)
{
	double scaling[ROUNDS], engine[ROUNDS], floor[ROUNDS];
	const uint64_t count = 400000;

	for (int i = 0; i < ROUNDS; i++) {
		engine[i] = speed(work, 2, wr_work_engine, count) /
			    speed(work, 1, wr_work_engine, count);
		floor[i] =
			speed(work, 2, wr_work_floor, count) / speed(work, 1, wr_work_floor, count);
		scaling[i] = engine[i] / floor[i];
	}
	wr_bench_figure("two_threads_speedup", wr_bench_median(engine, ROUNDS), "");
	wr_bench_figure("two_threads_floor_speedup", wr_bench_median(floor, ROUNDS), "");
	wr_bench_figure("two_threads_vs_floor_scaling", wr_bench_median(scaling, ROUNDS),
			"to reach: >= 0.95");
}

static void bench_million(void)
{
	const uint32_t keys = 1000000, zipf_count = 1u << 22;
	struct wr_workload work;
	struct pair_of result;
	struct weir_info info = {.size = sizeof info};
	uint64_t before;

	wr_workload_open(&work, limit_of(WEIR_TOKEN_BUCKET), keys, 0.76, 0);
	weir_info(work.table, work.now_ns, &info);
	wr_bench_figure("uniform_1m_fill", (double)info.keys / (double)info.cells, ">= 0.75");
	result = compare(&work, 500000);
	report("uniform_1m", result, "a million keys, uniform, one thread");
	before = allocations;
	wr_work_engine(&work, 1000000);
	wr_bench_figure("alloc_per_decision", (double)(allocations - before) / 1000000,
			"to reach: 0");
	bench_two_threads(&work);

	work.draw.sequence = wr_zipf_sequence(keys, 0.99, zipf_count);
	work.draw.sequence_mask = zipf_count - 1;
	result = compare(&work, 500000);
	report("zipf_1m", result, "a million keys, Zipf 0.99");
	free((void *)work.draw.sequence);
	wr_workload_close(&work);
}

/* The least work that two processes on one key need: load a number, add 1, and swap. The swap is
 * repeated until it succeeds. */
static uint64_t contended_floor(struct wr_workload *work, uint64_t count)
{
	struct wr_pair *at = &work->floor->rows[0].cell[1].hot;

	for (uint64_t i = 0; i < count; i++) {
		struct wr_pair seen = wr_pair_load(at);

		while (!wr_pair_cas(at, &seen, (struct wr_pair){seen.lo + 1, seen.hi}))
			;
	}
	return count;
}

/* Runs the work `run` in two processes at the same time. Returns the elapsed ns divided by
 * the number of decisions or swaps of both processes. */
static double two_processes(struct wr_workload *work,
			    uint64_t (*run)(struct wr_workload *, uint64_t), uint64_t count)
{
	uint32_t *gate =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t start;

	for (int i = 0; i < 2; i++) {
		if (fork() == 0) {
			__atomic_add_fetch(gate, 1, __ATOMIC_SEQ_CST);
			while (__atomic_load_n(gate, __ATOMIC_SEQ_CST) < 3)
				;
			run(work, count);
			_exit(0);
		}
	}
	while (__atomic_load_n(gate, __ATOMIC_SEQ_CST) < 2)
		usleep(100);
	start = wr_bench_clock_ns();
	__atomic_add_fetch(gate, 1, __ATOMIC_SEQ_CST);
	while (wait(NULL) > 0)
		;
	munmap(gate, 4096);
	work->now_ns += count * WR_TICK_NS;
	return (double)(wr_bench_clock_ns() - start) / (double)(2 * count);
}

static void bench_processes(void)
{
	double engine[ROUNDS], floor[ROUNDS], ratio[ROUNDS];
	const uint64_t count = 1000000;
	struct wr_workload work;

	wr_workload_open(&work, hot_limit(), 1, 0.75, 0);
	for (int i = 0; i < ROUNDS; i++) {
		engine[i] = two_processes(&work, wr_work_engine, count);
		floor[i] = two_processes(&work, contended_floor, count);
		ratio[i] = engine[i] / floor[i];
	}
	wr_bench_figure("processes_one_key_ns", wr_bench_median(engine, ROUNDS),
			"two processes, one key");
	wr_bench_figure("processes_one_key_floor_ns", wr_bench_median(floor, ROUNDS), "");
	wr_bench_figure("processes_one_key_vs_floor", wr_bench_median(ratio, ROUNDS),
			"to reach: <= 1.5");
	wr_workload_close(&work);
}

/* Fills a table with keys until the first live key is evicted. Returns the size of the table in
 * bytes divided by the number of keys. Each table has its own random secret, so each call is a new
 * sample. */
static double bytes_per_key(void)
{
	const uint64_t now_ns = 1800000000000000000u;
	struct weir_table *table = wr_bench_table(1000000, 4096);
	struct weir_limit limit = limit_of(WEIR_TOKEN_BUCKET);
	struct weir_decision decision;
	uint64_t keys = 0;
	double bytes;

	weir_limit_check(&limit, NULL);
	for (; table->tallies->evicted == 0; keys++)
		weir_take(table, &limit, &keys, sizeof keys, 1, now_ns, &decision);
	bytes = (double)(table->row_count * sizeof(struct wr_row)) / (double)(keys - 1);
	weir_close(table);
	return bytes;
}

static void bench_bytes(void)
{
	double bytes[5];

	for (int i = 0; i < 5; i++)
		bytes[i] = bytes_per_key();
	wr_bench_figure("bytes_per_key", wr_bench_median(bytes, 5), "to reach: <= 44");
}

static void bench_curve(void)
{
	static const uint32_t sizes[] = {1000, 10000, 100000, 1000000, 10000000};
	static const char *const labels[] = {"1k", "10k", "100k", "1m", "10m"};

	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		for (int i = 0; i < 5; i++) {
			uint64_t log_bytes =
				algorithm == WEIR_SLIDING_LOG ? sizes[i] * 80ull + (8 << 20) : 0;
			struct weir_limit limit = limit_of(algorithm);
			struct wr_workload work;
			struct pair_of result;
			char name[48];

			/* In this period a key gets two requests on average, so its log has two
			 * time stamps. */
			if (algorithm == WEIR_SLIDING_LOG)
				limit.period_ns = 2ull * sizes[i] * WR_TICK_NS;
			wr_workload_open(&work, limit, sizes[i], 0.75, log_bytes);
			result = compare(&work, 100000);
			snprintf(name, sizeof name, "%s_%s", weir_algorithm_name(algorithm),
				 labels[i]);
			figure("ns_by_keys", name, result.engine_ns, "");
			figure("vs_floor_by_keys", name, result.ratio,
			       "goal: equal for all numbers of keys");
			wr_workload_close(&work);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: bench-engine FILE.json\n");
		return 2;
	}
	if (wr_bench_begin(argv[1]) < 0)
		return 1;
	bench_one_key();
	bench_million();
	bench_processes();
	bench_bytes();
	bench_curve();
	return wr_bench_end() == 0 ? 0 : 1;
}
