/* Which keys have requests put off for later: WR_SECTION_DEFERRED.
 *
 * Whoever keeps such requests notes how many there are of a key, once they are safely kept and
 * before anyone is told so; whoever decides looks whether there are any, and puts new requests of
 * the key behind them. A key is named by the bytes of weir_deferral.key.
 *
 *   entry, 16 bytes, changed by one compare-and-swap
 *   +--------+---------------------+
 *   |  tag   | count 32 changed 32 |   count 0: free for another key
 *   +--------+---------------------+
 *
 * A key's entry is one of a few neighbours of its home. When others have them all, the key is not
 * noted, and its new requests may come before those that were kept. */
#ifndef WR_TABLE_DEFERRED_H
#define WR_TABLE_DEFERRED_H

#include "table/table.h"

#define WR_DEFERRED_KEY 16u
#define WR_DEFERRED_NEAR 32u /* entries looked at: eight cache lines */

/* `count` requests of the key are kept from now on. One process at a time says so of a key. False:
 * there is no room for it. */
bool wr_deferred_set(struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY], uint32_t count,
		     uint32_t now_s);

/* How many were said to be kept. Any process, any time. */
uint32_t wr_deferred_count(const struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY]);

/* Forgets what was said before a time: for whoever begins to keep requests, after he has said what
 * he found. Until then what somebody before him said holds, so that nobody overtakes what he keeps.
 */
void wr_deferred_sweep(struct weir_table *table, uint32_t before_s);

/* Makes `to` say what `from` does, and nothing else. */
void wr_deferred_import(struct weir_table *to, const struct weir_table *from);

#endif
