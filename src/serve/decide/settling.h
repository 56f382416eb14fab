/* Settles reservations (limiter/reservation.h): commit, cancel and release. HTTP, RESP and gRPC all
 * settle this way, in the thread of their loop. A reservation whose units Redis has taken is claimed
 * in Redis, so that only one node settles it.
 *
 *   wr_settling_begin(&s, loop, WR_SETTLE_COMMIT, actual, token, done);  // calls done, now or later
 *
 * The caller owns the struct, which must not move before `done` is called. */
#ifndef WR_SERVE_DECIDE_SETTLING_H
#define WR_SERVE_DECIDE_SETTLING_H

#include "central/central.h"
#include "limiter/reservation.h"

struct wr_loop;
struct wr_core_ref;

enum wr_settled {
	WR_SETTLED_DONE,    /* the reservation was settled */
	WR_SETTLED_ALREADY, /* it had been settled before; nothing was changed */
	/* It had expired, or the table has evicted its marker: nothing was given back except slots,
	 * and units that were used beyond the reservation were charged. */
	WR_SETTLED_EXPIRED,
	WR_SETTLED_UNKNOWN, /* there is no such reservation */
	/* The rules have no limit any more that the reservation has charged: nothing was given back
	 * except slots. A commit charged the actual cost to the descriptors of the reservation. */
	WR_SETTLED_GONE,
	/* Redis does not answer. The reservation was not settled, or only in Redis. If the client
	 * retries, the rest is settled, and nothing is settled twice. */
	WR_SETTLED_FAILED,
};

#define WR_SETTLING_MAGIC 0x73746c67u

struct wr_settling {
	uint32_t magic; /* WR_SETTLING_MAGIC from wr_settling_begin() to `done` */
	struct wr_loop *loop;
	enum wr_settle_action action;
	int64_t actual;
	void (*done)(struct wr_settling *settling);
	/* The results. `refunded` is the largest number of units that a limit got back, `charged`
	 * the largest number that was charged in addition. */
	enum wr_settled result;
	uint64_t refunded, charged;

	/* The fields below are private. */
	struct wr_reservation reservation;
	struct wr_claim_step step;
	struct wr_central_ask question;
	struct weir_ask *ask;    /* the restored ask, or NULL */
	void *memory;            /* memory of the ask, or NULL */
	struct wr_core_ref *ref; /* the core of the ask, or NULL */
	bool asking;             /* the question to Redis is in flight */
};

/* Settles the reservation. `token` is not used after the call. */
void wr_settling_begin(struct wr_settling *settling, struct wr_loop *loop,
		       enum wr_settle_action action, int64_t actual, struct weir_str token,
		       void (*done)(struct wr_settling *settling));

/* Stops waiting, because the client has disconnected: `done` is not called. Redis may have settled
 * the reservation. A zeroed struct is allowed. */
void wr_settling_leave(struct wr_settling *settling);

/* Returns the word for the result that clients get: "committed", "cancelled" or "released",
 * "already", "expired" or "unknown". */
const char *wr_settling_word(const struct wr_settling *settling);

#define WR_SETTLING_FAILED "Redis does not answer; try again, a reservation is settled only once"

#endif
