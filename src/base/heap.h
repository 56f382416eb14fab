/* A binary heap of objects that embed a struct wr_heap_node. A node stores its index in the heap,
 * so that an object can be moved or removed in O(log n) without a search.
 *
 *     struct job { uint64_t due_ns; struct wr_heap_node node; };
 *
 *     static bool is_due_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
 *     {
 *             return wr_container_of(a, const struct job, node)->due_ns <
 *                    wr_container_of(b, const struct job, node)->due_ns;
 *     }
 *
 * The functions are inline, so that the compiler can inline the comparison too. The heap allocates
 * an array of pointers; the caller owns the objects. One thread at a time may use a heap. */
#ifndef WR_BASE_HEAP_H
#define WR_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"

#define WR_HEAP_FIRST 64u /* the first allocation has room for this many nodes */

/* A member that an object embeds. All zero while the object is in no heap. */
struct wr_heap_node {
	size_t at; /* index in the array plus 1; 0: in no heap */
};

/* Returns whether `a` leaves the heap before `b`. Nodes that compare equal leave in any order. */
typedef bool wr_heap_before(const struct wr_heap_node *a, const struct wr_heap_node *b);

struct wr_heap {
	struct wr_heap_node **nodes; /* nodes[0] leaves the heap first */
	size_t count, cap;
	size_t max; /* maximum of `count` */
	wr_heap_before *before;
};

static inline void wr_heap_init(struct wr_heap *heap, wr_heap_before *before, size_t max)
{
	*heap = (struct wr_heap){.before = before, .max = max};
}

/* Frees the array of pointers. The nodes stay unchanged. */
static inline void wr_heap_free(struct wr_heap *heap)
{
	free(heap->nodes);
	heap->nodes = NULL;
	heap->count = heap->cap = 0;
}

/* Returns the node that leaves first, or NULL if the heap is empty. */
static inline struct wr_heap_node *wr_heap_first(const struct wr_heap *heap)
{
	return heap->count ? heap->nodes[0] : NULL;
}

static inline bool wr_heap_holds(const struct wr_heap_node *node)
{
	return node->at != 0;
}

/* Makes room for `count` nodes in total, so that adding nodes up to this number cannot fail.
 * Returns false if `count` is above the maximum or there is no memory; the heap is then unchanged.
 */
static inline bool wr_heap_reserve(struct wr_heap *heap, size_t count)
{
	size_t cap = heap->cap ? heap->cap : WR_HEAP_FIRST;
	struct wr_heap_node **nodes;

	if (count <= heap->cap)
		return true;
	if (count > heap->max || count > SIZE_MAX / 4 / sizeof(void *))
		return false;
	while (cap < count)
		cap *= 2;
	cap = cap < heap->max ? cap : heap->max;
	nodes = realloc(heap->nodes, cap * sizeof(void *));
	if (!nodes)
		return false;
	heap->nodes = nodes;
	heap->cap = cap;
	return true;
}

/* Moves a node to its new position in the heap. The caller has changed the value by which the node
 * is compared with other nodes. */
static inline void wr_heap_update(struct wr_heap *heap, struct wr_heap_node *node)
{
	size_t at = node->at, child;

	wr_assert(at >= 1 && at <= heap->count && heap->nodes[at - 1] == node);
	for (; at > 1 && heap->before(node, heap->nodes[at / 2 - 1]); at /= 2) {
		heap->nodes[at - 1] = heap->nodes[at / 2 - 1];
		heap->nodes[at - 1]->at = at;
	}
	for (; (child = 2 * at) <= heap->count; at = child) {
		if (child < heap->count && heap->before(heap->nodes[child], heap->nodes[child - 1]))
			child++;
		if (!heap->before(heap->nodes[child - 1], node))
			break;
		heap->nodes[at - 1] = heap->nodes[child - 1];
		heap->nodes[at - 1]->at = at;
	}
	heap->nodes[at - 1] = node;
	node->at = at;
}

/* Adds a node that is in no heap. Returns false if the heap is full or there is no memory. */
static inline bool wr_heap_add(struct wr_heap *heap, struct wr_heap_node *node)
{
	wr_assert(node->at == 0);
	if (!wr_heap_reserve(heap, heap->count + 1))
		return false;
	heap->nodes[heap->count++] = node;
	node->at = heap->count;
	wr_heap_update(heap, node);
	return true;
}

/* Removes a node that is in this heap. */
static inline void wr_heap_remove(struct wr_heap *heap, struct wr_heap_node *node)
{
	size_t at = node->at;
	struct wr_heap_node *last;

	wr_assert(at >= 1 && at <= heap->count && heap->nodes[at - 1] == node);
	last = heap->nodes[--heap->count];
	node->at = 0;
	if (last == node) {
		wr_assert(at == heap->count + 1);
		return;
	}
	heap->nodes[at - 1] = last;
	last->at = at;
	wr_heap_update(heap, last);
}

/* Removes the first node and returns it. Returns NULL if the heap is empty. */
static inline struct wr_heap_node *wr_heap_pop(struct wr_heap *heap)
{
	struct wr_heap_node *node = wr_heap_first(heap);

	if (!node)
		return NULL;
	wr_assert(node->at == 1);
	wr_heap_remove(heap, node);
	return node;
}

#endif
