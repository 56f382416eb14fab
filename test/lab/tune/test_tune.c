/* Tuning: levels, several limits, the sample, and the replay of proposed rules on the same log. */
#include "lab/tune/tune_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/rng.h"

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
			trace_add(&trace, n, "/", n * SECOND_NS);
	return trace;
}

static void level_999_of_1000_leaves_out_one_client(void **state)
{
	struct trace trace = make_stairs(1000);
	struct wr_lab_tune *tune = tune_trace(&trace, any_unit);
	const struct wr_lab_tune_report *report = wr_lab_tune_report(tune);
	const struct wr_lab_tune_route *all = tune_route(tune, "all requests");
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
	assert_int_equal(tune_replay(tune, &trace), 1);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* One client fewer: 99.9 % of 999 clients are all of them. */
static void level_999_of_999_leaves_out_no_client(void **state)
{
	struct trace trace = make_stairs(999);
	struct wr_lab_tune *tune = tune_trace(&trace, any_unit);
	const struct wr_lab_tune_route *all = tune_route(tune, "all requests");

	(void)state;
	assert_int_equal(all->limit.need, 5000);
	assert_int_equal(all->limit.touched, 0);
	assert_int_equal(wr_lab_tune_report(tune)->touched_max, 0);
	assert_int_equal(tune_replay(tune, &trace), 0);
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
			trace_add(&trace, client, "/", client * SECOND_NS);
		for (unsigned i = 1; i <= 100; i++)
			trace_add(&trace, client, "/", (client + 6 * i) * SECOND_NS);
	}
	trace_sort(&trace);
	tune = tune_trace(&trace, any_unit);
	all = tune_route(tune, "all requests");
	rate = &wr_lab_tune_report(tune)->rates[all->limit.rate];
	assert_int_equal(rate->limit, 10);
	assert_int_equal(rate->period_ns, MINUTE_NS);
	assert_int_equal(all->limit.need, 6);
	assert_int_equal(all->limit.burst, 6);
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* 30 clients send one request in each hour of two hours. A burst of 1 would be enough, but so few requests say little. 5 tokens per hour are 10 in two hours; slower rates are not
 * judged by such a log. */
static void limits_are_not_tighter_than_the_log_can_tell(void **state)
{
	struct wr_lab_tune_opts opts = any_unit;
	struct trace trace = {0};
	const struct wr_lab_tune_route *all;
	const struct wr_lab_rate *rate;
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 0; client < 90; client++)
		trace_add(&trace, client % 30, "/", client / 30 * HOUR_NS);
	tune = tune_trace(&trace, opts);
	all = tune_route(tune, "all requests");
	rate = &wr_lab_tune_report(tune)->rates[all->limit.rate];
	assert_int_equal(all->limit.need, 1);
	assert_int_equal(all->limit.burst, 5);
	assert_int_equal(rate->limit, 5);
	assert_int_equal(rate->period_ns, HOUR_NS);
	wr_lab_tune_close(tune);
	opts.unit = WR_LAB_PER_DAY;
	tune = tune_trace(&trace, opts);
	rate = &wr_lab_tune_report(tune)->rates[tune_route(tune, "all requests")->limit.rate];
	assert_int_equal(rate->limit, 200); /* 100 per day are 8.3 in two hours */
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* As above, with one request of the year 2036. It does not count in the length of the log, so 5 per
 * hour stay the slowest rate. With the whole 10 years, 1 per hour would be proposed. */
static void a_wrong_time_does_not_tighten_limits(void **state)
{
	const struct wr_lab_tune_report *report;
	const struct wr_lab_rate *rate;
	struct trace trace = {0};
	struct wr_lab_tune *tune;

	(void)state;
	for (uint32_t client = 0; client < 90; client++)
		trace_add(&trace, client % 30, "/", client / 30 * HOUR_NS);
	trace_add(&trace, 99, "/", 10 * 365 * 24 * HOUR_NS);
	tune = tune_trace(&trace, any_unit);
	report = wr_lab_tune_report(tune);
	rate = &report->rates[tune_route(tune, "all requests")->limit.rate];
	assert_int_equal(report->length_ns, 2 * HOUR_NS);
	assert_int_equal(rate->limit, 5);
	assert_int_equal(rate->period_ns, HOUR_NS);
	assert_int_equal(report->early.requests, 0);
	assert_int_equal(report->late.requests, 1);
	assert_int_equal(report->late.first_ns - report->late.rest_ns,
			 (10 * 365 * 24 - 2) * HOUR_NS);
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
			trace_add(&trace, client, "/a", client * SECOND_NS);
		for (unsigned i = 0; i < b; i++)
			trace_add(&trace, client, "/b", client * SECOND_NS);
	}
	tune = tune_trace(&trace, any_unit);
	report = wr_lab_tune_report(tune);
	assert_int_equal(report->routes[0].levels[2].best.need, 103);
	assert_int_equal(tune_route(tune, "GET /a")->levels[2].best.need, 90);
	assert_int_equal(report->touched_max, 1);
	assert_int_equal(report->touched, 1);
	assert_int_equal(report->routes[0].limit.need, 103);
	/* Not tighter than half of the limit for all requests, so the routes have no limit. */
	assert_int_equal(tune_route(tune, "GET /a")->reason, WR_LAB_NOT_TIGHTER);
	assert_int_equal(tune_replay(tune, &trace), 1);
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
			trace_add(&trace, client, "/a", client * SECOND_NS);
		for (unsigned i = 0; i < b; i++)
			trace_add(&trace, client, "/b", client * SECOND_NS);
		for (unsigned i = 0; i < rest; i++)
			trace_add(&trace, client, "/c", client * SECOND_NS);
	}
	tune = tune_trace(&trace, any_unit);
	report = wr_lab_tune_report(tune);
	assert_true(report->loosened);
	assert_int_equal(tune_route(tune, "GET /a")->levels[2].best.need, 3);
	assert_int_equal(tune_route(tune, "GET /a")->limit.burst, 20);
	assert_int_equal(tune_route(tune, "GET /b")->limit.burst, 20);
	assert_int_equal(report->routes[0].limit.need, 83);
	assert_int_equal(report->touched, 1);
	assert_int_equal(tune_replay(tune, &trace), 1);
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
			trace_add(&trace, client, "/", client * SECOND_NS);
		if (client < 20)
			trace_add(&trace, client, "/twenty", client * SECOND_NS)->method = "POST";
		if (client < 19)
			trace_add(&trace, client, "/nineteen", client * SECOND_NS)->method = "POST";
	}
	tune = tune_trace(&trace, any_unit);
	assert_int_equal(tune_route(tune, "POST /twenty")->reason, WR_LAB_PROPOSED);
	assert_int_equal(tune_route(tune, "POST /nineteen")->reason, WR_LAB_FEW_CLIENTS);
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
			trace_add(&trace, client, pages[wr_rng_below(&rng, 5)], after_ns);
			for (unsigned k = 0; k < wr_rng_below(&rng, 8); k++)
				trace_add(&trace, client, resources[k % 4],
					  after_ns + wr_rng_below(&rng, SECOND_NS));
			if (wr_rng_percent(&rng, 10))
				trace_add(&trace, client, "/login", after_ns)->method = "POST";
			after_ns += wr_rng_scale(&rng, SECOND_NS / 100,
						 fast ? SECOND_NS : 5 * MINUTE_NS);
		}
	}
	trace_sort(&trace);
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

				assert_int_equal(tune_replay(tune, &trace), report->touched);
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
			trace_add(&trace, client, "/", client * SECOND_NS);
	for (unsigned i = 0; i < 400; i++) {
		snprintf(targets[i], sizeof targets[i], "/scan/%u", i);
		trace_add(&trace, 999, targets[i], 500 * SECOND_NS)->status = 404;
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
	assert_int_equal(tune_replay(tune, &trace), 1); /* the scanner */
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
				trace_add(&trace, client, "/", after_ns);
			trace_add(&trace, client, "/ping", after_ns);
			for (unsigned i = 0; i < (client < 10 ? 30 : 1); i++)
				trace_add(&trace, client, "/poll", after_ns);
		}
	trace_sort(&trace);
	tune = tune_trace(&trace, any_unit);
	wr_lab_tune_words(tune_route(tune, "GET /"), words, sizeof words);
	assert_string_equal(words,
			    "bursts: half of the clients send up to 12 within 2 s, nine of ten up "
			    "to 12; between bursts they rest for about 45 s");
	wr_lab_tune_words(tune_route(tune, "GET /poll"), words, sizeof words);
	assert_string_equal(words,
			    "bursts: half of the clients send no bursts, nine of ten up to 30 "
			    "within 2 s; between bursts they rest for about 45 s");
	wr_lab_tune_words(tune_route(tune, "GET /ping"), words, sizeof words);
	assert_string_equal(words,
			    "steady, about 1.3 per minute while a client is active; nine of ten "
			    "clients send no bursts");
	wr_lab_tune_close(tune);
	free(trace.items);
}

/* 40 clients, each with one request per second for ten minutes. */
static void steady_use_is_told_in_words(void **state)
{
	struct trace trace = {0};
	struct wr_lab_tune *tune;
	char words[256];

	(void)state;
	for (uint64_t second = 0; second < 600; second++)
		for (uint32_t client = 0; client < 40; client++)
			trace_add(&trace, client, "/",
				  second * SECOND_NS + client * (SECOND_NS / 40));
	tune = tune_trace(&trace, any_unit);
	wr_lab_tune_words(tune_route(tune, "all requests"), words, sizeof words);
	assert_string_equal(words,
			    "steady, about 60 per minute while a client is active; nine of ten "
			    "clients send no bursts");
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
		cmocka_unit_test(a_wrong_time_does_not_tighten_limits),
		cmocka_unit_test(limits_share_the_clients_that_they_may_touch),
		cmocka_unit_test(loosened_limits_touch_no_more_than_permitted),
		cmocka_unit_test(a_route_needs_twenty_clients),
		cmocka_unit_test(proposed_rules_touch_exactly_the_promised_clients),
		cmocka_unit_test(a_sample_has_the_exact_demand_of_its_clients),
		cmocka_unit_test(outliers_are_left_out_if_asked),
		cmocka_unit_test(habits_are_told_in_words),
		cmocka_unit_test(steady_use_is_told_in_words),
		cmocka_unit_test(the_curve_falls_to_no_client),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
