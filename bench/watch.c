/* Run by `make bench-watch`. Measures the cost of statistics: compares decisions with and without
 * statistics, and measures the memory of an active rule and the time of a scrape of the metrics. */
#include "measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/stats.h>
#include <weir/weir.h>

#include "base/str.h"
#include "stats/stats.h"
#include "serve/admin/metrics.h"

#define ROUNDS 41
#define PAIRS 151 /* number of rounds; the median ignores the few that other programs disturb */
#define EACH 20000u
#define MILLION 1000000u
#define RULES 5000u
#define ACTIVE 400u
#define COUNTERS 4 /* number of threads that write statistics */
#define NOW_NS 1800000000000000000u
#define TICK_NS 1100u
#define SECOND_NS 1000000000u

static uint64_t seed = 42;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(((seed >> 32) * below) >> 32);
}

static struct weir_rules *load(const char *text, size_t len)
{
	struct weir_rules *rules;
	char path[64];
	int fd = memfd_create("rules", 0);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len)
		exit(1);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (weir_rules_load(path, &rules, NULL) != 0)
		exit(1);
	close(fd);
	return rules;
}

static struct weir_table *open_table(uint64_t bytes)
{
	static int number;
	struct weir_opts opts = {.size = sizeof opts, .dir = "/dev/shm", .memory_bytes = bytes};
	struct weir_table *table;
	char name[64];

	snprintf(name, sizeof name, "bench-watch-%d-%d", (int)getpid(), number++);
	opts.name = name;
	if (weir_open(&opts, &table, NULL) != 0)
		exit(1);
	weir_remove(name, opts.dir, NULL);
	return table;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* ---- decisions ---- */

static const char one_rule[] =
	"domain: api\n"
	"descriptors:\n"
	"- key: user\n"
	"  rate_limit: {unit: minute, requests_per_unit: 60000000, algorithm: token_bucket}\n";

struct work {
	struct weir_engine *engine;
	uint32_t keys;
	bool counted;
};

static uint64_t now_ns = NOW_NS;

static void open_work(struct work *work, struct weir_table *table, uint32_t keys, bool counted)
{
	struct weir_engine_opts opts = {.size = sizeof opts,
					.flags = counted ? 0 : WEIR_ENGINE_NO_STATS};

	*work = (struct work){.keys = keys, .counted = counted};
	if (weir_engine_new(table, load(one_rule, sizeof one_rule - 1), &opts, &work->engine) != 0)
		exit(1);
}

/* Writes `number` as seven digits to `at`. */
static void put_digits(char *at, uint32_t number)
{
	for (int i = 6; i >= 0; i--, number /= 10)
		at[i] = (char)('0' + number % 10);
}

/* Returns the ns per decision. With statistics, a latency is reported for one decision in 64, as in
 * the service and the nginx module. */
static double decide_ns(struct work *work, uint32_t count, bool in_turn)
{
	_Alignas(64) static char memory[WEIR_ASK_BYTES];
	char user[] = "u0000000";
	struct weir_entry entry = {WR_STR("user"), {user, 8}, WR_STR("")};
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (uint32_t i = 0; i < count; i++) {
		struct weir_ask *ask;

		put_digits(user + 1, in_turn ? i : draw(work->keys));
		now_ns += TICK_NS;
		weir_ask_init(memory, sizeof memory, work->engine, WR_STR("api"), &ask);
		weir_ask_add(ask, &entry, 1, NULL, 1);
		if (weir_ask_decide(ask, now_ns) != WEIR_ADMIT)
			exit(1);
		if (work->counted && weir_ask_wants_latency(ask) == 1)
			weir_ask_report_latency(ask, wr_bench_clock_ns() & 0xffff);
		weir_ask_done(ask);
	}
	return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / count;
}

/* A thread that calls weir_tick() for the statistics during the measurement. */
struct ticker {
	struct weir_table *table;
	pthread_t thread;
	bool stop;
};

static void *tick_along(void *arg)
{
	struct ticker *ticker = arg;

	while (!__atomic_load_n(&ticker->stop, __ATOMIC_RELAXED)) {
		weir_tick(ticker->table, clock_ns(CLOCK_REALTIME));
		usleep(20000);
	}
	return NULL;
}

/* Runs short rounds with and without statistics in turn, on the same keys in the same memory. The
 * figure is the median of the ratios of all rounds. */
static void compare(const char *name, uint32_t keys, const char *remark)
{
	double with_ns[PAIRS], without_ns[PAIRS], ratio[PAIRS];
	struct weir_table *table = open_table(64ull << 20);
	struct work with, without;
	struct ticker ticker = {.table = table};
	uint64_t end_s;
	char figure[64];

	open_work(&with, table, keys, true);
	open_work(&without, table, keys, false);
	decide_ns(&without, keys < EACH ? EACH : keys, keys > 1);
	if (pthread_create(&ticker.thread, NULL, tick_along, &ticker) != 0)
		exit(1);
	while (weir_history(table, WEIR_STAT_ALL, WEIR_SECONDS, NULL, 0, &end_s) < 0)
		decide_ns(&with, EACH, false);
	/* Two seconds of traffic come first, because top keys are stored only after the first
	 * second with traffic. */
	for (uint64_t end = wr_bench_clock_ns() + 2ull * SECOND_NS; wr_bench_clock_ns() < end;)
		decide_ns(&with, EACH, false);
	for (int i = 0; i < PAIRS; i++) {
		if (i % 2)
			with_ns[i] = decide_ns(&with, EACH, false);
		without_ns[i] = decide_ns(&without, EACH, false);
		if (i % 2 == 0)
			with_ns[i] = decide_ns(&with, EACH, false);
		ratio[i] = with_ns[i] / without_ns[i];
	}
	__atomic_store_n(&ticker.stop, true, __ATOMIC_RELAXED);
	pthread_join(ticker.thread, NULL);
	snprintf(figure, sizeof figure, "%s_with_stats_ns", name);
	wr_bench_figure(figure, wr_bench_median(with_ns, PAIRS), "");
	snprintf(figure, sizeof figure, "%s_without_ns", name);
	wr_bench_figure(figure, wr_bench_median(without_ns, PAIRS), "");
	snprintf(figure, sizeof figure, "%s_with_stats_vs_without", name);
	wr_bench_figure(figure, wr_bench_median(ratio, PAIRS), remark);
	weir_engine_free(with.engine);
	weir_engine_free(without.engine);
	weir_close(table);
}

/* ---- bytes ---- */

/* Returns the number of cache lines of a section that are not zero. */
static uint64_t lines_used(const struct weir_table *table, enum wr_section section)
{
	struct wr_extent extent = table->header.sections[section];
	const uint64_t *at = (const uint64_t *)(table->base + extent.offset);
	uint64_t used = 0;

	for (uint64_t line = 0; line < extent.bytes / 64; line++, at += 8)
		used += (at[0] | at[1] | at[2] | at[3] | at[4] | at[5] | at[6] | at[7]) != 0;
	return used;
}

struct counting {
	struct wr_stats *stats;
	const uint32_t *slots;
	pthread_barrier_t *gate;
};

static void *count_all(void *arg)
{
	struct counting *counting = arg;

	for (uint32_t i = 0; i < ACTIVE; i++)
		wr_stat_add(wr_lane_mine(counting->stats), counting->slots[i], WR_STAT_admitted, 1);
	pthread_barrier_wait(counting->gate);
	return NULL;
}

static void fill_top(struct wr_top *top)
{
	for (uint64_t key = 1; key <= WEIR_TOP_KEYS; key++) {
		struct wr_stats_key_text text = {.kind = WEIR_TOP_WHOLE, .len = WEIR_TOP_TEXT};

		memset(text.bytes, 'k', sizeof text.bytes);
		wr_top_add(top, WEIR_TOP_HOT, key, 100, &text);
		wr_top_add(top, WEIR_TOP_REFUSED, key, 100, &text);
	}
}

/* Measures how many cache lines the statistics of a rule use. Each of 400 rules is counted by four
 * threads and has a day of history and full lists of top keys. */
static void bench_bytes(void)
{
	struct weir_table *table = open_table(64ull << 20);
	static struct wr_stats stats;
	static uint32_t slots[ACTIVE];
	struct weir_stats_info info = {.size = sizeof info};
	pthread_barrier_t gate;
	struct counting counting = {&stats, slots, &gate};
	pthread_t threads[COUNTERS];
	uint64_t used;

	wr_stats_open(&stats, table);
	for (uint32_t i = 0; i < ACTIVE; i++) {
		char name[64];

		snprintf(name, sizeof name, "api/customer=c%07u/user/1m", i);
		slots[i] = wr_stats_slot(&stats, wr_str(name));
	}
	weir_tick(table, NOW_NS);
	pthread_barrier_init(&gate, NULL, COUNTERS);
	for (int i = 0; i < COUNTERS; i++)
		if (pthread_create(&threads[i], NULL, count_all, &counting) != 0)
			exit(1);
	for (int i = 0; i < COUNTERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&gate);
	for (uint64_t minute = 0; minute <= WEIR_HISTORY_MINUTES; minute++) {
		for (uint32_t i = 0; i < ACTIVE; i++)
			wr_stat_add(wr_lane_mine(&stats), slots[i], WR_STAT_admitted, 100);
		weir_tick(table, NOW_NS + (minute * 60 + 1) * SECOND_NS);
	}
	for (uint32_t i = 0; i < ACTIVE; i++)
		fill_top(&stats.map.history.tops[i]);
	weir_stats_info(table, &info);
	if (info.history_used != ACTIVE)
		exit(1);
	used = lines_used(table, WR_SECTION_LANES) + lines_used(table, WR_SECTION_HISTORY) +
	       lines_used(table, WR_SECTION_TOP);
	wr_bench_figure("bytes_per_active_rule", (double)(used * 64) / ACTIVE,
			"to reach: <= 20480");
	wr_bench_figure("bytes_per_active_rule_stated", info.rule_bytes, "by weir_stats_info");
	wr_stats_close(&stats);
	weir_close(table);
}

/* ---- a scrape, and a tick ---- */

static char *make_rules(size_t *len)
{
	size_t cap = 200 + RULES * 120ul;
	char *text = malloc(cap);

	*len = (size_t)snprintf(text, cap, "domain: bench\ndescriptors:\n");
	for (uint32_t i = 0; i < RULES; i++)
		*len += (size_t)snprintf(
			text + *len, cap - *len,
			"- {key: customer, value: c%07u, rate_limit: {unit: second, "
			"requests_per_unit: %u}}\n",
			i, i + 1);
	return text;
}

static double scrape_ms(struct weir_table *table, struct weir_engine *engine,
			struct wr_metrics_choice *choice, struct wr_buf *text)
{
	struct weir_info info = {.size = sizeof info};
	struct wr_metrics_view view = {
		.table = table, .engine = engine, .info = &info, .now_ns = NOW_NS};
	struct wr_prom prom = {.out = text};
	uint64_t start = wr_bench_clock_ns();

	wr_buf_clear(text);
	weir_info(table, NOW_NS, &info);
	if (wr_metrics_write(&prom, choice, &view) != 0)
		exit(1);
	wr_prom_end(&prom);
	return (double)(wr_bench_clock_ns() - start) / 1e6;
}

static void bench_scrape(void)
{
	static struct wr_metrics_choice choice;
	static char memory[WEIR_ASK_BYTES] __attribute__((aligned(64)));
	struct weir_table *table = open_table(64ull << 20);
	struct weir_engine *engine;
	struct wr_buf text;
	double scrape[ROUNDS], tick[ROUNDS];
	size_t len;
	char *rules = make_rules(&len);

	if (weir_engine_new(table, load(rules, len), NULL, &engine) != 0)
		exit(1);
	wr_buf_init(&text, 64ul << 20);
	wr_metrics_choice_init(&choice, WR_METRICS_RULES_MAX);
	weir_tick(table, NOW_NS);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start;

		for (uint32_t i = 0; i < RULES; i++) {
			char value[] = "c0000000";
			struct weir_entry entry = {WR_STR("customer"), {value, 8}, WR_STR("")};
			struct weir_ask *ask;

			put_digits(value + 1, i);
			weir_ask_init(memory, sizeof memory, engine, WR_STR("bench"), &ask);
			weir_ask_add(ask, &entry, 1, NULL, 1);
			weir_ask_decide(ask, NOW_NS);
			weir_ask_done(ask);
		}
		start = wr_bench_clock_ns();
		weir_tick(table, NOW_NS + (uint64_t)(round + 1) * SECOND_NS);
		tick[round] = (double)(wr_bench_clock_ns() - start) / 1e6;
		scrape[round] = scrape_ms(table, engine, &choice, &text);
	}
	wr_bench_figure("scrape_5k_rules_ms", wr_bench_median(scrape, ROUNDS), "to reach: <= 50");
	wr_bench_figure("scrape_5k_rules_bytes", (double)text.len, "");
	wr_bench_figure("tick_5k_rules_ms", wr_bench_median(tick, ROUNDS), "once a second");
	wr_metrics_choice_free(&choice);
	weir_engine_free(engine);
	weir_close(table);
	wr_buf_free(&text);
	free(rules);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: bench-watch FILE.json\n");
		return 2;
	}
	if (wr_bench_begin(argv[1]) < 0)
		return 1;
	compare("engine", MILLION, "a million keys; to reach: <= 1.10");
	compare("hot_key", 1, "one key; to reach: <= 1.3");
	bench_bytes();
	bench_scrape();
	return wr_bench_end() == 0 ? 0 : 1;
}
