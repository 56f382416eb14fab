/* Tuning: levels, sampling, proposed rules, and the replay of proposed rules on the same log. */
#include "replay_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "lab/tune_inner.h"
#include "rules/helper.h"
#include "sim/rng.h"

#define HOUR_NS (60 * MINUTE_NS)

/* ---- requests ---- */

/* A log in memory. */
struct request {
	uint64_t after_ns;
	uint32_t client;
	const char *method, *target, *user;
	uint32_t status;
};

struct trace {
	struct request *items;
	size_t count, cap;
};

static struct request *add(struct trace *trace, uint32_t client, const char *target,
			   uint64_t after_ns)
{
	if (trace->count == trace->cap) {
		trace->cap = trace->cap ? 2 * trace->cap : 1024;
		trace->items = realloc(trace->items, trace->cap * sizeof *trace->items);
		assert_non_null(trace->items);
	}
	trace->items[trace->count] = (struct request){after_ns, client, "GET", target, "", 200};
	return &trace->items[trace->count++];
}

static int compare_times(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	return x->after_ns < y->after_ns ? -1 : x->after_ns > y->after_ns;
}

static void sort(struct trace *trace)
{
	qsort(trace->items, trace->count, sizeof *trace->items, compare_times);
}

static struct wr_lab_record record_of(const struct request *request, char client[24])
{
	struct wr_lab_record record;

	snprintf(client, 24, "10.%u.%u.%u", request->client >> 16 & 255, request->client >> 8 & 255,
		 request->client & 255);
	record = replay_record(client, request->after_ns);
	record.method = wr_str(request->method);
	record.target = wr_str(request->target);
	record.user = wr_str(request->user);
	record.status = request->status;
	return record;
}

static struct wr_lab_tune *tune_trace(const struct trace *trace, struct wr_lab_tune_opts opts)
{
	struct weir_error error = {0};
	struct wr_lab_tune *tune;

	if (opts.untouched_ppm == 0)
		opts.untouched_ppm = 999000;
	if (wr_lab_tune_open(&opts, &tune, &error) < 0)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < trace->count; i++) {
		char client[24];
		struct wr_lab_record record = record_of(&trace->items[i], client);

		assert_int_equal(wr_lab_tune_feed(tune, &record, &error), 0);
	}
	if (wr_lab_tune_end(tune, &error) < 0)
		fail_msg("%s", error.text);
	return tune;
}

static const struct wr_lab_tune_opts any_unit = {.unit = WR_LAB_UNIT_COUNT};

/* Finds a route by its text. */
static const struct wr_lab_tune_route *find_route(const struct wr_lab_tune *tune, const char *text)
{
	const struct wr_lab_tune_report *report = wr_lab_tune_report(tune);

	for (size_t i = 0; i < report->route_count; i++)
		if (strcmp(report->routes[i].text, text) == 0)
			return &report->routes[i];
	fail_msg("there is no route %s", text);
	return NULL;
}

/* ---- the proposed rules ---- */

/* Returns the proposed rules. Fails if they cause an error or a warning. */
static char *yaml_of(const struct wr_lab_tune *tune)
{
	struct wr_buf yaml;

	wr_buf_init(&yaml, 1 << 20);
	wr_lab_tune_yaml(tune, false, &yaml);
	assert_false(wr_buf_failed(&yaml));
	return wr_buf_release(&yaml, &(size_t){0});
}

/* Replays the proposed rules. Returns the number of clients from which a request was refused. Sets
 * *by_limits to the number of requests that limits refused, unless it is NULL. */
static uint64_t replay_rules_with(const struct wr_lab_tune *tune, const struct trace *trace,
				  uint64_t *by_limits)
{
	char *yaml = yaml_of(tune);
	struct wr_lab_replay *replay = replay_open(yaml, NULL);
	const struct wr_lab_replay_report *report;
	uint64_t refused;

	for (size_t i = 0; i < trace->count; i++) {
		char client[24];
		struct wr_lab_record record = record_of(&trace->items[i], client);

		wr_lab_replay_feed(replay, &record, NULL);
	}
	report = replay_end(replay);
	refused = report->clients_refused;
	for (size_t i = 0; by_limits && i < report->limit_count; i++)
		*by_limits += report->limits[i].refused;
	wr_lab_replay_close(replay);
	free(yaml);
	return refused;
}

static uint64_t replay_rules(const struct wr_lab_tune *tune, const struct trace *trace)
{
	return replay_rules_with(tune, trace, NULL);
}

/* ---- arithmetic ---- */

static void numbers_are_rounded_up(void **state)
{
	static const uint32_t cases[][2] = {
		{0, 0},       {1, 1},       {7, 7},       {10, 10},
		{11, 12},     {13, 15},     {20, 20},     {26, 30},
		{81, 100},    {100, 100},   {101, 120},   {999, 1000},
		{1001, 1200}, {4000, 4000}, {4001, 5000}, {UINT32_MAX, UINT32_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(wr_lab_tune_round(cases[i][0]), cases[i][1]);
	/* A number that has no round number above it stays as it is. */
	assert_int_equal(wr_lab_tune_round(4000000001u), 4000000001u);
}

static void the_untouched_part_is_rounded_up(void **state)
{
	(void)state;
	assert_int_equal(wr_lab_tune_spared(1000, 999000), 999);
	assert_int_equal(wr_lab_tune_spared(999, 999000), 999);
	assert_int_equal(wr_lab_tune_spared(1001, 999000), 1000);
	assert_int_equal(wr_lab_tune_spared(1999, 999000), 1998);
	assert_int_equal(wr_lab_tune_spared(10000, 999900), 9999);
	assert_int_equal(wr_lab_tune_spared(9999, 999900), 9999);
	assert_int_equal(wr_lab_tune_spared(10, 1000000), 10);
	assert_int_equal(wr_lab_tune_spared(0, 999000), 0);
	assert_int_equal(wr_lab_tune_spared(1, 1), 1);
}

static void a_limit_costs_its_burst_and_its_rate(void **state)
{
	struct wr_lab_rate ten = {10, MINUTE_NS}, one = {1, HOUR_NS};

	(void)state;
	assert_int_equal(wr_lab_tune_cost(&ten, 100, MINUTE_NS), 110);
	assert_int_equal(wr_lab_tune_cost(&ten, 100, SECOND_NS), 101);
	assert_int_equal(wr_lab_tune_cost(&one, 5, HOUR_NS), 6);
	assert_int_equal(wr_lab_tune_cost(&one, 5, MINUTE_NS), 6);
}

/* ---- levels ---- */

/* Client n of `clients` sends n requests at once, the last one 5,000. */
static struct trace make_stairs(uint32_t clients)
{
	struct trace trace = {0};

	for (uint32_t n = 1; n <= clients; n++)
		for (uint32_t i = 0; i < (n == clients ? 5000 : n); i++)
			add(&trace, n, "/", n * SECOND_NS);
	return trace;
}

static void level_999_of_1000_leaves_out_one_client(void **state)
{
	struct trace trace = make_stairs(1000);
	struct wr_lab_tune *tune = tune_trace(&trace, any_unit);
	const struct wr_lab_tune_report *report = wr_lab_tune_report(tune);
	const struct wr_lab_tune_route *all = find_route(tune, "all requests");
	static const uint32_t needs[] = {900, 990, 999, 5000, 5000};

	(void)state;
	assert_int_equal(report->clients, 1000);
	assert_int_equal(report->level_count, 5);
	assert_int_equal(report->level, 2);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(all->levels[i].best.need, needs[i]);
		assert_int_equal(all->levels[i].bursts[0], needs[i]);
		assert_int_equal(all->levels[i].peaks[WR_LAB_PER_SECOND], needs[i]);
		assert_int_equal(all->levels[i].peaks[WR_LAB_PER_DAY], needs[i]);
	}
	assert_int_equal(all->limit.need, 999);
	assert_int_equal(all->limit.burst, 1000);
	assert_int_equal(all->limit.spared, 999);
	assert_int_equal(all->limit.touched, 1);
	assert_int_equal(report->touched, 1);
	assert_int_equal(report->touched_max, 1);
	assert_int_equal(replay_rules(tune, &trace), 1);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* One client fewer: 99.9 % of 999 clients are all of them. */
static void level_999_of_999_leaves_out_no_client(void **state)
{
	struct trace trace = make_stairs(999);
	struct wr_lab_tune *tune = tune_trace(&trace, any_unit);
	const struct wr_lab_tune_route *all = find_route(tune, "all requests");

	(void)state;
	assert_int_equal(all->limit.need, 5000);
	assert_int_equal(all->limit.touched, 0);
	assert_int_equal(wr_lab_tune_report(tune)->touched_max, 0);
	assert_int_equal(replay_rules(tune, &trace), 0);
	wr_lab_tune_close(tune);
	free(trace.items);
}

static void a_requested_level_is_among_the_levels(void **state)
{
	static const struct {
		uint32_t ppm;
		size_t level, count;
	} cases[] = {
		{500000, 0, 6}, {900000, 0, 5}, {950000, 1, 6}, {999950, 4, 6}, {1000000, 4, 5}};
	struct trace trace = make_stairs(100);

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_lab_tune_opts opts = any_unit;
		const struct wr_lab_tune_report *report;
		struct wr_lab_tune *tune;

		opts.untouched_ppm = cases[i].ppm;
		tune = tune_trace(&trace, opts);
		report = wr_lab_tune_report(tune);
		assert_int_equal(report->level, cases[i].level);
		assert_int_equal(report->level_count, cases[i].count);
		assert_int_equal(report->routes[0].levels[report->level].untouched_ppm,
				 cases[i].ppm);
		for (size_t k = 1; k < report->level_count; k++)
			assert_true(report->routes[0].levels[k].untouched_ppm >
				    report->routes[0].levels[k - 1].untouched_ppm);
		wr_lab_tune_close(tune);
	}
	free(trace.items);
}

/* 50 clients send 6 requests at once, then one every 6 s for ten minutes: 106 requests. 10 per minute
 * with a burst of 6 admit all, and 16 in a minute. No other rate admits less. */
static void the_best_rate_admits_least_per_minute(void **state)
{
	struct trace trace = {0};
	const struct wr_lab_tune_route *all;
	struct wr_lab_tune *tune;
	const struct wr_lab_rate *rate;

	(void)state;
	for (uint32_t client = 0; client < 50; client++) {
		for (unsigned i = 0; i < 6; i++)
			add(&trace, client, "/", client * SECOND_NS);
		for (unsigned i = 1; i <= 100; i++)
			add(&trace, client, "/", (client + 6 * i) * SECOND_NS);
	}
	sort(&trace);
	tune = tune_trace(&trace, any_unit);
	all = find_route(tune, "all requests");
	rate = &wr_lab_tune_report(tune)->rates[all->limit.rate];
	assert_int_equal(rate->limit, 10);
	assert_int_equal(rate->period_ns, MINUTE_NS);
	assert_int_equal(all->limit.need, 6);
	assert_int_equal(all->limit.burst, 6);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* 30 clients send one request at the beginning and one at the end of two hours. A burst of 1 would be
 * enough, but so few requests say little. 5 tokens per hour are 10 in two hours; slower rates are not
 * judged by such a log. */
static void limits_are_not_tighter_than_the_log_can_tell(void **state)
{
	struct wr_lab_tune_opts opts = any_unit;
	struct trace trace = {0};
	const struct wr_lab_tune_route *all;
	const struct wr_lab_rate *rate;
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 0; client < 60; client++)
		add(&trace, client % 30, "/", client < 30 ? 0 : 2 * HOUR_NS);
	tune = tune_trace(&trace, opts);
	all = find_route(tune, "all requests");
	rate = &wr_lab_tune_report(tune)->rates[all->limit.rate];
	assert_int_equal(all->limit.need, 1);
	assert_int_equal(all->limit.burst, 5);
	assert_int_equal(rate->limit, 5);
	assert_int_equal(rate->period_ns, HOUR_NS);
	wr_lab_tune_close(tune);
	opts.unit = WR_LAB_PER_DAY;
	tune = tune_trace(&trace, opts);
	rate = &wr_lab_tune_report(tune)->rates[find_route(tune, "all requests")->limit.rate];
	assert_int_equal(rate->limit, 200); /* 100 per day are 8.3 in two hours */
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* ---- several limits ---- */

/* 1,000 clients. Client 1 is far too fast on /a, client 2 on /b, client 3 on both together. Each
 * limit may touch one client, but all of them together only one: the limit for all requests keeps
 * its allowance. */
static void limits_share_the_clients_that_they_may_touch(void **state)
{
	struct trace trace = {0};
	struct wr_lab_tune *tune;
	const struct wr_lab_tune_report *report;

	(void)state;
	for (uint32_t client = 1; client <= 1000; client++) {
		unsigned a = client == 1 ? 100 : client == 3 ? 90 : 3;
		unsigned b = client == 2 ? 100 : client == 3 ? 90 : 3;

		for (unsigned i = 0; i < a; i++)
			add(&trace, client, "/a", client * SECOND_NS);
		for (unsigned i = 0; i < b; i++)
			add(&trace, client, "/b", client * SECOND_NS);
	}
	tune = tune_trace(&trace, any_unit);
	report = wr_lab_tune_report(tune);
	assert_int_equal(report->routes[0].levels[2].best.need, 103);
	assert_int_equal(find_route(tune, "GET /a")->levels[2].best.need, 90);
	assert_int_equal(report->touched_max, 1);
	assert_int_equal(report->touched, 1);
	assert_int_equal(report->routes[0].limit.need, 103);
	/* Not tighter than half of the limit for all requests, so the routes have no limit. */
	assert_int_equal(find_route(tune, "GET /a")->reason, WR_LAB_NOT_TIGHTER);
	assert_int_equal(replay_rules(tune, &trace), 1);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* As above with small limits on the routes: alone, each of the three limits would touch another
 * client. */
static void loosened_limits_touch_no_more_than_permitted(void **state)
{
	struct trace trace = {0};
	struct wr_lab_tune *tune;
	const struct wr_lab_tune_report *report;

	(void)state;
	for (uint32_t client = 1; client <= 1000; client++) {
		unsigned a = client == 1 ? 20 : 3, b = client == 2 ? 20 : 3;
		unsigned rest = client == 3 ? 500 : 60;

		for (unsigned i = 0; i < a; i++)
			add(&trace, client, "/a", client * SECOND_NS);
		for (unsigned i = 0; i < b; i++)
			add(&trace, client, "/b", client * SECOND_NS);
		for (unsigned i = 0; i < rest; i++)
			add(&trace, client, "/c", client * SECOND_NS);
	}
	tune = tune_trace(&trace, any_unit);
	report = wr_lab_tune_report(tune);
	assert_true(report->loosened);
	assert_int_equal(find_route(tune, "GET /a")->levels[2].best.need, 3);
	assert_int_equal(find_route(tune, "GET /a")->limit.burst, 20);
	assert_int_equal(find_route(tune, "GET /b")->limit.burst, 20);
	assert_int_equal(report->routes[0].limit.need, 83);
	assert_int_equal(report->touched, 1);
	assert_int_equal(replay_rules(tune, &trace), 1);
	wr_lab_tune_close(tune);
	free(trace.items);
}

static void a_route_needs_twenty_clients(void **state)
{
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 0; client < 100; client++) {
		for (unsigned i = 0; i < 30; i++)
			add(&trace, client, "/", client * SECOND_NS);
		if (client < 20)
			add(&trace, client, "/twenty", client * SECOND_NS)->method = "POST";
		if (client < 19)
			add(&trace, client, "/nineteen", client * SECOND_NS)->method = "POST";
	}
	tune = tune_trace(&trace, any_unit);
	assert_int_equal(find_route(tune, "POST /twenty")->reason, WR_LAB_PROPOSED);
	assert_int_equal(find_route(tune, "POST /nineteen")->reason, WR_LAB_FEW_CLIENTS);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* ---- the closed loop ---- */

/* Clients visit pages of a shop: a page with its resources, then a pause. Some are much faster. */
static struct trace make_shop(uint64_t seed, uint32_t clients)
{
	static const char *const resources[] = {"/static/a.css", "/static/b.js", "/static/c.png",
						"/static/d.woff2"};
	static const char *const pages[] = {"/", "/shop/1", "/shop/2", "/shop/3?x=1", "/cart"};
	struct wr_rng rng = {seed};
	struct trace trace = {0};

	for (uint32_t client = 0; client < clients; client++) {
		bool fast = wr_rng_percent(&rng, 1);
		uint64_t after_ns = wr_rng_below(&rng, 4 * HOUR_NS);
		unsigned visits = 1 + (unsigned)wr_rng_scale(&rng, 1, fast ? 200 : 20);

		for (unsigned i = 0; i < visits; i++) {
			add(&trace, client, pages[wr_rng_below(&rng, 5)], after_ns);
			for (unsigned k = 0; k < wr_rng_below(&rng, 8); k++)
				add(&trace, client, resources[k % 4],
				    after_ns + wr_rng_below(&rng, SECOND_NS));
			if (wr_rng_percent(&rng, 10))
				add(&trace, client, "/login", after_ns)->method = "POST";
			after_ns += wr_rng_scale(&rng, SECOND_NS / 100,
						 fast ? SECOND_NS : 5 * MINUTE_NS);
		}
	}
	sort(&trace);
	return trace;
}

static void proposed_rules_touch_exactly_the_promised_clients(void **state)
{
	static const uint32_t levels[] = {900000, 990000, 999000, 1000000};

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct trace trace = make_shop(seed, 1500);

		for (unsigned unit = 0; unit <= WR_LAB_UNIT_COUNT; unit++)
			for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
				struct wr_lab_tune_opts opts = {.unit = unit,
								.untouched_ppm = levels[i]};
				struct wr_lab_tune *tune = tune_trace(&trace, opts);
				const struct wr_lab_tune_report *report = wr_lab_tune_report(tune);

				assert_int_equal(replay_rules(tune, &trace), report->touched);
				assert_true(report->touched <= report->touched_max);
				assert_int_equal(report->touched_max,
						 1500 - wr_lab_tune_spared(1500, levels[i]));
				wr_lab_tune_close(tune);
			}
		free(trace.items);
	}
}

/* ---- the sample ---- */

static void a_sample_has_the_exact_demand_of_its_clients(void **state)
{
	struct trace trace = make_shop(5, 600);
	struct wr_lab_tune_opts opts = any_unit;
	struct wr_lab_tune *full = tune_trace(&trace, opts), *sample;
	unsigned compared = 0;

	(void)state;
	opts.pair_max = 256;
	sample = tune_trace(&trace, opts);
	assert_int_equal(wr_lab_tune_report(full)->sample_bits, 0);
	assert_true(wr_lab_tune_report(sample)->sample_bits >= 2);
	assert_true(sample->table.pair_count <= 256);
	assert_int_equal(wr_lab_tune_report(sample)->requests, trace.count);
	assert_int_equal(wr_lab_tune_report(sample)->routes[0].requests, trace.count);
	for (uint32_t i = 0; i < sample->table.pair_count; i++) {
		const struct wr_lab_pair *a = &sample->table.pairs[i];
		const struct wr_lab_tune_client *client = &sample->table.clients[a->client];

		assert_true(client->hash >> (64 - sample->table.sample_bits) == 0);
		for (uint32_t k = 0; k < full->table.pair_count; k++) {
			const struct wr_lab_pair *b = &full->table.pairs[k];

			if (a->route != b->route ||
			    strcmp(client->name, full->table.clients[b->client].name) != 0)
				continue;
			assert_memory_equal(&a->demand, &b->demand, sizeof a->demand);
			compared++;
		}
	}
	assert_int_equal(compared, sample->table.pair_count);
	assert_true(compared > 60);
	wr_lab_tune_close(full);
	wr_lab_tune_close(sample);
	free(trace.items);
}

/* ---- hostile texts ---- */

static void hostile_texts_cannot_break_the_rules(void **state)
{
	static const char *const targets[] = {
		"/a\"b",         "/a'b",   "/a: b",        "/- x",  "/#x",          "/{x}",
		"/x*",           "/a\\b",  "/%0a- key: x", "/%00",  "/\xff\xfe",    "/\xe2\x80\xae",
		"/&anchor",      "/!tag",  "/[x",          "/null", "/~",           "/a,b",
		"/%22]}",        "/..%2f", "/;x=1",        "/true", "/caf\xc3\xa9", "/%c3%a9",
		"//evil/x",      "/a%2Fb", "/ ",           "/\x7f", "/<script>",    "/0x1f",
		"http://h/x\"y", "*",      "/%",           "/%zz",  "/\xc2\x85x",
	};
	static const char *const key = "header.x-key,cookie.a\"b,query.c: d,address";
	struct wr_lab_tune_opts opts = any_unit;
	struct trace trace = {0};
	struct wr_lab_tune *tune;
	struct weir_rules *rules;
	uint64_t by_limits = 0;
	char *yaml;

	(void)state;
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		for (uint32_t client = 0; client < 40; client++)
			add(&trace, client, targets[i], (i * 40 + client) * SECOND_NS)->method =
				i % 2 ? "POST" : "GET";
	for (uint32_t client = 0; client < 40; client++)
		for (unsigned i = 0; i < 400; i++)
			add(&trace, client, "/", HOUR_NS + client * MINUTE_NS);
	opts.key = key;
	tune = tune_trace(&trace, opts);
	yaml = yaml_of(tune);
	rules = test_rules(yaml);
	assert_true(rules->request_count > 3);
	/* Malformed targets are refused, but not by the limits. */
	assert_int_equal(replay_rules_with(tune, &trace, &by_limits), 40);
	assert_int_equal(by_limits, 0);
	assert_true(wr_lab_tune_report(tune)->malformed > 0);
	weir_rules_free(rules);
	free(yaml);
	wr_lab_tune_close(tune);
	free(trace.items);
}

static void quoted_texts_are_read_back(void **state)
{
	static const char text[] = "a\"b\\c\n\t\x01#: {x}\xc3\xa9\xe2\x80\xae\x7f";
	char all[1024];
	struct weir_rules *rules;
	struct wr_buf yaml;

	(void)state;
	wr_buf_init(&yaml, 1024);
	wr_lab_yaml_text(&yaml, wr_str(text));
	assert_false(wr_buf_failed(&yaml));
	snprintf(all, sizeof all, "domain: %s\n", wr_buf_str(&yaml).ptr);
	rules = test_rules(all);
	assert_int_equal(rules->first_domain->key.len, sizeof text - 1);
	assert_memory_equal(rules->first_domain->key.ptr, text, sizeof text - 1);
	weir_rules_free(rules);
	wr_buf_clear(&yaml);
	wr_lab_yaml_text(&yaml, WR_STR("\xff"));
	assert_string_equal(wr_buf_str(&yaml).ptr, "\"\xef\xbf\xbd\"");
	wr_buf_free(&yaml);
}

/* ---- keys ---- */

static void wrong_keys_are_errors(void **state)
{
	static const struct {
		const char *key, *text;
	} cases[] = {
		{"nope", "--key: "},       {"header.", "--key: "},
		{"", "--key: a source"},   {"address,,user", "--key: a source is empty"},
		{"header.a b", "--key: "}, {"path.id", "--key: "},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_lab_tune_opts opts = {.key = cases[i].key, .untouched_ppm = 999000};
		struct weir_error error = {0};
		struct wr_lab_tune *tune;

		assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), WEIR_EINVAL);
		assert_null(tune);
		if (strncmp(error.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s: %s", cases[i].key, error.text);
	}
}

/* Two users behind one address, and a user at two addresses. */
static void users_are_clients(void **state)
{
	struct wr_lab_tune_opts opts = any_unit;
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	add(&trace, 1, "/", 0)->user = "ann";
	add(&trace, 2, "/", 0)->user = "ann";
	add(&trace, 2, "/", 0)->user = "bob";
	add(&trace, 3, "/", 0);
	opts.key = "user";
	tune = tune_trace(&trace, opts);
	assert_int_equal(wr_lab_tune_report(tune)->clients, 2);
	assert_int_equal(wr_lab_tune_report(tune)->no_key, 1);
	assert_int_equal(wr_lab_tune_report(tune)->routes[0].limit.need, 2);
	assert_string_equal(tune->table.clients[0].name, "ann");
	wr_lab_tune_close(tune);
	opts.key = "user, address";
	tune = tune_trace(&trace, opts);
	assert_int_equal(wr_lab_tune_report(tune)->clients, 3);
	assert_int_equal(wr_lab_tune_report(tune)->no_key, 0);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* A whole /64 is one client. A host name is shown as it is in the log. */
static void addresses_are_masked_and_names_kept(void **state)
{
	static const char *const clients[] = {"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"};
	struct wr_lab_tune_opts opts = any_unit;
	struct weir_error error = {0};
	struct wr_lab_record record;
	struct wr_lab_tune *tune;

	(void)state;
	opts.untouched_ppm = 999000;
	assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), 0);
	for (size_t i = 0; i < 3; i++) {
		record = replay_record(clients[i], i);
		assert_int_equal(wr_lab_tune_feed(tune, &record, &error), 0);
	}
	record.client = WR_STR("proxy.example.com");
	record.stand_in = true;
	record.address.bytes[0] = 0xfd;
	assert_int_equal(wr_lab_tune_feed(tune, &record, &error), 0);
	assert_int_equal(wr_lab_tune_end(tune, &error), 0);
	assert_int_equal(wr_lab_tune_report(tune)->clients, 3);
	assert_string_equal(tune->table.clients[2].name, "proxy.example.com");
	wr_lab_tune_close(tune);
}

/* ---- given rules ---- */

static const char given[] =
	"domain: shop\n"
	"requests:\n"
	"  - when: {remote_address: [10.0.0.0/31, \"2001:db8::/32\", 10.9.0.7]}\n"
	"    allow: true\n"
	"  - when: {method: [POST, PUT], path: [/login, \"/sessions/{id}\"], host: "
	"\"*.example.com\"}\n"
	"    descriptor: [{key: login, value: \"a: *b\"}, {key: who, from: [identity, "
	"masked_remote_address], v4_prefix: 24, v6_prefix: 48}]\n"
	"    count: {status: [401, 403]}\n"
	"  - when: {method: POST, path: /login}\n"
	"    descriptor: [{key: login, value: \"a: *b\"}, {key: who, from: remote_address}]\n"
	"  - descriptor: [{key: login, value: \"a: *b\"}]\n"
	"    cost: 3\n"
	"  - when: {path: /v1/*}\n"
	"    descriptor: [{key: tenant, from: header.x-tenant, default: none, ambiguous: first}]\n"
	"    cost: {from: query.n, default: 2, max: 9}\n"
	"  - when: {path: \"/files/{name}\"}\n"
	"    descriptor: [{key: name, from: path.name}, {key: ip, from: remote_address, missing: "
	"deny}]\n"
	"    cost: {reserve: {from: header.x-max, default: 5}, actual: {from: response.bytes, max: "
	"7}}\n"
	"    count: {except: [5xx, 404]}\n";

static void entries_are_written_as_they_were(void **state)
{
	struct weir_rules *rules = test_rules(given), *again;
	const struct wr_rules_request *a, *b;
	struct wr_buf yaml;

	(void)state;
	wr_buf_init(&yaml, 1 << 16);
	wr_buf_add_str(&yaml, WR_STR("domain: shop\nrequests:\n"));
	for (a = rules->first_domain->more->requests->first; a; a = a->next)
		wr_lab_tune_entry(a, &yaml);
	assert_false(wr_buf_failed(&yaml));
	again = test_rules(wr_buf_str(&yaml).ptr);
	assert_int_equal(again->request_count, rules->request_count);
	a = rules->first_domain->more->requests->first;
	b = again->first_domain->more->requests->first;
	for (; a; a = a->next, b = b->next) {
		assert_int_equal(wr_rules_request_id(a), wr_rules_request_id(b));
		assert_int_equal(a->cost != NULL, b->cost != NULL);
		assert_int_equal(a->count != NULL, b->count != NULL);
		if (a->count)
			assert_memory_equal(a->count, b->count, sizeof *a->count);
		if (a->cost && b->cost) {
			assert_int_equal(a->cost->settles, b->cost->settles);
			assert_int_equal(a->cost->arrival.otherwise, b->cost->arrival.otherwise);
			assert_int_equal(a->cost->arrival.max, b->cost->arrival.max);
			assert_int_equal(a->cost->actual.max, b->cost->actual.max);
			assert_int_equal(a->cost->actual.defaults_to_reserved,
					 b->cost->actual.defaults_to_reserved);
		}
	}
	weir_rules_free(rules);
	weir_rules_free(again);
	wr_buf_free(&yaml);
}

/* The first three entries with descriptors share the node login; the second and the third share
 * their counters too. */
static void routes_of_given_rules_are_tuned(void **state)
{
	struct weir_rules *rules = test_rules(given);
	struct wr_lab_tune_opts opts = any_unit;
	const struct wr_lab_tune_report *report;
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 0; client < 10; client++)
		for (unsigned i = 0; i < 4; i++) {
			add(&trace, client, "/login", client * SECOND_NS)->method = "POST";
			add(&trace, client, "/v1/x?n=4", client * SECOND_NS);
		}
	opts.rules = rules;
	tune = tune_trace(&trace, opts);
	report = wr_lab_tune_report(tune);
	assert_int_equal(report->exempt, 16); /* two clients of 10.0.0.0/31 */
	assert_int_equal(report->route_count, 4);
	assert_string_equal(report->routes[0].text, "login=a: *b, who");
	assert_int_equal(report->routes[0].requests, 32);
	assert_int_equal(report->routes[0].limit.need, 4);
	assert_string_equal(report->routes[1].text, "login=a: *b");
	assert_int_equal(report->routes[1].clients, 1);
	assert_int_equal(report->routes[1].units, 64 * 3);
	assert_string_equal(report->routes[2].text, "tenant");
	assert_int_equal(report->routes[2].units, 32 * 4);
	assert_string_equal(report->routes[3].text, "name, ip");
	assert_int_equal(report->routes[3].reason, WR_LAB_NO_LIMIT);
	assert_int_equal(replay_rules(tune, &trace), 0);
	wr_lab_tune_close(tune);
	weir_rules_free(rules);
	free(trace.items);
}

static void rules_without_requests_are_an_error(void **state)
{
	struct weir_rules *rules = test_rules("domain: d\ndescriptors: [{key: a}]\n");
	struct wr_lab_tune_opts opts = {.rules = rules, .untouched_ppm = 999000};
	struct weir_error error = {0};
	struct wr_lab_tune *tune;

	(void)state;
	assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), WEIR_EINVAL);
	assert_string_equal(error.text,
			    "--rules: no domain has requests:; leave out --rules to find "
			    "the routes in the log");
	opts.domain = "x";
	assert_int_equal(wr_lab_tune_open(&opts, &tune, &error), WEIR_EINVAL);
	assert_string_equal(error.text, "--rules: no domain x has requests:; leave out --rules to "
					"find the routes in the log");
	weir_rules_free(rules);
}

/* ---- clients that stand out ---- */

/* 200 clients send 2 requests at once; a scanner sends 400 at once. */
static void outliers_are_left_out_if_asked(void **state)
{
	static char targets[400][16];
	struct wr_lab_tune_opts opts = any_unit;
	const struct wr_lab_tune_report *report;
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 1; client <= 200; client++)
		for (unsigned i = 0; i < 2; i++)
			add(&trace, client, "/", client * SECOND_NS);
	for (unsigned i = 0; i < 400; i++) {
		snprintf(targets[i], sizeof targets[i], "/scan/%u", i);
		add(&trace, 999, targets[i], 500 * SECOND_NS)->status = 404;
	}
	tune = tune_trace(&trace, opts);
	report = wr_lab_tune_report(tune);
	assert_int_equal(report->routes[0].limit.need, 400);
	assert_int_equal(report->routes[0].usual.need, 2);
	assert_int_equal(report->kinds[WR_LAB_SCANNER], 1);
	assert_int_equal(report->outlier_count, 1);
	assert_string_equal(report->outliers[0].client->name, "10.0.3.231");
	wr_lab_tune_close(tune);
	opts.without_outliers = true;
	tune = tune_trace(&trace, opts);
	report = wr_lab_tune_report(tune);
	assert_int_equal(report->routes[0].limit.need, 2);
	assert_int_equal(report->considered, 200);
	assert_int_equal(report->clients, 201);
	assert_int_equal(report->touched, 0);
	assert_int_equal(replay_rules(tune, &trace), 1); /* the scanner */
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* ---- words and curves ---- */

static void habits_are_told_in_words(void **state)
{
	struct trace trace = {0};
	struct wr_lab_tune *tune;
	char words[256];

	(void)state;
	for (uint32_t client = 0; client < 40; client++)
		for (unsigned visit = 0; visit < 3; visit++) {
			uint64_t after_ns = client * SECOND_NS + visit * 45 * SECOND_NS;

			for (unsigned i = 0; i < 12; i++)
				add(&trace, client, "/", after_ns);
			add(&trace, client, "/ping", after_ns);
		}
	sort(&trace);
	tune = tune_trace(&trace, any_unit);
	wr_lab_tune_words(find_route(tune, "GET /"), words, sizeof words);
	assert_string_equal(words,
			    "bursts: half of the clients send up to 12 at once, nine of ten up "
			    "to 12; between bursts they rest for about 45 s");
	wr_lab_tune_words(find_route(tune, "GET /ping"), words, sizeof words);
	assert_string_equal(words,
			    "steady: nine of ten clients send their requests one by one, 1.5 per "
			    "minute while they are active");
	wr_lab_tune_close(tune);
	free(trace.items);
}

static void the_curve_falls_to_no_client(void **state)
{
	struct trace trace = make_stairs(1000);
	struct wr_lab_tune *tune = tune_trace(&trace, any_unit);
	double x[64], y[64];
	size_t count = wr_lab_tune_curve(tune, 0, 0, x, y, 64);

	(void)state;
	assert_true(count <= 64);
	for (size_t i = 1; i < count; i++)
		assert_true(x[i] > x[i - 1] && y[i] < y[i - 1]);
	assert_true(x[0] == 1 && y[0] == 99.9);
	assert_true(x[count - 1] == 5000 && y[count - 1] == 0);
	assert_true(x[count - 2] == 999 && y[count - 2] == 0.1);
	wr_lab_tune_close(tune);
	free(trace.items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_rounded_up),
		cmocka_unit_test(the_untouched_part_is_rounded_up),
		cmocka_unit_test(a_limit_costs_its_burst_and_its_rate),
		cmocka_unit_test(level_999_of_1000_leaves_out_one_client),
		cmocka_unit_test(level_999_of_999_leaves_out_no_client),
		cmocka_unit_test(a_requested_level_is_among_the_levels),
		cmocka_unit_test(the_best_rate_admits_least_per_minute),
		cmocka_unit_test(limits_are_not_tighter_than_the_log_can_tell),
		cmocka_unit_test(limits_share_the_clients_that_they_may_touch),
		cmocka_unit_test(loosened_limits_touch_no_more_than_permitted),
		cmocka_unit_test(a_route_needs_twenty_clients),
		cmocka_unit_test(proposed_rules_touch_exactly_the_promised_clients),
		cmocka_unit_test(a_sample_has_the_exact_demand_of_its_clients),
		cmocka_unit_test(hostile_texts_cannot_break_the_rules),
		cmocka_unit_test(quoted_texts_are_read_back),
		cmocka_unit_test(wrong_keys_are_errors),
		cmocka_unit_test(users_are_clients),
		cmocka_unit_test(addresses_are_masked_and_names_kept),
		cmocka_unit_test(entries_are_written_as_they_were),
		cmocka_unit_test(routes_of_given_rules_are_tuned),
		cmocka_unit_test(rules_without_requests_are_an_error),
		cmocka_unit_test(outliers_are_left_out_if_asked),
		cmocka_unit_test(habits_are_told_in_words),
		cmocka_unit_test(the_curve_falls_to_no_client),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
