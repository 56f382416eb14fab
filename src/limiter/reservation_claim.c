/* Claims reservations, so that each is settled only once: in the table, or in the central store
 * together with the settlement. Called by serve, and by reservation.c.
 *
 * A claim takes the marker of the reservation, which is a fixed window with a count of 0 to 3. A
 * settlement adds 3 and needs a count of 0. WR_SETTLE_EXPIRY adds 1 and needs a count of 0. A
 * settlement after WR_SETTLE_EXPIRY adds 2 and needs a count of 1. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "limiter/message.h"
#include "limiter/reservation.h"

#define MARKER_FULL 3
#define MARKER_EXPIRY 1
/* The window of a marker is longer than the life of its token at both ends, because the clocks of
 * nodes and of the central store differ. */
#define SKEW_NS (60ull * 1000000000)

struct marker {
	struct weir_limit limit;
	int64_t cost;
};

static struct marker marker_of(const struct wr_reservation *r, enum wr_settle_action action,
			       bool second)
{
	bool expiry = action == WR_SETTLE_EXPIRY;
	/* Redis requires that such a window begins at a whole second. */
	uint64_t start_ns = r->made_ns > SKEW_NS ? r->made_ns - SKEW_NS : 0;
	struct marker marker = {.limit = {.size = sizeof marker.limit,
					  .algorithm = WEIR_FIXED_WINDOW,
					  .limit = expiry ? MARKER_EXPIRY : MARKER_FULL,
					  .window_start_ns = start_ns - start_ns % 1000000000,
					  .window_end_ns = r->ends_ns + SKEW_NS},
				.cost = expiry   ? MARKER_EXPIRY
					: second ? MARKER_FULL - MARKER_EXPIRY
						 : MARKER_FULL};
	int rc = weir_limit_check(&marker.limit, NULL);

	wr_assert(rc == 0); /* the times come from a token that this fleet made */
	return marker;
}

static enum wr_claim claim_of(bool admitted, uint32_t remaining, bool second)
{
	if (admitted)
		return second ? WR_CLAIM_EXPIRED : WR_CLAIM_FIRST;
	if (!second && remaining == MARKER_FULL - MARKER_EXPIRY)
		return WR_CLAIM_AGAIN;
	return WR_CLAIM_ALREADY;
}

/* ---- in the table ---- */

/* The bytes of a marker's key. They differ from those of all other keys, which begin with the
 * length of a domain, and from the digests of long keys (ask.c). */
struct marker_key {
	uint8_t mark[8];
	uint64_t id;
};

static enum wr_claim claim_step(const struct wr_reservation *r, struct weir_table *table,
				enum wr_settle_action action, bool second, uint64_t now_ns)
{
	struct marker marker = marker_of(r, action, second);
	struct marker_key bytes = {.mark = {0xfe, 0xff, 0xff, 0xff, 'm', 'a', 'r', 'k'},
				   .id = r->id};
	struct wr_key key = wr_hash_key(table->secret, &bytes, sizeof bytes, marker.limit.checked);
	struct weir_decision decision;

	wr_store_take(table, &marker.limit, key, marker.cost, now_ns, &decision);
	return claim_of(decision.admitted, decision.remaining, second);
}

enum wr_claim wr_reservation_claim(const struct wr_reservation *reservation,
				   struct weir_engine *engine, enum wr_settle_action action,
				   uint64_t now_ns)
{
	enum wr_claim claim = claim_step(reservation, engine->table, action, false, now_ns);

	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	return claim == WR_CLAIM_AGAIN
		       ? claim_step(reservation, engine->table, action, true, now_ns)
		       : claim;
}

/* ---- in the central store ---- */

enum wr_settle_action wr_reservation_action(const struct wr_reservation *reservation,
					    const struct wr_settle_order *order)
{
	bool late = reservation->late || order->claim == WR_CLAIM_EXPIRED;

	return late && order->action == WR_SETTLE_CANCEL ? WR_SETTLE_RELEASE : order->action;
}

static void add_marker(struct wr_message *message, const struct wr_reservation *r,
		       enum wr_settle_action action, bool second)
{
	struct marker marker = marker_of(r, action, second);
	char id[32];
	int len = snprintf(id, sizeof id, "reservation/%016llx", (unsigned long long)r->id);
	struct wr_question_item item = {
		.algorithm = (uint8_t)marker.limit.algorithm,
		.consistency = WR_STRICT,
		.key = {r->key[0], r->key[1]},
		.cost = marker.cost,
		.limit = marker.limit.limit,
		.window_start_ns = marker.limit.window_start_ns,
		.window_end_ns = marker.limit.window_end_ns,
		.window_after_ns = marker.limit.window_end_ns + SKEW_NS,
	};

	wr_message_add_item(message, &item, id, (size_t)len);
}

/* Returns the number of units of need `i` that stay charged. */
static int64_t units_kept(const struct wr_reservation *r, const struct weir_ask *ask, uint8_t i,
			  const struct wr_settle_order *order)
{
	const struct wr_need *need = &ask->needs[i].need;
	enum wr_settle_action action = wr_reservation_action(r, order);

	if (action == WR_SETTLE_CANCEL || action == WR_SETTLE_EXPIRY ||
	    need->limit->algorithm == WEIR_CONCURRENT)
		return 0;
	return need->limit->algorithm == WEIR_LEAKY_BUCKET
		       ? need->cost
		       : wr_reservation_units_used(ask, i, order);
}

/* Adds what the need gives back or charges in the central store. */
static void add_settled(struct wr_message *message, struct wr_reservation *r, struct weir_ask *ask,
			uint8_t i, const struct wr_settle_order *order)
{
	struct wr_ask_need *need = &ask->needs[i];
	int64_t charged = need->need.cost, kept;

	if (need->decided_by != WR_NEED_CENTRAL || !need->taken || need->same_as != i)
		return;
	kept = units_kept(r, ask, i, order);
	if (kept == charged || message->count == WEIR_NEEDS_MAX)
		return;
	need->message = kept < charged ? WR_MESSAGE_RETURN : WR_MESSAGE_OWE;
	need->message_cost = kept < charged ? charged - kept : kept - charged;
	wr_message_add(message, ask, need);
	need->message = WR_MESSAGE_NONE;
	need->message_cost = 0;
	r->told |= 1ull << i;
}

int wr_reservation_question(struct wr_reservation *reservation, struct weir_ask *ask,
			    const struct wr_settle_order *order, const struct wr_claim_step *step,
			    void *bytes, size_t cap)
{
	struct wr_message message = wr_message(WR_QUESTION_SETTLE, bytes, cap);

	wr_assert(reservation->fleet);
	add_marker(&message, reservation, order->action, step->second);
	for (uint8_t i = 0; ask && i < ask->need_count; i++)
		add_settled(&message, reservation, ask, i, order);
	return wr_message_end(&message);
}

enum wr_claim wr_reservation_answer(enum wr_settle_action action, struct wr_claim_step *step,
				    const void *bytes, size_t len)
{
	struct wr_answer answer;
	enum wr_claim claim;

	if (len == 0 || !wr_answer_fits(bytes, len, 1))
		return WR_CLAIM_FAILED;
	memcpy(&answer, (const uint8_t *)bytes + sizeof(struct wr_question_head), sizeof answer);
	if (answer.flags & WR_ANSWER_FAILED)
		return WR_CLAIM_FAILED;
	claim = claim_of(answer.flags & WR_ANSWER_ADMITTED, answer.remaining,
			 step->second || action == WR_SETTLE_EXPIRY);
	step->second |= claim == WR_CLAIM_AGAIN;
	return action == WR_SETTLE_EXPIRY && claim == WR_CLAIM_EXPIRED ? WR_CLAIM_FIRST : claim;
}
