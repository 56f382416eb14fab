/* The key of a counter says whose requests are counted. These are the bytes of such a key: first
 * the name of the domain, then for each entry of the descriptor the entry's own key, a letter, the
 * entry's value and, if the letter is V, its source. The length of each text stands before the
 * text, in 32 bits, little endian, so that no two lists of entries give the same bytes. The letter
 * says what the value is:
 *
 *   v  the value in the request; an address that matched a list of addresses is in its canonical
 *      spelling
 *   p  the pattern of a rule with share_threshold
 *   V  as for v, and the source of the value follows. But if the source is WR_AMBIGUOUS_SOURCE, the
 *      value is that of the rule, so that all values of the entry have one counter
 *
 * Several limits on one key are distinguished by weir_limit.identity in a table, and by
 * wr_rules_limit.id in Redis. */
#ifndef WR_RULES_KEY_H
#define WR_RULES_KEY_H

#include "base/str.h"
#include "rules/rules.h"

/* The source of an entry whose value is ambiguous (http.h). */
#define WR_AMBIGUOUS_SOURCE WR_STR("ambiguous")

typedef void (*wr_feed_fn)(void *context, const void *bytes, size_t len);

/* Passes the bytes of a key to `feed` in pieces. `node` is the rule that matched all `count`
 * entries, or NULL for a limit that was sent with the request. */
void wr_rules_key_feed(const struct wr_node *domain, const struct wr_node *node,
		       const struct weir_entry *entries, size_t count, wr_feed_fn feed,
		       void *context);

/* Writes the bytes of wr_rules_key_feed() into `buf`. Returns their number. If the number is more
 * than `cap`, buf holds only the first `cap` bytes, and the caller has to use wr_rules_key_feed().
 * */
size_t wr_rules_key_write(const struct wr_node *domain, const struct wr_node *node,
			  const struct weir_entry *entries, size_t count, void *buf, size_t cap);

#endif
