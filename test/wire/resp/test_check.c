/* Tests WEIR.CHECK, WEIR.PEEK and WEIR.RESET. The time is 2026-11-16 00:00:00 UTC, when windows
 * begin. */
#include "wire/resp/talk.h"

#include <string.h>

/* Parts of replies. */
#define TEXT(len, text) "$" len "\r\n" text
#define LIMIT(limit, remaining, reset, rule)                                                       \
	"$5\r\nlimit\r\n" limit "\r\n$9\r\nremaining\r\n" remaining                                \
	"\r\n$14\r\nreset_after_ms\r\n" reset "\r\n$4\r\nrule\r\n" rule "\r\n"
#define HEAD(verdict, limit, remaining, reset, rule)                                               \
	"$7\r\nverdict\r\n" verdict "\r\n" LIMIT(limit, remaining, reset, rule)
#define CODE(code) "$4\r\ncode\r\n" code "\r\n"
#define USER TEXT("11", "api/user/1m")
#define SLOW TEXT("24", "api/user/path=%2Fslow/1s")
#define WAITS(retry, delay)                                                                        \
	"$14\r\nretry_after_ms\r\n:" retry "\r\n$8\r\ndelay_ms\r\n:" delay "\r\n"
#define STATUS(status) "$6\r\nstatus\r\n:" status "\r\n"

static void test_check(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "WEIR.CHECK api user 7",
		     "*16\r\n" HEAD("$5\r\nadmit", ":3", ":2", ":60000", USER) WAITS("0", "0")
			     STATUS("200"));
	expect_array(talk, "WEIR.PEEK api user 7",
		     "*16\r\n" HEAD("$5\r\nadmit", ":3", ":2", ":60000", USER) WAITS("0", "0")
			     STATUS("200"));
	say_array(talk, "HELLO 3");
	talk->rig.now_ns += 1500000;
	expect_array(talk, "weir.check api hits 2 user 7",
		     "%8\r\n" HEAD("$5\r\nadmit", ":3", ":0", ":59999", USER) WAITS("0", "0")
			     STATUS("200"));
	expect_array(talk, "WEIR.CHECK api user 7",
		     "%8\r\n" HEAD("$6\r\nrefuse", ":3", ":0", ":59999", USER) WAITS("59999", "0")
			     STATUS("429"));
	expect_array(talk, "WEIR.PEEK api user 7",
		     "%8\r\n" HEAD("$6\r\nrefuse", ":3", ":0", ":59999", USER) WAITS("59999", "0")
			     STATUS("429"));
	talk->session.operates = true;
	expect_array(
		talk, "WEIR.CHECK api HITS -1 user 7",
		"-ERR syntax error: negative HITS need TAKENAT, the time at which the units were "
		"taken; WEIR.RESERVE and WEIR.COMMIT give units back exactly\r\n");
	/* The units of the minute before are gone. */
	expect_array(talk, "WEIR.CHECK api TAKENAT 1794787199999 HITS -1 user 7",
		     "%8\r\n" HEAD("$5\r\nadmit", ":3", ":0", ":59999", USER) WAITS("0", "0")
			     STATUS("200"));
	expect_array(talk, "WEIR.CHECK api TAKENAT 1794787200001 HITS -1 user 7",
		     "%8\r\n" HEAD("$5\r\nadmit", ":3", ":1", ":59999", USER) WAITS("0", "0")
			     STATUS("200"));
	assert_int_equal(talk->host->tally.limited, 2);
	talk_close(talk);
}

/* If no limit applies, the numbers are null. */
static void test_no_limit(void **state)
{
	static const char free_two[] = "*16\r\n" HEAD("$5\r\nadmit", "$-1", "$-1", "$-1", "$-1")
		WAITS("0", "0") STATUS("200");
	static const char free_three[] =
		"%8\r\n" HEAD("$5\r\nadmit", "_", "_", "_", "_") WAITS("0", "0") STATUS("200");
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "WEIR.CHECK api nobody 7", free_two);
	expect_array(talk, "WEIR.CHECK nosuch user 7", free_two);
	say_array(talk, "HELLO 3");
	expect_array(talk, "WEIR.CHECK nosuch user 7", free_three);
	talk_close(talk);
}

/* A limit of 0 never admits. A leaky bucket of 2 per second delays by half a second. */
static void test_never_and_later(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	say_array(talk, "WEIR.CHECK api shut x");
	assert_non_null(strstr(talk->replies, "refuse"));
	assert_non_null(strstr(talk->replies, STATUS("429")));
	say_array(talk, "WEIR.CHECK api queue x");
	assert_non_null(strstr(talk->replies, "$5\r\nadmit"));
	say_array(talk, "WEIR.CHECK api queue x");
	assert_non_null(strstr(talk->replies, "$5\r\ndelay"));
	assert_non_null(strstr(talk->replies, WAITS("0", "500")));
	talk_close(talk);
}

/* Either all descriptors take units or none of them does. The reply lists each descriptor. */
static void test_descriptors(void **state)
{
	struct talk *talk = talk_open(NULL);
	static const char refused[] = "*18\r\n" HEAD(TEXT("6", "refuse"), ":1", ":0", ":1000",
						     SLOW) WAITS("1000", "0") STATUS("429")
		TEXT("11", "descriptors") "\r\n*2\r\n"
					  "*14\r\n" CODE(TEXT("2", "ok"))
						  LIMIT(":3", ":2", ":60000", USER)
							  WAITS("0", "0") "*14\r\n" CODE(
								  TEXT("10", "over_limit"))
								  LIMIT(":1", ":0", ":1000", SLOW)
									  WAITS("1000", "0");

	(void)state;
	say_array(talk, "WEIR.CHECK api user 7 | user 7 path /slow");
	assert_non_null(strstr(talk->replies, "$5\r\nadmit"));
	expect_array(talk, "WEIR.CHECK api user 7 | user 7 path /slow", refused);
	talk_close(talk);
}

/* HITS applies to all descriptors after it until the next HITS. A limit of 7 an hour refuses 2 + 3
 * + 3 hits and admits 2 + 2 + 3 hits. */
static void test_hits(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	say_array(talk, "WEIR.CHECK api HITS 2 \\hits a | HITS 3 \\hits a | \\hits a");
	assert_non_null(strstr(talk->replies, "$6\r\nrefuse"));
	say_array(talk, "WEIR.CHECK api HITS 2 \\hits a | \\hits a | HITS 3 \\hits a");
	assert_non_null(strstr(talk->replies, "$5\r\nadmit"));
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:0\r\n"));
	talk_close(talk);
}

/* Keys that are equal to the words HITS, FROM and |. */
static void test_escapes(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	say_array(talk, "WEIR.CHECK api \\hits a");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:6\r\n"));
	say_array(talk, "WEIR.CHECK api HITS 2 \\hits a");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:4\r\n"));
	say_array(talk, "WEIR.CHECK api \\\\hits a"); /* the key is \hits */
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n$-1\r\n"));
	/* a value that is equal to a word needs no backslash */
	say_array(talk, "WEIR.CHECK api user |");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:2\r\n"));
	/* the same value from two sources has two counters */
	say_array(talk, "WEIR.CHECK api FROM header.x-user user |");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:2\r\n"));
	say_array(talk, "WEIR.CHECK api user |");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:1\r\n"));
	talk_close(talk);
}

static void test_syntax(void **state)
{
	static const struct {
		const char *words, *reply;
	} cases[] = {
		{"WEIR.CHECK api user",
		 "-ERR wrong number of arguments for 'weir.check' command\r\n"},
		{"WEIR.CHECK api user 7 path", "-ERR syntax error: a key has no value\r\n"},
		{"WEIR.CHECK api user 7 |",
		 "-ERR syntax error: no descriptor follows the last |\r\n"},
		{"WEIR.CHECK api | user 7", "-ERR syntax error: a descriptor has no keys\r\n"},
		{"WEIR.CHECK api HITS 3", "-ERR syntax error: a descriptor has no keys\r\n"},
		{"WEIR.CHECK api TAKENAT 1 TAKENAT 2 user 7",
		 "-ERR syntax error: TAKENAT can be given once, directly after the domain; a key "
		 "of that name needs a backslash\r\n"},
		{"WEIR.CHECK api HITS 1 HITS 2 user 7",
		 "-ERR syntax error: HITS is given twice\r\n"},
		{"WEIR.CHECK api TAKENAT x user 7",
		 "-ERR syntax error: TAKENAT needs an integer from 1 to 9000000000000\r\n"},
		{"WEIR.CHECK api HITS x user 7",
		 "-ERR syntax error: HITS needs an integer from -4294967295 to 4294967295\r\n"},
		{"WEIR.CHECK api HITS 4294967296 user 7",
		 "-ERR syntax error: HITS needs an integer from -4294967295 to 4294967295\r\n"},
		{"WEIR.CHECK api user 7 HITS 2",
		 "-ERR syntax error: HITS must come before the first key of a descriptor\r\n"},
		{"WEIR.CHECK api FROM x user",
		 "-ERR syntax error: FROM needs a source, a key and a value\r\n"},
		{"WEIR.PEEK api HITS 2 user 7",
		 "-ERR syntax error: this command does not accept HITS\r\n"},
	};
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_array(talk, cases[i].words, cases[i].reply);
	say_array(talk, "WEIR.CHECK api user 7"); /* shows that nothing was taken */
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:2\r\n"));
	talk_close(talk);
}

static void test_too_many(void **state)
{
	struct talk *talk = talk_open(NULL);
	char words[2048] = "WEIR.CHECK api a 1";

	(void)state;
	append(words, sizeof words, " | a 1", 31);
	assert_memory_equal(say_array(talk, words), "*18\r\n", 5);
	append(words, sizeof words, " | a 1", 1);
	assert_non_null(strstr(say_array(talk, words), "$7\r\nverdict\r\n$6\r\nrefuse\r\n"));
	assert_non_null(strstr(talk->replies, "$6\r\nstatus\r\n:429\r\n"));
	words[0] = '\0';
	append(words, sizeof words, "WEIR.CHECK api", 1);
	append(words, sizeof words, " a 1", 32);
	assert_memory_equal(say_array(talk, words), "*16\r\n", 5);
	append(words, sizeof words, " a 1", 1);
	expect_array(talk, words,
		     "-ERR syntax error: a descriptor may have at most 32 entries\r\n");
	talk_close(talk);
}

static void test_shadow(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	talk->host->shadow = true;
	say_array(talk, "WEIR.CHECK api HITS 3 user 7");
	expect_array(talk, "WEIR.CHECK api user 7",
		     "*16\r\n" HEAD("$5\r\nadmit", ":3", ":0", ":60000", USER) WAITS("0", "0")
			     STATUS("200"));
	assert_int_equal(talk->host->tally.limited, 1);
	talk_close(talk);
}

/* The reply of WEIR.RESET is the number of counters that were reset. Only some clients may
 * reset. */
static void test_reset(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "WEIR.RESET api user 7",
		     "-NOPERM 'weir.reset' is allowed only for root and the service's user on a "
		     "Unix socket, clients with an address of --refunds, and clients with a "
		     "password (--resp-password-file)\r\n");
	talk->session.operates = true;
	say_array(talk, "WEIR.CHECK api HITS 3 user 7");
	say_array(talk, "WEIR.CHECK api HITS 2 user 8");
	expect_array(talk, "WEIR.RESET api user 7 | user",
		     "-ERR syntax error: a key has no value\r\n");
	say_array(talk, "WEIR.PEEK api user 7");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:0\r\n"));
	expect_array(talk, "WEIR.RESET api user 7 | user 7 path /slow", ":2\r\n");
	say_array(talk, "WEIR.PEEK api user 7");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:3\r\n"));
	say_array(talk, "WEIR.PEEK api user 8");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:1\r\n"));
	expect_array(talk, "WEIR.RESET api nobody 7", ":0\r\n");
	expect_array(talk, "WEIR.RESET nosuch user 7", ":0\r\n");
	talk_close(talk);
}

/* Only a client of --refunds or with a password may send negative hits. */
static void test_giving_back_needs_a_right(void **state)
{
	static const char no[] = "-NOPERM a negative number gives counted units back, and this "
				 "client is not allowed to do that; add its address to --refunds, "
				 "or use a password (--resp-password-file)\r\n";
	struct talk *talk = talk_open(NULL);

	(void)state;
	say_array(talk, "WEIR.CHECK api HITS 3 user 7");
	expect_array(talk, "WEIR.CHECK api HITS -3 user 7", no);
	expect_array(talk, "WEIR.CHECK api HITS 1 user 8 | HITS -3 user 7", no);
	say_array(talk, "MULTI");
	say_array(talk, "WEIR.CHECK api HITS -3 user 7");
	say_array(talk, "EXEC");
	assert_non_null(strstr(talk->replies, no));
	say_array(talk, "WEIR.PEEK api user 7 | user 8");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:0\r\n"));
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:3\r\n"));
	talk_close(talk);
	talk = talk_open("secret-of-the-operator");
	say_array(talk, "AUTH secret-of-the-operator");
	say_array(talk, "WEIR.CHECK api HITS 3 user 7");
	say_array(talk, "WEIR.CHECK api TAKENAT 1794787200000 HITS -2 user 7");
	assert_non_null(strstr(talk->replies, "$9\r\nremaining\r\n:2\r\n"));
	expect_array(talk, "WEIR.RESET api user 7", ":1\r\n");
	talk_close(talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_never_and_later),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_hits),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_syntax),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_shadow),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_giving_back_needs_a_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
