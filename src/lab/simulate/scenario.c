/* Reads the top level of a scenario. The lists are in scenario_lists.c, and the checks of the whole
 * file in scenario_check.c. */
#include "lab/simulate/scenario.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "lab/simulate/scenario_fields.h"
#include "rules/rules.h"

#define MS 1000000ull
#define S_NS (1000 * MS)
#define DAY_NS (86400 * S_NS)

#define AT(member) .at = offsetof(struct wr_lab_scenario, member)

#define BYTES_TEXT "1000000" /* bounds.bytes */

static const struct wr_bounds bounds = {
	.files = 1,
	.bytes = 1000000,
	.yaml_depth = 20,
	.yaml_values = 20000,
	.text_bytes = 4096,
	.body_bytes = 4096,
};

/* ---- limit ---- */

static void read_unit(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		      void *target)
{
	static const struct wr_lab_map_field field = {"unit", WR_LAB_WORD, .words = wr_unit_words};
	struct wr_lab_scenario *scenario = target;
	uint8_t unit;

	reader->unit_at = value;
	if (wr_lab_map_value(reader, &field, value, &unit))
		scenario->period_ns = wr_unit_ns(unit);
}

static void read_period(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			void *target)
{
	static const struct wr_lab_map_field field = {"period", WR_LAB_DURATION, AT(period_ns),
						      .min = MS, .max = 366 * DAY_NS};
	struct wr_lab_scenario *scenario = target;

	if (wr_lab_map_value(reader, &field, value, target) && scenario->period_ns % MS)
		wr_lab_scenario_report(
			reader, WR_LAB_D_wrong_kind, value,
			WR_ARGS(WR_STR("period"), WR_STR("a whole number of milliseconds")));
	if (reader->unit_at)
		wr_lab_scenario_report(reader, WR_LAB_D_both_units, value, NULL);
}

static const struct wr_lab_map_field limit_fields[] = {
	{"algorithm", WR_LAB_WORD, AT(algorithm), .words = wr_algorithm_words},
	{"requests_per_unit", WR_LAB_NUMBER, AT(limit), .min = 1, .max = 4000000000u,
	 .required = true},
	{"unit", WR_LAB_OTHER, .read = read_unit},
	{"period", WR_LAB_OTHER, .read = read_period},
	{"burst", WR_LAB_NUMBER, AT(burst), .min = 1, .max = 4000000000u},
	{"queue_size", WR_LAB_NUMBER, AT(queue_size), .min = 1, .max = 1000000},
	{"on_store_failure", WR_LAB_WORD, AT(on_store_failure),
	 .words = wr_rules_store_failure_words},
};

static void read_limit(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		       void *target)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("`limit`", limit_fields);
	const struct wr_lab_scenario *scenario = target;
	const struct wr_yaml *at;

	reader->limit_at = value;
	wr_lab_map_read(reader, value, &fields, target, UINT32_MAX, NULL);
	if (value->kind != WR_YAML_MAP)
		return;
	at = wr_lab_map_find(value, "burst");
	if (at && scenario->algorithm != WEIR_TOKEN_BUCKET)
		wr_lab_scenario_report(
			reader, WR_LAB_D_only_for, at,
			WR_ARGS(WR_STR("burst"), WR_STR("`algorithm: token_bucket`")));
	at = wr_lab_map_find(value, "queue_size");
	if (at && scenario->algorithm != WEIR_LEAKY_BUCKET)
		wr_lab_scenario_report(
			reader, WR_LAB_D_only_for, at,
			WR_ARGS(WR_STR("queue_size"), WR_STR("`algorithm: leaky_bucket`")));
}

/* ---- modes, intervals, nodes ---- */

static void read_mode(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value)
{
	static const struct wr_lab_map_field field = {"modes", WR_LAB_WORD,
						      .words = wr_consistency_words};
	struct wr_lab_scenario *scenario = reader->scenario;
	uint8_t mode;

	if (!wr_lab_map_value(reader, &field, value, &mode))
		return;
	for (uint32_t i = 0; i < scenario->mode_count; i++)
		if (scenario->modes[i] == mode) {
			wr_lab_scenario_report(reader, WR_LAB_D_mode_twice, value,
					       WR_ARGS(value->text));
			return;
		}
	scenario->modes[scenario->mode_count++] = mode;
}

static void read_modes(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		       void *target)
{
	struct wr_lab_scenario *scenario = target;

	reader->modes_at = value;
	scenario->mode_count = 0;
	if (value->kind != WR_YAML_LIST)
		read_mode(reader, value);
	else if (!value->items)
		wr_lab_scenario_report(reader, WR_LAB_D_no_entries, value,
				       WR_ARGS(WR_STR("modes")));
	for (const struct wr_yaml_item *item = value->kind == WR_YAML_LIST ? value->items : NULL;
	     item; item = item->next)
		read_mode(reader, item->value);
}

/* Reads one value, or a list of values, of the size `size` into the array `into`. Returns their
 * number. */
static uint32_t read_values(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			    const struct wr_lab_map_field *field, void *into, size_t size)
{
	uint32_t count = 0;

	if (value->kind != WR_YAML_LIST)
		return wr_lab_map_value(reader, field, value, into);
	if (!value->items)
		wr_lab_scenario_report(reader, WR_LAB_D_no_entries, value,
				       WR_ARGS(wr_str(field->name)));
	for (const struct wr_yaml_item *item = value->items; item; item = item->next) {
		if (count == WR_LAB_SWEEP) {
			wr_lab_scenario_report(
				reader, WR_LAB_D_too_many_entries, value,
				WR_ARGS(wr_str(field->name),
					wr_lab_scenario_number(reader, WR_LAB_SWEEP)));
			return count;
		}
		count += wr_lab_map_value(reader, field, item->value, (char *)into + count * size);
	}
	return count;
}

static void read_sync(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		      void *target)
{
	/* The bounds are those of --sync-interval. */
	static const struct wr_lab_map_field field = {"sync_interval", WR_LAB_DURATION,
						      .min = 10 * MS, .max = 60 * S_NS};
	struct wr_lab_scenario *scenario = target;

	scenario->sync_count =
		read_values(reader, value, &field, scenario->sync_ns, sizeof *scenario->sync_ns);
}

static void read_nodes(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		       void *target)
{
	static const struct wr_lab_map_field field = {"nodes", WR_LAB_NUMBER, .min = 1,
						      .max = WR_LAB_NODES};
	struct wr_lab_scenario *scenario = target;

	scenario->node_counts =
		read_values(reader, value, &field, scenario->nodes, sizeof *scenario->nodes);
}

static void read_shared(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			void *target)
{
	struct wr_lab_scenario *scenario = target;
	int region = wr_lab_scenario_region(reader, value);

	scenario->shared_redis = region >= 0;
	scenario->redis_region = region >= 0 ? (uint32_t)region : 0;
}

/* ---- clients ---- */

static const struct wr_lab_map_field client_fields[] = {
	{"count", WR_LAB_NUMBER, AT(clients), .min = 1, .max = WR_LAB_CLIENTS, .required = true},
	{"zipf", WR_LAB_MILLI, AT(zipf_milli), .min = 0, .max = 5000},
};

static void read_clients(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("`clients`", client_fields);
	static const struct wr_lab_map_field number = {"clients", WR_LAB_NUMBER, AT(clients),
						       .min = 1, .max = WR_LAB_CLIENTS};

	if (value->kind == WR_YAML_TEXT)
		wr_lab_map_value(reader, &number, value, target);
	else
		wr_lab_map_read(reader, value, &fields, target, UINT32_MAX, NULL);
}

/* ---- the file ---- */

static const struct wr_rules_word spread_words[] = {
	{WR_STR("random"), WR_LAB_SPREAD_RANDOM},
	{WR_STR("client"), WR_LAB_SPREAD_CLIENT},
	{WR_STR("round_robin"), WR_LAB_SPREAD_ROUND_ROBIN},
	{WR_STR(""), 0},
};

/* The keys are read in this order, so that a later key can refer to an earlier one. */
static const struct wr_lab_map_field root_fields[] = {
	{"title", WR_LAB_TEXT, AT(title)},
	{"limit", WR_LAB_OTHER, .read = read_limit, .required = true},
	{"modes", WR_LAB_OTHER, .read = read_modes},
	{"sync_interval", WR_LAB_OTHER, .read = read_sync},
	{"nodes", WR_LAB_OTHER, .read = read_nodes},
	{"regions", WR_LAB_OTHER, .read = wr_lab_read_regions},
	{"shared_redis", WR_LAB_OTHER, .read = read_shared},
	{"network", WR_LAB_OTHER, .read = wr_lab_read_network},
	{"redis_timeout", WR_LAB_DURATION, AT(timeout_ns), .min = MS, .max = 10 * S_NS},
	{"clients", WR_LAB_OTHER, .read = read_clients},
	{"spread", WR_LAB_WORD, AT(spread), .words = spread_words},
	{"duration", WR_LAB_DURATION, AT(duration_ns), .min = MS, .max = WR_LAB_DURATION_MAX_NS},
	{"traffic", WR_LAB_OTHER, .read = wr_lab_read_traffic, .required = true},
	{"faults", WR_LAB_OTHER, .read = wr_lab_read_faults},
	{"seed", WR_LAB_LONG, AT(seed), .min = 0, .max = INT64_MAX},
	{"seeds", WR_LAB_NUMBER, AT(seeds), .min = 1, .max = WR_LAB_SEEDS},
};

static void read_root(struct wr_load *load, const struct wr_yaml *root, void *context)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("a scenario", root_fields);
	struct wr_lab_scenario_reader reader = {.load = load, .scenario = context, .root = root};

	if (root->kind != WR_YAML_MAP) {
		const char *problem = root->kind == WR_YAML_LIST
					      ? "contains a list instead of a map"
				      : root->text.len ? "contains text instead of a map"
						       : "is empty";

		wr_lab_scenario_report(&reader, WR_LAB_D_no_scenario, root,
				       WR_ARGS(wr_str(problem)));
		return;
	}
	wr_lab_map_read(&reader, root, &fields, reader.scenario, UINT32_MAX, NULL);
	if (load->diags.errors->errors == 0)
		wr_lab_scenario_check(&reader);
}

static struct wr_lab_scenario *scenario_new(const char *path)
{
	struct wr_lab_scenario *scenario = calloc(1, sizeof *scenario);
	const char *slash = strrchr(path, '/');

	if (!scenario)
		return NULL;
	*scenario = (struct wr_lab_scenario){
		.title = strdup(slash ? slash + 1 : path),
		.folder = strndup(path, slash ? (size_t)(slash - path) + 1 : 0),
		.algorithm = WEIR_FIXED_WINDOW,
		.period_ns = S_NS,
		.modes = {WR_LOCAL, WR_STRICT, WR_LEASE, WR_EVENTUAL},
		.mode_count = 4,
		.sync_ns = {100 * MS},
		.sync_count = 1,
		.nodes = {1},
		.node_counts = 1,
		.regions = {{.name = "r1", .sites = 1, .near_ns = UINT64_MAX}},
		.region_count = 1,
		.redis_delay_ns = MS / 2,
		.region_delay_ns = 40 * MS,
		.timeout_ns = 250 * MS,
		.clients = 1,
		.duration_ns = 30 * S_NS,
		.seed = 1,
		.seeds = 1,
	};
	if (scenario->title && scenario->folder)
		return scenario;
	wr_lab_scenario_free(scenario);
	return NULL;
}

int wr_lab_scenario_load(const char *path, struct wr_lab_scenario **out, struct weir_errors *errors)
{
	struct wr_lab_scenario *scenario;
	struct stat st;
	int rc;

	*out = NULL;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return wr_lab_scenario_refuse(path, WR_LAB_D_not_a_file, NULL, errors);
	if (stat(path, &st) == 0 && (uint64_t)st.st_size > bounds.bytes)
		return wr_lab_scenario_refuse(path, WR_LAB_D_too_large, WR_ARGS(WR_STR(BYTES_TEXT)),
					      errors);
	scenario = scenario_new(path);
	if (!scenario)
		return WEIR_EMEMORY;
	rc = wr_yaml_load(path, &bounds, read_root, scenario, errors);
	if (rc == 0)
		*out = scenario;
	else
		wr_lab_scenario_free(scenario);
	return rc;
}

void wr_lab_scenario_free(struct wr_lab_scenario *scenario)
{
	if (!scenario)
		return;
	for (uint32_t i = 0; i < scenario->traffic_count; i++)
		free(scenario->traffic[i].path);
	free(scenario->title);
	free(scenario->folder);
	free(scenario);
}

uint32_t wr_lab_scenario_sites(const struct wr_lab_scenario *scenario)
{
	uint32_t sites = 0;

	for (uint32_t i = 0; i < scenario->region_count; i++)
		sites += scenario->regions[i].sites;
	return sites;
}

uint32_t wr_lab_scenario_nodes(const struct wr_lab_scenario *scenario, uint32_t nodes)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < scenario->region_count; i++) {
		const struct wr_lab_region *region = &scenario->regions[i];

		sum += region->sites * (region->nodes ? region->nodes : nodes);
	}
	return sum;
}

uint32_t wr_lab_scenario_capacity(const struct wr_lab_scenario *scenario)
{
	if (scenario->algorithm == WEIR_LEAKY_BUCKET)
		return scenario->queue_size + 1;
	return scenario->burst ? scenario->burst : scenario->limit;
}
