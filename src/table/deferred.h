/* Which keys have deferred requests: WR_SECTION_DEFERRED.
 *
 * The process that stores deferred requests writes their number for each key. It does so after the
 * requests are stored and before their clients get a response. A decision reads the number, and
 * defers new requests of a key that has some, so that they stay in order. A key is named by the
 * bytes of weir_deferral.key.
 *
 *   entry, 16 bytes, changed by one compare-and-swap
 *   +--------+---------------------+
 *   |  tag   | count 32 changed 32 |   count 0: free for another key
 *   +--------+---------------------+
 *
 * A key's entry is one of a few neighbours of its home. If other keys have them all, the key has no
 * entry, and its new requests may overtake its deferred ones. */
#ifndef WR_TABLE_DEFERRED_H
#define WR_TABLE_DEFERRED_H

#include "table/table.h"

#define WR_DEFERRED_KEY 16u
#define WR_DEFERRED_NEAR 32u /* entries looked at: eight cache lines */

/* Sets the number of deferred requests of the key. Only one process at a time may call it for a
 * key. Returns false if there is no entry for it. */
bool wr_deferred_set(struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY], uint32_t count,
		     uint32_t now_s);

/* Returns the number that was set last. Any thread of any process may call it. */
uint32_t wr_deferred_count(const struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY]);

/* Removes all entries that were set before a time. A process that starts to store requests calls it
 * after it has set the number of each key it found. Until then the entries of the process before it
 * hold, so that no request overtakes a stored one. */
void wr_deferred_sweep(struct weir_table *table, uint32_t before_s);

/* Makes the entries of `to` those of `from`. */
void wr_deferred_import(struct weir_table *to, const struct weir_table *from);

#endif
