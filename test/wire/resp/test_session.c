/* Tests sessions: pipelines, input in pieces, unread replies, and the end of a session. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seven commands, one of them empty, as arrays and as lines. */
static const char pipeline[] =
	"PING\r\n"
	"*1\r\n$4\r\nPING\r\n"
	"*2\r\n$4\r\nECHO\r\n$7\r\na\r\nb\r\nc\r\n"
	"\r\n"
	"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n4\r\n$1\r\n1\r\n$1\r\n1\r\n"
	"echo \"x y\"\n"
	"*3\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$3\r\nbob\r\n";
static const char answers[] = "+PONG\r\n"
			      "+PONG\r\n"
			      "$7\r\na\r\nb\r\nc\r\n"
			      "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n"
			      "$3\r\nx y\r\n"
			      "+OK\r\n";

static void test_pipeline(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect(talk, pipeline, answers);
	assert_int_equal(talk->host->tally.commands, 6);
	talk_close(talk);
}

/* The input arrives in two pieces, and is split at every byte in turn. */
static void test_split_anywhere(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t at = 0; at <= sizeof pipeline - 1; at++) {
		talk->rig.now_ns += HOUR_NS;
		say_bytes(talk, pipeline, at);
		add_bytes(talk, pipeline + at, sizeof pipeline - 1 - at);
		assert_string_equal(talk->replies, answers);
		assert_false(wr_resp_session_waiting(&talk->session));
	}
	talk_close(talk);
}

static void test_split_everywhere(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t piece = 1; piece < 20; piece++) {
		talk->rig.now_ns += HOUR_NS;
		say_bytes(talk, "", 0);
		for (size_t at = 0; at < sizeof pipeline - 1; at += piece) {
			size_t rest = sizeof pipeline - 1 - at;

			add_bytes(talk, pipeline + at, rest < piece ? rest : piece);
		}
		assert_string_equal(talk->replies, answers);
	}
	assert_int_equal(talk->host->tally.commands, 6 * 19);
	talk_close(talk);
}

/* Large arguments arrive in pieces, followed by a command. Their memory is freed. */
static void test_large_argument(void **state)
{
	struct talk *talk = talk_open(NULL);
	size_t len = 65536;
	char *bytes = malloc(len + 64);
	size_t size = (size_t)sprintf(bytes, "*2\r\n$4\r\nECHO\r\n$65536\r\n");

	(void)state;
	memset(bytes + size, 'z', len);
	size += len;
	size += (size_t)sprintf(bytes + size, "\r\nPING\r\n");
	say_bytes(talk, "", 0);
	for (size_t at = 0; at < size; at += 16384)
		add_bytes(talk, bytes + at, size - at < 16384 ? size - at : 16384);
	assert_int_equal(talk->len, 8 + len + 2 + 7);
	assert_memory_equal(talk->replies, "$65536\r\nzzzz", 12);
	assert_string_equal(talk->replies + 8 + len, "\r\n+PONG\r\n");
	assert_int_equal(talk->session.held_cap, 0);
	free(bytes);
	talk_close(talk);
}

/* No command runs after the reply that exceeds the budget. The other commands run later, in
 * order. */
static void test_unread_replies(void **state)
{
	struct talk *talk = talk_open(NULL);
	char bytes[1000], expected[2000];
	size_t len = 0, expected_len = 0;

	(void)state;
	talk->budget = 20;
	for (int i = 0; i < 30; i++) {
		len += (size_t)sprintf(bytes + len, "*2\r\n$4\r\nECHO\r\n$3\r\n%d\r\n", 100 + i);
		expected_len += (size_t)sprintf(expected + expected_len, "$3\r\n%d\r\n", 100 + i);
	}
	/* The input has five commands and most of a sixth command. Three commands run. */
	say_bytes(talk, bytes, 5 * 23 + 20);
	assert_int_equal(talk->len, 27);
	assert_true(talk->session.stopped);
	add_bytes(talk, bytes + 5 * 23 + 20, len - (5 * 23 + 20)); /* the rest of the input */
	assert_int_equal(talk->len, 54);
	for (int i = 0; i < 20 && talk->session.stopped; i++)
		add_bytes(talk, NULL, 0);
	assert_int_equal(talk->len, expected_len);
	assert_string_equal(talk->replies, expected);
	assert_false(wr_resp_session_waiting(&talk->session));
	expect(talk, "PING\r\n", "+PONG\r\n");
	talk_close(talk);
}

/* An incomplete command after commands that wait is read again when these commands have run. */
static void test_half_read_ahead(void **state)
{
	static const char two[] = "*2\r\n$4\r\nECHO\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n"
				  "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\nb";
	struct talk *talk = talk_open(NULL);

	(void)state;
	talk->budget = 0;
	expect(talk, two, "$1\r\na\r\n");
	assert_true(talk->session.stopped);
	expect(talk, "ob\r\n", "+PONG\r\n");
	assert_true(talk->session.stopped);
	talk->budget = REPLIES_BYTES;
	expect(talk, "*2\r\n$6\r\nCLIENT\r\n$7\r\nGETNAME\r\n", "+OK\r\n$3\r\nbob\r\n");
	assert_false(wr_resp_session_waiting(&talk->session));
	talk_close(talk);
}

/* The length of the input after commands that wait is limited. */
static void test_input_limit(void **state)
{
	struct talk *talk = talk_open(NULL);
	static const char ping[] = {'P', 'I', 'N', 'G', '\r', '\n'};
	char *pings = malloc(60000);

	(void)state;
	for (size_t i = 0; i < 10000; i++)
		memcpy(pings + 6 * i, ping, 6);
	talk->budget = 0;
	for (int i = 0; i < 5; i++) {
		add_bytes(talk, pings, 60000);
		assert_false(talk->session.ended);
	}
	add_bytes(talk, pings, 60000);
	assert_true(talk->session.ended);
	assert_true(talk->session.held_cap <= 2 * WR_RESP_HELD_MAX);
	free(pings);
	talk_close(talk);
}

/* Three commands together have more arguments than the reader has room for. */
static void test_many_arguments(void **state)
{
	struct talk *talk = talk_open(NULL);
	char *bytes = calloc(1, 3 * 5000);

	(void)state;
	for (int i = 0; i < 3; i++) {
		append(bytes, 15000, "*600\r\n$4\r\nECHO\r\n", 1);
		append(bytes, 15000, "$1\r\nx\r\n", 599);
	}
	expect(talk, bytes,
	       "-ERR wrong number of arguments for 'echo' command\r\n"
	       "-ERR wrong number of arguments for 'echo' command\r\n"
	       "-ERR wrong number of arguments for 'echo' command\r\n");
	free(bytes);
	talk_close(talk);
}

/* After AUTH, the limits of a trusted client apply from the next command, even in the same
 * input. */
static void test_password_ahead(void **state)
{
	struct talk *talk = talk_open("secret");
	char bytes[512] =
		"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*11\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n";

	(void)state;
	append(bytes, sizeof bytes, "$1\r\nx\r\n", 9);
	expect(talk, bytes, "+OK\r\n*0\r\n");
	talk_close(talk);
}

static void test_endings(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect(talk, "QUIT\r\nPING\r\n", "+OK\r\n");
	assert_true(talk->session.ended);
	talk_again(talk);
	expect(talk, "PING\r\n*1\r\n:1\r\nPING\r\n",
	       "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n");
	assert_true(talk->session.ended);
	assert_int_equal(talk->host->tally.bad, 1);
	talk_again(talk);
	/* a browser on the wrong port gets no reply */
	expect(talk, "POST / HTTP/1.1\r\nHost: x\r\nCL.THROTTLE k 1 1 1\r\n", "");
	assert_true(talk->session.ended);
	talk_close(talk);
}

static bool no_more(struct wr_resp_out *out, size_t need)
{
	(void)out;
	(void)need;
	return false;
}

/* A reply that cannot be written ends the session, because the client would take the next reply for
 * it. */
static void test_no_room(void **state)
{
	struct talk *talk = talk_open(NULL);
	uint8_t little[10];
	struct wr_resp_out out = {little, little, little + sizeof little, no_more, NULL, 0,
				  false,  2};

	(void)state;
	wr_resp_session_input(&talk->session, (const uint8_t *)"PING\r\nPING\r\nPING\r\n", 18,
			      NOW_NS, SIZE_MAX, &out);
	assert_int_equal(out.at - out.begin, 7);
	assert_true(out.failed);
	assert_true(talk->session.ended);
	assert_int_equal(talk->host->tally.commands, 2);
	talk_close(talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipeline),         cmocka_unit_test(test_split_anywhere),
		cmocka_unit_test(test_split_everywhere), cmocka_unit_test(test_large_argument),
		cmocka_unit_test(test_unread_replies),   cmocka_unit_test(test_half_read_ahead),
		cmocka_unit_test(test_input_limit),      cmocka_unit_test(test_many_arguments),
		cmocka_unit_test(test_password_ahead),   cmocka_unit_test(test_endings),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
