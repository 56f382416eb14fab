/* The numbers of deferred requests by key, in WR_SECTION_DEFERRED.
 *
 * The process that stores deferred requests writes their number for each key, after the requests
 * are stored and before their clients get a response. A decision reads the number. If a key has
 * deferred requests, its new requests are deferred too, so that the requests of the key stay in
 * order. A key is identified by the bytes of weir_deferral.key.
 *
 *   entry, 16 bytes, changed by one compare-and-swap
 *   +--------+---------------------+
 *   |  tag   | count 32 changed 32 |   count 0: free for another key
 *   +--------+---------------------+
 *
 * The tag of a key selects an entry, the key's home. The entry of the key is one of the
 * WR_DEFERRED_NEAR entries from the home on. If other keys use all of these entries, the key has no
 * entry, and its new requests may overtake its deferred requests. */
#ifndef WR_TABLE_DEFERRED_H
#define WR_TABLE_DEFERRED_H

#include "table/table.h"

#define WR_DEFERRED_KEY 16u
/* Number of entries in which the entry of a key can be: eight cache lines. */
#define WR_DEFERRED_NEAR 32u

/* Sets the number of deferred requests of the key. Only one process at a time may call this
 * function for the same key. Returns false if there is no room for an entry. */
bool wr_deferred_set(struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY], uint32_t count,
		     uint32_t now_s);

/* Returns the number of deferred requests of the key, as it was set by the latest call of
 * wr_deferred_set(). Any thread of any process may call this function. */
uint32_t wr_deferred_count(const struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY]);

/* Removes all entries that were set before `before_s`. A process that starts to store requests
 * first sets the number of each key that it finds, and then calls this function. Until then the
 * entries of the previous process stay, so that no new request overtakes a stored request. */
void wr_deferred_sweep(struct weir_table *table, uint32_t before_s);

/* Replaces the entries of `to` by those of `from`. */
void wr_deferred_import(struct weir_table *to, const struct weir_table *from);

#endif
