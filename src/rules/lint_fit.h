/* Which tree nodes a key and a value of a descriptor can match. Used by the checks that compare
 * `requests:` with the tree. */
#ifndef WR_RULES_LINT_FIT_H
#define WR_RULES_LINT_FIT_H

#include "base/address.h"
#include "base/str.h"
#include "rules/glob.h"
#include "rules/rules.h"

static inline bool wr_lint_key_fits(const struct wr_node *node, struct weir_str key)
{
	return node->flags & WR_KEY_GLOB ? wr_glob_match(node->key, key)
					 : wr_str_equal(node->key, key);
}

/* Returns whether a wildcard or a node without a value matches this value. */
static inline bool wr_lint_value_fits(const struct wr_node *node, struct weir_str value)
{
	struct wr_address address;

	if (node->kind == WR_NODE_CIDR)
		return wr_address_parse(value, &address) == 0 &&
		       wr_address_ranges_hold(node->more->ranges, &address);
	return node->value.len == 0 || wr_glob_match(node->value, value);
}

#endif
