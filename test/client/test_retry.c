/* Retries: what is retried, when, and for how long the budget lasts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "client/retry.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1000 * SECOND_NS)

static const struct wr_retry_settings defaults;

static struct wr_retry_attempt get(int status)
{
	return (struct wr_retry_attempt){.method = WR_STR("GET"), .status = status, .number = 1};
}

/* Decides with a full budget. */
static enum wr_retry_verdict decide(const struct wr_retry_attempt *attempt, uint64_t random,
				    uint64_t *at_ns)
{
	struct wr_retry_budget budget;

	wr_retry_budget_init(&budget);
	return wr_retry_decide(&defaults, &budget, attempt, NOW_NS, random, at_ns);
}

static enum wr_retry_verdict verdict(struct wr_retry_attempt attempt)
{
	uint64_t at_ns;

	return decide(&attempt, 0, &at_ns);
}

static void statuses_are_told_apart(void **state)
{
	static const int retried[] = {429, 502, 503, 504};
	static const int final[] = {200, 204, 301, 304, 400, 401, 403,
				    404, 408, 413, 500, 501, 505};

	(void)state;
	for (size_t i = 0; i < sizeof retried / sizeof *retried; i++)
		assert_int_equal(verdict(get(retried[i])), WR_RETRY_YES);
	for (size_t i = 0; i < sizeof final / sizeof *final; i++)
		assert_int_equal(verdict(get(final[i])), WR_RETRY_NOT_FAILED);
}

static void refusals_with_status_403_are_retried(void **state)
{
	struct wr_retry_attempt attempt = get(403);

	(void)state;
	attempt.refused = true;
	assert_int_equal(verdict(attempt), WR_RETRY_YES);
}

static void only_idempotent_methods_are_retried(void **state)
{
	static const char *const good[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
	static const char *const bad[] = {"POST", "PATCH", "CONNECT", "get", ""};
	struct wr_retry_attempt attempt = get(503);

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		attempt.method = wr_str(good[i]);
		assert_int_equal(verdict(attempt), WR_RETRY_YES);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		attempt.method = wr_str(bad[i]);
		assert_int_equal(verdict(attempt), WR_RETRY_METHOD);
	}
	attempt.method = WR_STR("POST");
	attempt.idempotency_key = true;
	assert_int_equal(verdict(attempt), WR_RETRY_YES);
	attempt = (struct wr_retry_attempt){
		.method = WR_STR("POST"), .failed = true, .unsent = true, .number = 1};
	assert_int_equal(verdict(attempt), WR_RETRY_YES);
	attempt.unsent = false;
	assert_int_equal(verdict(attempt), WR_RETRY_METHOD);
}

static void pauses_double_with_full_jitter(void **state)
{
	struct wr_retry_attempt attempt = get(503);
	struct wr_retry_settings settings = {.attempts_max = 100};
	struct wr_retry_budget budget;
	uint64_t at_ns;

	(void)state;
	wr_retry_budget_init(&budget);
	/* The pause after attempt 1 is at most 0.5 s, after attempt 2 at most 1 s. */
	assert_int_equal(decide(&attempt, 0, &at_ns), WR_RETRY_YES);
	assert_int_equal(at_ns, NOW_NS);
	decide(&attempt, 500000000, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 500000000);
	decide(&attempt, 500000001, &at_ns);
	assert_int_equal(at_ns, NOW_NS);
	attempt.number = 2;
	decide(&attempt, 1000000000, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 1000000000);
	attempt.number = 40;
	wr_retry_decide(&settings, &budget, &attempt, NOW_NS, 60 * SECOND_NS, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 60 * SECOND_NS);
	wr_retry_decide(&settings, &budget, &attempt, NOW_NS, 60 * SECOND_NS + 1, &at_ns);
	assert_int_equal(at_ns, NOW_NS);
}

static void no_retry_is_sooner_than_told(void **state)
{
	struct wr_retry_attempt attempt = get(429);
	uint64_t at_ns;

	(void)state;
	attempt.wait_ns = 30 * SECOND_NS;
	decide(&attempt, 0, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 30 * SECOND_NS);
	decide(&attempt, 400000000, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 30 * SECOND_NS + 400000000);
}

/* The wait begins with the header of the response, not with the end of its body. */
static void a_wait_is_told_before_the_body(void **state)
{
	struct wr_retry_attempt attempt = get(429);
	struct wr_retry_budget budget = {0};
	uint64_t at_ns;

	(void)state;
	attempt.wait_ns = 30 * SECOND_NS;
	attempt.waited_ns = 5 * SECOND_NS;
	decide(&attempt, 0, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 25 * SECOND_NS);
	attempt.waited_ns = 31 * SECOND_NS;
	decide(&attempt, 400000000, &at_ns);
	assert_int_equal(at_ns, NOW_NS + 400000000);
	/* The retry is free also after the wait has ended. */
	assert_int_equal(wr_retry_decide(&defaults, &budget, &attempt, NOW_NS, 0, &at_ns),
			 WR_RETRY_YES);
}

static void attempts_and_the_deadline_end_retries(void **state)
{
	struct wr_retry_attempt attempt = get(503);

	(void)state;
	attempt.number = 4;
	assert_int_equal(verdict(attempt), WR_RETRY_YES);
	attempt.number = 5;
	assert_int_equal(verdict(attempt), WR_RETRY_ATTEMPTS_USED);
	attempt = get(429);
	attempt.wait_ns = 30 * SECOND_NS;
	attempt.deadline_ns = NOW_NS + 30 * SECOND_NS;
	assert_int_equal(verdict(attempt), WR_RETRY_YES);
	attempt.deadline_ns--;
	assert_int_equal(verdict(attempt), WR_RETRY_DEADLINE);
}

/* Returns the number of retries in an outage of `requests` requests. */
static unsigned retries_of_outage(struct wr_retry_budget *budget, unsigned requests)
{
	struct wr_retry_attempt attempt = get(503);
	unsigned retries = 0;
	uint64_t at_ns;

	for (unsigned i = 0; i < requests; i++) {
		wr_retry_earn(budget);
		attempt.number = 1;
		while (wr_retry_decide(&defaults, budget, &attempt, NOW_NS, 0, &at_ns) ==
		       WR_RETRY_YES) {
			attempt.number++;
			retries++;
		}
	}
	return retries;
}

static void the_budget_limits_retries_in_an_outage(void **state)
{
	struct wr_retry_budget budget;

	(void)state;
	wr_retry_budget_init(&budget);
	/* 10 retries at the start, and one per 10 requests. */
	assert_int_equal(retries_of_outage(&budget, 1000), 109);
}

static void retries_that_the_server_asked_for_are_free(void **state)
{
	struct wr_retry_attempt attempt = get(429);
	struct wr_retry_budget budget = {0};
	uint64_t at_ns;

	(void)state;
	attempt.wait_ns = 1;
	assert_int_equal(wr_retry_decide(&defaults, &budget, &attempt, NOW_NS, 0, &at_ns),
			 WR_RETRY_YES);
	attempt.wait_ns = 0;
	assert_int_equal(wr_retry_decide(&defaults, &budget, &attempt, NOW_NS, 0, &at_ns),
			 WR_RETRY_BUDGET);
	assert_string_equal(wr_retry_text(WR_RETRY_BUDGET),
			    "the retry budget of the host is used up");
}

static void a_retry_after_a_kept_connection_ended_is_free(void **state)
{
	struct wr_retry_attempt attempt = {
		.method = WR_STR("GET"), .failed = true, .stale = true, .number = 1};
	struct wr_retry_budget budget = {0};
	uint64_t at_ns;

	(void)state;
	assert_int_equal(wr_retry_decide(&defaults, &budget, &attempt, NOW_NS, 0, &at_ns),
			 WR_RETRY_YES);
	attempt.method = WR_STR("POST");
	assert_int_equal(verdict(attempt), WR_RETRY_METHOD);
	attempt.method = WR_STR("GET");
	attempt.number = 5;
	assert_int_equal(verdict(attempt), WR_RETRY_ATTEMPTS_USED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statuses_are_told_apart),
		cmocka_unit_test(refusals_with_status_403_are_retried),
		cmocka_unit_test(only_idempotent_methods_are_retried),
		cmocka_unit_test(pauses_double_with_full_jitter),
		cmocka_unit_test(no_retry_is_sooner_than_told),
		cmocka_unit_test(a_wait_is_told_before_the_body),
		cmocka_unit_test(attempts_and_the_deadline_end_retries),
		cmocka_unit_test(the_budget_limits_retries_in_an_outage),
		cmocka_unit_test(retries_that_the_server_asked_for_are_free),
		cmocka_unit_test(a_retry_after_a_kept_connection_ended_is_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
