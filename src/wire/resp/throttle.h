/* CL.THROTTLE of redis-cell and THROTTLE of throttlecrab as token buckets in the table.
 *
 *   CL.THROTTLE user7 15 30 60      a bucket of 16, filled with 30 tokens in 60 s
 *
 * The command carries the limit. Its numbers may change from one call to the next, and the count
 * goes on; another period is another counter. Both commands share one counter per key. It is apart
 * from the counters of rules.
 */
#ifndef WR_WIRE_RESP_THROTTLE_H
#define WR_WIRE_RESP_THROTTLE_H

#include <stdbool.h>

#include <weir/rules.h>
#include <weir/weir.h>

#include "base/hash.h"
#include "limiter/question.h"

#define WR_THROTTLE_PERIOD_MAX_S 3155760000ll /* 100 years */

/* The limit of the last command; the next command often has the same. */
struct wr_throttle_memo {
	uint32_t capacity, count;
	uint64_t period_s;
	struct weir_limit limit;
};

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
	int64_t retry_s; /* rounded up; -1: admitted, or no wait suffices */
	int64_t reset_s; /* rounded up */
};

/* The limit of `capacity` tokens that refills `count` in `period_s`. Valid until the next call.
 * Returns NULL and an error if the numbers make no limit. */
const struct weir_limit *wr_throttle_limit(struct wr_throttle_memo *memo,
					   const struct wr_throttle_request *request,
					   struct weir_error *error);

/* The hash of the key in the table. Prefetches its cell. */
struct wr_key wr_throttle_key(const struct weir_table *table, const struct weir_limit *limit,
			      struct weir_str key);

/* Takes `quantity`. 0 only looks, and is limited only if more was taken than this limit allows;
 * below 0 gives back. now_ns is below 2^63. */
void wr_throttle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t quantity, uint64_t now_ns, struct wr_throttle_answer *answer);

/* ---- with a central store ----
 *
 * The same buckets in Redis, named by the key's hash and "throttle/60s". */

#define WR_THROTTLE_MESSAGE 160 /* bytes of a message about one bucket, at most */

void wr_throttle_fleet_key(const uint8_t *secret, struct weir_str key, uint64_t fleet_key[2]);

/* Writes the message that describes the bucket. Returns its length. */
size_t wr_throttle_message(enum wr_question_kind kind, const struct weir_limit *limit,
			   const struct wr_throttle_request *request, int64_t cost, uint64_t now_ns,
			   uint8_t bytes[WR_THROTTLE_MESSAGE]);

/* Reads the answer of the central store. Returns false if there is none. */
bool wr_throttle_read(const void *bytes, size_t len, const struct weir_limit *limit,
		      const struct wr_throttle_request *request, struct wr_throttle_answer *answer);

#endif
