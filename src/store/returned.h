/* Counts the tokens that are given back to token buckets, in WR_SECTION_RETURNED.
 *
 * A settlement may give back the tokens that a bucket has lacked all the time since they were taken
 * (wr_token_sure() in algo/token.h). The decision of the take tells how many tokens the bucket
 * lacked then. Tokens that other requests have given back since have made this number smaller, so
 * they are counted. Example: 100 requests reserve 100 of 10,000 tokens each, and none of the tokens
 * is used. 90 requests give their tokens back at once, and while the other 10 are in flight, 1,000
 * tokens flow in and fill the bucket. The bucket lacks nothing any more, so the 10 requests give
 * back nothing.
 *
 *   given = wr_returned_read(table, key);                // before the tokens are taken
 *   …                                                    // take
 *   entry = wr_returned_entry(table, key);
 *   others = wr_returned_begin(table, entry, n) - given; // given back since, or being given back
 *   …                                                    // give back
 *   wr_returned_end(entry, n);
 *
 * An entry has two counts. `begun` is raised before tokens are given back, and `ended` afterwards. A
 * reader takes `ended` before the take and `begun` at its settlement, so every give-back that
 * another process does between the two is in the difference, at whatever step it is. Of two
 * settlements at the same time, the one that raises `begun` last counts the other.
 * test/model/returned.pml checks all orders of these steps.
 *
 * Several keys share an entry, because their tags select it. A settlement then counts the give-backs
 * of other keys too, and gives back fewer tokens than it could, never more. The same is so if a
 * process is killed between the two counts. */
#ifndef WR_STORE_RETURNED_H
#define WR_STORE_RETURNED_H

#include "table/table.h"

struct wr_returned {
	uint64_t begun;
	uint64_t ended;
};

/* Returns the entry of the key, or NULL if the table was made by a version without this section. */
static inline struct wr_returned *wr_returned_entry(const struct weir_table *table,
						    struct wr_key key)
{
	struct wr_extent at = table->header.sections[WR_SECTION_RETURNED];
	uint64_t count = at.bytes / sizeof(struct wr_returned);

	if (count == 0)
		return NULL;
	return (struct wr_returned *)(table->base + at.offset) +
	       (uint64_t)((unsigned __int128)key.tag * count >> 64);
}

/* Returns where the counts of a table begin: above 0, and at the time at which the table was made. So
 * counts of different tables differ by more than a settlement gives back, and a count from before
 * the table was replaced permits nothing. */
static inline uint64_t wr_returned_base(const struct weir_table *table)
{
	return table->header.created_ns + 1;
}

/* Returns the count of tokens that were given back before, or 0 if the table has no such counts. */
static inline uint64_t wr_returned_read(const struct weir_table *table, struct wr_key key)
{
	const struct wr_returned *entry = wr_returned_entry(table, key);

	/* Acquire: paired with wr_returned_end(). If this load sees a give-back, the take that
	 * follows finds its tokens in the bucket. */
	return entry ? wr_returned_base(table) + __atomic_load_n(&entry->ended, __ATOMIC_ACQUIRE)
		     : 0;
}

/* Begins to give back n tokens. Returns the count of tokens whose give-back has begun before, to be
 * compared with that of wr_returned_read(). */
static inline uint64_t wr_returned_begin(const struct weir_table *table, struct wr_returned *entry,
					 uint64_t n)
{
	/* Sequentially consistent: of two settlements, one sees the other. */
	return entry ? wr_returned_base(table) +
			       __atomic_fetch_add(&entry->begun, n, __ATOMIC_SEQ_CST)
		     : 0;
}

/* Ends to give back n tokens, the same number as at the begin. */
static inline void wr_returned_end(struct wr_returned *entry, uint64_t n)
{
	if (entry)
		__atomic_fetch_add(&entry->ended, n, __ATOMIC_RELEASE);
}

#endif
