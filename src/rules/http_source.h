/* Reads the values that a source (header field, cookie, path and so on) has in a request. */
#ifndef WR_RULES_HTTP_SOURCE_H
#define WR_RULES_HTTP_SOURCE_H

#include "rules/http.h"
#include "rules/http_target.h"

/* Maximum number of header fields with one name, and of different values of one source. */
#define WR_VALUES_MAX 16

/* A request while its descriptors are made. */
struct wr_rules_reading {
	const struct weir_http_view *view;
	struct wr_rules_http_memory memory;
	struct wr_target target;
	struct weir_str method; /* the method in upper case */
	struct weir_str host;   /* the host in canonical form */
	bool host_unsure;       /* servers may read the host in different ways */
	bool has_peer;
	struct wr_address peer;
	/* `at` is the index of the current reading. `path` is the pattern that this reading
	 * matches, or NULL. `captures` are the texts that match the {parts} of the pattern. */
	uint32_t at;
	const struct wr_path *path;
	struct weir_str captures[WR_CAPTURES_MAX];
	/* The different values of the source that was read most recently, in the order in which
	 * they first occur in the request. last_value is the index of the value that is last in the
	 * request. Empty values are left out. found_count also counts equal values. */
	struct weir_str values[WR_VALUES_MAX];
	uint32_t value_count;
	uint32_t found_count;
	uint32_t last_value;
};

/* Reads the values of a source into reading->values. Returns 0, or WEIR_EROOM if there is not
 * enough memory, or there are too many values or fields. */
int wr_source_read(struct wr_rules_reading *reading, const struct wr_source *source);

/* http_cost.c: returns the cost of a request that arrives. Changes reading->values. */
struct wr_rules_cost_source;
int64_t wr_source_cost(struct wr_rules_reading *reading, const struct wr_rules_cost_source *source,
		       enum wr_cost_note *note);

#endif
