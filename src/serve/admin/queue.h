/* The routes /v1/queue/… for operators. queue_read.c reads a request, queue.c answers it, and
 * queue_json.c writes the body of the response. */
#ifndef WR_SERVE_ADMIN_QUEUE_H
#define WR_SERVE_ADMIN_QUEUE_H

#include "base/json_write.h"
#include "serve/http/server.h"
#include "serve/deliver/queue_host.h"

/* An HTTP request of an operator, and the job of the queue's thread that serves it. */
struct wr_admin_queue_page {
	struct wr_queue_job job;
	struct wr_serve_http_request *request; /* NULL: the client has disconnected */
	struct wr_serve_queue_host *host;
	bool hidden; /* true: --keys hides the keys of clients, so their data is not shown */
	/* For a list: number of requests wanted, number of requests found, and number of jobs
	 * done. */
	uint32_t wanted, found, rounds;
	struct wr_queue_request *first, **last;
	char rule[WR_DEFER_NAME_MAX + 1];
	uint8_t key[WR_LINE_KEY_BYTES];
};

/* Reads rule, state, key, id, after and count from the query of the URL. Returns 0. On failure,
 * returns -1 and fills in the problem. */
int wr_admin_queue_read_query(struct wr_admin_queue_page *page, struct wr_problem *problem);

/* Reads rule, state, key, id, after and count from a JSON object. The object has to contain at
 * least one of id, rule, state and key, or "all": true. Otherwise, or if a member is invalid,
 * returns -1 and fills in the problem. Returns 0 on success. */
int wr_admin_queue_read_order(struct wr_admin_queue_page *page, const json_t *document,
			      struct wr_problem *problem);

/* Returns whether the filter selects by key, state or rule. */
bool wr_admin_queue_is_filtered(const struct wr_queue_filter *filter);

/* ---- queue_json.c ---- */

#define WR_ADMIN_QUEUE_BODY_SHOWN 65536u /* a longer body is not shown */

/* Writes an object with the state of the queue, its maximum sizes, and its totals. */
void wr_admin_json_queue(struct wr_json_out *json, struct wr_serve_queue_host *host);

/* Writes an object with a deferred request. `whole` adds its header fields, and its body if the
 * body is text. `hidden` leaves out the data of the client. */
void wr_admin_json_deferred(struct wr_json_out *json, const struct wr_queue_request *request,
			    bool whole, bool hidden);

#endif
