/* The report of weir simulate as JSON. */
#include "base/str.h"
#include "cli/simulate.h"
#include "wire/json.h"

static json_t *figure_json(const struct wr_cli_figure *figure,
			   const struct wr_lab_scenario *scenario, const struct wr_lab_run *run)
{
	double value;

	if (figure->applies && !figure->applies(run))
		return json_null();
	value = figure->value(scenario, run);
	switch (figure->kind) {
	case WR_FIGURE_COUNT:
		return json_integer((json_int_t)value);
	case WR_FIGURE_FLAG:
		return json_boolean(value != 0);
	default:
		return json_real(value);
	}
}

static json_t *counts_json(const uint64_t *counts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < WR_LAB_SECTIONS; i++)
		json_array_append_new(list, json_integer((json_int_t)counts[i]));
	return list;
}

static json_t *run_json(const struct wr_lab_simulation *simulation, const struct wr_lab_run *run)
{
	json_t *json = json_pack(
		"{s:s, s:i, s:I, s:s, s:{s:o, s:o, s:o}}", "mode", wr_cli_simulate_mode(run->mode),
		"nodes", (int)run->nodes, "sync_interval_ns", (json_int_t)run->sync_ns,
		"bound_reason", run->bound.reason, "over_time", "offered",
		counts_json(run->curves.offered), "admitted", counts_json(run->curves.admitted),
		"refused", counts_json(run->curves.refused));

	for (const struct wr_cli_figure *figure = wr_cli_figures; figure->name; figure++)
		json_object_set_new(json, figure->name,
				    figure_json(figure, simulation->scenario, run));
	return json;
}

/* Returns null if the traffic has no log. */
static json_t *log_json(const struct wr_lab_log_totals *log)
{
	json_t *examples;

	if (!log->lines)
		return json_null();
	examples = json_array();
	for (uint32_t i = 0; i < log->example_count; i++)
		json_array_append_new(examples, wr_wire_json_text(wr_str(log->examples[i])));
	return json_pack("{s:I, s:I, s:f, s:o, s:I, s:I}", "lines", (json_int_t)log->lines,
			 "unreadable", (json_int_t)log->unreadable, "unreadable_percent",
			 100.0 * (double)log->unreadable / (double)log->lines,
			 "unreadable_examples", examples, "late", (json_int_t)log->late, "damaged",
			 (json_int_t)log->damaged);
}

static json_t *warnings_json(const struct wr_lab_simulation *simulation)
{
	struct wr_cli_simulate_warnings warnings;
	json_t *list = json_array();

	wr_cli_simulate_warn(simulation, &warnings);
	for (size_t i = 0; i < warnings.count; i++)
		json_array_append_new(list, wr_wire_json_text(wr_str(warnings.texts[i])));
	return list;
}

json_t *wr_cli_simulate_json(const struct wr_lab_simulation *simulation)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	json_t *runs = json_array();

	for (size_t i = 0; i < simulation->run_count; i++)
		json_array_append_new(runs, run_json(simulation, &simulation->runs[i]));
	return json_pack(
		"{s:o, s:s, s:I, s:I, s:i, s:i, s:i, s:I, s:I, s:i, s:I, s:o, s:o, s:o}", "title",
		wr_wire_json_text(wr_str(scenario->title)), "algorithm",
		weir_algorithm_name(scenario->algorithm), "limit", (json_int_t)scenario->limit,
		"capacity", (json_int_t)wr_lab_scenario_capacity(scenario), "regions",
		(int)scenario->region_count, "sites", (int)wr_lab_scenario_sites(scenario),
		"clients", (int)scenario->clients, "period_ns", (json_int_t)scenario->period_ns,
		"duration_ns", (json_int_t)scenario->duration_ns, "seeds", (int)scenario->seeds,
		"seed", (json_int_t)scenario->seed, "log", log_json(&simulation->log), "warnings",
		warnings_json(simulation), "runs", runs);
}
