/* What the statistics in a table tell, as JSON for the dashboard: all rules, one rule, the fleet.
 *
 * Everything is bounded: rules come by the page, points and keys as many as are kept. Texts of keys
 * are clients' and may have been any bytes. */
#ifndef WR_SERVE_ADMIN_WATCH_JSON_H
#define WR_SERVE_ADMIN_WATCH_JSON_H

#include <weir/engine.h>
#include <weir/stats.h>

#include "limiter/text.h"

#define WR_WATCH_FILTER 64
#define WR_WATCH_ROWS_MAX 200u

/* X(enum, name in queries): rules by … */
#define WR_WATCH_ORDERS(X)                                                                         \
	X(WR_WATCH_BUSY, "busy")                                                                   \
	X(WR_WATCH_REFUSED, "refused")                                                             \
	X(WR_WATCH_NAME, "name")

enum wr_watch_order {
#define WR_WATCH_ORDER_ENUM(name, text) name,
	WR_WATCH_ORDERS(WR_WATCH_ORDER_ENUM)
#undef WR_WATCH_ORDER_ENUM
};

/* What is asked for. */
struct wr_watch_query {
	uint32_t slot;       /* one rule */
	enum weir_span span; /* its history by the second, or by the minute */
	/* Of all rules: those with `filter` in their names, from `first` on, so many. */
	uint32_t first, count;
	enum wr_watch_order order;
	char filter[WR_WATCH_FILTER];
};

struct wr_watch_view {
	struct weir_table *table;
	struct weir_engine *engine;
	uint64_t now_ns;
};

/* Each writes members of an object, without its braces. 0, WEIR_ENOENT (no such rule),
 * WEIR_ELAYOUT, WEIR_EMEMORY. */
int wr_overview_json(const struct wr_watch_view *view, const struct wr_watch_query *query,
		     struct wr_text *out);
int wr_rule_json(const struct wr_watch_view *view, const struct wr_watch_query *query,
		 struct wr_text *out);
int wr_fleet_json(const struct wr_watch_view *view, struct wr_text *out);

/* Gauges that were set of late, as an object; nothing older than a minute is news. */
void wr_gauges_json(const struct wr_watch_view *view, struct wr_text *out);

/* How long decisions took, in the table and by the central store, as an object. */
void wr_latency_json(const struct wr_watch_view *view, struct wr_text *out);

/* ---- pieces ---- */

/* `"name":number`; the name is a literal of ours. */
void wr_watch_put_number(struct wr_text *out, const char *name, uint64_t number);

/* Thousandths as a number: 1500 is 1.5. */
void wr_watch_put_milli(struct wr_text *out, const char *name, uint64_t milli);

/* `"span":1,"end":…,"admitted":[…],"refused":[…],"shadowed":[…],"delayed":[…]`, null where nobody
 * watched. */
void wr_watch_put_history(struct wr_text *out, enum weir_span span, uint64_t end_s,
			  const struct weir_point *points, size_t count);

/* A key of a top list, as an object. */
void wr_watch_put_key(struct wr_text *out, const struct weir_top_key *key);

/* Name, words, numbers and counts of a rule. */
void wr_watch_put_stat(struct wr_text *out, struct weir_table *table, const struct weir_stat *stat);

#endif
