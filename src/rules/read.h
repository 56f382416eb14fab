/* The parts of the reader, one for each kind of map. */
#ifndef WR_RULES_READ_H
#define WR_RULES_READ_H

#include "rules/fields.h"

/* read_limit.c: rate_limit, rate_limits. Sets node->limits. */
void wr_read_limits(struct wr_load *load, const struct wr_fields *fields, struct wr_node *node);

/* read_limit_extras.c: the parts of a limit that are maps themselves. */
void wr_read_soft(struct wr_load *load, const struct wr_fields *fields, struct wr_limit *limit);
void wr_read_response(struct wr_load *load, const struct wr_fields *fields, struct wr_limit *limit);
/* read_defer.c: called after on_limit was read. */
void wr_read_defer(struct wr_load *load, const struct wr_fields *fields, struct wr_limit *limit);
void wr_read_replaces(struct wr_load *load, const struct wr_fields *fields, struct wr_limit *limit);

/* limit_id.c: names the limits of one node, after all of them were read. `marks` has the location
 * of each. */
void wr_name_limits(struct wr_load *load, const struct wr_node *node, struct wr_limit *limits,
		    uint32_t count, const struct wr_yaml *const *marks);
void wr_name_candidates(struct wr_load *load, const struct wr_node *node,
			struct wr_limit *candidates, uint32_t count,
			const struct wr_yaml *const *marks);

/* read_descriptor.c: the list under `descriptors`, into the children of parent. */
void wr_read_descriptors(struct wr_load *load, const struct wr_fields *fields,
			 struct wr_node *parent);

/* read_addresses.c: a list of addresses and prefixes; NULL after an error. `text`: the list,
 * sorted and joined, as one text. */
const struct wr_ranges *wr_read_addresses(struct wr_load *load, const struct wr_fields *fields,
					  enum wr_key_id key, struct weir_str *text);

/* read_metadata.c: any YAML as JSON. */
struct weir_str wr_read_metadata(struct wr_load *load, const struct wr_yaml *value);

/* read_request.c: whether a text is a token (RFC 9110), as methods and header names are. */
bool wr_is_token(struct weir_str text);

/* read_request.c: the list under `requests`, appended to the domain's. */
void wr_read_requests(struct wr_load *load, const struct wr_fields *fields, struct wr_node *domain);

/* compile.c: finds or makes this child of `parent`. */
struct wr_node *wr_node_find(struct wr_load *load, const struct wr_node *parent, int kind,
			     struct weir_str key, struct weir_str value);
struct wr_node *wr_node_add(struct wr_load *load, struct wr_node *parent, int kind,
			    struct weir_str key, struct weir_str value, const struct wr_yaml *at);

#endif
