/* The sizes of a table's sections, without a file: every table that can be created can be opened
 * again. */
#include "table/table_test.h"

#include "table/file.c"

#define GIB (1024 * MIB)

static int lay_out_of(uint64_t memory, uint64_t log, struct wr_header *header)
{
	struct wr_file_plan plan = {.memory_bytes = memory, .log_bytes = log, .now_ns = T0};

	*header = (struct wr_header){0};
	return lay_out(&plan, header, NULL);
}

static void assert_opens(struct wr_header *header)
{
	struct weir_error error = {0};

	header->checksum = header_checksum(header);
	if (check_header(header, "x", false, header->file_bytes, &error) != 0)
		fail_msg("%llu bytes of memory: %s", (unsigned long long)header->memory_bytes,
			 error.text);
}

static void every_size_that_is_made_is_opened(void **unused)
{
	struct rnd r = {rnd_seed()};
	struct wr_header header;
	unsigned made = 0;

	(void)unused;
	for (int i = 0; i < 200000; i++) {
		uint64_t memory = rnd(&r) >> (24 + rnd_below(&r, 24));
		uint64_t log = rnd_below(&r, 2) ? 0 : rnd_below(&r, memory + 1);

		if (lay_out_of(memory, log, &header) != 0)
			continue;
		assert_opens(&header);
		made++;
	}
	assert_true(made > 50000);
}

/* A block stores the number of its cell in 31 bits, so a table has at most 2^27 - 1 rows. */
static void the_largest_table_has_one_row_less_than_64_gib(void **unused)
{
	uint64_t most = 64 * GIB - sizeof(struct wr_row);
	struct wr_header header;

	(void)unused;
	assert_int_equal(lay_out_of(most + 192 * MIB, 192 * MIB, &header), 0);
	assert_int_equal(header.sections[WR_SECTION_KEYS].bytes, most);
	assert_opens(&header);
	assert_int_equal(lay_out_of(64 * GIB + 192 * MIB, 192 * MIB, &header), WEIR_EINVAL);
	/* By default a sixteenth of the memory is for logs. */
	assert_int_equal(lay_out_of(68 * GIB, 0, &header), 0);
	assert_opens(&header);
	assert_int_equal(lay_out_of(69 * GIB, 0, &header), WEIR_EINVAL);
}

/* A cell stores the number of its block in 32 bits. */
static void the_largest_slab_has_names_for_all_blocks(void **unused)
{
	struct wr_header header;
	struct wr_extent slab;

	(void)unused;
	assert_int_equal(lay_out_of(255 * GIB, 191 * GIB + MIB, &header), 0);
	assert_opens(&header);
	slab = header.sections[WR_SECTION_SLAB];
	assert_true(slab.bytes / WR_BLOCK_MIN < 1ull << 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_that_is_made_is_opened),
		cmocka_unit_test(the_largest_table_has_one_row_less_than_64_gib),
		cmocka_unit_test(the_largest_slab_has_names_for_all_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
