/* Writes the queue and deferred requests as JSON, as docs/http-api.md describes. Called by
 * queue.c. */
#ifndef WR_SERVE_ADMIN_QUEUE_JSON_H
#define WR_SERVE_ADMIN_QUEUE_JSON_H

#include "base/json_write.h"
#include "serve/deliver/queue_host.h"

#define WR_ADMIN_QUEUE_BODY_SHOWN 65536u /* a longer body is not shown */

/* Writes an object with the state, the bounds and the totals of the queue. */
void wr_admin_json_queue(struct wr_json_out *json, struct wr_queue_host *host);

/* Writes an object with a deferred request. `whole` adds its header fields, and its body if the
 * body is text. `hidden` leaves out the data of the client; the caller sets it if --keys hides the
 * keys of clients. */
void wr_admin_json_deferred(struct wr_json_out *json, const struct wr_deferred *request, bool whole,
			    bool hidden);

#endif
