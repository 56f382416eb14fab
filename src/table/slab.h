/* Blocks for the stamps of sliding window logs, from a bounded part of the table.
 *
 * The slab is cut into spans (span.h), a span into blocks of one size class: 64 << class bytes, of
 * which 32 are the header. A block is *taken* by swapping its tenure word, with a generation nobody
 * had before, and belongs to the cell that points to it with that generation. A taken block that no
 * cell points to is one in preparation, or garbage left by a participant that died: after a minute
 * it is garbage. So nothing leaks for good and no list of free blocks can be broken.
 *
 * A live log whose block is taken away is not forgotten: its cell counts on by thirds of the period
 * (brief.h). */
#ifndef WR_TABLE_SLAB_H
#define WR_TABLE_SLAB_H

#include "table/brief.h"
#include "table/table.h"

/* A block and how it is named in a cell: block number 32 · generation 32. 0 names none. */
struct wr_log_block {
	struct wr_block *block;
	uint64_t name;
	uint32_t capacity; /* stamps */
};

#define WR_WEIGHT_ALL 500u /* may have any block that is not of a log that has to stay exact */

/* What is asked of the slab. */
struct wr_slab_wish {
	const struct wr_cell *cell; /* of the log's key */
	uint32_t stamps;            /* at least */
	uint32_t slot;              /* brief.h; 0: the log has to stay exact, and nobody takes its
				       block away while it is live */
	unsigned weight;            /* only logs of keys that weigh less become brief for it */
};

/* Takes a block. Its word is empty, with its generation. Prefers free blocks, then those of keys as
 * good as new, then those of live keys that weigh least. Looks at a bounded number of blocks.
 * False: no room was found. */
bool wr_slab_take(struct weir_table *table, const struct wr_slab_wish *wish, uint64_t now_ns,
		  struct wr_log_block *taken);

/* Gives a block back if it still is of that generation. */
void wr_slab_release(struct weir_table *table, uint64_t name);

/* The block of a name. False when the name is nonsense or the block has gone to someone else. */
bool wr_slab_find(const struct weir_table *table, uint64_t name, struct wr_log_block *found);

/* Largest number of stamps a block of this table holds. */
uint32_t wr_slab_max_stamps(const struct weir_table *table);

/* Bytes in blocks taken for a key. Reads the whole slab's headers. */
uint64_t wr_slab_used(const struct weir_table *table);

/* The word of a block. */
struct wr_log_word {
	uint64_t newest_ns;
	uint32_t head, count, pending;
	bool sealed;
	uint16_t generation;
};

static inline struct wr_log_word wr_log_word_of(struct wr_pair pair)
{
	struct wr_log_word word = {
		.newest_ns = pair.lo,
		.head = (uint32_t)pair.hi & 0xffff,
		.count = (uint32_t)(pair.hi >> 16) & 0xffff,
		.pending = (uint32_t)(pair.hi >> 32) & 0xffff,
		.sealed = pair.hi >> 48 & 1,
		.generation = (uint16_t)(pair.hi >> 49),
	};

	return word;
}

static inline struct wr_pair wr_log_word_pair(struct wr_log_word word)
{
	struct wr_pair pair = {word.newest_ns, word.head | (uint64_t)word.count << 16 |
						       (uint64_t)word.pending << 32 |
						       (uint64_t)word.sealed << 48 |
						       (uint64_t)word.generation << 49};

	return pair;
}

/* Seals the word, if it is still `*word` and of the name's generation: nobody appends any more.
 * *word becomes the sealed one. True also when it was sealed. */
bool wr_log_seal(struct wr_block *block, struct wr_pair *word, uint64_t name);

/* Whether the block is held under the name's generation. */
static inline bool wr_block_is(const struct wr_block *block, uint64_t name)
{
	return __atomic_load_n(&block->tenure.lo, __ATOMIC_ACQUIRE) >> 31 ==
	       ((name & 0xffffffff) << 1 | 1);
}

/* Seals the ring of a key that looks as good as new, before it is forgotten. An append promises the
 * cell more time first, so a promise that the caller does not find afterwards is not made for an
 * admitted request any more. True also when the name has no ring. False: there was an append. */
bool wr_log_retire(struct weir_table *table, uint64_t name);

/* Counts a sealed log by slots, as of now. False when word and ring do not fit each other. */
bool wr_log_brief(const struct wr_log_block *log, struct wr_pair word, uint32_t slot_code,
		  uint64_t now_ns, struct wr_brief *brief);

/* Puts a stamp into a slot on behalf of whoever owns the block while its word is `word`. Safe for
 * helpers of any age: a slot changes only from the value it had while the word was still that.
 * False when the word has changed. */
bool wr_block_put(struct wr_block *block, struct wr_pair word, uint32_t slot, uint64_t stamp_ns);

#endif
