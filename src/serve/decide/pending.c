/* Makes the decision on one request: decides in the table, sends a question to the central store if
 * the rules require that, lets the request wait for a leaky bucket's delay, and reports the
 * decision. Called by the handlers of gRPC, HTTP and RESP and by serve/deliver. */
#include "serve/decide/pending.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "limiter/ask.h"
#include "limiter/log_text.h"
#include "limiter/reservation.h"
#include "serve/decide/log.h"
#include "serve/loop.h"
#include "serve/fleet/redis.h"

int wr_pending_init(struct wr_pending *pending, struct wr_loop *loop, struct weir_str domain)
{
	void *memory = wr_pool_take(&loop->waiting.asks, weir_ask_size() + WR_DECISION_TEXT_BYTES);
	int rc;

	wr_assert(loop);
	*pending = (struct wr_pending){.loop = loop};
	if (!memory)
		return WEIR_EMEMORY;
	rc = weir_ask_init(memory, weir_ask_size(), wr_loop_engine(loop), domain, &pending->ask);
	if (rc < 0) {
		pending->ask = NULL;
		wr_pool_give(&loop->waiting.asks, memory, WR_ASKS_SPARE_MAX);
		return rc;
	}
	if (wr_loop_settings(loop)->shadow)
		(void)weir_ask_dry_run(pending->ask);
	pending->magic = WR_PENDING_MAGIC;
	pending->ref = wr_core_ref_take(&loop->refs);
	if (loop->decisions)
		wr_ask_set_log_memory(pending->ask, (char *)memory + weir_ask_size(),
				      WR_DECISION_TEXT_BYTES);
	return 0;
}

int wr_pending_reserve(struct wr_pending *pending)
{
	wr_assert_magic(pending, WR_PENDING_MAGIC);
	pending->record = malloc(WR_RESERVATION_BYTES_MAX);
	return pending->record ? wr_reservation_begin(pending->ask, pending->record) : WEIR_EMEMORY;
}

int wr_pending_token(struct wr_pending *pending, uint64_t *ttl_ns, char *text)
{
	uint64_t expires_ns;
	bool refunds;
	int len = wr_reservation_write(pending->ask, *ttl_ns, text, &expires_ns, &refunds);

	wr_assert_magic(pending, WR_PENDING_MAGIC);
	if (len < 0) {
		wr_pending_cancel(pending);
		return len;
	}
	*ttl_ns = expires_ns - pending->ask->now_ns;
	if (refunds)
		wr_expiries_add(&pending->loop->expiries, (struct weir_str){text, (size_t)len},
				expires_ns);
	return len;
}

/* Lets the request wait until its delay is over. If the request cannot wait, gives back the units
 * that it has taken and returns false. */
static bool wait_for_turn(struct wr_pending *pending, uint64_t now_ns)
{
	struct weir_queue_position position = {.size = sizeof position};

	if (weir_ask_queue_position(pending->ask, &position) == 0 &&
	    (pending->deadline_ns == 0 || position.due_ns <= pending->deadline_ns) &&
	    wr_waiting_add(&pending->loop->waiting, pending, &position, now_ns))
		return true;
	weir_ask_cancel(pending->ask, now_ns);
	return false;
}

/* Reports a decision to the statistics and the decision log. */
static void report_decision(struct wr_pending *pending)
{
	struct wr_loop *loop = pending->loop;
	uint64_t begun_ns = pending->begun_ns;

	if (weir_ask_wants_latency(pending->ask) > 0) {
		uint64_t now_ns = wr_loop_now_ns(loop);

		weir_ask_report_latency(pending->ask, now_ns > begun_ns ? now_ns - begun_ns : 0);
	}
	if (loop->decisions)
		wr_serve_decision_note(
			loop->decisions,
			&(struct wr_decision_view){.ask = pending->ask,
						   .now_ns = begun_ns,
						   .via = pending->via,
						   .enforced = !wr_loop_settings(loop)->shadow,
						   .trace = &pending->trace});
}

/* Calls `done` with this verdict, or lets the request wait for its delay in a leaky bucket.
 * Messages to the central store are sent before `done` is called, because `done` ends the ask. */
static void conclude(struct wr_pending *pending, int verdict, uint64_t now_ns)
{
	struct wr_loop *loop = pending->loop;
	bool waits;

	if (verdict > 0)
		report_decision(pending);
	if (verdict > 0 && wr_loop_settings(loop)->shadow)
		verdict = WEIR_ADMIT;
	waits = verdict == WEIR_DELAY && !pending->report_delay && wait_for_turn(pending, now_ns);
	wr_serve_redis_send_rest(loop, pending->ask, now_ns);
	if (!waits)
		pending->done(pending, verdict);
}

/* ---- the central store ---- */

static void on_answer(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct wr_pending *pending = wr_container_of(question, struct wr_pending, question);
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	int verdict = len ? weir_ask_answer(pending->ask, answer, len, now_ns) : WEIR_EFORMAT;

	wr_assert_magic(pending, WR_PENDING_MAGIC);
	wr_assert(pending->asking);
	pending->asking = false;
	wr_serve_redis_note_rtt(pending->loop, now_ns - pending->begun_ns);
	if (verdict == WEIR_EFORMAT)
		verdict = weir_ask_store_failed(pending->ask, now_ns);
	conclude(pending, verdict, now_ns);
}

static void ask_central(struct wr_pending *pending, uint64_t now_ns)
{
	uint8_t question[WEIR_QUESTION_MAX];
	int len = weir_ask_question(pending->ask, question, sizeof question);

	if (!pending->loop->redis || len <= 0) {
		conclude(pending, weir_ask_store_failed(pending->ask, now_ns), now_ns);
		return;
	}
	pending->asking = true;
	pending->question.done = on_answer;
	wr_serve_redis_take(pending->loop, &pending->question, question, (size_t)len, now_ns);
}

static void begin_decision(struct wr_pending *pending, uint64_t begun_ns, uint64_t now_ns)
{
	int verdict;

	wr_assert(pending->ask && pending->done);
	wr_assert_magic(pending, WR_PENDING_MAGIC);
	wr_assert(!pending->asking && !wr_heap_holds(&pending->heap_node));
	pending->begun_ns = begun_ns;
	verdict = weir_ask_decide(pending->ask, now_ns);
	if (verdict == WEIR_WAIT)
		ask_central(pending, now_ns);
	else
		conclude(pending, verdict, now_ns);
}

void wr_pending_decide(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);

	begin_decision(pending, now_ns, now_ns);
}

/* A caller can make many decisions with the same now_ns, so this decision can begin later than
 * now_ns. If its duration will be reported, its beginning is therefore read from the clock. */
void wr_pending_decide_at(struct wr_pending *pending, uint64_t now_ns)
{
	bool timed = wr_ask_wants_latency_next(pending->ask);

	begin_decision(pending, timed ? wr_loop_now_ns(pending->loop) : now_ns, now_ns);
}

void wr_pending_charge(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	int rc;

	wr_assert_magic(pending, WR_PENDING_MAGIC);
	wr_assert(pending->done);
	rc = wr_ask_charge(pending->ask, now_ns);
	wr_serve_redis_send_rest(pending->loop, pending->ask, now_ns);
	pending->done(pending, rc < 0 ? rc : WEIR_ADMIT);
}

static void stop_asking(struct wr_pending *pending)
{
	if (pending->asking)
		wr_serve_redis_leave(pending->loop, &pending->question);
	pending->asking = false;
}

void wr_pending_settle(struct wr_pending *pending, const struct weir_outcome *outcome)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);

	wr_assert_magic(pending, WR_PENDING_MAGIC);
	if (weir_ask_settles(pending->ask) <= 0)
		return;
	weir_ask_settle_outcome(pending->ask, outcome, now_ns);
	if (pending->loop->decisions)
		wr_serve_decision_note_settled(
			pending->loop->decisions,
			&(struct wr_decision_view){.ask = pending->ask,
						   .now_ns = now_ns,
						   .via = pending->via,
						   .trace = &pending->trace});
	wr_serve_redis_send_rest(pending->loop, pending->ask, now_ns);
}

void wr_pending_cancel(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	/* If a question is in flight, central gives back the units that Redis grants in its answer,
	 * so wr_serve_redis_send_rest() is not called. */
	bool asked = pending->asking;

	wr_assert_magic(pending, WR_PENDING_MAGIC);
	stop_asking(pending);
	if (wr_heap_holds(&pending->heap_node))
		wr_waiting_leave(&pending->loop->waiting, pending, now_ns);
	if (weir_ask_cancel(pending->ask, now_ns) == 0 && !asked)
		wr_serve_redis_send_rest(pending->loop, pending->ask, now_ns);
}

void wr_pending_end(struct wr_pending *pending)
{
	struct wr_loop *loop = pending->loop;

	if (!pending->ask)
		return;
	wr_assert_magic(pending, WR_PENDING_MAGIC);
	stop_asking(pending);
	if (wr_heap_holds(&pending->heap_node))
		wr_waiting_remove(&loop->waiting, pending);
	weir_ask_done(pending->ask);
	wr_pool_give(&loop->waiting.asks, pending->ask, WR_ASKS_SPARE_MAX);
	free(pending->record);
	wr_core_ref_drop(&loop->refs, pending->ref);
	*pending = (struct wr_pending){0};
}
