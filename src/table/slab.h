/* Blocks for the stamps of sliding window logs. All blocks are in the slab, a part of the table
 * with a fixed size.
 *
 * The slab is divided into spans (span.h), and a span into blocks of one size class. A block has
 * 64 << class bytes, of which 32 are the header. A thread takes a block by swapping its tenure,
 * with a generation that was never used before. The block belongs to the cell that contains the
 * block's name with this generation. If no cell contains the name of a taken block, a thread is
 * preparing the block, or has died. After a minute such a block can be taken again. So no block is
 * lost for ever, and there is no list of free blocks that could be damaged.
 *
 * A live log whose block is taken away is not lost: its requests are then counted by thirds of the
 * period in the key's cell (brief.h). */
#ifndef WR_TABLE_SLAB_H
#define WR_TABLE_SLAB_H

#include "table/brief.h"
#include "table/table.h"

/* A block with its name. The name consists of the block's number and its generation, 32 bits each.
 * Cells contain the name. A name is never 0. */
struct wr_table_log_block {
	struct wr_block *block;
	uint64_t name;
	uint32_t capacity; /* number of stamps that the block can hold */
};

/* A weight above the weight of any key. If wish->weight has this value, any log can lose its block,
 * except logs that have to stay exact. */
#define WR_WEIGHT_ALL 500u

/* A request for a block. */
struct wr_slab_wish {
	const struct wr_cell *cell; /* the cell of the log's key */
	uint32_t stamps;            /* number of stamps that the block must hold at least */
	/* Length of a third of the period, as a code (brief.h). If it is 0, the log has to stay
	 * exact, and its block is not taken away while the log is live. */
	uint32_t slot;
	/* Only logs of keys with less weight than this can lose a block for this request. */
	unsigned weight;
};

/* Takes a block. Prefers free blocks, then blocks of expired keys, then the block of the live key
 * with the least weight. Looks at a bounded number of blocks. The word of the block then describes
 * an empty ring, and contains the block's generation. Returns false if no block was found. */
bool wr_slab_take(struct weir_table *table, const struct wr_slab_wish *wish, uint64_t now_ns,
		  struct wr_table_log_block *taken);

/* Frees the block with this name, if it still has the generation in the name. */
void wr_slab_release(struct weir_table *table, uint64_t name);

/* Finds the block with this name. Returns false if the name is invalid, or if the block has another
 * generation by now. */
bool wr_slab_find(const struct weir_table *table, uint64_t name, struct wr_table_log_block *found);

/* Returns the largest number of stamps that a block of this table can hold. */
uint32_t wr_slab_max_stamps(const struct weir_table *table);

/* Returns the number of bytes in blocks that keys have taken. Reads the headers of all blocks in
 * the slab. */
uint64_t wr_slab_used(const struct weir_table *table);

/* The fields of a block's word. */
struct wr_table_log_word {
	uint64_t newest_ns;
	uint32_t head, count, pending;
	bool sealed;
	uint16_t generation;
};

static inline struct wr_table_log_word wr_table_log_word_of(struct wr_pair pair)
{
	struct wr_table_log_word word = {
		.newest_ns = pair.lo,
		.head = (uint32_t)pair.hi & 0xffff,
		.count = (uint32_t)(pair.hi >> 16) & 0xffff,
		.pending = (uint32_t)(pair.hi >> 32) & 0xffff,
		.sealed = pair.hi >> 48 & 1,
		.generation = (uint16_t)(pair.hi >> 49),
	};

	return word;
}

static inline struct wr_pair wr_table_log_word_pair(struct wr_table_log_word word)
{
	struct wr_pair pair = {word.newest_ns, word.head | (uint64_t)word.count << 16 |
						       (uint64_t)word.pending << 32 |
						       (uint64_t)word.sealed << 48 |
						       (uint64_t)word.generation << 49};

	return pair;
}

/* Seals the block's word, so that no entry is appended to the ring any more. *word is the word that
 * the caller has read. Returns false if *word has another generation than the name. If *word is
 * sealed already, returns true. Otherwise swaps the sealed word into the block, sets *word to it,
 * and returns true. If the block's word has changed since it was read, this swap fails, and the
 * function returns false. */
bool wr_table_log_seal(struct wr_block *block, struct wr_pair *word, uint64_t name);

/* Returns true if the block is taken and has the generation in the name. */
static inline bool wr_block_is(const struct wr_block *block, uint64_t name)
{
	return __atomic_load_n(&block->tenure.lo, __ATOMIC_ACQUIRE) >> 31 ==
	       ((name & 0xffffffff) << 1 | 1);
}

/* Seals the ring of a key that looks expired, before the key is evicted. An append raises the
 * cell's expiry before it changes the block's word. So if the caller reads the expiry after this
 * call and finds that it was not raised, no append can admit a request any more. Returns false if
 * an append changed the block's word first. Returns true if no ring has this name any more. */
bool wr_table_log_retire(struct weir_table *table, uint64_t name);

/* Makes a brief log from the entries of a sealed ring. `word` is the word of the ring's block.
 * Returns false if the fields of `word` contradict each other or the size of the block. */
bool wr_table_log_brief(const struct wr_table_log_block *log, struct wr_pair word,
			uint32_t slot_code, uint64_t now_ns, struct wr_brief *brief);

/* Writes a stamp into a slot of the block, if the block's word is still `word`. Several threads may
 * write the same stamp, and a slow thread may do so when the slot is already in use for another
 * stamp. So the slot is changed only if it has the value that it had while the block's word was
 * `word`. Returns false if the block's word has changed. */
bool wr_block_put(struct wr_block *block, struct wr_pair word, uint32_t slot, uint64_t stamp_ns);

#endif
