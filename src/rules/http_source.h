/* Where a value in a request comes from. */
#ifndef WR_RULES_HTTP_SOURCE_H
#define WR_RULES_HTTP_SOURCE_H

#include "rules/http.h"
#include "rules/http_target.h"

#define WR_VALUES_MAX 16 /* different values of one name, and fields of one name that are read */

/* One request while its entries are made. */
struct wr_reading {
	const struct weir_http_view *view;
	struct wr_memory memory;
	struct wr_target target;
	struct weir_str method; /* upper case */
	struct weir_str host;   /* canonical */
	bool host_unsure;       /* servers may take it for another one */
	bool has_peer;
	struct wr_address peer;
	/* The reading at hand, the pattern it matched or NULL, and the parts it gave. */
	uint32_t at;
	const struct wr_path *path;
	struct weir_str captures[WR_CAPTURES_MAX];
	/* What the source read last has: its different values in the order of the request, and
	 * which of them came last. An empty value is as good as none. */
	struct weir_str values[WR_VALUES_MAX];
	uint32_t value_count;
	uint32_t last_value;
};

/* Returns 0, or WEIR_EROOM: not enough memory, or more values or fields than are read. */
int wr_source_read(struct wr_reading *reading, const struct wr_source *source);

#endif
