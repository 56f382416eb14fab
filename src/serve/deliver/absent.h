/* Deferred requests that got 502, 503 or 504: a load balancer reports that the API server is
 * unavailable. Such a response counts as a failed attempt only if the API server has answered another
 * request of the same rule since the previous attempt. Each request has a row of its own, so each has
 * its own back-off. */
#ifndef WR_SERVE_DELIVER_ABSENT_H
#define WR_SERVE_DELIVER_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_DELIVER_ABSENT_MAX 98304u /* requests; further ones get the longest back-off */
#define WR_DELIVER_ABSENT_STALE_US UINT64_C(3600000000) /* older rows may be evicted */
#define WR_DELIVER_PRESENT_MAX 64u                      /* rules; two may share an entry */

struct wr_deliver_absent_row;

struct wr_deliver_absent {
	struct wr_deliver_absent_row *rows; /* indexed by the hash of the id; NULL: none yet */
	uint32_t size, used;                /* number of rows, a power of 2, and of rows in use */
	/* When the API server last answered, indexed by the hash of the rule. */
	uint64_t present_us[WR_DELIVER_PRESENT_MAX];
};

/* The API server itself answered a request of this rule at now_us (monotonic, not 0). */
void wr_deliver_absent_present(struct wr_deliver_absent *absent, struct weir_str rule,
			       uint64_t now_us);

/* Request `id` got 502, 503 or 504 at now_us. Returns how many such responses it got before that did
 * not count as attempts. Sets *counts if this one counts: the API server has answered another request
 * of this rule since the previous attempt, so the problem lies in this request. */
uint32_t wr_deliver_absent_note(struct wr_deliver_absent *absent, uint64_t id, struct weir_str rule,
				uint64_t now_us, bool *counts);

void wr_deliver_absent_free(struct wr_deliver_absent *absent);

#endif
