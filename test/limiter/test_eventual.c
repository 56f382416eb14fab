/* Limits with `consistency: eventual`: they are decided in the table and counted for other nodes.
 * Without exchanges the node has its share. The test does the work of the service and sets the
 * clock of exchanges. */
#include "standin.h"

#include <string.h>

#include "limiter/engine.h"
#include "store/exchange.h"

#define OWNER 7u
#define SYNC (SECOND_NS / 10)

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: a\n"
	"  rate_limit: {unit: minute, requests_per_unit: 90, consistency: eventual}\n"
	"- key: bucket\n"
	"  rate_limit: {unit: second, requests_per_unit: 10, burst: 30, algorithm: token_bucket, "
	"consistency: eventual}\n"
	"- key: month\n"
	"  rate_limit: {calendar: month, requests_per_unit: 90, consistency: eventual}\n"
	"- key: shut\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, consistency: eventual, "
	"on_store_failure: deny}\n"
	"- key: open\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, consistency: eventual, "
	"on_store_failure: allow}\n"
	"- key: shadow\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, consistency: eventual}\n"
	"- key: here\n"
	"  rate_limit: {unit: minute, requests_per_unit: 2, consistency: local}\n"
	"- key: strict\n"
	"  rate_limit: {unit: minute, requests_per_unit: 2}\n";

static uint64_t mono_ns;

static uint64_t read_mono(void *context)
{
	(void)context;
	return mono_ns;
}

static void open_rig(struct rig *rig, uint32_t nodes)
{
	rig_open_with(rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	rig->engine->mono = read_mono;
	mono_ns = 1000 * SECOND_NS;
	weir_fleet_note(rig->table, nodes, NOW_NS);
	assert_true(wr_store_exchange_own(rig->table, OWNER, SYNC, mono_ns));
	wr_store_exchange_answered(rig->table, OWNER, mono_ns);
}

/* Returns the slot that was used; there is at most one. */
static int visit(struct rig *rig, struct wr_store_exchange_view *view)
{
	uint32_t cursor = 0;

	return wr_store_exchange_next(rig->table, OWNER, &cursor, 0, rig->now_ns, mono_ns, view);
}

/* Adds units of other nodes to the current window. */
static void apply(struct rig *rig, int slot, const struct wr_store_exchange_view *view,
		  uint64_t others)
{
	struct wr_store_exchange_totals totals = {{{view->counts[0].start_ns, others, 0}}};

	wr_store_exchange_apply(rig->table, slot, OWNER, view->incarnation, &totals, rig->now_ns,
				mono_ns);
}

static void takes_are_counted_for_other_nodes(void **state)
{
	struct wr_store_exchange_view view;
	struct rig rig;
	int slot;

	open_rig(&rig, 3);
	assert_int_equal(rig_admitted(&rig, "a=1", 20), 20);
	assert_int_equal(rig_status(&rig, 0).remaining, 70);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED);
	slot = visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 20);
	assert_int_equal(view.name.limit, 90);
	assert_int_equal(view.name.period_ns, MINUTE_NS);
	assert_int_equal(view.name.id_len, strlen("fixed_window/1m"));
	assert_memory_equal(view.name.id, "fixed_window/1m", view.name.id_len);
	assert_true(view.name.fleet_key[0] != 0);
	apply(&rig, slot, &view, 30);
	assert_int_equal(rig_admitted(&rig, "a=1", 90), 40);
	visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 60);
	/* Refused requests are not counted, and cancelled requests are subtracted. */
	assert_int_equal(rig_admitted(&rig, "a=1;a=2", 1), 0);
	assert_int_equal(visit(&rig, &view), -1);
	assert_int_equal(rig_admitted(&rig, "a=3;here=1", 5), 2);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 2);
	assert_int_equal(view.counts[0].minus, 0);
	assert_int_equal(rig_ask(&rig, "a=3"), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	rig_begin(&rig);
	rig_add(&rig, "a=3", -1);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 3);
	assert_int_equal(view.counts[0].minus, 2);
	rig_close(&rig);
	(void)state;
}

/* Together with limits of the central store. */
static void together_with_central_limits(void **state)
{
	static struct store store;
	struct wr_store_exchange_view view;
	struct rig rig;

	memset(&store, 0, sizeof store);
	open_rig(&rig, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(store_ask(&rig, &store, "a=1;strict=1"),
				 i < 2 ? WEIR_ADMIT : WEIR_REFUSE);
	assert_int_equal(store.item_count, 1);
	visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 2);
	assert_int_equal(rig_ask(&rig, "shadow=1;a=1"), WEIR_ADMIT);
	assert_int_equal(visit(&rig, &view) >= 0, 1);
	rig_close(&rig);
	(void)state;
}

/* Without an exchange for three intervals, each of three nodes has 30 of 90 units, minus the units
 * that it has used. */
static void share_without_exchanges(void **state)
{
	struct wr_store_exchange_view view;
	struct rig rig;
	int slot;

	open_rig(&rig, 3);
	assert_int_equal(rig_admitted(&rig, "a=1", 20), 20);
	slot = visit(&rig, &view);
	apply(&rig, slot, &view, 40);
	mono_ns += 3 * SYNC;
	assert_int_equal(rig_admitted(&rig, "a=1", 1), 1);
	mono_ns += 1;
	assert_int_equal(rig_admitted(&rig, "a=1", 90), 9);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_FAILED);
	/* The units are exchanged later under the whole limit; there is no report. */
	visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 30);
	assert_int_equal(view.name.limit, 90);
	apply(&rig, slot, &view, 45);
	assert_int_equal(rig_admitted(&rig, "a=1", 90), 90 - 30 - 45);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED);
	/* on_store_failure applies. */
	mono_ns += SECOND_NS;
	assert_int_equal(rig_ask(&rig, "shut=1"), WEIR_REFUSE);
	assert_int_equal(rig_admitted(&rig, "open=1", 20), 20);
	/* The share of a bucket of 30 is 10. */
	assert_int_equal(rig_admitted(&rig, "bucket=1", 30), 10);
	rig_close(&rig);
	(void)state;
}

/* A key that is used rarely does not fall back to its share. */
static void rarely_used_keys_do_not_fall_back(void **state)
{
	struct wr_store_exchange_view view;
	struct rig rig;
	int slot;

	open_rig(&rig, 90);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
		assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED);
		slot = visit(&rig, &view);
		apply(&rig, slot, &view, 10);
		mono_ns += 10 * SECOND_NS;
		wr_store_exchange_answered(rig.table, OWNER, mono_ns);
	}
	assert_int_equal(rig_status(&rig, 0).remaining, 90 - 10 - 5);
	rig_close(&rig);
	(void)state;
}

static void missing_secret_and_calendars(void **state)
{
	struct weir_engine_opts opts = {.size = sizeof opts, .flags = WEIR_ENGINE_CENTRAL};
	static const uint8_t secret[WEIR_SECRET_BYTES] = {9};
	struct wr_store_exchange_view view;
	struct rig rig;

	open_rig(&rig, 3);
	assert_int_equal(rig_ask(&rig, "month=1"), WEIR_ADMIT);
	assert_true(visit(&rig, &view) >= 0);
	assert_int_equal(view.name.window_end_ns - view.name.window_start_ns, 30 * DAY_NS);
	assert_int_equal(view.counts[0].start_ns, view.name.window_start_ns);
	weir_ask_done(rig.ask);
	rig.ask = NULL;
	weir_engine_free(rig.engine);
	/* Without the fleet's secret a counter has no name, so its share applies until the secret
	 * is known. */
	assert_int_equal(weir_engine_new(rig.table, rig_rules(rules), &opts, &rig.engine), 0);
	rig.engine->mono = read_mono;
	assert_int_equal(rig_admitted(&rig, "a=5", 90), 30);
	assert_int_equal(weir_ask_central(rig.ask), 1);
	assert_int_equal(visit(&rig, &view), -1);
	assert_int_equal(weir_engine_fleet(rig.engine, secret), 0);
	assert_int_equal(rig_admitted(&rig, "a=5", 90), 60);
	assert_int_equal(weir_ask_central(rig.ask), 0);
	visit(&rig, &view);
	assert_int_equal(view.counts[0].plus, 60);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_are_counted_for_other_nodes),
		cmocka_unit_test(together_with_central_limits),
		cmocka_unit_test(share_without_exchanges),
		cmocka_unit_test(rarely_used_keys_do_not_fall_back),
		cmocka_unit_test(missing_secret_and_calendars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
