/* Reads the bodies of POST /v1/reserve, /v1/acquire, /v1/commit, /v1/cancel and /v1/release, and
 * writes the answers.
 *
 *   {"domain": "api", "descriptors": […], "hits": 600, "ttl": 30}
 *   → {"reservation": "AQ…", "expires_after": 30, "admitted": true, …}
 *   {"reservation": "AQ…", "actual": 500}
 *   → {"status": "committed", "refunded": 100, "charged": 0} */
#ifndef WR_WIRE_CHECK_RESERVE_JSON_H
#define WR_WIRE_CHECK_RESERVE_JSON_H

#include "wire/check/json.h"

/* Reads the body of a reservation. Sets *ttl_ns, which is 0 if the body has no ttl. Returns 0; the
 * caller then has to call wr_check_close. On failure returns -1 and sets `problem`. */
int wr_check_open_reserve(struct wr_check *check, struct weir_str body, uint64_t *ttl_ns,
			  struct wr_problem *problem);

/* Writes the answer to a reservation that was admitted. */
void wr_check_answer_reserved(const struct weir_ask *ask, int verdict, struct weir_str token,
			      uint64_t ttl_ns, struct wr_json_out *json);

/* The body of a request that settles a reservation. */
struct wr_check_settle {
	struct wr_check check; /* the document; `count` is 0 if the body describes no request */
	struct weir_str token;
	int64_t actual;
};

/* Reads the body. With `commits` it needs an actual cost, and may describe the request too, so that
 * the cost can be charged if the reservation is unknown. Returns 0; the caller then has to call
 * wr_check_close on settle->check. On failure returns -1 and sets `problem`. */
int wr_check_open_settle(struct wr_check_settle *settle, struct weir_str body, bool commits,
			 struct wr_problem *problem);

/* Writes the answer to a settlement. */
void wr_check_answer_settled(const char *status, uint64_t refunded, uint64_t charged,
			     struct wr_json_out *json);

#endif
