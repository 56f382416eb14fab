/* Where holds stand: by counter in lists, by the time they need care in a heap. */
#include <stdlib.h>
#include <string.h>

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

/* ---- by counter ---- */

static struct wr_lease_hold **list_of(const struct wr_lease_holds *holds, const uint64_t key[2],
				      const char *id, size_t id_len)
{
	uint64_t hash = XXH3_64bits_withSeed(id, id_len, key[0] ^ key[1]);

	return (struct wr_lease_hold **)&holds->lists[hash % WR_LEASE_HOLD_LISTS];
}

static bool is_of(const struct wr_lease_hold *hold, const uint64_t key[2], const char *id,
		  size_t id_len)
{
	return hold->key[0] == key[0] && hold->key[1] == key[1] && hold->id_len == id_len &&
	       memcmp(hold->id, id, id_len) == 0;
}

struct wr_lease_hold *wr_lease_hold_find(const struct wr_lease_holds *holds, const uint64_t key[2],
					 const char *id, size_t id_len)
{
	struct wr_lease_hold *hold = *list_of(holds, key, id, id_len);

	while (hold && !is_of(hold, key, id, id_len))
		hold = hold->next;
	return hold;
}

/* ---- by time ---- */

static void put_at(struct wr_lease_holds *holds, struct wr_lease_hold *hold, uint32_t heap_at)
{
	holds->heap[heap_at] = hold;
	hold->heap_at = heap_at;
}

static void rise(struct wr_lease_holds *holds, struct wr_lease_hold *hold)
{
	uint32_t heap_at = hold->heap_at;

	while (heap_at > 0 && holds->heap[(heap_at - 1) / 2]->check_ns > hold->check_ns) {
		put_at(holds, holds->heap[(heap_at - 1) / 2], heap_at);
		heap_at = (heap_at - 1) / 2;
	}
	put_at(holds, hold, heap_at);
}

static void sink(struct wr_lease_holds *holds, struct wr_lease_hold *hold)
{
	uint32_t heap_at = hold->heap_at;

	for (;;) {
		uint32_t child = 2 * heap_at + 1;

		if (child + 1 < holds->count &&
		    holds->heap[child + 1]->check_ns < holds->heap[child]->check_ns)
			child++;
		if (child >= holds->count || holds->heap[child]->check_ns >= hold->check_ns)
			break;
		put_at(holds, holds->heap[child], heap_at);
		heap_at = child;
	}
	put_at(holds, hold, heap_at);
}

void wr_lease_hold_check_at(struct wr_lease_holds *holds, struct wr_lease_hold *hold,
			    uint64_t mono_ns)
{
	hold->check_ns = mono_ns;
	rise(holds, hold);
	sink(holds, hold);
}

/* ---- coming and going ---- */

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

static bool grow(struct wr_lease_holds *holds)
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
	struct wr_lease_hold **list = list_of(holds, key, id, id_len);
	struct wr_lease_hold *hold;

	if (!grow_heap(holds) || !grow(holds))
		return NULL;
	hold = holds->free;
	holds->free = hold->next;
	memset(hold, 0, sizeof *hold);
	hold->key[0] = key[0];
	hold->key[1] = key[1];
	hold->id_len = (uint8_t)id_len;
	memcpy(hold->id, id, id_len);
	hold->next = *list;
	*list = hold;
	put_at(holds, hold, holds->count++);
	rise(holds, hold);
	return hold;
}

void wr_lease_hold_remove(struct wr_lease_holds *holds, struct wr_lease_hold *hold)
{
	struct wr_lease_hold **at = list_of(holds, hold->key, hold->id, hold->id_len);
	struct wr_lease_hold *last = holds->heap[--holds->count];

	while (*at != hold)
		at = &(*at)->next;
	*at = hold->next;
	if (last != hold) {
		put_at(holds, last, hold->heap_at);
		wr_lease_hold_check_at(holds, last, last->check_ns);
	}
	hold->next = holds->free;
	holds->free = hold;
}

/* ---- those that were asked for once ---- */

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
