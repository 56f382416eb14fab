/* The algorithms side by side, compared with counts that the test makes by itself. */
#include <stdio.h>
#include <stdlib.h>

#include "lab/replay/replay_test.h"

#include "base/hash.h"
#include "base/str.h"
#include "rules/helper.h"

#define LIMIT 6u
#define PERIOD_NS MINUTE_NS
#define CLIENTS 3u
#define REQUESTS 2000u

static const char *const names[] = {"token_bucket", "leaky_bucket", "fixed_window",
				    "sliding_window_counter", "sliding_window_log"};
#define ALGORITHMS (sizeof names / sizeof *names)

/* ---- a dull count of each algorithm, for one client ---- */

struct dull {
	uint64_t window, current, previous; /* fixed window and counter */
	uint64_t level, last_ns;            /* token bucket: tokens times PERIOD_NS */
	uint64_t leaves_ns;                 /* leaky bucket: when the last request leaves */
	uint64_t taken[REQUESTS];           /* log: times of the admitted requests */
	unsigned taken_count;
	bool begun;
};

static bool dull_token(struct dull *d, uint64_t now_ns)
{
	uint64_t full = LIMIT * PERIOD_NS;

	d->level = d->begun ? d->level + LIMIT * (now_ns - d->last_ns) : full;
	d->level = d->level < full ? d->level : full;
	d->last_ns = now_ns;
	d->begun = true;
	if (d->level < PERIOD_NS)
		return false;
	d->level -= PERIOD_NS;
	return true;
}

static bool dull_leaky(struct dull *d, uint64_t now_ns)
{
	uint64_t gap_ns = PERIOD_NS / LIMIT;
	uint64_t leaves_ns = d->leaves_ns + gap_ns;

	if (!d->begun || leaves_ns < now_ns)
		leaves_ns = now_ns;
	if (leaves_ns - now_ns > (LIMIT - 1) * gap_ns)
		return false;
	d->begun = true;
	d->leaves_ns = leaves_ns;
	return true;
}

static void turn_windows(struct dull *d, uint64_t now_ns)
{
	uint64_t window = now_ns / PERIOD_NS;

	if (window != d->window) {
		d->previous = window == d->window + 1 ? d->current : 0;
		d->current = 0;
		d->window = window;
	}
}

static bool dull_fixed(struct dull *d, uint64_t now_ns)
{
	turn_windows(d, now_ns);
	return d->current++ < LIMIT;
}

static bool dull_counter(struct dull *d, uint64_t now_ns)
{
	uint64_t left_ns;

	turn_windows(d, now_ns);
	left_ns = PERIOD_NS - now_ns % PERIOD_NS;
	if (d->current + d->previous * left_ns / PERIOD_NS + 1 > LIMIT)
		return false;
	d->current++;
	return true;
}

static bool dull_log(struct dull *d, uint64_t now_ns)
{
	unsigned live = 0;

	for (unsigned i = 0; i < d->taken_count; i++)
		live += d->taken[i] + PERIOD_NS > now_ns;
	if (live >= LIMIT)
		return false;
	d->taken[d->taken_count++] = now_ns;
	return true;
}

static bool (*const dulls[])(struct dull *, uint64_t) = {dull_token, dull_leaky, dull_fixed,
							 dull_counter, dull_log};

/* ---- a small log ---- */

struct visit {
	uint64_t after_ns;
	unsigned client;
};

/* Makes 2,000 requests of three clients with quiet times and bursts. Times are multiples of 100 ms,
 * so that many requests are exactly on the edge of a window or of a period. */
static void make_log(struct visit *visits)
{
	uint64_t after_ns = 0;

	srand(7);
	for (unsigned i = 0; i < REQUESTS; i++) {
		if (rand() % 40 == 0)
			after_ns += (uint64_t)(rand() % 900) * 100000000;
		after_ns += (uint64_t)(rand() % 20) * 100000000;
		visits[i] = (struct visit){after_ns, (unsigned)rand() % CLIENTS};
	}
}

static const char *client_name(unsigned client)
{
	static const char *const clients[] = {"192.0.2.1", "192.0.2.2", "192.0.2.3"};

	return clients[client];
}

static void write_rules(const char *algorithm, char *yaml, size_t cap)
{
	snprintf(yaml, cap,
		 "domain: d\n"
		 "requests: [{descriptor: [{key: ip, from: remote_address}]}]\n"
		 "descriptors:\n"
		 "- key: ip\n"
		 "  rate_limit: {unit: minute, requests_per_unit: %u, algorithm: %s%s}\n",
		 LIMIT, algorithm, strcmp(algorithm, "leaky_bucket") ? "" : ", queue_size: 5");
}

/* Each decision of the replay equals the decision of the dull count. */
static void each_algorithm_equals_a_count(void **state)
{
	static struct visit visits[REQUESTS];
	static struct dull dull[CLIENTS];

	(void)state;
	make_log(visits);
	for (size_t a = 0; a < ALGORITHMS; a++) {
		char yaml[512];
		struct wr_lab_replay *replay;
		uint64_t admitted = 0;

		memset(dull, 0, sizeof dull);
		write_rules(names[a], yaml, sizeof yaml);
		replay = replay_open(yaml, NULL);
		for (unsigned i = 0; i < REQUESTS; i++) {
			bool want = dulls[a](&dull[visits[i].client], NOON_NS + visits[i].after_ns);

			admitted += want;
			if (replay_get(replay, client_name(visits[i].client), visits[i].after_ns) !=
			    want)
				fail_msg("%s: request %u", names[a], i);
		}
		assert_in_range(admitted, 500, 1500); /* the log has both */
		assert_int_equal(replay_end(replay)->limits[0].admitted, admitted);
		assert_int_equal(replay_end(replay)->limits[0].refused, REQUESTS - admitted);
		wr_lab_replay_close(replay);
	}
}

/* --algorithms on any of the rules gives the counts of all five, and the differences to the log. */
static void the_comparison_equals_the_counts(void **state)
{
	static struct visit visits[REQUESTS];
	static struct dull dull[ALGORITHMS][CLIENTS];
	struct wr_lab_replay_opts opts = {.algorithms = true};
	struct wr_lab_algorithm want[ALGORITHMS] = {0};
	const struct wr_lab_algorithms_limit *got;
	struct wr_lab_replay *replay;
	char yaml[512];

	(void)state;
	make_log(visits);
	write_rules("token_bucket", yaml, sizeof yaml);
	replay = replay_open(yaml, &opts);
	for (unsigned i = 0; i < REQUESTS; i++) {
		bool admitted[ALGORITHMS];

		replay_get(replay, client_name(visits[i].client), visits[i].after_ns);
		for (size_t a = 0; a < ALGORITHMS; a++)
			admitted[a] =
				dulls[a](&dull[a][visits[i].client], NOON_NS + visits[i].after_ns);
		for (size_t a = 0; a < ALGORITHMS; a++) {
			bool exact = admitted[ALGORITHMS - 1];

			want[a].admitted += admitted[a];
			want[a].wrongly_admitted += admitted[a] && !exact;
			want[a].wrongly_refused += !admitted[a] && exact;
		}
	}
	got = wr_lab_replay_algorithms(replay, 0);
	assert_int_equal(got->requests, REQUESTS);
	assert_int_equal(got->level, 0);
	for (size_t a = 0; a < ALGORITHMS; a++) {
		assert_int_equal(got->algorithms[a].admitted, want[a].admitted);
		assert_int_equal(got->algorithms[a].refused, REQUESTS - want[a].admitted);
		assert_int_equal(got->algorithms[a].wrongly_admitted, want[a].wrongly_admitted);
		assert_int_equal(got->algorithms[a].wrongly_refused, want[a].wrongly_refused);
	}
	assert_int_equal(want[ALGORITHMS - 1].wrongly_admitted, 0);
	assert_true(want[2].wrongly_admitted > 10); /* the fixed window differs */
	wr_lab_replay_close(replay);
}

/* ---- the boundary trace of the fixed window ---- */

static void the_boundary_trace_shows_ten_and_five(void **state)
{
	static const char yaml[] = "domain: d\n"
				   "requests: [{descriptor: [{key: ip, from: remote_address}]}]\n"
				   "descriptors:\n"
				   "- key: ip\n"
				   "  rate_limit: {unit: minute, requests_per_unit: 5}\n";
	struct wr_lab_replay_opts opts = {.algorithms = true};
	struct wr_lab_replay *replay = replay_open(yaml, &opts);
	const struct wr_lab_algorithms_limit *got;

	(void)state;
	for (unsigned i = 0; i < 5; i++) /* 12:00:30 to 12:01:00 */
		replay_get(replay, "192.0.2.1", (30 + 6 * i) * SECOND_NS);
	for (unsigned i = 0; i < 5; i++) /* 12:01:00 to 12:01:30 */
		replay_get(replay, "192.0.2.1", (60 + 6 * i) * SECOND_NS);
	assert_int_equal(replay_end(replay)->limits[0].admitted, 10);
	got = wr_lab_replay_algorithms(replay, 0);
	assert_int_equal(got->algorithms[WEIR_FIXED_WINDOW - 1].admitted, 10);
	assert_int_equal(got->algorithms[WEIR_FIXED_WINDOW - 1].wrongly_admitted, 5);
	assert_int_equal(got->algorithms[WEIR_FIXED_WINDOW - 1].wrongly_refused, 0);
	assert_int_equal(got->algorithms[WEIR_SLIDING_LOG - 1].admitted, 5);
	assert_int_equal(got->algorithms[WEIR_SLIDING_LOG - 1].refused, 5);
	wr_lab_replay_close(replay);
}

/* ---- costs, refused requests that count, limits that are not compared ---- */

static struct wr_lab_algorithms *compare(const char *limit, struct weir_rules **rules,
					 size_t max_bytes)
{
	struct wr_lab_algorithms *all = wr_lab_algorithms_new(1, max_bytes);
	char yaml[512];

	snprintf(yaml, sizeof yaml, "domain: d\ndescriptors:\n- key: a\n  rate_limit: %s\n", limit);
	*rules = test_rules(yaml);
	wr_lab_algorithms_set(all, 0, (*rules)->first_domain->more->first_child->limits);
	return all;
}

static void costs_are_units_of_the_window(void **state)
{
	struct weir_rules *rules;
	struct wr_lab_algorithms *all =
		compare("{unit: minute, requests_per_unit: 10}", &rules, 1 << 20);
	const struct wr_lab_algorithm *log =
		&wr_lab_algorithms_result(all, 0)->algorithms[WEIR_SLIDING_LOG - 1];

	(void)state;
	wr_lab_algorithms_feed(all, 0, 1, 7, NOON_NS);
	wr_lab_algorithms_feed(all, 0, 1, 4, NOON_NS);                  /* 7 + 4 > 10 */
	wr_lab_algorithms_feed(all, 0, 1, 3, NOON_NS + SECOND_NS);      /* fits exactly */
	wr_lab_algorithms_feed(all, 0, 1, 0, NOON_NS + SECOND_NS);      /* nothing is left */
	wr_lab_algorithms_feed(all, 0, 1, 8, NOON_NS + MINUTE_NS);      /* 3 are left, 8 > 7 */
	wr_lab_algorithms_feed(all, 0, 1, 7, NOON_NS + MINUTE_NS);      /* the 7 have expired */
	wr_lab_algorithms_feed(all, 0, 1, 11, NOON_NS + 9 * MINUTE_NS); /* above the limit */
	assert_int_equal(log->admitted, 3);
	assert_int_equal(log->refused, 4);
	wr_lab_algorithms_free(all);
	weir_rules_free(rules);
}

/* The trace of the sliding log with count_rejected: 1:00:01, 1:00:30, 1:00:50 (refused, counted),
 * 1:01:40. */
static void refused_requests_can_count(void **state)
{
	struct weir_rules *rules;
	struct wr_lab_algorithms *all =
		compare("{unit: minute, requests_per_unit: 2, algorithm: sliding_window_log, "
			"count_rejected: true}",
			&rules, 1 << 20);
	const struct wr_lab_algorithm *log =
		&wr_lab_algorithms_result(all, 0)->algorithms[WEIR_SLIDING_LOG - 1];

	(void)state;
	wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS + 1 * SECOND_NS);
	wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS + 30 * SECOND_NS);
	wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS + 50 * SECOND_NS);
	assert_int_equal(log->refused, 1);
	wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS + 100 * SECOND_NS);
	assert_int_equal(log->admitted, 3);
	/* 1:00:50 and 1:01:40 are in the log; without the refused request there would be room. */
	wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS + 105 * SECOND_NS);
	assert_int_equal(log->refused, 2);
	wr_lab_algorithms_free(all);
	weir_rules_free(rules);
}

static void some_limits_are_not_compared(void **state)
{
	static const char *const limits[] = {"{concurrent: 5, max_hold: 1m}",
					     "{calendar: day, requests_per_unit: 5}"};

	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct weir_rules *rules;
		struct wr_lab_algorithms *all = compare(limits[i], &rules, 1 << 20);

		assert_non_null(wr_lab_algorithms_result(all, 0)->not_compared);
		wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS);
		assert_int_equal(wr_lab_algorithms_result(all, 0)->requests, 0);
		wr_lab_algorithms_free(all);
		weir_rules_free(rules);
	}
}

/* ---- memory ---- */

/* 20,000 keys with 10 requests each do not fit into 1 MiB. The estimate from the sample is near the
 * true numbers: each key is admitted 5 of 10 times. */
static void many_keys_are_sampled(void **state)
{
	struct weir_rules *rules;
	struct wr_lab_algorithms *all =
		compare("{unit: hour, requests_per_unit: 5}", &rules, 1 << 20);
	const struct wr_lab_algorithms_limit *limit = wr_lab_algorithms_result(all, 0);

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		for (uint64_t key = 0; key < 20000; key++)
			wr_lab_algorithms_feed(all, 0, XXH3_64bits(&key, sizeof key), 1,
					       NOON_NS + i * MINUTE_NS);
	assert_null(limit->not_compared);
	assert_in_range(limit->level, 2, 4);
	assert_true(limit->bytes <= 1 << 20);
	assert_in_range(limit->requests, 190000, 210000);
	assert_in_range(limit->algorithms[WEIR_SLIDING_LOG - 1].admitted, 94000, 106000);
	assert_int_equal(limit->algorithms[WEIR_FIXED_WINDOW - 1].wrongly_admitted, 0);
	wr_lab_algorithms_free(all);
	weir_rules_free(rules);
}

/* Keys that come once and are forgotten leave room: nothing is sampled. */
static void forgotten_keys_leave_room(void **state)
{
	struct weir_rules *rules;
	struct wr_lab_algorithms *all =
		compare("{unit: second, requests_per_unit: 5}", &rules, 1 << 20);

	(void)state;
	for (uint64_t key = 0; key < 100000; key++)
		wr_lab_algorithms_feed(all, 0, XXH3_64bits(&key, sizeof key), 1,
				       NOON_NS + key * 10000000);
	assert_int_equal(wr_lab_algorithms_result(all, 0)->level, 0);
	assert_int_equal(wr_lab_algorithms_result(all, 0)->requests, 100000);
	wr_lab_algorithms_free(all);
	weir_rules_free(rules);
}

/* One key alone needs more than the maximum: the comparison of this limit ends, with a reason. */
static void one_large_key_is_not_compared(void **state)
{
	struct weir_rules *rules;
	struct wr_lab_algorithms *all =
		compare("{unit: day, requests_per_unit: 4000000}", &rules, 1 << 20);

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		wr_lab_algorithms_feed(all, 0, 1, 1, NOON_NS + i);
	assert_non_null(wr_lab_algorithms_result(all, 0)->not_compared);
	wr_lab_algorithms_free(all);
	weir_rules_free(rules);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_algorithm_equals_a_count),
		cmocka_unit_test(the_comparison_equals_the_counts),
		cmocka_unit_test(the_boundary_trace_shows_ten_and_five),
		cmocka_unit_test(costs_are_units_of_the_window),
		cmocka_unit_test(refused_requests_can_count),
		cmocka_unit_test(some_limits_are_not_compared),
		cmocka_unit_test(many_keys_are_sampled),
		cmocka_unit_test(forgotten_keys_leave_room),
		cmocka_unit_test(one_large_key_is_not_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
