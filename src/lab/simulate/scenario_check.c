/* Checks a scenario when all its keys have been read, and fills in values that depend on several
 * keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "lab/simulate/scenario_fields.h"
#include "rules/rules.h"

#define S_NS 1000000000.0
#define REQUESTS_MAX 1e10         /* most requests of a run */
#define LOG_ENTRIES_MAX 100000000 /* most entries of all logs together */

static void fill_delays(struct wr_lab_scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->region_count; i++) {
		struct wr_lab_region *region = &scenario->regions[i];

		if (region->near_ns == UINT64_MAX)
			region->near_ns = region->far_ns = scenario->redis_delay_ns;
	}
}

static void check_nodes(struct wr_lab_scenario_reader *reader)
{
	const struct wr_lab_scenario *scenario = reader->scenario;
	const struct wr_yaml *at = reader->regions_at ? reader->regions_at : reader->root;

	for (uint32_t i = 0; i < scenario->node_counts; i++) {
		uint64_t nodes = 0;

		for (uint32_t r = 0; r < scenario->region_count; r++) {
			const struct wr_lab_region *region = &scenario->regions[r];

			nodes += (uint64_t)region->sites *
				 (region->nodes ? region->nodes : scenario->nodes[i]);
		}
		if (nodes > WR_LAB_NODES) {
			wr_lab_scenario_report(
				reader, WR_LAB_D_too_many_nodes, at,
				WR_ARGS(wr_lab_scenario_number(reader, nodes),
					wr_lab_scenario_number(reader, WR_LAB_NODES)));
			return;
		}
	}
}

bool wr_lab_scenario_allows(const struct wr_lab_scenario *scenario, uint8_t mode)
{
	if (mode == WR_EVENTUAL && scenario->algorithm == WEIR_SLIDING_LOG)
		return false;
	return scenario->algorithm != WEIR_LEAKY_BUCKET || mode == WR_STRICT || mode == WR_LOCAL;
}

/* If the scenario names no modes, the modes that its algorithm cannot have are left out; otherwise
 * they are errors. */
static void check_modes(struct wr_lab_scenario_reader *reader)
{
	struct wr_lab_scenario *scenario = reader->scenario;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < scenario->mode_count; i++) {
		uint8_t mode = scenario->modes[i];
		const struct wr_rules_word *word = wr_consistency_words;

		while (word->number != mode)
			word++;
		if (wr_lab_scenario_allows(scenario, mode))
			scenario->modes[kept++] = mode;
		else if (reader->modes_at)
			wr_lab_scenario_report(
				reader, WR_LAB_D_mode_of_algorithm, reader->modes_at,
				WR_ARGS(wr_str(weir_algorithm_name(scenario->algorithm)),
					word->text));
	}
	scenario->mode_count = kept;
}

static void check_log(struct wr_lab_scenario_reader *reader)
{
	const struct wr_lab_scenario *scenario = reader->scenario;

	if (scenario->algorithm != WEIR_SLIDING_LOG)
		return;
	if (scenario->limit > WEIR_LOG_MAX)
		wr_lab_scenario_report(reader, WR_LAB_D_log_too_long, reader->limit_at,
				       WR_ARGS(wr_lab_scenario_number(reader, WEIR_LOG_MAX)));
	else if ((uint64_t)scenario->limit * scenario->clients > LOG_ENTRIES_MAX)
		wr_lab_scenario_report(reader, WR_LAB_D_log_memory, reader->limit_at,
				       WR_ARGS(wr_lab_scenario_number(reader, LOG_ENTRIES_MAX)));
}

/* Returns about how many requests the traffic has. A log is not counted. */
static double estimate_requests(const struct wr_lab_scenario *scenario,
				const struct wr_lab_traffic *traffic)
{
	double span_s = (double)(scenario->duration_ns - traffic->start_ns) / S_NS;
	double rate = (double)traffic->rate_mhz / 1000, requests;

	if (traffic->for_ns && (double)traffic->for_ns / S_NS < span_s)
		span_s = (double)traffic->for_ns / S_NS;
	requests = rate * span_s;
	if (traffic->every_ns)
		requests += span_s * S_NS / (double)traffic->every_ns * traffic->burst;
	if (traffic->half_ns) {
		double half_s = (double)traffic->half_ns / S_NS * 1.4427;

		requests += (double)traffic->peak_mhz / 1000 * (half_s < span_s ? half_s : span_s);
	}
	return requests;
}

static void report_after_end(struct wr_lab_scenario_reader *reader, const struct wr_yaml *entry,
			     const char *key)
{
	const struct wr_yaml *at = wr_lab_map_find(entry, key);

	wr_lab_scenario_report(
		reader, WR_LAB_D_after_the_end, at ? at : entry,
		WR_ARGS(wr_lab_scenario_duration(reader, reader->scenario->duration_ns),
			wr_str(key)));
}

/* Without `duration`, a run whose requests all come from logs lasts as long as the logs. */
static void choose_duration(const struct wr_lab_scenario_reader *reader)
{
	struct wr_lab_scenario *scenario = reader->scenario;

	if (wr_lab_map_find(reader->root, "duration"))
		return;
	for (uint32_t i = 0; i < scenario->traffic_count; i++)
		if (scenario->traffic[i].kind != WR_LAB_LOG)
			return;
	scenario->as_long_as_logs = true;
	scenario->duration_ns = WR_LAB_DURATION_MAX_NS;
}

/* Checks that a log can be read by each run. Standard input and pipes can be read only once. */
static void check_log_path(struct wr_lab_scenario_reader *reader,
			   const struct wr_lab_traffic *traffic, const struct wr_yaml *entry)
{
	const struct wr_yaml *at = wr_lab_map_find(entry, "path");
	const char *folder = traffic->path[0] == '/' ? "" : reader->scenario->folder;
	const char *full =
		wr_load_print(reader->load, &reader->load->tree, "%s%s", folder, traffic->path);
	bool standard_input = strcmp(traffic->path, "-") == 0;
	struct stat st = {0};

	if (!standard_input && (stat(full, &st) != 0 || access(full, R_OK) != 0))
		wr_lab_scenario_report(reader, WR_LAB_D_log_not_there, at,
				       WR_ARGS(wr_str(traffic->path), wr_str(strerror(errno))));
	else if (standard_input || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		wr_lab_scenario_report(reader, WR_LAB_D_log_read_once, at,
				       WR_ARGS(wr_str(traffic->path)));
}

static void check_traffic(struct wr_lab_scenario_reader *reader)
{
	struct wr_lab_scenario *scenario = reader->scenario;
	double sum = 0;

	for (uint32_t i = 0; i < scenario->traffic_count; i++) {
		struct wr_lab_traffic *traffic = &scenario->traffic[i];

		if (traffic->start_ns >= scenario->duration_ns) {
			report_after_end(reader, reader->traffic_at[i], "start");
			continue;
		}
		if (traffic->client > scenario->clients)
			wr_lab_scenario_report(
				reader, WR_LAB_D_no_client, reader->traffic_at[i],
				WR_ARGS(wr_lab_scenario_number(reader, scenario->clients)));
		if (traffic->kind == WR_LAB_LOG)
			check_log_path(reader, traffic, reader->traffic_at[i]);
		traffic->regions &= (1u << scenario->region_count) - 1;
		sum += estimate_requests(scenario, traffic);
	}
	if (sum > REQUESTS_MAX)
		wr_lab_scenario_report(
			reader, WR_LAB_D_too_many_requests, reader->traffic_at[0],
			WR_ARGS(wr_lab_scenario_number(reader,
						       sum < 1e18 ? (uint64_t)sum : INT64_MAX),
				wr_lab_scenario_number(reader, (uint64_t)REQUESTS_MAX)));
}

/* Checks that each region of the fault has the node, for all numbers of nodes of a site. */
static void check_fault_node(struct wr_lab_scenario_reader *reader,
			     const struct wr_lab_fault *fault, const struct wr_yaml *at)
{
	const struct wr_lab_scenario *scenario = reader->scenario;

	for (uint32_t r = 0; r < scenario->region_count; r++) {
		const struct wr_lab_region *region = &scenario->regions[r];

		for (uint32_t i = 0; fault->regions >> r & 1 && i < scenario->node_counts; i++) {
			uint32_t nodes = region->sites *
					 (region->nodes ? region->nodes : scenario->nodes[i]);

			if (fault->node > nodes) {
				wr_lab_scenario_report(
					reader, WR_LAB_D_no_node, at,
					WR_ARGS(wr_str(region->name),
						wr_lab_scenario_number(reader, nodes)));
				return;
			}
		}
	}
}

static int compare_faults(const void *a, const void *b)
{
	const struct wr_lab_fault *x = a, *y = b;

	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

static void check_faults(struct wr_lab_scenario_reader *reader)
{
	struct wr_lab_scenario *scenario = reader->scenario;

	for (uint32_t i = 0; i < scenario->fault_count; i++) {
		struct wr_lab_fault *fault = &scenario->faults[i];

		if (fault->at_ns >= scenario->duration_ns)
			report_after_end(reader, reader->fault_at[i], "at");
		if (fault->kind == WR_LAB_PARTITION && scenario->region_count == 1)
			wr_lab_scenario_report(reader, WR_LAB_D_one_region, reader->fault_at[i],
					       NULL);
		fault->regions &= (1u << scenario->region_count) - 1;
		if (fault->node)
			check_fault_node(reader, fault, reader->fault_at[i]);
	}
	qsort(scenario->faults, scenario->fault_count, sizeof *scenario->faults, compare_faults);
}

void wr_lab_scenario_check(struct wr_lab_scenario_reader *reader)
{
	fill_delays(reader->scenario);
	check_nodes(reader);
	check_modes(reader);
	check_log(reader);
	choose_duration(reader);
	check_traffic(reader);
	check_faults(reader);
}
