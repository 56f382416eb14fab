/* Requests that are settled by their responses: counts by status, costs, concurrent limits. */
#include "lab/replay/replay_test.h"

#include <string.h>

#include "base/str.h"
#include "lab/replay/inner.h"

#define REQUESTS(rest)                                                                             \
	"domain: d\n"                                                                              \
	"requests:\n"                                                                              \
	"- descriptor: [{key: ip, from: remote_address}]\n" rest "descriptors:\n"                  \
	"- key: ip\n"

static bool feed(struct wr_lab_replay *replay, uint64_t after_ns, uint32_t status, uint64_t bytes,
		 uint64_t duration_ns)
{
	struct wr_lab_record record = replay_record("192.0.2.1", after_ns);

	record.status = status;
	record.bytes = bytes;
	record.duration_ns = duration_ns;
	return wr_lab_replay_feed(replay, &record, NULL) == WR_LAB_ADMITTED;
}

static const char logins[] = REQUESTS(
	"  count: {status: [401]}\n") "  rate_limit: {unit: minute, requests_per_unit: 3}\n";

/* Only failed logins count. The third failure uses up the limit. */
static void failed_logins_count(void **state)
{
	static const uint32_t statuses[] = {401, 200, 200, 401, 200, 302, 401};
	struct wr_lab_replay_opts opts = {.algorithms = true};
	struct wr_lab_replay *replay = replay_open(logins, &opts);

	(void)state;
	for (uint64_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		assert_true(feed(replay, i, statuses[i], 0, 0));
	assert_false(feed(replay, 8, 200, 0, 0));
	assert_int_equal(
		wr_lab_replay_algorithms(replay, 0)->algorithms[WEIR_SLIDING_LOG - 1].admitted, 7);
	assert_int_equal(replay_end(replay)->note_count, 0);
	assert_int_equal(wr_lab_replay_report(replay)->limits[0].refused, 1);
	wr_lab_replay_close(replay);
}

/* With durations, a login holds its unit until its response, as in production: three logins in
 * flight use up the limit, although all succeed later. */
static void logins_in_flight_hold_their_units(void **state)
{
	struct wr_lab_replay *replay = replay_open(logins, NULL);

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_true(feed(replay, i, 200, 0, 5 * SECOND_NS));
	assert_false(feed(replay, 4 * SECOND_NS, 200, 0, 0));
	assert_true(feed(replay, 5 * SECOND_NS + 2, 200, 0, 0));
	wr_lab_replay_close(replay);
}

static void a_log_without_status_is_noted(void **state)
{
	struct wr_lab_replay *replay = replay_open(logins, NULL);

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_true(feed(replay, i, 0, 0, 0));
	assert_false(feed(replay, 3, 0, 0, 0));
	assert_int_equal(replay_end(replay)->note_count, 1);
	assert_non_null(strstr(wr_lab_replay_report(replay)->notes[0], "the log has no status"));
	wr_lab_replay_close(replay);
}

/* 1,000 bytes per minute: 400 + 500 fit, the third response of 300 exceeds the limit and becomes a
 * debt, so the fourth request is refused. */
static void bytes_are_costs(void **state)
{
	static const char rules[] = REQUESTS("  cost: {reserve: 1, actual: {from: "
					     "response.bytes}}\n") "  rate_limit: {unit: minute, "
								   "requests_per_unit: 1000}\n";
	struct wr_lab_replay_opts opts = {.algorithms = true};
	struct wr_lab_replay *replay = replay_open(rules, &opts);

	(void)state;
	assert_true(feed(replay, 0, 200, 400, 0));
	assert_true(feed(replay, 1, 200, 500, 0));
	assert_true(feed(replay, 2, 200, 300, 0));
	assert_false(feed(replay, 3, 200, 1, 0));
	assert_int_equal(replay_end(replay)->note_count, 0);
	/* The comparison charges the actual cost at arrival: 300 do not fit, 1 does. */
	assert_int_equal(
		wr_lab_replay_algorithms(replay, 0)->algorithms[WEIR_SLIDING_LOG - 1].admitted, 3);
	wr_lab_replay_close(replay);
}

static void costs_that_logs_do_not_have_are_noted(void **state)
{
	static const char rules[] =
		REQUESTS("  cost: {reserve: 5, actual: {from: response.json./usage/total, default: "
			 "reserved}}\n") "  rate_limit: {unit: minute, requests_per_unit: 10}\n";
	struct wr_lab_replay *replay = replay_open(rules, NULL);

	(void)state;
	assert_true(feed(replay, 0, 200, 400, 0));
	assert_true(feed(replay, 1, 200, 400, 0));
	assert_false(feed(replay, 2, 200, 400, 0));
	assert_int_equal(replay_end(replay)->note_count, 1);
	assert_non_null(
		strstr(wr_lab_replay_report(replay)->notes[0], "response.json./usage/total"));
	wr_lab_replay_close(replay);
}

static const char slots[] = REQUESTS("") "  rate_limit: {concurrent: 2, max_hold: 1m}\n";

static void slots_are_held_for_the_duration(void **state)
{
	struct wr_lab_replay *replay = replay_open(slots, NULL);

	(void)state;
	assert_true(feed(replay, 0, 200, 0, 10 * SECOND_NS));
	assert_true(feed(replay, 1 * SECOND_NS, 200, 0, 3 * SECOND_NS));
	assert_false(feed(replay, 2 * SECOND_NS, 200, 0, SECOND_NS));
	assert_true(feed(replay, 4 * SECOND_NS, 200, 0, 2 * SECOND_NS)); /* the second ended */
	assert_false(feed(replay, 5 * SECOND_NS, 200, 0, SECOND_NS));
	assert_true(feed(replay, 6 * SECOND_NS, 200, 0, 9 * SECOND_NS));
	assert_int_equal(replay_end(replay)->limits[0].refused, 2);
	assert_int_equal(replay_end(replay)->note_count, 0);
	wr_lab_replay_close(replay);
}

static void slots_need_durations(void **state)
{
	struct wr_lab_replay *replay = replay_open(slots, NULL);

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		assert_true(feed(replay, 0, 200, 0, 0));
	assert_int_equal(replay_end(replay)->note_count, 1);
	assert_non_null(strstr(wr_lab_replay_report(replay)->notes[0],
			       "d/ip/concurrent/1m cannot be replayed: the log has no durations"));
	wr_lab_replay_close(replay);
}

/* More requests in flight than a replay keeps open: the one that ends first is settled early. */
static void too_many_open_requests_are_settled_early(void **state)
{
	static const char rules[] =
		REQUESTS("") "  rate_limit: {concurrent: 10000, max_hold: 1h}\n";
	struct wr_lab_replay *replay = replay_open(rules, NULL);

	(void)state;
	for (uint64_t i = 0; i < WR_LAB_OPEN_MAX + 100; i++)
		assert_true(feed(replay, i, 200, 0, 60 * SECOND_NS));
	assert_int_equal(replay_end(replay)->settled_early, 100);
	assert_int_equal(wr_lab_replay_report(replay)->note_count, 1);
	wr_lab_replay_close(replay);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_logins_count),
		cmocka_unit_test(logins_in_flight_hold_their_units),
		cmocka_unit_test(a_log_without_status_is_noted),
		cmocka_unit_test(bytes_are_costs),
		cmocka_unit_test(costs_that_logs_do_not_have_are_noted),
		cmocka_unit_test(slots_are_held_for_the_duration),
		cmocka_unit_test(slots_need_durations),
		cmocka_unit_test(too_many_open_requests_are_settled_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
