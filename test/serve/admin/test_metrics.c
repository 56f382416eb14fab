/* The metrics of an engine: exact values, and no more series than allowed. */
#include "limiter/helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/admin/metrics_families.h"

#define TEXT_BYTES ((size_t)4 << 20)

static const char rules[] =
	"domain: api\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	"  - {key: door, rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket, "
	"queue_size: 8}}\n"
	"  - {key: quiet, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1, "
	"algorithm: token_bucket}}\n"
	"  - {key: free, rate_limit: {unlimited: true}}\n";

static struct wr_buf out;
static const char *text; /* the content of `out` */

static int free_text(void **state)
{
	(void)state;
	wr_buf_free(&out);
	return 0;
}

static const char *scrape(struct rig *rig, struct wr_metrics_choice *choice, bool open)
{
	struct wr_prom prom = {.out = &out, .open = open};
	struct weir_info info = {.size = sizeof info};
	struct wr_metrics_view view = {
		.table = rig->table, .engine = rig->engine, .info = &info, .now_ns = rig->now_ns};

	wr_buf_free(&out);
	wr_buf_init(&out, TEXT_BYTES);
	assert_int_equal(weir_info(rig->table, rig->now_ns, &info), 0);
	assert_int_equal(wr_metrics_write(&prom, choice, &view), 0);
	wr_prom_end(&prom);
	assert_false(wr_buf_failed(&out));
	text = out.ptr;
	return text;
}

/* Returns the value of a series, or -1 if there is no such series. */
static double value_of(const char *series)
{
	size_t len = strlen(series);

	for (const char *at = text; (at = strstr(at, series)); at += len)
		if ((at == text || at[-1] == '\n') && at[len] == ' ')
			return strtod(at + len, NULL);
	return -1;
}

static size_t count_series(const char *name)
{
	size_t len = strlen(name), count = 0;

	for (const char *at = text; (at = strstr(at, name)); at += len)
		count += (at == text || at[-1] == '\n') && (at[len] == '{' || at[len] == ' ');
	return count;
}

static size_t count_lines(const char *beginning)
{
	size_t len = strlen(beginning), count = 0;

	for (const char *at = text; (at = strstr(at, beginning)); at += len)
		count += at == text || at[-1] == '\n';
	return count;
}

static void assert_value(const char *series, double wanted)
{
	double value = value_of(series);

	if (value != wanted)
		fail_msg("%s is %g instead of %g in\n%s", series, value, wanted, text);
}

#define RULE(name, algorithm) "{domain=\"api\",rule=\"" name "\",algorithm=\"" algorithm "\""

static void test_counts(void **state)
{
	struct wr_metrics_choice choice;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	wr_metrics_choice_init(&choice, 100);
	assert_int_equal(rig_admitted(&rig, "user=7", 5), 2);
	assert_int_equal(rig_admitted(&rig, "quiet=7", 3), 3);
	for (int i = 0; i < 3; i++)
		rig_ask(&rig, "door=1"); /* the second waits 250 ms, the third 500 */
	rig_ask(&rig, "free=1");
	rig_ask(&rig, "nothing=1");
	rig_ask(&rig, "nothing=1;user=7");
	rig_ask(&rig, "nothing=2");
	rig.domain = "nobody";
	rig_ask(&rig, "user=7");
	scrape(&rig, &choice, false);
	assert_value("weir_decisions_total" RULE("api/user/1m", "fixed_window") ",result="
										"\"admitted\"}",
		     2);
	assert_value(
		"weir_decisions_total" RULE("api/user/1m", "fixed_window") ",result=\"refused\"}",
		4);
	assert_value("weir_decisions_total" RULE("api/quiet/1d", "token_bucket") ",result="
										 "\"shadowed\"}",
		     2);
	assert_value("weir_decisions_total" RULE("api/quiet/1d", "token_bucket") ",result="
										 "\"admitted\"}",
		     1);
	assert_value("weir_near_limit_total" RULE("api/user/1m", "fixed_window") "}", 1);
	assert_value("weir_delayed_total" RULE("api/door/1s", "leaky_bucket") "}", 2);
	assert_value("weir_delay_seconds_total" RULE("api/door/1s", "leaky_bucket") "}", 0.75);
	assert_value("weir_requests_without_rule_total{reason=\"domain_not_found\"}", 1);
	assert_value("weir_requests_without_rule_total{reason=\"no_rule\"}", 2);
	assert_value("weir_rules_generation", 1);
	assert_value("weir_rules_loads_total{result=\"good\"}", 1);
	assert_value("weir_rules_last_load_failed", 0);
	assert_value("weir_table_keys", 3);
	assert_value("weir_table_keys_refused", 2); /* keys of the rules user and quiet */
	assert_int_equal(count_series("weir_table_evictions_total"), 5);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
}

static char *many_rules(int from, int to)
{
	char *yaml = malloc((size_t)(to - from + 1) * 120 + 100);
	int len = sprintf(yaml, "domain: api\ndescriptors:\n");

	for (int i = from; i < to; i++)
		len += sprintf(yaml + len,
			       "  - {key: k%d, rate_limit: {unit: hour, requests_per_unit: 1}}\n",
			       i);
	return yaml;
}

/* 40 of 60 rules have their own series, and the others are summed up. The choice stays the same
 * when more rules are loaded before them, so that no counter decreases. */
static void test_series_are_bounded(void **state)
{
	char *yaml = many_rules(0, 60), *more = many_rules(30, 90);
	struct wr_metrics_choice choice;
	char key[16];
	struct rig rig;
	double other;

	(void)state;
	rig_open(&rig, yaml, "api");
	wr_metrics_choice_init(&choice, 40);
	for (int i = 0; i < 60; i++) {
		snprintf(key, sizeof key, "k%d=x", i);
		assert_int_equal(rig_admitted(&rig, key, 3), 1);
	}
	scrape(&rig, &choice, false);
	assert_int_equal(count_series("weir_decisions_total"), 2 * 41);
	assert_value("weir_decisions_total{domain=\"\",rule=\"other\",algorithm=\"unknown\",result="
		     "\"refused\"}",
		     20 * 2);
	assert_value("weir_rules_in_other", 20);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(more), rig.now_ns + 1), 0);
	for (int i = 60; i < 90; i++) {
		snprintf(key, sizeof key, "k%d=x", i);
		assert_int_equal(rig_admitted(&rig, key, 2), 1);
	}
	scrape(&rig, &choice, true);
	assert_int_equal(count_series("weir_decisions_total"), 2 * 41);
	other = value_of("weir_decisions_total{domain=\"\",rule=\"other\",algorithm=\"unknown\","
			 "result=\"refused\"}");
	assert_true(other == 20 * 2 + 30 * 1);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
	free(yaml);
	free(more);
}

/* Rules in force get their own series first. Rules of earlier files get theirs only if the maximum
 * is not reached. */
static void test_in_force_first(void **state)
{
	char *yaml = many_rules(0, 30), *more = many_rules(30, 60);
	struct wr_metrics_choice choice;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(more), rig.now_ns + 1), 0);
	wr_metrics_choice_init(&choice, 30);
	scrape(&rig, &choice, false);
	for (int i = 30; i < 60; i++) {
		char series[128];

		snprintf(series, sizeof series,
			 "weir_decisions_total" RULE("api/k%d/1h", "fixed_window") ",result="
										   "\"admitted\"}",
			 i);
		assert_value(series, 0);
	}
	assert_value("weir_rules_in_other", 30);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
	free(yaml);
	free(more);
}

static void test_domain_is_decoded(void **state)
{
	struct wr_metrics_choice choice;
	struct rig rig;

	(void)state;
	rig_open(&rig,
		 "domain: \"a/b \\\"c\\\"\"\n"
		 "descriptors:\n"
		 "  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n",
		 "a/b \"c\"");
	wr_metrics_choice_init(&choice, 10);
	assert_int_equal(rig_admitted(&rig, "user=1", 1), 1);
	scrape(&rig, &choice, false);
	assert_value("weir_decisions_total{domain=\"a/b \\\"c\\\"\",rule=\"a%2Fb%20\\\"c\\\"/user/"
		     "1m\",algorithm=\"fixed_window\",result=\"admitted\"}",
		     1);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
}

/* The candidate allows bursts: it would admit the two requests that the window refuses. */
static void test_candidates(void **state)
{
	static const char yaml[] =
		"domain: api\n"
		"descriptors:\n"
		"  - key: user\n"
		"    rate_limit: {unit: minute, requests_per_unit: 3, candidates: [{unit: minute, "
		"requests_per_unit: 3, algorithm: token_bucket, burst: 20}]}\n";
	static const char other[] =
		"domain: api\n"
		"descriptors:\n"
		"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}\n";
	struct wr_metrics_choice choice;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	wr_metrics_choice_init(&choice, 10);
	assert_int_equal(rig_admitted(&rig, "user=1", 5), 3);
	scrape(&rig, &choice, false);
#define CANDIDATE                                                                                  \
	"{domain=\"api\",rule=\"api/user/1m\",candidate=\"token_bucket, 3 per minute, burst 20\""
	assert_value("weir_candidate_decisions_total" CANDIDATE ",result=\"admitted\"}", 5);
	assert_value("weir_candidate_decisions_total" CANDIDATE ",result=\"refused\"}", 0);
	assert_value("weir_candidate_differences_total" CANDIDATE ",how=\"admits\"}", 2);
	assert_value("weir_candidate_differences_total" CANDIDATE ",how=\"refuses\"}", 0);
	/* A candidate that was removed from its rule has no series. */
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(other), rig.now_ns + 1), 0);
	scrape(&rig, &choice, false);
	assert_int_equal(count_series("weir_candidate_decisions_total"), 0);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
}

static const char cost_rules[] =
	"domain: api\n"
	"requests:\n"
	"  - when: {path: /chat}\n"
	"    descriptor: [{key: tenant, from: header.x-tenant}]\n"
	"    cost:\n"
	"      reserve: {from: header.x-max, default: 20, max: 600}\n"
	"      actual: {from: response.header.x-used, default: reserved}\n"
	"descriptors:\n"
	"  - key: tenant\n"
	"    rate_limits:\n"
	"      - {unit: minute, requests_per_unit: 1000}\n"
	"      - {concurrent: 8, max_hold: 2m}\n"
	"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n";

static const char user_rule[] =
	"domain: api\n"
	"descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 2}}]\n";

#define OTHER "{domain=\"\",rule=\"other\",algorithm=\"unknown\"}"

static void chat(struct rig *rig, const char *reserve, const char *used)
{
	struct weir_header header = {{"X-Used", 6}, {used, used ? strlen(used) : 0}};
	struct weir_outcome outcome = {
		.size = sizeof outcome, .status = 200, .headers = &header, .header_count = 1};
	char fields[64];

	snprintf(fields, sizeof fields, "x-tenant: a\nx-max: %s", reserve);
	assert_int_equal(rig_http(rig, "POST /chat", fields, NULL), WEIR_ADMIT);
	if (used)
		assert_int_equal(weir_ask_settle_outcome(rig->ask, &outcome, rig->now_ns), 0);
}

/* Three requests: one uses less than it reserved, one more than it reserved and more than the
 * maximum, and one is in flight. */
static void test_costs(void **state)
{
	struct wr_metrics_choice choice;
	struct rig rig;

	(void)state;
	rig_open(&rig, cost_rules, "api");
	wr_metrics_choice_init(&choice, 10);
	rig_ask(&rig, "user=1");
	scrape(&rig, &choice, false);
	assert_int_equal(count_series("weir_cost_reserved_units_total"), 0);
	assert_int_equal(count_series("weir_slots_in_use"), 0);
	chat(&rig, "500", "300");
	chat(&rig, "700", "650");
	chat(&rig, "many", NULL);
	scrape(&rig, &choice, true);
#define UNITS RULE("api/tenant/1m", "fixed_window") "}"
	assert_value("weir_cost_reserved_units_total" UNITS, 500 + 600 + 20);
	assert_value("weir_cost_actual_units_total" UNITS, 300 + 650);
	assert_value("weir_cost_refunded_units_total" UNITS, 200);
	assert_value("weir_cost_debt_units_total" UNITS, 50);
	assert_value("weir_cost_lost_units_total" UNITS, 0);
	assert_value("weir_cost_defaulted_total" UNITS, 1);
	assert_value("weir_cost_clamped_total" UNITS, 1);
	assert_value("weir_settled_total" UNITS, 2);
#define SLOTS RULE("api/tenant/concurrent/2m", "concurrent") "}"
	assert_value("weir_slots_in_use" SLOTS, 1);
	assert_value("weir_slots_taken_total" SLOTS, 3);
	assert_value("weir_slots_lost_total" SLOTS, 0);
	assert_int_equal(count_series("weir_cost_reserved_units_total"), 1);
	assert_int_equal(count_series("weir_slots_in_use"), 1);
	wr_metrics_choice_free(&choice);
	/* Rules without series of their own are counted as other. */
	wr_metrics_choice_init(&choice, 1);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(user_rule), rig.now_ns + 1), 0);
	scrape(&rig, &choice, false);
	assert_int_equal(count_series("weir_cost_reserved_units_total"), 1);
	assert_value("weir_cost_reserved_units_total" OTHER, 1120);
	assert_value("weir_slots_in_use" OTHER, 1);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
}

/* Each gauge of the statistics has one series, in base units. */
static void test_gauges(void **state)
{
	struct wr_metrics_choice choice;
	struct rig rig;
	size_t families;

	(void)state;
	rig_open(&rig, rules, "api");
	wr_metrics_choice_init(&choice, 10);
	scrape(&rig, &choice, false);
	assert_int_equal((int)value_of("weir_store_up"), -1);
	families = count_lines("# HELP");
	for (int i = 0; i < WEIR_GAUGE_COUNT; i++)
		assert_int_equal(
			weir_gauge_set(rig.table, (enum weir_gauge_name)i, 250000, rig.now_ns), 0);
	scrape(&rig, &choice, false);
	assert_int_equal(count_lines("# HELP"), families + WEIR_GAUGE_COUNT);
	assert_int_equal(count_series("weir_store_rtt_seconds"), 1);
	assert_value("weir_store_rtt_seconds", 0.25);
	assert_value("weir_share_ratio", 0.25);
	assert_value("weir_leases", 250000);
	rig.now_ns += 61 * SECOND_NS;
	scrape(&rig, &choice, false);
	assert_int_equal((int)value_of("weir_leases"), -1);
	wr_metrics_choice_free(&choice);
	rig_close(&rig);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),         cmocka_unit_test(test_series_are_bounded),
		cmocka_unit_test(test_in_force_first), cmocka_unit_test(test_domain_is_decoded),
		cmocka_unit_test(test_candidates),     cmocka_unit_test(test_costs),
		cmocka_unit_test(test_gauges),
	};

	return cmocka_run_group_tests(tests, NULL, free_text);
}
