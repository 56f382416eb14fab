/* The parts of weir top: top_view.c and top_head.c write the page, top_json.c writes the JSON, and
 * top_live.c draws the page in a terminal. */
#ifndef WR_CLI_WATCH_TOP_H
#define WR_CLI_WATCH_TOP_H

#include <jansson.h>

#include "base/buffer.h"
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
	size_t rules;  /* maximum number of rules on the page */
	size_t keys;   /* maximum number of keys in a list */
	size_t detail; /* number of rules whose keys are shown, beginning with `chosen` */
	size_t columns;
	bool utf8;
	bool live; /* the page uses colours and highlights the chosen rule */
	size_t first, chosen;
};

void wr_cli_top_sort_rules(struct wr_cli_watch *watch, enum wr_cli_top_sort sort);

#define WR_CLI_TOP_BAN_LINES 1u  /* number of lines for the bans of the chosen rule */
#define WR_CLI_TOP_COST_LINES 3u /* number of lines for the costs of the chosen rule */

/* Writes the page into an empty buffer whose maximum size is WR_CLI_TOP_PAGE. The caller has sorted
 * the rules. */
#define WR_CLI_TOP_PAGE ((size_t)64 << 20)
void wr_cli_top_write(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_buf *page);

json_t *wr_cli_top_json(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look);

/* Draws the page until the user presses q. Returns an exit code. */
int wr_cli_top_live(struct wr_cli_watch *watch, struct wr_cli_top_look *look, uint64_t every_ns);

/* Writes a minute of history as bars. */
void wr_cli_top_put_bars(struct wr_buf *page, const struct wr_cli_top_look *look,
			 const uint64_t *points);

/* Returns the separator between the parts of a line. */
static inline const char *wr_cli_top_dot(const struct wr_cli_top_look *look)
{
	return look->utf8 ? "·" : "-";
}

/* Writes the lines about the table, Redis and the processes (top_head.c). */
void wr_cli_top_put_head(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
			 struct wr_buf *page);

/* Reads a minute of history of a rule, or of all rules with WEIR_STAT_ALL. Unknown seconds are
 * UINT64_MAX. */
void wr_cli_top_minute(const struct wr_cli_watch *watch, uint32_t slot,
		       uint64_t all[WR_WATCH_POINTS], uint64_t refused[WR_WATCH_POINTS]);

#endif
