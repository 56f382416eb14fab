/* Slots and blocks of text that are used again and again. */
#include "lab/log/pool.h"

#include <stdlib.h>

#include <weir/error.h>

#include "base/assert.h"

#define SLAB_SLOTS 256u

/* Slots are allocated together, so that records that follow each other are near each other. */
struct wr_lab_slab {
	struct wr_lab_slab *next;
	struct wr_lab_slot slots[SLAB_SLOTS];
};

/* Allocates all blocks. The kernel provides the memory of a block when it is used. Most logs use a
 * few blocks only. */
int wr_lab_pool_init(struct wr_lab_pool *pool)
{
	*pool = (struct wr_lab_pool){.memory = malloc(WR_LAB_TEXTS * sizeof *pool->memory)};
	if (!pool->memory)
		return WEIR_EMEMORY;
	for (uint32_t i = 0; i < WR_LAB_TEXTS; i++) {
		struct wr_lab_text *text = &pool->memory[i];

		text->refs = text->held = 0;
		text->index = i;
		text->next = pool->texts;
		pool->texts = text;
	}
	return 0;
}

void wr_lab_pool_free(struct wr_lab_pool *pool)
{
	struct wr_lab_slab *slab;

	while ((slab = pool->slabs) != NULL) {
		pool->slabs = slab->next;
		for (size_t i = 0; i < SLAB_SLOTS; i++)
			wr_lab_slot_free(&slab->slots[i]);
		free(slab);
	}
	free(pool->memory);
}

/* ---- slots ---- */

void wr_lab_pool_give(struct wr_lab_pool *pool, struct wr_lab_slot *slot)
{
	slot->next = pool->slots;
	pool->slots = slot;
}

void wr_lab_pool_give_chain(struct wr_lab_pool *pool, const struct wr_lab_chain *chain)
{
	if (!chain->head)
		return;
	chain->tail->next = pool->slots;
	pool->slots = chain->head;
}

static bool add_slab(struct wr_lab_pool *pool)
{
	struct wr_lab_slab *slab = calloc(1, sizeof *slab);

	if (!slab)
		return false;
	slab->next = pool->slabs;
	pool->slabs = slab;
	for (size_t i = SLAB_SLOTS; i-- > 0;)
		wr_lab_pool_give(pool, &slab->slots[i]);
	return true;
}

/* Another thread has used the slot before. Fetches the part that every line writes. */
static void prefetch(const struct wr_lab_slot *slot)
{
	const char *bytes = (const char *)slot;

	for (size_t i = 0; i < 5; i++)
		__builtin_prefetch(bytes + 64 * i, 1);
}

struct wr_lab_slot *wr_lab_pool_slot(struct wr_lab_pool *pool)
{
	struct wr_lab_slot *slot;

	if (!pool->slots && !add_slab(pool))
		return NULL;
	slot = pool->slots;
	pool->slots = slot->next;
	prefetch(pool->slots);
	return slot;
}

/* ---- blocks of text ---- */

struct wr_lab_text *wr_lab_pool_text(struct wr_lab_pool *pool)
{
	struct wr_lab_text *text = pool->texts;

	if (!text)
		return NULL;
	pool->texts = text->next;
	text->refs = 1;
	return text;
}

void wr_lab_pool_drop(struct wr_lab_pool *pool, struct wr_lab_text *text, uint32_t refs)
{
	wr_assert(text->refs >= refs);
	text->refs -= refs;
	if (text->refs)
		return;
	text->next = pool->texts;
	pool->texts = text;
}
