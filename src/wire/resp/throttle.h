/* CL.THROTTLE of redis-cell and THROTTLE of throttlecrab as token buckets in the table.
 *
 *   CL.THROTTLE user7 15 30 60      a bucket of 16, filled with 30 tokens in 60 s
 *
 * Who asks brings the limit along. Its numbers may change from one call to the next, and the count
 * goes on; another period is another counter. Both commands mean the same counter by a key, which
 * none of the rules' counters is.
 */
#ifndef WR_WIRE_RESP_THROTTLE_H
#define WR_WIRE_RESP_THROTTLE_H

#include <stdbool.h>

#include <weir/rules.h>
#include <weir/weir.h>

#include "base/hash.h"
#include "limiter/question.h"

#define WR_THROTTLE_PERIOD_MAX_S 3155760000ll /* 100 years */

/* The limit made last, for it will be the next one's too. */
struct wr_throttle_memo {
	uint32_t capacity, count;
	uint64_t period_s;
	struct weir_limit limit;
};

/* What was asked for. */
struct wr_throttle_request {
	uint32_t capacity, count;
	uint64_t period_s;
	int64_t quantity;
	struct wr_key key;
	uint64_t fleet_key[2]; /* with a central store: the key's hash under the fleet's secret */
};

struct wr_throttle_answer {
	bool limited;
	int64_t limit, remaining;
	int64_t retry_s; /* rounded up; -1: was admitted, or no wait will do */
	int64_t reset_s; /* rounded up */
};

/* The limit of `capacity` tokens, `count` of which come back in `period_s`; or NULL. Lasts until
 * the next call. */
const struct weir_limit *wr_throttle_limit(struct wr_throttle_memo *memo,
					   const struct wr_throttle_request *request,
					   struct weir_error *error);

/* The key as the table knows it; asks for its place in memory, which will be there a little later.
 */
struct wr_key wr_throttle_key(const struct weir_table *table, const struct weir_limit *limit,
			      struct weir_str key);

/* Takes `quantity`: 0 looks, and is limited only if more has been taken than this limit ever lets;
 * below 0 gives back. now_ns is below 2^63. */
void wr_throttle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t quantity, uint64_t now_ns, struct wr_throttle_answer *answer);

/* ---- with a central store ----
 *
 * The same buckets there, by the key's hash and "throttle/60s". */

#define WR_THROTTLE_MESSAGE 160 /* bytes of a message about one bucket, at most */

void wr_throttle_fleet_key(const uint8_t *secret, struct weir_str key, uint64_t fleet_key[2]);

/* A message about the bucket; returns its length. */
size_t wr_throttle_message(enum wr_question_kind kind, const struct weir_limit *limit,
			   const struct wr_throttle_request *request, int64_t cost, uint64_t now_ns,
			   uint8_t bytes[WR_THROTTLE_MESSAGE]);

/* What the store answered. False: it did not. */
bool wr_throttle_read(const void *bytes, size_t len, const struct weir_limit *limit,
		      const struct wr_throttle_request *request, struct wr_throttle_answer *answer);

#endif
