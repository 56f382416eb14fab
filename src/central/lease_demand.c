/* Computes the demand for units of a counter. The functions have no side effects. Called by lease.c
 * and lease_renew.c. */
#include "central/inner.h"

#include "base/assert.h"

#define DEMAND_MAX_M ((uint64_t)UINT32_MAX * 1000)

static uint64_t part_of(uint64_t whole, uint64_t numerator, uint64_t denominator)
{
	return (uint64_t)((unsigned __int128)whole * numerator / denominator);
}

uint64_t wr_central_lease_demand_add(uint64_t demand_m, uint64_t units, uint64_t elapsed_ns,
				     uint64_t ttl_ns)
{
	uint64_t more_m = units < UINT32_MAX ? units * 1000 : DEMAND_MAX_M;

	wr_assert(ttl_ns > 0);
	if (elapsed_ns >= ttl_ns)
		return part_of(more_m, ttl_ns, elapsed_ns);
	demand_m -= part_of(demand_m, elapsed_ns, ttl_ns);
	return demand_m + more_m < DEMAND_MAX_M ? demand_m + more_m : DEMAND_MAX_M;
}

uint32_t wr_central_lease_demand_units(uint64_t demand_m, uint64_t lasts_ns, uint64_t ttl_ns)
{
	wr_assert(ttl_ns > 0);
	if (lasts_ns < ttl_ns)
		demand_m = part_of(demand_m, lasts_ns, ttl_ns);
	return (uint32_t)((demand_m + 500) / 1000);
}

uint64_t wr_central_lease_window_left_ns(const struct wr_take *take, uint64_t now_us)
{
	if (take->algorithm != WEIR_FIXED_WINDOW && take->algorithm != WEIR_SLIDING_COUNTER)
		return UINT64_MAX;
	if (!take->window_end_us)
		return (take->period_us - now_us % take->period_us) * 1000;
	if (now_us < take->window_end_us)
		return (take->window_end_us - now_us) * 1000;
	if (now_us < take->window_after_us)
		return (take->window_after_us - now_us) * 1000;
	return UINT64_MAX;
}
