/* Texts of descriptors, for whoever writes a log: an ask forgets them otherwise. */
#ifndef WR_LIMITER_KEEP_H
#define WR_LIMITER_KEEP_H

#include <weir/engine.h>

#define WR_KEPT_TEXT 240u /* of one descriptor; more is cut, and ends with "…" */

/* The texts of descriptors that are added from here on are kept, as far as `cap` bytes of the
 * caller's memory go: "user=7|ip=10.0.0.1". */
void wr_ask_keep(struct weir_ask *ask, char *memory, uint16_t cap);

/* What weir_ask_add calls behind a descriptor. */
void wr_ask_keep_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count);

/* The text of descriptor `at`; empty: none was kept. */
struct weir_str wr_ask_kept(const struct weir_ask *ask, size_t at);

#endif
