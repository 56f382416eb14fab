/* Tests the exact numbers of CL.THROTTLE and THROTTLE. A bucket that lacks n tokens is full after n
 * × period ÷ count. */
#include "wire/resp/talk.h"

#include <stdio.h>

#define MS_NS 1000000ull

/* A bucket of 16 tokens that gets 30 tokens a minute: one token every 2 s. */
static void test_example_of_redis_cell(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "CL.THROTTLE user123 15 30 60 1",
		     "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
	expect_array(talk, "cl.throttle user123 15 30 60",
		     "*5\r\n:0\r\n:16\r\n:14\r\n:-1\r\n:4\r\n");
	talk_close(talk);
}

struct step {
	unsigned at_ms;
	int quantity;
	const char *reply;
};

static void play(struct talk *talk, const char *limit, const struct step *steps, size_t count)
{
	uint64_t start_ns = talk->rig.now_ns;
	char words[128];

	for (size_t i = 0; i < count; i++) {
		talk->rig.now_ns = start_ns + steps[i].at_ms * MS_NS;
		snprintf(words, sizeof words, "%s %d", limit, steps[i].quantity);
		expect_array(talk, words, steps[i].reply);
	}
}

/* A bucket of 5 tokens that gets 1 token a second. */
static void test_a_busy_key(void **state)
{
	static const struct step steps[] = {
		/* more than the bucket holds: no wait suffices */
		{0, 6, "*5\r\n:1\r\n:5\r\n:5\r\n:-1\r\n:0\r\n"},
		{0, 1, "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n"},
		{0, 3, "*5\r\n:0\r\n:5\r\n:1\r\n:-1\r\n:4\r\n"},
		{0, 2, "*5\r\n:1\r\n:5\r\n:1\r\n:1\r\n:4\r\n"},
		{0, 1, "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:5\r\n"},
		{0, 1, "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:5\r\n"},
		/* a quantity of 0 is admitted by an empty bucket, and takes nothing */
		{0, 0, "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:5\r\n"},
		/* waits are rounded up: 0.9 s and 4.9 s, then 1 ms and 4.001 s */
		{100, 1, "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:5\r\n"},
		{999, 1, "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:5\r\n"},
		{1000, 1, "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:5\r\n"},
		/* two and a half tokens have refilled */
		{3500, 1, "*5\r\n:0\r\n:5\r\n:1\r\n:-1\r\n:4\r\n"},
		{3500, 3, "*5\r\n:1\r\n:5\r\n:1\r\n:2\r\n:4\r\n"},
		/* tokens given back are available again, up to a full bucket */
		{3500, -2, "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:2\r\n"},
		{3500, -9, "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n"},
		{9000, 0, "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n"},
	};
	struct talk *talk = talk_open(NULL);

	(void)state;
	talk->session.operates = true;
	play(talk, "CL.THROTTLE busy 4 1 1", steps, sizeof steps / sizeof *steps);
	talk_close(talk);
}

/* A burst of 0 is a bucket of 1. */
static void test_no_burst(void **state)
{
	static const struct step steps[] = {
		{0, 1, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n"},
		{50, 1, "*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n"},
		{100, 1, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n"},
	};
	struct talk *talk = talk_open(NULL);

	(void)state;
	play(talk, "CL.THROTTLE steady 0 10 1", steps, 3);
	talk_close(talk);
}

/* The limit may change with every call, and the counter stays. If 9 of 10 tokens are taken and the
 * limit is lowered to 3, the bucket is overdrawn by 6. A quantity of 0 is then refused, and retry
 * after is the time until the bucket is not overdrawn. */
static void test_another_limit(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "CL.THROTTLE k 9 1 1 9", "*5\r\n:0\r\n:10\r\n:1\r\n:-1\r\n:9\r\n");
	expect_array(talk, "CL.THROTTLE k 2 1 1 0", "*5\r\n:1\r\n:3\r\n:0\r\n:6\r\n:9\r\n");
	expect_array(talk, "CL.THROTTLE k 2 1 1 1", "*5\r\n:1\r\n:3\r\n:0\r\n:7\r\n:9\r\n");
	expect_array(talk, "CL.THROTTLE k 19 1 1 1", "*5\r\n:0\r\n:20\r\n:10\r\n:-1\r\n:10\r\n");
	expect_array(talk, "CL.THROTTLE other 2 1 1 1", "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:1\r\n");
	talk_close(talk);
}

/* The reply of THROTTLE has: allowed, limit, remaining, reset, retry. The bucket holds max_burst
 * tokens. With 100 tokens per minute, a token comes back after 0.6 s. */
static void test_throttlecrab(void **state)
{
	static const struct step steps[] = {
		{0, 1, "*5\r\n:1\r\n:3\r\n:2\r\n:1\r\n:0\r\n"},
		{0, 2, "*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:0\r\n"},
		{0, 1, "*5\r\n:0\r\n:3\r\n:0\r\n:2\r\n:1\r\n"},
		{0, 0, "*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:0\r\n"},
		{600, 1, "*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:0\r\n"},
		{600, 4, "*5\r\n:0\r\n:3\r\n:0\r\n:2\r\n:-1\r\n"},
	};
	struct talk *talk = talk_open(NULL);

	(void)state;
	play(talk, "THROTTLE crab 3 100 60", steps, sizeof steps / sizeof *steps);
	talk_close(talk);
}

/* CL.THROTTLE and THROTTLE use the same counter of a key. */
static void test_one_key(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "CL.THROTTLE k 4 1 1", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n");
	expect_array(talk, "THROTTLE k 5 1 1", "*5\r\n:1\r\n:5\r\n:3\r\n:2\r\n:0\r\n");
	talk_close(talk);
}

static void test_wrong_numbers(void **state)
{
	static const struct {
		const char *words, *reply;
	} cases[] = {
		{"CL.THROTTLE k -1 1 1", "-ERR max_burst is not an integer or out of range "
					 "(0 to 4294967294)\r\n"},
		{"CL.THROTTLE k 4294967295 1 1", "-ERR max_burst is not an integer or out of range "
						 "(0 to 4294967294)\r\n"},
		{"CL.THROTTLE k x 1 1", "-ERR max_burst is not an integer or out of range "
					"(0 to 4294967294)\r\n"},
		{"CL.THROTTLE k 1 0 1", "-ERR count is not an integer or out of range "
					"(1 to 4294967295)\r\n"},
		{"CL.THROTTLE k 1 1 0", "-ERR period is not an integer or out of range "
					"(1 to 3155760000)\r\n"},
		{"CL.THROTTLE k 1 1 1 1.5", "-ERR quantity is not an integer or out of range "
					    "(-4294967295 to 9223372036854775807)\r\n"},
		{"THROTTLE k 0 1 1", "-ERR max_burst is not an integer or out of range "
				     "(1 to 4294967295)\r\n"},
		{"THROTTLE k 1 1 1 -1", "-ERR quantity is not an integer or out of range "
					"(0 to 9223372036854775807)\r\n"},
		{"CL.THROTTLE k 1 1",
		 "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
		{"CL.THROTTLE k 1 1 1 1 1",
		 "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
		{"CL.THROTTLE k 4294967294 1 3155760000",
		 "-ERR a bucket of 4294967295 units takes more than 100 years to fill at 1 per "
		 "period; make the bucket smaller or the rate higher\r\n"},
	};
	struct talk *talk = talk_open(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_array(talk, cases[i].words, cases[i].reply);
	/* An invalid limit is not remembered for the next command. */
	expect_array(talk, "CL.THROTTLE k 1 1 1", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
	expect_array(talk, "CL.THROTTLE large 4294967294 4294967295 1",
		     "*5\r\n:0\r\n:4294967295\r\n:4294967294\r\n:-1\r\n:1\r\n");
	expect_array(talk, "CL.THROTTLE k 1 1 1 9223372036854775807",
		     "*5\r\n:1\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
	talk_close(talk);
}

static void test_shadow(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	talk->host->shadow = true;
	expect_array(talk, "CL.THROTTLE k 0 1 1", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n");
	expect_array(talk, "CL.THROTTLE k 0 1 1", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n");
	assert_int_equal(talk->host->tally.limited, 1);
	talk_close(talk);
}

static void test_giving_back_needs_a_right(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "CL.THROTTLE k 4 1 60 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:300\r\n");
	expect_array(talk, "CL.THROTTLE k 4 1 60 -5",
		     "-NOPERM a negative number gives counted units back, and this client is not "
		     "allowed to do that; add its address to --refunds, or use a password "
		     "(--resp-password-file)\r\n");
	expect_array(talk, "CL.THROTTLE k 4 1 60 0", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:300\r\n");
	talk_close(talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_example_of_redis_cell),
		cmocka_unit_test(test_a_busy_key),
		cmocka_unit_test(test_giving_back_needs_a_right),
		cmocka_unit_test(test_no_burst),
		cmocka_unit_test(test_another_limit),
		cmocka_unit_test(test_throttlecrab),
		cmocka_unit_test(test_one_key),
		cmocka_unit_test(test_wrong_numbers),
		cmocka_unit_test(test_shadow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
