/* Where a value in a request comes from. */
#ifndef WR_RULES_HTTP_SOURCE_H
#define WR_RULES_HTTP_SOURCE_H

#include "rules/http.h"
#include "rules/http_target.h"

/* One request while its entries are made. */
struct wr_reading {
	const struct weir_http_view *view;
	struct wr_memory memory;
	struct wr_target target;
	struct weir_str method; /* upper case */
	struct weir_str host;   /* canonical */
	bool has_peer;
	struct wr_address peer;
	const struct wr_path *path; /* the pattern that matched the entry at hand, or NULL */
	struct weir_str captures[WR_CAPTURES_MAX];
};

enum wr_presence {
	WR_ABSENT,
	WR_PRESENT,
	WR_AMBIGUOUS, /* there more than once, with different values; the first is given */
};

/* An empty value is as good as none. Returns enum wr_presence or WEIR_EROOM. */
int wr_source_read(struct wr_reading *reading, const struct wr_source *source,
		   struct weir_str *value);

#endif
