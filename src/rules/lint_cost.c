/* Checks `cost` and `count` against the limits that apply; see lint_cost.h. */
#include "rules/lint_cost.h"

/* Returns the largest cost that all limits of a tree node can admit. It is 0 if a limit refuses all
 * requests, whatever their cost. */
static uint32_t units_at(const struct wr_node *node)
{
	uint32_t units = UINT32_MAX;

	for (uint8_t i = 0; i < node->limit_count; i++) {
		const struct weir_limit *l = &node->limits[i].limit;

		if (!node->limits[i].unlimited && l->algorithm != WEIR_CONCURRENT &&
		    l->ceiling < units)
			units = l->ceiling;
	}
	return node->flags & WR_SHADOW ? UINT32_MAX : units;
}

void wr_lint_reach_node(struct wr_lint_reach *reach, const struct wr_node *node)
{
	uint32_t units = units_at(node);

	for (uint8_t i = 0; i < node->limit_count; i++) {
		const struct wr_rules_limit *l = &node->limits[i];

		if (l->limit.algorithm == WEIR_LEAKY_BUCKET && !reach->leaky)
			reach->leaky = node;
		reach->rate_limit |= !l->unlimited && l->limit.algorithm != WEIR_CONCURRENT;
	}
	if (units && units < reach->tight_units) {
		reach->tight_units = units;
		reach->tight = node;
	}
	if (units > reach->most_units)
		reach->most_units = units;
}

static const char *location_of(struct wr_load *load, const struct wr_node *node)
{
	return wr_load_print(load, &load->tree, "%s:%u", node->more->file, node->more->line);
}

/* Reports an entry of `requests:` whose requests have to be settled, but can meet a leaky
 * bucket. */
static void check_settling(struct wr_load *load, const struct wr_rules_request *r,
			   const struct wr_lint_reach *reach)
{
	struct weir_str key = r->cost && r->cost->settles ? WR_STR("actual") : WR_STR("count");

	if (reach->leaky && (r->count || (r->cost && r->cost->settles)))
		wr_rules_report_at(load, WR_D_settles_leaky, r->file, r->line, r->column,
				   WR_ARGS(key, wr_str(location_of(load, reach->leaky)), key));
}

static struct weir_str units_text(struct wr_load *load, int64_t units)
{
	return wr_str(wr_load_print(load, &load->tree, "%lld unit%s", (long long)units,
				    units == 1 ? "" : "s"));
}

/* Warns about a cost that a limit can never admit. `default` and plain numbers have to fit each
 * limit that the descriptor can meet. `max` has to fit only one of them: a client with a smaller
 * limit is meant to be refused. */
static void check_size(struct wr_load *load, const struct wr_rules_request *r,
		       const struct wr_lint_reach *reach)
{
	const struct wr_rules_cost_source *arrival = &r->cost->arrival;
	struct weir_str key = r->cost->settles ? WR_STR("reserve") : WR_STR("cost");
	int64_t units = arrival->otherwise;

	if (!reach->tight)
		return;
	if (arrival->from != WR_COST_NUMBER) {
		bool fits = units <= reach->tight_units;

		key = fits ? WR_STR("max") : WR_STR("default");
		if (fits && (arrival->max == WR_COST_MAX || arrival->max <= reach->most_units))
			return;
		units = fits ? arrival->max : units;
	}
	if (units > reach->tight_units)
		wr_rules_report_at(load, WR_D_cost_too_large, r->file, r->line, r->column,
				   WR_ARGS(key, wr_rules_number_text(load, (uint64_t)units),
					   wr_str(location_of(load, reach->tight)),
					   units_text(load, reach->tight_units), key));
}

void wr_lint_cost(struct wr_load *load, const struct wr_node *domain,
		  const struct wr_rules_request *r, const struct wr_lint_reach *reach)
{
	struct weir_str key = r->cost ? WR_STR("cost") : WR_STR("count");

	if (!r->cost && !r->count)
		return;
	check_settling(load, r, reach);
	/* Warnings are left out if not all nodes were visited. */
	if (load->lint_steps >= load->bounds.lint_steps)
		return;
	if (reach->rule && !reach->limit)
		wr_rules_report_at(load, WR_D_idle_cost, r->file, r->line, r->column,
				   WR_ARGS(key, domain->key));
	if (reach->limit && !reach->rate_limit)
		wr_rules_report_at(load, WR_D_cost_of_slots, r->file, r->line, r->column,
				   WR_ARGS(key));
	if (r->cost)
		check_size(load, r, reach);
}
