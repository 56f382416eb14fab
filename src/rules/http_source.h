/* Reads the values of a source in a request. */
#ifndef WR_RULES_HTTP_SOURCE_H
#define WR_RULES_HTTP_SOURCE_H

#include "rules/http.h"
#include "rules/http_target.h"

#define WR_VALUES_MAX 16 /* different values of one name, and fields of one name that are read */

/* A request while its descriptors are made. */
struct wr_rules_reading {
	const struct weir_http_view *view;
	struct wr_memory memory;
	struct wr_target target;
	struct weir_str method; /* upper case */
	struct weir_str host;   /* canonical */
	bool host_unsure;       /* servers may read it as another host */
	bool has_peer;
	struct wr_address peer;
	/* The current reading, the pattern that it matched or NULL, and its captures. */
	uint32_t at;
	const struct wr_path *path;
	struct weir_str captures[WR_CAPTURES_MAX];
	/* The values of the source that was read last: the different ones in the order of the
	 * request, and which of them came last. An empty value counts as none. */
	struct weir_str values[WR_VALUES_MAX];
	uint32_t value_count;
	uint32_t last_value;
};

/* Reads a source into values. Returns 0, or WEIR_EROOM: not enough memory, or too many values or
 * fields. */
int wr_source_read(struct wr_rules_reading *reading, const struct wr_source *source);

#endif
