/* Settles reservations: claims the reservation in the table or in Redis, then gives back and
 * charges units. Called by the handlers of HTTP, RESP and gRPC, and by expiry.c. */
#include "serve/decide/settling.h"

#include "base/assert.h"
#include "base/container.h"
#include "serve/decide/log.h"
#include "serve/fleet/redis.h"
#include "serve/loop.h"
#include "wire/check/decision_json.h"

static void finish(struct wr_settling *settling, enum wr_settled result)
{
	settling->result = result;
	settling->magic = 0;
	settling->done(settling);
}

/* Reports the settlement, and ends the ask. */
static void end_ask(struct wr_settling *settling, struct weir_ask *ask, uint64_t now_ns)
{
	struct wr_loop *loop = settling->loop;
	uint64_t charged, refunded = wr_ask_settled_units(ask, &charged);

	settling->refunded = refunded > settling->refunded ? refunded : settling->refunded;
	settling->charged = charged > settling->charged ? charged : settling->charged;
	if (loop->decisions)
		wr_serve_decision_note_settled(loop->decisions,
					       &(struct wr_decision_view){.ask = ask,
									  .now_ns = now_ns,
									  .via = "reservation"});
	wr_serve_redis_send_rest(loop, ask, now_ns);
	weir_ask_done(ask);
}

/* Settles a claimed reservation. */
static enum wr_settled settle_in(struct wr_settling *settling, enum wr_claim claim, void *memory)
{
	struct wr_loop *loop = settling->loop;
	struct wr_reservation *reservation = &settling->reservation;
	uint64_t now_ns = wr_loop_now_ns(loop);
	struct wr_settle_order order = {settling->action, claim, settling->actual};
	size_t size = weir_ask_size() + (loop->decisions ? WR_DECISION_TEXT_BYTES : 0);
	struct weir_engine *engine = wr_loop_engine(loop);
	struct weir_ask *ask;

	if (wr_reservation_restore(reservation, memory, size, engine, &ask) != 0)
		return WR_SETTLED_GONE;
	wr_reservation_settle(reservation, ask, &order, now_ns);
	end_ask(settling, ask, now_ns);
	if (!reservation->gone)
		return now_ns >= reservation->expires_ns || claim != WR_CLAIM_FIRST
			       ? WR_SETTLED_EXPIRED
			       : WR_SETTLED_DONE;
	if (settling->action == WR_SETTLE_COMMIT &&
	    wr_reservation_charge(reservation, settling->actual, memory, size, engine, now_ns,
				  &ask) == 0)
		end_ask(settling, ask, now_ns);
	return WR_SETTLED_GONE;
}

/* If there is no memory, the reservation stays charged. */
static void settle_claimed(struct wr_settling *settling, enum wr_claim claim)
{
	struct wr_pool *asks = &settling->loop->waiting.asks;
	void *memory = wr_pool_take(asks, weir_ask_size() + WR_DECISION_TEXT_BYTES);
	enum wr_settled result = memory ? settle_in(settling, claim, memory) : WR_SETTLED_GONE;

	if (memory)
		wr_pool_give(asks, memory, WR_ASKS_SPARE_MAX);
	finish(settling, result);
}

static void on_claimed(struct wr_settling *settling, enum wr_claim claim)
{
	if (claim == WR_CLAIM_LOST && settling->action == WR_SETTLE_EXPIRY)
		finish(settling, WR_SETTLED_EXPIRED);
	else if (claim == WR_CLAIM_FIRST || claim == WR_CLAIM_EXPIRED || claim == WR_CLAIM_LOST)
		settle_claimed(settling, claim);
	else
		finish(settling,
		       claim == WR_CLAIM_ALREADY ? WR_SETTLED_ALREADY : WR_SETTLED_FAILED);
}

static void claim_in_redis(struct wr_settling *settling);

static void on_answer(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct wr_settling *settling = wr_container_of(question, struct wr_settling, question);
	enum wr_claim claim;

	wr_assert_magic(settling, WR_SETTLING_MAGIC);
	settling->asking = false;
	claim = wr_reservation_answer(settling->action, &settling->step, answer, len);
	if (claim == WR_CLAIM_AGAIN)
		claim_in_redis(settling);
	else
		on_claimed(settling, claim);
}

static void claim_in_redis(struct wr_settling *settling)
{
	struct wr_loop *loop = settling->loop;
	uint8_t question[WEIR_QUESTION_MAX];
	int len = wr_reservation_question(&settling->reservation, wr_loop_engine(loop),
					  settling->action, &settling->step, question,
					  sizeof question);

	if (!loop->redis || len <= 0) {
		finish(settling, WR_SETTLED_FAILED);
		return;
	}
	settling->question = (struct wr_central_ask){.done = on_answer};
	settling->asking = true;
	wr_serve_redis_take(loop, &settling->question, question, (size_t)len, wr_loop_now_ns(loop));
}

void wr_settling_begin(struct wr_settling *settling, struct wr_loop *loop,
		       enum wr_settle_action action, int64_t actual, struct weir_str token,
		       void (*done)(struct wr_settling *settling))
{
	struct weir_engine *engine = wr_loop_engine(loop);
	uint64_t now_ns = wr_loop_now_ns(loop);

	wr_assert(done);
	settling->magic = WR_SETTLING_MAGIC;
	settling->loop = loop;
	settling->action = action;
	settling->actual = actual;
	settling->done = done;
	settling->refunded = settling->charged = 0;
	settling->step = (struct wr_claim_step){0};
	settling->asking = false;
	if (wr_reservation_read(&settling->reservation, engine, token, now_ns) != 0)
		finish(settling, WR_SETTLED_UNKNOWN);
	else if (settling->reservation.fleet)
		claim_in_redis(settling);
	else
		on_claimed(settling,
			   wr_reservation_claim(&settling->reservation, engine, action, now_ns));
}

void wr_settling_leave(struct wr_settling *settling)
{
	if (settling->asking)
		wr_serve_redis_leave(settling->loop, &settling->question);
	settling->asking = false;
	settling->magic = 0;
}

const char *wr_settling_word(const struct wr_settling *settling)
{
	static const char *const done[] = {[WR_SETTLE_COMMIT] = "committed",
					   [WR_SETTLE_RELEASE] = "released",
					   [WR_SETTLE_CANCEL] = "cancelled",
					   [WR_SETTLE_EXPIRY] = "expired"};
	static const char *const others[] = {[WR_SETTLED_ALREADY] = "already",
					     [WR_SETTLED_EXPIRED] = "expired",
					     [WR_SETTLED_UNKNOWN] = "unknown",
					     [WR_SETTLED_GONE] = "unknown",
					     [WR_SETTLED_FAILED] = "failed"};

	return settling->result == WR_SETTLED_DONE ? done[settling->action]
						   : others[settling->result];
}
