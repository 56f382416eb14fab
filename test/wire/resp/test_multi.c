/* Tests MULTI, EXEC and DISCARD in the form in which client libraries send them. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A transaction as redis-py's pipeline() sends it, with a command before it and a command after
 * it. */
static const char transaction[] =
	"*1\r\n$4\r\nPING\r\n"
	"*1\r\n$5\r\nMULTI\r\n"
	"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n4\r\n$1\r\n1\r\n$1\r\n1\r\n"
	"*2\r\n$4\r\nECHO\r\n$7\r\na\r\nb\r\nc\r\n"
	"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n4\r\n$1\r\n1\r\n$1\r\n1\r\n"
	"*1\r\n$4\r\nEXEC\r\n"
	"*2\r\n$4\r\nECHO\r\n$3\r\nend\r\n";
static const char answers[] = "+PONG\r\n"
			      "+OK\r\n"
			      "+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
			      "*3\r\n"
			      "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n"
			      "$7\r\na\r\nb\r\nc\r\n"
			      "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:2\r\n"
			      "$3\r\nend\r\n";

static void test_exec(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect(talk, transaction, answers);
	assert_int_equal(talk->host->multi_room.held, 0);
	expect_array(talk, "EXEC", "-ERR EXEC without MULTI\r\n");
	talk_close(talk);
}

/* The input arrives in two pieces, and is split at every byte in turn. */
static void test_split(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t at = 0; at <= sizeof transaction - 1; at++) {
		talk->rig.now_ns += HOUR_NS;
		say_bytes(talk, transaction, at);
		add_bytes(talk, transaction + at, sizeof transaction - 1 - at);
		assert_string_equal(talk->replies, answers);
		assert_false(wr_resp_session_waiting(&talk->session));
		assert_false(talk->session.stopped);
	}
	talk_close(talk);
}

/* Queued commands take nothing, and a discarded transaction does not run. */
static void test_discard(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "MULTI", "+OK\r\n");
	expect_array(talk, "CL.THROTTLE k 4 1 1 5", "+QUEUED\r\n");
	assert_true(talk->host->multi_room.held > 0);
	expect_array(talk, "DISCARD", "+OK\r\n");
	assert_int_equal(talk->host->multi_room.held, 0);
	expect_array(talk, "DISCARD", "-ERR DISCARD without MULTI\r\n");
	expect_array(talk, "EXEC", "-ERR EXEC without MULTI\r\n");
	expect_array(talk, "CL.THROTTLE k 4 1 1", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n");
	talk_close(talk);
}

static void test_empty_and_nested(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect(talk, "MULTI\r\nEXEC\r\nPING\r\n", "+OK\r\n*0\r\n+PONG\r\n");
	expect(talk, "MULTI\r\nMULTI\r\nPING\r\nEXEC\r\n",
	       "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
	talk_close(talk);
}

/* An invalid command makes EXEC refuse the transaction: nothing is taken. */
static void test_abort(void **state)
{
	static const char *const wrong[] = {"NOSUCH", "ECHO",    "CLIENT NOSUCH",  "SELECT",
					    "CLIENT", "HELLO 3", "AUTH default x", "WEIR.FLEET"};
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		expect_array(talk, "MULTI", "+OK\r\n");
		expect_array(talk, "CL.THROTTLE k 4 1 1 5", "+QUEUED\r\n");
		assert_int_equal(say_array(talk, wrong[i])[0], '-');
		expect_array(talk, "PING", "+QUEUED\r\n");
		expect_array(talk, "EXEC",
			     "-EXECABORT Transaction discarded because of previous errors.\r\n");
	}
	expect_array(talk, "CL.THROTTLE k 4 1 1", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n");
	assert_int_equal(talk->session.protocol, 2);
	talk_close(talk);
}

/* If a command of a transaction fails, its reply is the error, and the other commands run. */
static void test_error_inside(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect(talk, "MULTI\r\nSELECT 1\r\nPING\r\nEXEC\r\n",
	       "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR DB index is out of range\r\n+PONG\r\n");
	talk_close(talk);
}

static void test_reset_and_quit(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect(talk, "MULTI\r\nPING\r\nRESET\r\nPING\r\nEXEC\r\n",
	       "+OK\r\n+QUEUED\r\n+RESET\r\n+PONG\r\n-ERR EXEC without MULTI\r\n");
	assert_int_equal(talk->host->multi_room.held, 0);
	expect(talk, "MULTI\r\nPING\r\nQUIT\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n");
	assert_true(wr_resp_session_over(&talk->session));
	talk_close(talk);
}

static void test_needs_password(void **state)
{
	struct talk *talk = talk_open("secret");

	(void)state;
	expect_array(talk, "MULTI", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "EXEC", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "AUTH secret", "+OK\r\n");
	expect(talk, "MULTI\r\nPING\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
	talk_close(talk);
}

/* A transaction stops if the client does not read its replies. Later the transaction goes on where
 * it stopped, and commands after it wait until then. */
static void test_budget(void **state)
{
	enum { COUNT = 100 };
	struct talk *talk = talk_open(NULL);
	char *input = calloc(1, 64 * COUNT), *expected = calloc(1, 64 * COUNT);

	(void)state;
	append(input, (size_t)64 * COUNT, "MULTI\r\n", 1);
	append(input, (size_t)64 * COUNT, "ECHO 0123456789\r\n", COUNT);
	append(input, (size_t)64 * COUNT, "EXEC\r\nECHO behind\r\n", 1);
	append(expected, (size_t)64 * COUNT, "+OK\r\n", 1);
	append(expected, (size_t)64 * COUNT, "+QUEUED\r\n", COUNT);
	append(expected, (size_t)64 * COUNT, "*100\r\n", 1);
	append(expected, (size_t)64 * COUNT, "$10\r\n0123456789\r\n", COUNT);
	append(expected, (size_t)64 * COUNT, "$6\r\nbehind\r\n", 1);
	talk->budget = 40;
	say(talk, input);
	for (int i = 0; i < 1000 && talk->session.stopped; i++)
		add_bytes(talk, "", 0);
	assert_string_equal(talk->replies, expected);
	assert_false(talk->session.stopped);
	assert_int_equal(talk->host->multi_room.held, 0);
	free(input);
	free(expected);
	talk_close(talk);
}

/* A transaction may have 1 MiB. All transactions of a host together may have 16 MiB. */
static void test_bounds(void **state)
{
	struct talk *talk = talk_open(NULL);
	size_t len = 60000;
	char *echo = malloc(len + 64);
	size_t size = (size_t)sprintf(echo, "*2\r\n$4\r\nECHO\r\n$%zu\r\n", len);
	int queued = 0;

	(void)state;
	memset(echo + size, 'z', len);
	memcpy(echo + size + len, "\r\n", 3);
	size += len + 2;
	expect_array(talk, "MULTI", "+OK\r\n");
	while (strcmp(say_bytes(talk, echo, size), "+QUEUED\r\n") == 0)
		queued++;
	assert_int_equal(queued, 17); /* because 17 · 60,000 < 2^20 < 18 · 60,000 */
	assert_string_equal(talk->replies, "-ERR the transaction is too large\r\n");
	expect_array(talk, "EXEC",
		     "-EXECABORT Transaction discarded because of previous errors.\r\n");
	assert_int_equal(talk->host->multi_room.held, 0);

	talk->host->multi_room.held =
		WR_RESP_MULTI_ALL_MAX; /* as if other sessions used all of it */
	expect_array(talk, "MULTI", "+OK\r\n");
	expect_array(talk, "PING", "-ERR the transaction is too large\r\n");
	expect_array(talk, "DISCARD", "+OK\r\n");
	talk->host->multi_room.held = 0;
	free(echo);
	talk_close(talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exec),           cmocka_unit_test(test_split),
		cmocka_unit_test(test_discard),        cmocka_unit_test(test_empty_and_nested),
		cmocka_unit_test(test_abort),          cmocka_unit_test(test_error_inside),
		cmocka_unit_test(test_reset_and_quit), cmocka_unit_test(test_needs_password),
		cmocka_unit_test(test_budget),         cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
