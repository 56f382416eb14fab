/* Tests the parser with commands that are complete, in pieces, and invalid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/resp/resp.h"

static struct wr_resp_reader reader;
static struct wr_resp_command command;

static int read_command_text(const char *text)
{
	struct wr_resp_parser parser = {0};

	wr_resp_forget(&reader);
	return wr_resp_read(&parser, true, (const uint8_t *)text, strlen(text), &reader, &command);
}

static void arg_is(size_t at, const char *expected)
{
	assert_true(at < command.argc);
	assert_int_equal(command.argv[at].len, strlen(expected));
	assert_memory_equal(command.argv[at].ptr, expected, strlen(expected));
}

static void bad_is(const char *text, const char *error)
{
	assert_int_equal(read_command_text(text), WR_RESP_BAD);
	assert_string_equal(reader.error.text, error);
}

static void test_array(void **state)
{
	(void)state;
	assert_int_equal(read_command_text("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n"),
			 WR_RESP_COMMAND);
	assert_int_equal(command.argc, 2);
	assert_int_equal(command.bytes, 20);
	arg_is(0, "ECHO");
	arg_is(1, "");
}

/* An argument may have any bytes, and points into the input. */
static void test_binary(void **state)
{
	static const uint8_t bytes[] = "*1\r\n$5\r\n\0\r\n*\xff\r\n";
	struct wr_resp_parser parser = {0};

	(void)state;
	assert_int_equal(wr_resp_read(&parser, true, bytes, sizeof bytes - 1, &reader, &command),
			 WR_RESP_COMMAND);
	assert_int_equal(command.argv[0].len, 5);
	assert_ptr_equal(command.argv[0].ptr, bytes + 8);
	assert_memory_equal(command.argv[0].ptr, "\0\r\n*\xff", 5);
}

static void test_nothing_to_do(void **state)
{
	(void)state;
	assert_int_equal(read_command_text("*0\r\n"), WR_RESP_COMMAND);
	assert_int_equal(command.argc, 0);
	assert_int_equal(command.bytes, 4);
	assert_int_equal(read_command_text("*-1\r\n"), WR_RESP_COMMAND);
	assert_int_equal(command.argc, 0);
	assert_int_equal(read_command_text("\r\nPING\r\n"), WR_RESP_COMMAND);
	assert_int_equal(command.argc, 0);
	assert_int_equal(command.bytes, 2);
}

static void test_lines(void **state)
{
	(void)state;
	assert_int_equal(read_command_text("  cl.throttle\tk 15  30 60 \r\nrest"), WR_RESP_COMMAND);
	assert_int_equal(command.argc, 5);
	assert_int_equal(command.bytes, 28);
	arg_is(0, "cl.throttle");
	arg_is(4, "60");
	assert_int_equal(read_command_text("PING\n"), WR_RESP_COMMAND);
	arg_is(0, "PING");
}

static void test_quotes(void **state)
{
	(void)state;
	assert_int_equal(read_command_text("a \"b c\\n\\x41\\\"\\\\\\q\" 'd\\'\\n' \"\" e\r\n"),
			 WR_RESP_COMMAND);
	assert_int_equal(command.argc, 5);
	arg_is(1, "b c\nA\"\\q");
	arg_is(2, "d'\\n");
	arg_is(3, "");
	arg_is(4, "e");
	bad_is("a \"b\r\n", "Protocol error: unbalanced quotes in request");
	bad_is("a 'b\r\n", "Protocol error: unbalanced quotes in request");
	bad_is("a \"b\"c\r\n", "Protocol error: unbalanced quotes in request");
	bad_is("a \"b\\\r\n", "Protocol error: unbalanced quotes in request");
}

static void test_wrong(void **state)
{
	(void)state;
	bad_is("*x\r\n", "Protocol error: invalid multibulk length");
	bad_is("*\r\n", "Protocol error: invalid multibulk length");
	bad_is("*+1\r\n", "Protocol error: invalid multibulk length");
	bad_is("*01\r\n", "Protocol error: invalid multibulk length");
	bad_is("*1025\r\n", "Protocol error: invalid multibulk length");
	bad_is("*9223372036854775808\r\n", "Protocol error: invalid multibulk length");
	bad_is("*1\rx", "Protocol error: invalid multibulk length");
	bad_is("*1\r\n:5\r\n", "Protocol error: expected '$', got ':'");
	bad_is("*1\r\n*1\r\n", "Protocol error: expected '$', got '*'");
	bad_is("*1\r\n\x01", "Protocol error: expected '$', got '?'");
	bad_is("*1\r\n$-1\r\n", "Protocol error: invalid bulk length");
	bad_is("*1\r\n$65537\r\n", "Protocol error: invalid bulk length");
	bad_is("*1\r\n$4294967300\r\n", "Protocol error: invalid bulk length");
	bad_is("*1\r\n$ 1\r\n", "Protocol error: invalid bulk length");
	bad_is("*1\r\n$1\r\nabc", "Protocol error: expected CRLF after bulk string");
	bad_is("*111111111111111111111111111", "Protocol error: too big mbulk count string");
	bad_is("*1\r\n$111111111111111111111111", "Protocol error: too big bulk count string");
}

/* Five arguments of 64 KiB exceed the limit of a command. */
static void test_too_much(void **state)
{
	size_t size = 5 * 65600, len;
	char *bytes = malloc(size);
	struct wr_resp_parser parser = {0};

	(void)state;
	len = (size_t)sprintf(bytes, "*5\r\n");
	for (int i = 0; i < 3;
	     i++) { /* three arguments are within the limit of a command, four are not */
		len += (size_t)sprintf(bytes + len, "$65536\r\n");
		memset(bytes + len, 'x', 65536);
		len += 65536;
		len += (size_t)sprintf(bytes + len, "\r\n");
	}
	assert_int_equal(wr_resp_read(&parser, true, (uint8_t *)bytes, len, &reader, &command),
			 WR_RESP_PARTIAL);
	len += (size_t)sprintf(bytes + len, "$65536\r\n");
	assert_int_equal(wr_resp_read(&parser, true, (uint8_t *)bytes, len, &reader, &command),
			 WR_RESP_BAD);
	assert_string_equal(reader.error.text, "Protocol error: invalid bulk length");
	free(bytes);
}

static void test_long_line(void **state)
{
	static char line[WR_RESP_LINE_BYTES_MAX + 2];
	struct wr_resp_parser parser = {0};

	(void)state;
	memset(line, 'a', sizeof line);
	assert_int_equal(wr_resp_read(&parser, true, (uint8_t *)line, WR_RESP_LINE_BYTES_MAX - 1,
				      &reader, &command),
			 WR_RESP_PARTIAL);
	line[WR_RESP_LINE_BYTES_MAX - 1] = '\n';
	assert_int_equal(wr_resp_read(&parser, true, (uint8_t *)line, WR_RESP_LINE_BYTES_MAX,
				      &reader, &command),
			 WR_RESP_COMMAND);
	assert_int_equal(command.argv[0].len, WR_RESP_LINE_BYTES_MAX - 1);
	line[WR_RESP_LINE_BYTES_MAX - 1] = 'a';
	assert_int_equal(
		wr_resp_read(&parser, true, (uint8_t *)line, sizeof line, &reader, &command),
		WR_RESP_BAD);
	assert_string_equal(reader.error.text, "Protocol error: too big inline request");
}

static void test_strangers(void **state)
{
	static const char many[] = "*11\r\n", large[] = "*1\r\n$16385\r\n", fine[] = "*10\r\n";
	struct wr_resp_parser parser = {0};

	(void)state;
	assert_int_equal(wr_resp_read(&parser, false, (const uint8_t *)many, 5, &reader, &command),
			 WR_RESP_BAD);
	assert_string_equal(reader.error.text, "Protocol error: unauthenticated multibulk length");
	assert_int_equal(
		wr_resp_read(&parser, false, (const uint8_t *)large, 12, &reader, &command),
		WR_RESP_BAD);
	assert_string_equal(reader.error.text, "Protocol error: unauthenticated bulk length");
	parser = (struct wr_resp_parser){0};
	assert_int_equal(wr_resp_read(&parser, false, (const uint8_t *)fine, 5, &reader, &command),
			 WR_RESP_PARTIAL);
}

/* A command arrives byte by byte, and the input is at another address each time. */
static void test_byte_by_byte(void **state)
{
	static const char text[] = "*3\r\n$5\r\nfirst\r\n$12\r\nsecond\r\nthen\r\n$0\r\n\r\n";
	size_t size = sizeof text - 1;
	struct wr_resp_parser parser = {0};

	(void)state;
	for (size_t len = 1; len <= size; len++) {
		uint8_t *moved = malloc(len); /* AddressSanitizer finds reads behind this memory */
		int rc;

		memcpy(moved, text, len);
		rc = wr_resp_read(&parser, true, moved, len, &reader, &command);
		assert_int_equal(rc, len < size ? WR_RESP_PARTIAL : WR_RESP_COMMAND);
		if (rc == WR_RESP_PARTIAL) {
			assert_true(reader.wanted >= 1 && reader.wanted <= size - len);
		} else {
			assert_int_equal(command.bytes, size);
			assert_int_equal(command.argc, 3);
			arg_is(0, "first");
			arg_is(1, "second\r\nthen");
			arg_is(2, "");
		}
		free(moved);
	}
}

static void test_integers(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {{"0", 0},
		    {"-1", -1},
		    {"10", 10},
		    {"9223372036854775807", INT64_MAX},
		    {"-9223372036854775808", INT64_MIN}};
	static const char *const bad[] = {"",
					  "-",
					  "+1",
					  "01",
					  "-0",
					  " 1",
					  "1 ",
					  "1x",
					  "0x1",
					  "1.0",
					  "9223372036854775808",
					  "-9223372036854775809",
					  "99999999999999999999"};
	int64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(wr_resp_integer((struct weir_str){good[i].text, strlen(good[i].text)},
					    &value));
		assert_true(value == good[i].value);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(wr_resp_integer((struct weir_str){bad[i], strlen(bad[i])}, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_array),         cmocka_unit_test(test_binary),
		cmocka_unit_test(test_nothing_to_do), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_quotes),        cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_too_much),      cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_strangers),     cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_integers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
