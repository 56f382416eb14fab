/* Implements retry.h. */
#include "client/retry.h"

#include "base/str.h"

#define TENTHS_PER_RETRY 10u
#define STEP_MAX 20u /* keeps the shift in choose_pause() small */

void wr_retry_budget_init(struct wr_retry_budget *budget)
{
	budget->tenths = WR_RETRY_TENTHS_MAX;
}

void wr_retry_earn(struct wr_retry_budget *budget)
{
	if (budget->tenths < WR_RETRY_TENTHS_MAX)
		budget->tenths++;
}

static bool spend(struct wr_retry_budget *budget)
{
	if (budget->tenths < TENTHS_PER_RETRY)
		return false;
	budget->tenths -= TENTHS_PER_RETRY;
	return true;
}

static bool may_succeed_later(const struct wr_retry_attempt *attempt)
{
	return attempt->failed || attempt->refused || attempt->status == 429 ||
	       (attempt->status >= 502 && attempt->status <= 504);
}

/* A method that may run twice (RFC 9110, section 9.2.2). Methods are case-sensitive. */
static bool is_idempotent(struct weir_str method)
{
	static const struct weir_str methods[] = {
		{"GET", 3}, {"HEAD", 4}, {"PUT", 3}, {"DELETE", 6}, {"OPTIONS", 7}, {"TRACE", 5},
	};

	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (wr_str_equal(method, methods[i]))
			return true;
	return false;
}

bool wr_retry_may_repeat(struct weir_str method, bool idempotency_key)
{
	return idempotency_key || is_idempotent(method);
}

/* Returns the random wait after attempt `number`: full jitter. */
static uint64_t choose_pause(const struct wr_retry_settings *settings, uint32_t number,
			     uint64_t random)
{
	uint64_t base = settings->base_ns ? settings->base_ns : WR_RETRY_BASE_NS;
	uint64_t most = settings->pause_max_ns ? settings->pause_max_ns : WR_RETRY_PAUSE_MAX_NS;
	uint32_t step = number - 1 < STEP_MAX ? number - 1 : STEP_MAX;
	uint64_t top = base > most >> step ? most : base << step;

	return random % (top + 1);
}

static uint64_t rest_of_wait(const struct wr_retry_attempt *attempt)
{
	return attempt->wait_ns > attempt->waited_ns ? attempt->wait_ns - attempt->waited_ns : 0;
}

enum wr_retry_verdict wr_retry_decide(const struct wr_retry_settings *settings,
				      struct wr_retry_budget *budget,
				      const struct wr_retry_attempt *attempt, uint64_t now_ns,
				      uint64_t random, uint64_t *at_ns)
{
	uint32_t most = settings->attempts_max ? settings->attempts_max : WR_RETRY_ATTEMPTS;

	if (!may_succeed_later(attempt))
		return WR_RETRY_NOT_FAILED;
	if (!attempt->unsent && !wr_retry_may_repeat(attempt->method, attempt->idempotency_key))
		return WR_RETRY_METHOD;
	if (attempt->number >= most)
		return WR_RETRY_ATTEMPTS_USED;
	*at_ns = now_ns + rest_of_wait(attempt) + choose_pause(settings, attempt->number, random);
	if (attempt->deadline_ns && *at_ns > attempt->deadline_ns)
		return WR_RETRY_DEADLINE;
	if (!attempt->wait_ns && !attempt->stale && !spend(budget))
		return WR_RETRY_BUDGET;
	return WR_RETRY_YES;
}

const char *wr_retry_text(enum wr_retry_verdict verdict)
{
	static const char *const texts[] = {
		[WR_RETRY_YES] = "the request is tried again",
		[WR_RETRY_NOT_FAILED] = "the response is final",
		[WR_RETRY_METHOD] = "the method is not idempotent and has no Idempotency-Key",
		[WR_RETRY_ATTEMPTS_USED] = "all attempts are used",
		[WR_RETRY_DEADLINE] = "the next attempt would start after the deadline",
		[WR_RETRY_BUDGET] = "the retry budget of the host is used up",
	};

	return texts[verdict];
}
