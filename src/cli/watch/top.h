/* The parts of weir top: top_view.c and top_head.c write the page, top_json.c writes the JSON, and
 * top_live.c draws the page in a terminal. */
#ifndef WR_CLI_WATCH_TOP_H
#define WR_CLI_WATCH_TOP_H

#include <jansson.h>

#include "cli/watch/data.h"

/* X(enum, name, key on the keyboard that selects this order) */
#define WR_CLI_TOP_SORTS(X)                                                                        \
	X(WR_CLI_TOP_BY_REQUESTS, "requests", 'r')                                                 \
	X(WR_CLI_TOP_BY_REFUSED, "refused", 'f')                                                   \
	X(WR_CLI_TOP_BY_NAME, "name", 'n')

enum wr_cli_top_sort {
#define WR_CLI_TOP_SORT_ENUM(name, text, key) name,
	WR_CLI_TOP_SORTS(WR_CLI_TOP_SORT_ENUM)
#undef WR_CLI_TOP_SORT_ENUM
};

/* The settings with which the page is drawn. */
struct wr_cli_top_look {
	enum wr_cli_top_sort sort;
	size_t rules;  /* rows of rules */
	size_t keys;   /* keys in each list of keys */
	size_t detail; /* number of rules whose keys are shown, beginning with `chosen` */
	size_t columns;
	bool utf8;
	bool live; /* the page has colours and marks the chosen rule */
	size_t first, chosen;
};

/* The text of the page. */
struct wr_cli_top_page {
	char *text;
	size_t len, cap;
	size_t lines;
};

void wr_cli_top_sort_rules(struct wr_watch *watch, enum wr_cli_top_sort sort);

/* Writes the page. The caller has sorted the rules. */
void wr_cli_top_write(const struct wr_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_cli_top_page *page);

json_t *wr_cli_top_json(const struct wr_watch *watch, const struct wr_cli_top_look *look);

/* Draws the page until the user presses q. Returns an exit code. */
int wr_cli_top_live(struct wr_watch *watch, struct wr_cli_top_look *look, uint64_t every_ns);

__attribute__((format(printf, 2, 3))) void wr_cli_top_put(struct wr_cli_top_page *page,
							  const char *format, ...);
void wr_cli_top_end_line(struct wr_cli_top_page *page);

/* Writes a minute of history as bars. */
void wr_cli_top_put_bars(struct wr_cli_top_page *page, const struct wr_cli_top_look *look,
			 const uint64_t *points);

/* Returns the separator between the parts of a line. */
static inline const char *wr_cli_top_dot(const struct wr_cli_top_look *look)
{
	return look->utf8 ? "·" : "-";
}

/* Writes the lines about the table, Redis and the processes (top_head.c). */
void wr_cli_top_put_head(const struct wr_watch *watch, const struct wr_cli_top_look *look,
			 struct wr_cli_top_page *page);

/* Writes the line about deferred requests, if there is a queue (top_queue.c). */
void wr_cli_top_put_queue(const struct wr_watch *watch, const char *dot,
			  struct wr_cli_top_page *page);

/* Reads a minute of history of a rule, or of all rules with WEIR_STAT_ALL. Unknown seconds are
 * UINT64_MAX. */
void wr_cli_top_minute(const struct wr_watch *watch, uint32_t slot, uint64_t all[WR_WATCH_POINTS],
		       uint64_t refused[WR_WATCH_POINTS]);

#endif
