/* Formats a key from a rule's lists of top keys: the client's text, or the hash of the key. */
#ifndef WR_CLI_WATCH_KEY_H
#define WR_CLI_WATCH_KEY_H

#include <jansson.h>
#include <stdbool.h>

#include <weir/stats.h>

#define WR_KEY_COLUMNS 160u /* columns that a whole key needs: 64 bytes, escaped */

/* Writes the key in at most `columns` columns, escaped. Values are separated by " | "; a hash is
 * written as "#…". Returns the number of columns. `cap` must be at least 4 * columns + 1. */
size_t wr_cli_watch_key_text(const struct weir_top_key *key, size_t columns, bool utf8, char *text,
			     size_t cap);

/* Returns {"values": ["7"], "cut": false, "hash": "…", "count": 12, "over": 0, "noise": 0}. */
json_t *wr_cli_watch_key_json(const struct weir_top_key *key);

#endif
