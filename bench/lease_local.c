/* `lease-local FILE` is a part of `make bench-lease`. It measures decisions with `consistency:
 * lease` and with `consistency: eventual`. It compares them with the same decisions in the table
 * alone. There are only a few keys, and their limits are so high that no request is refused. Ten
 * times per second, a thread does the work of the service: it grants, reports and renews leases, or
 * exchanges counts. */
#include "measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "base/clock.h"
#include "base/str.h"
#include "limiter/question.h"
#include "store/exchange.h"
#include "store/lease.h"

#define PAIRS 151 /* number of rounds; the median ignores the few that other programs disturb */
#define EACH 20000u
#define HOT 100u
#define OWNER 77u
#define SECOND_NS 1000000000u
#define UNITS 1000000u /* units of a lease; more than requests take from a key in one second */

static const char rules_format[] =
	"domain: api\n"
	"descriptors:\n"
	"- key: user\n"
	"  rate_limit: {unit: minute, requests_per_unit: 40000000, algorithm: %s, "
	"consistency: %s}\n";

static struct weir_rules *load(const char *algorithm, const char *consistency)
{
	struct weir_rules *rules;
	char text[512], path[64];
	int len = snprintf(text, sizeof text, rules_format, algorithm, consistency);
	int fd = memfd_create("rules", 0);

	if (fd < 0 || write(fd, text, (size_t)len) != len)
		exit(1);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (weir_rules_load(path, &rules, NULL) != 0)
		exit(1);
	close(fd);
	return rules;
}

static struct weir_table *open_table(void)
{
	struct weir_opts opts = {
		.size = sizeof opts, .dir = "/dev/shm", .memory_bytes = 64ull << 20};
	struct weir_table *table;
	static int number;
	char name[64];

	snprintf(name, sizeof name, "bench-lease-%d-%d", (int)getpid(), number++);
	opts.name = name;
	if (weir_open(&opts, &table, NULL) != 0)
		exit(1);
	weir_remove(name, opts.dir, NULL);
	return table;
}

static struct weir_engine *open_engine(struct weir_table *table, struct weir_rules *rules,
				       uint32_t flags)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = {1};
	struct weir_engine_opts opts = {
		.size = sizeof opts, .flags = flags, .fleet_secret = secret};
	struct weir_engine *engine;

	if (weir_engine_new(table, rules, &opts, &engine) != 0)
		exit(1);
	return engine;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* ---- decisions ---- */

static _Alignas(64) char memory[WEIR_ASK_BYTES];
static uint32_t waited;
static struct wr_key tags[HOT];

struct moment {
	uint64_t now_ns, mono_ns;
};

/* Writes `number` as three digits to `at`. */
static void put_digits(char *at, uint32_t number)
{
	for (int i = 2; i >= 0; i--, number /= 10)
		at[i] = (char)('0' + number % 10);
}

/* Decides one request of user `number`. A request that would wait for Redis is cancelled and
 * counted in `waited`. */
static void decide(struct weir_engine *engine, uint32_t number, struct moment now)
{
	char user[] = "u000";
	struct weir_entry entry = {WR_STR("user"), {user, 4}, WR_STR("")};
	struct weir_ask *ask;
	int verdict;

	put_digits(user + 1, number);
	weir_ask_init(memory, sizeof memory, engine, WR_STR("api"), &ask);
	weir_ask_add(ask, &entry, 1, NULL, 1);
	if (now.mono_ns)
		weir_ask_set_boottime(ask, now.mono_ns);
	verdict = weir_ask_decide(ask, now.now_ns);
	if (verdict == WEIR_WAIT) {
		waited++;
		weir_ask_cancel(ask, now.now_ns);
	} else if (verdict != WEIR_ADMIT) {
		exit(1);
	}
	weir_ask_done(ask);
}

/* Returns the time of a decision. Reads only one clock, as the service and the nginx module do. If
 * `leased` is false, this is the wall clock. If `leased` is true, this is CLOCK_BOOTTIME, by which
 * leases end. The wall-clock time is then computed from it: the difference between the two clocks
 * is read once per millisecond. */
static struct moment read_clock(bool leased)
{
	static uint64_t distance_ns, looked_mono_ns;
	struct moment now = {0};

	if (!leased)
		return (struct moment){clock_ns(CLOCK_REALTIME), 0};
	now.mono_ns = wr_clock_boot_ns();
	if (now.mono_ns - looked_mono_ns > SECOND_NS / 1000) {
		looked_mono_ns = now.mono_ns;
		distance_ns = clock_ns(CLOCK_REALTIME) - now.mono_ns;
	}
	now.now_ns = now.mono_ns + distance_ns;
	return now;
}

static double decide_ns(struct weir_engine *engine, bool leased)
{
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (uint32_t i = 0; i < EACH; i++)
		decide(engine, i % HOT, read_clock(leased));
	return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / EACH;
}

/* ---- the owner of the leases ---- */

struct lease_owner {
	struct weir_table *table;
	void (*turn)(struct lease_owner *lease_owner);
	pthread_t thread;
	bool stop;
};

/* Stores the hash of each key in tags[]. Reads it from a question that the engine writes. */
static void find_tags(struct weir_engine *engine)
{
	char user[] = "u000";
	struct weir_entry entry = {WR_STR("user"), {user, 4}, WR_STR("")};

	for (uint32_t i = 0; i < HOT; i++) {
		static uint8_t bytes[WEIR_QUESTION_MAX];
		struct wr_question_item item;
		struct weir_ask *ask;

		put_digits(user + 1, i);
		weir_ask_init(memory, sizeof memory, engine, WR_STR("api"), &ask);
		weir_ask_add(ask, &entry, 1, NULL, 1);
		if (weir_ask_decide(ask, clock_ns(CLOCK_REALTIME)) != WEIR_WAIT ||
		    weir_ask_question(ask, bytes, sizeof bytes) <= 0)
			exit(1);
		memcpy(&item, bytes + sizeof(struct wr_question_head), sizeof item);
		tags[i].tag = item.tag;
		weir_ask_cancel(ask, clock_ns(CLOCK_REALTIME));
		weir_ask_done(ask);
	}
}

static void renew(struct lease_owner *lease_owner)
{
	for (uint32_t i = 0; i < HOT; i++) {
		uint64_t mono_ns = wr_clock_boot_ns();
		int slot = wr_store_lease_claim(lease_owner->table, tags[i], OWNER, mono_ns);
		uint32_t left =
			wr_store_lease_report(lease_owner->table, slot, OWNER, mono_ns, NULL);
		struct wr_store_lease_terms terms = {
			.units = UNITS - (left < UNITS ? left : UNITS),
			.remaining = 30000000u,
			.limit = 40000000u,
			.ends_mono_ns = mono_ns + SECOND_NS,
			.resets_mono_ns = mono_ns + 60ull * SECOND_NS,
			.identity = wr_store_lease_identity(40000000u, 0, 0),
		};

		if (slot < 0 ||
		    !wr_store_lease_deposit(lease_owner->table, slot, OWNER, &terms, mono_ns, NULL))
			exit(1);
	}
}

/* Exchanges counts with one simulated other node, which has admitted as much as this node. */
static void exchange(struct lease_owner *lease_owner)
{
	uint64_t now_ns = clock_ns(CLOCK_REALTIME), mono_ns = wr_clock_boot_ns();
	struct wr_store_exchange_view view;
	uint32_t cursor = 0;
	int slot;

	if (!wr_store_exchange_own(lease_owner->table, OWNER, WR_SYNC_DEFAULT_NS, mono_ns))
		exit(1);
	wr_store_exchange_answered(lease_owner->table, OWNER, mono_ns);
	while ((slot = wr_store_exchange_next(lease_owner->table, OWNER, &cursor, 0, now_ns,
					      mono_ns, &view)) >= 0) {
		struct wr_store_exchange_totals others = {{view.counts[0], view.counts[1]}};

		wr_store_exchange_apply(lease_owner->table, slot, OWNER, view.incarnation, &others,
					now_ns, mono_ns);
	}
}

static void *run_owner(void *arg)
{
	struct lease_owner *lease_owner = arg;

	while (!__atomic_load_n(&lease_owner->stop, __ATOMIC_RELAXED)) {
		lease_owner->turn(lease_owner);
		usleep(100000);
	}
	return NULL;
}

/* ---- figures ---- */

struct comparison {
	const char *name, *consistency, *algorithm;
	uint32_t nodes;
	const char *remark;
};

static void write_figures(const struct comparison *of, double *leased_ns, double *local_ns,
			  double *ratio)
{
	char figure[64];

	snprintf(figure, sizeof figure, "%s_ns", of->name);
	wr_bench_figure(figure, wr_bench_median(leased_ns, PAIRS), "");
	snprintf(figure, sizeof figure, "%s_local_ns", of->name);
	wr_bench_figure(figure, wr_bench_median(local_ns, PAIRS), "");
	wr_bench_figure(of->name, wr_bench_median(ratio, PAIRS), of->remark);
	if (waited) /* a lease had no units, so the figures are not valid */
		exit(1);
}

/* Measures decisions with of->consistency, and decisions in the table alone, in turn and in short
 * rounds. The figure is the median of the ratios of all rounds. */
static void compare(const struct comparison *of)
{
	double leased_ns[PAIRS], local_ns[PAIRS], ratio[PAIRS];
	struct weir_table *table = open_table(), *other = open_table();
	struct weir_engine *leased =
		open_engine(table, load(of->algorithm, of->consistency), WEIR_ENGINE_CENTRAL);
	struct weir_engine *local = open_engine(other, load(of->algorithm, "local"), 0);
	bool eventual = strcmp(of->consistency, "eventual") == 0;
	struct lease_owner lease_owner = {.table = table, .turn = eventual ? exchange : renew};

	weir_fleet_note(table, of->nodes, clock_ns(CLOCK_REALTIME));
	if (!eventual)
		find_tags(leased);
	lease_owner.turn(&lease_owner);
	if (pthread_create(&lease_owner.thread, NULL, run_owner, &lease_owner) != 0)
		exit(1);
	decide_ns(local, false);
	decide_ns(leased, true);
	waited = 0;
	for (int i = 0; i < PAIRS; i++) {
		if (i % 2)
			leased_ns[i] = decide_ns(leased, true);
		local_ns[i] = decide_ns(local, false);
		if (i % 2 == 0)
			leased_ns[i] = decide_ns(leased, true);
		ratio[i] = local_ns[i] / leased_ns[i];
	}
	__atomic_store_n(&lease_owner.stop, true, __ATOMIC_RELAXED);
	pthread_join(lease_owner.thread, NULL);
	write_figures(of, leased_ns, local_ns, ratio);
	weir_engine_free(leased);
	weir_engine_free(local);
	weir_close(table);
	weir_close(other);
}

static const struct comparison comparisons[] = {
	{"lease_vs_local", "lease", "fixed_window", 1, "to reach: >= 0.9"},
	{"lease_vs_local_token_bucket", "lease", "token_bucket", 1, ""},
	{"lease_vs_local_token_bucket_of_three", "lease", "token_bucket", 3, ""},
	{"lease_vs_local_sliding_counter", "lease", "sliding_window_counter", 1, ""},
	{"eventual_vs_local", "eventual", "fixed_window", 2, ""},
	{"eventual_vs_local_token_bucket", "eventual", "token_bucket", 2, ""},
};

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: lease-local FILE\n");
		return 2;
	}
	if (wr_bench_begin(argv[1]) != 0)
		return 1;
	for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
		compare(&comparisons[i]);
	return wr_bench_end();
}
