/* The result of weir tune as JSON. */
#include "base/str.h"
#include "cli/tune.h"

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *text(const char *value)
{
	return wr_wire_json_text(wr_str(value));
}

static json_t *seconds(uint64_t ns)
{
	return json_real((double)ns / 1e9);
}

static json_t *percent(uint32_t ppm)
{
	return json_real(ppm / 1e4);
}

static json_t *limit_json(const struct wr_lab_tune_report *report,
			  const struct wr_lab_tune_limit *limit)
{
	const struct wr_lab_rate *rate = &report->rates[limit->rate];
	char words[WR_TUNE_LIMIT];

	wr_cli_tune_limit(report, limit, words);
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "text", words, "limit",
			 number(rate->limit), "period", seconds(rate->period_ns), "burst",
			 number(limit->burst), "need", number(limit->need), "spared",
			 number(limit->spared), "touched", number(limit->touched), "per_horizon",
			 number(wr_lab_tune_cost(rate, limit->burst, report->horizon_ns)));
}

static json_t *bursts_json(const struct wr_lab_tune_report *report,
			   const struct wr_lab_tune_level *level)
{
	json_t *list = json_array();

	for (size_t i = 0; i < WR_LAB_RATES; i++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "limit",
						      number(report->rates[i].limit), "period",
						      seconds(report->rates[i].period_ns), "burst",
						      level->bursts[i] == WR_LAB_NO_BURST
							      ? json_null()
							      : number(level->bursts[i])));
	return list;
}

static json_t *level_json(const struct wr_lab_tune_report *report,
			  const struct wr_lab_tune_route *route,
			  const struct wr_lab_tune_level *level)
{
	json_t *peaks = json_object();

	for (unsigned unit = 0; unit < WR_LAB_UNIT_COUNT; unit++)
		json_object_set_new(peaks, wr_lab_unit_name(unit), number(level->peaks[unit]));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "untouched",
			 percent(level->untouched_ppm), "spared", number(level->spared),
			 "may_touch", number(route->considered - level->spared), "peaks", peaks,
			 "bursts", bursts_json(report, level), "best",
			 level->usable ? limit_json(report, &level->best) : json_null());
}

static json_t *load_json(const struct wr_lab_tune_report *report,
			 const struct wr_lab_tune_route *route)
{
	uint64_t active = route->peak_clients << report->sample_bits;
	uint64_t burst = route->limit.burst;

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "peak_second", number(route->peak_second),
			 "peak_minute", number(route->peak_minute), "active_clients",
			 number(active), "active_clients_at_once", number(active * burst),
			 "all_clients_at_once",
			 number((route->clients << report->sample_bits) * burst));
}

static json_t *route_json(const struct wr_lab_tune_report *report,
			  const struct wr_lab_tune_route *route)
{
	bool proposed = route->reason == WR_LAB_PROPOSED;
	json_t *levels = json_array();
	char words[256];

	for (size_t i = 0; i < report->level_count; i++)
		json_array_append_new(levels, level_json(report, route, &route->levels[i]));
	wr_lab_tune_words(route, words, sizeof words);
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
		text(route->name), "route", text(route->text), "requests", number(route->requests),
		"units", number(route->units), "clients", number(route->clients), "considered",
		number(route->considered), "habits", words, "levels", levels, "limit",
		proposed ? limit_json(report, &route->limit) : json_null(), "without_limit_because",
		proposed ? json_null() : text(wr_cli_tune_reason(route->reason)), "load",
		load_json(report, route), "limit_without_outliers",
		route->usual_usable ? limit_json(report, &route->usual) : json_null());
}

static json_t *outliers_json(const struct wr_lab_tune_report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->outlier_count; i++) {
		const struct wr_lab_tune_outlier *outlier = &report->outliers[i];
		char reason[512];

		wr_lab_client_reason(outlier->client, outlier->kind, reason, sizeof reason);
		json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o}", "client",
						      text(outlier->client->name), "kind",
						      wr_lab_kind_name(outlier->kind), "requests",
						      number(outlier->client->requests), "reason",
						      text(reason)));
	}
	return list;
}

static json_t *kinds_json(const struct wr_lab_tune_report *report)
{
	json_t *kinds = json_object();

	for (unsigned kind = WR_LAB_USUAL + 1; kind < WR_LAB_KIND_COUNT; kind++)
		json_object_set_new(kinds, wr_lab_kind_name(kind), number(report->kinds[kind]));
	return kinds;
}

static json_t *log_json(const struct wr_cli_tune *result)
{
	const struct wr_lab_log_totals *totals = result->totals;
	const struct wr_lab_tune_report *report = result->report;
	json_t *examples = json_array(), *warnings = json_array();

	for (uint32_t i = 0; i < totals->example_count; i++)
		json_array_append_new(examples, text(totals->examples[i]));
	for (size_t i = 0; i < result->warning_count; i++)
		json_array_append_new(warnings, text(result->warnings[i]));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "lines", number(totals->lines), "unreadable", number(totals->unreadable),
			 "examples", examples, "damaged", number(totals->damaged), "warnings",
			 warnings, "late", number(totals->late), "requests",
			 number(report->requests), "no_request", number(report->no_request),
			 "malformed", number(report->malformed), "exempt", number(report->exempt),
			 "no_key", number(report->no_key), "first", seconds(report->first_ns),
			 "last", seconds(report->last_ns));
}

json_t *wr_cli_tune_json(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	json_t *routes = json_array();

	for (size_t i = 0; i < report->route_count; i++)
		json_array_append_new(routes, route_json(report, &report->routes[i]));
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "log",
		log_json(result), "clients", number(report->clients), "sample",
		number(1ull << report->sample_bits), "considered", number(report->considered),
		"touched", number(report->touched), "may_touch", number(report->touched_max),
		"untouched", percent(report->untouched_ppm), "horizon", seconds(report->horizon_ns),
		"other", number(report->other), "routes", routes, "kinds", kinds_json(report),
		"outliers", outliers_json(report), "rules", wr_wire_json_text(result->yaml),
		"replay", wr_wire_json_text(result->replay));
}
