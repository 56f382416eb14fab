#include "serve/decide/pending.h"

#include "limiter/log_text.h"
#include "serve/decide/log.h"
#include "serve/loop.h"
#include "serve/fleet/redis.h"

int wr_pending_init(struct wr_pending *pending, struct wr_loop *loop, struct weir_str domain)
{
	void *memory = wr_ask_memory_take(&loop->waiting);
	int rc;

	*pending = (struct wr_pending){.loop = loop};
	if (!memory)
		return WEIR_EMEMORY;
	rc = weir_ask_init(memory, weir_ask_size(), wr_loop_engine(loop), domain, &pending->ask);
	if (rc < 0) {
		pending->ask = NULL;
		wr_ask_memory_give(&loop->waiting, memory);
		return rc;
	}
	pending->ref = wr_core_ref_take(&loop->refs);
	if (loop->decisions)
		wr_ask_set_log_memory(pending->ask, (char *)memory + weir_ask_size(),
				      WR_DECISION_KEPT);
	return 0;
}

/* Waits, or returns false: it cannot be waited for, and what was taken has been given back. */
static bool hold(struct wr_pending *pending, uint64_t now_ns)
{
	struct weir_queue_position place = {.size = sizeof place};

	if (weir_ask_queue_position(pending->ask, &place) == 0 &&
	    (pending->deadline_ns == 0 || place.due_ns <= pending->deadline_ns) &&
	    wr_waiting_add(&pending->loop->waiting, pending, &place, now_ns))
		return true;
	weir_ask_cancel(pending->ask, now_ns);
	return false;
}

/* A verdict is there: for statistics, and for the decision log. */
static void note(struct wr_pending *pending)
{
	struct wr_loop *loop = pending->loop;
	uint64_t begun_ns = pending->begun_ns;

	if (weir_ask_wants_latency(pending->ask) > 0)
		weir_ask_report_latency(pending->ask, wr_loop_now_ns(loop) - begun_ns);
	if (loop->decisions)
		wr_decision_note(
			loop->decisions,
			&(struct wr_decision_view){.ask = pending->ask,
						   .now_ns = begun_ns,
						   .via = pending->via,
						   .enforced = !wr_loop_settings(loop)->shadow,
						   .trace = &pending->trace});
}

/* Decided, but for a wait. What the store has to know of it goes out first: `done` ends the ask. */
static void settle(struct wr_pending *pending, int verdict, uint64_t now_ns)
{
	struct wr_loop *loop = pending->loop;

	if (verdict > 0)
		note(pending);
	if (verdict > 0 && wr_loop_settings(loop)->shadow)
		verdict = WEIR_ADMIT;
	if (verdict == WEIR_DELAY && !pending->tell_delay && hold(pending, now_ns)) {
		wr_redis_send_rest(loop, pending->ask, now_ns);
		return;
	}
	wr_redis_send_rest(loop, pending->ask, now_ns);
	pending->done(pending, verdict);
}

/* ---- the central store ---- */

static void on_answer(struct wr_central_ask *store, const void *answer, size_t len)
{
	struct wr_pending *pending =
		(struct wr_pending *)((char *)store - offsetof(struct wr_pending, store));
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	int verdict = len ? weir_ask_answer(pending->ask, answer, len, now_ns) : WEIR_EFORMAT;

	pending->asking = false;
	wr_redis_note_rtt(pending->loop, now_ns - pending->begun_ns);
	if (verdict == WEIR_EFORMAT)
		verdict = weir_ask_store_failed(pending->ask, now_ns);
	settle(pending, verdict, now_ns);
}

/* The answer comes before this returns, or later. */
static void ask_store(struct wr_pending *pending, uint64_t now_ns)
{
	uint8_t question[WEIR_QUESTION_MAX];
	int len = weir_ask_question(pending->ask, question, sizeof question);

	if (!pending->loop->redis || len <= 0) {
		settle(pending, weir_ask_store_failed(pending->ask, now_ns), now_ns);
		return;
	}
	pending->asking = true;
	pending->store.done = on_answer;
	wr_redis_take(pending->loop, &pending->store, question, (size_t)len, now_ns);
}

void wr_pending_decide(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	int verdict = weir_ask_decide(pending->ask, now_ns);

	pending->begun_ns = now_ns;
	if (verdict == WEIR_WAIT)
		ask_store(pending, now_ns);
	else
		settle(pending, verdict, now_ns);
}

static void stop_asking(struct wr_pending *pending)
{
	if (pending->asking)
		wr_redis_leave(pending->loop, &pending->store);
	pending->asking = false;
}

void wr_pending_cancel(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	bool asked = pending->asking; /* then what is granted is given back by who was asked */

	stop_asking(pending);
	if (pending->heap_at)
		wr_waiting_leave(&pending->loop->waiting, pending, now_ns);
	if (weir_ask_cancel(pending->ask, now_ns) == 0 && !asked)
		wr_redis_send_rest(pending->loop, pending->ask, now_ns);
}

void wr_pending_end(struct wr_pending *pending)
{
	struct wr_loop *loop = pending->loop;

	if (!pending->ask)
		return;
	stop_asking(pending);
	if (pending->heap_at)
		wr_waiting_remove(&loop->waiting, pending);
	weir_ask_done(pending->ask);
	wr_ask_memory_give(&loop->waiting, pending->ask);
	wr_core_ref_drop(&loop->refs, pending->ref);
	*pending = (struct wr_pending){0};
}
