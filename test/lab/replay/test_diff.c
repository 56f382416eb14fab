/* Comparison of two decisions on each request. */
#include "lab/replay/replay_test.h"

#include "lab/replay/diff.h"

static void feed(struct wr_lab_diff *diff, const char *client, bool first, bool second)
{
	struct wr_lab_record record = replay_record(client, 0);

	wr_lab_diff_feed(diff, &record, (const bool[2]){first, second});
}

static void requests_and_clients_are_counted(void **state)
{
	const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS];
	struct wr_lab_diff diff;

	(void)state;
	assert_true(wr_lab_diff_init(&diff));
	feed(&diff, "192.0.2.1", false, false);
	feed(&diff, "192.0.2.2", true, true);
	feed(&diff, "192.0.2.2", true, false);
	feed(&diff, "192.0.2.3", true, false); /* refused by both, but not at once */
	feed(&diff, "192.0.2.3", false, true);
	feed(&diff, "192.0.2.4", false, true);
	feed(&diff, "192.0.2.4", false, true);
	feed(&diff, "192.0.2.5", true, false);
	wr_lab_diff_end(&diff);
	assert_int_equal(diff.requests, 8);
	assert_int_equal(diff.both, 1);
	assert_int_equal(diff.only[WR_LAB_FIRST], 3);
	assert_int_equal(diff.only[WR_LAB_SECOND], 3);
	assert_int_equal(diff.clients, 5);
	assert_int_equal(diff.clients_both, 2);
	assert_int_equal(diff.clients_only[WR_LAB_FIRST], 1);
	assert_int_equal(diff.clients_only[WR_LAB_SECOND], 1);
	assert_int_equal(wr_lab_diff_top(&diff, WR_LAB_FIRST, found), 3);
	replay_assert_key(found[0], "192.0.2.2", 1);
	replay_assert_key(found[1], "192.0.2.3", 1);
	replay_assert_key(found[2], "192.0.2.5", 1);
	assert_int_equal(wr_lab_diff_top(&diff, WR_LAB_SECOND, found), 2);
	replay_assert_key(found[0], "192.0.2.4", 2);
	replay_assert_key(found[1], "192.0.2.3", 1);
	wr_lab_diff_free(&diff);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_and_clients_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
