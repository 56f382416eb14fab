/* Writes the statistics of a table as JSON for the dashboard: all rules, one rule, the fleet.
 * Called by watch.c from worker threads.
 *
 * The length of the JSON is bounded, because rules come in pages and the table bounds the number of
 * history points and keys. Texts of keys come from clients and can contain any bytes. */
#ifndef WR_SERVE_ADMIN_WATCH_JSON_H
#define WR_SERVE_ADMIN_WATCH_JSON_H

#include <weir/engine.h>
#include <weir/stats.h>

#include "base/json_write.h"

#define WR_ADMIN_FILTER 64
#define WR_ADMIN_ROWS_MAX 200u

/* The ways to sort the list of rules: X(enum, name in queries). */
#define WR_ADMIN_ORDERS(X)                                                                         \
	X(WR_ADMIN_BUSY, "busy")                                                                   \
	X(WR_ADMIN_REFUSED, "refused")                                                             \
	X(WR_ADMIN_NAME, "name")

enum wr_admin_order {
#define WR_ADMIN_ORDER_ENUM(name, text) name,
	WR_ADMIN_ORDERS(WR_ADMIN_ORDER_ENUM)
#undef WR_ADMIN_ORDER_ENUM
};

/* The query of an HTTP request to /v1/overview, /v1/rule or /v1/fleet. */
struct wr_admin_query {
	uint32_t slot;       /* for /v1/rule: the rule's slot in the statistics */
	enum weir_span span; /* whether a point of the history covers a second or a minute */
	/* For /v1/overview: selects the rules whose names contain `filter`. Skips the first `first`
	 * of these rules, and lists at most `count` rules. */
	uint32_t first, count;
	enum wr_admin_order order;
	char filter[WR_ADMIN_FILTER];
};

struct wr_admin_view {
	struct weir_table *table;
	struct weir_engine *engine;
	uint64_t now_ns;
};

/* Each of these functions writes the members of one response. Returns 0, WEIR_ENOENT (there is no
 * such rule), WEIR_ELAYOUT or WEIR_EMEMORY. */
int wr_admin_json_overview(struct wr_json_out *json, const struct wr_admin_view *view,
			   const struct wr_admin_query *query);
int wr_admin_json_rule(struct wr_json_out *json, const struct wr_admin_view *view,
		       const struct wr_admin_query *query);
int wr_admin_json_fleet(struct wr_json_out *json, const struct wr_admin_view *view);

/* Writes the member "gauges": an object with the gauges that were set within the last minute. */
void wr_admin_json_gauges(struct wr_json_out *json, const struct wr_admin_view *view);

/* Writes the member "latency": count, mean, median and 99th percentile of the time that decisions
 * took in the table and in Redis. */
void wr_admin_json_latency(struct wr_json_out *json, const struct wr_admin_view *view);

/* Writes the member "history": {"span":1,"end":…,"admitted":[…],"refused":[…],"shadowed":[…],
 * "delayed":[…]}. A point is null if nothing was recorded for its time. */
void wr_admin_json_history(struct wr_json_out *json, enum weir_span span, uint64_t end_s,
			   const struct weir_point *points, size_t count);

/* Writes a key of a top list as an object. "exact" is true if the text is the whole key, so that a
 * client can look the key up by its text. */
void wr_admin_json_key(struct wr_json_out *json, const struct weir_top_key *key);

/* Returns whether these statistics are shown as a rule, that is, whether they have a load time or
 * counts. Each domain has statistics for limits that requests carry themselves. These have no load
 * time, so they are shown only after a request of the domain has carried a limit. */
bool wr_admin_is_rule(const struct weir_stat *stat);

/* Adds the counts of a rule to a sum. */
void wr_admin_add_counts(struct weir_stat *sum, const struct weir_stat *stat);

/* Writes the beginning of an object with the units or slots of a rule: totals, rates, and slots in
 * use. The caller adds members, or ends the object. */
void wr_admin_json_cost(struct wr_json_out *json, struct weir_table *table,
			const struct weir_cost *cost);

/* Writes members with the name, the limit and the counts of a rule. */
void wr_admin_json_stat(struct wr_json_out *json, struct weir_table *table,
			const struct weir_stat *stat);

#endif
