/* What an operator asks of the queue, as it is read and answered. */
#ifndef WR_SERVE_ADMIN_QUEUE_H
#define WR_SERVE_ADMIN_QUEUE_H

#include "serve/http/server.h"
#include "serve/deliver/queue_host.h"

/* A request of HTTP, and the job that answers it. */
struct wr_queue_page {
	struct wr_queue_job job;
	struct wr_http_request *request; /* NULL: nobody waits for it any more */
	struct wr_queue_host *host;
	bool hidden;
	uint32_t wanted, found, rounds; /* of a list */
	struct wr_deferred *first, **last;
	char rule[WR_DEFER_NAME_MAX + 1];
	uint8_t key[WR_LINE_KEY_BYTES];
};

/* Of ?rule=, state, key, id, after, count. 0 or -1. */
int wr_queue_page_query(struct wr_queue_page *page, struct wr_problem *problem);

/* The same of a JSON object. Nothing said is not all of them: that has a word of its own. */
int wr_queue_page_order(struct wr_queue_page *page, const json_t *document,
			struct wr_problem *problem);

/* Whether some are looked for, and not all. */
bool wr_queue_is_picky(const struct wr_queue_filter *filter);

#endif
