/* Shared by the files of tune: tune.c, tune_measure.c, tune_choose.c, tune_yaml.c and
 * tune_requests.c. */
#ifndef WR_LAB_TUNE_INNER_H
#define WR_LAB_TUNE_INNER_H

#include "lab/tune/tune.h"
#include "lab/tune/clients.h"
#include "lab/tune/routes.h"
#include "rules/requests.h"

#define WR_LAB_TUNE_ROUTES 64u /* largest number of routes, with given rules too */

/* The requests of a route in the current minute, and its place in the rules. */
struct wr_lab_tune_state {
	/* The first entry of `requests:` of the route. Entries that make the same descriptor keys
	 * and fixed values belong to one route, because they share counters. */
	const struct wr_rules_request *entry;
	const struct wr_lab_route *found; /* NULL: all requests, or an entry of given rules */
	uint64_t second, second_units;
	uint64_t minute, minute_units, minute_clients;
};

/* A request that waits until the routes are known. */
struct wr_lab_tune_waiting {
	struct wr_lab_record record;
	struct wr_lab_tune_waiting *next;
};

/* The sorted demands of one route, for choosing. Row `i` has the `count` needs of the clients for
 * rate i, in rising order. Further rows have the peaks of each unit, and the habits of clients. */
struct wr_lab_tune_needs {
	uint64_t *values;
	size_t count;
};
#define WR_LAB_NEED_ROWS (WR_LAB_RATES + WR_LAB_UNIT_COUNT + 3)

struct wr_lab_tune {
	struct wr_lab_tune_opts opts;
	char *source; /* the rest of the YAML of the key: "from: […]" or "value: all" */
	struct wr_lab_clients table;
	struct weir_rules *made;      /* the rules of found routes; NULL: rules were given */
	const struct wr_node *domain; /* NULL while routes are being found */
	struct wr_arena texts;
	struct wr_lab_tune_state states[WR_LAB_TUNE_ROUTES];
	struct wr_lab_tune_route routes[WR_LAB_TUNE_ROUTES];
	size_t route_count;
	struct wr_lab_route found[WR_LAB_ROUTES_MAX];
	struct wr_lab_routes *finder;
	struct wr_arena waiting_arena;
	struct wr_lab_tune_waiting *first_waiting, **last_waiting;
	uint32_t waiting_count;
	bool keep_headers; /* the key is in a header field or a cookie */
	struct wr_lab_timeline timeline;
	struct wr_lab_span span;
	struct wr_lab_tune_report report;
	struct wr_lab_tune_needs needs[WR_LAB_TUNE_ROUTES];
	bool *is_outlier; /* by number of the client */
};

/* tune_measure.c: adds a request to the demands of its client. Returns 0 or WEIR_EMEMORY. */
int wr_lab_tune_measure(struct wr_lab_tune *tune, const struct wr_lab_record *record);

/* tune_levels.c: fills tune->needs with the sorted demands of the clients that are considered.
 * Returns 0 or WEIR_EMEMORY. */
int wr_lab_tune_sort(struct wr_lab_tune *tune);
/* tune_levels.c: fills in the levels and habits of all routes from tune->needs. */
void wr_lab_tune_levels(struct wr_lab_tune *tune);
/* tune_levels.c: chooses the best pair of rate and burst that touches at most `allowance` clients of
 * a route. Returns false if no pair is usable. */
bool wr_lab_tune_pick(const struct wr_lab_tune *tune, size_t at, uint64_t allowance,
		      struct wr_lab_tune_limit *best);
/* tune_levels.c: returns whether the limits consider the client. */
bool wr_lab_tune_considers(const struct wr_lab_tune *tune, uint32_t client);

/* tune_choose.c: fills in the report. Returns 0 or WEIR_EMEMORY. */
int wr_lab_tune_choose(struct wr_lab_tune *tune);

/* tune_yaml.c: writes the entries of `requests:` of the found routes, so that the rules can be
 * loaded and matched. */
void wr_lab_tune_entries(const struct wr_lab_tune *tune, struct wr_buf *yaml);

/* tune_requests.c: writes an entry of `requests:` as it was in its file. */
void wr_lab_tune_entry(const struct wr_rules_request *entry, struct wr_buf *yaml);
/* tune_requests.c: writes "from: […]" with the sources of a key, or "value: all". Returns 0 or
 * WEIR_EINVAL. */
int wr_lab_tune_source(const char *key, struct wr_buf *yaml, struct weir_error *error);

/* tune_yaml.c: appends a text as a YAML scalar, with double quotes if it needs them. Any bytes are
 * accepted; bytes that are not UTF-8 become U+FFFD. */
void wr_lab_yaml_text(struct wr_buf *yaml, struct weir_str text);

#endif
