/* The demand of one client, see tune_demand.h. */
#include "lab/tune/demand.h"

#include "base/assert.h"

#define SECOND_NS 1000000000ull

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
#define UNIT_ROW(name, text, seconds) {text, (seconds)*SECOND_NS},
	WR_LAB_UNITS(UNIT_ROW)
#undef UNIT_ROW
};

const char *wr_lab_unit_name(enum wr_lab_unit unit)
{
	wr_assert(unit < WR_LAB_UNIT_COUNT);
	return units[unit].name;
}

uint64_t wr_lab_unit_ns(enum wr_lab_unit unit)
{
	wr_assert(unit < WR_LAB_UNIT_COUNT);
	return units[unit].ns;
}

/* ---- rates ---- */

static void fill_mixed(struct wr_lab_rate rates[WR_LAB_RATES])
{
	static const struct {
		uint32_t limit;
		enum wr_lab_unit unit;
	} mixed[WR_LAB_RATES] = {
		{1, WR_LAB_PER_HOUR},      {2, WR_LAB_PER_HOUR},      {5, WR_LAB_PER_HOUR},
		{10, WR_LAB_PER_HOUR},     {20, WR_LAB_PER_HOUR},     {30, WR_LAB_PER_HOUR},
		{1, WR_LAB_PER_MINUTE},    {2, WR_LAB_PER_MINUTE},    {5, WR_LAB_PER_MINUTE},
		{10, WR_LAB_PER_MINUTE},   {20, WR_LAB_PER_MINUTE},   {30, WR_LAB_PER_MINUTE},
		{1, WR_LAB_PER_SECOND},    {2, WR_LAB_PER_SECOND},    {5, WR_LAB_PER_SECOND},
		{10, WR_LAB_PER_SECOND},   {20, WR_LAB_PER_SECOND},   {50, WR_LAB_PER_SECOND},
		{100, WR_LAB_PER_SECOND},  {200, WR_LAB_PER_SECOND},  {500, WR_LAB_PER_SECOND},
		{1000, WR_LAB_PER_SECOND}, {5000, WR_LAB_PER_SECOND}, {20000, WR_LAB_PER_SECOND},
	};

	for (size_t i = 0; i < WR_LAB_RATES; i++)
		rates[i] = (struct wr_lab_rate){mixed[i].limit, units[mixed[i].unit].ns};
}

void wr_lab_rates(enum wr_lab_unit unit, struct wr_lab_rate rates[WR_LAB_RATES])
{
	static const uint32_t steps[] = {1, 2, 5};
	uint32_t scale = 1;

	if (unit == WR_LAB_UNIT_COUNT) {
		fill_mixed(rates);
		return;
	}
	for (size_t i = 0; i < WR_LAB_RATES; i++) {
		rates[i] = (struct wr_lab_rate){steps[i % 3] * scale, units[unit].ns};
		scale *= i % 3 == 2 ? 10 : 1;
	}
}

/* ---- requests ---- */

/* Lets the rate flow for elapsed_ns, then adds `n` units. Returns the new backlog. UINT64_MAX means
 * that the backlog does not fit; it stays so, because no rule can have such a burst. */
static uint64_t add_to_backlog(uint64_t backlog, const struct wr_lab_rate *rate,
			       uint64_t elapsed_ns, uint64_t n)
{
	uint64_t outflow, inflow;

	if (backlog == UINT64_MAX)
		return backlog;
	if (__builtin_mul_overflow(elapsed_ns, rate->limit, &outflow) || outflow > backlog)
		outflow = backlog;
	if (__builtin_mul_overflow(n, rate->period_ns, &inflow) ||
	    __builtin_add_overflow(backlog - outflow, inflow, &backlog))
		return UINT64_MAX;
	return backlog;
}

static void add_to_window(struct wr_lab_window *window, uint64_t index, uint64_t n)
{
	if (window->index != index) {
		window->index = index;
		window->units = 0;
	}
	window->units += n;
	if (window->units > window->peak)
		window->peak = window->units;
}

static void add_to_batch(struct wr_lab_demand *d, uint64_t time_ns, uint64_t elapsed_ns)
{
	if (elapsed_ns > WR_LAB_BATCH_NS && elapsed_ns <= WR_LAB_VISIT_GAP_NS) {
		d->pauses++;
		d->pause_ns += elapsed_ns;
	}
	d->active_ns += elapsed_ns < WR_LAB_ACTIVE_GAP_NS ? elapsed_ns : WR_LAB_ACTIVE_GAP_NS;
	if (d->requests == 0 || time_ns - d->batch_ns >= WR_LAB_BATCH_NS) {
		d->batch_ns = time_ns;
		d->batches++;
		d->batch_requests = 0;
	}
	d->batch_requests++;
	if (d->batch_requests > d->batch_peak)
		d->batch_peak = d->batch_requests;
}

void wr_lab_demand_add(struct wr_lab_demand *demand, const struct wr_lab_rate rates[WR_LAB_RATES],
		       uint64_t time_ns, uint64_t n)
{
	uint64_t elapsed_ns;

	if (demand->requests == 0)
		demand->first_ns = demand->last_ns = time_ns;
	if (time_ns < demand->last_ns)
		time_ns = demand->last_ns;
	elapsed_ns = time_ns - demand->last_ns;
	for (size_t i = 0; i < WR_LAB_RATES; i++) {
		uint64_t backlog = add_to_backlog(demand->backlog[i], &rates[i], elapsed_ns, n);

		demand->backlog[i] = backlog;
		if (backlog > demand->most[i])
			demand->most[i] = backlog;
	}
	add_to_batch(demand, time_ns, elapsed_ns);
	for (unsigned unit = 0; unit < WR_LAB_UNIT_COUNT; unit++)
		add_to_window(&demand->windows[unit], time_ns / units[unit].ns, n);
	demand->requests++;
	demand->units += n;
	demand->last_ns = time_ns;
}

uint32_t wr_lab_demand_burst(const struct wr_lab_demand *demand,
			     const struct wr_lab_rate rates[WR_LAB_RATES], size_t rate)
{
	uint64_t most = demand->most[rate], period_ns = rates[rate].period_ns;
	uint64_t burst = most / period_ns + (most % period_ns != 0);

	return most < UINT64_MAX && burst < WR_LAB_NO_BURST ? (uint32_t)burst : WR_LAB_NO_BURST;
}

double wr_lab_demand_pace(const struct wr_lab_demand *demand)
{
	double minutes = (double)demand->active_ns / (double)units[WR_LAB_PER_MINUTE].ns;

	/* n requests have n - 1 pauses. The last request is followed by a pause of mean length. */
	if (demand->requests > 1)
		minutes *= (double)demand->requests / (double)(demand->requests - 1);
	return (double)demand->requests / (minutes > 1 ? minutes : 1);
}

uint64_t wr_lab_demand_largest(const struct wr_lab_demand *demand)
{
	double average = wr_lab_demand_pace(demand) * (double)WR_LAB_BATCH_NS /
			 (double)units[WR_LAB_PER_MINUTE].ns;

	return (double)demand->batch_peak >= WR_LAB_BURST_TIMES * average ? demand->batch_peak : 1;
}
