/* For each key, the number of its deferred requests, in WR_SECTION_DEFERRED.
 *
 * The process that stores deferred requests writes their number for each key, after the requests
 * are stored and before their clients get a response. A decision reads the number. If a key has
 * deferred requests, its new requests are deferred too, so that the requests of the key stay in
 * order. A key is identified by the bytes of weir_deferral.key.
 *
 *   entry, 16 bytes, changed by one compare-and-swap; fields with numbers of bits
 *   +--------+---------------------+
 *   |  tag   | count 32 changed 32 |   count    deferred requests; 0: free for another key
 *   +--------+---------------------+   changed  time when the count was set, in seconds
 *
 * The entry of a key is one of WR_DEFERRED_NEAR consecutive entries; the tag of the key selects the
 * first of them. If other keys use all of these entries, the key has no entry, and its new requests
 * may overtake its deferred requests. */
#ifndef WR_TABLE_DEFERRED_H
#define WR_TABLE_DEFERRED_H

#include "table/table.h"

#define WR_DEFERRED_KEY 16u
/* The entry of a key is one of this many consecutive entries, which take 512 bytes. */
#define WR_DEFERRED_NEAR 32u

/* Sets the number of deferred requests of the key. Only one process at a time may call this
 * function for the same key. Returns false if there is no room for an entry. */
bool wr_deferred_set(struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY], uint32_t count,
		     uint32_t now_s);

/* Returns the number of deferred requests of the key, as it was set by the latest call of
 * wr_deferred_set(). Any thread of any process may call this function. */
uint32_t wr_deferred_count(const struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY]);

/* Removes all entries that were set before the time `before_s`. When a process starts to store
 * deferred requests, it first sets the number of each key that already has deferred requests, and
 * then calls this function. Until then the entries of the previous process stay, so that no new
 * request overtakes a deferred request. */
void wr_deferred_sweep(struct weir_table *table, uint32_t before_s);

/* Replaces the entries of `to` by those of `from`. */
void wr_deferred_import(struct weir_table *to, const struct weir_table *from);

#endif
