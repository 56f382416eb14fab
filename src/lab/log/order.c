/* Puts records into the order of their times. Lines of logs are nearly in order, so that adding a
 * record to the list of its second is all that most lines need. */
#include "lab/log/order.h"

#include <stdlib.h>

#include <weir/error.h>

#include "base/assert.h"
#include "lab/log/lines.h"

#define BITS 64u /* bits of a word of `busy` */

struct wr_lab_second {
	struct wr_lab_chain chain;
	uint32_t count;
	uint32_t whole_count; /* records whose times are whole seconds */
	bool unsorted;        /* the times of the chain go back */
};

int wr_lab_order_init(struct wr_lab_order *order, uint64_t window_lines, uint64_t window_ns)
{
	uint64_t size = 1;

	*order = (struct wr_lab_order){.window_lines = window_lines};
	order->window_s = window_ns / WR_LAB_SECOND_NS + (window_ns % WR_LAB_SECOND_NS != 0);
	while (size < order->window_s + 2 || size < BITS)
		size *= 2;
	order->mask = size - 1;
	order->seconds = calloc(size, sizeof *order->seconds);
	order->busy = calloc(size / BITS, sizeof *order->busy);
	return order->seconds && order->busy ? 0 : WEIR_EMEMORY;
}

void wr_lab_order_free(struct wr_lab_order *order)
{
	free(order->seconds);
	free(order->busy);
}

static struct wr_lab_second *second_at(const struct wr_lab_order *order, uint64_t s)
{
	return &order->seconds[s & order->mask];
}

/* ---- the records of a second leave ---- */

/* Spreads the records with whole times evenly between two parts of their second: the k-th of n
 * records gets k/n of the room, beginning with 0/n. `carry` is the rest of the division. */
static void spread(struct wr_lab_second *second, uint64_t from_ns, uint64_t room_ns)
{
	uint64_t n = second->whole_count, step_ns = room_ns / n, rest = room_ns % n;
	uint64_t at_ns = from_ns, carry = 0, before_ns = 0;

	for (struct wr_lab_slot *slot = second->chain.head; slot; slot = slot->next) {
		if (slot->whole) {
			slot->record.time_ns += at_ns;
			carry += rest;
			at_ns += step_ns + (carry >= n);
			carry -= carry >= n ? n : 0;
		}
		second->unsorted |= slot->record.time_ns < before_ns;
		before_ns = slot->record.time_ns;
	}
}

static struct wr_lab_slot *merge(struct wr_lab_slot *a, struct wr_lab_slot *b)
{
	struct wr_lab_slot *head = NULL, **to = &head;

	while (a && b) {
		struct wr_lab_slot **from = a->record.time_ns <= b->record.time_ns ? &a : &b;

		*to = *from;
		*from = (*from)->next;
		to = &(*to)->next;
	}
	*to = a ? a : b;
	return head;
}

/* Sorts a list by time. Equal times stay in their order. runs[i] is a sorted list of 2^i slots, or
 * empty. */
static struct wr_lab_slot *sort(struct wr_lab_slot *slot)
{
	struct wr_lab_slot *runs[32] = {NULL}, *sorted = NULL;

	while (slot) {
		struct wr_lab_slot *run = slot;
		unsigned i = 0;

		slot = slot->next;
		run->next = NULL;
		for (; runs[i]; i++) {
			run = merge(runs[i], run);
			runs[i] = NULL;
		}
		runs[i] = run;
	}
	for (unsigned i = 0; i < 32; i++)
		sorted = merge(runs[i], sorted);
	return sorted;
}

static size_t bytes_of(const struct wr_lab_slot *slot)
{
	return sizeof *slot + slot->line_bytes +
	       (slot->many ? WR_LAB_HEADERS_MAX * sizeof *slot->many : 0);
}

static void leave(struct wr_lab_order *order, struct wr_lab_slot *slot)
{
	if (slot->record.time_ns < order->last_ns) {
		slot->record.time_ns = order->last_ns;
		slot->late = true;
		order->late++;
	}
	order->last_ns = slot->record.time_ns;
	wr_lab_chain_add(&order->ready, slot);
}

/* Moves oldest_s to the next second that has records. */
static void find_oldest(struct wr_lab_order *order)
{
	uint64_t words = (order->mask + 1) / BITS, at = order->oldest_s & order->mask;
	uint64_t word = order->busy[at / BITS] >> at % BITS;

	if (word) {
		order->oldest_s += (unsigned)__builtin_ctzll(word);
		return;
	}
	order->oldest_s += BITS - at % BITS;
	for (uint64_t i = at / BITS + 1;; i++, order->oldest_s += BITS) {
		word = order->busy[i % words];
		if (word) {
			order->oldest_s += (unsigned)__builtin_ctzll(word);
			return;
		}
	}
}

/* The records of the oldest second leave the window. Whole times are spread from from_ns. */
static void empty_oldest(struct wr_lab_order *order, uint64_t from_ns, uint64_t room_ns)
{
	struct wr_lab_second *second = second_at(order, order->oldest_s);
	uint64_t at = order->oldest_s & order->mask;
	struct wr_lab_slot *slot, *next;

	wr_assert(second->count > 0);
	if (second->whole_count)
		spread(second, from_ns, room_ns);
	if (second->unsorted)
		second->chain.head = sort(second->chain.head);
	for (slot = second->chain.head; slot; slot = next) {
		next = slot->next;
		order->held_bytes -= bytes_of(slot);
		order->held_texts -= --slot->text->held == 0;
		leave(order, slot);
	}
	order->held -= second->count;
	*second = (struct wr_lab_second){.count = 0};
	order->busy[at / BITS] &= ~(1ull << at % BITS);
}

/* Returns how much of a second was used before. */
static uint64_t used_of(const struct wr_lab_order *order, uint64_t s)
{
	return s == order->part_s ? order->part_ns : 0;
}

/* The oldest second leaves the window for good. */
static void release_oldest(struct wr_lab_order *order)
{
	uint64_t used_ns = used_of(order, order->oldest_s);

	empty_oldest(order, used_ns, WR_LAB_SECOND_NS - used_ns);
	order->floor_s = ++order->oldest_s;
	if (order->held)
		find_oldest(order);
}

/* The window is full. The records of the oldest second leave. If more records of this second may
 * follow, those that leave share the first half of what is left of their second. */
static void force(struct wr_lab_order *order)
{
	uint64_t used_ns = used_of(order, order->oldest_s);

	if (order->oldest_s < order->newest_s) {
		release_oldest(order);
		return;
	}
	empty_oldest(order, used_ns, (WR_LAB_SECOND_NS - used_ns) / 2);
	order->part_s = order->oldest_s;
	order->part_ns = used_ns + (WR_LAB_SECOND_NS - used_ns) / 2;
}

/* ---- records enter ---- */

/* Moves the end of the window to a later second. */
static void advance(struct wr_lab_order *order, uint64_t s)
{
	uint64_t floor_s = s > order->window_s ? s - order->window_s : 0;

	while (order->held && order->oldest_s < floor_s)
		release_oldest(order);
	if (order->floor_s < floor_s)
		order->floor_s = floor_s;
	order->newest_s = s;
}

static void enter(struct wr_lab_order *order, struct wr_lab_slot *slot, uint64_t s)
{
	struct wr_lab_second *second = second_at(order, s);
	uint64_t at = s & order->mask;

	if (order->held == 0 || s < order->oldest_s)
		order->oldest_s = s;
	order->busy[at / BITS] |= 1ull << at % BITS;
	if (second->count && slot->record.time_ns < second->chain.tail->record.time_ns)
		second->unsorted = true;
	wr_lab_chain_add(&second->chain, slot);
	second->count++;
	second->whole_count += slot->whole;
	order->held++;
	order->held_bytes += bytes_of(slot);
	order->held_texts += slot->text->held++ == 0;
}

/* Adds a record to the window, whatever its time is. */
static void put(struct wr_lab_order *order, struct wr_lab_slot *slot)
{
	uint64_t time_ns = slot->record.time_ns, s = time_ns / WR_LAB_SECOND_NS;

	if (s < order->floor_s) {
		leave(order, slot);
		return;
	}
	if (s > order->newest_s)
		advance(order, s);
	if (time_ns >= order->newest_ns)
		order->newest_ns = time_ns;
	else
		order->reordered++;
	enter(order, slot, s);
	while (order->held - second_at(order, order->oldest_s)->count >= order->window_lines)
		release_oldest(order);
	while (order->held_bytes > WR_LAB_WINDOW_BYTES)
		force(order);
}

/* ---- records ahead of the window ---- */

/* Empties the list of records ahead. Returns its first slot. */
static struct wr_lab_slot *take_ahead(struct wr_lab_order *order)
{
	struct wr_lab_slot *slot = order->ahead.head;

	order->ahead.head = NULL;
	order->ahead_lines = order->behind_lines = 0;
	return slot;
}

/* There was a pause. */
static void accept_ahead(struct wr_lab_order *order)
{
	struct wr_lab_slot *slot, *next;

	for (slot = take_ahead(order); slot; slot = next) {
		next = slot->next;
		put(order, slot);
	}
}

/* The times of the records ahead are wrong. They leave as late records. */
static void reject_ahead(struct wr_lab_order *order)
{
	struct wr_lab_slot *slot, *next;

	for (slot = take_ahead(order); slot; slot = next) {
		next = slot->next;
		if (order->last_ns == 0)
			order->last_ns = order->oldest_s * WR_LAB_SECOND_NS;
		slot->record.time_ns = 0;
		leave(order, slot);
	}
}

/* Adds a record to the window, or to the records ahead of it. */
static void sort_in(struct wr_lab_order *order, struct wr_lab_slot *slot)
{
	uint64_t s = slot->record.time_ns / WR_LAB_SECOND_NS;

	if (s > order->newest_s + order->window_s && order->newest_s) {
		wr_lab_chain_add(&order->ahead, slot);
		if (++order->ahead_lines == WR_LAB_AHEAD_LINES)
			accept_ahead(order);
		return;
	}
	put(order, slot);
	if (order->ahead_lines && ++order->behind_lines == WR_LAB_AHEAD_LINES)
		reject_ahead(order);
}

/* ---- the first records ---- */

/* The window begins at the earliest of the first records. */
static void begin(struct wr_lab_order *order)
{
	struct wr_lab_slot *slot, *next, *first = take_ahead(order);
	uint64_t earliest_ns = UINT64_MAX;

	order->begun = true;
	for (slot = first; slot; slot = slot->next)
		if (slot->record.time_ns < earliest_ns)
			earliest_ns = slot->record.time_ns;
	if (first)
		order->newest_s = earliest_ns / WR_LAB_SECOND_NS;
	for (slot = first; slot; slot = next) {
		next = slot->next;
		sort_in(order, slot);
	}
}

void wr_lab_order_add(struct wr_lab_order *order, struct wr_lab_slot *slot)
{
	if (order->begun) {
		sort_in(order, slot);
		return;
	}
	wr_lab_chain_add(&order->ahead, slot);
	if (++order->ahead_lines == WR_LAB_AHEAD_LINES)
		begin(order);
}

void wr_lab_order_unpin(struct wr_lab_order *order)
{
	while (order->held_texts >= WR_LAB_WINDOW_TEXTS)
		force(order);
}

void wr_lab_order_flush(struct wr_lab_order *order)
{
	if (!order->begun)
		begin(order);
	accept_ahead(order);
	while (order->held)
		release_oldest(order);
}
