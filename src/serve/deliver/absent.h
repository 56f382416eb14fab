/* Decides whether a response with status 502, 503 or 504 to a deferred request counts as a failed
 * attempt. With such a response, a load balancer reports that the API server is unavailable. The
 * response counts only if the API server has answered another request of the same rule since the
 * previous attempt of this request. Each request that got such a response has a row in a hash
 * table. The row has the number of responses that did not count, from which the back-off is
 * computed. */
#ifndef WR_SERVE_DELIVER_ABSENT_H
#define WR_SERVE_DELIVER_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

/* Maximum number of requests with rows. A request without a row gets the longest back-off. */
#define WR_DELIVER_ABSENT_MAX 98304u
/* A row that was not used for this long is stale. Stale rows are removed when a new row needs
 * room. */
#define WR_DELIVER_ABSENT_STALE_US UINT64_C(3600000000)
/* Number of elements of present_us. Two rules can share an element. */
#define WR_DELIVER_PRESENT_MAX 64u

struct wr_deliver_absent_row;

struct wr_deliver_absent {
	/* Hash table of rows by request id; NULL: not allocated yet. */
	struct wr_deliver_absent_row *rows;
	/* `size`: number of rows, a power of 2; `used`: number of rows in use. */
	uint32_t size, used;
	/* Time (monotonic clock) at which the API server last answered a request of a rule. 0: no
	 * answer so far. The hash of the rule's name is the index. */
	uint64_t present_us[WR_DELIVER_PRESENT_MAX];
};

/* Records that the API server itself answered a request of this rule at now_us (monotonic clock,
 * not 0). */
void wr_deliver_absent_present(struct wr_deliver_absent *absent, struct weir_str rule,
			       uint64_t now_us);

/* Records that request `id` got 502, 503 or 504 at now_us. Sets *counts to whether this response
 * counts as an attempt. The response counts if the API server has answered another request of this
 * rule since the previous attempt of request `id`, because the cause is then this request and not
 * the API server. Returns the number of earlier responses to the request that did not count as
 * attempts. */
uint32_t wr_deliver_absent_note(struct wr_deliver_absent *absent, uint64_t id, struct weir_str rule,
				uint64_t now_us, bool *counts);

void wr_deliver_absent_free(struct wr_deliver_absent *absent);

#endif
