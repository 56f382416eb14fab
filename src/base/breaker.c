/* Implements breaker.h. */
#include "base/breaker.h"

#define STEP_MAX 16u /* maximum of wr_breaker.step; keeps the shift in choose_pause() small */

static uint64_t choose_pause(const struct wr_breaker_settings *settings, uint32_t step,
			     uint64_t random)
{
	uint64_t whole = settings->pause_ns << step;

	if (whole > settings->pause_max_ns)
		whole = settings->pause_max_ns;
	return whole - random % (whole / 2);
}

bool wr_breaker_pass(struct wr_breaker *breaker)
{
	if (breaker->state == WR_BREAKER_CLOSED)
		return true;
	if (breaker->state == WR_BREAKER_OPEN || breaker->trials == 0)
		return false;
	breaker->trials--;
	return true;
}

bool wr_breaker_succeeded(struct wr_breaker *breaker)
{
	breaker->failures = 0;
	if (breaker->state != WR_BREAKER_HALF_OPEN)
		/* In state open, a success does not close the breaker: it belongs to a call that
		 * was sent before the breaker opened. */
		return false;
	*breaker = (struct wr_breaker){.state = WR_BREAKER_CLOSED};
	return true;
}

bool wr_breaker_failed(struct wr_breaker *breaker, const struct wr_breaker_settings *settings,
		       uint64_t mono_ns, uint64_t random)
{
	if (breaker->state == WR_BREAKER_OPEN)
		return false;
	if (breaker->state == WR_BREAKER_CLOSED && ++breaker->failures < settings->failures)
		return false;
	wr_breaker_open(breaker, settings, mono_ns, random);
	return true;
}

void wr_breaker_open(struct wr_breaker *breaker, const struct wr_breaker_settings *settings,
		     uint64_t mono_ns, uint64_t random)
{
	breaker->probe_at_ns = mono_ns + choose_pause(settings, breaker->step, random);
	if (breaker->step < STEP_MAX)
		breaker->step++;
	breaker->state = WR_BREAKER_OPEN;
	breaker->failures = 0;
}

void wr_breaker_half_open(struct wr_breaker *breaker, const struct wr_breaker_settings *settings)
{
	breaker->state = WR_BREAKER_HALF_OPEN;
	breaker->trials = settings->trials;
	breaker->failures = 0;
}
