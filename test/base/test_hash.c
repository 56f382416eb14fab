/* A tag depends on every bit of the secret, the key and the identity. Tags are stored in files, so a
 * test compares tags with fixed values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

static uint8_t secret[WR_SECRET_BYTES];

static int fill_secret(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < sizeof secret; i++)
		secret[i] = (uint8_t)(i * 167 + 13);
	return 0;
}

static uint64_t tag(const void *bytes, size_t len, uint64_t identity)
{
	return wr_hash_key(secret, bytes, len, identity).tag;
}

static void a_tag_never_changes(void **unused)
{
	(void)unused;
	assert_int_equal(tag("user 7", 6, 1), tag("user 7 and more", 6, 1));
	assert_int_equal(tag("user 7", 6, 1), 0x8d7f22619fc62b6e);
	assert_int_equal(tag("", 0, 0), tag(NULL, 0, 0));
}

/* XXH3 uses other steps for longer keys. The lengths are just below and above the changes. */
static void every_bit_of_a_key_counts(void **unused)
{
	static const size_t lengths[] = {1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 65536};
	static uint8_t key[65536];

	(void)unused;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t len = lengths[i];
		uint64_t before = tag(key, len, 5);

		for (size_t at = 0; at < len; at += len / 16 + 1)
			for (int bit = 0; bit < 8; bit++) {
				key[at] ^= (uint8_t)(1 << bit);
				assert_int_not_equal(tag(key, len, 5), before);
				key[at] ^= (uint8_t)(1 << bit);
			}
		assert_int_not_equal(tag(key, len - 1, 5), before);
	}
}

static void identities_keep_counters_apart(void **unused)
{
	(void)unused;
	for (int bit = 0; bit < 64; bit++)
		assert_int_not_equal(tag("k", 1, 1ull << bit), tag("k", 1, 0));
}

static void secrets_keep_tables_apart(void **unused)
{
	static const char text[] = "a key of more than sixteen bytes, so that all ways are used";
	uint64_t small = tag("key", 3, 0), large = tag(text, sizeof text, 0);
	int changed = 0;

	(void)unused;
	for (unsigned i = 0; i < sizeof secret; i++) {
		secret[i] ^= 0x40;
		changed += tag("key", 3, 0) != small || tag(text, sizeof text, 0) != large;
		secret[i] ^= 0x40;
	}
	assert_true(changed > 32);
	assert_int_equal(tag("key", 3, 0), small);
}

/* Each bit is set in about half of all tags. Rows and home cells are chosen by bits of the tag. */
static void each_bit_is_set_in_half_of_the_tags(void **unused)
{
	int ones[64] = {0};

	(void)unused;
	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t t = tag(&i, sizeof i, 1);

		for (int bit = 0; bit < 64; bit++)
			ones[bit] += t >> bit & 1;
	}
	for (int bit = 0; bit < 64; bit++)
		assert_in_range(ones[bit], 9600, 10400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tag_never_changes),
		cmocka_unit_test(every_bit_of_a_key_counts),
		cmocka_unit_test(identities_keep_counters_apart),
		cmocka_unit_test(secrets_keep_tables_apart),
		cmocka_unit_test(each_bit_is_set_in_half_of_the_tags),
	};

	return cmocka_run_group_tests(tests, fill_secret, NULL);
}
