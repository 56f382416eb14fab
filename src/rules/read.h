/* The parts of the reader of rule files. There is one part for each kind of map. */
#ifndef WR_RULES_READ_H
#define WR_RULES_READ_H

#include "rules/fields.h"

struct wr_rules_request;

/* read_limit.c: reads rate_limit and rate_limits. Sets node->limits. */
void wr_read_limits(struct wr_load *load, const struct wr_fields *fields, struct wr_node *node);

/* read_limit_extras.c: reads `soft`, `response` and `replaces` of a limit. */
void wr_read_soft(struct wr_load *load, const struct wr_fields *fields,
		  struct wr_rules_limit *limit);
void wr_read_response(struct wr_load *load, const struct wr_fields *fields,
		      struct wr_rules_limit *limit);
/* read_concurrent.c: reads a limit with `concurrent`, and reports keys that exclude `concurrent`. */
void wr_read_concurrent(struct wr_load *load, const struct wr_fields *fields,
			struct wr_rules_limit *limit);
/* read_defer.c: reads `defer`. Called after on_limit was read. */
void wr_read_defer(struct wr_load *load, const struct wr_fields *fields,
		   struct wr_rules_limit *limit);
/* read_ban.c: reads `ban` of a limit or a candidate. Called after on_limit was read. */
void wr_read_ban(struct wr_load *load, const struct wr_fields *fields,
		 struct wr_rules_limit *limit);
void wr_read_replaces(struct wr_load *load, const struct wr_fields *fields,
		      struct wr_rules_limit *limit);

/* limit_id.c: sets the ids and statistics names of all limits of one descriptor. `marks` has the
 * location of each limit. */
void wr_rules_name_limits(struct wr_load *load, const struct wr_node *node,
			  struct wr_rules_limit *limits, uint32_t count,
			  const struct wr_yaml *const *marks);
void wr_rules_name_candidates(struct wr_load *load, const struct wr_node *node,
			      struct wr_rules_limit *candidates, uint32_t count,
			      const struct wr_yaml *const *marks);

/* read_descriptor.c: reads the list under `descriptors` into the children of `parent`. */
void wr_read_descriptors(struct wr_load *load, const struct wr_fields *fields,
			 struct wr_node *parent);

/* read_addresses.c: reads a list of addresses and prefixes. Returns NULL after an error. Sets *text
 * to the sorted list as one text, unless `text` is NULL. */
const struct wr_address_ranges *wr_read_addresses(struct wr_load *load,
						  const struct wr_fields *fields,
						  enum wr_rules_key_id key, struct weir_str *text);

/* read_metadata.c: converts any YAML to JSON. */
struct weir_str wr_read_metadata(struct wr_load *load, const struct wr_yaml *value);

/* read_request.c: returns whether a text is a token of RFC 9110. Methods and header names are
 * tokens. */
bool wr_is_token(struct weir_str text);

/* read_request.c: changes a text to lower case. The text must be a copy that nothing else uses. */
void wr_read_lower(struct weir_str text);

/* read_cost.c: read `cost` and `count` of an entry of `requests`. */
void wr_read_cost(struct wr_load *load, const struct wr_fields *fields,
		  struct wr_rules_request *request);
void wr_read_count(struct wr_load *load, const struct wr_fields *fields,
		   struct wr_rules_request *request);

/* read_request.c: reads the list under `requests`, and appends it to the list of the domain. */
void wr_read_requests(struct wr_load *load, const struct wr_fields *fields, struct wr_node *domain);

/* read_path.c: reads a path pattern. If the pattern is invalid, reports the error and returns
 * false. */
struct wr_path;
bool wr_read_path(struct wr_load *load, const struct wr_yaml *value, struct wr_path *path);

/* compile.c: wr_node_find() finds the child of `parent` that has this kind, key and value.
 * wr_node_add() adds a child with this kind, key and value. */
struct wr_node *wr_node_find(struct wr_load *load, const struct wr_node *parent, int kind,
			     struct weir_str key, struct weir_str value);
struct wr_node *wr_node_add(struct wr_load *load, struct wr_node *parent, int kind,
			    struct weir_str key, struct weir_str value, const struct wr_yaml *at);

#endif
