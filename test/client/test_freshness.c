/* The rules of the cache: what can be stored, and for how long it is fresh. Blocks of fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/freshness.h"

#define BLOCK(text) ((struct weir_str){text, sizeof(text) - 1})
#define NOW 1790000000ull /* 2026-09-21 14:13:20 UTC */

/* "name\0value\0…": the literal ends with \0 after the last value. */
#define DATE "Date\0Mon, 21 Sep 2026 14:13:20 GMT\0"

static void fields_are_read(void **state)
{
	struct weir_str block = BLOCK("A\0one\0b\0\0A\0two\0"), rest = block, name, value;

	assert_true(wr_fetch_fields_valid(block));
	assert_true(wr_fetch_fields_next(&rest, &name, &value));
	assert_memory_equal(value.ptr, "one", 3);
	assert_true(wr_fetch_fields_next(&rest, &name, &value));
	assert_int_equal(value.len, 0);
	assert_true(wr_fetch_fields_next(&rest, &name, &value));
	assert_false(wr_fetch_fields_next(&rest, &name, &value));
	assert_true(wr_fetch_fields_get(block, WR_STR("a"), &value));
	assert_memory_equal(value.ptr, "one", 3);
	assert_false(wr_fetch_fields_get(block, WR_STR("c"), &value));
	assert_true(wr_fetch_fields_valid(BLOCK("")));
	assert_false(wr_fetch_fields_valid(BLOCK("A\0one")));
	assert_false(wr_fetch_fields_valid(BLOCK("A\0one\0b\0")));
	(void)state;
}

static void a_304_replaces_fields(void **state)
{
	static const char expected[] = "ETag\0\"1\"\0Content-Length\0"
				       "5\0X\0b\0Y\0c\0";
	struct wr_buf block;

	wr_buf_init(&block, 1000);
	wr_fetch_fields_update(BLOCK("ETag\0\"1\"\0X\0a\0Content-Length\0"
				     "5\0X\0aa\0"),
			       BLOCK("X\0b\0Content-Length\0"
				     "0\0Y\0c\0"),
			       &block);
	assert_int_equal(block.len, sizeof expected - 1);
	assert_memory_equal(block.ptr, expected, sizeof expected - 1);
	wr_buf_free(&block);
	(void)state;
}

/* Returns the length that the fields tell, or -1 if they are not valid. */
static int64_t length_of(struct weir_str block)
{
	uint64_t length;

	if (!wr_fetch_fields_length(block, &length))
		return -1;
	return length == WR_FETCH_LENGTH_NONE ? -2 : (int64_t)length;
}

static void lengths_are_read(void **state)
{
	assert_int_equal(length_of(BLOCK("A\0b\0")), -2);
	assert_int_equal(length_of(BLOCK("Content-Length\0005\0")), 5);
	assert_int_equal(length_of(BLOCK("Content-Length\0000\0")), 0);
	assert_int_equal(length_of(BLOCK("Content-Length\0005, 05\0content-length\0005\0")), 5);
	assert_int_equal(length_of(BLOCK("Content-Length\0005\0Content-Length\0003\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\0005, 3\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\0005,\0")), 5);
	assert_int_equal(length_of(BLOCK("Content-Length\000,5\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\000-5\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\0005x\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\0\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\0009223372036854775807\0")), INT64_MAX);
	assert_int_equal(length_of(BLOCK("Content-Length\0009223372036854775808\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\00099999999999999999999999999\0")), -1);
	assert_int_equal(length_of(BLOCK("Content-Length\0003\0Transfer-Encoding\0gzip, "
					 "Chunked\0Content-Length\0005\0")),
			 -2);
	(void)state;
}

static void names_and_values_are_checked(void **state)
{
	assert_true(wr_fetch_is_token(WR_STR("X-Name")));
	assert_false(wr_fetch_is_token(WR_STR("")));
	assert_false(wr_fetch_is_token(WR_STR("a b")));
	assert_false(wr_fetch_is_token(WR_STR("a:")));
	assert_false(wr_fetch_is_token(WR_STR("a\0b")));
	assert_true(wr_fetch_is_value(WR_STR("a\tb \xff")));
	assert_false(wr_fetch_is_value(WR_STR("a\nb")));
	assert_false(wr_fetch_is_value(WR_STR("a\rb")));
	assert_false(wr_fetch_is_value(WR_STR("a\0b")));
	assert_false(wr_fetch_is_value(WR_STR("a\x7f")));
	(void)state;
}

static void directives_are_read(void **state)
{
	struct wr_fetch_directives said;

	wr_fetch_directives_read(BLOCK("cache-control\0private=\"a, no-store\" , Max-Age = 60 ,,\0"
				       "Cache-Control\0NO-CACHE, max-age=\"30\"\0"),
				 &said);
	assert_false(said.no_store);
	assert_true(said.no_cache);
	assert_int_equal(said.max_age_s, 30);
	assert_int_equal(said.min_fresh_s, WR_FETCH_AGE_NONE);
	wr_fetch_directives_read(BLOCK("Cache-Control\0max-age=-1\0"), &said);
	assert_int_equal(said.max_age_s, 0);
	wr_fetch_directives_read(BLOCK("Cache-Control\0max-age\0"), &said);
	assert_int_equal(said.max_age_s, 0);
	wr_fetch_directives_read(BLOCK("Cache-Control\0max-age=99999999999999999999999\0"), &said);
	assert_int_equal(said.max_age_s, 1ull << 31);
	wr_fetch_directives_read(BLOCK("Cache-Control\0s-maxage=60\0"), &said);
	assert_int_equal(said.max_age_s, WR_FETCH_AGE_NONE);
	(void)state;
}

static void what_can_be_stored(void **state)
{
	const struct weir_str none = BLOCK(""), aged = BLOCK("Cache-Control\0max-age=9\0");

	assert_true(wr_fetch_can_store(none, 200, aged));
	assert_true(wr_fetch_can_store(none, 200, BLOCK("ETag\0\"1\"\0")));
	assert_true(wr_fetch_can_store(none, 200, BLOCK("Last-Modified\0x\0")));
	assert_true(wr_fetch_can_store(none, 404, BLOCK("Expires\0x\0")));
	assert_true(wr_fetch_can_store(none, 301, aged));
	assert_false(wr_fetch_can_store(none, 200, none));
	assert_false(wr_fetch_can_store(none, 200, BLOCK("Cache-Control\0max-age=9, no-store\0")));
	assert_false(wr_fetch_can_store(none, 200, BLOCK("ETag\0\"1\"\0Vary\0Accept, *\0")));
	assert_true(wr_fetch_can_store(none, 200, BLOCK("ETag\0\"1\"\0Vary\0Accept\0")));
	assert_false(wr_fetch_can_store(BLOCK("Cache-Control\0no-store\0"), 200, aged));
	for (unsigned status = 400; status < 600; status++)
		assert_int_equal(wr_fetch_can_store(none, status, aged),
				 status == 404 || status == 410);
	assert_false(wr_fetch_can_store(none, 206, aged));
	assert_false(wr_fetch_can_store(none, 302, aged));
	(void)state;
}

static void what_a_304_confirms(void **state)
{
	const struct weir_str strong = BLOCK("ETag\0\"a\"\0"), weak = BLOCK("ETag\0W/\"a\"\0"),
			      other = BLOCK("ETag\0\"b\"\0"), weak_other = BLOCK("ETag\0W/\"b\"\0"),
			      dated = BLOCK("Last-Modified\0x\0"),
			      strong_dated = BLOCK("ETag\0\"a\"\0Last-Modified\0x\0"),
			      strong_later = BLOCK("ETag\0\"a\"\0Last-Modified\0y\0");

	assert_true(wr_fetch_can_confirm(strong, BLOCK("")));
	assert_true(wr_fetch_can_confirm(strong, strong));
	assert_true(wr_fetch_can_confirm(strong, weak));
	assert_true(wr_fetch_can_confirm(weak, strong));
	assert_true(wr_fetch_can_confirm(strong_dated, dated));
	assert_false(wr_fetch_can_confirm(strong, other));
	assert_false(wr_fetch_can_confirm(weak, other));
	assert_false(wr_fetch_can_confirm(weak, weak_other));
	/* Nothing is stored under an ETag. */
	assert_true(wr_fetch_can_confirm(dated, strong_dated));
	assert_false(wr_fetch_can_confirm(dated, strong_later));
	assert_false(wr_fetch_can_confirm(dated, strong));
	(void)state;
}

static struct wr_fetch_stored stored_at(uint64_t received_s, struct weir_str fields)
{
	return (struct wr_fetch_stored){received_s, received_s, fields};
}

static void lifetimes(void **state)
{
	struct wr_fetch_stored stored = stored_at(NOW, BLOCK("Cache-Control\0max-age=60\0"));

	assert_int_equal(wr_fetch_lifetime_s(&stored), 60);
	stored.fields = BLOCK(DATE "Expires\0Mon, 21 Sep 2026 14:13:50 GMT\0");
	assert_int_equal(wr_fetch_lifetime_s(&stored), 30);
	/* The clock of the server does not matter: Expires counts from its Date. */
	stored.received_s = NOW + 86400;
	assert_int_equal(wr_fetch_lifetime_s(&stored), 30);
	stored.received_s = NOW;
	stored.fields = BLOCK("Expires\0Mon, 21 Sep 2026 14:13:25 GMT\0");
	assert_int_equal(wr_fetch_lifetime_s(&stored), 5);
	stored.fields = BLOCK(DATE "Cache-Control\0max-age=7\0Expires\0"
				   "Mon, 21 Sep 2026 14:13:50 GMT\0");
	assert_int_equal(wr_fetch_lifetime_s(&stored), 7);
	stored.fields = BLOCK("Expires\0"
			      "0\0");
	assert_int_equal(wr_fetch_lifetime_s(&stored), 0);
	stored.fields = BLOCK(DATE "Expires\0Mon, 21 Sep 2026 14:13:10 GMT\0");
	assert_int_equal(wr_fetch_lifetime_s(&stored), 0);
	stored.fields = BLOCK("Last-Modified\0Mon, 21 Sep 2020 14:13:10 GMT\0");
	assert_int_equal(wr_fetch_lifetime_s(&stored), 0);
	stored.fields = BLOCK("Expires\0Fri, 31 Dec 9999 23:59:59 GMT\0"); /* read as 2500 */
	assert_int_equal(wr_fetch_lifetime_s(&stored), 16756761599 - NOW);
	(void)state;
}

static void ages(void **state)
{
	struct wr_fetch_stored stored = {NOW - 4, NOW, BLOCK(DATE)};

	assert_int_equal(wr_fetch_age_s(&stored, NOW + 10), 14); /* 4 s for the response */
	stored.fields = BLOCK("Age\0"
			      "100\0");
	assert_int_equal(wr_fetch_age_s(&stored, NOW + 10), 114);
	stored = (struct wr_fetch_stored){NOW + 50, NOW + 50, BLOCK(DATE)};
	assert_int_equal(wr_fetch_age_s(&stored, NOW + 60), 60); /* by its Date */
	assert_int_equal(wr_fetch_age_s(&stored, NOW), 50);
	(void)state;
}

static void freshness(void **state)
{
	struct wr_fetch_stored stored = stored_at(NOW, BLOCK("Cache-Control\0max-age=60\0"));
	const struct weir_str none = BLOCK("");

	assert_true(wr_fetch_is_fresh(&stored, none, NOW));
	assert_true(wr_fetch_is_fresh(&stored, none, NOW + 59));
	assert_false(wr_fetch_is_fresh(&stored, none, NOW + 60));
	assert_false(wr_fetch_is_fresh(&stored, none, NOW - 1)); /* the clock was set back */
	assert_false(wr_fetch_is_fresh(&stored, BLOCK("Cache-Control\0no-cache\0"), NOW));
	assert_true(wr_fetch_is_fresh(&stored, BLOCK("Cache-Control\0max-age=5\0"), NOW + 5));
	assert_false(wr_fetch_is_fresh(&stored, BLOCK("Cache-Control\0max-age=5\0"), NOW + 6));
	assert_false(wr_fetch_is_fresh(&stored, BLOCK("Cache-Control\0max-age=0\0"), NOW));
	assert_false(wr_fetch_is_fresh(&stored, BLOCK("pragma\0No-Cache\0"), NOW));
	assert_true(wr_fetch_is_fresh(&stored, BLOCK("Pragma\0x\0"), NOW));
	assert_true(wr_fetch_is_fresh(&stored,
				      BLOCK("Pragma\0no-cache\0Cache-Control\0max-age=5\0"), NOW));
	assert_true(wr_fetch_is_fresh(&stored, BLOCK("Cache-Control\0min-fresh=20\0"), NOW + 40));
	assert_false(wr_fetch_is_fresh(&stored, BLOCK("Cache-Control\0min-fresh=20\0"), NOW + 41));
	stored.fields = BLOCK("Cache-Control\0max-age=60, no-cache\0");
	assert_false(wr_fetch_is_fresh(&stored, none, NOW));
	stored.fields = BLOCK("ETag\0\"1\"\0");
	assert_false(wr_fetch_is_fresh(&stored, none, NOW));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_read),
		cmocka_unit_test(a_304_replaces_fields),
		cmocka_unit_test(lengths_are_read),
		cmocka_unit_test(names_and_values_are_checked),
		cmocka_unit_test(directives_are_read),
		cmocka_unit_test(what_can_be_stored),
		cmocka_unit_test(what_a_304_confirms),
		cmocka_unit_test(lifetimes),
		cmocka_unit_test(ages),
		cmocka_unit_test(freshness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
