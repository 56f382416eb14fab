/* The heap and the queues of requests that wait in leaky buckets. Called by pending.c. */
#include "serve/decide/waiting.h"

#include "base/assert.h"
#include "base/clock.h"

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

/* ---- order within a queue ---- */

static struct wr_list *list_of(struct wr_waiting *waiting, uint64_t queue)
{
	return &waiting->lists[(queue ^ queue >> 32) % WR_WAITING_LISTS];
}

static struct wr_pending *pending_in(struct wr_list *link)
{
	return wr_container_of(link, struct wr_pending, order);
}

static void link_by_due(struct wr_waiting *waiting, struct wr_pending *pending)
{
	struct wr_list *head = list_of(waiting, pending->queue), *before = head->prev;

	while (before != head && pending_in(before)->due_ns > pending->due_ns)
		before = before->prev;
	wr_list_add_after(before, &pending->order);
}

/* Returns the request behind `pending` in the same queue, or NULL if there is no such request. */
static struct wr_pending *next_of_queue(struct wr_waiting *waiting, struct wr_pending *pending)
{
	const struct wr_list *head = list_of(waiting, pending->queue);
	struct wr_list *link = wr_list_after(head, &pending->order);

	while (link && pending_in(link)->queue != pending->queue)
		link = wr_list_after(head, link);
	return link ? pending_in(link) : NULL;
}

/* ---- time ---- */

static void on_first_due(uv_timer_t *timer);

/* Sets the timer for the request that is due first. The time is rounded up, because a timer that
 * fires too early has to be set again, which costs a turn of the loop. */
static void arm_timer(struct wr_waiting *waiting, uint64_t now_ns)
{
	const struct wr_pending *first = first_due(waiting);

	if (!first) {
		uv_timer_stop(&waiting->timer);
		return;
	}
	uv_update_time(waiting->timer.loop);
	uv_timer_start(&waiting->timer, on_first_due,
		       first->due_ns > now_ns ? (first->due_ns - now_ns + 999999) / 1000000 : 0, 0);
}

static void on_first_due(uv_timer_t *timer)
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
	for (size_t i = 0; i < WR_WAITING_LISTS; i++)
		wr_list_init(&waiting->lists[i]);
	waiting->timer.data = waiting;
	return uv_timer_init(uv, &waiting->timer);
}

void wr_waiting_free(struct wr_waiting *waiting)
{
	wr_pool_free(&waiting->asks);
	wr_heap_free(&waiting->heap);
}

bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_queue_position *position, uint64_t now_ns)
{
	wr_assert(pending->done && !wr_heap_holds(&pending->heap_node));
	wr_assert_magic(pending, WR_PENDING_MAGIC);
	pending->queue = position->queue;
	pending->due_ns = position->due_ns;
	if (!wr_heap_add(&waiting->heap, &pending->heap_node))
		return false;
	link_by_due(waiting, pending);
	if (first_due(waiting) == pending)
		arm_timer(waiting, now_ns);
	return true;
}

void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending)
{
	wr_assert_magic(pending, WR_PENDING_MAGIC);
	wr_assert(wr_heap_holds(&pending->heap_node) && wr_list_holds(&pending->order));
	wr_list_remove(&pending->order);
	wr_heap_remove(&waiting->heap, &pending->heap_node);
}

/* Called after weir_ask_swap_positions() has let `next`, the request directly behind `pending` in a
 * queue, overtake `pending`. Makes the same change in the list of that queue, and updates the due
 * times of both. A request can wait in several queues, but it is in one list only:
 * the list of the queue in which its delay is longest. If the delay of `next` is now longest in
 * another queue, moves `next` to the list of that queue. */
static void swap_positions(struct wr_waiting *waiting, struct wr_pending *pending,
			   struct wr_pending *next)
{
	struct weir_queue_position ours = {.size = sizeof ours}, theirs = {.size = sizeof theirs};

	weir_ask_queue_position(pending->ask, &ours);
	weir_ask_queue_position(next->ask, &theirs);
	wr_list_remove(&pending->order);
	pending->due_ns = ours.due_ns;
	wr_list_add_after(&next->order, &pending->order);
	wr_heap_update(&waiting->heap, &pending->heap_node);
	if (theirs.queue != next->queue) {
		wr_list_remove(&next->order);
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

	wr_assert_magic(pending, WR_PENDING_MAGIC);
	wr_assert(wr_list_holds(&pending->order));
	while ((next = next_of_queue(waiting, pending)) &&
	       weir_ask_swap_positions(pending->ask, next->ask) == 0)
		swap_positions(waiting, pending, next);
	wr_waiting_remove(waiting, pending);
	arm_timer(waiting, now_ns);
}
