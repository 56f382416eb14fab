/* Implements breaker.h. */
#include "client/breaker.h"

#define PROBE_GUESS_NS 1000000000ull /* until the result of a probe may be known */

static const struct wr_breaker_settings settings = {
	.failures = 5,
	.trials = 1,
	.pause_ns = 1000000000,
	.pause_max_ns = 60000000000,
};

bool wr_polite_breaker_pass(struct wr_breaker *breaker, uint64_t now_ns, uint64_t *again_ns)
{
	if (breaker->state == WR_BREAKER_OPEN && now_ns >= breaker->probe_at_ns)
		wr_breaker_half_open(breaker, &settings);
	if (wr_breaker_pass(breaker))
		return true;
	*again_ns =
		breaker->state == WR_BREAKER_OPEN ? breaker->probe_at_ns : now_ns + PROBE_GUESS_NS;
	return false;
}

void wr_polite_breaker_report(struct wr_breaker *breaker, enum wr_polite_outcome outcome,
			      uint64_t now_ns, uint64_t random)
{
	if (outcome == WR_POLITE_WORKS)
		wr_breaker_succeeded(breaker);
	else if (outcome == WR_POLITE_FAILED)
		wr_breaker_failed(breaker, &settings, now_ns, random);
	else if (breaker->state == WR_BREAKER_HALF_OPEN)
		/* The probe ended without a result, so another probe is needed. */
		wr_breaker_half_open(breaker, &settings);
}

enum wr_polite_outcome wr_polite_outcome(bool failed, int status, uint64_t wait_ns)
{
	if (failed)
		return WR_POLITE_FAILED;
	if (wait_ns)
		return WR_POLITE_WORKS;
	return status == 500 || (status >= 502 && status <= 504) ? WR_POLITE_FAILED
								 : WR_POLITE_WORKS;
}
