/* Writes the page of weir top: rules, their history and their keys. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/show.h"
#include "cli/watch/top.h"
#include "cli/watch/key.h"
#include "stats/words.h"

#define BARS 20u  /* width of the bars for a minute of history */
#define WIDE 118u /* from this width on, a row has bars of refused requests too */
#define VERY_WIDE 140u
#define NARROW 100u    /* below this width, columns are short */
#define NAME_LEAST 16u /* minimum width of a rule's name */
#define NUMBERS 32u    /* width of the numbers between a rule's limit and its bars */
#define COST_NAME 10   /* width of the names of the lines of costs */
#define COST_COLUMN 13 /* width of a number of costs: five fit into 80 columns */
#define LINE 1024u

/* ---- lines ---- */

/* Writes untrusted text, escaped and padded to `columns`. */
static void put_text(struct wr_buf *page, const struct wr_cli_top_look *look, struct weir_str text,
		     size_t columns)
{
	char shown[LINE];
	size_t most = columns < LINE / 4 - 1 ? columns : LINE / 4 - 1;
	size_t used = wr_cli_show_text(text, most, look->utf8, shown, sizeof shown);

	wr_buf_printf(page, "%s%*s", shown, (int)(columns - used), "");
}

/* ---- the order of rules ---- */

static int compare_names(const struct wr_cli_watch_rule *a, const struct wr_cli_watch_rule *b)
{
	size_t len = a->stat.rule.len < b->stat.rule.len ? a->stat.rule.len : b->stat.rule.len;
	int order = memcmp(a->name, b->name, len);

	if (order)
		return order;
	return a->stat.rule.len < b->stat.rule.len ? -1 : a->stat.rule.len > b->stat.rule.len;
}

static int larger_first(uint64_t a, uint64_t b)
{
	return a > b ? -1 : a < b;
}

static int by_requests(const void *x, const void *y)
{
	const struct wr_cli_watch_rule *a = x, *b = y;
	int order = larger_first(a->rate.all_milli, b->rate.all_milli);

	if (order == 0)
		order = larger_first(wr_cli_watch_all(&a->stat), wr_cli_watch_all(&b->stat));
	return order ? order : compare_names(a, b);
}

static int by_refused(const void *x, const void *y)
{
	const struct wr_cli_watch_rule *a = x, *b = y;
	int order = larger_first(a->rate.refused_milli, b->rate.refused_milli);

	if (order == 0)
		order = larger_first(wr_cli_watch_refused(&a->stat),
				     wr_cli_watch_refused(&b->stat));
	return order ? order : by_requests(x, y);
}

static int by_name(const void *x, const void *y)
{
	return compare_names(x, y);
}

void wr_cli_top_sort_rules(struct wr_cli_watch *watch, enum wr_cli_top_sort sort)
{
	static int (*const orders[])(const void *x, const void *y) = {
		[WR_CLI_TOP_BY_REQUESTS] = by_requests,
		[WR_CLI_TOP_BY_REFUSED] = by_refused,
		[WR_CLI_TOP_BY_NAME] = by_name,
	};

	qsort(watch->rules, watch->rule_count, sizeof *watch->rules, orders[sort]);
	for (size_t i = 0; i < watch->rule_count; i++)
		watch->rules[i].stat.rule.ptr = watch->rules[i].name;
}

/* ---- history ---- */

void wr_cli_top_minute(const struct wr_cli_watch *watch, uint32_t slot,
		       uint64_t all[WR_WATCH_POINTS], uint64_t refused[WR_WATCH_POINTS])
{
	struct weir_point points[WR_WATCH_POINTS];
	uint64_t end_s;
	int count = weir_history(watch->table, slot, WEIR_SECONDS, points, WR_WATCH_POINTS, &end_s);
	size_t known = count > 0 ? (size_t)count : 0, blank = WR_WATCH_POINTS - known;

	for (size_t i = 0; i < WR_WATCH_POINTS; i++) {
		const struct weir_point *point = i < blank ? NULL : &points[i - blank];
		bool here = point && point->known;

		all[i] = here ? point->admitted + point->refused + point->shadowed : UINT64_MAX;
		refused[i] = here ? point->refused + point->shadowed : UINT64_MAX;
	}
}

static size_t bar_columns(const struct wr_cli_top_look *look)
{
	return look->columns < NARROW ? BARS / 2 : BARS;
}

void wr_cli_top_put_bars(struct wr_buf *page, const struct wr_cli_top_look *look,
			 const uint64_t *points)
{
	char bars[4 * BARS + 8];

	wr_cli_show_bars(points, WR_WATCH_POINTS, bar_columns(look), look->utf8, bars, sizeof bars);
	wr_buf_printf(page, "%s", bars);
}

/* ---- rules ---- */

static size_t limit_columns(const struct wr_cli_top_look *look)
{
	return look->columns < NARROW ? 16 : look->columns < VERY_WIDE ? 22 : 28;
}

static size_t name_columns(const struct wr_cli_top_look *look)
{
	size_t others = 1 + limit_columns(look) + NUMBERS + 2 + bar_columns(look);

	if (look->columns >= WIDE)
		others += 2 + bar_columns(look);
	return look->columns > others + NAME_LEAST ? look->columns - others : NAME_LEAST;
}

static void put_titles(const struct wr_cli_top_look *look, struct wr_buf *page)
{
	size_t name = name_columns(look);

	if (look->live)
		wr_buf_printf(page, "\x1b[7m");
	wr_buf_printf(page, "%-*s %-*s%9s%9s%5s%9s  %-*s", (int)name, "RULE",
		      (int)limit_columns(look), "LIMIT", "/s", "REF/s", "REF%", "TOTAL",
		      (int)bar_columns(look), "MINUTE");
	if (look->columns >= WIDE)
		wr_buf_printf(page, "  %-*s", (int)bar_columns(look), "REFUSED");
	if (look->live)
		wr_buf_printf(page, "\x1b[0m");
	wr_buf_add_char(page, '\n');
}

/* Writes a limit as "100 per 1m, burst 20" or "20 concurrent". The algorithm and max_hold are left
 * out, because there is no room. */
static void put_limit(const struct weir_stat *stat, const struct wr_cli_top_look *look,
		      struct wr_buf *page)
{
	struct wr_stats_limit_view limit = wr_stat_limit(stat);
	char words[160];
	const char *comma;

	if (stat->flags & WEIR_STAT_UNLIMITED || stat->algorithm == 0) {
		put_text(page, look,
			 stat->algorithm ? WR_STR("unlimited") : WR_STR("by the request"),
			 limit_columns(look));
		return;
	}
	wr_stats_limit_words(&limit, NULL, words, sizeof words);
	comma = strstr(words, ", ");
	if (comma && stat->algorithm == WEIR_CONCURRENT)
		words[comma - words] = '\0';
	else if (comma)
		memmove(words, comma + 2, strlen(comma + 2) + 1);
	put_text(page, look, wr_str(words), limit_columns(look));
}

static void put_rule(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		     size_t at, struct wr_buf *page)
{
	const struct wr_cli_watch_rule *rule = &watch->rules[at];
	uint64_t all[WR_WATCH_POINTS], refused[WR_WATCH_POINTS];
	uint64_t total = wr_cli_watch_all(&rule->stat);
	char a[WR_SHOW_RATE], b[WR_SHOW_RATE], c[WR_SHOW_RATE];
	bool chosen = look->live && at == look->chosen;

	wr_cli_show_rate(rule->rate.all_milli, a);
	wr_cli_show_rate(rule->rate.refused_milli, b);
	wr_cli_show_count(total, c);
	if (chosen)
		wr_buf_printf(page, "\x1b[1m");
	put_text(page, look, rule->stat.rule, name_columns(look));
	wr_buf_printf(page, " ");
	put_limit(&rule->stat, look, page);
	wr_buf_printf(
		page, "%9s%9s%4llu%%%9s  ", a, b,
		(unsigned long long)(total ? wr_cli_watch_refused(&rule->stat) * 100 / total : 0),
		c);
	wr_cli_top_minute(watch, rule->stat.slot, all, refused);
	wr_cli_top_put_bars(page, look, all);
	if (look->columns >= WIDE) {
		wr_buf_printf(page, "  ");
		wr_cli_top_put_bars(page, look, refused);
	}
	if (chosen)
		wr_buf_printf(page, "\x1b[0m");
	wr_buf_add_char(page, '\n');
}

/* ---- costs ---- */

#define NO_RATE (-1)

struct cost_column {
	const char *title;
	int rate;     /* index of the rate in cost_rates; NO_RATE: the column has only a total */
	size_t total; /* offset of the total in struct weir_cost */
};

static const struct cost_column unit_columns[] = {
	{"reserved", WR_COST_LINE_RESERVED, offsetof(struct weir_cost, reserved)},
	{"used", WR_COST_LINE_ACTUAL, offsetof(struct weir_cost, actual)},
	{"refunded", WR_COST_LINE_REFUNDED, offsetof(struct weir_cost, refunded)},
	{"debt", WR_COST_LINE_OWED, offsetof(struct weir_cost, owed)},
	{"lost", NO_RATE, offsetof(struct weir_cost, lost)},
};

static const struct cost_column slot_columns[] = {
	{"in use", NO_RATE, offsetof(struct weir_cost, in_use)},
	{"taken", WR_COST_LINE_RESERVED, offsetof(struct weir_cost, reserved)},
	{"given back", WR_COST_LINE_REFUNDED, offsetof(struct weir_cost, refunded)},
	{"lost", WR_SLOT_LINE_LOST, offsetof(struct weir_cost, lost)},
};

struct cost_table {
	const char *rates, *totals; /* names of the two lines */
	const struct cost_column *columns;
	size_t count;
};

static const struct cost_table unit_table = {"  units/s", "  units", unit_columns,
					     sizeof unit_columns / sizeof *unit_columns};
static const struct cost_table slot_table = {"  slots/s", "  slots", slot_columns,
					     sizeof slot_columns / sizeof *slot_columns};

static void put_cost_titles(const struct cost_table *costs, struct wr_buf *page)
{
	wr_buf_printf(page, "%*s", COST_NAME, "");
	for (size_t i = 0; i < costs->count; i++)
		wr_buf_printf(page, "%*s", COST_COLUMN, costs->columns[i].title);
	wr_buf_add_char(page, '\n');
}

/* A column without a rate widens the next column, so that no line ends in spaces. */
static void put_cost_rates(const struct cost_table *costs, const uint64_t *milli,
			   struct wr_buf *page)
{
	char text[WR_SHOW_RATE];
	int width = 0;

	wr_buf_printf(page, "%-*s", COST_NAME, costs->rates);
	for (size_t i = 0; i < costs->count; i++) {
		width += COST_COLUMN;
		if (costs->columns[i].rate == NO_RATE)
			continue;
		wr_cli_show_rate(milli[costs->columns[i].rate], text);
		wr_buf_printf(page, "%*s", width, text);
		width = 0;
	}
	wr_buf_add_char(page, '\n');
}

/* Writes a total that fits into a column: "123,456,789", or "1.2G". */
static void put_total(struct wr_buf *page, uint64_t number)
{
	char words[WR_NUMBER_WORDS], brief[WR_SHOW_RATE];

	wr_number_words(number, words);
	wr_cli_show_count(number, brief);
	wr_buf_printf(page, "%*s", COST_COLUMN, strlen(words) < COST_COLUMN ? words : brief);
}

static void put_cost_totals(const struct cost_table *costs, const struct weir_cost *cost,
			    struct wr_buf *page)
{
	uint64_t total;

	wr_buf_printf(page, "%-*s", COST_NAME, costs->totals);
	for (size_t i = 0; i < costs->count; i++) {
		memcpy(&total, (const char *)cost + costs->columns[i].total, sizeof total);
		put_total(page, total);
	}
	wr_buf_add_char(page, '\n');
}

/* Writes the units of a rule with costs, or the slots of a limit on concurrent requests, in
 * WR_CLI_TOP_COST_LINES lines. */
static void put_cost(const struct wr_cli_watch_rule *rule, struct wr_buf *page)
{
	const struct cost_table *costs =
		rule->cost.algorithm == WEIR_CONCURRENT ? &slot_table : &unit_table;

	if (rule->cost.size == 0)
		return;
	put_cost_titles(costs, page);
	put_cost_rates(costs, rule->cost_rates.milli, page);
	put_cost_totals(costs, &rule->cost, page);
}

/* ---- bans ---- */

/* Writes the bans of the rule in WR_CLI_TOP_BAN_LINES lines. */
static void put_bans(const struct weir_ban_stat *bans, struct wr_buf *page)
{
	uint64_t started = bans->started + bans->would_start;
	uint64_t refused = bans->refused + bans->would_refuse;
	char a[WR_NUMBER_WORDS], b[WR_NUMBER_WORDS];

	if (bans->size == 0)
		return;
	wr_number_words(started, a);
	wr_number_words(refused, b);
	wr_buf_printf(page, "  bans: %s started, %s request%s refused%s\n", a, b,
		      refused == 1 ? "" : "s",
		      bans->would_start + bans->would_refuse ? ", if the rule were enforced" : "");
}

/* ---- keys ---- */

static size_t read_keys(const struct wr_cli_watch *watch, uint32_t slot, enum weir_top_list list,
			struct weir_top_key *keys, size_t max)
{
	int count = weir_top(watch->table, slot, list, keys,
			     max < WEIR_TOP_KEYS ? max : WEIR_TOP_KEYS, NULL);

	return count > 0 ? (size_t)count : 0;
}

static void put_key(const struct wr_cli_top_look *look, const struct weir_top_key *key,
		    size_t columns, struct wr_buf *page)
{
	char text[LINE], count[WR_SHOW_RATE];
	size_t room = columns > 12 ? columns - 12 : 1;
	size_t used;

	if (!key) {
		wr_buf_printf(page, "%*s", (int)columns, "");
		return;
	}
	if (room > LINE / 4 - 1)
		room = LINE / 4 - 1;
	wr_cli_show_count(key->count, count);
	used = wr_cli_watch_key_text(key, room, look->utf8, text, sizeof text);
	wr_buf_printf(page, "%8s  %s%*s", count, text, (int)(columns - 10 - used), "");
}

static void put_keys(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		     size_t at, struct wr_buf *page)
{
	const struct wr_cli_watch_rule *rule = &watch->rules[at];
	struct weir_top_key hot[WEIR_TOP_KEYS], refused[WEIR_TOP_KEYS];
	size_t hots = read_keys(watch, rule->stat.slot, WEIR_TOP_HOT, hot, look->keys);
	size_t refusals = read_keys(watch, rule->stat.slot, WEIR_TOP_REFUSED, refused, look->keys);
	size_t half = look->columns / 2;

	if (hots == 0 && rule->cost.size == 0 && rule->bans.size == 0 && !look->live)
		return;
	wr_buf_add_char(page, '\n');
	put_text(page, look, rule->stat.rule, look->columns - 1);
	wr_buf_add_char(page, '\n');
	put_cost(rule, page);
	put_bans(&rule->bans, page);
	if (hots == 0 && !look->live)
		return;
	wr_buf_printf(page, "%-*s%s", (int)half, "  busiest, last minutes", "  most refused");
	wr_buf_add_char(page, '\n');
	for (size_t i = 0; i < hots || i < refusals; i++) {
		put_key(look, i < hots ? &hot[i] : NULL, half, page);
		put_key(look, i < refusals ? &refused[i] : NULL, look->columns - half, page);
		wr_buf_add_char(page, '\n');
	}
	if (hots == 0) {
		wr_buf_printf(page,
			      "  no keys: the rule is not among the busiest, or keys are hidden");
		wr_buf_add_char(page, '\n');
	}
}

/* Removes trailing blanks of each line. */
static void trim_lines(struct wr_buf *page)
{
	size_t to = 0;

	for (size_t i = 0; i < page->len; i++) {
		if (page->ptr[i] == '\n')
			while (to && page->ptr[to - 1] == ' ')
				to--;
		page->ptr[to++] = page->ptr[i];
	}
	page->ptr[to] = '\0';
	page->len = to;
}

void wr_cli_top_write(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_buf *page)
{
	size_t end = look->first + look->rules;

	wr_buf_clear(page);
	wr_cli_top_put_head(watch, look, page);
	wr_buf_add_char(page, '\n');
	put_titles(look, page);
	for (size_t i = look->first; i < watch->rule_count && i < end; i++)
		put_rule(watch, look, i, page);
	if (watch->rule_count == 0) {
		wr_buf_printf(page, "no rule has been loaded on this table yet");
		wr_buf_add_char(page, '\n');
	}
	for (size_t i = 0; i < look->detail && look->chosen + i < watch->rule_count; i++)
		put_keys(watch, look, look->chosen + i, page);
	if (wr_buf_failed(page))
		abort();
	trim_lines(page);
}
