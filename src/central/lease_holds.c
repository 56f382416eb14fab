/* The collection of leases: a hash table by counter, and a heap by the time of the next check.
 * Called by lease.c and lease_renew.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "central/inner.h"

static bool is_checked_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return wr_container_of(a, const struct wr_central_lease_hold, node)->check_ns <
	       wr_container_of(b, const struct wr_central_lease_hold, node)->check_ns;
}

struct wr_central_lease_holds *wr_central_lease_holds_new(void)
{
	struct wr_central_lease_holds *holds = calloc(1, sizeof *holds);

	if (holds)
		wr_heap_init(&holds->heap, is_checked_before, WR_LEASE_HOLDS_MAX);
	return holds;
}

void wr_central_lease_holds_free(struct wr_central_lease_holds *holds)
{
	if (!holds)
		return;
	wr_heap_free(&holds->heap);
	wr_central_pool_free(&holds->pool);
	free(holds);
}

/* ---- the hash table by counter ---- */

static struct wr_central_lease_hold **hold_chain(const struct wr_central_lease_holds *holds,
						 const uint64_t key[2], const char *id,
						 size_t id_len)
{
	uint64_t hash = XXH3_64bits_withSeed(id, id_len, key[0] ^ key[1]);

	return (struct wr_central_lease_hold **)&holds->lists[hash % WR_LEASE_HOLD_LISTS];
}

struct wr_central_lease_hold *wr_central_lease_hold_find(const struct wr_central_lease_holds *holds,
							 const uint64_t key[2], const char *id,
							 size_t id_len)
{
	struct wr_central_lease_hold *hold = *hold_chain(holds, key, id, id_len);

	wr_assert(id_len <= WR_QUESTION_ID);
	while (hold && (!wr_central_same_key(hold->key, key) || hold->id_len != id_len ||
			memcmp(hold->id, id, id_len) != 0))
		hold = hold->next;
	return hold;
}

/* ---- adding, checking and removing ---- */

struct wr_central_lease_hold *wr_central_lease_hold_add(struct wr_central_lease_holds *holds,
							const uint64_t key[2], const char *id,
							size_t id_len)
{
	struct wr_central_lease_hold **list = hold_chain(holds, key, id, id_len);
	struct wr_central_lease_hold *hold =
		wr_central_pool_take(&holds->pool, sizeof *hold, WR_LEASE_HOLDS_MAX);

	wr_assert(id_len <= WR_QUESTION_ID);
	if (!hold)
		return NULL;
	*hold = (struct wr_central_lease_hold){.magic = WR_LEASE_HOLD_MAGIC,
					       .next = *list,
					       .key = {key[0], key[1]},
					       .id_len = (uint8_t)id_len};
	memcpy(hold->id, id, id_len);
	if (!wr_heap_add(&holds->heap, &hold->node)) {
		wr_central_pool_give(&holds->pool, hold);
		return NULL;
	}
	*list = hold;
	return hold;
}

void wr_central_lease_hold_check_at(struct wr_central_lease_holds *holds,
				    struct wr_central_lease_hold *hold, uint64_t mono_ns)
{
	wr_assert_magic(hold, WR_LEASE_HOLD_MAGIC);
	hold->check_ns = mono_ns;
	wr_heap_update(&holds->heap, &hold->node);
}

void wr_central_lease_hold_remove(struct wr_central_lease_holds *holds,
				  struct wr_central_lease_hold *hold)
{
	struct wr_central_lease_hold **at = hold_chain(holds, hold->key, hold->id, hold->id_len);

	wr_assert(hold->magic == WR_LEASE_HOLD_MAGIC);
	while (*at != hold)
		at = &(*at)->next;
	*at = hold->next;
	wr_heap_remove(&holds->heap, &hold->node);
	hold->magic = 0;
	wr_central_pool_give(&holds->pool, hold);
}

/* ---- counters that were asked for once ---- */

bool wr_central_lease_hold_was_seen(struct wr_central_lease_holds *holds, const uint64_t key[2],
				    uint64_t identity, uint64_t mono_ns, uint64_t ttl_ns)
{
	uint64_t mixed = key[0] ^ key[1] * 0x9e3779b97f4a7c15u ^ identity;
	struct wr_central_lease_hold_seen *seen = &holds->seen[mixed % WR_LEASE_HOLD_SEEN];
	struct wr_central_lease_hold_seen now = {(uint32_t)(mixed >> 32) | 1,
						 (uint32_t)(mono_ns / WR_MS_NS)};
	bool was = seen->print == now.print && now.at_ms - seen->at_ms <= ttl_ns / WR_MS_NS;

	*seen = now;
	return was;
}
