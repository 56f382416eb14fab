/* The queue as operators see it: docs/http-api.md. */
#ifndef WR_SERVE_ADMIN_QUEUE_JSON_H
#define WR_SERVE_ADMIN_QUEUE_JSON_H

#include "serve/deliver/queue_host.h"
#include "wire/json.h"

#define WR_QUEUE_BODY_SHOWN 65536u

/* An object: how it stands. */
void wr_queue_json(struct wr_queue_host *host, struct wr_text *out);

/* A request; `whole` with its fields and its body, as far as it is text. Where keys of clients are
 * not to be seen (--keys), neither are what they sent: `hidden`. */
void wr_queue_json_request(const struct wr_deferred *request, bool whole, bool hidden,
			   struct wr_text *out);

#endif
