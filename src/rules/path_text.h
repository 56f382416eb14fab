/* Writes the path of a node in the tree of rules, for people and statistics: "api/route=signup/ip".
 * Bytes that have a meaning in this text, and bytes that a screen does not show, are written as
 * %XX, so that two nodes never have the same text. */
#ifndef WR_RULES_PATH_TEXT_H
#define WR_RULES_PATH_TEXT_H

#include "rules/rules.h"

/* Returns the length of the whole text. If the length is more than `cap` - 1, the text was cut.
 * `text` ends with a zero byte if cap > 0. */
size_t wr_path_text(const struct wr_node *node, char *text, size_t cap);

#endif
