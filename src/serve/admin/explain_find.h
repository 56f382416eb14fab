/* Finds the rule that applies to a descriptor or a request, and records each step of the search.
 * `weir explain` and the admin API show the result. Nothing is counted. */
#ifndef WR_SERVE_ADMIN_EXPLAIN_FIND_H
#define WR_SERVE_ADMIN_EXPLAIN_FIND_H

#include <weir/engine.h>

#include "rules/http.h"
#include "rules/match.h"
#include "wire/json.h"

#define WR_EXPLAIN_STEPS_MAX 200
#define WR_EXPLAIN_MEMORY ((size_t)1024 * 1024)

/* The search for one descriptor in the tree of rules. */
struct wr_explain_walk {
	const struct weir_entry *entries;
	size_t count;
	/* The entry of `requests:` that made the descriptor from an HTTP request. NULL: the client
	 * sent the descriptor itself. */
	const struct wr_rules_request *request;
	bool certain;      /* true: all readings of the request make this descriptor */
	int64_t cost;      /* units that are charged when the request arrives */
	uint8_t cost_note; /* enum wr_cost_note */
	struct wr_match match;
	struct wr_rules_step steps[WR_EXPLAIN_STEPS_MAX];
	size_t step_count;
	size_t steps_left_out;
};

struct wr_explain {
	struct weir_str domain_name;
	const struct wr_node *domain; /* NULL: the rules have no domain with the name domain_name */
	const char *http;             /* request line; NULL: explain a descriptor, not a request */
	struct wr_rules_http result;  /* the descriptors of an HTTP request */
	struct wr_explain_walk *walks;
	size_t walk_count;
	void *memory; /* memory for decoded values of the request */
};

/* Prepares `explain` for searches in one domain of these rules. Returns 0 or WEIR_EMEMORY. If the
 * result is 0, the caller has to call wr_explain_free(). The rules have to outlive `explain`. */
int wr_explain_init(struct wr_explain *explain, const struct weir_rules *rules,
		    struct weir_str domain);
void wr_explain_free(struct wr_explain *explain);

/* Searches for the rule that applies to one descriptor, and appends the search with its steps to
 * explain->walks. The entries have to outlive `explain`. */
void wr_explain_descriptor(struct wr_explain *explain, const struct weir_rules *rules,
			   const struct weir_entry *entries, size_t count);

/* Searches for the rules that apply to the descriptors of a request. Returns the result of
 * wr_rules_http_read(), or 0 if the rules do not have the domain. */
int wr_explain_http(struct wr_explain *explain, const struct weir_rules *rules,
		    const struct weir_http_view *view, const char *line);

/* Returns true if a rule with `replaces` names this limit, so that the limit does not apply to the
 * request. Considers only rules that apply to a descriptor for which `certain` is true. */
bool wr_explain_is_replaced(const struct wr_explain *explain, const struct wr_rules_limit *limit);

/* Returns true if the rules deny the request, or if at least one limit applies to it. Limits that
 * are replaced, or that are set to `unlimited`, do not count. */
bool wr_explain_is_limited(const struct wr_explain *explain);

const char *wr_explain_outcome(enum wr_outcome outcome);

/* Returns the object that weir explain --json prints. The caller owns the reference. */
json_t *wr_explain_json(const struct wr_explain *explain);

#endif
