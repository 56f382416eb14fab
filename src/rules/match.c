/* Finds the rule of a descriptor. The limiter calls wr_rules_match() for each descriptor. */
#include "rules/match.h"

#include "base/address.h"
#include "base/assert.h"
#include "rules/glob.h"
#include "rules/index.h"

#include "base/error.h"

/* One level of matching: an entry of the descriptor, and the tree node `parent`, whose children are
 * compared with the entry. */
struct level {
	const struct weir_rules *rules;
	const struct wr_node *parent;
	const struct weir_entry *entry;
	size_t index;
	uint64_t key_hash;
	const struct wr_tracer *tracer; /* receives each step; NULL: no tracing */
};

static inline void trace_step(const struct level *level, enum wr_rules_step_kind kind,
			      const struct wr_node *node, bool matched)
{
	struct wr_rules_step step = {kind, matched, level->index, node};

	if (level->tracer)
		level->tracer->step(level->tracer->context, &step);
}

const struct wr_node *wr_rules_domain(const struct weir_rules *rules, struct weir_str name)
{
	const struct wr_node *first = rules->first_domain;
	uint64_t key_hash, hash;

	if (first && wr_str_equal(first->key, name)) /* usually there is only one domain */
		return first;
	key_hash = wr_index_text(rules->secret, name);
	hash = wr_index_mix(NULL, key_hash, wr_index_text(rules->secret, WR_STR("")));

	return wr_index_find(&rules->nodes, hash, NULL, WR_NODE_DOMAIN, name, WR_STR(""));
}

static inline const struct wr_node *find_exact(const struct level *level)
{
	uint64_t value_hash, hash;

	if (!(level->parent->flags & WR_HAS_EXACT))
		return NULL;
	value_hash = wr_index_text(level->rules->secret, level->entry->value);
	hash = wr_index_mix(level->parent, level->key_hash, value_hash);
	return wr_index_find(&level->rules->nodes, hash, level->parent, WR_NODE_EXACT,
			     level->entry->key, level->entry->value);
}

static inline const struct wr_node *find_any(const struct level *level)
{
	uint64_t hash = wr_index_mix(level->parent, level->key_hash, WR_INDEX_ANY);

	return wr_index_find(&level->rules->nodes, hash, level->parent, WR_NODE_ANY,
			     level->entry->key, WR_STR(""));
}

static bool wild_matches(const struct wr_node *node, const struct weir_entry *entry)
{
	struct wr_address address;

	if (node->flags & WR_KEY_GLOB && !wr_glob_match(node->key, entry->key))
		return false;
	if (node->kind == WR_NODE_CIDR)
		return wr_address_parse(entry->value, &address) == 0 &&
		       wr_address_ranges_hold(node->more->ranges, &address);
	if (node->flags & WR_KEY_GLOB && node->value.len == 0)
		return true;
	return wr_glob_match(node->value, entry->value);
}

/* Iterates over the wildcards that can match an entry, in file order. Some wildcards have the key
 * of the entry, others have a pattern as their key. */
struct wild_cursor {
	const struct wr_node *const *keyed;
	const struct wr_node *const *globs;
	size_t keyed_left;
	size_t globs_left;
};

static struct wild_cursor wild_start(const struct level *level)
{
	uint64_t hash = wr_index_mix(level->parent, level->key_hash, WR_INDEX_ANY);
	const struct wr_wild *wild =
		wr_index_find_wild(&level->rules->wilds, hash, level->parent, level->entry->key);
	struct wild_cursor cursor = {.globs = level->parent->more->key_globs,
				     .globs_left = level->parent->more->key_glob_count};

	if (wild) {
		cursor.keyed = wild->nodes;
		cursor.keyed_left = wild->count;
	}
	return cursor;
}

static const struct wr_node *wild_next(struct wild_cursor *cursor)
{
	if (cursor->keyed_left && (!cursor->globs_left ||
				   cursor->keyed[0]->more->order < cursor->globs[0]->more->order)) {
		cursor->keyed_left--;
		return *cursor->keyed++;
	}
	if (!cursor->globs_left)
		return NULL;
	cursor->globs_left--;
	return *cursor->globs++;
}

/* Returns the first wildcard that matches, from the cursor on, or NULL. */
static const struct wr_node *find_wild(const struct level *level, struct wild_cursor *cursor)
{
	const struct wr_node *node;

	while ((node = wild_next(cursor))) {
		bool matched = wild_matches(node, level->entry);

		trace_step(level, WR_STEP_WILD, node, matched);
		if (matched)
			return node;
	}
	return NULL;
}

/* Reports to the tracer the rules that would have matched too, but come after the rule that was
 * chosen. */
static void trace_passed(const struct level *level, struct wild_cursor cursor, bool with_any)
{
	const struct wr_node *node;

	while ((node = wild_next(&cursor)))
		if (wild_matches(node, level->entry))
			trace_step(level, WR_STEP_PASSED, node, true);
	node = with_any ? find_any(level) : NULL;
	if (node)
		trace_step(level, WR_STEP_PASSED, node, true);
}

static inline const struct wr_node *match_level(const struct level *level)
{
	bool has_wild = level->parent->flags & WR_HAS_WILD;
	struct wild_cursor cursor = {0};
	const struct wr_node *node = find_exact(level);

	trace_step(level, WR_STEP_EXACT, node, node);
	if (has_wild && (!node || level->tracer))
		cursor = wild_start(level);
	if (!node && has_wild)
		node = find_wild(level, &cursor);
	if (node) {
		if (level->tracer)
			trace_passed(level, cursor, true);
		return node;
	}
	node = find_any(level);
	trace_step(level, WR_STEP_ANY, node, node);
	return node;
}

/* Always inlined: wr_rules_match() passes NULL as tracer, so the compiler removes the tracing
 * there. */
static inline __attribute__((always_inline)) const struct wr_node *
walk(const struct weir_rules *rules, const struct wr_node *node, const struct weir_entry *entries,
     size_t count, const struct wr_tracer *tracer)
{
	for (size_t i = 0; i < count; i++) {
		struct level level = {.rules = rules,
				      .parent = node,
				      .entry = &entries[i],
				      .index = i,
				      .tracer = tracer};

		if (!(node->flags & WR_HAS_CHILDREN)) {
			trace_step(&level, WR_STEP_LEVEL_EMPTY, node, false);
			return NULL;
		}
		level.key_hash = wr_index_text(rules->secret, entries[i].key);
		node = match_level(&level);
		if (!node)
			return NULL;
	}
	return count ? node : NULL;
}

static enum wr_outcome conclude_match(const struct wr_node *node, struct wr_match *match)
{
	*match = (struct wr_match){.outcome = WR_NO_RULE, .node = node};
	if (!node)
		return WR_NO_RULE;
	match->limits = node->limits;
	match->limit_count = node->limit_count;
	if (node->limit_count)
		match->outcome = node->flags & WR_IS_UNLIMITED ? WR_UNLIMITED : WR_LIMITED;
	else
		match->outcome = node->flags & WR_HAS_CHILDREN ? WR_PASS_NODE : WR_WHITELISTED;
	return match->outcome;
}

enum wr_outcome wr_rules_match(const struct weir_rules *rules, const struct wr_node *domain,
			       const struct weir_entry *entries, size_t count,
			       struct wr_match *match)
{
	return conclude_match(walk(rules, domain, entries, count, NULL), match);
}

enum wr_outcome wr_rules_explain(const struct weir_rules *rules, const struct wr_node *domain,
				 const struct weir_entry *entries, size_t count,
				 struct wr_match *match, const struct wr_tracer *tracer)
{
	return conclude_match(walk(rules, domain, entries, count, tracer), match);
}

uint64_t wr_unit_ns(int unit)
{
#define UNIT_NS(name, number, text, s)                                                             \
	if (unit == (number))                                                                      \
		return (s)*1000000000ull;
	WR_UNITS(UNIT_NS)
#undef UNIT_NS
	return 0;
}

uint8_t wr_unit_of(uint64_t period_ns)
{
#define UNIT_OF(name, number, text, s)                                                             \
	if (period_ns == (s)*1000000000ull)                                                        \
		return number;
	WR_UNITS(UNIT_OF)
#undef UNIT_OF
	return 0;
}

int wr_rules_request_limit(uint32_t requests_per_unit, int unit, struct weir_limit *limit,
			   struct weir_error *error)
{
	uint64_t period_ns = wr_unit_ns(unit);

	if (period_ns == 0)
		return wr_error(error, WEIR_ELIMIT,
				"unit %d of a limit override is none of second 1 … week 7", unit);
	*limit = (struct weir_limit){.size = sizeof *limit,
				     .algorithm = WEIR_FIXED_WINDOW,
				     .limit = requests_per_unit,
				     .period_ns = period_ns};
	return weir_limit_check(limit, error);
}

static bool match_replaces(const struct wr_match *match, struct weir_str name)
{
	for (size_t i = 0; i < match->limit_count; i++)
		for (size_t j = 0; j < match->limits[i].replace_count; j++)
			if (wr_str_equal(match->limits[i].replaces[j], name))
				return true;
	return false;
}

bool wr_rules_replaced(const struct wr_match *matches, size_t count, struct weir_str name)
{
	wr_assert(matches || count == 0);
	for (size_t i = 0; name.len && i < count; i++)
		if (match_replaces(&matches[i], name))
			return true;
	return false;
}
