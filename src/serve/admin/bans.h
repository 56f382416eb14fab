/* The routes /v1/bans and /v1/bans/release. bans.c reads a request and answers it, bans_json.c
 * writes the list. */
#ifndef WR_SERVE_ADMIN_BANS_H
#define WR_SERVE_ADMIN_BANS_H

#include <weir/stats.h>

#include "limiter/release.h"
#include "serve/admin/admin.h"

#define WR_ADMIN_BANS_PAGE 100u      /* number of bans of a page, if the request does not set it */
#define WR_ADMIN_BANS_PAGE_MAX 1000u /* maximum number of bans of a page */
#define WR_ADMIN_BANS_AFTER 32       /* size of a buffer for the position of a page */

/* Which bans a page of the list has. The newest ban comes first. */
struct wr_admin_bans_query {
	struct wr_release which; /* which.rule is in `rule` */
	char rule[WEIR_STAT_NAME_BYTES];
	/* The page begins behind the ban with this start and this key. */
	bool has_after;
	uint32_t after_s;
	uint64_t after_tag;
	uint32_t count;
	/* --keys hides the keys of clients: the keys of automatic bans are left out, and so are their
	 * addresses, except those of bans with `shield`. */
	bool hidden;
};

/* Reads the member "next" of an earlier page. Returns false if the text has another form. */
bool wr_admin_bans_after_read(const char *text, struct wr_admin_bans_query *query);

/* Writes a page of the list. work->context is a struct wr_admin_bans_query. A wr_admin_work_fn. */
int wr_admin_bans_write(struct wr_json_out *json, const struct wr_admin_work *work);

/* Writes an object with the state of weir shield, or null if no shield runs. */
void wr_admin_json_shield(struct wr_json_out *json, struct weir_table *table, uint64_t now_ns);

#endif
