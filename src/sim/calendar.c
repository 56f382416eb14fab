/* Makes plans with calendar windows. A run of such a plan consists of one to three sessions. A
 * session lasts from some seconds before to some seconds after the edge between two windows. All
 * machines are paused between two sessions.
 *
 * The edges in calendars[] were computed by another implementation of time zones (Python's
 * zoneinfo). The oracle, which checks the admissions of a run, uses these edges. So it can notice
 * if the rules have a window with another edge. */
#include "sim/sim_inner.h"
#include "rules/rules.h"

#define MS 1000000ull
#define S_NS 1000000000ull
#define EDGES 4u

struct calendar {
	const char *zone, *unit;
	uint64_t edges_s[EDGES]; /* Unix times of the ends of four consecutive windows */
};

static const struct calendar calendars[] = {
	{"UTC", "day", {1772150400, 1772236800, 1772323200, 1772409600}},
	{"UTC", "month", {1827619200, 1830297600, 1832976000, 1835481600}},
	{"UTC", "year", {1798761600, 1830297600, 1861920000, 1893456000}},
	/* Most of the next rows contain a day of 23 or 25 hours, because clocks change to or from
	 * summer time. */
	{"Europe/Berlin", "day", {1774652400, 1774738800, 1774821600, 1774908000}},
	{"Europe/Berlin", "day", {1792792800, 1792879200, 1792969200, 1793055600}},
	{"Europe/Berlin", "week", {1774220400, 1774821600, 1775426400, 1776031200}},
	{"Europe/Berlin", "month", {1772319600, 1774994400, 1777586400, 1780264800}},
	{"Europe/Berlin", "month", {1790805600, 1793487600, 1796079600, 1798758000}},
	{"America/New_York", "day", {1772859600, 1772946000, 1773028800, 1773115200}},
	{"America/New_York", "day", {1793419200, 1793505600, 1793595600, 1793682000}},
	{"America/New_York", "year", {1767243600, 1798779600, 1830315600, 1861938000}},
	{"Asia/Seoul", "day", {1772204400, 1772290800, 1772377200, 1772463600}},
	{"Asia/Seoul", "month", {1830265200, 1832943600, 1835449200, 1838127600}},
	/* In the next rows clocks change at midnight, so midnight is skipped or comes twice. */
	{"Asia/Beirut", "day", {1774648800, 1774735200, 1774818000, 1774904400}},
	{"Asia/Beirut", "day", {1792789200, 1792879200, 1792965600, 1793052000}},
	{"Asia/Beirut", "week", {1792357200, 1792965600, 1793570400, 1794175200}},
	{"America/Havana", "day", {1772859600, 1772946000, 1773028800, 1773115200}},
	{"America/Havana", "day", {1793419200, 1793505600, 1793595600, 1793682000}},
	{"Africa/Cairo", "day", {1793221200, 1793311200, 1793397600, 1793484000}},
	{"America/Sao_Paulo", "day", {1518832800, 1518922800, 1519009200, 1519095600}},
	/* The last rows contain clocks that change by half an hour (Lord Howe), an offset of 5:45
	 * from UTC (Kathmandu), and a day that was skipped (30 December 2011 in Apia). */
	{"Australia/Lord_Howe", "day", {1775221200, 1775307600, 1775395800, 1775482200}},
	{"Australia/Lord_Howe", "day", {1790947800, 1791034200, 1791118800, 1791205200}},
	{"Asia/Kathmandu", "week", {1797790500, 1798395300, 1799000100, 1799604900}},
	{"Pacific/Apia", "day", {1325066400, 1325152800, 1325239200, 1325325600}},
};

#define CALENDARS (sizeof calendars / sizeof *calendars)

static const struct calendar *calendar_of(const struct wr_sim_plan *plan)
{
	return &calendars[plan->calendar - 1];
}

/* ---- windows ---- */

uint64_t wr_sim_epoch_ns(const struct wr_sim_plan *plan)
{
	if (plan->calendar)
		return calendar_of(plan)->edges_s[plan->first_edge] * S_NS - plan->half_ns;
	return plan->epoch_ns ? plan->epoch_ns : WR_SIM_EPOCH_NS;
}

uint64_t wr_sim_window_of(const struct wr_sim_plan *plan, uint64_t at_us)
{
	uint64_t number = 0;

	if (!plan->calendar)
		return at_us / (plan->period_ns / 1000);
	while (number < EDGES && at_us / 1000000 >= calendar_of(plan)->edges_s[number])
		number++;
	return number;
}

uint64_t wr_sim_edge_ns(const struct wr_sim_plan *plan, unsigned session)
{
	return calendar_of(plan)->edges_s[plan->first_edge + session] * S_NS -
	       wr_sim_epoch_ns(plan);
}

void wr_sim_calendar_text(const struct wr_sim_plan *plan, struct wr_buf *out)
{
	wr_buf_printf(out, "calendar: %s, timezone: %s", calendar_of(plan)->unit,
		      calendar_of(plan)->zone);
}

/* ---- pauses between sessions ---- */

uint64_t wr_sim_active_ns(const struct wr_sim_plan *plan, uint64_t at_ns)
{
	for (unsigned i = 0; plan->calendar && i + 1 < plan->sessions; i++) {
		uint64_t from_ns = wr_sim_edge_ns(plan, i) + plan->half_ns;
		uint64_t to_ns = wr_sim_edge_ns(plan, i + 1) - plan->half_ns;

		if (at_ns >= from_ns && at_ns < to_ns)
			return to_ns + (at_ns - from_ns) % S_NS;
	}
	return at_ns;
}

static void pause_all(struct wr_sim *sim, void *object, uint64_t until_ns)
{
	(void)object;
	wr_sim_trace(sim, NULL, "all nodes are paused until %llu ms",
		     (unsigned long long)until_ns / MS);
	for (unsigned i = 0; i < sim->plan->nodes; i++)
		sim->nodes[i].paused_until_ns = until_ns;
}

void wr_sim_calendar_start(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;

	for (unsigned i = 0; plan->calendar && i + 1 < plan->sessions; i++)
		wr_sim_schedule(sim, wr_sim_edge_ns(plan, i) + plan->half_ns, NULL, pause_all, NULL,
				wr_sim_edge_ns(plan, i + 1) - plan->half_ns);
}

/* ---- plans ---- */

/* Sets the number of requests and the limit. The requests of a window arrive in its first half_ns
 * and in its last half_ns. The limit is 10 % to 120 % of the total cost of these requests for one
 * key. */
static void pick_traffic(struct wr_sim_plan *plan, struct wr_rng *rng)
{
	uint64_t turns = wr_rng_between(rng, 100, 300), total;

	plan->gap_ns = 2 * plan->half_ns * plan->nodes / turns;
	total = turns * (1 + plan->batch_max) / 2 * (1 + plan->cost_max) / 2 / plan->keys;
	plan->limit = (uint32_t)(total * wr_rng_between(rng, 10, 120) / 100 + 1);
	plan->limit_after = (uint32_t)wr_rng_between(rng, 1, 2ul * plan->limit);
}

/* In most runs the clocks of nodes differ from the clock of Redis. There are no failovers, because
 * other kinds of plans test a failover to a master with another clock. */
void wr_sim_plan_calendar(struct wr_sim_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed ^ 0x63616c656e646172u};
	unsigned never = 1u << WR_SIM_FAILOVER | 1u << WR_SIM_SPLIT | 1u << WR_SIM_CRASH;

	wr_sim_plan_make(plan, seed, WR_SIM_ANY);
	plan->calendar = 1 + (unsigned)wr_rng_below(&rng, CALENDARS);
	plan->first_edge = (unsigned)wr_rng_below(&rng, 3);
	plan->sessions = (unsigned)wr_rng_between(&rng, 1, EDGES - plan->first_edge);
	if (plan->sessions > 3)
		plan->sessions = 3;
	plan->half_ns = wr_rng_between(&rng, 4000, 8000) * MS;
	plan->algorithm = WEIR_FIXED_WINDOW;
	plan->period_ns = (calendar_of(plan)->edges_s[1] - calendar_of(plan)->edges_s[0]) * S_NS;
	plan->burst = plan->queue_size = plan->second_limit = plan->soft_percent = 0;
	pick_traffic(plan, &rng);
	plan->length_ns = wr_sim_edge_ns(plan, plan->sessions - 1) + plan->half_ns;
	plan->faults &= ~never;
	if (wr_rng_percent(&rng, 40))
		plan->faults = 0;
	if (wr_rng_percent(&rng, 80))
		plan->faults |= 1u << WR_SIM_SKEW;
	if (plan->sessions > 1)
		plan->faults |= 1u << WR_SIM_PAUSE;
	plan->fault_gap_ns = 2 * plan->half_ns / wr_rng_between(&rng, 1, 8);
	if (plan->faults & ~(1u << WR_SIM_SKEW)) {
		if (plan->timeout_ns > 1000 * MS)
			plan->timeout_ns = wr_rng_scale(&rng, 20 * MS, 1000 * MS);
	} else {
		plan->timeout_ns = 10000 * MS;
	}
}
