/* Claims reservations, so that each is settled only once: in the table, or in the central store
 * together with the settlement. Called by serve, and by reservation.c.
 *
 * A claim changes the marker of the reservation, which is a fixed window whose count is the state of
 * the reservation. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "limiter/lease.h"
#include "limiter/message.h"
#include "limiter/reservation.h"

/* The window of a marker is longer than the life of its token at both ends, because the clocks of
 * nodes and of the central store differ. */
#define SKEW_NS (60ull * 1000000000)

static struct weir_limit marker_limit(const struct wr_reservation *r, uint32_t most)
{
	/* Redis requires that such a window begins at a whole second. */
	uint64_t start_ns = r->made_ns > SKEW_NS ? r->made_ns - SKEW_NS : 0;
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_FIXED_WINDOW,
				   .limit = most,
				   .window_start_ns = start_ns - start_ns % 1000000000,
				   .window_end_ns = r->ends_ns + SKEW_NS};
	int rc = weir_limit_check(&limit, NULL);

	wr_assert(rc == 0); /* the times come from a token that this fleet made */
	return limit;
}

/* ---- in the table ----
 *
 * The marker is made together with the token. So a marker that is missing was evicted, and its
 * reservation may have been settled. A claim adds to the state. The sums tell every state before the
 * claim from every other, so one take both changes the state and reads it:
 *
 *   0      there is no marker
 *   1      open
 *   3, 4   WR_SETTLE_EXPIRY came, without a marker or while the marker was open
 *   5..9   settled */

#define MARK_OPEN 1u
#define MARK_EXPIRY 3u
#define MARK_SETTLED 5u

/* The bytes of a marker's key. They differ from those of all other keys, which begin with the
 * length of a domain, and from the digests of long keys (ask.c). */
struct marker_key {
	uint8_t mark[8];
	uint64_t id;
};

/* Adds to the state of the marker, which may be at most `most`. Returns the state before, or -1 if
 * it was above `most`. */
static int add_to_marker(const struct wr_reservation *r, struct weir_table *table, uint32_t add,
			 uint32_t most, uint64_t now_ns)
{
	struct weir_limit limit = marker_limit(r, most + add);
	struct marker_key bytes = {.mark = {0xfe, 0xff, 0xff, 0xff, 'm', 'a', 'r', 'k'},
				   .id = r->id};
	struct wr_key key = wr_hash_key(table->secret, &bytes, sizeof bytes, limit.checked);
	struct weir_decision decision;

	wr_store_take(table, &limit, key, add, now_ns, &decision);
	return decision.admitted ? (int)(most - decision.remaining) : -1;
}

void wr_reservation_open(const struct wr_reservation *reservation, struct weir_engine *engine,
			 uint64_t now_ns)
{
	add_to_marker(reservation, engine->table, MARK_OPEN, 0, now_ns);
}

enum wr_claim wr_reservation_claim(const struct wr_reservation *reservation,
				   struct weir_engine *engine, enum wr_settle_action action,
				   uint64_t now_ns)
{
	bool expiry = action == WR_SETTLE_EXPIRY;
	int before;

	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	before = add_to_marker(reservation, engine->table, expiry ? MARK_EXPIRY : MARK_SETTLED,
			       expiry ? MARK_OPEN : MARK_OPEN + MARK_EXPIRY, now_ns);
	if (before < 0)
		return WR_CLAIM_ALREADY;
	/* A reservation without charges has no marker before its first claim. */
	if (before == MARK_OPEN || (before == 0 && reservation->charges_len == 0))
		return WR_CLAIM_FIRST;
	return before == MARK_OPEN + MARK_EXPIRY ? WR_CLAIM_EXPIRED : WR_CLAIM_LOST;
}

/* ---- in the central store ----
 *
 * There is no marker before the first claim. A settlement adds 3 and needs a count of 0.
 * WR_SETTLE_EXPIRY adds 1 and needs a count of 0. A settlement after WR_SETTLE_EXPIRY adds 2 and
 * needs a count of 1. */

#define MARKER_FULL 3
#define MARKER_EXPIRY 1

static enum wr_claim claim_of(bool admitted, uint32_t remaining, bool second)
{
	if (admitted)
		return second ? WR_CLAIM_EXPIRED : WR_CLAIM_FIRST;
	if (!second && remaining == MARKER_FULL - MARKER_EXPIRY)
		return WR_CLAIM_AGAIN;
	return WR_CLAIM_ALREADY;
}

enum wr_settle_action wr_reservation_action(const struct wr_reservation *reservation,
					    const struct wr_settle_order *order)
{
	bool late = reservation->late || order->claim == WR_CLAIM_EXPIRED ||
		    order->claim == WR_CLAIM_LOST;

	return late && order->action == WR_SETTLE_CANCEL ? WR_SETTLE_RELEASE : order->action;
}

static void add_marker(struct wr_message *message, const struct wr_reservation *r,
		       enum wr_settle_action action, bool second)
{
	bool expiry = action == WR_SETTLE_EXPIRY;
	struct weir_limit limit = marker_limit(r, expiry ? MARKER_EXPIRY : MARKER_FULL);
	char id[32];
	int len = snprintf(id, sizeof id, "reservation/%016llx", (unsigned long long)r->id);
	struct wr_question_item item = {
		.algorithm = (uint8_t)limit.algorithm,
		.consistency = WR_STRICT,
		.key = {r->key[0], r->key[1]},
		.cost = expiry   ? MARKER_EXPIRY
			: second ? MARKER_FULL - MARKER_EXPIRY
				 : MARKER_FULL,
		.limit = limit.limit,
		.window_start_ns = limit.window_start_ns,
		.window_end_ns = limit.window_end_ns,
		.window_after_ns = limit.window_end_ns + SKEW_NS,
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

/* Adds what the need gives back or charges in the central store. A debt of a limit that can be
 * leased is not added: when the marker is taken, the debt is taken from the lease, and the rest is
 * charged with a message (settle.c). */
static void add_settled(struct wr_message *message, struct wr_reservation *r, struct weir_ask *ask,
			uint8_t i, const struct wr_settle_order *order)
{
	struct wr_ask_need *need = &ask->needs[i];
	int64_t charged = need->need.cost, kept;

	if (need->decided_by != WR_NEED_CENTRAL || !need->taken || need->same_as != i)
		return;
	kept = units_kept(r, ask, i, order);
	if (kept == charged || message->count == WEIR_NEEDS_MAX ||
	    (kept > charged && wr_ask_need_owes_lease(need)))
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
