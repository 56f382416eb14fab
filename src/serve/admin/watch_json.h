/* The statistics of a table as JSON, for the dashboard: all rules, one rule, the fleet. Called by
 * watch.c from worker threads.
 *
 * The length is bounded: rules come in pages, history points and keys are as many as the table has.
 * Texts of keys come from clients and may be any bytes. */
#ifndef WR_SERVE_ADMIN_WATCH_JSON_H
#define WR_SERVE_ADMIN_WATCH_JSON_H

#include <weir/engine.h>
#include <weir/stats.h>

#include "base/json_write.h"

#define WR_ADMIN_FILTER 64
#define WR_ADMIN_ROWS_MAX 200u

/* The orders of rules: X(enum, name in queries). */
#define WR_ADMIN_ORDERS(X)                                                                         \
	X(WR_ADMIN_BUSY, "busy")                                                                   \
	X(WR_ADMIN_REFUSED, "refused")                                                             \
	X(WR_ADMIN_NAME, "name")

enum wr_admin_order {
#define WR_ADMIN_ORDER_ENUM(name, text) name,
	WR_ADMIN_ORDERS(WR_ADMIN_ORDER_ENUM)
#undef WR_ADMIN_ORDER_ENUM
};

/* The query of a request. */
struct wr_admin_query {
	uint32_t slot;       /* of one rule */
	enum weir_span span; /* of its history */
	/* Of all rules: those with `filter` in their names, `count` of them from `first` on. */
	uint32_t first, count;
	enum wr_admin_order order;
	char filter[WR_ADMIN_FILTER];
};

struct wr_admin_view {
	struct weir_table *table;
	struct weir_engine *engine;
	uint64_t now_ns;
};

/* Each writes members of an object. Returns 0, WEIR_ENOENT (there is no such rule), WEIR_ELAYOUT or
 * WEIR_EMEMORY. */
int wr_admin_json_overview(struct wr_json_out *json, const struct wr_admin_view *view,
			   const struct wr_admin_query *query);
int wr_admin_json_rule(struct wr_json_out *json, const struct wr_admin_view *view,
		       const struct wr_admin_query *query);
int wr_admin_json_fleet(struct wr_json_out *json, const struct wr_admin_view *view);

/* The member "gauges": an object of the gauges that were set within the last minute. */
void wr_admin_json_gauges(struct wr_json_out *json, const struct wr_admin_view *view);

/* The member "latency": how long decisions took, in the table and in Redis. */
void wr_admin_json_latency(struct wr_json_out *json, const struct wr_admin_view *view);

/* The member "history": {"span":1,"end":…,"admitted":[…],"refused":[…],"shadowed":[…],
 * "delayed":[…]}. A point for which nothing was recorded is null. */
void wr_admin_json_history(struct wr_json_out *json, enum weir_span span, uint64_t end_s,
			   const struct weir_point *points, size_t count);

/* A key of a top list, as an object. "exact" is true if the text is the whole key, so that a client
 * can look the key up by it. */
void wr_admin_json_key(struct wr_json_out *json, const struct weir_top_key *key);

/* Members with the name, the limit and the counts of a rule. */
void wr_admin_json_stat(struct wr_json_out *json, struct weir_table *table,
			const struct weir_stat *stat);

#endif
