/* The window that puts records into order, and the spreading of whole seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/log/lines.h"
#include "lab/log/order.h"

#define S WR_LAB_SECOND_NS
#define SLOTS 300000u

static struct wr_lab_order order;
static struct wr_lab_slot *slots;
static uint32_t used;
static struct wr_lab_text *text;

static int start(void **state)
{
	(void)state;
	slots = calloc(SLOTS, sizeof *slots);
	text = calloc(1, sizeof *text);
	used = 0;
	return slots && text ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	free(slots);
	free(text);
	wr_lab_order_free(&order);
	return 0;
}

/* Adds a record. Its status is its number, beginning with 0. */
static void add(uint64_t time_ns, bool whole)
{
	struct wr_lab_slot *slot = &slots[used];

	assert_true(used < SLOTS);
	slot->record.time_ns = time_ns;
	slot->record.status = used++;
	slot->whole = whole;
	slot->text = text;
	slot->line_bytes = 200;
	wr_lab_order_add(&order, slot);
}

/* Takes the next record that has left the window and asserts its number and time. */
static void expect(uint32_t number, uint64_t time_ns)
{
	struct wr_lab_slot *slot = order.ready.head;

	assert_non_null(slot);
	order.ready.head = slot->next;
	assert_int_equal(slot->record.status, number);
	assert_int_equal(slot->record.time_ns, time_ns);
}

static void expect_none(void)
{
	assert_null(order.ready.head);
}

static void whole_seconds_are_spread(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	add(10 * S, true);
	add(11 * S, true);
	add(11 * S, true);
	add(11 * S, true);
	add(13 * S, true);
	add(13 * S, true);
	expect_none();
	wr_lab_order_flush(&order);
	expect(0, 10 * S);
	expect(1, 11 * S);
	expect(2, 11 * S + 333333333);
	expect(3, 11 * S + 666666666);
	expect(4, 13 * S);
	expect(5, 13 * S + 500000000);
	expect_none();
	assert_int_equal(order.late, 0);
	assert_int_equal(order.reordered, 0);
	assert_int_equal(order.held_bytes, 0);
	assert_int_equal(order.held_texts, 0);
	(void)state;
}

/* The k-th of n records gets k/n of the second, rounded down. */
static void spreading_is_exact(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	for (uint64_t i = 0; i < 7919; i++)
		add(10 * S, true);
	wr_lab_order_flush(&order);
	for (uint32_t i = 0; i < 7919; i++)
		expect(i, 10 * S + S * i / 7919);
	(void)state;
}

/* Lines of a second that come back after a later second share their second with the others. */
static void records_of_a_second_come_from_several_places(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	add(10 * S, true);
	add(12 * S, true);
	add(10 * S, true);
	add(11 * S, true);
	add(10 * S, true);
	add(12 * S, true);
	add(10 * S, true);
	wr_lab_order_flush(&order);
	expect(0, 10 * S);
	expect(2, 10 * S + 250000000);
	expect(4, 10 * S + 500000000);
	expect(6, 10 * S + 750000000);
	expect(3, 11 * S);
	expect(1, 12 * S);
	expect(5, 12 * S + 500000000);
	assert_int_equal(order.reordered, 4);
	assert_int_equal(order.late, 0);
	(void)state;
}

static void fractions_stay_as_they_are(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	add(10 * S + 500, false);
	add(10 * S + 100, false);
	add(10 * S + 300, false);
	add(10 * S, false);
	add(10 * S + 100, false);
	wr_lab_order_flush(&order);
	expect(3, 10 * S);
	expect(1, 10 * S + 100);
	expect(4, 10 * S + 100); /* equal times stay in the order of their lines */
	expect(2, 10 * S + 300);
	expect(0, 10 * S + 500);
	assert_int_equal(order.reordered, 4);
	(void)state;
}

static void whole_seconds_and_fractions_mix(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	add(10 * S + 600000000, false);
	add(10 * S, true);
	add(10 * S, true);
	add(10 * S + 400000000, false);
	wr_lab_order_flush(&order);
	expect(1, 10 * S);
	expect(3, 10 * S + 400000000);
	expect(2, 10 * S + 500000000);
	expect(0, 10 * S + 600000000);
	(void)state;
}

/* A window of 3 lines: a second leaves when 3 records of later seconds are there. */
static void window_has_a_number_of_lines(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 3, 300 * S), 0);
	order.begun = true;
	add(10 * S, true);
	add(20 * S, true);
	add(21 * S, true);
	expect_none();
	add(9 * S, true); /* three records are later, and none of them has left */
	expect(3, 9 * S);
	expect_none();
	add(22 * S, true);
	expect(0, 10 * S);
	expect_none();
	add(10 * S, true); /* three records are later: too late */
	expect(5, 10 * S);
	assert_int_equal(order.late, 0); /* its time is that of the record before it */
	add(9 * S, true);
	expect(6, 10 * S);
	assert_int_equal(order.late, 1);
	assert_int_equal(order.reordered, 1);
	wr_lab_order_flush(&order);
	expect(1, 20 * S);
	expect(2, 21 * S);
	expect(4, 22 * S);
	(void)state;
}

/* A window of 300 seconds. */
static void window_has_a_length(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	order.begun = true;
	add(1000 * S, true);
	add(1300 * S, true);
	expect_none();
	add(1000 * S, true); /* 300 seconds late, which is in the window */
	add(1301 * S, true);
	expect(0, 1000 * S);
	expect(2, 1000 * S + 500000000);
	expect_none();
	add(1000 * S, true);
	expect(4, 1000 * S + 500000000);
	assert_int_equal(order.late, 1);
	add(1001 * S, true); /* 300 seconds late */
	expect_none();
	assert_int_equal(order.reordered, 2);
	wr_lab_order_flush(&order);
	expect(5, 1001 * S);
	expect(1, 1300 * S);
	expect(3, 1301 * S);
	(void)state;
}

/* Ten records after a pause make the records before it leave. A record that was late in the log is
 * still put into order. */
static void pauses_are_accepted(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	order.begun = true;
	add(1000 * S, true);
	for (uint64_t i = 0; i < 9; i++)
		add((9000 + i) * S, true);
	add(1001 * S, true);
	expect_none();
	add(8900 * S, true);
	expect(0, 1000 * S);
	expect(10, 1001 * S);
	expect_none();
	wr_lab_order_flush(&order);
	expect(11, 8900 * S);
	for (uint32_t i = 0; i < 9; i++)
		expect(1 + i, (9000 + i) * S);
	expect_none();
	assert_int_equal(order.late, 0);
	assert_int_equal(order.reordered, 1);
	(void)state;
}

/* A log that ends soon after a pause. */
static void last_records_are_accepted(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	add(1000 * S, true);
	add(9000 * S, true);
	wr_lab_order_flush(&order);
	expect(0, 1000 * S);
	expect(1, 9000 * S);
	expect_none();
	(void)state;
}

static void single_wrong_times_are_late(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	order.begun = true;
	add(1000 * S, true);
	add(9000000000 * S, true);
	for (uint64_t i = 0; i < 9; i++)
		add((1001 + i) * S, true);
	expect_none();
	add(1010 * S, true);
	expect(1, 1000 * S);
	expect_none();
	assert_int_equal(order.late, 1);
	add(1011 * S, true);
	wr_lab_order_flush(&order);
	expect(0, 1000 * S);
	for (uint32_t i = 0; i < 11; i++)
		expect(2 + i, (1001 + i) * S);
	expect_none();
	assert_int_equal(order.late, 1);
	(void)state;
}

/* The first records are no exception: up to nine wrong times before all other records. */
static void wrong_times_at_the_start_are_late(void **state)
{
	for (uint32_t wrong = 1; wrong < WR_LAB_AHEAD_LINES; wrong += 4) {
		assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
		used = 0;
		for (uint32_t i = 0; i < wrong; i++)
			add(9000000000 * S, true);
		for (uint64_t i = 0; i < 9; i++)
			add((1000 + i) * S, true);
		assert_int_equal(order.late, 0);
		add(1009 * S, true);
		assert_int_equal(order.late, wrong);
		for (uint32_t i = 0; i < wrong; i++)
			expect(i, 1000 * S);
		wr_lab_order_flush(&order);
		for (uint32_t i = 0; i < 10; i++)
			expect(wrong + i, (1000 + i) * S);
		expect_none();
		assert_int_equal(order.late, wrong);
		wr_lab_order_free(&order);
	}
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	(void)state;
}

/* Three records, then a pause. The pause is within the first records. */
static void pause_at_the_start_is_accepted(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	for (uint64_t i = 0; i < 3; i++)
		add((1000 + i) * S, true);
	for (uint64_t i = 0; i < 10; i++)
		add((9000 + i) * S, true);
	for (uint32_t i = 0; i < 3; i++)
		expect(i, (1000 + i) * S);
	expect_none();
	wr_lab_order_flush(&order);
	for (uint32_t i = 0; i < 10; i++)
		expect(3 + i, (9000 + i) * S);
	expect_none();
	assert_int_equal(order.late, 0);
	(void)state;
}

/* The second line is of a request that took more than an hour. It is put into order. */
static void early_second_record_is_put_in_order(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	add(9000 * S, true);
	add(5000 * S, true);
	for (uint64_t i = 1; i < 20; i++)
		add((9000 + i) * S, true);
	wr_lab_order_flush(&order);
	expect(1, 5000 * S);
	expect(0, 9000 * S);
	for (uint32_t i = 1; i < 20; i++)
		expect(1 + i, (9000 + i) * S);
	expect_none();
	assert_int_equal(order.late, 0);
	(void)state;
}

/* Records whose second has left, but which are not before the last record, are not late. */
static void fractions_of_a_released_second_are_not_late(void **state)
{
	assert_int_equal(wr_lab_order_init(&order, 1, 300 * S), 0);
	order.begun = true;
	add(10 * S + 100, false);
	add(11 * S, false);
	expect(0, 10 * S + 100);
	add(10 * S + 300, false);
	expect(2, 10 * S + 300);
	assert_int_equal(order.late, 0);
	add(10 * S + 200, false);
	expect(3, 10 * S + 300);
	assert_int_equal(order.late, 1);
	(void)state;
}

/* Times of leaving records never go back, whatever the times of the lines are. */
static void times_never_go_back(void **state)
{
	uint64_t seed = 1, before_ns = 0, count = 0;

	assert_int_equal(wr_lab_order_init(&order, 50, 20 * S), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t time_ns = (1000000 + i / 10) * S;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (seed >> 62 == 0)
			time_ns -= (seed >> 32) % 30 * S;
		if (seed >> 60 == 15)
			time_ns += (seed >> 32) % 5 * S;
		add(time_ns + (seed >> 61 & 1 ? seed % S : 0), (seed >> 61 & 1) == 0);
		if (i == 99999)
			wr_lab_order_flush(&order);
		for (; order.ready.head; order.ready.head = order.ready.head->next) {
			assert_true(order.ready.head->record.time_ns >= before_ns);
			before_ns = order.ready.head->record.time_ns;
			count++;
		}
	}
	assert_int_equal(count, 100000);
	assert_in_range(order.late, 10000, 30000);
	assert_int_equal(order.held, 0);
	assert_int_equal(order.held_bytes, 0);
	assert_int_equal(order.held_texts, 0);
	(void)state;
}

/* A second with more lines than the window has memory for. The first part of them gets the first
 * half of the second, the next part half of the rest, and the last part all of the rest. */
static void full_window_divides_a_second(void **state)
{
	uint32_t part = (uint32_t)(WR_LAB_WINDOW_BYTES / (sizeof *slots + 200)) + 1;
	uint64_t rest = 1000;

	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	assert_true(2 * part + rest < SLOTS);
	for (uint64_t i = 0; i < 2 * part + rest; i++)
		add(10 * S, true);
	assert_int_equal(order.held, rest);
	wr_lab_order_flush(&order);
	for (uint32_t i = 0; i < part; i++)
		expect(i, 10 * S + S / 2 * i / part);
	for (uint32_t i = 0; i < part; i++)
		expect(part + i, 10 * S + S / 2 + S / 4 * i / part);
	for (uint32_t i = 0; i < rest; i++)
		expect(2 * part + i, 10 * S + S / 2 + S / 4 + S / 4 * i / rest);
	assert_int_equal(order.late, 0);
	(void)state;
}

/* Old records leave when the window refers to too many blocks of text. */
static void blocks_of_text_have_a_bound(void **state)
{
	struct wr_lab_text *texts = calloc(WR_LAB_WINDOW_TEXTS, sizeof *texts);

	assert_non_null(texts);
	assert_int_equal(wr_lab_order_init(&order, 1000, 300 * S), 0);
	order.begun = true;
	for (uint32_t i = 0; i < WR_LAB_WINDOW_TEXTS; i++) {
		struct wr_lab_slot *slot = &slots[used];

		*slot = (struct wr_lab_slot){.record = {.time_ns = (10 + i) * S, .status = used++},
					     .whole = true,
					     .text = &texts[i]};
		wr_lab_order_add(&order, slot);
		expect_none();
		if (i + 1 < WR_LAB_WINDOW_TEXTS)
			wr_lab_order_unpin(&order);
		expect_none();
	}
	wr_lab_order_unpin(&order);
	expect(0, 10 * S);
	expect_none();
	assert_int_equal(order.held_texts, WR_LAB_WINDOW_TEXTS - 1);
	assert_int_equal(texts[0].held, 0);
	free(texts);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole_seconds_are_spread, start, end),
		cmocka_unit_test_setup_teardown(spreading_is_exact, start, end),
		cmocka_unit_test_setup_teardown(records_of_a_second_come_from_several_places, start,
						end),
		cmocka_unit_test_setup_teardown(fractions_stay_as_they_are, start, end),
		cmocka_unit_test_setup_teardown(whole_seconds_and_fractions_mix, start, end),
		cmocka_unit_test_setup_teardown(window_has_a_number_of_lines, start, end),
		cmocka_unit_test_setup_teardown(window_has_a_length, start, end),
		cmocka_unit_test_setup_teardown(pauses_are_accepted, start, end),
		cmocka_unit_test_setup_teardown(last_records_are_accepted, start, end),
		cmocka_unit_test_setup_teardown(single_wrong_times_are_late, start, end),
		cmocka_unit_test_setup_teardown(wrong_times_at_the_start_are_late, start, end),
		cmocka_unit_test_setup_teardown(pause_at_the_start_is_accepted, start, end),
		cmocka_unit_test_setup_teardown(early_second_record_is_put_in_order, start, end),
		cmocka_unit_test_setup_teardown(fractions_of_a_released_second_are_not_late, start,
						end),
		cmocka_unit_test_setup_teardown(times_never_go_back, start, end),
		cmocka_unit_test_setup_teardown(full_window_divides_a_second, start, end),
		cmocka_unit_test_setup_teardown(blocks_of_text_have_a_bound, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
