/* Advice from invented numbers: each kind of advice at its threshold, and just below it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/algo.h>

#include "stats/words.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1794787200ull * SECOND_NS)
#define MINUTE_NS (60 * SECOND_NS)

static struct weir_stat a_rule(void)
{
	return (struct weir_stat){.size = sizeof(struct weir_stat),
				  .slot = 9,
				  .rule = {"api/user/1m", 11},
				  .since_ns = NOW_NS - 7200 * SECOND_NS,
				  .period_ns = MINUTE_NS,
				  .algorithm = WEIR_FIXED_WINDOW,
				  .limit = 100};
}

static size_t advise(struct wr_advice_view *view, const struct weir_stat *stat,
		     struct wr_advice advice[WR_ADVICE_MAX])
{
	view->stat = stat;
	view->now_ns = NOW_NS;
	return wr_advise(view, advice);
}

static uint64_t number_of(const struct wr_advice *advice, const char *name)
{
	for (size_t i = 0; i < advice->number_count; i++)
		if (strcmp(advice->numbers[i].name, name) == 0)
			return advice->numbers[i].value;
	fail_msg("there is no number %s", name);
	return 0;
}

static void test_words(void **state)
{
	struct wr_stats_limit_view window = {WEIR_FIXED_WINDOW, 100, 0, MINUTE_NS};
	struct wr_stats_limit_view bucket = {WEIR_TOKEN_BUCKET, 100, 20, MINUTE_NS};
	struct wr_stats_limit_view leaky = {WEIR_LEAKY_BUCKET, 1000000, 8, 90 * SECOND_NS};
	struct wr_stats_limit_view day = {WEIR_FIXED_WINDOW, 5, 0, 0};
	struct wr_stats_limit_view slots = {WEIR_CONCURRENT, 20, 0, 2 * MINUTE_NS};
	char text[128];

	(void)state;
	assert_string_equal(wr_stats_limit_words(&window, NULL, text, sizeof text),
			    "fixed_window, 100 per 1m");
	assert_string_equal(wr_stats_limit_words(&bucket, &window, text, sizeof text),
			    "token_bucket, burst 20");
	assert_string_equal(wr_stats_limit_words(&slots, NULL, text, sizeof text),
			    "20 concurrent, max_hold 2m");
	assert_string_equal(wr_stats_limit_words(&slots, &slots, text, sizeof text),
			    "20 concurrent, max_hold 2m");
	wr_stats_limit_yaml(&slots, text, sizeof text);
	assert_string_equal(text, "{concurrent: 20, max_hold: 2m}");
	assert_string_equal(wr_stats_limit_words(&leaky, &window, text, sizeof text),
			    "leaky_bucket, 1,000,000 per 90s, queue 8");
	assert_string_equal(wr_stats_limit_words(&day, NULL, text, sizeof text),
			    "fixed_window, 5 per calendar window");
	wr_stats_limit_yaml(&window, text, sizeof text);
	assert_string_equal(text, "{unit: minute, requests_per_unit: 100}");
	wr_stats_limit_yaml(&bucket, text, sizeof text);
	assert_string_equal(
		text, "{unit: minute, requests_per_unit: 100, algorithm: token_bucket, burst: 20}");
	wr_stats_limit_yaml(&leaky, text, sizeof text);
	assert_string_equal(text, "{period: 90s, requests_per_unit: 1000000, algorithm: "
				  "leaky_bucket, queue_size: 8}");
	wr_stats_limit_yaml(&day, text, sizeof text);
	assert_string_equal(text, "{requests_per_unit: 5}  # keep calendar and timezone");
}

static void test_difference_in_words(void **state)
{
	static const struct {
		uint64_t seen, fewer, more;
		const char *words;
	} cases[] = {
		{0, 0, 0, "no request yet"},
		{500, 0, 0, "no difference"},
		{500, 212, 0, "212 fewer refusals, none more"},
		{500, 1, 0, "1 fewer refusal, none more"},
		{500, 0, 3, "3 more refusals, none fewer"},
		{5000, 1200, 4, "1,200 fewer refusals, 4 more"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_candidate candidate = {.would_admit = cases[i].seen,
						   .admits_more = cases[i].fewer,
						   .refuses_more = cases[i].more};
		char text[96];

		assert_string_equal(wr_stats_candidate_words(&candidate, text, sizeof text),
				    cases[i].words);
	}
}

static void test_no_advice(void **state)
{
	struct wr_advice advice[WR_ADVICE_MAX];
	struct wr_advice_view view = {0};
	struct weir_stat stat = a_rule();

	(void)state;
	stat.admitted = 100000;
	stat.near_limit = 1;
	stat.refused = 12;
	assert_int_equal(advise(&view, &stat, advice), 0);
	stat = a_rule();
	stat.flags = WEIR_STAT_UNLIMITED;
	stat.since_ns = 1;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

static void test_not_met(void **state)
{
	struct wr_advice advice[WR_ADVICE_MAX];
	struct wr_advice_view view = {0};
	struct weir_stat stat = a_rule();

	(void)state;
	assert_int_equal(advise(&view, &stat, advice), 0); /* unused for only two hours */
	stat.since_ns = NOW_NS - 86399 * SECOND_NS;
	assert_int_equal(advise(&view, &stat, advice), 0);
	stat.since_ns = NOW_NS - 3 * 86400 * SECOND_NS;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_int_equal(advice[0].kind, WR_ADVICE_NOT_MET);
	assert_string_equal(advice[0].text, "no request has matched the rule in 72 hours");
	assert_string_equal(advice[0].yaml, "");
	stat.shadowed = 1;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

static void test_not_reached(void **state)
{
	struct wr_advice advice[WR_ADVICE_MAX];
	struct wr_advice_view view = {0};
	struct weir_stat stat = a_rule();

	(void)state;
	stat.admitted = 999;
	assert_int_equal(advise(&view, &stat, advice), 0);
	stat.admitted = 12345;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_int_equal(advice[0].kind, WR_ADVICE_NOT_REACHED);
	assert_string_equal(advice[0].text, "none of 12,345 requests came near the limit; 80 would "
					    "have refused no request and protects better");
	assert_string_equal(advice[0].yaml, "rate_limit: {unit: minute, requests_per_unit: 80}");
	assert_int_equal(number_of(&advice[0], "age_seconds"), 7200);
	stat.near_limit = 1;
	assert_int_equal(advise(&view, &stat, advice), 0);
	stat.near_limit = 0;
	stat.since_ns = NOW_NS - 3599 * SECOND_NS;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

/* Ten per second and a burst of 100: 9 per second never come near the burst, but 8 per second would
 * be too few. */
static void test_bucket_not_reached(void **state)
{
	struct wr_advice advice[WR_ADVICE_MAX];
	struct wr_advice_view view = {0};
	struct weir_stat stat = a_rule();

	(void)state;
	stat.algorithm = WEIR_TOKEN_BUCKET;
	stat.period_ns = SECOND_NS;
	stat.limit = 10;
	stat.burst = 100;
	stat.admitted = 5000;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_string_equal(advice[0].text,
			    "none of 5,000 requests came near the limit; a burst of 80 would have "
			    "refused no request and protects better");
	assert_string_equal(advice[0].yaml,
			    "rate_limit: {unit: second, requests_per_unit: 10, algorithm: "
			    "token_bucket, burst: 80}");
	stat.burst = 4;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

static void test_one_client(void **state)
{
	struct weir_top_key keys[] = {{.hash = 7, .count = 960, .over = 40, .noise = 10},
				      {.hash = 8, .count = 80}};
	struct wr_advice_view view = {.refused = keys, .refused_count = 2, .refused_total = 1000};
	struct wr_advice advice[WR_ADVICE_MAX];
	struct weir_stat stat = a_rule();

	(void)state;
	stat.refused = 5000;
	stat.admitted = 5000;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_int_equal(advice[0].kind, WR_ADVICE_ONE_CLIENT);
	assert_string_equal(advice[0].text, "one client has 910 of the last 1,000 refusals, 91 %");
	assert_ptr_equal(advice[0].key, keys);
	keys[0].count = 550; /* the lower bound is 500, which is not more than half */
	assert_int_equal(advise(&view, &stat, advice), 0);
	keys[0].count = 551;
	assert_int_equal(advise(&view, &stat, advice), 1);
	view.hot_count = 1; /* a limit that all clients share has one key */
	view.hot = keys;
	assert_int_equal(advise(&view, &stat, advice), 0);
	keys[0].text_len = 3; /* a single client */
	assert_int_equal(advise(&view, &stat, advice), 1);
	keys[0].text_len = 0;
	view.hot_count = 2;
	assert_int_equal(advise(&view, &stat, advice), 1);
	view.refused_total = 99;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

/* Ten clients need 110 to 200 instead of 100 per minute; one needs ten times as much. */
static void test_too_tight(void **state)
{
	struct weir_top_key hot[11], refused[11];
	struct wr_advice_view view = {.hot = hot,
				      .hot_count = 11,
				      .refused = refused,
				      .refused_count = 11,
				      .refused_total = 1450};
	struct wr_advice advice[WR_ADVICE_MAX];
	struct weir_stat stat = a_rule();

	(void)state;
	for (uint64_t i = 0; i < 10; i++) {
		hot[i] = (struct weir_top_key){.hash = i + 1, .count = 100 + 10 * (i + 1)};
		refused[9 - i] = (struct weir_top_key){.hash = i + 1, .count = 10 * (i + 1)};
	}
	hot[10] = (struct weir_top_key){.hash = 99, .count = 1000};
	refused[10] = (struct weir_top_key){.hash = 99, .count = 900};
	stat.admitted = 1100;
	stat.refused = 1450;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_int_equal(advice[0].kind, WR_ADVICE_TOO_TIGHT);
	assert_string_equal(advice[0].text, "10 refused clients need only a little more than the "
					    "limit; 190 would be enough for nine of ten of them");
	assert_string_equal(advice[0].yaml, "rate_limit: {unit: minute, requests_per_unit: 190}");
	assert_int_equal(number_of(&advice[0], "clients_far_above"), 1);
	assert_int_equal(number_of(&advice[0], "refused_percent"), 57);
	view.refused_count = 7; /* seven of the ten clients, without the one far above the limit */
	assert_int_equal(advise(&view, &stat, advice), 0);
	view.refused_count = 8;
	assert_int_equal(advise(&view, &stat, advice), 1);
	stat.refused = 99;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

/* 600 seconds with refusals in at most 60 of them. */
static void test_bursts(void **state)
{
	struct weir_candidate candidate = {.size = sizeof candidate, .would_admit = 1};
	struct weir_point seconds[600] = {{0}};
	struct wr_advice_view view = {.seconds = seconds, .second_count = 600};
	struct wr_advice advice[WR_ADVICE_MAX];
	struct weir_stat stat = a_rule();

	(void)state;
	for (size_t i = 0; i < 600; i++)
		seconds[i] = (struct weir_point){
			.admitted = 2, .refused = i % 100 == 0 ? 40 : 0, .known = 1};
	seconds[3].shadowed = 1;
	stat.refused = 5000;
	stat.near_limit = 1;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_int_equal(advice[0].kind, WR_ADVICE_BURSTS);
	assert_string_equal(advice[0].text,
			    "four of five refusals were in 5 of the last 600 seconds; try "
			    "token_bucket, burst 200 as a candidate");
	assert_string_equal(advice[0].yaml,
			    "rate_limit: {unit: minute, requests_per_unit: 100, candidates: "
			    "[{unit: minute, requests_per_unit: 100, algorithm: token_bucket, "
			    "burst: 200}]}");
	assert_int_equal(number_of(&advice[0], "refusals"), 241);
	view.candidates = &candidate; /* a candidate exists already */
	view.candidate_count = 1;
	assert_int_equal(advise(&view, &stat, advice), 0);
	view.candidate_count = 0;
	for (size_t i = 0; i < 600; i++)
		seconds[i].refused = 1; /* refusals in every second */
	assert_int_equal(advise(&view, &stat, advice), 0);
	for (size_t i = 59; i < 600; i++)
		seconds[i].known = 0;
	seconds[0].refused = 4000;
	assert_int_equal(advise(&view, &stat, advice), 0); /* less than a minute is known */
	seconds[59].known = 1;
	assert_int_equal(advise(&view, &stat, advice), 1);
}

/* A limit on concurrent requests gets no advice, whatever its numbers are. */
static void test_concurrent(void **state)
{
	struct wr_advice_view view = {0};
	struct wr_advice advice[WR_ADVICE_MAX];
	struct weir_stat stat = a_rule();

	(void)state;
	stat.admitted = WR_ADVICE_REQUESTS;
	assert_int_equal(advise(&view, &stat, advice), 1);
	stat.algorithm = WEIR_CONCURRENT;
	assert_int_equal(advise(&view, &stat, advice), 0);
	stat.admitted = 0;
	stat.since_ns = NOW_NS - 2 * WR_ADVICE_NOT_MET_S * SECOND_NS;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

static void test_candidate(void **state)
{
	struct weir_candidate candidates[] = {
		{.size = sizeof candidates[0],
		 .algorithm = WEIR_TOKEN_BUCKET,
		 .limit = 100,
		 .burst = 20,
		 .period_ns = MINUTE_NS,
		 .would_admit = 8000,
		 .would_refuse = 288,
		 .admits_more = 212},
		{.size = sizeof candidates[1],
		 .algorithm = WEIR_SLIDING_LOG,
		 .limit = 200,
		 .period_ns = MINUTE_NS,
		 .would_admit = 8200,
		 .would_refuse = 88,
		 .admits_more = 450,
		 .refuses_more = 38},
	};
	struct wr_advice_view view = {.candidates = candidates, .candidate_count = 2};
	struct wr_advice advice[WR_ADVICE_MAX];
	struct weir_stat stat = a_rule();

	(void)state;
	stat.admitted = 7788;
	stat.refused = 500;
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_int_equal(advice[0].kind, WR_ADVICE_CANDIDATE);
	assert_string_equal(advice[0].text,
			    "with token_bucket, burst 20: 212 fewer refusals, none more");
	assert_string_equal(advice[0].yaml, "rate_limit: {unit: minute, requests_per_unit: 100, "
					    "algorithm: token_bucket, burst: 20}");
	assert_int_equal(number_of(&advice[0], "requests"), 8288);
	candidates[1].refuses_more = 20; /* now sliding_window_log is clearly better, too */
	assert_int_equal(advise(&view, &stat, advice), 1);
	assert_string_equal(advice[0].text, "with sliding_window_log, 200 per 1m: 450 fewer "
					    "refusals, 20 more");
	candidates[0].admits_more = 9;
	candidates[0].would_refuse = 100;
	view.candidate_count = 1;
	assert_int_equal(advise(&view, &stat, advice), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),       cmocka_unit_test(test_difference_in_words),
		cmocka_unit_test(test_no_advice),   cmocka_unit_test(test_not_met),
		cmocka_unit_test(test_not_reached), cmocka_unit_test(test_bucket_not_reached),
		cmocka_unit_test(test_one_client),  cmocka_unit_test(test_too_tight),
		cmocka_unit_test(test_bursts),      cmocka_unit_test(test_candidate),
		cmocka_unit_test(test_concurrent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
