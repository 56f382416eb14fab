/* Output buffers: growth, moving within a block, reuse of blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/output.h"

static void append(struct wr_output *buffer, struct wr_output_blocks *blocks, size_t len,
		   uint8_t fill)
{
	uint8_t *room = wr_output_room(buffer, blocks, len);

	assert_non_null(room);
	memset(room, fill, len);
	buffer->tail += len;
}

static void test_empty_buffer_has_no_memory(void **state)
{
	struct wr_output_blocks blocks = {0};
	struct wr_output buffer = {0};

	(void)state;
	append(&buffer, &blocks, 100, 1);
	assert_int_equal(buffer.cap, WR_OUTPUT_BLOCK_BYTES);
	wr_output_eat(&buffer, &blocks, 99);
	assert_int_equal(wr_output_len(&buffer), 1);
	wr_output_eat(&buffer, &blocks, 1);
	assert_null(buffer.base);
	assert_int_equal(blocks.count, 1);
	append(&buffer, &blocks, 1, 2);
	assert_int_equal(blocks.count, 0);
	wr_output_free(&buffer, &blocks);
	wr_output_blocks_free(&blocks);
}

static void test_growing_keeps_the_bytes(void **state)
{
	struct wr_output_blocks blocks = {0};
	struct wr_output buffer = {0};

	(void)state;
	append(&buffer, &blocks, WR_OUTPUT_BLOCK_BYTES - 1, 1);
	wr_output_eat(&buffer, &blocks, 10);
	append(&buffer, &blocks, 2, 2);
	assert_int_equal(buffer.cap, WR_OUTPUT_BLOCK_BYTES);
	assert_int_equal(wr_output_len(&buffer), WR_OUTPUT_BLOCK_BYTES - 9);
	assert_int_equal(wr_output_bytes(&buffer)[0], 1);
	assert_int_equal(wr_output_bytes(&buffer)[WR_OUTPUT_BLOCK_BYTES - 12], 1);
	assert_int_equal(wr_output_bytes(&buffer)[WR_OUTPUT_BLOCK_BYTES - 11], 2);
	append(&buffer, &blocks, 100000, 3);
	assert_int_equal(buffer.cap, 8 * WR_OUTPUT_BLOCK_BYTES);
	assert_int_equal(wr_output_bytes(&buffer)[WR_OUTPUT_BLOCK_BYTES - 10], 2);
	wr_output_free(&buffer, &blocks);
	assert_int_equal(blocks.count, 2); /* the list keeps no blocks of other sizes */
	wr_output_blocks_free(&blocks);
}

/* The room of removed bytes is used again before the buffer grows. */
static void test_bytes_move_to_the_front(void **state)
{
	struct wr_output_blocks blocks = {0};
	struct wr_output buffer = {0};

	(void)state;
	append(&buffer, &blocks, WR_OUTPUT_BLOCK_BYTES, 1);
	append(&buffer, &blocks, 1, 7); /* doubles the buffer */
	wr_output_eat(&buffer, &blocks, WR_OUTPUT_BLOCK_BYTES);
	append(&buffer, &blocks, WR_OUTPUT_BLOCK_BYTES - 1, 2);
	assert_int_equal(buffer.cap, 2 * WR_OUTPUT_BLOCK_BYTES);
	append(&buffer, &blocks, 1, 3);
	assert_int_equal(buffer.cap, 2 * WR_OUTPUT_BLOCK_BYTES);
	assert_int_equal(buffer.head, 0);
	assert_int_equal(wr_output_bytes(&buffer)[0], 7);
	wr_output_eat(&buffer, &blocks, 1);
	append(&buffer, &blocks, 2 * WR_OUTPUT_BLOCK_BYTES, 4);
	wr_output_eat(&buffer, &blocks, 3 * WR_OUTPUT_BLOCK_BYTES - 1);
	append(&buffer, &blocks, WR_OUTPUT_BLOCK_BYTES + 100, 5);
	assert_int_equal(buffer.cap, 4 * WR_OUTPUT_BLOCK_BYTES);
	assert_int_equal(buffer.head, 0);
	assert_int_equal(wr_output_bytes(&buffer)[0], 4);
	assert_int_equal(wr_output_bytes(&buffer)[1], 5);
	wr_output_free(&buffer, &blocks);
	wr_output_blocks_free(&blocks);
}

static void test_number_of_free_blocks_is_limited(void **state)
{
	struct wr_output_blocks blocks = {0};

	(void)state;
	for (unsigned i = 0; i < WR_OUTPUT_BLOCKS_MAX + 5; i++)
		wr_output_block_give(&blocks, malloc(WR_OUTPUT_BLOCK_BYTES));
	assert_int_equal(blocks.count, WR_OUTPUT_BLOCKS_MAX);
	wr_output_blocks_free(&blocks);
	assert_int_equal(blocks.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_buffer_has_no_memory),
		cmocka_unit_test(test_growing_keeps_the_bytes),
		cmocka_unit_test(test_bytes_move_to_the_front),
		cmocka_unit_test(test_number_of_free_blocks_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
