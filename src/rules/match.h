/* Finds the rule of a descriptor, in the same way as GetLimit of envoyproxy/ratelimit.
 *
 * Entries are matched left to right. At each level the exact (key, value) comes first, then the
 * wildcards in file order, then the key without value. Matching never backtracks. Only the rule
 * that matches the last entry applies. Keys and values are compared as two strings, never joined.
 *
 * At each level there are three hash lookups, and the wildcards with this key are tried. The time
 * does not depend on the number of other rules, and no memory is allocated. */
#ifndef WR_RULES_MATCH_H
#define WR_RULES_MATCH_H

#include "rules/rules.h"

enum wr_outcome {
	WR_NO_RULE, /* no rule matched: admitted, not counted */
	/* The descriptor matched a tree node that has children but no limits: admitted, not
	 * counted. */
	WR_PASS_NODE,
	/* The descriptor matched a tree node without limits and without children. Rule files exempt
	 * requests in this way: admitted, not counted. */
	WR_WHITELISTED,
	WR_LIMITED, /* the limits of the node apply; node->flags can have WR_SHADOW or WR_QUOTA */
	/* The descriptor matched a rule with `unlimited`. limits[0] contains the name and the
	 * `replaces` of the rule. */
	WR_UNLIMITED,
};

struct wr_match {
	enum wr_outcome outcome;
	const struct wr_node *node; /* the rule that matched; NULL with WR_NO_RULE */
	const struct wr_rules_limit *limits;
	size_t limit_count;
};

/* Finds a domain. Returns NULL if there is no such domain. Then no limit applies, not even a limit
 * that is sent with the request. */
const struct wr_node *wr_rules_domain(const struct weir_rules *rules, struct weir_str name);

enum wr_outcome wr_rules_match(const struct weir_rules *rules, const struct wr_node *domain,
			       const struct weir_entry *entries, size_t count,
			       struct wr_match *match);

/* Makes the limit that was sent with a request. The rules are not used, so there is no shadow mode,
 * quota mode, name or share_threshold. `unit` is the enum wr_unit that was received. Returns 0, or
 * WEIR_ELIMIT if the numbers cannot be used. A limit of 0 requests per unit refuses every
 * request. */
int wr_rules_request_limit(uint32_t requests_per_unit, int unit, struct weir_limit *limit,
			   struct weir_error *error);

/* Returns whether a rule can admit a request that other rules would refuse. A rule with `replaces`
 * can, because it replaces limits of other rules. A quota can, because a request is refused only if
 * all of its quotas are used up. */
static inline bool wr_node_exempts(const struct wr_node *node)
{
	bool exempts = node->flags & WR_QUOTA;

	for (uint8_t i = 0; i < node->limit_count; i++)
		exempts |= node->limits[i].replace_count != 0;
	return exempts;
}

/* Returns whether any of the `count` matches of one request replaces the limits with this name. */
bool wr_rules_replaced(const struct wr_match *matches, size_t count, struct weir_str name);

/* The steps of matching a descriptor, for `weir explain`. */
enum wr_rules_step_kind {
	WR_STEP_EXACT,       /* looked up the key with the value */
	WR_STEP_WILD,        /* tried a wildcard: a pattern or a list of addresses */
	WR_STEP_ANY,         /* looked up the key without value */
	WR_STEP_PASSED,      /* the rule would have matched, but an earlier rule was chosen */
	WR_STEP_LEVEL_EMPTY, /* the rule that matched the previous entry has no children */
};

struct wr_rules_step {
	enum wr_rules_step_kind kind;
	bool matched;
	size_t level;               /* index of the entry in the descriptor */
	const struct wr_node *node; /* the rule that was tried; NULL if there is no such rule */
};

struct wr_tracer {
	void (*step)(void *context, const struct wr_rules_step *step);
	void *context;
};

/* Does the same as wr_rules_match(), and also reports each step. */
enum wr_outcome wr_rules_explain(const struct weir_rules *rules, const struct wr_node *domain,
				 const struct weir_entry *entries, size_t count,
				 struct wr_match *match, const struct wr_tracer *tracer);

#endif
