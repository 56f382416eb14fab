/* Implements CL.THROTTLE of redis-cell and THROTTLE of throttlecrab with token buckets in the
 * table.
 *
 *   CL.THROTTLE user7 15 30 60      a bucket of 16, filled with 30 tokens in 60 s
 *
 * The command has the limit in its arguments. If burst or count change from one command to the
 * next, the key keeps its counter; if the period changes, the key gets another counter.
 * CL.THROTTLE and THROTTLE use the same counter of a key, which is separate from the counters of
 * rules.
 */
#ifndef WR_WIRE_RESP_THROTTLE_H
#define WR_WIRE_RESP_THROTTLE_H

#include <stdbool.h>

#include <weir/rules.h>
#include <weir/weir.h>

#include "base/hash.h"
#include "limiter/question.h"

#define WR_THROTTLE_PERIOD_MAX_S 3155760000ll /* 100 years */

/* The limit of the previous command. It is stored because the next command often has the same
 * limit. */
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
	uint64_t fleet_key[2]; /* with a central store: hash of the key with the fleet's secret */
};

struct wr_throttle_answer {
	bool limited;
	int64_t limit, remaining;
	/* Seconds until a retry, rounded up. -1 if the request is admitted, or if a retry would
	 * never be admitted. */
	int64_t retry_s;
	int64_t reset_s; /* seconds until the bucket is full, rounded up */
};

/* Returns the limit of a bucket of `capacity` tokens that gets `count` tokens in `period_s`
 * seconds. The limit is stored in *memo, so the pointer is valid until the next call with the same
 * `memo`. If the numbers are not a valid limit, fills in `error` and returns NULL. */
const struct weir_limit *wr_throttle_limit(struct wr_throttle_memo *memo,
					   const struct wr_throttle_request *request,
					   struct weir_error *error);

/* Returns the hash of the key in the table, and prefetches the key's cell. */
struct wr_key wr_throttle_key(const struct weir_table *table, const struct weir_limit *limit,
			      struct weir_str key);

/* Takes `quantity` tokens. A quantity of 0 takes nothing, and answer->limited is then true only if
 * the bucket is overdrawn because the limit was lowered. A negative quantity gives tokens back.
 * now_ns must be below 2^63. */
void wr_throttle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t quantity, uint64_t now_ns, struct wr_throttle_answer *answer);

/* ---- with a central store ----
 *
 * The buckets are in Redis. The hash of the key and the period ("throttle/60s") identify a
 * bucket. */

#define WR_THROTTLE_MESSAGE 192 /* maximum length of a message about one bucket */

/* Sets fleet_key to the hash of the key with the fleet's secret. */
void wr_throttle_fleet_key(const uint8_t *secret, struct weir_str key, uint64_t fleet_key[2]);

/* Writes a message about the bucket into `bytes`, for the central store. Returns its length. */
size_t wr_throttle_message(enum wr_question_kind kind, const struct weir_limit *limit,
			   const struct wr_throttle_request *request, int64_t cost, uint64_t now_ns,
			   uint8_t bytes[WR_THROTTLE_MESSAGE]);

/* Reads the answer of the central store. Returns false if the central store has not answered. */
bool wr_throttle_read(const void *bytes, size_t len, const struct weir_limit *limit,
		      const struct wr_throttle_request *request, struct wr_throttle_answer *answer);

#endif
