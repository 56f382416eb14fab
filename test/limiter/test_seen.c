/* The statistics that decisions write: top keys, latency, hosts, and the numbers of rules. */
#include "standin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "stats/stats.h"

static const char *const yaml =
	"domain: api\n"
	"descriptors:\n"
	"  - key: user\n"
	"    rate_limit: {unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 5}\n"
	"  - key: route\n"
	"    value: signup\n"
	"    shadow_mode: true\n"
	"    descriptors:\n"
	"      - key: ip\n"
	"        rate_limit: {unit: day, requests_per_unit: 10, algorithm: leaky_bucket, "
	"queue_size: 4, consistency: local}\n"
	"      - {key: ip, value: \"10.*\", share_threshold: true, rate_limit: {unit: day, "
	"requests_per_unit: 3}}\n"
	"  - {key: all, value: of, rate_limit: {calendar: month, requests_per_unit: 3}}\n"
	"  - {key: all, value: free, rate_limit: {unlimited: true}}\n";

static void open_as(struct rig *rig, uint32_t keys, uint32_t flags)
{
	struct weir_engine_opts opts = {.size = sizeof opts,
					.flags = flags,
					.now_ns = NOW_NS,
					.keys = keys,
					.host = "a test of some length, cut"};

	*rig = (struct rig){.table = rig_table(), .domain = "api", .now_ns = NOW_NS};
	assert_int_equal(weir_engine_new(rig->table, rig_rules(yaml), &opts, &rig->engine), 0);
	assert_int_equal(weir_tick(rig->table, rig->now_ns), 1);
}

/* A larger table with a unique name, on a disk, because /dev/shm may have only 64 MiB. */
static struct weir_table *larger_table(uint64_t bytes)
{
	struct weir_opts opts = {.size = sizeof opts, .dir = "/tmp", .memory_bytes = bytes};
	struct weir_table *table;
	char name[64];

	snprintf(name, sizeof name, "test-seen-%d", (int)getpid());
	opts.name = name;
	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	weir_remove(name, opts.dir, NULL);
	return table;
}

static void next_second(struct rig *rig)
{
	rig->now_ns += SECOND_NS;
	assert_int_equal(weir_tick(rig->table, rig->now_ns), 1);
}

static int keys_of(struct rig *rig, const char *rule, enum weir_top_list list,
		   struct weir_top_key *keys)
{
	return weir_top(rig->table, rig_stat(rig, rule).slot, list, keys, WEIR_TOP_KEYS, NULL);
}

static void assert_text(const struct weir_top_key *key, const char *text)
{
	assert_int_equal(key->text_kind, WEIR_TOP_WHOLE);
	assert_int_equal(key->text_len, strlen(text));
	assert_memory_equal(key->text, text, strlen(text));
}

static void top_keys(void **state)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	struct rig rig;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	rig_ask(&rig, "user=first");
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), WEIR_ENOENT);
	next_second(&rig);
	/* From here on every decision is sampled. */
	assert_int_equal(rig_admitted(&rig, "user=hot", 10), 5);
	assert_int_equal(rig_admitted(&rig, "user=warm", 6), 5);
	assert_int_equal(rig_admitted(&rig, "user=cold", 2), 2);
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), 3);
	assert_text(&keys[0], "hot");
	assert_int_equal(keys[0].count, 10);
	assert_int_equal(keys[0].over + keys[0].noise, 0);
	assert_text(&keys[1], "warm");
	assert_int_equal(keys[1].count, 6);
	assert_text(&keys[2], "cold");
	assert_int_equal(keys[2].count, 2);
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_REFUSED, keys), 2);
	assert_text(&keys[0], "hot");
	assert_int_equal(keys[0].count, 5);
	assert_text(&keys[1], "warm");
	assert_int_equal(keys[1].count, 1);
	rig_close(&rig);
	(void)state;
}

/* Texts contain values of the client only, with any bytes, cut at 64. */
static void texts_of_top_keys(void **state)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	char longest[80], descriptor[96];
	struct rig rig;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	for (int i = 0; i < 2; i++) {
		rig_ask(&rig, "route=signup|ip=1.2.3.4");
		rig_ask(&rig, "route=signup|ip=10.2.3.4");
		rig_ask(&rig, "all=of");
		rig_begin(&rig);
		rig_add_override(&rig, "a=\033[2J|b=<script>", 5, 1, 1);
		rig_decide(&rig);
		if (i == 0)
			next_second(&rig);
	}
	assert_int_equal(keys_of(&rig, "api/route=signup/ip/1d", WEIR_TOP_HOT, keys), 1);
	assert_text(&keys[0], "1.2.3.4");
	assert_int_equal(keys_of(&rig, "api/route=signup/ip=10.*/1d", WEIR_TOP_HOT, keys), 1);
	assert_text(&keys[0], "");
	assert_int_equal(keys_of(&rig, "api/all=of/month@UTC", WEIR_TOP_HOT, keys), 1);
	assert_text(&keys[0], "");
	assert_int_equal(keys_of(&rig, "api/override", WEIR_TOP_HOT, keys), 1);
	assert_text(&keys[0], "\033[2J\x1f<script>");
	rig_ask(&rig, "user=x");
	next_second(&rig);
	memset(longest, 'u', sizeof longest);
	snprintf(descriptor, sizeof descriptor, "user=%.*s", 65, longest);
	rig_ask(&rig, descriptor);
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), 1);
	assert_int_equal(keys[0].text_kind, WEIR_TOP_CUT);
	assert_int_equal(keys[0].text_len, 64);
	assert_memory_equal(keys[0].text, longest, 64);
	rig_close(&rig);
	(void)state;
}

static void hashed_and_hidden(void **state)
{
	struct weir_engine_opts opts = {.size = sizeof opts, .keys = WEIR_KEYS_HASHED};
	struct weir_top_key keys[WEIR_TOP_KEYS];
	struct weir_engine *other;
	struct rig rig;

	/* Texts are erased when an engine with WEIR_KEYS_HASHED or HIDDEN opens the table. */
	open_as(&rig, WEIR_KEYS_TEXT, 0);
	rig_ask(&rig, "user=7");
	next_second(&rig);
	rig_ask(&rig, "user=7");
	keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys);
	assert_text(&keys[0], "7");
	assert_int_equal(weir_engine_new(rig.table, rig_rules(yaml), &opts, &other), 0);
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), 1);
	assert_int_equal(keys[0].text_kind, WEIR_TOP_NO_TEXT);
	assert_true(keys[0].hash != 0);
	assert_int_equal(keys[0].count, 1);
	weir_engine_free(other);
	rig_close(&rig);
	open_as(&rig, WEIR_KEYS_HASHED, 0);
	rig_ask(&rig, "user=7");
	next_second(&rig);
	rig_ask(&rig, "user=7");
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), 1);
	assert_int_equal(keys[0].text_kind, WEIR_TOP_NO_TEXT);
	rig_close(&rig);
	open_as(&rig, WEIR_KEYS_HIDDEN, 0);
	rig_ask(&rig, "user=7");
	next_second(&rig);
	rig_ask(&rig, "user=7");
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), 0);
	opts.keys = 3;
	assert_int_equal(weir_engine_new(rig.table, NULL, &opts, &other), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

/* Many requests per second: some are sampled, and the counts are within the stated noise. */
static void top_keys_of_sampled_decisions(void **state)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	struct weir_top_info info = {.size = sizeof info};
	struct rig rig;
	uint32_t slot;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	rig_admitted(&rig, "user=7", 30000);
	next_second(&rig);
	for (int i = 0; i < 2;
	     i++) { /* the second tick sets the sampling rate, the third uses it */
		rig_admitted(&rig, "user=7", 20000);
		rig_admitted(&rig, "user=8", 10000);
		if (i == 0)
			next_second(&rig);
	}
	slot = rig_stat(&rig, "api/user/1s").slot;
	assert_int_equal(weir_top(rig.table, slot, WEIR_TOP_HOT, keys, 48, &info), 2);
	assert_int_equal(info.every, 32);
	assert_text(&keys[0], "7");
	assert_text(&keys[1], "8");
	assert_in_range(keys[0].count, 40000 - 5000, 40000 + 5000);
	assert_in_range(keys[1].count, 20000 - 3500, 20000 + 3500);
	assert_true(keys[0].noise > 1000);
	rig_close(&rig);
	(void)state;
}

#define RULES 5000
#define KEYS 20 /* number of keys of each rule */

static int sum_up(void *context, const struct weir_stat *stat)
{
	uint64_t *sums = context;

	sums[0] += stat->admitted;
	sums[1] += stat->refused;
	sums[2]++;
	sums[3] += stat->flags & WEIR_STAT_HISTORY;
	return 0;
}

/* 5,000 rules and 100,000 keys: everything is counted, within the memory. */
static void many_rules_and_keys(void **state)
{
	struct weir_stats_info info = {.size = sizeof info};
	size_t cap = 100 + RULES * 80ul, len;
	char *rules = malloc(cap);
	struct rig rig = {.domain = "api", .now_ns = NOW_NS};
	uint64_t sums[4] = {0};

	len = (size_t)snprintf(rules, cap, "domain: api\ndescriptors:\n");
	for (int i = 0; i < RULES; i++)
		len += (size_t)snprintf(rules + len, cap - len,
					"- {key: k%d, rate_limit: {unit: week, requests_per_unit: "
					"1}}\n",
					i);
	rig.table = larger_table(64 << 20);
	assert_int_equal(weir_engine_new(rig.table, rig_rules(rules), NULL, &rig.engine), 0);
	weir_tick(rig.table, rig.now_ns);
	for (int key = 0; key < KEYS; key++) {
		for (int i = 0; i < RULES; i++) {
			char descriptor[64];

			snprintf(descriptor, sizeof descriptor, "k%d=client %d", i, key);
			rig_ask(&rig, descriptor);
			rig_ask(&rig, descriptor);
		}
		next_second(&rig);
	}
	assert_int_equal(weir_stats_each(rig.table, sum_up, sums), 0);
	assert_int_equal(sums[0], RULES * KEYS);
	assert_int_equal(sums[1], RULES * KEYS);
	assert_int_equal(sums[2], RULES + 1 + WEIR_STAT_RULES); /* one slot for overrides */
	assert_int_equal(sums[3], 400);
	assert_int_equal(weir_stats_info(rig.table, &info), 0);
	assert_int_equal(info.history_used, 400);
	assert_true(info.rule_bytes <= 20480);
	rig_close(&rig);
	free(rules);
	(void)state;
}

/* The latency of one decision in 64 is reported. */
static void latency(void **state)
{
	struct weir_latency latency = {.size = sizeof latency};
	struct rig rig;
	uint64_t sum = 0;
	int timed = 0;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	weir_engine_free(rig.engine);
	weir_close(rig.table);
	rig.table = larger_table(2 << 20); /* a table of 1 MiB is too small for latencies */
	assert_int_equal(weir_engine_new(rig.table, rig_rules(yaml), NULL, &rig.engine), 0);
	rig_begin(&rig);
	assert_int_equal(weir_ask_wants_latency(rig.ask), 0);
	for (int i = 0; i < 640; i++) {
		rig_ask(&rig, "user=7");
		if (weir_ask_wants_latency(rig.ask) == 1) {
			uint64_t ns = timed < 5 ? 70 : 1000 + (uint64_t)timed;

			assert_int_equal(weir_ask_report_latency(rig.ask, ns), 0);
			assert_int_equal(weir_ask_report_latency(rig.ask, ns), WEIR_EINVAL);
			assert_int_equal(weir_ask_wants_latency(rig.ask), 0);
			sum += ns;
			timed++;
		}
	}
	assert_int_equal(timed, 10);
	assert_int_equal(weir_latency(rig.table, WEIR_LATENCY_LOCAL, &latency), 0);
	assert_int_equal(latency.count, 10);
	assert_int_equal(latency.sum_ns, sum);
	for (unsigned i = 0; i < WEIR_LATENCY_BUCKETS; i++) {
		uint64_t from = i ? weir_latency_below(i - 1) : 0;
		bool has_70 = from <= 70 && 70 < weir_latency_below(i);
		bool has_1000 = from <= 1000 && 1010 < weir_latency_below(i);

		assert_int_equal(latency.bucket[i], has_70 ? 5 : has_1000 ? 5 : 0);
	}
	assert_int_equal(weir_latency(rig.table, WEIR_LATENCY_CENTRAL, &latency), 0);
	assert_int_equal(latency.count, 0);
	rig_close(&rig);
	(void)state;
}

static void latency_of_the_store(void **state)
{
	struct weir_latency latency = {.size = sizeof latency};
	struct store store = {0};
	struct rig rig;

	rig_open_with(&rig, rig_rules(yaml), "api", WEIR_ENGINE_CENTRAL);
	rig_begin(&rig);
	rig_add(&rig, "user=7", 1);
	assert_int_equal(rig_decide(&rig), WEIR_WAIT);
	assert_int_equal(weir_ask_wants_latency(rig.ask), 0);
	store_finish(&rig, &store, WEIR_WAIT);
	assert_int_equal(weir_ask_wants_latency(rig.ask), 1);
	assert_int_equal(weir_ask_report_latency(rig.ask, 5000000), 0);
	assert_int_equal(weir_latency(rig.table, WEIR_LATENCY_CENTRAL, &latency), 0);
	assert_int_equal(latency.count, 0); /* the rig's table is too small */
	rig_close(&rig);
	(void)state;
}

/* Buckets have no gaps, and each power of two begins a bucket. */
static void latency_buckets(void **state)
{
	for (unsigned i = 0; i + 1 < WEIR_LATENCY_BUCKETS; i++)
		assert_true(weir_latency_below(i) < weir_latency_below(i + 1));
	assert_int_equal(weir_latency_below(0), 64);
	assert_int_equal(weir_latency_below(1), 80);
	assert_int_equal(weir_latency_below(4), 128);
	assert_int_equal(weir_latency_below(92), 1u << 29);
	assert_int_equal(weir_latency_below(93), UINT64_MAX);
	(void)state;
}

/* ---- numbers of rules ---- */

static void numbers_of_rules(void **state)
{
	struct weir_stat stat;
	struct rig rig;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	stat = rig_stat(&rig, "api/user/1s");
	assert_int_equal(stat.algorithm, WEIR_TOKEN_BUCKET);
	assert_int_equal(stat.limit, 2);
	assert_int_equal(stat.burst, 5);
	assert_int_equal(stat.period_ns, SECOND_NS);
	assert_int_equal(stat.flags, WEIR_STAT_CENTRAL);
	assert_int_equal(stat.loaded_ns, NOW_NS);
	stat = rig_stat(&rig, "api/route=signup/ip/1d");
	assert_int_equal(stat.algorithm, WEIR_LEAKY_BUCKET);
	assert_int_equal(stat.burst, 4);
	assert_int_equal(stat.flags & WEIR_STAT_CENTRAL, 0);
	stat = rig_stat(&rig, "api/all=of/month@UTC");
	assert_int_equal(stat.algorithm, WEIR_FIXED_WINDOW);
	assert_int_equal(stat.period_ns, 0);
	stat = rig_stat(&rig, "api/all=free/unlimited");
	assert_true(stat.flags & WEIR_STAT_UNLIMITED);
	rig_close(&rig);
	(void)state;
}

static void weir_stats_slot_of_a_rule(void **state)
{
	struct weir_stat stat = {.size = sizeof stat};
	char name[WEIR_STAT_NAME_BYTES];
	struct rig rig;
	uint32_t slot;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	rig_ask(&rig, "user=7");
	slot = rig_stat(&rig, "api/user/1s").slot;
	assert_int_equal(weir_stats_slot(rig.table, slot, name, &stat), 0);
	assert_string_equal(name, "api/user/1s");
	assert_ptr_equal(stat.rule.ptr, name);
	assert_int_equal(stat.admitted, 1);
	assert_int_equal(weir_stats_slot(rig.table, WEIR_STAT_ALLOWED, name, &stat), 0);
	assert_int_equal(weir_stats_slot(rig.table, 1000, name, &stat), WEIR_ENOENT);
	assert_int_equal(weir_stats_slot(rig.table, UINT32_MAX, name, &stat), WEIR_ENOENT);
	rig_close(&rig);
	(void)state;
}

static void engine_without_statistics(void **state)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	struct rig rig;

	open_as(&rig, WEIR_KEYS_TEXT, WEIR_ENGINE_NO_STATS);
	assert_int_equal(rig_admitted(&rig, "user=7", 6), 5);
	assert_int_equal(rig_stat(&rig, "api/user/1s").admitted, 0);
	next_second(&rig);
	assert_int_equal(keys_of(&rig, "api/user/1s", WEIR_TOP_HOT, keys), WEIR_ENOENT);
	assert_int_equal(weir_ask_wants_latency(rig.ask), 0);
	rig_close(&rig);
	(void)state;
}

/* Invalid tracks are ignored. */
static void damaged_statistics_are_ignored(void **state)
{
	static const uint32_t tracks[] = {0x10000, 0xffff, 0xffffffff, 7, 0x3ff0000};
	struct wr_stats_map map;
	struct rig rig;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	assert_true(wr_stats_map(rig.table, &map));
	for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++) {
		map.history.track[rig_stat(&rig, "api/user/1s").slot] = tracks[i];
		for (int j = 0; j < 200; j++)
			rig_ask(&rig, "user=7");
	}
	assert_int_equal(rig_stat(&rig, "api/user/1s").admitted, 5);
	rig_close(&rig);
	(void)state;
}

/* ---- hosts ---- */

struct hosts {
	struct weir_host host[8];
	char name[8][32], error[8][256];
	int count;
};

static int take_host(void *context, const struct weir_host *host)
{
	struct hosts *hosts = context;
	int at = hosts->count++;

	hosts->host[at] = *host;
	snprintf(hosts->name[at], sizeof hosts->name[at], "%.*s", (int)host->name.len,
		 host->name.ptr);
	snprintf(hosts->error[at], sizeof hosts->error[at], "%.*s", (int)host->error.len,
		 host->error.ptr);
	return 0;
}

static struct hosts hosts_of(struct rig *rig)
{
	struct hosts hosts = {.count = 0};

	assert_int_equal(weir_hosts_each(rig->table, take_host, &hosts), 0);
	return hosts;
}

/* A process is a host after its first decision, and a child process is another host. */
static void hosts(void **state)
{
	char long_error[400];
	struct hosts seen;
	struct rig rig;
	int go[2];
	pid_t child;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	assert_int_equal(hosts_of(&rig).count, 0);
	rig_ask(&rig, "user=7");
	seen = hosts_of(&rig);
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.name[0], "a test of some length, ");
	assert_int_equal(seen.host[0].pid, getpid());
	assert_int_equal(seen.host[0].alive, 1);
	assert_int_equal(seen.host[0].generation, 1);
	assert_int_equal(seen.host[0].loaded_ns, NOW_NS);
	assert_int_equal(seen.host[0].loads_good, 1);
	assert_int_equal(seen.host[0].failed_ns, 0);
	memset(long_error, 'e', sizeof long_error);
	long_error[sizeof long_error - 1] = '\0';
	weir_engine_load_failed(rig.engine, long_error, NOW_NS + 5);
	seen = hosts_of(&rig);
	assert_int_equal(seen.host[0].loads_failed, 1);
	assert_int_equal(seen.host[0].failed_ns, NOW_NS + 5);
	assert_int_equal(strlen(seen.error[0]), 127);
	/* A child with the inherited engine loads other rules. */
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends with a failed test */
		rig_ask(&rig, "user=7");
		weir_engine_swap(rig.engine, rig_rules("domain: api\ndescriptors: [{key: user}]\n"),
				 NOW_NS + 9);
		write(go[1], "x", 1);
		pause();
	}
	assert_int_equal(read(go[0], long_error, 1), 1);
	seen = hosts_of(&rig);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.host[0].generation, 1);
	assert_int_equal(seen.host[1].generation, 2);
	assert_int_equal(seen.host[1].pid, child);
	assert_int_equal(seen.host[1].alive, 1);
	assert_true(seen.host[0].rules_hash != seen.host[1].rules_hash);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	seen = hosts_of(&rig);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.host[1].alive, 0);
	close(go[0]);
	close(go[1]);
	weir_ask_done(rig.ask);
	rig.ask = NULL;
	weir_engine_free(rig.engine);
	seen = hosts_of(&rig);
	assert_int_equal(seen.count, 1); /* the killed process */
	weir_close(rig.table);
	(void)state;
}

static int take_gauge(void *context, const struct weir_gauge *gauge)
{
	struct weir_gauge *gauges = context;

	gauges[gauge->number] = *gauge;
	return 0;
}

static void gauges(void **state)
{
	struct weir_gauge seen[WEIR_GAUGE_COUNT] = {{0}};
	struct rig rig;

	open_as(&rig, WEIR_KEYS_TEXT, 0);
	assert_int_equal(weir_gauge_set(rig.table, WEIR_GAUGE_STORE_UP, 1, NOW_NS), 0);
	assert_int_equal(weir_gauge_set(rig.table, WEIR_GAUGE_OVERSHOOT_PPM, -5, NOW_NS + 1), 0);
	assert_int_equal(weir_gauge_set(rig.table, WEIR_GAUGE_COUNT, 1, NOW_NS), WEIR_EINVAL);
	assert_int_equal(weir_gauges_each(rig.table, take_gauge, seen), 0);
	assert_string_equal(seen[WEIR_GAUGE_STORE_UP].name, "store_up");
	assert_int_equal(seen[WEIR_GAUGE_STORE_UP].value, 1);
	assert_int_equal(seen[WEIR_GAUGE_STORE_UP].set_ns, NOW_NS);
	assert_int_equal(seen[WEIR_GAUGE_OVERSHOOT_PPM].value, -5);
	assert_null(seen[WEIR_GAUGE_LEASES].name);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(top_keys),
		cmocka_unit_test(texts_of_top_keys),
		cmocka_unit_test(top_keys_of_sampled_decisions),
		cmocka_unit_test(many_rules_and_keys),
		cmocka_unit_test(hashed_and_hidden),
		cmocka_unit_test(latency),
		cmocka_unit_test(latency_of_the_store),
		cmocka_unit_test(latency_buckets),
		cmocka_unit_test(numbers_of_rules),
		cmocka_unit_test(weir_stats_slot_of_a_rule),
		cmocka_unit_test(engine_without_statistics),
		cmocka_unit_test(hosts),
		cmocka_unit_test(gauges),
		cmocka_unit_test(damaged_statistics_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
