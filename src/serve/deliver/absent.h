/* Requests that were answered with 502, 503 or 504: a load balancer says that the API server is
 * not there. Such an answer counts as a try only when the API server has answered another request
 * of the same rule since. Each request has a row of its own, so each backs off by its own answers.
 */
#ifndef WR_SERVE_DELIVER_ABSENT_H
#define WR_SERVE_DELIVER_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_DELIVER_ABSENT_MAX 98304u /* requests; those beyond have the longest back-off */
#define WR_DELIVER_ABSENT_STALE_US UINT64_C(3600000000) /* older rows go when room is needed */
#define WR_DELIVER_PRESENT_MAX 64u                      /* rules; two may share a place */

struct wr_deliver_absent_row;

struct wr_deliver_absent {
	struct wr_deliver_absent_row *rows; /* by the hash of an id; NULL: none yet */
	uint32_t size, used;                /* places, a power of 2, and those in use */
	/* When the API server last answered, by the hash of the rule. */
	uint64_t present_us[WR_DELIVER_PRESENT_MAX];
};

/* The API server answered a request of this rule itself, at now_us (monotonic, not 0). */
void wr_deliver_absent_present(struct wr_deliver_absent *absent, struct weir_str rule,
			       uint64_t now_us);

/* Request `id` was answered with 502, 503 or 504 at now_us. Returns how many such answers were not
 * counted before. *counts: the API server has answered another request of this rule since `id` was
 * tried before. It is there, and the trouble is the request's own: the answer is a try. */
uint32_t wr_deliver_absent_note(struct wr_deliver_absent *absent, uint64_t id, struct weir_str rule,
				uint64_t now_us, bool *counts);

void wr_deliver_absent_free(struct wr_deliver_absent *absent);

#endif
