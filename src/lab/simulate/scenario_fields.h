/* Reads a map of a scenario by a table of its keys. Used by scenario.c and scenario_lists.c. */
#ifndef WR_LAB_SIMULATE_SCENARIO_FIELDS_H
#define WR_LAB_SIMULATE_SCENARIO_FIELDS_H

#include "lab/simulate/scenario.h"
#include "rules/fields.h"
#include "rules/load.h"

/* The diagnostics of scenarios, besides those of rules/diag.h that every YAML file can have:
 * X(id, text). test/lab/scenarios has a file for each id. */
#define WR_LAB_SCENARIO_DIAGNOSTICS(X)                                                             \
	X(not_a_file, "this is a directory; name a file with a scenario")                          \
	X(too_large, "the file has more than %s bytes; name a file with a scenario")               \
	X(no_scenario, "the file %s; a scenario needs at least `limit` and `traffic`")             \
	X(unknown_scenario_key, "unknown key '%s' in %s; its keys are: %s")                        \
	X(twice, "key `%s` occurs twice; remove one")                                              \
	X(missing, "`%s` is missing in %s; add it")                                                \
	X(not_a_number, "`%s` must be a whole number from %s to %s, without quotes")               \
	X(not_a_decimal, "`%s` must be a number from %s to %s, such as 1.1")                       \
	X(not_a_duration, "`%s` must be a duration from %s to %s, such as 250ms, 30s or 5m")       \
	X(not_a_rate, "`%s` must be a rate from %s to %s per second, such as 400/s or 90/m")       \
	X(not_a_share, "`%s` must be a percentage from 0% to %s, such as 2.5%")                    \
	X(not_a_skew, "`by` of `clock_skew` must be a duration up to 1d, such as 2s or -500ms")    \
	X(not_a_map, "%s must be a map")                                                           \
	X(wrong_kind, "`%s` must be %s")                                                           \
	X(too_many_entries, "`%s` has more than %s entries; remove some")                          \
	X(no_entries, "`%s` has no entries; add one or remove the key")                            \
	X(bad_name, "a name of a region has 1 to %s letters, digits and - _ .")                    \
	X(same_name, "there are two regions '%s'; rename one")                                     \
	X(unknown_region, "there is no region '%s'; the regions are: %s")                          \
	X(too_many_nodes, "the fleet has %s nodes; at most %s can be simulated")                   \
	X(mode_twice, "the mode '%s' occurs twice; remove one")                                    \
	X(mode_of_algorithm,                                                                       \
	  "a limit with the algorithm `%s` cannot have the mode `%s`, as in rule files; remove "   \
	  "the mode or change `algorithm`")                                                        \
	X(not_of_kind, "`%s` does not apply to the kind `%s`; remove it")                          \
	X(only_for, "`%s` works only with %s; remove it")                                          \
	X(both_units, "`unit` and `period` exclude each other; remove one")                        \
	X(log_too_long, "a sliding window log has at most %s entries; lower `requests_per_unit`")  \
	X(log_memory,                                                                              \
	  "the logs of all clients need more than %s entries; lower `requests_per_unit` or the "   \
	  "number of clients")                                                                     \
	X(no_client, "there are only %s clients; lower `client` or raise `clients`")               \
	X(no_node, "the region '%s' has only %s nodes; lower `node`")                              \
	X(after_the_end, "this begins after the end of the run, which lasts %s; lower `%s`")       \
	X(log_not_there,                                                                           \
	  "cannot read the log '%s': %s; check the path, which is relative to the folder of the "  \
	  "scenario")                                                                              \
	X(log_read_once,                                                                           \
	  "the log '%s' is not a file or a directory, and each run reads it again; write the log " \
	  "to a file and name that file")                                                          \
	X(one_region, "a partition needs several regions; add regions, or use `redis_down`")       \
	X(too_many_requests,                                                                       \
	  "the run would have about %s requests; at most %s can be simulated; lower a rate or "    \
	  "`duration`")                                                                            \
	X(range_reversed, "the first delay is longer than the second one; swap them")

enum wr_lab_scenario_diag {
#define WR_LAB_DIAG_ENUM(id, text) WR_LAB_D_##id,
	WR_LAB_SCENARIO_DIAGNOSTICS(WR_LAB_DIAG_ENUM)
#undef WR_LAB_DIAG_ENUM
		WR_LAB_D_COUNT
};

/* The state of reading. */
struct wr_lab_scenario_reader {
	struct wr_load *load;
	struct wr_lab_scenario *scenario;
	/* Values that are checked when the whole file has been read. NULL: not given. */
	const struct wr_yaml *traffic_at[WR_LAB_TRAFFIC], *fault_at[WR_LAB_FAULTS];
	const struct wr_yaml *root, *limit_at, *modes_at, *regions_at, *unit_at;
};

/* X(kind, type of the field that gets the value) */
#define WR_LAB_MAP_KINDS(X)                                                                        \
	X(WR_LAB_NUMBER, uint32_t)                                                                 \
	X(WR_LAB_LONG, uint64_t)     /* a whole number up to 2^63 - 1 */                           \
	X(WR_LAB_MILLI, uint32_t)    /* a number with up to three decimals, in thousandths */      \
	X(WR_LAB_DURATION, uint64_t) /* in ns */                                                   \
	X(WR_LAB_RATE, uint64_t)     /* in thousandths of a request per second */                  \
	X(WR_LAB_SHARE, uint32_t)    /* in millionths */                                           \
	X(WR_LAB_WORD, uint8_t)                                                                    \
	X(WR_LAB_TEXT, char *) /* allocated with strndup() */                                      \
	X(WR_LAB_OTHER, void)  /* read by a function */

enum wr_lab_map_kind {
#define WR_LAB_MAP_ENUM(kind, type) kind,
	WR_LAB_MAP_KINDS(WR_LAB_MAP_ENUM)
#undef WR_LAB_MAP_ENUM
};

/* A key of a map. */
struct wr_lab_map_field {
	const char *name;
	enum wr_lab_map_kind kind;
	size_t at;         /* offset of the value in the target struct */
	uint64_t min, max; /* of numbers, durations, rates and shares */
	const struct wr_rules_word *words;
	void (*read)(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
		     void *target);
	/* Set of the kinds (of traffic, of faults) that have this key; 0: all kinds. */
	uint32_t kinds;
	bool required;
};

struct wr_lab_map {
	const char *called; /* for messages: "`limit`" */
	const struct wr_lab_map_field *fields;
	size_t count;
};

#define WR_LAB_MAP(called, fields)                                                                 \
	{                                                                                          \
		called, fields, sizeof(fields) / sizeof *(fields)                                  \
	}

void wr_lab_scenario_report(struct wr_lab_scenario_reader *reader, enum wr_lab_scenario_diag id,
			    const struct wr_yaml *at, const struct weir_str *args);
/* Reports a diagnostic about the file as a whole, which has not been read. The caller frees `errors`.
 * Returns WEIR_ERULES or WEIR_EMEMORY. */
int wr_lab_scenario_refuse(const char *path, enum wr_lab_scenario_diag id,
			   const struct weir_str *args, struct weir_errors *errors);
/* Returns a number, or a duration, as text for a message. */
struct weir_str wr_lab_scenario_number(struct wr_lab_scenario_reader *reader, uint64_t number);
struct weir_str wr_lab_scenario_duration(struct wr_lab_scenario_reader *reader, uint64_t ns);

/* Reads the map into `target`. Reports unknown keys, keys that occur twice, and required keys that
 * are missing. If `kind` is not UINT32_MAX, keys of other kinds are reported too; kind_name is the
 * name of the kind. */
void wr_lab_map_read(struct wr_lab_scenario_reader *reader, const struct wr_yaml *map,
		     const struct wr_lab_map *fields, void *target, uint32_t kind,
		     const char *kind_name);
/* Reads one value. Returns false after an error. */
bool wr_lab_map_value(struct wr_lab_scenario_reader *reader, const struct wr_lab_map_field *field,
		      const struct wr_yaml *value, void *target);
/* Returns the value of a key of a map, or NULL if the map does not have the key. */
const struct wr_yaml *wr_lab_map_find(const struct wr_yaml *map, const char *name);

/* scenario_lists.c: read the values of `regions`, `network`, `traffic` and `faults`. */
void wr_lab_read_regions(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target);
void wr_lab_read_network(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target);
void wr_lab_read_traffic(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			 void *target);
void wr_lab_read_faults(struct wr_lab_scenario_reader *reader, const struct wr_yaml *value,
			void *target);
/* Returns the number of the region with this name. Reports an error and returns -1 if there is no
 * such region. */
int wr_lab_scenario_region(struct wr_lab_scenario_reader *reader, const struct wr_yaml *name);

/* scenario_check.c: checks that fit no single key, after the whole file has been read. */
void wr_lab_scenario_check(struct wr_lab_scenario_reader *reader);

#endif
