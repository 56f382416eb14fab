/* After a billion steps the number of admitted requests is exactly time · rate, so rounding errors
 * do not add up. */
#include "algo/algo_test.h"
#include "algo/token.h"

/* Asks for 1 every step_ns, which is less than a token's time, starting with an empty bucket. Each
 * token is taken as soon as it has flowed in, so the number admitted is floor(time · rate). */
static uint64_t admitted(const struct weir_limit *l, uint64_t start_ns, uint64_t step_ns,
			 uint64_t steps)
{
	struct weir_state s = {0};
	struct weir_decision d;
	uint64_t sum = 0;

	wr_token_step(l, l->capacity, &s, l->capacity, start_ns, &d);
	for (uint64_t i = 1; i <= steps; i++) {
		wr_token_step(l, l->capacity, &s, 1, start_ns + i * step_ns, &d);
		sum += d.admitted;
	}
	return sum;
}

static uint64_t expected(const struct weir_limit *l, uint64_t step_ns, uint64_t steps)
{
	return (uint64_t)((unsigned __int128)step_ns * steps * l->limit / l->period_ns);
}

/* 3 per second, with each request 1/3 ns before its token: a drift of one ns in 10^9 steps would
 * change the result. */
static void three_per_second(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 3, .burst = 5, .period_ns = SECOND);

	(void)unused;
	assert_int_equal(expected(&l, 333333333, 1000000000), 999999999);
	assert_int_equal(admitted(&l, T0, 333333333, 1000000000), 999999999);
}

static void an_awkward_rate(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 4294967291u,
				    .burst = 17, .period_ns = 7 * SECOND);

	(void)unused;
	assert_int_equal(expected(&l, 1, 100000000), 61356675);
	assert_int_equal(admitted(&l, T0, 1, 100000000), 61356675);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_per_second),
		cmocka_unit_test(an_awkward_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
