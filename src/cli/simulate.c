/* weir simulate: runs a scenario of a fleet in virtual time, and compares the modes of
 * consistency. */
#include "cli/simulate.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "rules/fields.h"

static struct {
	bool json, check;
	const char *html, *svg;
	uint64_t requests, duration_ns, seed;
	bool seed_given;
	struct wr_text_list modes;
} given;
static struct wr_cli_words paths;

#define AT(field) .at = offsetof(__typeof__(given), field), .variable = WR_NO_VARIABLE

static const struct wr_cli_option options[] = {
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the report as JSON", AT(json)},
	{"html", WR_OPTION_TEXT, "FILE", NULL,
	 "write the report as a page with plots, which needs no\nnetwork", AT(html)},
	{"svg", WR_OPTION_TEXT, "FILE", NULL,
	 "write a picture: the overshoot by the sync interval, or\nthe admitted requests over time",
	 AT(svg)},
	{"check", WR_OPTION_SWITCH, NULL, NULL, "only read the scenario and report its errors",
	 AT(check)},
};

static const struct wr_cli_option changes[] = {
	{"modes", WR_OPTION_LIST, "MODE,…", NULL, "local, strict, lease, eventual", AT(modes)},
	{"duration", WR_OPTION_DURATION, "TIME", NULL, "length of a run", AT(duration_ns),
	 .min = 1000000, .max = WR_LAB_DURATION_MAX_NS},
	{"requests", WR_OPTION_NUMBER, "N", NULL, "end a run after N requests", AT(requests),
	 .min = 1},
	{"seed", WR_OPTION_NUMBER, "N", NULL, "seed of the random numbers", AT(seed),
	 .given_at = offsetof(__typeof__(given), seed_given)},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	WR_OPTION_GROUP("Changes of the scenario", changes, &given),
};

static const struct wr_cli_command command = {
	"simulate",
	"weir simulate [OPTIONS] SCENARIO.yaml\n"
	"\n"
	"Simulates a fleet of nodes in virtual time: its limit, its traffic, its network and its\n"
	"faults. The nodes run the code of production, and a simulated Redis runs weir's scripts.\n"
	"Reports for each mode of consistency: the requests admitted beyond the limit and wrongly\n"
	"refused, the added latency, the calls to Redis, and the largest overshoot beside its\n"
	"documented bound. docs/simulate.md describes scenarios.\n",
	"Examples\n"
	"  weir simulate examples/simulate/three-gateways.yaml\n"
	"  weir simulate --modes eventual --html report.html examples/simulate/edge-194.yaml\n"
	"\n"
	"Exit: 0 done, 1 a documented bound did not hold or the scenario has errors, 2 usage "
	"error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &paths,
	.words_max = 1,
};

static void show_progress(void *context, const struct wr_lab_progress *now)
{
	double runs = (double)now->run + (double)now->at_ns / (double)now->duration_ns;

	wr_cli_progress_part(context, runs / (double)now->run_count, now->requests, "requests");
}

/* Replaces the modes of the scenario by those of --modes. Returns false after an error. */
static bool set_modes(struct wr_lab_scenario *scenario)
{
	uint32_t count = 0;

	for (size_t i = 0; i < given.modes.count; i++) {
		const struct wr_rules_word *word = wr_consistency_words;

		while (word->text.len && !wr_str_equal(word->text, wr_str(given.modes.items[i])))
			word++;
		if (!word->text.len || count == WR_LAB_MODES) {
			wr_cli_usage("simulate", "--modes %s: use local, strict, lease or eventual",
				     given.modes.items[i]);
			return false;
		}
		scenario->modes[count++] = (uint8_t)word->number;
	}
	if (count)
		scenario->mode_count = count;
	return true;
}

/* Applies the options that change the scenario. Returns false after an error. */
static bool change_scenario(struct wr_lab_scenario *scenario)
{
	if (!set_modes(scenario))
		return false;
	if (given.duration_ns) {
		scenario->duration_ns = given.duration_ns;
		scenario->as_long_as_logs = false;
	}
	if (given.seed_given)
		scenario->seed = given.seed;
	scenario->requests_max = given.requests;
	for (uint32_t i = 0; i < scenario->mode_count; i++)
		if (!wr_lab_scenario_allows(scenario, scenario->modes[i])) {
			wr_cli_usage("simulate",
				     "--modes %s: a limit with the algorithm %s cannot have it",
				     wr_cli_simulate_mode(scenario->modes[i]),
				     weir_algorithm_name(scenario->algorithm));
			return false;
		}
	return true;
}

static int write_report(const struct wr_lab_simulation *simulation)
{
	struct weir_error error;
	int code = WR_EXIT_YES;

	for (size_t i = 0; i < simulation->run_count; i++)
		if (simulation->runs[i].bound.exists && !simulation->runs[i].bound.held)
			code = WR_EXIT_NO;
	if (given.html && wr_cli_simulate_page(simulation, given.html, &error) != 0)
		return wr_cli_fail("simulate", &error, WR_EXIT_USAGE);
	if (given.svg && wr_cli_simulate_picture(simulation, given.svg, &error) != 0)
		return wr_cli_fail("simulate", &error, WR_EXIT_USAGE);
	if (given.json)
		return wr_cli_json_print(wr_cli_simulate_json(simulation), code);
	wr_cli_simulate_print(simulation);
	return code;
}

/* Refuses to overwrite the scenario. */
static int check_outputs(void)
{
	const struct wr_cli_output outputs[] = {{"--html", given.html}, {"--svg", given.svg}};

	return wr_cli_outputs_check("simulate", outputs, 2, paths.items, paths.count);
}

static int simulate(struct wr_lab_scenario *scenario)
{
	struct wr_lab_simulation *simulation;
	struct wr_cli_progress progress;
	struct weir_error error;
	int rc, code;

	if (!change_scenario(scenario))
		return WR_EXIT_USAGE;
	wr_cli_progress_begin(&progress);
	rc = wr_lab_simulate(scenario, show_progress, &progress, &simulation, &error);
	wr_cli_progress_end(&progress);
	if (rc != 0)
		return wr_cli_fail("simulate", &error, WR_EXIT_NO);
	code = write_report(simulation);
	wr_lab_simulation_free(simulation);
	return code;
}

int wr_cli_simulate(int argc, char **argv)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_lab_scenario *scenario;
	int code, rc;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (paths.count == 0)
		return wr_cli_usage("simulate", "no scenario given");
	if (check_outputs() != 0)
		return WR_EXIT_USAGE;
	rc = wr_lab_scenario_load(paths.items[0], &scenario, &errors);
	wr_cli_print_errors(&errors);
	weir_errors_free(&errors);
	if (rc != 0) {
		if (rc == WEIR_EMEMORY)
			fprintf(stderr, "weir simulate: out of memory\n");
		return WR_EXIT_NO;
	}
	code = WR_EXIT_YES;
	if (given.check)
		printf("ok\n");
	else
		code = simulate(scenario);
	wr_lab_scenario_free(scenario);
	return code;
}
