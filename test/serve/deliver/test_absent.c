/* Responses of 502, 503 and 504: which of them count as attempts, the back-off of each request, and
 * the maximum number of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "serve/deliver/absent.h"

#define ORDERS WR_STR("api/orders/1m")
#define MAILS WR_STR("api/mails/1m")

static bool counts(struct wr_deliver_absent *absent, uint64_t id, uint64_t now_us, uint32_t before)
{
	bool counted;

	assert_int_equal(wr_deliver_absent_note(absent, id, ORDERS, now_us, &counted), before);
	return counted;
}

static void test_an_answer_counts_if_others_were_answered_since(void **state)
{
	struct wr_deliver_absent absent = {0};

	(void)state;
	wr_deliver_absent_present(&absent, ORDERS, 5);
	assert_false(counts(&absent, 1, 10, 0));
	assert_false(counts(&absent, 2, 11, 0));
	assert_false(counts(&absent, 1, 20, 1));
	wr_deliver_absent_present(&absent, ORDERS, 25);
	assert_true(counts(&absent, 1, 30, 2));
	assert_true(counts(&absent, 2, 31, 1));
	assert_false(counts(&absent, 1, 40, 2));
	wr_deliver_absent_free(&absent);
}

/* The API server of one rule is unavailable, while the API server of another rule answers. */
static void test_answers_to_another_rule_do_not_count(void **state)
{
	struct wr_deliver_absent absent = {0};

	(void)state;
	assert_false(counts(&absent, 1, 10, 0));
	wr_deliver_absent_present(&absent, MAILS, 15);
	assert_false(counts(&absent, 1, 20, 1));
	wr_deliver_absent_free(&absent);
}

static void test_every_request_backs_off_by_its_own_answers(void **state)
{
	struct wr_deliver_absent absent = {0};

	(void)state;
	for (uint32_t round = 0; round < 3; round++)
		for (uint64_t id = 1; id <= 50000; id++)
			assert_false(counts(&absent, id, 1 + round, round));
	assert_int_equal(absent.used, 50000);
	wr_deliver_absent_free(&absent);
}

static void test_rows_without_a_try_for_an_hour_make_room(void **state)
{
	struct wr_deliver_absent absent = {0};
	uint64_t later = 10 + WR_DELIVER_ABSENT_STALE_US;

	(void)state;
	for (uint64_t id = 1; id <= WR_DELIVER_ABSENT_MAX; id++)
		assert_false(counts(&absent, id, 10, 0));
	/* If all rows are in use, a new request gets the longest back-off, and no row is
	 * evicted. */
	assert_false(counts(&absent, 1000001, 11, 16));
	assert_false(counts(&absent, 1, 12, 1));
	assert_int_equal(absent.used, WR_DELIVER_ABSENT_MAX);
	assert_false(counts(&absent, 1000001, later, 0));
	assert_int_equal(absent.used, 2);
	assert_false(counts(&absent, 1, later, 2));
	wr_deliver_absent_free(&absent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer_counts_if_others_were_answered_since),
		cmocka_unit_test(test_answers_to_another_rule_do_not_count),
		cmocka_unit_test(test_every_request_backs_off_by_its_own_answers),
		cmocka_unit_test(test_rows_without_a_try_for_an_hour_make_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
