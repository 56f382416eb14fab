/* Digests, compared with those of Python's hashlib.blake2s(bytes, digest_size=16). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/blake.h"

/* Digests of the first `len` bytes of the sequence 0, 1, 2 … 250, 0, 1 … */
static const struct {
	size_t len;
	const char *digest;
} known[] = {
	{0, "64550d6ffe2c0a01a14aba1eade0200c"},
	{64, "dc66ca8f03865801b0ffe06ed8a1a90e"},
	{65, "399d3e92ccfcedcdde9bf4c2be14cf8c"},
	{1000, "f308bf57110a2e5f3c81a0ef22925035"},
};

static void digest_in_steps(const void *bytes, size_t len, size_t step,
			    char text[2 * WR_BLAKE_BYTES + 1])
{
	uint8_t digest[WR_BLAKE_BYTES];
	struct wr_blake blake;

	wr_blake_begin(&blake);
	for (size_t at = 0; at < len; at += step)
		wr_blake_feed(&blake, (const char *)bytes + at, len - at < step ? len - at : step);
	wr_blake_end(&blake, digest);
	for (unsigned i = 0; i < sizeof digest; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void gives_known_digests(void **state)
{
	char text[2 * WR_BLAKE_BYTES + 1];
	uint8_t bytes[1000];

	(void)state;
	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i % 251);
	digest_in_steps("abc", 3, 3, text);
	assert_string_equal(text, "aa4938119b1dc7b87cbad0ffd200d0ae");
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		for (size_t step = 1; step <= 130; step++) {
			digest_in_steps(bytes, known[i].len, step, text);
			assert_string_equal(text, known[i].digest);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(gives_known_digests)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
