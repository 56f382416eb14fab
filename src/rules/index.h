/* The index of the tree of rules: a hash table in which a tree node is found by its parent, key and
 * value.
 *
 * The hash uses a random secret, so that a client cannot choose values that collide. */
#ifndef WR_RULES_INDEX_H
#define WR_RULES_INDEX_H

#include "base/hash.h"
#include "base/str.h"
#include "rules/rules.h"

_Static_assert(sizeof((struct weir_rules *)NULL)->secret == WR_SECRET_BYTES, "one secret");

static inline uint64_t wr_index_text(const uint8_t *secret, struct weir_str text)
{
	return XXH3_64bits_withSecret(text.ptr, text.len, secret, WR_SECRET_BYTES);
}

/* Combines the hash of a key and the hash of a value with the address of the parent node. The two
 * hashes depend on the secret. The hash of the key, mixed with the address, is multiplied by the
 * hash of the value. The result is the exclusive or of the two halves of the 128-bit product. */
static inline uint64_t wr_index_mix(const struct wr_node *parent, uint64_t key, uint64_t value)
{
	uint64_t parent_hash = (uint64_t)(uintptr_t)parent * 0x9e3779b97f4a7c15u;
	unsigned __int128 product =
		(unsigned __int128)(key ^ parent_hash) * (value ^ 0xd6e8feb86659fd93u);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Used instead of the hash of a value by tree nodes without a value (WR_NODE_ANY) and by lists of
 * wildcards. A value may have the same hash by chance. This does no harm, because wr_index_find()
 * also compares the kinds of the nodes. */
#define WR_INDEX_ANY 0x2545f4914f6cdd1du

static inline const struct wr_node *wr_index_find(const struct wr_index *index, uint64_t hash,
						  const struct wr_node *parent, int kind,
						  struct weir_str key, struct weir_str value)
{
	for (uint64_t at = hash & index->mask; index->slots[at].item; at = (at + 1) & index->mask) {
		const struct wr_node *node = index->slots[at].item;

		if (index->slots[at].hash != hash)
			continue;
		/* Starts to load the value, which follows the node in memory, while the node itself
		 * is being loaded. */
		__builtin_prefetch(node + 1);
		if (node->parent == parent && node->kind == kind && wr_str_equal(node->key, key) &&
		    wr_str_equal(node->value, value))
			return node;
	}
	return NULL;
}

static inline const struct wr_wild *wr_index_find_wild(const struct wr_index *index, uint64_t hash,
						       const struct wr_node *parent,
						       struct weir_str key)
{
	for (uint64_t at = hash & index->mask; index->slots[at].item; at = (at + 1) & index->mask) {
		const struct wr_wild *wild = index->slots[at].item;

		if (index->slots[at].hash == hash && wild->parent == parent &&
		    wr_str_equal(wild->key, key))
			return wild;
	}
	return NULL;
}

/* Puts an item into the index. The caller has made room for it. */
static inline void wr_index_put(struct wr_index *index, uint64_t hash, const void *item)
{
	uint64_t at = hash & index->mask;

	while (index->slots[at].item)
		at = (at + 1) & index->mask;
	index->slots[at] = (struct wr_index_slot){hash, item};
}

static inline uint64_t wr_index_hash_node(const uint8_t *secret, const struct wr_node *node)
{
	uint64_t value =
		node->kind == WR_NODE_ANY ? WR_INDEX_ANY : wr_index_text(secret, node->value);

	return wr_index_mix(node->parent, wr_index_text(secret, node->key), value);
}

#endif
