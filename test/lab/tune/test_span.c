/* The length of a log without long gaps, and requests that are far from the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/tune/span.h"

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)
#define YEAR_NS (8760 * HOUR_NS)
#define NOON_NS (1772366400ull * SECOND_NS) /* 2026-03-01 12:00 UTC */

/* Adds a request per minute for two hours, from noon on. */
static void add_two_hours(struct wr_lab_span *span)
{
	for (uint64_t minute = 0; minute <= 120; minute++)
		wr_lab_span_add(span, NOON_NS + minute * MINUTE_NS);
}

static void a_gap_counts_at_most_an_hour(void **state)
{
	struct wr_lab_span span = {0};

	(void)state;
	wr_lab_span_add(&span, NOON_NS);
	assert_int_equal(span.length_ns, 0);
	wr_lab_span_add(&span, NOON_NS + HOUR_NS - 1);
	assert_int_equal(span.length_ns, HOUR_NS - 1);
	wr_lab_span_add(&span, NOON_NS + 50 * HOUR_NS);
	assert_int_equal(span.length_ns, 2 * HOUR_NS - 1);
	assert_int_equal(wr_lab_span_length(&span), 2 * HOUR_NS - 1);
}

static void a_log_is_at_least_ten_minutes_long(void **state)
{
	struct wr_lab_span span = {0};

	(void)state;
	assert_int_equal(wr_lab_span_length(&span), 10 * MINUTE_NS);
	wr_lab_span_add(&span, NOON_NS);
	wr_lab_span_add(&span, NOON_NS + MINUTE_NS);
	assert_int_equal(wr_lab_span_length(&span), 10 * MINUTE_NS);
}

static void usual_logs_have_no_strays(void **state)
{
	struct wr_lab_span span = {0};

	(void)state;
	assert_int_equal(wr_lab_span_strays(&span, false).requests, 0);
	add_two_hours(&span);
	assert_int_equal(wr_lab_span_strays(&span, false).requests, 0);
	assert_int_equal(wr_lab_span_strays(&span, true).requests, 0);
}

/* Wrong times at both ends are found, though each of them is in the rest of the other. */
static void strays_are_found_at_both_ends(void **state)
{
	struct wr_lab_span span = {0};
	struct wr_lab_strays early, late;

	(void)state;
	wr_lab_span_add(&span, 5 * SECOND_NS);
	wr_lab_span_add(&span, 9 * SECOND_NS);
	add_two_hours(&span);
	wr_lab_span_add(&span, NOON_NS + 10 * YEAR_NS);
	early = wr_lab_span_strays(&span, false);
	late = wr_lab_span_strays(&span, true);
	assert_int_equal(early.requests, 2);
	assert_int_equal(early.first_ns, 5 * SECOND_NS);
	assert_int_equal(early.last_ns, 9 * SECOND_NS);
	assert_int_equal(early.rest_ns, NOON_NS);
	assert_int_equal(late.requests, 1);
	assert_int_equal(late.first_ns, NOON_NS + 10 * YEAR_NS);
	assert_int_equal(late.last_ns, NOON_NS + 10 * YEAR_NS);
	assert_int_equal(late.rest_ns, NOON_NS + 2 * HOUR_NS);
	assert_int_equal(span.length_ns, 4 * HOUR_NS + 4 * SECOND_NS);
	assert_int_equal(wr_lab_span_length(&span), 2 * HOUR_NS);
}

/* The rest is two hours long: a gap of 20 hours is not longer than ten times as much. */
static void a_gap_must_be_longer_than_ten_times_the_rest(void **state)
{
	(void)state;
	for (uint64_t more_s = 0; more_s < 2; more_s++) {
		struct wr_lab_span span = {0};

		add_two_hours(&span);
		wr_lab_span_add(&span, NOON_NS + 22 * HOUR_NS + more_s * SECOND_NS);
		assert_int_equal(wr_lab_span_strays(&span, true).requests, more_s);
	}
}

/* Nine requests are strays, ten are not. */
static void ten_requests_are_no_strays(void **state)
{
	(void)state;
	for (uint64_t count = 9; count <= 10; count++) {
		struct wr_lab_span early = {0}, late = {0};

		for (uint64_t i = 0; i < count; i++)
			wr_lab_span_add(&early, i * SECOND_NS);
		add_two_hours(&early);
		add_two_hours(&late);
		for (uint64_t i = 0; i < count; i++)
			wr_lab_span_add(&late, NOON_NS + YEAR_NS + i * SECOND_NS);
		assert_int_equal(wr_lab_span_strays(&early, false).requests, count == 9 ? 9 : 0);
		assert_int_equal(wr_lab_span_strays(&late, true).requests, count == 9 ? 9 : 0);
	}
}

/* With fewer than ten other requests, it is not known which times are wrong. */
static void a_short_log_has_no_strays(void **state)
{
	(void)state;
	for (uint64_t rest = 9; rest <= 10; rest++) {
		struct wr_lab_span span = {0};

		wr_lab_span_add(&span, 0);
		for (uint64_t i = 0; i < rest; i++)
			wr_lab_span_add(&span, NOON_NS + i * SECOND_NS);
		assert_int_equal(wr_lab_span_strays(&span, false).requests, rest == 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gap_counts_at_most_an_hour),
		cmocka_unit_test(a_log_is_at_least_ten_minutes_long),
		cmocka_unit_test(usual_logs_have_no_strays),
		cmocka_unit_test(strays_are_found_at_both_ends),
		cmocka_unit_test(a_gap_must_be_longer_than_ten_times_the_rest),
		cmocka_unit_test(ten_requests_are_no_strays),
		cmocka_unit_test(a_short_log_has_no_strays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
