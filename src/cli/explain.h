/* What weir explain found out, before it is shown as text or JSON. */
#ifndef WR_CLI_EXPLAIN_H
#define WR_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "rules/http.h"
#include "rules/match.h"

#define EXPLAIN_STEPS_MAX 200

/* One descriptor's walk through the tree. */
struct explain_walk {
	const struct weir_entry *entries;
	size_t count;
	const struct wr_request *request; /* what made it, or NULL */
	struct wr_match match;
	struct wr_step steps[EXPLAIN_STEPS_MAX];
	size_t step_count;
	size_t steps_left_out;
};

struct explain {
	struct weir_str domain_name;
	const struct wr_node *domain; /* NULL: there is none of that name */
	const char *http;             /* the request line, or NULL */
	struct wr_http result;        /* of an HTTP request */
	struct explain_walk *walks;
	size_t walk_count;
};

void explain_print_text(const struct explain *explain);
json_t *explain_json(const struct explain *explain);

/* Whether another walk of the request replaces this limit. */
bool explain_is_replaced(const struct explain *explain, const struct wr_limit *limit);

const char *explain_outcome(enum wr_outcome outcome);

#endif
