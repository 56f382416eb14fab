/* Whose counter it is: the bytes that name a key.
 *
 *   len domain { len key · tag · len value [· len source] }*
 *
 * Lengths are 32 bits, little endian, so no two lists of entries give the same bytes. The tag says
 * what stands for the value: 'v' the request's own (an address matched by a list in its canonical
 * spelling), 'p' the pattern of a rule with share_threshold; a capital: a source follows. An
 * entry with the source WR_AMBIGUOUS_SOURCE has the rule's value: one counter for all of them. The
 * limits on a key are told apart by weir_limit.identity in a table and by wr_limit.id elsewhere. */
#ifndef WR_RULES_KEY_H
#define WR_RULES_KEY_H

#include "base/str.h"
#include "rules/rules.h"

/* The source of an entry whose value is ambiguous, see http.h. */
#define WR_AMBIGUOUS_SOURCE WR_STR("ambiguous")

typedef void (*wr_feed_fn)(void *context, const void *bytes, size_t len);

/* Passes the bytes to `feed` in pieces. `node` is the rule that matched all `count` entries, or
 * NULL for a limit sent with the request. */
void wr_key_feed(const struct wr_node *domain, const struct wr_node *node,
		 const struct weir_entry *entries, size_t count, wr_feed_fn feed, void *context);

/* Writes the bytes that wr_key_feed feeds to the hash into `buf`. Returns their number. If that is
 * more than `cap`, buf holds only the first `cap` bytes, and the caller uses wr_key_feed. */
size_t wr_key_write(const struct wr_node *domain, const struct wr_node *node,
		    const struct weir_entry *entries, size_t count, void *buf, size_t cap);

#endif
