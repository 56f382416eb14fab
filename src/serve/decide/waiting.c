/* The heap and the queues of requests that wait in leaky buckets, and the free list of asks. Called
 * by pending.c. */
#include "serve/decide/waiting.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- memory of asks ---- */

void *wr_ask_memory_take(struct wr_waiting *waiting)
{
	void *memory = waiting->asks;

	if (!memory)
		return malloc(weir_ask_size() + WR_DECISION_KEPT);
	memcpy(&waiting->asks, memory, sizeof waiting->asks);
	waiting->ask_count--;
	return memory;
}

void wr_ask_memory_give(struct wr_waiting *waiting, void *memory)
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

static void put_at(struct wr_waiting *waiting, size_t at, struct wr_pending *pending)
{
	waiting->heap[at] = pending;
	pending->heap_at = at;
}

static void rise(struct wr_waiting *waiting, size_t at, struct wr_pending *pending)
{
	for (; at > 1 && waiting->heap[at / 2]->due_ns > pending->due_ns; at /= 2)
		put_at(waiting, at, waiting->heap[at / 2]);
	put_at(waiting, at, pending);
}

static void sink(struct wr_waiting *waiting, size_t at, struct wr_pending *pending)
{
	for (;;) {
		size_t child = at * 2;

		if (child < waiting->count &&
		    waiting->heap[child + 1]->due_ns < waiting->heap[child]->due_ns)
			child++;
		if (child > waiting->count || waiting->heap[child]->due_ns >= pending->due_ns)
			break;
		put_at(waiting, at, waiting->heap[child]);
		at = child;
	}
	put_at(waiting, at, pending);
}

/* Moves a request in the heap after its due time has changed. */
static void resettle(struct wr_waiting *waiting, struct wr_pending *pending)
{
	rise(waiting, pending->heap_at, pending);
	sink(waiting, pending->heap_at, pending);
}

static bool heap_room(struct wr_waiting *waiting)
{
	size_t cap = waiting->cap ? waiting->cap * 2 : 64;
	struct wr_pending **heap;

	if (waiting->count >= WR_WAITING_MAX)
		return false;
	if (waiting->count + 1 < waiting->cap)
		return true;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): the heap is of pointers */
	heap = realloc(waiting->heap, cap * sizeof *heap);
	if (!heap)
		return false;
	waiting->heap = heap;
	waiting->cap = cap;
	return true;
}

static void heap_remove(struct wr_waiting *waiting, struct wr_pending *pending)
{
	size_t at = pending->heap_at;
	struct wr_pending *moved = waiting->heap[waiting->count--];

	pending->heap_at = 0;
	if (moved == pending)
		return;
	put_at(waiting, at, moved);
	resettle(waiting, moved);
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

	if (!before) /* at the front */
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

static uint64_t real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void on_timer(uv_timer_t *timer);

/* Rounds up: a timer that fires early would be armed again and cost a turn of the loop. */
static void arm_timer(struct wr_waiting *waiting, uint64_t now_ns)
{
	uint64_t due_ns;

	if (waiting->count == 0) {
		uv_timer_stop(&waiting->timer);
		return;
	}
	due_ns = waiting->heap[1]->due_ns;
	uv_update_time(waiting->timer.loop);
	uv_timer_start(&waiting->timer, on_timer,
		       due_ns > now_ns ? (due_ns - now_ns + 999999) / 1000000 : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct wr_waiting *waiting = timer->data;
	uint64_t now_ns = real_ns();

	while (waiting->count && waiting->heap[1]->due_ns <= now_ns) {
		struct wr_pending *pending = waiting->heap[1];

		wr_waiting_remove(waiting, pending);
		pending->done(pending, WEIR_ADMIT);
	}
	arm_timer(waiting, now_ns);
}

/* ---- from outside ---- */

int wr_waiting_init(struct wr_waiting *waiting, uv_loop_t *uv)
{
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
	free(waiting->heap);
	waiting->heap = NULL;
}

bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_place *place, uint64_t now_ns)
{
	if (!heap_room(waiting))
		return false;
	pending->queue = place->queue;
	pending->due_ns = place->due_ns;
	link_by_due(waiting, pending);
	rise(waiting, ++waiting->count, pending);
	if (waiting->heap[1] == pending)
		arm_timer(waiting, now_ns);
	return true;
}

void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending)
{
	unlink_order(waiting, pending);
	heap_remove(waiting, pending);
}

/* After `pending` and `next` have traded places: swaps them in the order and updates their due
 * times. If `next` waits in several queues, another queue may now set its due time. */
static void swap_places(struct wr_waiting *waiting, struct wr_pending *pending,
			struct wr_pending *next)
{
	struct weir_place ours = {.size = sizeof ours}, theirs = {.size = sizeof theirs};

	weir_ask_place(pending->ask, &ours);
	weir_ask_place(next->ask, &theirs);
	unlink_order(waiting, pending);
	pending->due_ns = ours.due_ns;
	link_behind(waiting, pending, next);
	resettle(waiting, pending);
	if (theirs.queue != next->queue) {
		unlink_order(waiting, next);
		next->queue = theirs.queue;
		next->due_ns = theirs.due_ns;
		link_by_due(waiting, next);
	}
	next->due_ns = theirs.due_ns;
	resettle(waiting, next);
}

void wr_waiting_leave(struct wr_waiting *waiting, struct wr_pending *pending, uint64_t now_ns)
{
	struct wr_pending *next;

	while ((next = next_of_queue(pending)) && weir_ask_trade(pending->ask, next->ask) == 0)
		swap_places(waiting, pending, next);
	wr_waiting_remove(waiting, pending);
	arm_timer(waiting, now_ns);
}
