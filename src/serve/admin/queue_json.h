/* The queue and deferred requests as JSON: docs/http-api.md. Called by queue.c. */
#ifndef WR_SERVE_ADMIN_QUEUE_JSON_H
#define WR_SERVE_ADMIN_QUEUE_JSON_H

#include "base/json_write.h"
#include "serve/deliver/queue_host.h"

#define WR_ADMIN_QUEUE_BODY_SHOWN 65536u /* a longer body is not shown */

/* Writes an object with the state, the bounds and the totals of the queue. */
void wr_admin_json_queue(struct wr_json_out *json, struct wr_queue_host *host);

/* Writes an object of a deferred request. `whole`: with its fields, and with its body if that is
 * text. `hidden`: without the data of the client; set if --keys hides the keys of clients. */
void wr_admin_json_deferred(struct wr_json_out *json, const struct wr_deferred *request, bool whole,
			    bool hidden);

#endif
