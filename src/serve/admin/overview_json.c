/* All rules: their sum over time, and a page of them in the order that was asked for. */
#include <stdlib.h>

#include "stats/words.h"
#include "wire/json.h"
#include "serve/admin/watch_json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define WINDOW_S 300u /* that shares and small curves are of */
#define BIN_S 5u      /* a point of a small curve */
#define BINS (WINDOW_S / BIN_S)

/* A rule while it is put in order. */
struct row {
	uint32_t slot;
	uint64_t weight, more; /* by which it is sorted, largest first; then by `more` */
};

struct rows {
	const struct wr_watch_view *view;
	const struct wr_watch_query *query;
	struct row *items;
	size_t count, cap;
	size_t all; /* rules there are */
	struct weir_stat sum;
};

/* ---- which rules ---- */

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static bool begins_nocase(struct weir_str text, const char *prefix)
{
	size_t i = 0;

	while (i < text.len && prefix[i] && lower(text.ptr[i]) == lower(prefix[i]))
		i++;
	return prefix[i] == '\0';
}

static bool is_wanted(struct weir_str name, const char *filter)
{
	for (size_t i = 0; i <= name.len; i++)
		if (begins_nocase(wr_str_from(name, i), filter))
			return true;
	return false;
}

/* What was counted in the window; false: nobody kept it. */
static bool window_of(struct weir_table *table, uint32_t slot, struct weir_point points[WINDOW_S],
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

static void weigh(const struct rows *rows, const struct weir_stat *stat, struct row *row)
{
	struct weir_point points[WINDOW_S], sum;
	int count;

	row->slot = stat->slot;
	row->weight = stat->recent_milli;
	row->more = stat->admitted + stat->refused + stat->shadowed + stat->deferred;
	if (rows->query->order != WR_WATCH_REFUSED)
		return;
	row->weight = 0;
	row->more = stat->refused + stat->deferred + stat->shadowed;
	if (stat->flags & WEIR_STAT_HISTORY &&
	    window_of(rows->view->table, stat->slot, points, &count, &sum))
		row->weight = sum.refused + sum.shadowed;
}

static void add_up(struct weir_stat *sum, const struct weir_stat *stat)
{
#define ADD_COUNT(field, what) sum->field += stat->field;
	WEIR_STATS(ADD_COUNT)
#undef ADD_COUNT
	sum->recent_milli += stat->recent_milli;
}

/* Names are noted before anything is counted under them; what requests bring along as limits of
 * their own is such a name in every domain. */
static bool is_rule(const struct weir_stat *stat)
{
	return stat->loaded_ns || stat->admitted || stat->refused || stat->shadowed ||
	       stat->deferred;
}

static int on_stat(void *context, const struct weir_stat *stat)
{
	struct rows *rows = context;

	add_up(&rows->sum, stat);
	if (stat->slot < WEIR_STAT_RULES || !is_rule(stat))
		return 0;
	rows->all++;
	if (!is_wanted(stat->rule, rows->query->filter))
		return 0;
	if (rows->count == rows->cap) {
		size_t cap = rows->cap ? 2 * rows->cap : 256;
		struct row *more = realloc(rows->items, cap * sizeof *more);

		if (!more)
			return WEIR_EMEMORY;
		rows->items = more;
		rows->cap = cap;
	}
	weigh(rows, stat, &rows->items[rows->count++]);
	return 0;
}

static int compare_weights(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	if (x->more != y->more)
		return x->more > y->more ? -1 : 1;
	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

struct named {
	struct row row;
	char name[WEIR_STAT_NAME_BYTES];
	size_t len;
};

static int compare_names(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int sort_by_name(struct rows *rows)
{
	struct named *named = calloc(rows->count + 1, sizeof *named);

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

/* ---- a page of them ---- */

static void put_bins(struct wr_text *out, const struct weir_point *points, size_t count,
		     bool refused)
{
	size_t skip = count % BIN_S;

	PUT(out, "[");
	for (size_t i = skip; i + BIN_S <= count; i += BIN_S) {
		uint64_t sum = 0;

		for (size_t j = i; j < i + BIN_S; j++)
			sum += points[j].refused + points[j].shadowed +
			       (refused ? 0 : points[j].admitted);
		if (i > skip)
			wr_text_char(out, ',');
		wr_text_number(out, sum);
	}
	PUT(out, "]");
}

static void put_window(struct wr_text *out, struct weir_table *table, uint32_t slot)
{
	struct weir_point points[WINDOW_S], sum;
	int count;

	if (!window_of(table, slot, points, &count, &sum)) {
		PUT(out, ",\"window\":null");
		return;
	}
	PUT(out, ",\"window\":{");
	wr_watch_put_number(out, "seconds", (uint64_t)count);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "admitted", sum.admitted);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "refused", sum.refused);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "shadowed", sum.shadowed);
	PUT(out, ",\"all\":");
	put_bins(out, points, (size_t)count, false);
	PUT(out, ",\"cut\":");
	put_bins(out, points, (size_t)count, true);
	PUT(out, "}");
}

/* Refused keys first: whoever looks at a row wants to know who it is. */
static void put_busiest(struct wr_text *out, struct weir_table *table, uint32_t slot)
{
	struct weir_top_key key;

	PUT(out, ",\"busiest\":");
	if (weir_top(table, slot, WEIR_TOP_HOT, &key, 1, NULL) > 0)
		wr_watch_put_key(out, &key);
	else
		PUT(out, "null");
	PUT(out, ",\"most_refused\":");
	if (weir_top(table, slot, WEIR_TOP_REFUSED, &key, 1, NULL) > 0)
		wr_watch_put_key(out, &key);
	else
		PUT(out, "null");
}

static void put_page(struct wr_text *out, const struct rows *rows)
{
	const struct wr_watch_query *query = rows->query;
	bool more = false;

	PUT(out, "\"rules\":{");
	wr_watch_put_number(out, "count", rows->all);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "matched", rows->count);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "first", query->first);
	PUT(out, ",\"rows\":[");
	for (size_t i = query->first; i < rows->count && i - query->first < query->count; i++) {
		struct weir_stat stat = {.size = sizeof stat};
		char name[WEIR_STAT_NAME_BYTES];

		if (weir_stats_slot(rows->view->table, rows->items[i].slot, name, &stat) != 0)
			continue;
		wr_text_put(out, more ? WR_STR(",{") : WR_STR("{"));
		more = true;
		wr_watch_put_stat(out, rows->view->table, &stat);
		put_window(out, rows->view->table, stat.slot);
		put_busiest(out, rows->view->table, stat.slot);
		PUT(out, "}");
	}
	PUT(out, "]}");
}

/* ---- all of it ---- */

static int put_all(struct wr_text *out, struct weir_table *table)
{
	struct weir_point *points = calloc(WEIR_HISTORY_SECONDS, sizeof *points);
	uint64_t end_s = 0;
	int count;

	if (!points)
		return WEIR_EMEMORY;
	count = weir_history(table, WEIR_STAT_ALL, WEIR_SECONDS, points, WEIR_HISTORY_SECONDS,
			     &end_s);
	PUT(out, "\"history\":{");
	wr_watch_put_history(out, WEIR_SECONDS, end_s, points, count > 0 ? (size_t)count : 0);
	PUT(out, "},");
	free(points);
	return 0;
}

static void put_sum(struct wr_text *out, struct weir_table *table, const struct weir_stat *sum)
{
	PUT(out, "\"totals\":{");
	wr_watch_put_milli(out, "per_second", wr_rate_now(table, sum).all_milli);
#define PUT_COUNT(field, what)                                                                     \
	wr_text_char(out, ',');                                                                    \
	wr_watch_put_number(out, #field, sum->field);
	WEIR_STATS(PUT_COUNT)
#undef PUT_COUNT
	PUT(out, "},");
}

int wr_overview_json(const struct wr_watch_view *view, const struct wr_watch_query *query,
		     struct wr_text *out)
{
	struct rows rows = {.view = view, .query = query, .sum.slot = WEIR_STAT_ALL};
	int rc = weir_stats_each(view->table, on_stat, &rows);

	if (rc == 0 && query->order == WR_WATCH_NAME)
		rc = sort_by_name(&rows);
	else if (rows.count)
		qsort(rows.items, rows.count, sizeof *rows.items, compare_weights);
	if (rc == 0)
		rc = put_all(out, view->table);
	if (rc == 0) {
		put_sum(out, view->table, &rows.sum);
		put_page(out, &rows);
	}
	free(rows.items);
	return rc;
}
