/* Where a node stands in the tree, for people and statistics: "api/route=signup/ip". Bytes that
 * have a meaning here, or none on a screen, are written %2F: two nodes never look alike. */
#ifndef WR_RULES_PATH_TEXT_H
#define WR_RULES_PATH_TEXT_H

#include "rules/rules.h"

/* Returns the length; more than `cap` - 1 means it was cut. `text` ends in a zero if cap > 0. */
size_t wr_path_text(const struct wr_node *node, char *text, size_t cap);

#endif
