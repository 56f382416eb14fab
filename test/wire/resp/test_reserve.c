/* Tests WEIR.RESERVE, WEIR.ACQUIRE, WEIR.COMMIT, WEIR.CANCEL and WEIR.RELEASE. The rule of `user` is
 * 3 per minute. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <string.h>

#include "limiter/reservation.h"

#define SETTLED(word, refunded, charged)                                                           \
	"*6\r\n$6\r\nstatus\r\n" word "\r\n$8\r\nrefunded\r\n:" refunded                           \
	"\r\n$7\r\ncharged\r\n:" charged "\r\n"

#define MISPLACED(option)                                                                          \
	"-ERR syntax error: " option " can be given once, directly after the domain; a key of "    \
	"that name needs a backslash\r\n"

/* Copies the token of the last reply. */
static const char *token_of(const struct talk *talk)
{
	static char token[WR_RESERVATION_TEXT_MAX + 1];
	const char *at = strstr(talk->replies, "$11\r\nreservation\r\n$");

	assert_non_null(at);
	at = strstr(at + strlen("$11\r\nreservation\r\n$"), "\r\n") + 2;
	snprintf(token, sizeof token, "%.*s", (int)strcspn(at, "\r"), at);
	return token;
}

static const char *say_about(struct talk *talk, const char *command, const char *token,
			     const char *rest)
{
	char line[WR_RESERVATION_TEXT_MAX + 128];

	snprintf(line, sizeof line, "%s %s%s", command, token, rest);
	return say_array(talk, line);
}

static void test_reserve_and_commit(void **state)
{
	struct talk *talk = talk_open(NULL);
	const char *token;

	(void)state;
	say_array(talk, "WEIR.RESERVE api TTL 30 HITS 3 user 7");
	assert_non_null(strstr(talk->replies, "*20\r\n$7\r\nverdict\r\n$5\r\nadmit\r\n"));
	assert_non_null(strstr(talk->replies, "$16\r\nexpires_after_ms\r\n:30000\r\n"));
	token = token_of(talk);
	assert_string_equal(say_about(talk, "WEIR.COMMIT", token, " 1"),
			    SETTLED("$7\r\nsettled", "2", "0"));
	assert_string_equal(say_about(talk, "WEIR.COMMIT", token, " 1"),
			    SETTLED("$7\r\nalready", "0", "0"));
	say_array(talk, "weir.acquire api hits 2 user 7");
	assert_non_null(strstr(talk->replies, "$16\r\nexpires_after_ms\r\n:60000\r\n"));
	token = token_of(talk);
	say_array(talk, "WEIR.RESERVE api user 7");
	assert_non_null(strstr(talk->replies, "refuse"));
	assert_non_null(strstr(talk->replies, "$11\r\nreservation\r\n$-1\r\n"
					      "$16\r\nexpires_after_ms\r\n:0\r\n"));
	assert_string_equal(say_about(talk, "WEIR.CANCEL", token, ""),
			    SETTLED("$7\r\nsettled", "2", "0"));
	say_array(talk, "WEIR.RESERVE api HITS 2 user 7");
	token = token_of(talk);
	assert_string_equal(say_about(talk, "WEIR.RELEASE", token, ""),
			    SETTLED("$7\r\nsettled", "0", "0"));
	talk_close(talk);
}

/* An unknown reservation is charged to the descriptors in the command. */
static void test_unknown(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	say_array(talk, "WEIR.CHECK api user 7");
	expect_array(talk, "WEIR.COMMIT x 5", SETTLED("$7\r\nunknown", "0", "0"));
	expect_array(talk, "WEIR.CANCEL x", SETTLED("$7\r\nunknown", "0", "0"));
	expect_array(talk, "WEIR.COMMIT x 1 api user 7", SETTLED("$7\r\nunknown", "0", "1"));
	say_array(talk, "WEIR.PEEK api user 7");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:1\r\n"));
	expect_array(talk, "WEIR.COMMIT x 4 api user 7", SETTLED("$7\r\nunknown", "0", "4"));
	say_array(talk, "WEIR.PEEK api user 7");
	assert_non_null(strstr(talk->replies, "refuse"));
	talk_close(talk);
}

static void test_errors(void **state)
{
	static const struct {
		const char *words, *error;
	} cases[] = {
		{"WEIR.RESERVE api TTL 0 user 7",
		 "-ERR syntax error: TTL needs an integer from 1 to 86400\r\n"},
		{"WEIR.RESERVE api TTL 86401 user 7",
		 "-ERR syntax error: TTL needs an integer from 1 to 86400\r\n"},
		{"WEIR.RESERVE api TTL 30", "-ERR syntax error: a descriptor has no keys\r\n"},
		{"WEIR.COMMIT x", "-ERR wrong number of arguments for 'weir.commit' command\r\n"},
		{"WEIR.COMMIT x -1",
		 "-ERR the actual cost must be an integer from 0 to 4294967295\r\n"},
		{"WEIR.COMMIT x 1 api", "-ERR syntax error: a descriptor has no keys\r\n"},
		{"WEIR.COMMIT x 1 api user", "-ERR syntax error: a key has no value\r\n"},
		{"WEIR.COMMIT x 1 api HITS 2 user 7",
		 "-ERR syntax error: this command does not accept HITS\r\n"},
		{"WEIR.RESERVE api TTL 5 TTL 6 user 7", MISPLACED("TTL")},
		{"WEIR.ACQUIRE api TTL 5 ttl 6 user 7", MISPLACED("TTL")},
		{"WEIR.RESERVE api HITS 2 TTL 6 user 7", MISPLACED("TTL")},
		{"WEIR.RESERVE api user 7 TTL 6", MISPLACED("TTL")},
		{"WEIR.RESERVE api user 7 | TTL 6 user 8", MISPLACED("TTL")},
		{"WEIR.RESERVE api HITS 2 HITS 3 user 7",
		 "-ERR syntax error: HITS is given twice\r\n"},
		{"WEIR.RESERVE api user 7 | hits 2 HITS 3 user 7",
		 "-ERR syntax error: HITS is given twice\r\n"},
		{"WEIR.RESERVE api FROM a FROM b user 7",
		 "-ERR syntax error: FROM is given twice\r\n"},
		{"WEIR.RESERVE api FROM a TTL 5",
		 "-ERR syntax error: FROM needs a source, a key and a value\r\n"},
		{"WEIR.COMMIT x 1 api FROM a FROM b user 7",
		 "-ERR syntax error: FROM is given twice\r\n"},
		{"WEIR.CANCEL x x", "-ERR wrong number of arguments for 'weir.cancel' command\r\n"},
		{"WEIR.RELEASE x 1",
		 "-ERR wrong number of arguments for 'weir.release' command\r\n"},
	};
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_array(talk, cases[i].words, cases[i].error);
	say_array(talk, "WEIR.RESERVE api TTL 5 \\TTL 6"); /* a key */
	assert_non_null(strstr(talk->replies, "$16\r\nexpires_after_ms\r\n:5000\r\n"));
	talk->session.operates = true;
	expect_array(talk, "WEIR.RESERVE api HITS -1 user 7",
		     "-ERR syntax error: HITS needs an integer from 0 to 4294967295\r\n");
	say_array(talk, "WEIR.PEEK api user 7");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:3\r\n"));
	talk_close(talk);
}

/* Reservations work in a transaction, like other commands. */
static void test_transaction(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	say_array(talk, "MULTI");
	expect_array(talk, "WEIR.RESERVE api HITS 3 user 7", "+QUEUED\r\n");
	expect_array(talk, "WEIR.COMMIT x 0", "+QUEUED\r\n");
	say_array(talk, "EXEC");
	assert_non_null(strstr(talk->replies, SETTLED("$7\r\nunknown", "0", "0")));
	assert_string_equal(say_about(talk, "WEIR.COMMIT", token_of(talk), " 2"),
			    SETTLED("$7\r\nsettled", "1", "0"));
	talk_close(talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve_and_commit),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_transaction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
