/* Which rule a descriptor meets: the semantics of envoyproxy/ratelimit's GetLimit.
 *
 * Entries are walked left to right. At each level the exact (key, value) comes first, then the
 * wildcards in file order, then the key alone; there is no way back up. The rule counts only if it
 * is found at the last entry. Keys and values are compared as two strings, never joined.
 *
 * Cost: three hash lookups a level, plus the wildcards under this very key. Nothing depends on the
 * number of rules, nothing is allocated. */
#ifndef WR_RULES_MATCH_H
#define WR_RULES_MATCH_H

#include "rules/rules.h"

enum wr_outcome {
	WR_NO_RULE,     /* nothing matched: admitted, not counted */
	WR_PASS_NODE,   /* matched a level that has children only: the same */
	WR_WHITELISTED, /* matched a rule without limit or children: the same, on purpose */
	WR_LIMITED,     /* node->limits apply; node->flags says shadow, quota */
	WR_UNLIMITED,   /* matched `unlimited`: limits[0] has its name and replaces */
};

struct wr_match {
	enum wr_outcome outcome;
	const struct wr_node *node; /* NULL: WR_NO_RULE */
	const struct wr_limit *limits;
	size_t limit_count;
};

/* NULL: no such domain. Without one there is no limit, not even an override's. */
const struct wr_node *wr_rules_domain(const struct weir_rules *rules, struct weir_str name);

enum wr_outcome wr_rules_match(const struct weir_rules *rules, const struct wr_node *domain,
			       const struct weir_entry *entries, size_t count,
			       struct wr_match *match);

/* The limit a request brings along. The tree is not consulted and `match` says so (node NULL):
 * no shadow, no quota, no name, no sharing. `unit` is enum wr_unit as it came over the wire.
 * Returns 0 or WEIR_ELIMIT: never trust it. 0 requests per unit is a ban. */
int wr_override_limit(uint32_t requests_per_unit, int unit, struct weir_limit *limit,
		      struct weir_error *error);

/* Whether a rule puts others out of force, or lets a request pass that others refuse. */
static inline bool wr_node_exempts(const struct wr_node *node)
{
	bool exempts = node->flags & WR_QUOTA;

	for (uint8_t i = 0; i < node->limit_count; i++)
		exempts |= node->limits[i].replace_count != 0;
	return exempts;
}

/* Whether any of the `count` matches of one request replaces a limit of this name. */
bool wr_replaced(const struct wr_match *matches, size_t count, struct weir_str name);

/* What a walk looked at, for `weir explain`. */
enum wr_step_kind {
	WR_STEP_EXACT,       /* looked up key and value */
	WR_STEP_WILD,        /* tried a wildcard or address list */
	WR_STEP_ANY,         /* looked up the key alone */
	WR_STEP_PASSED,      /* would have matched, but something before it did */
	WR_STEP_LEVEL_EMPTY, /* the level above has nothing below it */
};

struct wr_step {
	enum wr_step_kind kind;
	bool matched;
	size_t level;               /* index of the entry */
	const struct wr_node *node; /* what was tried, or NULL: there is no such rule */
};

struct wr_tracer {
	void (*step)(void *context, const struct wr_step *step);
	void *context;
};

/* wr_rules_match that tells its steps: the same walk, the same outcome. */
enum wr_outcome wr_rules_explain(const struct weir_rules *rules, const struct wr_node *domain,
				 const struct weir_entry *entries, size_t count,
				 struct wr_match *match, const struct wr_tracer *tracer);

#endif
