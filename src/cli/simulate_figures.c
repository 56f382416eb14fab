/* The figures of weir simulate, and their texts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "cli/simulate.h"
#include "rules/rules.h"
#include "stats/words.h"

/* ---- values ---- */

#define COUNT(field)                                                                               \
	static double get_##field(const struct wr_lab_scenario *scenario,                          \
				  const struct wr_lab_run *run)                                    \
	{                                                                                          \
		(void)scenario;                                                                    \
		return (double)run->field;                                                         \
	}

COUNT(requests)
COUNT(admitted)
COUNT(refused)
COUNT(lost)
COUNT(without_redis)
COUNT(beyond)
COUNT(wrongly_refused)
COUNT(calls)
COUNT(burnt)
COUNT(overshoot)

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double get_beyond_percent(const struct wr_lab_scenario *scenario,
				 const struct wr_lab_run *run)
{
	(void)scenario;
	return share(run->beyond, run->requests);
}

static double get_wrong_percent(const struct wr_lab_scenario *scenario,
				const struct wr_lab_run *run)
{
	(void)scenario;
	return share(run->wrongly_refused, run->requests);
}

static double get_mean(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return wr_lab_histogram_mean(&run->latency);
}

static double get_p50(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)wr_lab_histogram_percentile(&run->latency, 0.5);
}

static double get_p99(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)wr_lab_histogram_percentile(&run->latency, 0.99);
}

static double get_longest(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)run->latency.max_ns;
}

static double get_calls_per_s(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return run->duration_s > 0 ? (double)run->calls / run->duration_s : 0;
}

static double get_calls_per_1000(const struct wr_lab_scenario *scenario,
				 const struct wr_lab_run *run)
{
	(void)scenario;
	return run->requests ? 1000.0 * (double)run->calls / (double)run->requests : 0;
}

static double get_overshoot_percent(const struct wr_lab_scenario *scenario,
				    const struct wr_lab_run *run)
{
	return share(run->overshoot, wr_lab_scenario_capacity(scenario));
}

static double get_bound(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)run->bound.allowed_most;
}

static double get_bound_percent(const struct wr_lab_scenario *scenario,
				const struct wr_lab_run *run)
{
	return share(run->bound.allowed_most, wr_lab_scenario_capacity(scenario));
}

static double get_held(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return run->bound.held;
}

static double get_gauge(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return run->gauge_ppm / 1e4;
}

static double get_delay(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)run->bound.delay_ns;
}

static double get_age_p99(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)wr_lab_histogram_percentile(&run->age, 0.99);
}

static double get_age_max(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	(void)scenario;
	return (double)run->age.max_ns;
}

/* ---- which runs have a figure ---- */

static bool is_eventual(const struct wr_lab_run *run)
{
	return run->mode == WR_EVENTUAL;
}

static bool is_lease(const struct wr_lab_run *run)
{
	return run->mode == WR_LEASE;
}

static bool has_bound(const struct wr_lab_run *run)
{
	return run->bound.exists;
}

static bool has_age(const struct wr_lab_run *run)
{
	return run->age.count > 0;
}

const struct wr_cli_figure wr_cli_figures[] = {
	{"requests", "requests", WR_FIGURE_COUNT, .value = get_requests},
	{"admitted", "admitted", WR_FIGURE_COUNT, .value = get_admitted},
	{"refused", "refused", WR_FIGURE_COUNT, .value = get_refused},
	{"lost", "lost with their node", WR_FIGURE_COUNT, .value = get_lost, .optional = true},
	{"without_redis", "decided without Redis", WR_FIGURE_COUNT, .value = get_without_redis,
	 .optional = true},
	{"beyond", "admitted beyond the limit", WR_FIGURE_COUNT, .value = get_beyond},
	{"beyond_percent", "  of all requests", WR_FIGURE_PERCENT, .value = get_beyond_percent,
	 .plot = "beyond the limit"},
	{"wrongly_refused", "wrongly refused", WR_FIGURE_COUNT, .value = get_wrongly_refused},
	{"wrongly_refused_percent", "  of all requests", WR_FIGURE_PERCENT,
	 .value = get_wrong_percent, .plot = "wrongly refused"},
	{"latency_mean_ns", "added latency, mean", WR_FIGURE_TIME, .value = get_mean,
	 .plot = "mean"},
	{"latency_p50_ns", "  half of the requests", WR_FIGURE_TIME, .value = get_p50},
	{"latency_p99_ns", "  99 % of the requests", WR_FIGURE_TIME, .value = get_p99,
	 .plot = "99 % of the requests"},
	{"latency_max_ns", "  longest", WR_FIGURE_TIME, .value = get_longest},
	{"redis_calls", "calls to Redis", WR_FIGURE_COUNT, .value = get_calls},
	{"redis_calls_per_second", "  per second", WR_FIGURE_DECIMAL, .value = get_calls_per_s},
	{"redis_calls_per_1000", "  per 1,000 requests", WR_FIGURE_DECIMAL,
	 .value = get_calls_per_1000, .plot = "calls"},
	{"burnt", "burnt units", WR_FIGURE_COUNT, .value = get_burnt, .applies = is_lease},
	{"overshoot", "largest overshoot, units", WR_FIGURE_COUNT, .value = get_overshoot},
	{"overshoot_percent", "  of the limit", WR_FIGURE_PERCENT, .value = get_overshoot_percent,
	 .plot = "largest overshoot"},
	{"bound", "documented bound, units", WR_FIGURE_COUNT, .value = get_bound,
	 .applies = has_bound},
	{"bound_percent", "  of the limit", WR_FIGURE_PERCENT, .value = get_bound_percent,
	 .applies = has_bound, .plot = "documented bound"},
	{"bound_held", "bound held", WR_FIGURE_FLAG, .value = get_held, .applies = has_bound},
	{"gauge_percent", "weir_overshoot_ratio", WR_FIGURE_PERCENT, .value = get_gauge,
	 .applies = is_eventual, .optional = true},
	{"delay_ns", "delay D of the bound", WR_FIGURE_TIME, .value = get_delay,
	 .applies = is_eventual, .optional = true},
	{"age_p99_ns", "unknown units, age at 99 %", WR_FIGURE_TIME, .value = get_age_p99,
	 .applies = has_age, .optional = true},
	{"age_max_ns", "  oldest", WR_FIGURE_TIME, .value = get_age_max, .applies = has_age,
	 .optional = true},
	{.name = NULL},
};

const char *const wr_cli_simulate_short[] = {
	"requests", "admitted",   "beyond", "wrongly_refused", "redis_calls_per_1000", "overshoot",
	"bound",    "bound_held", NULL};

const struct wr_cli_figure *wr_cli_figure_find(const char *name)
{
	const struct wr_cli_figure *figure = wr_cli_figures;

	while (strcmp(figure->name, name) != 0)
		figure++;
	return figure;
}

/* ---- texts ---- */

static void time_text(double ns, char text[WR_FIGURE_TEXT])
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
	size_t unit = 0;

	if (ns <= 0) {
		snprintf(text, WR_FIGURE_TEXT, "0");
		return;
	}
	while (unit < 3 && ns < units[unit].ns)
		unit++;
	ns /= units[unit].ns;
	snprintf(text, WR_FIGURE_TEXT,
		 ns < 10    ? "%.2f %s"
		 : ns < 100 ? "%.1f %s"
			    : "%.0f %s",
		 ns, units[unit].unit);
}

static void percent_text(double percent, char text[WR_FIGURE_TEXT])
{
	if (percent <= 0)
		snprintf(text, WR_FIGURE_TEXT, "0 %%");
	else if (percent < 0.1)
		snprintf(text, WR_FIGURE_TEXT, "%.1g %%", percent);
	else
		snprintf(text, WR_FIGURE_TEXT, percent < 10 ? "%.2f %%" : "%.1f %%", percent);
}

void wr_cli_figure_text(const struct wr_cli_figure *figure, const struct wr_lab_scenario *scenario,
			const struct wr_lab_run *run, char text[WR_FIGURE_TEXT])
{
	double value;

	if (figure->applies && !figure->applies(run)) {
		snprintf(text, WR_FIGURE_TEXT, "-");
		return;
	}
	value = figure->value(scenario, run);
	switch (figure->kind) {
	case WR_FIGURE_COUNT:
		wr_number_words((uint64_t)value, text);
		break;
	case WR_FIGURE_DECIMAL:
		snprintf(text, WR_FIGURE_TEXT, value < 100 ? "%.1f" : "%.0f", value);
		break;
	case WR_FIGURE_PERCENT:
		percent_text(value, text);
		break;
	case WR_FIGURE_TIME:
		time_text(value, text);
		break;
	case WR_FIGURE_FLAG:
		snprintf(text, WR_FIGURE_TEXT, "%s", value != 0 ? "yes" : "NO");
		break;
	}
}

bool wr_cli_figure_shown(const struct wr_cli_figure *figure,
			 const struct wr_lab_simulation *simulation)
{
	bool any = false, set = false;

	for (size_t i = 0; i < simulation->run_count; i++) {
		const struct wr_lab_run *run = &simulation->runs[i];

		if (figure->applies && !figure->applies(run))
			continue;
		any = true;
		set |= figure->value(simulation->scenario, run) != 0;
	}
	return figure->optional ? set : any;
}

/* ---- names ---- */

const char *wr_cli_simulate_mode(uint8_t mode)
{
	static const char *const names[] = {
#define NAME(enum, number, name) [enum] = (name),
		WR_CONSISTENCIES(NAME)
#undef NAME
	};

	return names[mode];
}

void wr_cli_simulate_name(const struct wr_lab_simulation *simulation, const struct wr_lab_run *run,
			  char text[WR_SIMULATE_NAME])
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	char interval[WR_DURATION_TEXT];
	size_t len =
		(size_t)snprintf(text, WR_SIMULATE_NAME, "%s", wr_cli_simulate_mode(run->mode));

	if (scenario->node_counts > 1)
		len += (size_t)snprintf(text + len, WR_SIMULATE_NAME - len, ", %u nodes",
					run->nodes);
	if (scenario->sync_count > 1 && run->mode == WR_EVENTUAL) {
		wr_duration_text(run->sync_ns, interval);
		snprintf(text + len, WR_SIMULATE_NAME - len, ", %s", interval);
	}
}

static size_t put_limit(const struct wr_lab_scenario *scenario, char *text, size_t cap)
{
	char period[WR_DURATION_TEXT], number[WR_NUMBER_WORDS];
	size_t len;

	wr_duration_text(scenario->period_ns, period);
	wr_number_words(scenario->limit, number);
	len = (size_t)snprintf(text, cap, "%s per %s, %s", number, period,
			       weir_algorithm_name(scenario->algorithm));
	if (scenario->burst)
		len += (size_t)snprintf(text + len, cap - len, ", burst %u", scenario->burst);
	return len;
}

void wr_cli_simulate_line(const struct wr_lab_scenario *scenario, char text[WR_SIMULATE_LINE])
{
	char duration[WR_DURATION_TEXT], number[WR_NUMBER_WORDS];
	uint32_t sites = wr_lab_scenario_sites(scenario);
	size_t len = put_limit(scenario, text, WR_SIMULATE_LINE);

	wr_duration_text(scenario->duration_ns, duration);
	wr_number_words(scenario->clients, number);
	len += (size_t)snprintf(text + len, WR_SIMULATE_LINE - len, "; %u region%s",
				scenario->region_count, scenario->region_count == 1 ? "" : "s");
	if (sites > scenario->region_count)
		len += (size_t)snprintf(text + len, WR_SIMULATE_LINE - len, " with %u sites",
					sites);
	if (scenario->node_counts == 1) {
		uint32_t nodes = wr_lab_scenario_nodes(scenario, scenario->nodes[0]);

		len += (size_t)snprintf(text + len, WR_SIMULATE_LINE - len, ", %u node%s", nodes,
					nodes == 1 ? "" : "s");
	}
	len += (size_t)snprintf(text + len, WR_SIMULATE_LINE - len, "; %s client%s; %s", number,
				scenario->clients == 1 ? "" : "s", duration);
	if (scenario->seeds == 1)
		snprintf(text + len, WR_SIMULATE_LINE - len, "; seed %llu",
			 (unsigned long long)scenario->seed);
	else
		snprintf(text + len, WR_SIMULATE_LINE - len, "; %u runs, seeds %llu to %llu",
			 scenario->seeds, (unsigned long long)scenario->seed,
			 (unsigned long long)scenario->seed + scenario->seeds - 1);
}

void wr_cli_simulate_bound(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run,
			   char text[WR_SIMULATE_LINE])
{
	const struct wr_lab_bound *bound = &run->bound;
	uint64_t capacity = wr_lab_scenario_capacity(scenario);
	char most[WR_NUMBER_WORDS], limit[WR_NUMBER_WORDS], measured[WR_NUMBER_WORDS];
	size_t len;

	if (!bound->exists) {
		snprintf(text, WR_SIMULATE_LINE, "no bound: %s", bound->reason);
		return;
	}
	wr_number_words(capacity + bound->allowed, most);
	wr_number_words(capacity, limit);
	wr_number_words(capacity + bound->measured, measured);
	len = (size_t)snprintf(text, WR_SIMULATE_LINE, "%s: %s%s; at most %s allowed (%s)",
			       bound->held ? "held" : "NOT HELD",
			       bound->measured ? measured : "within the limit of ",
			       bound->measured ? "" : limit, most, bound->reason);
	if (scenario->clients > 1 && bound->measured)
		len += (size_t)snprintf(text + len, WR_SIMULATE_LINE - len, ", client %u",
					bound->client + 1);
	if (bound->clients_known)
		snprintf(text + len, WR_SIMULATE_LINE - len, "; checked for clients 1 to %u",
			 bound->clients_known);
}
