/* A key out of a rule's lists, as it is shown: a client's text, or its hash. */
#ifndef WR_CLI_WATCH_KEY_H
#define WR_CLI_WATCH_KEY_H

#include <jansson.h>
#include <stdbool.h>

#include <weir/stats.h>

#define WR_KEY_COLUMNS 160u /* of a key that is told in full: 64 bytes, escaped */

/* In at most `columns` columns, escaped; several values are parted by " | ", and "#…" is a hash.
 * Returns how many columns it takes. `cap` is at least 4 * columns + 1. */
size_t wr_watch_key_text(const struct weir_top_key *key, size_t columns, bool utf8, char *text,
			 size_t cap);

/* {"values": ["7"], "cut": false, "hash": "…", "count": 12, "over": 0, "noise": 0} */
json_t *wr_watch_key_json(const struct weir_top_key *key);

#endif
