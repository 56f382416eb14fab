/* Blocks for the stamps of sliding window logs, from a bounded part of the table.
 *
 * The slab is cut into spans (span.h), and a span into blocks of one size class: 64 << class bytes,
 * of which 32 are the header. A participant takes a block by swapping its tenure, with a generation
 * that was never used before. The block belongs to the cell that points to it with that generation.
 * A taken block that no cell points to is in preparation, or garbage of a participant that died:
 * after a minute it is garbage. So no block is lost for good, and there is no list of free blocks
 * that could be broken.
 *
 * A live log whose block is taken away is not lost: its cell counts on by thirds of the period
 * (brief.h). */
#ifndef WR_TABLE_SLAB_H
#define WR_TABLE_SLAB_H

#include "table/brief.h"
#include "table/table.h"

/* A block and its name in a cell: block number 32 · generation 32. 0 is no name. */
struct wr_log_block {
	struct wr_block *block;
	uint64_t name;
	uint32_t capacity; /* stamps */
};

#define WR_WEIGHT_ALL 500u /* any block, except that of a log that has to stay exact */

/* A request for a block. */
struct wr_slab_wish {
	const struct wr_cell *cell; /* the cell of the log's key */
	uint32_t stamps;            /* at least */
	uint32_t slot;   /* brief.h; 0: the log has to stay exact, and its block is not taken away
			    while it is live */
	unsigned weight; /* only logs of keys that weigh less become brief for it */
};

/* Takes a block. Its word is empty and has its generation. Prefers free blocks, then those of
 * expired keys, then those of live keys with the least weight. Looks at a bounded number of blocks.
 * Returns false if it found no room. */
bool wr_slab_take(struct weir_table *table, const struct wr_slab_wish *wish, uint64_t now_ns,
		  struct wr_log_block *taken);

/* Frees a block if it still has that generation. */
void wr_slab_release(struct weir_table *table, uint64_t name);

/* Finds the block of a name. Returns false if the name is invalid or the block has another owner.
 */
bool wr_slab_find(const struct weir_table *table, uint64_t name, struct wr_log_block *found);

/* The largest number of stamps that a block of this table holds. */
uint32_t wr_slab_max_stamps(const struct weir_table *table);

/* Bytes in blocks taken for a key. Reads all headers of the slab. */
uint64_t wr_slab_used(const struct weir_table *table);

/* The fields of a block's word. */
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

/* Seals the word if it is still `*word` and has the name's generation, so that no entry is appended
 * any more. *word becomes the sealed one. Returns true also if it was sealed already. */
bool wr_log_seal(struct wr_block *block, struct wr_pair *word, uint64_t name);

/* Whether the block is held under the name's generation. */
static inline bool wr_block_is(const struct wr_block *block, uint64_t name)
{
	return __atomic_load_n(&block->tenure.lo, __ATOMIC_ACQUIRE) >> 31 ==
	       ((name & 0xffffffff) << 1 | 1);
}

/* Seals the ring of a key that looks expired, before the key is evicted. An append raises the
 * cell's expiry first. So if the caller does not find a raised expiry afterwards, no later append
 * admits a request. Returns true also if the name has no ring, and false if there was an append. */
bool wr_log_retire(struct weir_table *table, uint64_t name);

/* Counts a sealed log by slots, as of now. Returns false if word and ring are inconsistent. */
bool wr_log_brief(const struct wr_log_block *log, struct wr_pair word, uint32_t slot_code,
		  uint64_t now_ns, struct wr_brief *brief);

/* Writes a stamp into a slot for the owner of the block, while its word is `word`. Helpers may be
 * late: a slot changes only from the value that it had while the word was still the same. Returns
 * false if the word has changed. */
bool wr_block_put(struct wr_block *block, struct wr_pair word, uint32_t slot, uint64_t stamp_ns);

#endif
