/* Run by `make bench-rules`. Measures how fast a descriptor is matched among many rules, compares
 * complete decisions with weir_take(), and measures what `ban` adds to a decision. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/engine.h>
#include <weir/weir.h>

#include "base/str.h"
#include "rules/match.h"

#define ROUNDS 31
#define MANY 100000u
#define FEW 10u
#define DRAWS (1u << 17)
#define CLIENTS 100000u
#define NOW_NS 1800000000000000000u
#define TICK_NS 1100u

static uint64_t seed = 42;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(((seed >> 32) * below) >> 32);
}

static struct weir_rules *load(const char *text, size_t len, double *seconds)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;
	uint64_t start;
	char path[64];
	int fd = memfd_create("rules", 0);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len)
		exit(1);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	start = wr_bench_clock_ns();
	if (weir_rules_load(path, &rules, &errors) != 0) {
		char message[512];

		weir_diagnostic_text(&errors.items[0], message, sizeof message);
		fprintf(stderr, "bench: %s", message);
		exit(1);
	}
	if (seconds)
		*seconds = (double)(wr_bench_clock_ns() - start) / 1e9;
	weir_errors_free(&errors);
	close(fd);
	return rules;
}

/* ---- matching ---- */

struct set {
	struct weir_rules *rules;
	const struct wr_node *domain;
	struct weir_entry *entries; /* two entries for each of DRAWS descriptors */
	char *texts;
	double load_s;
};

static void make_rules(struct set *set, uint32_t count)
{
	size_t cap = 200 + count * 120ul, len;
	char *text = malloc(cap);

	len = (size_t)snprintf(text, cap,
			       "domain: bench\ndescriptors:\n- key: tier\n  value: api\n"
			       "  descriptors:\n");
	for (uint32_t i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, cap - len,
					"  - key: customer\n    value: c%07u\n    rate_limit: "
					"{unit: second, requests_per_unit: %u}\n",
					i, i + 1);
	set->rules = load(text, len, &set->load_s);
	set->domain = wr_rules_domain(set->rules, WR_STR("bench"));
	free(text);
}

/* Makes all requests before the measurement. `live` is the number of customers that send requests.
 * Their rules are spread evenly over all rules. Each request is from a random one of them. */
static void make_draws(struct set *set, uint32_t rules, uint32_t live)
{
	set->entries = malloc(2 * DRAWS * sizeof *set->entries);
	set->texts = malloc(DRAWS * 16ul);
	for (uint32_t i = 0; i < DRAWS; i++) {
		char *text = set->texts + i * 16ul;
		size_t len = (size_t)snprintf(text, 16, "c%07u", draw(live) * (rules / live));

		set->entries[2 * i] =
			(struct weir_entry){WR_STR("tier"), WR_STR("api"), WR_STR("")};
		set->entries[2 * i + 1] =
			(struct weir_entry){WR_STR("customer"), {text, len}, WR_STR("")};
	}
}

static double match_ns(const struct set *set)
{
	uint64_t start = wr_bench_clock_ns();
	size_t limited = 0;

	for (uint32_t i = 0; i < DRAWS; i++) {
		struct wr_match match;

		limited += wr_rules_match(set->rules, set->domain, &set->entries[2 * i], 2,
					  &match) == WR_LIMITED;
	}
	if (limited != DRAWS)
		exit(1);
	return (double)(wr_bench_clock_ns() - start) / DRAWS;
}

static void free_draws(struct set *set)
{
	free(set->entries);
	free(set->texts);
}

/* Measures matching with the rules `many` and with the rules `few` in turn. Returns the median of
 * the ratios of all rounds. Sets *many_median and *few_median to the median times. */
static double compare_matches(const struct set *many, const struct set *few, double *many_median,
			      double *few_median)
{
	double many_ns[ROUNDS], few_ns[ROUNDS], ratio[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		many_ns[i] = match_ns(many);
		few_ns[i] = match_ns(few);
		ratio[i] = many_ns[i] / few_ns[i];
	}
	*many_median = wr_bench_median(many_ns, ROUNDS);
	*few_median = wr_bench_median(few_ns, ROUNDS);
	return wr_bench_median(ratio, ROUNDS);
}

/* Compares many rules with few rules twice. A customer is live if it sends requests. First the same
 * number of customers is live with many and with few rules, so the ratio shows only the additional
 * work. Then all 100,000 customers of the many rules are live, so the ratio also shows reads from
 * memory instead of the cache. */
static void bench_match(void)
{
	struct set many, few;
	double many_ns, few_ns, ratio;
	struct weir_rules_info info = {.size = sizeof info};

	make_rules(&many, MANY);
	make_rules(&few, FEW);
	make_draws(&few, FEW, FEW);
	make_draws(&many, MANY, FEW);
	ratio = compare_matches(&many, &few, &many_ns, &few_ns);
	wr_bench_figure("match_100k_ns", many_ns, "two entries, 10 live customers of 100,000");
	wr_bench_figure("match_10_ns", few_ns, "10 live customers of 10");
	wr_bench_figure("match_100k_vs_10", ratio, "to reach: <= 1.5");
	free_draws(&many);
	make_draws(&many, MANY, MANY);
	ratio = compare_matches(&many, &few, &many_ns, &few_ns);
	wr_bench_figure("match_100k_all_live_ns", many_ns, "100,000 live customers: out of cache");
	wr_bench_figure("match_100k_all_live_vs_10", ratio, "no goal");
	weir_rules_info(many.rules, &info);
	wr_bench_figure("load_100k_s", many.load_s, "");
	wr_bench_figure("bytes_per_rule", (double)info.bytes / MANY, "");
	free_draws(&many);
	free_draws(&few);
	weir_rules_free(many.rules);
	weir_rules_free(few.rules);
}

/* ---- deciding ---- */

static const char decide_rules[] =
	"domain: api\n"
	"requests:\n"
	"- when: {method: POST, path: /v1/posts}\n"
	"  descriptor: [{key: user, from: header.x-user-id}]\n"
	"- descriptor: [{key: address, from: remote_address}]\n"
	"descriptors:\n"
	"- key: user\n"
	"  rate_limit: {unit: minute, requests_per_unit: 60000000, algorithm: token_bucket}\n"
	"- key: address\n"
	"  rate_limit: {unit: minute, requests_per_unit: 60000000}\n";

struct work {
	struct weir_table *table;
	struct weir_engine *engine;
	struct weir_limit limits[2]; /* the limits of decide_rules, as arguments of weir_take() */
	uint32_t clients;
	uint64_t now_ns;
};

static void open_work(struct work *work, const char *rules, size_t len, uint32_t clients)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "bench-rules",
				 .dir = "/dev/shm",
				 .memory_bytes = 32ull << 20};
	struct weir_error error;

	weir_remove(opts.name, opts.dir, NULL);
	if (weir_open(&opts, &work->table, &error) != 0 ||
	    weir_engine_new(work->table, load(rules, len, NULL), NULL, &work->engine) != 0)
		exit(1);
	weir_remove(opts.name, opts.dir, NULL);
	work->clients = clients;
	work->now_ns = NOW_NS;
	for (int i = 0; i < 2; i++) {
		work->limits[i] =
			(struct weir_limit){.size = sizeof work->limits[i],
					    .algorithm = i ? WEIR_FIXED_WINDOW : WEIR_TOKEN_BUCKET,
					    .limit = 60000000,
					    .period_ns = 60ull * 1000000000,
					    /* The engine counts in the same table. With this
					     * identity, weir_take() has its own counters. */
					    .identity = 77};
		weir_limit_check(&work->limits[i], NULL);
	}
}

static void close_work(struct work *work)
{
	weir_engine_free(work->engine);
	weir_close(work->table);
}

/* Writes `number` as seven digits to `at`. */
static void put_digits(char *at, uint32_t number)
{
	for (int i = 6; i >= 0; i--, number /= 10)
		at[i] = (char)('0' + number % 10);
}

/* Measures decisions on requests with the header fields of a browser. The field that selects the
 * counter is in the middle. Returns the ns per decision. */
static double decide_ns(struct work *work, uint32_t count)
{
	char user[] = "u0000000";
	struct weir_header headers[] = {
		{WR_STR("host"), WR_STR("api.example.com")},
		{WR_STR("user-agent"), WR_STR("Mozilla/5.0 (X11; Linux x86_64; rv:115.0)")},
		{WR_STR("accept"), WR_STR("application/json")},
		{WR_STR("x-user-id"), {user, 8}},
		{WR_STR("content-type"), WR_STR("application/json")},
		{WR_STR("content-length"), WR_STR("117")},
	};
	struct weir_http_view view = {.size = sizeof view,
				      .peer_len = 4,
				      .peer = {10},
				      .method = WR_STR("POST"),
				      .target = WR_STR("/v1/posts"),
				      .host = WR_STR("api.example.com"),
				      .headers = headers,
				      .header_count = sizeof headers / sizeof *headers};
	_Alignas(64) static char memory[WEIR_ASK_BYTES];
	uint64_t start = wr_bench_clock_ns();

	for (uint32_t i = 0; i < count; i++) {
		uint32_t client = draw(work->clients);
		struct weir_ask *ask;

		put_digits(user + 1, client);
		view.peer[1] = (uint8_t)(client >> 16);
		view.peer[2] = (uint8_t)(client >> 8);
		view.peer[3] = (uint8_t)client;
		work->now_ns += TICK_NS;
		weir_ask_init(memory, sizeof memory, work->engine, WR_STR("api"), &ask);
		weir_ask_http(ask, &view);
		if (weir_ask_decide(ask, work->now_ns) != WEIR_ADMIT)
			exit(1);
		weir_ask_done(ask);
	}
	return (double)(wr_bench_clock_ns() - start) / count;
}

static double take_ns(struct work *work, uint32_t count)
{
	char user[] = "user=u0000000", address[] = "address=0000000";
	uint64_t start = wr_bench_clock_ns();

	for (uint32_t i = 0; i < count; i++) {
		uint32_t client = draw(work->clients);
		struct weir_decision decision;

		put_digits(user + 6, client);
		put_digits(address + 8, client);
		work->now_ns += TICK_NS;
		weir_take(work->table, &work->limits[0], user, sizeof user - 1, 1, work->now_ns,
			  &decision);
		weir_take(work->table, &work->limits[1], address, sizeof address - 1, 1,
			  work->now_ns, &decision);
		if (!decision.admitted)
			exit(1);
	}
	return (double)(wr_bench_clock_ns() - start) / count;
}

static double bench_decide(uint32_t clients, const char *names[3], const char *remark)
{
	double decide[ROUNDS], take[ROUNDS], ratio[ROUNDS];
	const uint32_t count = 100000;
	struct work work;

	open_work(&work, decide_rules, sizeof decide_rules - 1, clients);
	decide_ns(&work, 4 * clients);
	take_ns(&work, 4 * clients);
	for (int i = 0; i < ROUNDS; i++) {
		decide[i] = decide_ns(&work, count);
		take[i] = take_ns(&work, count);
		ratio[i] = decide[i] / take[i];
	}
	wr_bench_figure(names[0], wr_bench_median(decide, ROUNDS), remark);
	wr_bench_figure(names[1], wr_bench_median(take, ROUNDS), "two weir_take");
	close_work(&work);
	return wr_bench_median(ratio, ROUNDS);
}

/* ---- bans ---- */

/* Each rule is like the one before it, with `ban`. The key of the last rule is banned. */
static const char ban_rules[] =
	"domain: api\n"
	"descriptors:\n"
	"- {key: admit, rate_limit: {unit: minute, requests_per_unit: 60000000}}\n"
	"- {key: admit_ban, rate_limit: {unit: minute, requests_per_unit: 60000000,\n"
	"   ban: {after: 50, within: 1s, for: 10m}}}\n"
	"- {key: refuse, rate_limit: {unit: minute, requests_per_unit: 0}}\n"
	"- {key: refuse_ban, rate_limit: {unit: minute, requests_per_unit: 0,\n"
	"   ban: {after: 50, within: 1s, for: 10m}}}\n"
	"- {key: banned, rate_limit: {unit: minute, requests_per_unit: 0,\n"
	"   ban: {after: 1, within: 1s, for: 300d, max: 300d}}}\n";

#define KINDS 5
#define KEYS 1000u
#define BAN_TICK_NS 25000u /* 40 requests per second and key */

/* Measures decisions on 1,000 keys in turn, so that no key gets 50 refusals within a second.
 * Returns the ns per decision. */
static double ban_ns(struct work *work, const char *rule, uint32_t count)
{
	_Alignas(64) static char memory[WEIR_ASK_BYTES];
	char value[] = "0000000";
	struct weir_entry entry = {wr_str(rule), {value, 7}, WR_STR("")};
	int wanted = rule[0] == 'a' ? WEIR_ADMIT : WEIR_REFUSE;
	uint64_t start = wr_bench_clock_ns();

	for (uint32_t i = 0; i < count; i++) {
		struct weir_ask *ask;

		put_digits(value, i % KEYS);
		work->now_ns += BAN_TICK_NS;
		weir_ask_init(memory, sizeof memory, work->engine, WR_STR("api"), &ask);
		weir_ask_add(ask, &entry, 1, NULL, 1);
		if (weir_ask_decide(ask, work->now_ns) != wanted)
			exit(1);
		weir_ask_done(ask);
	}
	return (double)(wr_bench_clock_ns() - start) / count;
}

/* Compares rules with and without `ban`, in turn. */
static void bench_bans(void)
{
	static const char *const rules[KINDS] = {"admit", "admit_ban", "refuse", "refuse_ban",
						 "banned"};
	double ns[KINDS][ROUNDS], admit[ROUNDS], refuse[ROUNDS], banned[ROUNDS];
	const uint32_t count = 2000; /* a round takes less than a time slice of the scheduler */
	struct work work;

	open_work(&work, ban_rules, sizeof ban_rules - 1, 1);
	for (int i = -1; i < ROUNDS; i++) {
		for (int k = 0; k < KINDS; k++)
			ns[k][i < 0 ? 0 : i] = ban_ns(&work, rules[k], count);
		if (i < 0)
			continue; /* the first round only fills the caches */
		admit[i] = ns[1][i] / ns[0][i];
		refuse[i] = ns[3][i] - ns[2][i];
		banned[i] = ns[4][i] / ns[2][i];
	}
	wr_bench_figure("ban_admit_vs_plain", wr_bench_median(admit, ROUNDS), "");
	wr_bench_figure("refuse_ns", wr_bench_median(ns[2], ROUNDS), "refused, without ban");
	wr_bench_figure("ban_refusal_adds_ns", wr_bench_median(refuse, ROUNDS), "");
	wr_bench_figure("banned_vs_refused", wr_bench_median(banned, ROUNDS), "");
	close_work(&work);
}

int main(int argc, char **argv)
{
	static const char *many[] = {"decide_ns", "two_takes_ns", "decide_vs_take"};
	static const char *one[] = {"decide_one_client_ns", "two_takes_one_client_ns",
				    "decide_vs_take_one_client"};

	if (argc != 2) {
		fprintf(stderr, "usage: bench-rules FILE.json\n");
		return 2;
	}
	if (wr_bench_begin(argv[1]) < 0)
		return 1;
	bench_match();
	bench_bans();
	wr_bench_figure(many[2],
			bench_decide(CLIENTS, many, "HTTP request, two limits, 100,000 clients"),
			"to reach: <= 3");
	wr_bench_figure(one[2], bench_decide(1, one, "the same, all in cache"), "no goal");
	return wr_bench_end() == 0 ? 0 : 1;
}
