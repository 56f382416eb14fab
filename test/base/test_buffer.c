/* Growable buffer: contents, the maximum, sticky failures, lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/error.h>

#include "base/buffer.h"
#include "base/oom.h"

static void check_content(const struct wr_buf *buf, const char *content)
{
	assert_int_equal(buf->len, strlen(content));
	assert_string_equal(wr_buf_str(buf).ptr, content);
}

static void pieces_are_appended(void **state)
{
	struct wr_buf buf;

	wr_buf_init(&buf, 1000);
	check_content(&buf, "");
	assert_null(buf.ptr);
	assert_true(wr_buf_add(&buf, "one", 3));
	assert_true(wr_buf_add(&buf, NULL, 0));
	assert_true(wr_buf_add_char(&buf, ' '));
	assert_true(wr_buf_add_str(&buf, WR_STR("two")));
	assert_true(wr_buf_printf(&buf, " %d%s", 3, "!"));
	check_content(&buf, "one two 3!");
	assert_int_equal(buf.cap, 64);
	assert_true(wr_buf_printf(&buf, "%0100d", 7));
	assert_int_equal(buf.len, 110);
	assert_int_equal(buf.cap, 128);
	assert_string_equal(buf.ptr + 107, "007");
	wr_buf_free(&buf);
	check_content(&buf, "");
	(void)state;
}

static void the_maximum_is_exact(void **state)
{
	struct wr_buf buf;

	wr_buf_init(&buf, 100);
	for (unsigned i = 0; i < 100; i++)
		assert_true(wr_buf_add_char(&buf, 'x'));
	assert_int_equal(buf.len, 100);
	assert_int_equal(buf.cap, 101);
	assert_false(wr_buf_failed(&buf));
	assert_false(wr_buf_add_char(&buf, 'y'));
	assert_true(wr_buf_failed(&buf));
	assert_int_equal(buf.failed, WEIR_EROOM);
	assert_int_equal(buf.len, 100);
	wr_buf_free(&buf);
	assert_true(wr_buf_printf(&buf, "%0100d", 0));
	assert_false(wr_buf_printf(&buf, "%d", 0));
	wr_buf_free(&buf);
	assert_false(wr_buf_add(&buf, "", SIZE_MAX));
	wr_buf_free(&buf);
	(void)state;
}

static void a_failure_is_sticky_until_clear(void **state)
{
	struct wr_buf buf;

	wr_buf_init(&buf, 5);
	assert_true(wr_buf_add(&buf, "abc", 3));
	assert_false(wr_buf_add(&buf, "def", 3)); /* no part of the piece is appended */
	assert_false(wr_buf_add(&buf, "d", 1));
	assert_false(wr_buf_add(&buf, NULL, 0));
	assert_false(wr_buf_printf(&buf, "d"));
	assert_null(wr_buf_reserve(&buf, 1));
	check_content(&buf, "abc");
	wr_buf_clear(&buf);
	check_content(&buf, "");
	assert_true(wr_buf_add(&buf, "defgh", 5));
	check_content(&buf, "defgh");
	wr_buf_free(&buf);
	(void)state;
}

static void a_fixed_buffer_uses_the_memory_of_the_caller(void **state)
{
	char memory[8];
	struct wr_buf buf;

	memset(memory, 'z', sizeof memory);
	wr_buf_init_fixed(&buf, memory, sizeof memory);
	assert_string_equal(memory, "");
	oom_after(0);
	assert_true(wr_buf_add(&buf, "abcd", 4));
	assert_true(wr_buf_printf(&buf, "%d", 567));
	assert_string_equal(memory, "abcd567");
	assert_false(wr_buf_add_char(&buf, '8'));
	assert_string_equal(memory, "abcd567");
	wr_buf_clear(&buf);
	assert_true(wr_buf_add(&buf, "abc", 3));
	assert_false(wr_buf_printf(&buf, "%s", "defgh"));
	assert_string_equal(memory, "abc");
	oom_after(-1);
	wr_buf_free(&buf);
	assert_ptr_equal(buf.ptr, memory);
	(void)state;
}

static void memory_of_the_caller_is_used_first(void **state)
{
	struct wr_buf_room room = {.held = 36, .max = 164};
	char memory[8];
	struct wr_buf buf;

	wr_buf_init_first(&buf, memory, sizeof memory, 1000, &room);
	oom_after(0);
	assert_true(wr_buf_add(&buf, "abcdefg", 7));
	oom_after(-1);
	assert_ptr_equal(buf.ptr, memory);
	assert_int_equal(room.held, 36);
	assert_true(wr_buf_add_char(&buf, 'h'));
	assert_string_equal(memory, "abcdefg");
	check_content(&buf, "abcdefgh");
	assert_int_equal(buf.cap, 64);
	assert_int_equal(room.held, 36 + 64);
	assert_true(wr_buf_printf(&buf, "%0119d", 0)); /* 127 bytes and the zero byte */
	assert_int_equal(room.held, 164);
	assert_false(wr_buf_add_char(&buf, 'i'));
	assert_int_equal(buf.failed, WEIR_EROOM);
	assert_int_equal(buf.len, 127);
	assert_int_equal(room.held, 164);
	wr_buf_free(&buf);
	assert_int_equal(room.held, 36);
	check_content(&buf, "");
	assert_true(wr_buf_add(&buf, "again", 5));
	assert_int_equal(room.held, 36 + 64);
	wr_buf_free(&buf);
	(void)state;
}

static void reserved_room_becomes_content(void **state)
{
	struct wr_buf buf;
	char *room;

	wr_buf_init(&buf, 1000);
	room = wr_buf_reserve(&buf, 500);
	assert_non_null(room);
	memset(room, 'a', 500);
	wr_buf_commit(&buf, 2);
	check_content(&buf, "aa");
	assert_null(wr_buf_reserve(&buf, 999));
	assert_true(wr_buf_failed(&buf));
	wr_buf_free(&buf);
	assert_non_null(wr_buf_reserve(&buf, 1000));
	wr_buf_commit(&buf, 1000);
	wr_buf_free(&buf);
	assert_non_null(wr_buf_reserve(&buf, 0));
	check_content(&buf, "");
	wr_buf_free(&buf);
	(void)state;
}

static void bytes_are_dropped_from_the_front(void **state)
{
	struct wr_buf buf;

	wr_buf_init(&buf, 10);
	wr_buf_drop(&buf, 0);
	assert_true(wr_buf_add(&buf, "abcdef", 6));
	wr_buf_drop(&buf, 2);
	check_content(&buf, "cdef");
	assert_true(wr_buf_add(&buf, "ghijkl", 6));
	check_content(&buf, "cdefghijkl");
	wr_buf_drop(&buf, 10);
	check_content(&buf, "");
	wr_buf_free(&buf);
	(void)state;
}

static void the_content_is_released_to_the_caller(void **state)
{
	struct wr_buf buf;
	char *content;
	size_t len;

	wr_buf_init(&buf, 10);
	assert_null(wr_buf_release(&buf, &len));
	assert_true(wr_buf_add(&buf, "abc", 3));
	content = wr_buf_release(&buf, &len);
	assert_string_equal(content, "abc");
	assert_int_equal(len, 3);
	free(content);
	check_content(&buf, "");
	assert_true(wr_buf_add(&buf, "abc", 3));
	assert_false(wr_buf_add(&buf, "abcdefghijk", 11));
	assert_null(wr_buf_release(&buf, &len));
	assert_int_equal(len, 0);
	assert_true(wr_buf_add(&buf, "new", 3));
	wr_buf_free(&buf);
	(void)state;
}

static void without_memory_the_content_stays(void **state)
{
	struct wr_buf buf;

	wr_buf_init(&buf, 1000);
	oom_after(0);
	assert_false(wr_buf_add(&buf, "abc", 3));
	assert_true(wr_buf_failed(&buf));
	assert_int_equal(buf.failed, WEIR_EMEMORY);
	check_content(&buf, "");
	wr_buf_clear(&buf);
	oom_after(1);
	assert_true(wr_buf_add(&buf, "abc", 3));
	assert_false(wr_buf_printf(&buf, "%0100d", 0));
	check_content(&buf, "abc");
	oom_after(-1);
	assert_false(wr_buf_add(&buf, "def", 3)); /* the buffer has already failed */
	wr_buf_free(&buf);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_appended),
		cmocka_unit_test(the_maximum_is_exact),
		cmocka_unit_test(a_failure_is_sticky_until_clear),
		cmocka_unit_test(a_fixed_buffer_uses_the_memory_of_the_caller),
		cmocka_unit_test(memory_of_the_caller_is_used_first),
		cmocka_unit_test(reserved_room_becomes_content),
		cmocka_unit_test(bytes_are_dropped_from_the_front),
		cmocka_unit_test(the_content_is_released_to_the_caller),
		cmocka_unit_test(without_memory_the_content_stays),
	};

	return cmocka_run_group_tests_name("base_buffer", tests, NULL, NULL);
}
