/* The collection of leases: a hash table by counter, and a heap by the time of the next check.
 * Called by lease.c and lease_renew.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "central/inner.h"

#define BLOCK_HOLDS 64u

struct wr_lease_hold_block {
	struct wr_lease_hold_block *next;
	struct wr_lease_hold holds[BLOCK_HOLDS];
};

struct wr_lease_holds *wr_lease_holds_new(void)
{
	return calloc(1, sizeof(struct wr_lease_holds));
}

void wr_lease_holds_free(struct wr_lease_holds *holds)
{
	if (!holds)
		return;
	while (holds->blocks) {
		struct wr_lease_hold_block *block = holds->blocks;

		holds->blocks = block->next;
		free(block);
	}
	free(holds->heap);
	free(holds);
}

/* ---- the hash table by counter ---- */

static struct wr_lease_hold **hold_chain(const struct wr_lease_holds *holds, const uint64_t key[2],
					 const char *id, size_t id_len)
{
	uint64_t hash = XXH3_64bits_withSeed(id, id_len, key[0] ^ key[1]);

	return (struct wr_lease_hold **)&holds->lists[hash % WR_LEASE_HOLD_LISTS];
}

static bool is_hold_of(const struct wr_lease_hold *hold, const uint64_t key[2], const char *id,
		       size_t id_len)
{
	return hold->key[0] == key[0] && hold->key[1] == key[1] && hold->id_len == id_len &&
	       memcmp(hold->id, id, id_len) == 0;
}

struct wr_lease_hold *wr_lease_hold_find(const struct wr_lease_holds *holds, const uint64_t key[2],
					 const char *id, size_t id_len)
{
	struct wr_lease_hold *hold = *hold_chain(holds, key, id, id_len);

	while (hold && !is_hold_of(hold, key, id, id_len))
		hold = hold->next;
	return hold;
}

/* ---- the heap by time ---- */

static void set_heap_at(struct wr_lease_holds *holds, struct wr_lease_hold *hold, uint32_t heap_at)
{
	holds->heap[heap_at] = hold;
	hold->heap_at = heap_at;
}

static void sift_up(struct wr_lease_holds *holds, struct wr_lease_hold *hold)
{
	uint32_t heap_at = hold->heap_at;

	while (heap_at > 0 && holds->heap[(heap_at - 1) / 2]->check_ns > hold->check_ns) {
		set_heap_at(holds, holds->heap[(heap_at - 1) / 2], heap_at);
		heap_at = (heap_at - 1) / 2;
	}
	set_heap_at(holds, hold, heap_at);
}

static void sift_down(struct wr_lease_holds *holds, struct wr_lease_hold *hold)
{
	uint32_t heap_at = hold->heap_at;

	for (;;) {
		uint32_t child = 2 * heap_at + 1;

		if (child + 1 < holds->count &&
		    holds->heap[child + 1]->check_ns < holds->heap[child]->check_ns)
			child++;
		if (child >= holds->count || holds->heap[child]->check_ns >= hold->check_ns)
			break;
		set_heap_at(holds, holds->heap[child], heap_at);
		heap_at = child;
	}
	set_heap_at(holds, hold, heap_at);
}

void wr_lease_hold_check_at(struct wr_lease_holds *holds, struct wr_lease_hold *hold,
			    uint64_t mono_ns)
{
	hold->check_ns = mono_ns;
	sift_up(holds, hold);
	sift_down(holds, hold);
}

/* ---- adding and removing ---- */

static bool grow_heap(struct wr_lease_holds *holds)
{
	uint32_t cap = holds->cap ? 2 * holds->cap : BLOCK_HOLDS;
	struct wr_lease_hold **heap;

	if (holds->count < holds->cap)
		return true;
	if (holds->count == WR_LEASE_HOLDS_MAX)
		return false;
	heap = realloc(holds->heap, cap * sizeof(void *));
	if (!heap)
		return false;
	holds->heap = heap;
	holds->cap = cap;
	return true;
}

static bool grow_free_list(struct wr_lease_holds *holds)
{
	struct wr_lease_hold_block *block;

	if (holds->free)
		return true;
	block = malloc(sizeof *block);
	if (!block)
		return false;
	block->next = holds->blocks;
	holds->blocks = block;
	for (size_t i = 0; i < BLOCK_HOLDS; i++) {
		block->holds[i].next = holds->free;
		holds->free = &block->holds[i];
	}
	return true;
}

struct wr_lease_hold *wr_lease_hold_add(struct wr_lease_holds *holds, const uint64_t key[2],
					const char *id, size_t id_len)
{
	struct wr_lease_hold **list = hold_chain(holds, key, id, id_len);
	struct wr_lease_hold *hold;

	if (!grow_heap(holds) || !grow_free_list(holds))
		return NULL;
	hold = holds->free;
	holds->free = hold->next;
	memset(hold, 0, sizeof *hold);
	hold->magic = WR_LEASE_HOLD_MAGIC;
	hold->key[0] = key[0];
	hold->key[1] = key[1];
	hold->id_len = (uint8_t)id_len;
	memcpy(hold->id, id, id_len);
	hold->next = *list;
	*list = hold;
	set_heap_at(holds, hold, holds->count++);
	sift_up(holds, hold);
	return hold;
}

void wr_lease_hold_remove(struct wr_lease_holds *holds, struct wr_lease_hold *hold)
{
	struct wr_lease_hold **at = hold_chain(holds, hold->key, hold->id, hold->id_len);
	struct wr_lease_hold *last = holds->heap[--holds->count];

	wr_assert(hold->magic == WR_LEASE_HOLD_MAGIC);
	while (*at != hold)
		at = &(*at)->next;
	*at = hold->next;
	if (last != hold) {
		set_heap_at(holds, last, hold->heap_at);
		wr_lease_hold_check_at(holds, last, last->check_ns);
	}
	hold->magic = 0;
	hold->next = holds->free;
	holds->free = hold;
}

/* ---- counters that were asked for once ---- */

bool wr_lease_hold_was_seen(struct wr_lease_holds *holds, const uint64_t key[2], uint64_t identity,
			    uint64_t mono_ns, uint64_t ttl_ns)
{
	uint64_t mixed = key[0] ^ key[1] * 0x9e3779b97f4a7c15u ^ identity;
	struct wr_lease_hold_seen *seen = &holds->seen[mixed % WR_LEASE_HOLD_SEEN];
	struct wr_lease_hold_seen now = {(uint32_t)(mixed >> 32) | 1,
					 (uint32_t)(mono_ns / WR_MS_NS)};
	bool was = seen->print == now.print && now.at_ms - seen->at_ms <= ttl_ns / WR_MS_NS;

	*seen = now;
	return was;
}
