/* The heap and the queues of requests that wait in leaky buckets, and the free list of asks. Called
 * by pending.c. */
#include "serve/decide/waiting.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

/* ---- memory of asks ---- */

void *wr_waiting_take_ask(struct wr_waiting *waiting)
{
	void *memory = waiting->asks;

	if (!memory)
		return malloc(weir_ask_size() + WR_DECISION_KEPT);
	memcpy(&waiting->asks, memory, sizeof waiting->asks);
	waiting->ask_count--;
	return memory;
}

void wr_waiting_give_ask(struct wr_waiting *waiting, void *memory)
{
	if (waiting->ask_count >= WR_ASKS_KEPT) {
		free(memory);
		return;
	}
	memcpy(memory, &waiting->asks, sizeof waiting->asks);
	waiting->asks = memory;
	waiting->ask_count++;
}

/* ---- the heap ---- */

static struct wr_pending *pending_of(const struct wr_heap_node *node)
{
	return wr_container_of(node, struct wr_pending, heap_node);
}

static bool is_due_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return pending_of(a)->due_ns < pending_of(b)->due_ns;
}

static struct wr_pending *first_due(const struct wr_waiting *waiting)
{
	const struct wr_heap_node *node = wr_heap_first(&waiting->heap);

	return node ? pending_of(node) : NULL;
}

/* ---- order within a queue; a bucket may hold several queues ---- */

static struct wr_pending **bucket(struct wr_waiting *waiting, uint64_t queue)
{
	return &waiting->last[(queue ^ queue >> 32) % WR_WAITING_BUCKETS];
}

static void link_behind(struct wr_waiting *waiting, struct wr_pending *pending,
			struct wr_pending *before)
{
	struct wr_pending **last = bucket(waiting, pending->queue);
	struct wr_pending *behind = before ? before->behind : NULL;

	if (!before) /* link the request at the front of the bucket */
		for (behind = *last; behind && behind->before;)
			behind = behind->before;
	pending->before = before;
	pending->behind = behind;
	if (before)
		before->behind = pending;
	if (behind)
		behind->before = pending;
	else
		*last = pending;
}

static void link_by_due(struct wr_waiting *waiting, struct wr_pending *pending)
{
	struct wr_pending *before = *bucket(waiting, pending->queue);

	while (before && before->due_ns > pending->due_ns)
		before = before->before;
	link_behind(waiting, pending, before);
}

static void unlink_order(struct wr_waiting *waiting, struct wr_pending *pending)
{
	struct wr_pending **last = bucket(waiting, pending->queue);

	if (pending->before)
		pending->before->behind = pending->behind;
	if (pending->behind)
		pending->behind->before = pending->before;
	else
		*last = pending->before;
	pending->before = pending->behind = NULL;
}

static struct wr_pending *next_of_queue(const struct wr_pending *pending)
{
	struct wr_pending *next = pending->behind;

	while (next && next->queue != pending->queue)
		next = next->behind;
	return next;
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer);

/* Sets the timer for the request that is due first. Rounds up, because a timer that fires too early
 * would have to be set again, which costs a turn of the loop. */
static void arm_timer(struct wr_waiting *waiting, uint64_t now_ns)
{
	const struct wr_pending *first = first_due(waiting);

	if (!first) {
		uv_timer_stop(&waiting->timer);
		return;
	}
	uv_update_time(waiting->timer.loop);
	uv_timer_start(&waiting->timer, on_timer,
		       first->due_ns > now_ns ? (first->due_ns - now_ns + 999999) / 1000000 : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct wr_waiting *waiting = timer->data;
	uint64_t now_ns = wr_clock_wall_ns();
	struct wr_pending *pending;

	while ((pending = first_due(waiting)) && pending->due_ns <= now_ns) {
		wr_waiting_remove(waiting, pending);
		pending->done(pending, WEIR_ADMIT);
	}
	arm_timer(waiting, now_ns);
}

/* ---- functions for pending.c ---- */

int wr_waiting_init(struct wr_waiting *waiting, uv_loop_t *uv)
{
	wr_heap_init(&waiting->heap, is_due_before, WR_WAITING_MAX);
	waiting->timer.data = waiting;
	return uv_timer_init(uv, &waiting->timer);
}

void wr_waiting_free(struct wr_waiting *waiting)
{
	while (waiting->asks) {
		void *memory = waiting->asks;

		memcpy(&waiting->asks, memory, sizeof waiting->asks);
		free(memory);
	}
	wr_heap_free(&waiting->heap);
}

bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_queue_position *place, uint64_t now_ns)
{
	wr_assert(pending->done && !wr_heap_holds(&pending->heap_node));
	pending->queue = place->queue;
	pending->due_ns = place->due_ns;
	if (!wr_heap_add(&waiting->heap, &pending->heap_node))
		return false;
	link_by_due(waiting, pending);
	if (first_due(waiting) == pending)
		arm_timer(waiting, now_ns);
	return true;
}

void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending)
{
	unlink_order(waiting, pending);
	wr_heap_remove(&waiting->heap, &pending->heap_node);
}

/* Called after `pending` and `next` have traded places. Swaps the two in the order of their queue
 * and updates their due times. If `next` waits in several queues, another queue may now set its due
 * time. */
static void swap_places(struct wr_waiting *waiting, struct wr_pending *pending,
			struct wr_pending *next)
{
	struct weir_queue_position ours = {.size = sizeof ours}, theirs = {.size = sizeof theirs};

	weir_ask_queue_position(pending->ask, &ours);
	weir_ask_queue_position(next->ask, &theirs);
	unlink_order(waiting, pending);
	pending->due_ns = ours.due_ns;
	link_behind(waiting, pending, next);
	wr_heap_update(&waiting->heap, &pending->heap_node);
	if (theirs.queue != next->queue) {
		unlink_order(waiting, next);
		next->queue = theirs.queue;
		next->due_ns = theirs.due_ns;
		link_by_due(waiting, next);
	}
	next->due_ns = theirs.due_ns;
	wr_heap_update(&waiting->heap, &next->heap_node);
}

void wr_waiting_leave(struct wr_waiting *waiting, struct wr_pending *pending, uint64_t now_ns)
{
	struct wr_pending *next;

	while ((next = next_of_queue(pending)) &&
	       weir_ask_swap_positions(pending->ask, next->ask) == 0)
		swap_places(waiting, pending, next);
	wr_waiting_remove(waiting, pending);
	arm_timer(waiting, now_ns);
}
