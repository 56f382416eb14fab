/* Which rule a descriptor or a request meets, step by step: found out here, shown by weir explain
 * and by the admin API. Nothing is counted. */
#ifndef WR_SERVE_ADMIN_EXPLAIN_FIND_H
#define WR_SERVE_ADMIN_EXPLAIN_FIND_H

#include <weir/engine.h>

#include "rules/http.h"
#include "rules/match.h"
#include "wire/json.h"

#define WR_EXPLAIN_STEPS_MAX 200
#define WR_EXPLAIN_MEMORY ((size_t)1024 * 1024)

/* One descriptor's walk through the tree. */
struct wr_explain_walk {
	const struct weir_entry *entries;
	size_t count;
	const struct wr_rules_request *request; /* what made it, or NULL */
	bool certain;                           /* every reading of the request makes it */
	struct wr_match match;
	struct wr_rules_step steps[WR_EXPLAIN_STEPS_MAX];
	size_t step_count;
	size_t steps_left_out;
};

struct wr_explain {
	struct weir_str domain_name;
	const struct wr_node *domain; /* NULL: there is none of that name */
	const char *http;             /* the request line, or NULL */
	struct wr_http result;        /* of an HTTP request */
	struct wr_explain_walk *walks;
	size_t walk_count;
	void *memory; /* decoded values of a request */
};

/* Begins with a domain of rules that outlive it. WEIR_EMEMORY; free it after 0. */
int wr_explain_init(struct wr_explain *explain, const struct weir_rules *rules,
		    struct weir_str domain);
void wr_explain_free(struct wr_explain *explain);

/* What a descriptor meets; the entries must outlive it. */
void wr_explain_descriptor(struct wr_explain *explain, const struct weir_rules *rules,
			   const struct weir_entry *entries, size_t count);

/* The same for every descriptor that a request makes. Returns what wr_http_read does. */
int wr_explain_http(struct wr_explain *explain, const struct weir_rules *rules,
		    const struct weir_http_view *view, const char *line);

/* Whether another walk of the request replaces this limit. */
bool wr_explain_is_replaced(const struct wr_explain *explain, const struct wr_limit *limit);

/* Whether any limit applies, or the request is denied. */
bool wr_explain_is_limited(const struct wr_explain *explain);

const char *wr_explain_outcome(enum wr_outcome outcome);

/* As weir explain --json prints it. */
json_t *wr_explain_json(const struct wr_explain *explain);

/* Answers {"domain": …, "entries": […]} or {"request": {…}} as POST /v1/check has them, by the
 * rules in force: {"generation":…,"domains":[…]}, each as above and with "sources", the places that
 * requests may bring the value of each entry from. *text is malloc's. 0, or -1 and what is wrong.
 */
int wr_explain_answer(struct weir_engine *engine, struct weir_str body, char **text,
		      struct wr_problem *problem);

#endif
