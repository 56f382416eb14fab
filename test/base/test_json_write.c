/* JSON writer: commas, escapes, numbers, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/algo.h>

#include "base/json_write.h"
#include "base/oom.h"

static struct wr_buf buf;
static struct wr_json_out json;

static int begin_document(void **state)
{
	wr_buf_init(&buf, 1 << 20);
	wr_json_begin(&json, &buf);
	(void)state;
	return 0;
}

static int free_document(void **state)
{
	wr_buf_free(&buf);
	(void)state;
	return 0;
}

/* Compares the document with the expected text and begins a new document. */
static void check_document(const char *expected)
{
	assert_false(wr_buf_failed(&buf));
	assert_string_equal(wr_buf_str(&buf).ptr, expected);
	wr_buf_clear(&buf);
	wr_json_begin(&json, &buf);
}

static void commas_are_between_members_and_items(void **state)
{
	wr_json_object(&json);
	wr_json_end_object(&json);
	check_document("{}");
	wr_json_array(&json);
	wr_json_end_array(&json);
	check_document("[]");
	wr_json_object(&json);
	wr_json_key(&json, "a");
	wr_json_uint(&json, 1);
	wr_json_key(&json, "b");
	wr_json_array(&json);
	wr_json_object(&json);
	wr_json_end_object(&json);
	wr_json_array(&json);
	wr_json_end_array(&json);
	wr_json_object(&json);
	wr_json_key(&json, "c");
	wr_json_null(&json);
	wr_json_end_object(&json);
	wr_json_int(&json, -2);
	wr_json_string(&json, WR_STR("x"));
	wr_json_end_array(&json);
	wr_json_key(&json, "d");
	wr_json_bool(&json, true);
	wr_json_key(&json, "e");
	wr_json_bool(&json, false);
	wr_json_key(&json, "f");
	wr_json_raw(&json, WR_STR("[1, 2]"));
	wr_json_end_object(&json);
	wr_buf_add_char(&buf, '\n');
	check_document("{\"a\":1,\"b\":[{},[],{\"c\":null},-2,\"x\"],\"d\":true,\"e\":false,"
		       "\"f\":[1, 2]}\n");
	(void)state;
}

static void strings_are_escaped(void **state)
{
	wr_json_array(&json);
	wr_json_string(&json, WR_STR(""));
	wr_json_string(&json, WR_STR("a\"b\\c/d"));
	wr_json_string(&json, WR_STR("\x01\t\n\x1f\x7f"));
	wr_json_string(&json, WR_STR("a\0b"));
	wr_json_string(&json, WR_STR("gr\xc3\xbc\xc3\x9f"));
	wr_json_end_array(&json);
	check_document("[\"\",\"a\\\"b\\\\c/d\",\"\\u0001\\u0009\\u000a\\u001f\\u007f\","
		       "\"a\\u0000b\",\"gr\xc3\xbc\xc3\x9f\"]");
	wr_json_object(&json);
	wr_json_key_str(&json, WR_STR("a\"b"));
	wr_json_null(&json);
	wr_json_key_str(&json, WR_STR("c\0d"));
	wr_json_null(&json);
	wr_json_end_object(&json);
	check_document("{\"a\\\"b\":null,\"c\\u0000d\":null}");
	(void)state;
}

/* The writer tests eight bytes at a time. Each byte is tried at each position of three words. */
static void every_byte_is_escaped_at_every_position(void **state)
{
	for (unsigned c = 0; c < 256; c++)
		for (size_t at = 0; at < 19; at++) {
			char text[] = "0123456789abcdefghi", expected[40];
			const char *format = c == '"' || c == '\\'  ? "\"%.*s\\%c%s\""
					     : c < ' ' || c == 0x7f ? "\"%.*s\\u%04x%s\""
								    : "\"%.*s%c%s\"";

			snprintf(expected, sizeof expected, format, (int)at, text, c,
				 text + at + 1);
			text[at] = (char)c;
			wr_json_string(&json, (struct weir_str){text, 19});
			check_document(expected);
			if (c >= 0x80)
				continue;
			assert_true(wr_json_bytes(&json, (struct weir_str){text, 19}));
			check_document(expected);
		}
	(void)state;
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
	assert_true(wr_json_bytes(&json, WR_STR("a\"\xc3\xbc")));
	check_document("\"a\\\"\xc3\xbc\"");
	assert_false(wr_json_bytes(&json, WR_STR("a\xff\xc3"
						 "b")));
	check_document("\"a\xef\xbf\xbd\xef\xbf\xbd"
		       "b\"");
	/* U+0085 (next line) and U+202E (right-to-left override) are escaped. */
	assert_true(wr_json_bytes(&json, WR_STR("\xc2\x85\xe2\x80\xae")));
	check_document("\"\\u0085\\u202e\"");
	(void)state;
}

static void numbers_have_their_full_range(void **state)
{
	wr_json_array(&json);
	wr_json_uint(&json, 0);
	wr_json_uint(&json, 10);
	wr_json_uint(&json, UINT64_MAX);
	wr_json_int(&json, INT64_MIN);
	wr_json_int(&json, INT64_MAX);
	wr_json_int(&json, 0);
	wr_json_end_array(&json);
	check_document("[0,10,18446744073709551615,-9223372036854775808,9223372036854775807,0]");
	(void)state;
}

static void a_document_is_appended_to_the_buffer(void **state)
{
	wr_buf_add_str(&buf, WR_STR("data: "));
	wr_json_begin(&json, &buf);
	wr_json_uint(&json, 7);
	check_document("data: 7");
	(void)state;
}

static void members_are_a_key_and_a_value(void **state)
{
	wr_json_object(&json);
	wr_json_member_string(&json, "s", WR_STR("\""));
	wr_json_member_string_or_null(&json, "e", WR_STR(""));
	wr_json_member_string_or_null(&json, "t", WR_STR("t"));
	assert_false(wr_json_member_bytes(&json, "b", WR_STR("\xff")));
	wr_json_member_uint(&json, "u", UINT64_MAX);
	wr_json_member_bool(&json, "y", true);
	wr_json_member_null(&json, "n");
	wr_json_end_object(&json);
	assert_string_equal(buf.ptr,
			    "{\"s\":\"\\\"\",\"e\":null,\"t\":\"t\",\"b\":\"\xef\xbf\xbd\","
			    "\"u\":18446744073709551615,\"y\":true,\"n\":null}");
	(void)state;
}

static void seconds_are_rounded_up_to_milliseconds(void **state)
{
	wr_json_array(&json);
	wr_json_seconds(&json, 0);
	wr_json_seconds(&json, 1);
	wr_json_seconds(&json, 1000000);
	wr_json_seconds(&json, 1000001);
	wr_json_seconds(&json, 999999999);
	wr_json_seconds(&json, 1250000000);
	wr_json_seconds(&json, 1500000000);
	wr_json_seconds(&json, 1500000001);
	wr_json_seconds(&json, 1999999999);
	wr_json_seconds(&json, WEIR_NEVER - 1);
	wr_json_seconds(&json, WEIR_NEVER);
	wr_json_milli(&json, 1500);
	wr_json_milli(&json, 7);
	wr_json_end_array(&json);
	assert_string_equal(
		buf.ptr,
		"[0,0.001,0.001,0.002,1,1.250,1.500,1.501,2,18446744073.710,null,1.500,0.007]");
	(void)state;
}

/* Writes a document into buffers of all sizes up to its length. Only the last size is enough. */
static void an_overflow_is_reported(void **state)
{
	static const char expected[] = "{\"key\":\"text\\u0001\",\"n\":[1,null]}";
	char memory[sizeof expected];

	for (size_t size = 1; size <= sizeof expected; size++) {
		struct wr_buf fixed;

		wr_buf_init_fixed(&fixed, memory, size);
		wr_json_begin(&json, &fixed);
		wr_json_object(&json);
		wr_json_key(&json, "key");
		wr_json_string(&json, WR_STR("text\x01"));
		wr_json_key(&json, "n");
		wr_json_array(&json);
		wr_json_uint(&json, 1);
		wr_json_null(&json);
		wr_json_end_array(&json);
		wr_json_end_object(&json);
		assert_int_equal(wr_buf_failed(&fixed), size < sizeof expected);
		assert_memory_equal(memory, expected, fixed.len);
	}
	assert_string_equal(memory, expected);
	(void)state;
}

static void a_lack_of_memory_is_reported(void **state)
{
	oom_after(0);
	wr_json_array(&json);
	oom_after(-1);
	wr_json_uint(&json, 1);
	wr_json_end_array(&json);
	assert_true(wr_buf_failed(&buf));
	assert_int_equal(buf.len, 0);
	(void)state;
}

#define DOCUMENT_TEST(name) cmocka_unit_test_setup_teardown(name, begin_document, free_document)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DOCUMENT_TEST(commas_are_between_members_and_items),
		DOCUMENT_TEST(strings_are_escaped),
		DOCUMENT_TEST(every_byte_is_escaped_at_every_position),
		DOCUMENT_TEST(bytes_that_are_not_utf8_are_replaced),
		DOCUMENT_TEST(numbers_have_their_full_range),
		DOCUMENT_TEST(a_document_is_appended_to_the_buffer),
		DOCUMENT_TEST(members_are_a_key_and_a_value),
		DOCUMENT_TEST(seconds_are_rounded_up_to_milliseconds),
		DOCUMENT_TEST(an_overflow_is_reported),
		DOCUMENT_TEST(a_lack_of_memory_is_reported),
	};

	return cmocka_run_group_tests_name("base_json_write", tests, NULL, NULL);
}
