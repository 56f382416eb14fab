/* Settles reservations: claims the reservation, gives back units and charges units. Redis does this
 * in one call; then the counters in the table follow. Called by the handlers of HTTP, RESP and gRPC,
 * and by expiry.c. */
#include "serve/decide/settling.h"

#include "base/assert.h"
#include "base/container.h"
#include "serve/decide/log.h"
#include "serve/fleet/redis.h"
#include "serve/loop.h"
#include "wire/check/decision_json.h"

/* ---- the ask that is settled ---- */

static size_t ask_size(const struct wr_loop *loop)
{
	return weir_ask_size() + (loop->decisions ? WR_DECISION_TEXT_BYTES : 0);
}

/* Takes the memory of an ask and a reference to the core in use. If there is no memory,
 * settling->memory is NULL. */
static void open_memory(struct wr_settling *settling)
{
	struct wr_loop *loop = settling->loop;

	settling->ask = NULL;
	settling->memory =
		wr_pool_take(&loop->waiting.asks, weir_ask_size() + WR_DECISION_TEXT_BYTES);
	settling->ref = wr_core_ref_take(&loop->refs);
}

/* Restores the ask of the reservation. If that fails, settling->ask is NULL. */
static void open_ask(struct wr_settling *settling)
{
	struct wr_loop *loop = settling->loop;

	open_memory(settling);
	if (settling->memory &&
	    wr_reservation_restore(&settling->reservation, settling->memory, ask_size(loop),
				   wr_loop_engine(loop), &settling->ask) != 0)
		settling->ask = NULL;
}

static void close_ask(struct wr_settling *settling)
{
	struct wr_loop *loop = settling->loop;

	if (settling->ask)
		weir_ask_done(settling->ask);
	if (settling->memory)
		wr_pool_give(&loop->waiting.asks, settling->memory, WR_ASKS_SPARE_MAX);
	if (settling->ref)
		wr_core_ref_drop(&loop->refs, settling->ref);
	settling->ask = NULL;
	settling->memory = NULL;
	settling->ref = NULL;
}

static struct wr_settle_order order_of(const struct wr_settling *settling, enum wr_claim claim)
{
	return (struct wr_settle_order){settling->action, claim, settling->actual};
}

/* ---- settling ---- */

static void finish(struct wr_settling *settling, enum wr_settled result)
{
	close_ask(settling);
	settling->result = result;
	settling->magic = 0;
	settling->done(settling);
}

/* Writes the settlement into the decision log, and ends the ask. */
static void end_ask(struct wr_settling *settling, uint64_t now_ns)
{
	struct wr_loop *loop = settling->loop;

	if (loop->decisions)
		wr_serve_decision_note_settled(loop->decisions,
					       &(struct wr_decision_view){.ask = settling->ask,
									  .now_ns = now_ns,
									  .via = "reservation"});
	wr_serve_redis_send_rest(loop, settling->ask, now_ns);
	weir_ask_done(settling->ask);
	settling->ask = NULL;
}

/* Adds the units of the ask to the results. */
static void add_units(struct wr_settling *settling)
{
	uint64_t charged, refunded = wr_ask_settled_units(settling->ask, &charged);

	settling->refunded = refunded > settling->refunded ? refunded : settling->refunded;
	settling->charged = charged > settling->charged ? charged : settling->charged;
}

/* Settles a claimed reservation. */
static void settle_ask(struct wr_settling *settling, enum wr_claim claim)
{
	struct wr_settle_order order = order_of(settling, claim);
	uint64_t now_ns = wr_loop_now_ns(settling->loop);

	if (!wr_reservation_settle(&settling->reservation, settling->ask, &order, now_ns))
		return;
	if (claim != WR_CLAIM_ALREADY)
		add_units(settling);
	end_ask(settling, now_ns);
}

/* Charges the actual cost of a reservation whose limits are gone, by the rules in force. */
static void charge_anew(struct wr_settling *settling)
{
	struct wr_loop *loop = settling->loop;
	uint64_t now_ns = wr_loop_now_ns(loop);

	close_ask(settling);
	open_memory(settling);
	if (!settling->memory ||
	    wr_reservation_charge(&settling->reservation, settling->actual, settling->memory,
				  ask_size(loop), wr_loop_engine(loop), now_ns,
				  &settling->ask) != 0) {
		settling->ask = NULL;
		return;
	}
	add_units(settling);
	end_ask(settling, now_ns);
}

/* Without memory for an ask, a reservation that was claimed in the table stays charged. */
static void on_claimed(struct wr_settling *settling, enum wr_claim claim)
{
	bool late =
		settling->reservation.late || claim == WR_CLAIM_EXPIRED || claim == WR_CLAIM_LOST;
	bool gone = !settling->ask || settling->reservation.gone;

	if (claim == WR_CLAIM_FAILED) {
		finish(settling, WR_SETTLED_FAILED);
		return;
	}
	if (settling->ask)
		settle_ask(settling, claim);
	if (claim == WR_CLAIM_ALREADY) {
		finish(settling, WR_SETTLED_ALREADY);
		return;
	}
	if (gone && settling->action == WR_SETTLE_COMMIT)
		charge_anew(settling);
	finish(settling, gone ? WR_SETTLED_GONE : late ? WR_SETTLED_EXPIRED : WR_SETTLED_DONE);
}

/* ---- in the table ---- */

static void settle_here(struct wr_settling *settling)
{
	enum wr_claim claim =
		wr_reservation_claim(&settling->reservation, wr_loop_engine(settling->loop),
				     settling->action, wr_loop_now_ns(settling->loop));

	if (claim != WR_CLAIM_ALREADY)
		open_ask(settling);
	on_claimed(settling, claim);
}

/* ---- in Redis ---- */

static void settle_in_redis(struct wr_settling *settling);

static void on_answer(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct wr_settling *settling = wr_container_of(question, struct wr_settling, question);
	enum wr_claim claim;

	wr_assert_magic(settling, WR_SETTLING_MAGIC);
	settling->asking = false;
	claim = wr_reservation_answer(settling->action, &settling->step, answer, len);
	if (claim == WR_CLAIM_AGAIN) {
		close_ask(settling);
		settle_in_redis(settling);
	} else {
		on_claimed(settling, claim);
	}
}

static void settle_in_redis(struct wr_settling *settling)
{
	struct wr_loop *loop = settling->loop;
	struct wr_settle_order order =
		order_of(settling, settling->step.second ? WR_CLAIM_EXPIRED : WR_CLAIM_FIRST);
	uint8_t question[WEIR_QUESTION_MAX];
	int len;

	open_ask(settling);
	if (settling->ask)
		wr_reservation_prepare(&settling->reservation, settling->ask, &order);
	len = wr_reservation_question(&settling->reservation, settling->ask, &order,
				      &settling->step, question, sizeof question);
	if (!loop->redis || !settling->memory || len <= 0) {
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
	settling->ask = NULL;
	settling->memory = NULL;
	settling->ref = NULL;
	if (wr_reservation_read(&settling->reservation, engine, token, now_ns) != 0)
		finish(settling, WR_SETTLED_UNKNOWN);
	else if (settling->reservation.fleet)
		settle_in_redis(settling);
	else
		settle_here(settling);
}

void wr_settling_leave(struct wr_settling *settling)
{
	if (settling->asking) {
		wr_serve_redis_leave(settling->loop, &settling->question);
		close_ask(settling);
	}
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
