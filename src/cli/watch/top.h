/* weir top in parts: top_view.c and top_head.c write the page, top_json.c the JSON, and top_live.c
 * draws the page in a terminal. */
#ifndef WR_CLI_WATCH_TOP_H
#define WR_CLI_WATCH_TOP_H

#include <jansson.h>

#include "cli/watch/data.h"

/* X(enum, name, key that chooses it) */
#define TOP_SORTS(X)                                                                               \
	X(TOP_BY_REQUESTS, "requests", 'r')                                                        \
	X(TOP_BY_REFUSED, "refused", 'f')                                                          \
	X(TOP_BY_NAME, "name", 'n')

enum top_sort {
#define TOP_SORT_ENUM(name, text, key) name,
	TOP_SORTS(TOP_SORT_ENUM)
#undef TOP_SORT_ENUM
};

/* How the page is drawn. */
struct top_look {
	enum top_sort sort;
	size_t rules;  /* rows */
	size_t keys;   /* of each list */
	size_t detail; /* rules whose keys are shown, from `chosen` on */
	size_t columns;
	bool utf8;
	bool live; /* with colours, and the chosen rule marked */
	size_t first, chosen;
};

/* The page as text. */
struct top_page {
	char *text;
	size_t len, cap;
	size_t lines;
};

void top_sort_rules(struct wr_watch *watch, enum top_sort sort);

/* Writes the page. The rules have been sorted. */
void top_write(const struct wr_watch *watch, const struct top_look *look, struct top_page *page);

json_t *top_json(const struct wr_watch *watch, const struct top_look *look);

/* Draws the page until the user presses q. Returns an exit code. */
int top_live(struct wr_watch *watch, struct top_look *look, uint64_t every_ns);

__attribute__((format(printf, 2, 3))) void top_put(struct top_page *page, const char *format, ...);
void top_end_line(struct top_page *page);

/* Writes a minute of history as bars. */
void top_put_bars(struct top_page *page, const struct top_look *look, const uint64_t *points);

/* The separator on a line. */
static inline const char *top_dot(const struct top_look *look)
{
	return look->utf8 ? "·" : "-";
}

/* top_head.c: table, Redis and processes. */
void top_put_head(const struct wr_watch *watch, const struct top_look *look, struct top_page *page);

/* top_queue.c: deferred requests, if there is a queue. */
void top_put_queue(const struct wr_watch *watch, const char *dot, struct top_page *page);

/* Reads a minute of history of a rule, or of WEIR_STAT_ALL. Unknown seconds are UINT64_MAX. */
void top_minute(const struct wr_watch *watch, uint32_t slot, uint64_t all[WR_WATCH_POINTS],
		uint64_t refused[WR_WATCH_POINTS]);

#endif
