/* Writes the body of GET /v1/overview: the totals of all rules over time, and a page of the rules,
 * sorted as the query asks. Called by watch.c. */
#include <stdlib.h>

#include "serve/admin/watch_json.h"
#include "stats/words.h"

#define WINDOW_S 300u /* the member "window" of a rule covers this many seconds */
#define BIN_S 5u      /* number of seconds that one point of "window" covers */

/* A rule of the list, with the two numbers by which the list is sorted if it is not sorted by
 * name. */
struct rule_rank {
	uint32_t slot;
	/* The rule with the largest `weight` is first. Of rules with equal `weight`, the rule with
	 * the largest `more` is first. Usually, `weight` is the recent rate of decisions, and
	 * `more` is the number of all requests. If the list is sorted by refusals, `weight` is the
	 * number of requests over the limit in the latest WINDOW_S seconds, and `more` is the
	 * number of all requests over the limit. */
	uint64_t weight, more;
};

struct rule_ranks {
	const struct wr_admin_view *view;
	const struct wr_admin_query *query;
	struct rule_rank *items;
	size_t count, cap;
	size_t all; /* number of all rules; `count` is the number of rules that match the filter */
	struct weir_stat sum;
};

/* ---- selecting and sorting ---- */

static bool contains_nocase(struct weir_str name, struct weir_str part)
{
	for (size_t i = 0; i + part.len <= name.len; i++)
		if (wr_str_equal_nocase((struct weir_str){name.ptr + i, part.len}, part))
			return true;
	return false;
}

/* Reads the points of a rule's history for the latest WINDOW_S seconds. Sets *count to the number
 * of points, and *sum to their sum. Returns false if the rule has no history. */
static bool read_window(struct weir_table *table, uint32_t slot, struct weir_point points[WINDOW_S],
			int *count, struct weir_point *sum)
{
	uint64_t end_s;

	*sum = (struct weir_point){0};
	*count = weir_history(table, slot, WEIR_SECONDS, points, WINDOW_S, &end_s);
	for (int i = 0; i < *count; i++) {
		sum->admitted += points[i].admitted;
		sum->refused += points[i].refused;
		sum->shadowed += points[i].shadowed;
		sum->delayed += points[i].delayed;
	}
	return *count > 0;
}

static void weigh_rule(const struct rule_ranks *rows, const struct weir_stat *stat,
		       struct rule_rank *row)
{
	struct weir_point points[WINDOW_S], sum;
	int count;

	row->slot = stat->slot;
	row->weight = stat->recent_milli;
	row->more = stat->admitted + stat->refused + stat->shadowed + stat->deferred;
	if (rows->query->order != WR_ADMIN_REFUSED)
		return;
	row->weight = 0;
	row->more = stat->refused + stat->deferred + stat->shadowed;
	if (stat->flags & WEIR_STAT_HISTORY &&
	    read_window(rows->view->table, stat->slot, points, &count, &sum))
		row->weight = sum.refused + sum.shadowed;
}

static int on_stat(void *context, const struct weir_stat *stat)
{
	struct rule_ranks *rows = context;

	wr_admin_add_counts(&rows->sum, stat);
	rows->sum.recent_milli += stat->recent_milli;
	if (stat->slot < WEIR_STAT_RULES || !wr_admin_is_rule(stat))
		return 0;
	rows->all++;
	if (!contains_nocase(stat->rule, wr_str(rows->query->filter)))
		return 0;
	if (rows->count == rows->cap) {
		size_t cap = rows->cap ? 2 * rows->cap : 256;
		struct rule_rank *more = realloc(rows->items, cap * sizeof *more);

		if (!more)
			return WEIR_EMEMORY;
		rows->items = more;
		rows->cap = cap;
	}
	weigh_rule(rows, stat, &rows->items[rows->count++]);
	return 0;
}

static int compare_weights(const void *a, const void *b)
{
	const struct rule_rank *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	if (x->more != y->more)
		return x->more > y->more ? -1 : 1;
	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

struct named_rank {
	struct rule_rank row;
	char name[WEIR_STAT_NAME_BYTES];
	size_t len;
};

static int compare_names(const void *a, const void *b)
{
	const struct named_rank *x = a, *y = b;
	int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int sort_by_name(struct rule_ranks *rows)
{
	struct named_rank *named = calloc(rows->count + 1, sizeof *named);

	if (!named)
		return WEIR_EMEMORY;
	for (size_t i = 0; i < rows->count; i++) {
		struct weir_stat stat = {.size = sizeof stat};

		named[i].row = rows->items[i];
		if (weir_stats_slot(rows->view->table, rows->items[i].slot, named[i].name, &stat) ==
		    0)
			named[i].len = stat.rule.len;
	}
	qsort(named, rows->count, sizeof *named, compare_names);
	for (size_t i = 0; i < rows->count; i++)
		rows->items[i] = named[i].row;
	free(named);
	return 0;
}

/* ---- writing ---- */

/* Writes an array of sums over BIN_S seconds each. The sums count all requests or, with
 * `only_refused`, only requests over the limit. */
static void write_bins(struct wr_json_out *json, const char *name, const struct weir_point *points,
		       size_t count, bool only_refused)
{
	wr_json_key(json, name);
	wr_json_array(json);
	for (size_t i = count % BIN_S; i + BIN_S <= count; i += BIN_S) {
		uint64_t sum = 0;

		for (size_t j = i; j < i + BIN_S; j++)
			sum += points[j].refused + points[j].shadowed +
			       (only_refused ? 0 : points[j].admitted);
		wr_json_uint(json, sum);
	}
	wr_json_end_array(json);
}

static void write_window(struct wr_json_out *json, struct weir_table *table, uint32_t slot)
{
	struct weir_point points[WINDOW_S], sum;
	int count;

	if (!read_window(table, slot, points, &count, &sum)) {
		wr_json_member_null(json, "window");
		return;
	}
	wr_json_key(json, "window");
	wr_json_object(json);
	wr_json_member_uint(json, "seconds", (uint64_t)count);
	wr_json_member_uint(json, "admitted", sum.admitted);
	wr_json_member_uint(json, "refused", sum.refused);
	wr_json_member_uint(json, "shadowed", sum.shadowed);
	write_bins(json, "all", points, (size_t)count, false);
	write_bins(json, "cut", points, (size_t)count, true);
	wr_json_end_object(json);
}

/* Writes the first key of a list of weir_top(), or null if the list is empty. */
static void write_top_key(struct wr_json_out *json, const char *name, struct weir_table *table,
			  uint32_t slot, enum weir_top_list list)
{
	struct weir_top_key key;

	wr_json_key(json, name);
	if (weir_top(table, slot, list, &key, 1, NULL) > 0)
		wr_admin_json_key(json, &key);
	else
		wr_json_null(json);
}

/* The costs of the rules on the page. */
struct page_costs {
	const struct rule_rank *rules;
	size_t count;
	struct weir_cost costs[WR_ADMIN_ROWS_MAX]; /* the size is 0 if the rule has no costs */
};

static int on_cost(void *context, const struct weir_cost *cost)
{
	struct page_costs *page = context;

	for (size_t i = 0; i < page->count; i++)
		if (page->rules[i].slot == cost->slot)
			page->costs[i] = *cost;
	return 0;
}

static void write_cost(struct wr_json_out *json, struct weir_table *table,
		       const struct weir_cost *cost)
{
	if (cost->size == 0) {
		wr_json_member_null(json, "cost");
		return;
	}
	wr_json_key(json, "cost");
	wr_admin_json_cost(json, table, cost);
	wr_json_end_object(json);
}

static size_t page_count(const struct rule_ranks *rows)
{
	size_t rest = rows->query->first < rows->count ? rows->count - rows->query->first : 0;

	return rest < rows->query->count ? rest : rows->query->count;
}

static void write_page(struct wr_json_out *json, const struct rule_ranks *rows)
{
	const struct wr_admin_query *query = rows->query;
	struct weir_table *table = rows->view->table;
	struct page_costs page = {.count = page_count(rows)};

	if (page.count) {
		page.rules = &rows->items[query->first];
		weir_costs_each(table, on_cost, &page);
	}
	wr_json_key(json, "rules");
	wr_json_object(json);
	wr_json_member_uint(json, "count", rows->all);
	wr_json_member_uint(json, "matched", rows->count);
	wr_json_member_uint(json, "first", query->first);
	wr_json_key(json, "rows");
	wr_json_array(json);
	for (size_t i = 0; i < page.count; i++) {
		struct weir_stat stat = {.size = sizeof stat};
		char name[WEIR_STAT_NAME_BYTES];

		if (weir_stats_slot(table, page.rules[i].slot, name, &stat) != 0)
			continue;
		wr_json_object(json);
		wr_admin_json_stat(json, table, &stat);
		write_cost(json, table, &page.costs[i]);
		write_window(json, table, stat.slot);
		write_top_key(json, "busiest", table, stat.slot, WEIR_TOP_HOT);
		write_top_key(json, "most_refused", table, stat.slot, WEIR_TOP_REFUSED);
		wr_json_end_object(json);
	}
	wr_json_end_array(json);
	wr_json_end_object(json);
}

static int write_history(struct wr_json_out *json, struct weir_table *table)
{
	struct weir_point *points = calloc(WEIR_HISTORY_SECONDS, sizeof *points);
	uint64_t end_s = 0;
	int count;

	if (!points)
		return WEIR_EMEMORY;
	count = weir_history(table, WEIR_STAT_ALL, WEIR_SECONDS, points, WEIR_HISTORY_SECONDS,
			     &end_s);
	wr_admin_json_history(json, WEIR_SECONDS, end_s, points, count > 0 ? (size_t)count : 0);
	free(points);
	return 0;
}

static void write_totals(struct wr_json_out *json, struct weir_table *table,
			 const struct weir_stat *sum)
{
	wr_json_key(json, "totals");
	wr_json_object(json);
	wr_json_key(json, "per_second");
	wr_json_milli(json, wr_rate_now(table, sum).all_milli);
#define WRITE_COUNT(field, what) wr_json_member_uint(json, #field, sum->field);
	WEIR_STATS(WRITE_COUNT)
#undef WRITE_COUNT
	wr_json_end_object(json);
}

int wr_admin_json_overview(struct wr_json_out *json, const struct wr_admin_view *view,
			   const struct wr_admin_query *query)
{
	struct rule_ranks rows = {.view = view, .query = query, .sum.slot = WEIR_STAT_ALL};
	int rc = weir_stats_each(view->table, on_stat, &rows);

	if (rc == 0 && query->order == WR_ADMIN_NAME)
		rc = sort_by_name(&rows);
	else if (rows.count)
		qsort(rows.items, rows.count, sizeof *rows.items, compare_weights);
	if (rc == 0)
		rc = write_history(json, view->table);
	if (rc == 0) {
		write_totals(json, view->table, &rows.sum);
		write_page(json, &rows);
	}
	free(rows.items);
	return rc;
}
