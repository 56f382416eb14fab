/* Costs in the statistics: what is charged, settled, cancelled and lost, with exact numbers. */
#include "helper.h"

#include <string.h>

#include "base/str.h"

static const char yaml[] =
	"domain: api\n"
	"requests:\n"
	"  - when: {path: /chat}\n"
	"    descriptor: [{key: tenant, from: header.x-tenant}]\n"
	"    cost:\n"
	"      reserve: {from: header.x-max, default: 200, max: 600}\n"
	"      actual: {from: response.header.x-used, default: reserved, max: 900}\n"
	"  - when: {path: /login}\n"
	"    descriptor: [{key: login, from: header.x-tenant}]\n"
	"    count: {status: [401]}\n"
	"  - when: {path: /free}\n"
	"    descriptor: [{key: free, from: header.x-tenant}]\n"
	"descriptors:\n"
	"  - key: tenant\n"
	"    rate_limits:\n"
	"      - {unit: minute, requests_per_unit: 1000, max_debt: 500}\n"
	"      - {concurrent: 2, max_hold: 2m}\n"
	"  - {key: login, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
	"  - key: free\n"
	"    rate_limits:\n"
	"      - {unit: minute, requests_per_unit: 9}\n"
	"      - {concurrent: 9, max_hold: 2m}\n";

struct wanted {
	const char *rule;
	struct weir_cost cost;
};

static int find_cost(void *context, const struct weir_cost *cost)
{
	struct wanted *wanted = context;

	if (wr_str_equal(cost->rule, wr_str(wanted->rule)))
		wanted->cost = *cost;
	return 0;
}

/* Returns the costs of a rule. The size is 0 if the rule has none. */
static struct weir_cost cost_of(struct rig *rig, const char *rule)
{
	struct wanted wanted = {.rule = rule};

	assert_int_equal(weir_costs_each(rig->table, find_cost, &wanted), 0);
	return wanted.cost;
}

static void settle(struct rig *rig, uint32_t status, const char *used)
{
	struct weir_header header = {WR_STR("X-Used"), wr_str(used ? used : "")};
	struct weir_outcome outcome = {.size = sizeof outcome,
				       .status = status,
				       .headers = &header,
				       .header_count = used ? 1 : 0};

	assert_int_equal(weir_ask_settle_outcome(rig->ask, &outcome, rig->now_ns), 0);
}

#define TENANT "x-tenant: a\n"

static void test_units_are_counted(void **state)
{
	struct weir_cost cost;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	assert_int_equal(cost_of(&rig, "api/tenant/1m").size, 0);
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 500", NULL), WEIR_ADMIT);
	cost = cost_of(&rig, "api/tenant/1m");
	assert_int_equal(cost.slot, rig_stat(&rig, "api/tenant/1m").slot);
	assert_int_equal(cost.reserved, 500);
	assert_int_equal(cost.settled, 0);
	settle(&rig, 200, "300");
	cost = cost_of(&rig, "api/tenant/1m");
	assert_int_equal(cost.reserved, 500);
	assert_int_equal(cost.actual, 300);
	assert_int_equal(cost.refunded, 200);
	assert_int_equal(cost.owed, 0);
	assert_int_equal(cost.settled, 1);
	/* The reservation is clamped to 600. The actual cost of 900 is charged as a debt of 200:
	 * 300 + 900 are 200 more than 1000. */
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 5000", NULL), WEIR_ADMIT);
	settle(&rig, 200, "900");
	cost = cost_of(&rig, "api/tenant/1m");
	assert_int_equal(cost.reserved, 1100);
	assert_int_equal(cost.actual, 1200);
	assert_int_equal(cost.owed, 300);
	assert_int_equal(cost.clamped, 1);
	assert_int_equal(cost.defaulted, 0);
	assert_int_equal(cost.lost, 0);
	/* A refused request has no cost. */
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT, NULL), WEIR_REFUSE);
	assert_int_equal(cost_of(&rig, "api/tenant/1m").reserved, 1100);
	/* In the next window: a default of 200, and a response without a number. */
	rig.now_ns += MINUTE_NS;
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT, NULL), WEIR_ADMIT);
	settle(&rig, 200, NULL);
	cost = cost_of(&rig, "api/tenant/1m");
	assert_int_equal(cost.reserved, 1300);
	assert_int_equal(cost.actual, 1400);
	assert_int_equal(cost.defaulted, 2);
	assert_int_equal(cost.settled, 3);
	rig_close(&rig);
}

/* Units cannot be given back after the next window has begun. */
static void test_lost_units(void **state)
{
	struct rig rig, other;
	struct weir_cost cost;

	(void)state;
	rig_open(&rig, yaml, "api");
	rig_http(&rig, "GET /chat", TENANT "x-max: 500", NULL);
	rig.now_ns += MINUTE_NS;
	other = rig; /* another ask of the same engine */
	other.ask = NULL;
	assert_int_equal(rig_http(&other, "GET /chat", TENANT "x-max: 1", NULL), WEIR_ADMIT);
	weir_ask_done(other.ask);
	settle(&rig, 200, "100");
	cost = cost_of(&rig, "api/tenant/1m");
	assert_int_equal(cost.actual, 100);
	assert_int_equal(cost.refunded, 0);
	assert_int_equal(cost.lost, 400);
	rig_close(&rig);
}

static void test_counted_by_status(void **state)
{
	struct weir_cost cost;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	rig_http(&rig, "GET /login", TENANT, NULL);
	settle(&rig, 200, NULL);
	rig_http(&rig, "GET /login", TENANT, NULL);
	settle(&rig, 401, NULL);
	cost = cost_of(&rig, "api/login/1m");
	assert_int_equal(cost.reserved, 2);
	assert_int_equal(cost.actual, 1);
	assert_int_equal(cost.refunded, 1);
	assert_int_equal(cost.settled, 2);
	rig_close(&rig);
}

static void test_slots(void **state)
{
	static const char rule[] = "api/tenant/concurrent/2m";
	struct weir_cost cost;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 5", NULL), WEIR_ADMIT);
	cost = cost_of(&rig, rule);
	assert_int_equal(cost.algorithm, WEIR_CONCURRENT);
	assert_int_equal(cost.limit, 2);
	assert_int_equal(cost.reserved, 1); /* a slot, whatever the cost is */
	assert_int_equal(cost.in_use, 1);
	settle(&rig, 200, "5");
	cost = cost_of(&rig, rule);
	assert_int_equal(cost.refunded, 1);
	assert_int_equal(cost.settled, 1);
	assert_int_equal(cost.in_use, 0);
	/* Two requests never end. A third is refused. */
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 5", NULL), WEIR_ADMIT);
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 5", NULL), WEIR_ADMIT);
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 5", NULL), WEIR_REFUSE);
	cost = cost_of(&rig, rule);
	assert_int_equal(cost.reserved, 3);
	assert_int_equal(cost.in_use, 2);
	for (int i = 0; i < 2 * 122 + 1; i++, rig.now_ns += SECOND_NS)
		weir_tick(rig.table, rig.now_ns);
	cost = cost_of(&rig, rule);
	assert_int_equal(cost.in_use, 0);
	assert_int_equal(cost.lost, 2);
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 5", NULL), WEIR_ADMIT);
	assert_int_equal(cost_of(&rig, rule).in_use, 1);
	/* A slot that is given back after max_hold is lost. */
	rig.now_ns += 3 * MINUTE_NS;
	settle(&rig, 200, "5");
	for (int i = 0; i < 2 * 122 + 1; i++, rig.now_ns += SECOND_NS)
		weir_tick(rig.table, rig.now_ns);
	cost = cost_of(&rig, rule);
	assert_int_equal(cost.refunded, 1);
	assert_int_equal(cost.lost, 3);
	assert_int_equal(cost.in_use, 0);
	rig_close(&rig);
}

static void test_cancelled(void **state)
{
	struct weir_cost cost;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	rig_http(&rig, "GET /chat", TENANT "x-max: 500", NULL);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	cost = cost_of(&rig, "api/tenant/1m");
	assert_int_equal(cost.reserved, 500);
	assert_int_equal(cost.refunded, 500);
	assert_int_equal(cost.actual, 0);
	assert_int_equal(cost.settled, 1);
	cost = cost_of(&rig, "api/tenant/concurrent/2m");
	assert_int_equal(cost.reserved, 1);
	assert_int_equal(cost.refunded, 1);
	assert_int_equal(cost.in_use, 0);
	/* A refused request has taken nothing, so its cancellation counts nothing. */
	rig_http(&rig, "GET /chat", TENANT "x-max: 600", NULL);
	assert_int_equal(rig_http(&rig, "GET /chat", TENANT "x-max: 600", NULL), WEIR_REFUSE);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(cost_of(&rig, "api/tenant/1m").settled, 1);
	assert_int_equal(cost_of(&rig, "api/tenant/1m").refunded, 500);
	rig_close(&rig);
}

/* A program settles a request of weir_ask_add: its units are counted when it is settled. */
static void test_settled_by_the_program(void **state)
{
	struct weir_cost cost;
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	rig_begin(&rig);
	assert_int_equal(rig_add(&rig, "login=7", 3), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_settle(rig.ask, 1, rig.now_ns), 0);
	cost = cost_of(&rig, "api/login/1m");
	assert_int_equal(cost.reserved, 3);
	assert_int_equal(cost.actual, 1);
	assert_int_equal(cost.refunded, 2);
	rig_close(&rig);
}

/* A rate limit beside a limit on concurrent requests has no costs. */
static void test_rule_without_costs(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, yaml, "api");
	rig_http(&rig, "GET /free", TENANT, NULL);
	settle(&rig, 200, NULL);
	assert_int_equal(cost_of(&rig, "api/free/1m").size, 0);
	assert_int_equal(cost_of(&rig, "api/free/concurrent/2m").refunded, 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units_are_counted),
		cmocka_unit_test(test_lost_units),
		cmocka_unit_test(test_counted_by_status),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_rule_without_costs),
		cmocka_unit_test(test_settled_by_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
