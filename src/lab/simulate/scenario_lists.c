/* Reads the lists of a scenario: regions, links between regions, traffic and faults. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "lab/simulate/scenario_fields.h"

#define MS 1000000ull
#define S_NS (1000 * MS)
#define DAY_NS (86400 * S_NS)
#define DELAY_MAX_NS (10 * S_NS)
#define RATE_MAX_MHZ 10000000000ull /* ten million per second */

/* Calls `read` with each entry of a list of maps, and with its index. */
static void read_list(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		      const char *name, uint32_t max,
		      void (*read)(struct wr_lab_scenario_reader *reader,
				   const struct wr_yaml *entry, uint32_t index))
{
	uint32_t count = 0;

	if (value->kind != WR_YAML_LIST) {
		wr_lab_scenario_report(reader, WR_LAB_D_wrong_kind, value,
				       WR_ARGS(wr_str(name), WR_STR("a list of maps")));
		return;
	}
	if (!value->items)
		wr_lab_scenario_report(reader, WR_LAB_D_no_entries, value, WR_ARGS(wr_str(name)));
	for (const struct wr_yaml_item *item = value->items; item; item = item->next) {
		if (count == max) {
			wr_lab_scenario_report(
				reader, WR_LAB_D_too_many_entries, value,
				WR_ARGS(wr_str(name), wr_lab_scenario_number(reader, max)));
			return;
		}
		read(reader, item->value, count++);
	}
}

/* Reads the key `kind` of an entry, which is the first field of `fields`. The kind decides which
 * other keys the entry has. Returns false after an error. */
static bool read_kind(struct wr_lab_scenario_reader *reader, const struct wr_yaml *entry,
		      const struct wr_lab_map *fields, void *target)
{
	const struct wr_yaml *kind;

	if (entry->kind != WR_YAML_MAP) {
		wr_lab_scenario_report(reader, WR_LAB_D_not_a_map, entry,
				       WR_ARGS(wr_str(fields->called)));
		return false;
	}
	kind = wr_lab_map_find(entry, "kind");
	if (kind)
		return wr_lab_map_value(reader, &fields->fields[0], kind, target);
	wr_lab_scenario_report(reader, WR_LAB_D_missing, entry,
			       WR_ARGS(WR_STR("kind"), wr_str(fields->called)));
	return false;
}

/* ---- regions ---- */

int wr_lab_scenario_region(struct wr_lab_scenario_reader *reader, const struct wr_yaml *name)
{
	const struct wr_lab_scenario *scenario = reader->scenario;
	struct wr_load *load = reader->load;
	char *all = wr_load_print(load, &load->tree, "%s", scenario->regions[0].name);

	for (uint32_t i = 0; i < scenario->region_count; i++) {
		if (name->kind == WR_YAML_TEXT &&
		    wr_str_equal(name->text, wr_str(scenario->regions[i].name)))
			return (int)i;
		if (i)
			all = wr_load_print(load, &load->tree, "%s, %s", all,
					    scenario->regions[i].name);
	}
	wr_lab_scenario_report(reader, WR_LAB_D_unknown_region, name,
			       WR_ARGS(name->text, wr_str(all)));
	return -1;
}

static void read_name(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		      void *target)
{
	struct wr_lab_region *region = target;
	bool good = value->kind == WR_YAML_TEXT && value->text.len > 0 &&
		    value->text.len <= WR_LAB_NAME;

	for (size_t i = 0; good && i < value->text.len; i++) {
		char c = value->text.ptr[i];

		good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		       c == '-' || c == '_' || c == '.';
	}
	if (!good) {
		wr_lab_scenario_report(reader, WR_LAB_D_bad_name, value,
				       WR_ARGS(wr_lab_scenario_number(reader, WR_LAB_NAME)));
		return;
	}
	for (uint32_t i = 0; i < reader->scenario->region_count; i++)
		if (wr_str_equal(value->text, wr_str(reader->scenario->regions[i].name)))
			wr_lab_scenario_report(reader, WR_LAB_D_same_name, value,
					       WR_ARGS(value->text));
	memcpy(region->name, value->text.ptr, value->text.len);
	region->name[value->text.len] = '\0';
}

/* Reads `redis` of a region: a delay, or a list with the delays of the first and the last site. */
static void read_delays(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			void *target)
{
	static const struct wr_lab_map_field field = {"redis", WR_LAB_DURATION, .min = 0,
						      .max = DELAY_MAX_NS};
	struct wr_lab_region *region = target;

	if (value->kind == WR_YAML_TEXT) {
		wr_lab_map_value(reader, &field, value, &region->near_ns);
		region->far_ns = region->near_ns;
		return;
	}
	if (value->kind != WR_YAML_LIST || !value->items || !value->items->next ||
	    value->items->next->next) {
		wr_lab_scenario_report(
			reader, WR_LAB_D_wrong_kind, value,
			WR_ARGS(WR_STR("redis"),
				WR_STR("a delay, or a list of the delays of the first and the last "
				       "site")));
		return;
	}
	if (wr_lab_map_value(reader, &field, value->items->value, &region->near_ns) &&
	    wr_lab_map_value(reader, &field, value->items->next->value, &region->far_ns) &&
	    region->near_ns > region->far_ns)
		wr_lab_scenario_report(reader, WR_LAB_D_range_reversed, value, NULL);
}

#define AT(type, member) .at = offsetof(struct type, member)

static const struct wr_lab_map_field region_fields[] = {
	{"name", WR_LAB_OTHER, .read = read_name, .required = true},
	{"sites", WR_LAB_NUMBER, AT(wr_lab_region, sites), .min = 1, .max = WR_LAB_NODES},
	{"nodes", WR_LAB_NUMBER, AT(wr_lab_region, nodes), .min = 1, .max = WR_LAB_NODES},
	{"redis", WR_LAB_OTHER, .read = read_delays},
};

static void read_region(struct wr_lab_scenario_reader *reader, const struct wr_yaml *entry,
			uint32_t index)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("an entry of `regions`", region_fields);
	struct wr_lab_region *region = &reader->scenario->regions[index];

	*region = (struct wr_lab_region){.sites = 1, .near_ns = UINT64_MAX, .far_ns = UINT64_MAX};
	wr_lab_map_read(reader, entry, &fields, region, UINT32_MAX, NULL);
	reader->scenario->region_count = index + 1;
}

void wr_lab_read_regions(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target)
{
	static const struct wr_lab_map_field number = {"regions", WR_LAB_NUMBER, .min = 1,
						       .max = WR_LAB_REGIONS};
	struct wr_lab_scenario *scenario = target;
	uint32_t count;

	reader->regions_at = value;
	if (value->kind == WR_YAML_TEXT) {
		if (!wr_lab_map_value(reader, &number, value, &count))
			return;
		for (uint32_t i = 0; i < count; i++) {
			scenario->regions[i] = (struct wr_lab_region){
				.sites = 1, .near_ns = UINT64_MAX, .far_ns = UINT64_MAX};
			snprintf(scenario->regions[i].name, sizeof scenario->regions[i].name, "r%u",
				 i + 1);
		}
		scenario->region_count = count;
		return;
	}
	scenario->region_count = 0;
	read_list(reader, value, "regions", WR_LAB_REGIONS, read_region);
	if (scenario->region_count == 0)
		scenario->region_count = 1;
}

/* ---- network ---- */

static void read_from(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		      void *target)
{
	int region = wr_lab_scenario_region(reader, value);

	((struct wr_lab_link *)target)->from = region < 0 ? 0 : (uint8_t)region;
}

static void read_to(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		    void *target)
{
	int region = wr_lab_scenario_region(reader, value);

	((struct wr_lab_link *)target)->to = region < 0 ? 0 : (uint8_t)region;
}

static const struct wr_lab_map_field link_fields[] = {
	{"from", WR_LAB_OTHER, .read = read_from, .required = true},
	{"to", WR_LAB_OTHER, .read = read_to, .required = true},
	{"delay", WR_LAB_DURATION, AT(wr_lab_link, delay_ns), .min = 0, .max = DELAY_MAX_NS,
	 .required = true},
};

static void read_link(struct wr_lab_scenario_reader *reader, const struct wr_yaml *entry,
		      uint32_t index)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("an entry of `links`", link_fields);

	wr_lab_map_read(reader, entry, &fields, &reader->scenario->links[index], UINT32_MAX, NULL);
	reader->scenario->link_count = index + 1;
}

static void read_links(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		       void *target)
{
	(void)target;
	read_list(reader, value, "links", WR_LAB_LINKS, read_link);
}

static const struct wr_lab_map_field network_fields[] = {
	{"redis", WR_LAB_DURATION, AT(wr_lab_scenario, redis_delay_ns), .min = 0,
	 .max = DELAY_MAX_NS},
	{"regions", WR_LAB_DURATION, AT(wr_lab_scenario, region_delay_ns), .min = 0,
	 .max = DELAY_MAX_NS},
	{"jitter", WR_LAB_DURATION, AT(wr_lab_scenario, jitter_ns), .min = 0, .max = DELAY_MAX_NS},
	{"loss", WR_LAB_SHARE, AT(wr_lab_scenario, loss_ppm), .min = 0, .max = 500000},
	{"links", WR_LAB_OTHER, .read = read_links},
};

void wr_lab_read_network(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("`network`", network_fields);

	wr_lab_map_read(reader, value, &fields, target, UINT32_MAX, NULL);
}

/* ---- traffic ---- */

/* Reads the name of a region, or a list of names, as a set. */
static uint32_t read_set(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value)
{
	uint32_t set = 0;
	int region;

	if (value->kind != WR_YAML_LIST) {
		region = wr_lab_scenario_region(reader, value);
		return region < 0 ? 0 : 1u << region;
	}
	if (!value->items)
		wr_lab_scenario_report(reader, WR_LAB_D_no_entries, value,
				       WR_ARGS(WR_STR("regions")));
	for (const struct wr_yaml_item *item = value->items; item; item = item->next) {
		region = wr_lab_scenario_region(reader, item->value);
		set |= region < 0 ? 0 : 1u << region;
	}
	return set;
}

static void read_traffic_regions(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
				 void *target)
{
	((struct wr_lab_traffic *)target)->regions = read_set(reader, value);
}

static const struct wr_rules_word traffic_words[] = {
#define WORD(name, text) {WR_STR(text), name},
	WR_LAB_TRAFFIC_KINDS(WORD){WR_STR(""), 0},
};

#define KIND(name) (1u << (name))
#define RATED (KIND(WR_LAB_STEADY) | KIND(WR_LAB_ATTACK))

static const struct wr_lab_map_field traffic_fields[] = {
	{"kind", WR_LAB_WORD, AT(wr_lab_traffic, kind), .words = traffic_words, .required = true},
	{"rate", WR_LAB_RATE, AT(wr_lab_traffic, rate_mhz), .min = 1, .max = RATE_MAX_MHZ,
	 .kinds = RATED, .required = true},
	{"base", WR_LAB_RATE, AT(wr_lab_traffic, rate_mhz), .min = 0, .max = RATE_MAX_MHZ,
	 .kinds = KIND(WR_LAB_BURSTS) | KIND(WR_LAB_FLASH_SALE)},
	{"peak", WR_LAB_RATE, AT(wr_lab_traffic, peak_mhz), .min = 1, .max = RATE_MAX_MHZ,
	 .kinds = KIND(WR_LAB_FLASH_SALE), .required = true},
	{"half_life", WR_LAB_DURATION, AT(wr_lab_traffic, half_ns), .min = MS, .max = DAY_NS,
	 .kinds = KIND(WR_LAB_FLASH_SALE), .required = true},
	{"size", WR_LAB_NUMBER, AT(wr_lab_traffic, burst), .min = 1, .max = 1000000,
	 .kinds = KIND(WR_LAB_BURSTS), .required = true},
	{"every", WR_LAB_DURATION, AT(wr_lab_traffic, every_ns), .min = MS, .max = 7 * DAY_NS,
	 .kinds = KIND(WR_LAB_BURSTS), .required = true},
	{"start", WR_LAB_DURATION, AT(wr_lab_traffic, start_ns), .min = 0, .max = 7 * DAY_NS},
	{"for", WR_LAB_DURATION, AT(wr_lab_traffic, for_ns), .min = MS, .max = 7 * DAY_NS},
	{"client", WR_LAB_NUMBER, AT(wr_lab_traffic, client), .min = 1, .max = WR_LAB_CLIENTS,
	 .kinds = RATED | KIND(WR_LAB_BURSTS)},
	{"cost", WR_LAB_NUMBER, AT(wr_lab_traffic, cost), .min = 1, .max = 1000000},
	{"regions", WR_LAB_OTHER, .read = read_traffic_regions},
	{"path", WR_LAB_TEXT, AT(wr_lab_traffic, path), .kinds = KIND(WR_LAB_LOG),
	 .required = true},
	{"speed", WR_LAB_MILLI, AT(wr_lab_traffic, speed_milli), .min = 1, .max = 1000000,
	 .kinds = KIND(WR_LAB_LOG)},
};

static void read_one_traffic(struct wr_lab_scenario_reader *reader, const struct wr_yaml *entry,
			     uint32_t index)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("an entry of `traffic`", traffic_fields);
	struct wr_lab_traffic *traffic = &reader->scenario->traffic[index];

	*traffic = (struct wr_lab_traffic){.cost = 1, .speed_milli = 1000, .regions = UINT32_MAX};
	reader->scenario->traffic_count = index + 1;
	reader->traffic_at[index] = entry;
	if (!read_kind(reader, entry, &fields, traffic))
		return;
	wr_lab_map_read(reader, entry, &fields, traffic, traffic->kind,
			traffic_words[traffic->kind].text.ptr);
	if (traffic->kind == WR_LAB_ATTACK && !traffic->client)
		traffic->client = 1;
}

void wr_lab_read_traffic(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target)
{
	(void)target;
	read_list(reader, value, "traffic", WR_LAB_TRAFFIC, read_one_traffic);
}

/* ---- faults ---- */

/* Reads `by`: a duration, which may be negative for clock_skew. */
static void read_by(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		    void *target)
{
	static const struct wr_lab_map_field field = {"by", WR_LAB_DURATION, .min = 1,
						      .max = DELAY_MAX_NS};
	struct wr_lab_fault *fault = target;
	struct weir_str text = value->text;
	bool minus = text.len && text.ptr[0] == '-';
	uint64_t ns;

	if (fault->kind == WR_LAB_REDIS_SLOW) {
		if (wr_lab_map_value(reader, &field, value, &ns))
			fault->by_ns = (int64_t)ns;
		return;
	}
	if (minus)
		text = wr_str_from(text, 1);
	if (value->kind != WR_YAML_TEXT || wr_duration_parse(text, &ns) != 0 || ns > DAY_NS)
		wr_lab_scenario_report(reader, WR_LAB_D_not_a_skew, value, NULL);
	else
		fault->by_ns = minus ? -(int64_t)ns : (int64_t)ns;
}

static void read_fault_regions(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			       void *target)
{
	((struct wr_lab_fault *)target)->regions = read_set(reader, value);
}

static const struct wr_rules_word fault_words[] = {WR_LAB_FAULT_KINDS(WORD){WR_STR(""), 0}};

#define REDIS                                                                                      \
	(KIND(WR_LAB_REDIS_DOWN) | KIND(WR_LAB_REDIS_FLUSH) | KIND(WR_LAB_REDIS_SLOW) |            \
	 KIND(WR_LAB_REDIS_FAILOVER))

static const struct wr_lab_map_field fault_fields[] = {
	{"kind", WR_LAB_WORD, AT(wr_lab_fault, kind), .words = fault_words, .required = true},
	{"at", WR_LAB_DURATION, AT(wr_lab_fault, at_ns), .min = 0, .max = 7 * DAY_NS,
	 .required = true},
	{"for", WR_LAB_DURATION, AT(wr_lab_fault, for_ns), .min = MS, .max = 7 * DAY_NS,
	 .kinds = ~(KIND(WR_LAB_REDIS_FLUSH) | KIND(WR_LAB_REDIS_FAILOVER))},
	{"by", WR_LAB_OTHER, .read = read_by,
	 .kinds = KIND(WR_LAB_REDIS_SLOW) | KIND(WR_LAB_CLOCK_SKEW), .required = true},
	{"lag", WR_LAB_DURATION, AT(wr_lab_fault, lag_ns), .min = 0, .max = 10 * S_NS,
	 .kinds = KIND(WR_LAB_REDIS_FAILOVER)},
	{"share", WR_LAB_SHARE, AT(wr_lab_fault, loss_ppm), .min = 1, .max = 500000,
	 .kinds = KIND(WR_LAB_LOSS), .required = true},
	{"regions", WR_LAB_OTHER, .read = read_fault_regions, .kinds = ~KIND(WR_LAB_LOSS)},
	{"node", WR_LAB_NUMBER, AT(wr_lab_fault, node), .min = 1, .max = WR_LAB_NODES,
	 .kinds = KIND(WR_LAB_NODE_CRASH) | KIND(WR_LAB_CLOCK_SKEW)},
};

static void read_fault(struct wr_lab_scenario_reader *reader, const struct wr_yaml *entry,
		       uint32_t index)
{
	static const struct wr_lab_map fields = WR_LAB_MAP("an entry of `faults`", fault_fields);
	struct wr_lab_fault *fault = &reader->scenario->faults[index];

	*fault = (struct wr_lab_fault){.regions = UINT32_MAX};
	reader->scenario->fault_count = index + 1;
	reader->fault_at[index] = entry;
	if (read_kind(reader, entry, &fields, fault))
		wr_lab_map_read(reader, entry, &fields, fault, fault->kind,
				fault_words[fault->kind].text.ptr);
}

void wr_lab_read_faults(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			void *target)
{
	(void)target;
	read_list(reader, value, "faults", WR_LAB_FAULTS, read_fault);
}
