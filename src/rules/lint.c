/* Warns about rules that envoyproxy/ratelimit accepts but that have no effect. The check
 * needs the rules of all files, so it runs after all files have been read. */
#include "rules/load.h"

#include "base/assert.h"
#include "rules/glob.h"

/* Returns whether a request that matches `later` always matches `earlier` too. `earlier` is a rule
 * that comes before `later`. */
static bool rule_covers(const struct wr_node *earlier, const struct wr_node *later)
{
	if (earlier->kind != WR_NODE_GLOB || !wr_glob_covers(earlier->key, later->key))
		return false;
	if (earlier->value.len == 0)
		return true; /* without a value, only the key is a pattern, and any value matches */
	if (later->kind == WR_NODE_GLOB && later->value.len)
		return wr_glob_covers(earlier->value, later->value);
	return wr_str_equal(earlier->value, WR_STR("*"));
}

/* Warns if `later` can never be reached. Exact values match first, so only wildcards and a key
 * without value can be unreachable. A key without value is matched after all wildcards. */
static void check_reach(struct wr_load *load, const struct wr_node *later)
{
	const struct wr_node *earlier = later->parent->more->first_child;

	for (; earlier; earlier = earlier->more->next) {
		if ((earlier == later && wr_node_is_wild(later)) || !wr_lint_step(load))
			return;
		if (!wr_node_is_wild(earlier) || !rule_covers(earlier, later))
			continue;
		wr_rules_report_node(
			load, WR_D_unreachable_rule, later,
			WR_ARGS(earlier->value.len ? earlier->value : WR_STR("*"),
				wr_str(wr_load_print(load, &load->tree, "%s:%u",
						     earlier->more->file, earlier->more->line))));
		return;
	}
}

static bool has_limit(const struct wr_node *node)
{
	if (node->limit_count)
		return true;
	for (const struct wr_node *child = node->more->first_child; child;
	     child = child->more->next)
		if (has_limit(child))
			return true;
	return false;
}

static bool has_name(struct wr_load *load, const struct wr_node *node, struct weir_str name)
{
	for (uint32_t i = 0; i < node->limit_count; i++)
		if (wr_str_equal(node->limits[i].name, name))
			return true;
	for (const struct wr_node *child = node->more->first_child; child;
	     child = child->more->next)
		if (!wr_lint_step(load) || has_name(load, child, name))
			return true;
	return false;
}

static void check_replaces(struct wr_load *load, const struct wr_node *domain,
			   const struct wr_node *node)
{
	for (uint32_t i = 0; i < node->limit_count; i++)
		for (uint32_t r = 0; r < node->limits[i].replace_count; r++)
			if (!has_name(load, domain, node->limits[i].replaces[r]))
				wr_rules_report_node(
					load, WR_D_replaces_nothing, node,
					WR_ARGS(domain->key, node->limits[i].replaces[r]));
}

static void check_below(struct wr_load *load, const struct wr_node *domain,
			const struct wr_node *parent)
{
	for (const struct wr_node *node = parent->more->first_child; node;
	     node = node->more->next) {
		if (parent->flags & WR_HAS_WILD && node->kind != WR_NODE_EXACT)
			check_reach(load, node);
		if (node->flags & WR_SHARE && !has_limit(node))
			wr_rules_report_node(load, WR_D_idle_share, node, NULL);
		check_replaces(load, domain, node);
		check_below(load, domain, node);
	}
}

void wr_lint(struct wr_load *load)
{
	wr_assert(load->rules);
	for (struct wr_node *domain = load->rules->first_domain; domain;
	     domain = domain->more->next) {
		if (!domain->more->first_child)
			wr_rules_report_node(load, WR_D_no_descriptors, domain,
					     WR_ARGS(domain->key));
		check_below(load, domain, domain);
		if (domain->more->requests)
			wr_lint_requests(load, domain);
		wr_lint_bans(load, domain);
	}
}
