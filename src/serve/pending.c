#include "serve/pending.h"

#include "limiter/keep.h"
#include "serve/decision_log.h"
#include "serve/loop.h"

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
	pending->seat = wr_seat_enter(&loop->seats);
	if (loop->decisions)
		wr_ask_keep(pending->ask, (char *)memory + weir_ask_size(), WR_DECISION_KEPT);
	return 0;
}

/* Waits, or returns false: it cannot be waited for, and what was taken has been given back. */
static bool hold(struct wr_pending *pending, uint64_t now_ns)
{
	struct weir_place place = {.size = sizeof place};

	if (weir_ask_place(pending->ask, &place) == 0 &&
	    (pending->deadline_ns == 0 || place.due_ns <= pending->deadline_ns) &&
	    wr_waiting_add(&pending->loop->waiting, pending, &place, now_ns))
		return true;
	weir_ask_cancel(pending->ask, now_ns);
	return false;
}

/* A verdict is there: for statistics, and for the decision log. */
static void note(struct wr_pending *pending, uint64_t begun_ns)
{
	struct wr_loop *loop = pending->loop;

	if (weir_ask_timed(pending->ask) > 0)
		weir_ask_took(pending->ask, wr_loop_now_ns(loop) - begun_ns);
	if (loop->decisions)
		wr_decision_note(
			loop->decisions,
			&(struct wr_decision_view){.ask = pending->ask,
						   .now_ns = begun_ns,
						   .via = pending->via,
						   .enforced = !wr_loop_settings(loop)->shadow,
						   .trace = &pending->trace});
}

void wr_pending_decide(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);
	int verdict = weir_ask_decide(pending->ask, now_ns);

	if (verdict > 0 && verdict != WEIR_WAIT)
		note(pending, now_ns);
	if (verdict > 0 && wr_loop_settings(pending->loop)->shadow)
		verdict = WEIR_ADMIT;
	if (verdict == WEIR_DELAY && !pending->tell_delay && hold(pending, now_ns))
		return;
	pending->done(pending, verdict);
}

void wr_pending_cancel(struct wr_pending *pending)
{
	uint64_t now_ns = wr_loop_now_ns(pending->loop);

	if (pending->heap_at)
		wr_waiting_leave(&pending->loop->waiting, pending, now_ns);
	weir_ask_cancel(pending->ask, now_ns);
}

void wr_pending_end(struct wr_pending *pending)
{
	struct wr_loop *loop = pending->loop;

	if (!pending->ask)
		return;
	if (pending->heap_at)
		wr_waiting_remove(&loop->waiting, pending);
	weir_ask_done(pending->ask);
	wr_ask_memory_give(&loop->waiting, pending->ask);
	wr_seat_leave(&loop->seats, pending->seat);
	*pending = (struct wr_pending){0};
}
