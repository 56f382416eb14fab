/* Reservations: admitted requests that are settled by another call, perhaps on another connection,
 * in another process, or after a restart.
 *
 * The client keeps the token of the reservation, which is a text. The token contains everything that
 * is needed to settle the request: the descriptors, and the charges. A charge records the units that
 * the request took from one counter. A token is authenticated with the secret of the table. If the
 * central store took units for the request, the secret of the fleet is used instead, so that every
 * node can settle the reservation.
 *
 *   wr_reservation_begin(ask, memory);           // before descriptors are added
 *   …                                            // decide: ADMIT or DELAY
 *   wr_reservation_write(ask, 0, text);          // the client gets the token
 *
 *   wr_reservation_read(&reservation, engine, token, now_ns);
 *   wr_reservation_claim(…)                      // once: later claims find the reservation settled
 *   wr_reservation_restore(&reservation, memory, size, engine, &ask);
 *   wr_reservation_settle(&reservation, ask, &order, now_ns);
 *   …                                            // send the messages of weir_ask_question
 *   weir_ask_done(ask);
 *
 * If reservation.fleet, the central store claims the reservation and settles its own counters, in
 * one question:
 *
 *   wr_reservation_restore(&reservation, memory, size, engine, &ask);
 *   wr_reservation_prepare(&reservation, ask, &order);
 *   wr_reservation_question(…)                   // ask the central store
 *   wr_reservation_answer(…)                     // the claim
 *   wr_reservation_settle(…)                     // the rest
 *
 * A reservation is settled at most once. Its marker tells whether it was settled: a counter of its
 * own, whose name is the id of the reservation. The marker outlives the token. The first settlement
 * changes the marker.
 *
 * Units that the central store took have a marker in the central store. The first settlement makes
 * it, beside the first counter of the reservation, so that one script call can have both. Other units
 * have a marker in the table, which is made together with the token. A reservation with units of both
 * kinds has both markers. If the table is so full that it evicts the marker, a settlement gives no
 * units back to the table, because it may be the second one. */
#ifndef WR_LIMITER_RESERVATION_H
#define WR_LIMITER_RESERVATION_H

#include <stdbool.h>

#include <weir/host.h>

#define WR_RESERVATION_TEXT_MAX 2048u /* maximum length of a token */
#define WR_RESERVATION_BYTES_MAX (WR_RESERVATION_TEXT_MAX / 4 * 3)
#define WR_RESERVATION_TTL_NS (60ull * 1000000000)            /* default time to live */
#define WR_RESERVATION_TTL_MAX_NS (24ull * 3600 * 1000000000) /* longest time to live */

/* A token that was read. Parts of the token are given as offsets into `bytes`. */
struct wr_reservation {
	uint64_t id;
	uint64_t made_ns;    /* time of the decision */
	uint64_t expires_ns; /* later, the units are not given back any more */
	uint64_t ends_ns;    /* later, the token is unknown */
	bool fleet;          /* the marker is in the central store */
	bool refunds;        /* some limit has `on_expiry: refund` */
	bool late;           /* the reservation had expired when the token was read */
	uint64_t read_ns;    /* when wr_reservation_read read the token */
	uint64_t key[2];     /* if `fleet`: the key of the marker */
	/* One bit for each need of the restored ask whose limit has `on_expiry: refund`. */
	uint64_t refundable;
	/* One bit for each need of the restored ask that the question to the central store settles. */
	uint64_t told;
	bool gone; /* set by wr_reservation_restore: the units cannot be settled */
	uint16_t domain_at, domain_len;
	uint16_t record_at, record_len;
	uint16_t charges_at, charges_len;
	uint8_t bytes[WR_RESERVATION_BYTES_MAX];
};

/* ---- making a reservation ---- */

/* Makes the ask record its descriptors into `memory` of WR_RESERVATION_BYTES_MAX bytes, which the
 * ask uses until weir_ask_done. Limits with `on_limit: defer` refuse such a request. Called before
 * descriptors are added. Returns 0 or WEIR_EINVAL. */
int wr_reservation_begin(struct weir_ask *ask, void *memory);

/* Returns false if the descriptors and the charges of their limits are too long for a token, or if
 * descriptors have limits of their own. Called before the decision, so that such a request takes
 * nothing. If it returns true, wr_reservation_write does not return WEIR_EROOM. */
bool wr_reservation_fits(const struct weir_ask *ask);

/* Writes the token of an admitted ask to `text`, which has room for WR_RESERVATION_TEXT_MAX bytes,
 * without a terminating zero. With a ttl_ns of 0, the time to live is the default or, if longer,
 * the longest max_hold of the slots that the request holds. Sets *refunds to whether
 * wr_reservation_settle has to be called with WR_SETTLE_EXPIRY when the reservation expires; the
 * time of that is *expires_ns. Returns the length of the token, WEIR_EINVAL, WEIR_EROOM if the
 * descriptors are too long for a token or have limits of their own, or WEIR_ESYS if there are no
 * random numbers. The caller cancels the ask after an error. */
int wr_reservation_write(struct weir_ask *ask, uint64_t ttl_ns, char *text, uint64_t *expires_ns,
			 bool *refunds);

/* ---- settling a reservation ---- */

/* Reads a token. Returns 0, or WEIR_ENOENT if this table or fleet did not make the token, if the
 * token was changed, or if it ended too long ago. */
int wr_reservation_read(struct wr_reservation *reservation, const struct weir_engine *engine,
			struct weir_str text, uint64_t now_ns);

/* The ways to settle a reservation. */
enum wr_settle_action {
	WR_SETTLE_COMMIT, /* the actual cost is known: gives the rest back, or charges the excess */
	WR_SETTLE_RELEASE, /* the reserved units were used; gives back slots only */
	WR_SETTLE_CANCEL,  /* nothing was used: gives everything back */
	WR_SETTLE_EXPIRY,  /* gives back the units of limits with `on_expiry: refund` */
};

/* The result of a claim. */
enum wr_claim {
	WR_CLAIM_FIRST = 1, /* the caller settles the reservation */
	WR_CLAIM_EXPIRED,   /* the caller settles it after WR_SETTLE_EXPIRY has done so */
	/* The table has evicted the marker. The caller settles the reservation, perhaps for the
	 * second time; with WR_SETTLE_EXPIRY the caller does nothing. */
	WR_CLAIM_LOST,
	WR_CLAIM_ALREADY, /* it was settled before */
	WR_CLAIM_AGAIN,   /* the caller claims again, with the same state */
	WR_CLAIM_FAILED,  /* the central store did not answer; the caller can try again later */
};

/* The state of a claim, zeroed by the caller. A claim has at most two steps. */
struct wr_claim_step {
	bool second;
};

/* Makes the marker in the table. Called by wr_reservation_write. */
void wr_reservation_open(const struct wr_reservation *reservation, struct weir_engine *engine,
			 uint64_t now_ns);

/* Changes the marker in the table. If reservation->fleet, wr_reservation_settle calls this function.
 * Never returns WR_CLAIM_AGAIN or WR_CLAIM_FAILED. */
enum wr_claim wr_reservation_claim(const struct wr_reservation *reservation,
				   struct weir_engine *engine, enum wr_settle_action action,
				   uint64_t now_ns);

/* Begins an ask as it was after the decision. The rules in force apply: units are left out if no
 * rule has their counter any more. If no units remain, sets reservation->gone. Slots of a reservation
 * that is gone are settled as usual; its actual cost is charged with wr_reservation_charge. `size` is
 * at least weir_ask_size(); the ask uses the bytes beyond that, at most 65,535, for texts of the
 * decision log (log_text.h). Returns 0 or an error of weir_ask_init. */
int wr_reservation_restore(struct wr_reservation *reservation, void *memory, size_t size,
			   struct weir_engine *engine, struct weir_ask **ask);

struct wr_settle_order {
	enum wr_settle_action action;
	/* WR_CLAIM_FIRST, WR_CLAIM_EXPIRED, WR_CLAIM_LOST or, if reservation->fleet,
	 * WR_CLAIM_ALREADY */
	enum wr_claim claim;
	int64_t actual; /* with WR_SETTLE_COMMIT: the actual cost of each descriptor */
};

/* Decides what the central store settles of the restored ask. Called before
 * wr_reservation_question, with the claim that the question assumes: WR_CLAIM_FIRST, or
 * WR_CLAIM_EXPIRED in the second step. */
void wr_reservation_prepare(const struct wr_reservation *reservation, struct weir_ask *ask,
			    const struct wr_settle_order *order);

/* Writes a question of at most WEIR_QUESTION_MAX bytes, which claims the reservation in the central
 * store and settles the central store's units. If `ask` is NULL, no units are settled. Returns the
 * length of the question. */
int wr_reservation_question(struct wr_reservation *reservation, struct weir_ask *ask,
			    const struct wr_settle_order *order, const struct wr_claim_step *step,
			    void *bytes, size_t cap);

/* Reads the answer to the question. With a `len` of 0 there was no answer. After WR_CLAIM_AGAIN, the
 * caller restores the ask again. */
enum wr_claim wr_reservation_answer(enum wr_settle_action action, struct wr_claim_step *step,
				    const void *bytes, size_t len);

/* Settles the restored ask. Before the reservation expires, units are given back and charged as by
 * weir_ask_settle. Afterwards, and with WR_CLAIM_LOST, no units are given back, and a commit charges
 * only the units beyond the reservation. Slots are always given back; to give the same slot back
 * twice has no effect. WR_SETTLE_EXPIRY does nothing with WR_CLAIM_LOST.
 *
 * If reservation->fleet, order->claim is the claim in the central store. This function claims the
 * charges of this table itself, and settles them if they were not settled before. This is so even if
 * order->claim is WR_CLAIM_ALREADY, because the answer to an earlier question can have been lost.
 * Returns whether a claim was successful. */
bool wr_reservation_settle(const struct wr_reservation *reservation, struct weir_ask *ask,
			   const struct wr_settle_order *order, uint64_t now_ns);

/* Returns the largest number of units that settling gave back to a limit, and sets *owed to the
 * largest number that it charged. Slots do not count. */
uint64_t wr_ask_settled_units(const struct weir_ask *ask, uint64_t *owed);

/* Returns the action after expiry is taken into account: an expired reservation is not cancelled but
 * released. */
enum wr_settle_action wr_reservation_action(const struct wr_reservation *reservation,
					    const struct wr_settle_order *order);

/* Returns the units that were used of the counter of need `first`. */
int64_t wr_reservation_units_used(const struct weir_ask *ask, uint8_t first,
				  const struct wr_settle_order *order);

/* ---- charging without a reservation ---- */

/* Charges the costs of the ask's descriptors, although the units were already used: as debt if they
 * exceed the limits. Takes no slots, and nothing from leaky buckets. The ask is then decided and
 * admitted. Returns 0, WEIR_EINVAL or WEIR_ETIME. */
int wr_ask_charge(struct weir_ask *ask, uint64_t now_ns);

/* Charges the actual cost of a reservation that is gone to its descriptors, by the rules in force, as
 * wr_ask_charge does. Begins the ask in `memory`, like wr_reservation_restore; the caller ends it.
 * Returns 0 or an error, after which there is no ask. */
int wr_reservation_charge(const struct wr_reservation *reservation, int64_t actual, void *memory,
			  size_t size, struct weir_engine *engine, uint64_t now_ns,
			  struct weir_ask **ask);

#endif
