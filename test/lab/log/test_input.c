/* Plain and compressed files, several compressed parts in a file, and damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lzma.h>
#include <zstd.h>

#include <cmocka.h>

#include "lab/log/input.h"
#include "lab/log/unpack.h"
#include "lab/log/log_test.h"

#define TEXT_BYTES 300000u
#define PACKED_BYTES 400000u

static char text[TEXT_BYTES];

/* A text that compresses to about a quarter. */
static int fill_text(void **state)
{
	uint32_t seed = 1;

	for (size_t i = 0; i < TEXT_BYTES; i++) {
		seed = seed * 1664525 + 1013904223;
		text[i] = (char)(i % 100 == 99 ? '\n' : 'a' + (seed >> 24) % 4);
	}
	return test_folder_make(state);
}

/* ---- compression ---- */

static size_t pack_gzip(const char *from, size_t len, uint8_t *to)
{
	return test_gzip(from, len, to, PACKED_BYTES);
}

static size_t pack_xz(const char *from, size_t len, uint8_t *to)
{
	size_t used = 0;

	assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, (const uint8_t *)from,
						 len, to, &used, PACKED_BYTES),
			 LZMA_OK);
	return used;
}

static size_t pack_zstd(const char *from, size_t len, uint8_t *to)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t used;

	assert_non_null(context);
	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
	used = ZSTD_compress2(context, to, PACKED_BYTES, from, len);
	assert_false(ZSTD_isError(used));
	ZSTD_freeCCtx(context);
	return used;
}

static const struct packer {
	const char *name;
	enum wr_lab_packing packing;
	size_t (*pack)(const char *from, size_t len, uint8_t *to);
	const char *damage;
} packers[] = {{"gzip", WR_LAB_GZIP, pack_gzip, "its gzip data is damaged"},
	       {"xz", WR_LAB_XZ, pack_xz, "its xz data is damaged"},
	       {"zstd", WR_LAB_ZSTD, pack_zstd, "its zstd data is damaged"}};

#define PACKERS (sizeof packers / sizeof *packers)

/* ---- reading ---- */

/* Reads a file in pieces of `piece` bytes. Returns the number of bytes. Every byte is asserted. */
static size_t read_all(const char *path, size_t piece, bool peek, char damage[128])
{
	struct weir_error error = {.text = ""};
	struct wr_lab_input *input;
	char *bytes = malloc(piece);
	size_t total = 0, got, len;

	assert_non_null(bytes);
	if (wr_lab_input_open(path, &input, &error) != 0)
		fail_msg("%s", error.text);
	if (peek) {
		assert_memory_equal(wr_lab_input_peek(input, &len), text, 1);
		assert_true(len <= WR_LAB_PEEK_BYTES);
	}
	while ((got = wr_lab_input_read(input, bytes, piece)) > 0) {
		assert_true(got <= piece);
		assert_true(total + got <= 2 * TEXT_BYTES);
		for (size_t i = 0; i < got; i++)
			if (bytes[i] != text[(total + i) % TEXT_BYTES])
				fail_msg("byte %zu is wrong", total + i);
		total += got;
	}
	assert_int_equal(wr_lab_input_read(input, bytes, piece), 0);
	snprintf(damage, 128, "%s", wr_lab_input_damage(input) ? wr_lab_input_damage(input) : "");
	wr_lab_input_close(input);
	free(bytes);
	return total;
}

static void plain_file_is_read(void **state)
{
	const char *path = test_file("plain", text, TEXT_BYTES);
	char damage[128];

	for (size_t piece = 1000; piece < 10000000; piece *= 10) {
		assert_int_equal(read_all(path, piece, false, damage), TEXT_BYTES);
		assert_int_equal(read_all(path, piece, true, damage), TEXT_BYTES);
		assert_string_equal(damage, "");
	}
	(void)state;
}

static void compressed_files_are_read(void **state)
{
	uint8_t *packed = malloc(PACKED_BYTES);
	char damage[128];

	assert_non_null(packed);
	for (size_t i = 0; i < PACKERS; i++) {
		size_t len = packers[i].pack(text, TEXT_BYTES, packed);
		/* the name of the file does not matter */
		const char *path = test_file("x.txt", packed, len);

		assert_int_equal(wr_lab_packing_of(packed, len), packers[i].packing);
		assert_true(len < TEXT_BYTES / 2);
		for (size_t piece = 1000; piece < 10000000; piece *= 10) {
			assert_int_equal(read_all(path, piece, false, damage), TEXT_BYTES);
			assert_int_equal(read_all(path, piece, true, damage), TEXT_BYTES);
			assert_string_equal(damage, "");
		}
	}
	free(packed);
	(void)state;
}

/* As `cat a.gz b.gz` makes them. An empty part is in the middle. */
static void several_parts_are_read(void **state)
{
	uint8_t *packed = malloc(3 * PACKED_BYTES);
	char damage[128];

	assert_non_null(packed);
	for (size_t i = 0; i < PACKERS; i++) {
		size_t len = packers[i].pack(text, TEXT_BYTES, packed);

		len += packers[i].pack(text, 0, packed + len);
		len += packers[i].pack(text, TEXT_BYTES, packed + len);
		assert_int_equal(read_all(test_file("x", packed, len), 4096, false, damage),
				 2 * TEXT_BYTES);
		assert_string_equal(damage, "");
	}
	free(packed);
	(void)state;
}

/* Cut at every 1,000th byte, and within the first and the last bytes. */
static void cut_files_are_read_up_to_the_cut(void **state)
{
	uint8_t *packed = malloc(PACKED_BYTES);
	size_t before;
	char damage[128];

	assert_non_null(packed);
	for (size_t i = 0; i < PACKERS; i++) {
		size_t len = packers[i].pack(text, TEXT_BYTES, packed);

		before = 0;
		for (size_t cut = 8; cut < len; cut += cut < 20 || cut + 1010 > len ? 1 : 1000) {
			size_t got = read_all(test_file("x", packed, cut), 65536, false, damage);

			if (strcmp(damage, "the file is cut off") != 0)
				fail_msg("%s cut at %zu of %zu: %s", packers[i].name, cut, len,
					 damage);
			assert_true(got >= before && got <= TEXT_BYTES);
			before = got;
		}
		assert_true(before > TEXT_BYTES / 2);
	}
	free(packed);
	(void)state;
}

static void damaged_files_are_read_up_to_the_damage(void **state)
{
	uint8_t *packed = malloc(PACKED_BYTES);

	assert_non_null(packed);
	for (size_t i = 0; i < PACKERS; i++) {
		struct weir_error error;
		struct wr_lab_input *input;
		char bytes[4096];
		size_t len = packers[i].pack(text, TEXT_BYTES, packed), total = 0, got;

		/* the bytes around the damage may be wrong, so read_all() cannot be used */
		memset(packed + len / 2, 0xff, 16);
		assert_int_equal(wr_lab_input_open(test_file("x", packed, len), &input, &error), 0);
		while ((got = wr_lab_input_read(input, bytes, sizeof bytes)) > 0)
			total += got;
		assert_string_equal(wr_lab_input_damage(input), packers[i].damage);
		assert_true(total > 0);
		wr_lab_input_close(input);
	}
	free(packed);
	(void)state;
}

static void zeros_behind_gzip_are_ignored(void **state)
{
	uint8_t *packed = calloc(1, PACKED_BYTES);
	char damage[128];
	size_t len;

	assert_non_null(packed);
	len = pack_gzip(text, TEXT_BYTES, packed);
	assert_int_equal(read_all(test_file("x", packed, len + 1000), 65536, false, damage),
			 TEXT_BYTES);
	assert_string_equal(damage, "");
	packed[len + 500] = 'x';
	assert_int_equal(read_all(test_file("x", packed, len + 1000), 65536, false, damage),
			 TEXT_BYTES);
	assert_string_equal(damage, "the bytes behind its compressed part are not gzip");
	free(packed);
	(void)state;
}

static void short_and_empty_files_are_plain(void **state)
{
	static const char *const starts[] = {"", "\x1f", "\x1f\x8b", "\xfd\x37zX", "\x28\xb5"};

	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		struct weir_error error;
		struct wr_lab_input *input;
		char bytes[16];

		assert_int_equal(wr_lab_input_open(test_text_file("x", starts[i]), &input, &error),
				 0);
		assert_int_equal(wr_lab_input_read(input, bytes, sizeof bytes), strlen(starts[i]));
		assert_null(wr_lab_input_damage(input));
		wr_lab_input_close(input);
	}
	(void)state;
}

static void missing_file_is_an_error(void **state)
{
	struct weir_error error;
	struct wr_lab_input *input;

	assert_int_equal(wr_lab_input_open("/nonexistent/a.log", &input, &error), WEIR_ESYS);
	assert_string_equal(error.text,
			    "cannot read /nonexistent/a.log: No such file or directory");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_file_is_read),
		cmocka_unit_test(compressed_files_are_read),
		cmocka_unit_test(several_parts_are_read),
		cmocka_unit_test(cut_files_are_read_up_to_the_cut),
		cmocka_unit_test(damaged_files_are_read_up_to_the_damage),
		cmocka_unit_test(zeros_behind_gzip_are_ignored),
		cmocka_unit_test(short_and_empty_files_are_plain),
		cmocka_unit_test(missing_file_is_an_error),
	};

	return cmocka_run_group_tests(tests, fill_text, test_folder_remove);
}
