/* A request of an operator about deferred requests, at /v1/queue. queue_read.c reads the request
 * and queue.c answers it. */
#ifndef WR_SERVE_ADMIN_QUEUE_H
#define WR_SERVE_ADMIN_QUEUE_H

#include "serve/http/server.h"
#include "serve/deliver/queue_host.h"

/* An HTTP request of an operator, and the job of the queue's thread that serves it. */
struct wr_admin_queue_page {
	struct wr_queue_job job;
	struct wr_http_request *request; /* NULL: the client has disconnected */
	struct wr_queue_host *host;
	bool hidden;                    /* data of clients is not shown, because --keys hides it */
	uint32_t wanted, found, rounds; /* for a list: requests wanted and found, jobs done */
	struct wr_deferred *first, **last;
	char rule[WR_DEFER_NAME_MAX + 1];
	uint8_t key[WR_LINE_KEY_BYTES];
};

/* Reads rule, state, key, id, after and count from the query of the URL. Returns 0. On failure,
 * returns -1 and fills in the problem. */
int wr_admin_queue_read_query(struct wr_admin_queue_page *page, struct wr_problem *problem);

/* Reads rule, state, key, id, after and count from a JSON object. An object without a filter is
 * refused, unless it has "all": true. Returns 0. On failure, returns -1 and fills in the
 * problem. */
int wr_admin_queue_read_order(struct wr_admin_queue_page *page, const json_t *document,
			      struct wr_problem *problem);

/* Returns whether the filter selects by key, state or rule. */
bool wr_admin_queue_is_filtered(const struct wr_queue_filter *filter);

#endif
