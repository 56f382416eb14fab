/* Compares the searches of reader_scan.h with loops that look at one byte after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "limiter/reader_scan.c"

#define LENGTH_MAX 600
#define ROUNDS 20000

static unsigned seed = 1;

static size_t below(size_t n)
{
	return (size_t)rand_r(&seed) % n;
}

/* Allocates exactly `len` bytes, so that AddressSanitizer finds a read beyond them. About one of `rarity` bytes is a letter from "abt", the others are dots. */
static char *random_bytes(size_t len, size_t rarity)
{
	char *bytes = malloc(len ? len : 1);

	for (size_t i = 0; i < len; i++)
		bytes[i] = below(rarity) == 0 ? "abt"[below(3)] : '.';
	return bytes;
}

static size_t first_either(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] == 'a' || bytes[i] == 'b')
			return i;
	return len;
}

static void find_either_finds_the_first(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = below(LENGTH_MAX);
		char *bytes = random_bytes(len, 1 + below(1000));
		const char *found = wr_reader_find_either(bytes, bytes + len, 'a', 'b');

		assert_int_equal(found - bytes, first_either(bytes, len));
		free(bytes);
	}
	(void)state;
}

/* The AVX2 and the SSE2 variant skip the same blocks: all blocks before the first hit. */
static void blocks_without_either(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = below(LENGTH_MAX);
		char *bytes = random_bytes(len, 1 + below(1000)), *end = bytes + len;
		size_t expected = first_either(bytes, len) / WR_READER_BLOCK * WR_READER_BLOCK;

		assert_int_equal(pass_either(bytes, end, 'a', 'b') - bytes, expected);
		assert_int_equal(wr_reader_pass_either(bytes, end, 'a', 'b') - bytes, expected);
		free(bytes);
	}
	(void)state;
}

static size_t first_text(const char *bytes, size_t len, struct weir_str text)
{
	for (size_t i = 0; i + text.len <= len; i++)
		if (memcmp(bytes + i, text.ptr, text.len) == 0)
			return i;
	return len;
}

static void find_text_finds_the_first(void **state)
{
	static const char *const texts[] = {"a", "ab", "a.b", "tab",
					    "a..............................b"};

	for (int round = 0; round < ROUNDS; round++) {
		const char *chosen = texts[below(sizeof texts / sizeof *texts)];
		struct weir_str text = {chosen, strlen(chosen)};
		size_t len = text.len + below(LENGTH_MAX);
		char *bytes = random_bytes(len, 1 + below(300));
		const char *found;

		if (below(2))
			memcpy(bytes + below(len - text.len + 1), text.ptr, text.len);
		found = wr_reader_find_text(bytes, bytes + len, text);
		assert_int_equal(found - bytes, first_text(bytes, len, text));
		free(bytes);
	}
	(void)state;
}

/* Both variants skip the blocks before the first position that has both bytes. */
static void blocks_without_ends(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		size_t distance = below(40), len = below(LENGTH_MAX), hit = 0, blocks;
		char *bytes = random_bytes(len, 1 + below(300)), *end = bytes + len;

		blocks = len < distance ? 0 : (len - distance) / WR_READER_BLOCK;
		while (hit + distance < len && (bytes[hit] != 'a' || bytes[hit + distance] != 'b'))
			hit++;
		if (hit / WR_READER_BLOCK < blocks)
			blocks = hit / WR_READER_BLOCK;
		assert_int_equal(pass_ends(bytes, end, distance, 'a', 'b') - bytes,
				 blocks * WR_READER_BLOCK);
		assert_int_equal(wr_reader_pass_ends(bytes, end, distance, 'a', 'b') - bytes,
				 blocks * WR_READER_BLOCK);
		free(bytes);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find_either_finds_the_first),
		cmocka_unit_test(blocks_without_either),
		cmocka_unit_test(find_text_finds_the_first),
		cmocka_unit_test(blocks_without_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
