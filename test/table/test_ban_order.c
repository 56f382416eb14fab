/* The ring of orders of automatic bans. */
#include "table_test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "table/ban_order.h"

/* A table of 256 KiB has a ring of 7 orders. */
#define SLOTS 7u

static struct weir_table *ring_open(void)
{
	return table_open("ring", 256 * KIB, 0);
}

static void append(struct weir_table *table, unsigned number)
{
	char text[32];
	int len = snprintf(text, sizeof text, "order %u", number);

	assert_true(wr_ban_order_append(table, text, (size_t)len));
}

static void assert_read(struct weir_table *table, uint64_t *at, uint64_t *lost, unsigned number)
{
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	char text[32];
	size_t len = (size_t)snprintf(text, sizeof text, "order %u", number);

	assert_int_equal(wr_ban_order_read(table, at, lost, bytes), len);
	assert_memory_equal(bytes, text, len);
}

static void appended_and_read(void **unused)
{
	struct weir_table *table = ring_open();
	uint8_t bytes[WR_BAN_ORDER_BYTES + 1] = {1};
	uint64_t at = 0, lost = 0;

	(void)unused;
	assert_int_equal(wr_ban_order_end(table), 0);
	assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
	append(table, 0);
	append(table, 1);
	assert_int_equal(wr_ban_order_end(table), 2);
	assert_read(table, &at, &lost, 0);
	assert_read(table, &at, &lost, 1);
	assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
	assert_int_equal(at, 2);
	assert_false(wr_ban_order_append(table, bytes, sizeof bytes));
	assert_false(wr_ban_order_append(table, bytes, 0));
	assert_int_equal(wr_ban_order_end(table), 2);
	memset(bytes, 0xa5, sizeof bytes);
	assert_true(wr_ban_order_append(table, bytes, WR_BAN_ORDER_BYTES));
	memset(bytes, 0, sizeof bytes);
	assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), WR_BAN_ORDER_BYTES);
	assert_int_equal(bytes[WR_BAN_ORDER_BYTES - 1], 0xa5);
	assert_int_equal(lost, 0);
	table_drop(table);
}

static void overwritten(void **unused)
{
	struct weir_table *table = ring_open();
	uint64_t at = 0, lost = 0;

	(void)unused;
	for (unsigned i = 0; i < SLOTS + 5; i++)
		append(table, i);
	assert_read(table, &at, &lost, 5);
	assert_int_equal(at, 6);
	assert_int_equal(lost, 5);
	for (unsigned i = 6; i < SLOTS + 5; i++)
		assert_read(table, &at, &lost, i);
	assert_int_equal(lost, 5);
	table_drop(table);
}

/* A reader that was ahead of the ring, because the table was replaced by a new one. */
static void reader_after_the_end(void **unused)
{
	struct weir_table *table = ring_open();
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	uint64_t at = 99, lost = 0;

	(void)unused;
	append(table, 0);
	assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
	assert_int_equal(at, 1);
	append(table, 1);
	assert_read(table, &at, &lost, 1);
	assert_int_equal(lost, 0);
	table_drop(table);
}

/* The writer of order 0 was killed: before it wrote the head, or before it wrote all words. The
 * reader waits for 19 calls and goes on with the 20th. */
static void killed_writer(void **unused)
{
	for (int with_head = 0; with_head < 2; with_head++) {
		struct weir_table *table = ring_open();
		uint64_t *words = wr_section(table, WR_SECTION_BAN_ORDERS);
		uint8_t bytes[WR_BAN_ORDER_BYTES];
		uint64_t at = 0, lost = 0;

		append(table, 0);
		append(table, 1);
		memset(words + 8, 0, with_head ? 0 : 16);
		words[10] = 0; /* first word of order 0 */
		for (unsigned i = 1; i < WR_BAN_ORDER_PATIENCE; i++)
			assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
		assert_int_equal(at, 0);
		assert_read(table, &at, &lost, 1);
		assert_int_equal(lost, 1);
		table_drop(table);
	}
	(void)unused;
}

/* A resize keeps the orders that were not published yet, with their numbers. */
static void carried_over(void **unused)
{
	struct weir_table *table = ring_open(), *larger;
	struct weir_opts opts = opts_of("ring", MIB, 0);
	uint64_t at, lost = 0;

	(void)unused;
	for (unsigned i = 0; i < SLOTS + 2; i++)
		append(table, i);
	wr_ban_orders_set_published(table, 4);
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	weir_close(table);
	larger = table_open("ring", MIB, 0);
	assert_int_equal(wr_ban_orders_published(larger), 4);
	assert_int_equal(wr_ban_order_end(larger), SLOTS + 2);
	at = 4;
	for (unsigned i = 4; i < SLOTS + 2; i++)
		assert_read(larger, &at, &lost, i);
	assert_int_equal(lost, 0);
	append(larger, 20);
	assert_read(larger, &at, &lost, 20);
	assert_int_equal(at, SLOTS + 3);
	table_drop(larger);
}

/* Orders that were overwritten before the copy are lost. A number of published orders that is too
 * high, as in a damaged table, is that of the end. */
static void carried_over_in_part(void **unused)
{
	struct weir_table *old = ring_open(), *fresh = table_open("fresh", 256 * KIB, 0);
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	uint64_t at = 0, lost = 0;

	(void)unused;
	for (unsigned i = 0; i < SLOTS + 2; i++)
		append(old, i);
	wr_ban_orders_import(fresh, old);
	assert_int_equal(wr_ban_orders_published(fresh), 0);
	for (unsigned i = 2; i < SLOTS + 2; i++)
		assert_read(fresh, &at, &lost, i);
	assert_int_equal(lost, 2);
	table_drop(fresh);
	fresh = table_open("fresh", 256 * KIB, 0);
	wr_ban_orders_set_published(old, UINT64_MAX);
	wr_ban_orders_import(fresh, old);
	assert_int_equal(wr_ban_orders_published(fresh), SLOTS + 2);
	assert_int_equal(wr_ban_order_read(fresh, &at, &lost, bytes), 0);
	table_drop(old);
	table_drop(fresh);
}

/* Orders of processes that still use the old table are appended when it was superseded. */
static void handed_over(void **unused)
{
	struct weir_table *old = ring_open(), *fresh = table_open("fresh", 256 * KIB, 0);
	uint64_t at = 0, lost = 0, end;

	(void)unused;
	append(old, 0);
	wr_ban_orders_import(fresh, old);
	end = wr_ban_order_end(fresh);
	append(old, 1);
	append(fresh, 2); /* by a process that uses the new table already */
	wr_ban_orders_hand_over(fresh, old, end);
	assert_read(fresh, &at, &lost, 0);
	assert_read(fresh, &at, &lost, 2);
	assert_read(fresh, &at, &lost, 1);
	assert_int_equal(lost, 0);
	assert_int_equal(at, wr_ban_order_end(fresh));
	table_drop(old);
	table_drop(fresh);
}

/* ---- the number of published orders, and the place in the stream ---- */

static struct ring_words {
	uint64_t next, published, place_ms, place_seq, place_fleet;
} * words_of(struct weir_table *table)
{
	return (struct ring_words *)wr_section(table, WR_SECTION_BAN_ORDERS);
}

static void published_only_rises(void **unused)
{
	struct weir_table *table = ring_open();

	(void)unused;
	assert_int_equal(wr_ban_orders_room(table), SLOTS);
	assert_int_equal(wr_ban_orders_published(table), 0);
	wr_ban_orders_set_published(table, 5);
	assert_int_equal(wr_ban_orders_published(table), 5);
	wr_ban_orders_set_published(table, 4);
	assert_int_equal(wr_ban_orders_published(table), 5);
	wr_ban_orders_set_published(table, 6);
	assert_int_equal(words_of(table)->published, 6);
	table_drop(table);
}

/* A damaged number lies behind the last order. A reader that begins there reads the orders that are
 * appended from then on. */
static void damaged_published(void **unused)
{
	struct weir_table *table = ring_open();
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	uint64_t at, lost = 0;

	(void)unused;
	append(table, 0);
	words_of(table)->published = UINT64_MAX;
	at = wr_ban_orders_published(table);
	assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
	assert_int_equal(at, 1);
	append(table, 1);
	assert_read(table, &at, &lost, 1);
	assert_int_equal(lost, 0);
	/* A damaged number of the next order: the missing orders count as lost, within one call for each
	 * order of the ring. */
	words_of(table)->next = UINT64_MAX - 1;
	for (unsigned i = 0; i <= SLOTS * WR_BAN_ORDER_PATIENCE && at < UINT64_MAX - 1; i++)
		assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
	assert_true(at == UINT64_MAX - 1);
	assert_true(lost == UINT64_MAX - 3);
	table_drop(table);
}

static void place_is_kept(void **unused)
{
	struct wr_ban_place place = {.fleet = 7, .ms = 1794787200123, .seq = 4};
	struct weir_table *table = ring_open();

	(void)unused;
	assert_int_equal(wr_ban_place_read(table).fleet, 0);
	wr_ban_place_write(table, place);
	place = wr_ban_place_read(table);
	assert_int_equal(place.fleet, 7);
	assert_int_equal(place.ms, 1794787200123);
	assert_int_equal(place.seq, 4);
	/* The service was killed while it wrote the place. */
	words_of(table)->place_fleet = 0;
	assert_int_equal(wr_ban_place_read(table).fleet, 0);
	table_drop(table);
}

static void no_section(void **unused)
{
	static const uint64_t sizes[] = {0, 8, 64, 575};
	struct weir_table *table = ring_open();
	uint8_t bytes[WR_BAN_ORDER_BYTES] = {1};
	uint64_t at, lost = 0;

	(void)unused;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		table->header.sections[WR_SECTION_BAN_ORDERS].bytes = sizes[i];
		at = 5;
		assert_false(wr_ban_order_append(table, bytes, 8));
		assert_int_equal(wr_ban_order_end(table), 0);
		assert_int_equal(wr_ban_order_read(table, &at, &lost, bytes), 0);
		assert_int_equal(wr_ban_orders_room(table), 0);
		wr_ban_orders_set_published(table, 3);
		assert_int_equal(wr_ban_orders_published(table), 0);
		wr_ban_place_write(table, (struct wr_ban_place){1, 2, 3});
		assert_int_equal(wr_ban_place_read(table).fleet, 0);
	}
	assert_int_equal(lost, 0);
	table_drop(table);
}

static void random_bytes(void **unused)
{
	struct weir_table *table = ring_open();
	uint64_t *words = wr_section(table, WR_SECTION_BAN_ORDERS), seed = 1;
	size_t count = table->header.sections[WR_SECTION_BAN_ORDERS].bytes / 8;
	uint8_t bytes[WR_BAN_ORDER_BYTES] = {1};
	uint64_t at = 0, lost = 0;

	(void)unused;
	for (size_t i = 0; i < count; i++, seed++)
		words[i] = XXH3_64bits(&seed, sizeof seed);
	for (unsigned i = 0; i < 500; i++) {
		assert_true(wr_ban_order_read(table, &at, &lost, bytes) <= sizeof bytes);
		assert_true(wr_ban_order_append(table, bytes, 8));
	}
	table_drop(table);
}

struct writer {
	struct weir_table *table;
	unsigned number;
	uint32_t *rounds; /* shared memory: rounds of the writer to be killed; NULL for others */
};

#define ROUNDS 5000u

/* Appends orders of 64 equal bytes, which tell the writer. */
static int append_many(void *arg)
{
	const struct writer *writer = arg;
	uint8_t bytes[64];

	memset(bytes, (int)writer->number + 1, sizeof bytes);
	for (uint32_t i = 1; writer->rounds || i <= ROUNDS; i++) {
		CHILD_CHECK(wr_ban_order_append(writer->table, bytes, sizeof bytes));
		if (writer->rounds)
			__atomic_store_n(writer->rounds, i, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Every order that is read is whole, and the numbers of read and lost orders add up. */
static void several_processes(void **unused)
{
	struct weir_table *table = ring_open();
	uint32_t *rounds = shared_memory(sizeof *rounds);
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	uint64_t at = 0, lost = 0, read = 0;
	struct writer writers[3];
	pid_t pids[3];
	size_t len;

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		writers[i] = (struct writer){table, i, i == 2 ? rounds : NULL};
		pids[i] = spawn(append_many, &writers[i]);
	}
	while (__atomic_load_n(rounds, __ATOMIC_RELAXED) < 1000 ||
	       wr_ban_order_end(table) < 2 * ROUNDS) {
		len = wr_ban_order_read(table, &at, &lost, bytes);
		if (len == 0) {
			sched_yield();
			continue;
		}
		assert_int_equal(len, 64);
		for (size_t i = 1; i < len; i++)
			assert_int_equal(bytes[i], bytes[0]);
		read++;
	}
	kill(pids[2], SIGKILL);
	assert_int_equal(reap(pids[2]), 256 + SIGKILL);
	assert_int_equal(reap(pids[0]), 0);
	assert_int_equal(reap(pids[1]), 0);
	for (unsigned i = 0; i < 2 * WR_BAN_ORDER_PATIENCE * SLOTS; i++)
		read += wr_ban_order_read(table, &at, &lost, bytes) != 0;
	assert_int_equal(at, wr_ban_order_end(table));
	assert_int_equal(read + lost, at);
	shared_free(rounds, sizeof *rounds);
	append(table, 9);
	assert_read(table, &at, &lost, 9);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appended_and_read),    cmocka_unit_test(overwritten),
		cmocka_unit_test(reader_after_the_end), cmocka_unit_test(killed_writer),
		cmocka_unit_test(carried_over),         cmocka_unit_test(carried_over_in_part),
		cmocka_unit_test(handed_over),          cmocka_unit_test(published_only_rises),
		cmocka_unit_test(damaged_published),    cmocka_unit_test(place_is_kept),
		cmocka_unit_test(no_section),           cmocka_unit_test(random_bytes),
		cmocka_unit_test(several_processes),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
