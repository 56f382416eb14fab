/* Checks `cost` and `count` of an entry of `requests:` against the limits that its descriptor can
 * meet. Called by lint_requests.c. */
#ifndef WR_RULES_LINT_COST_H
#define WR_RULES_LINT_COST_H

#include "rules/load.h"
#include "rules/requests.h"

/* The rules that the descriptor of an entry of `requests:` can meet. */
struct wr_lint_reach {
	bool rule;                   /* there is a rule */
	bool limit;                  /* there is a limit */
	bool rate_limit;             /* there is a limit that is not `concurrent` */
	const struct wr_node *leaky; /* a tree node with a leaky bucket, or NULL */
	/* The node whose limits admit the fewest units at once, and that number. NULL and
	 * UINT32_MAX: all costs can be admitted. */
	const struct wr_node *tight;
	uint32_t tight_units;
	uint32_t most_units; /* the number of units that can be admitted at one of the nodes */
};

/* Adds the limits of a tree node. At first, `reach` is zero except for tight_units, which is
 * UINT32_MAX. */
void wr_lint_reach_node(struct wr_lint_reach *reach, const struct wr_node *node);

/* Reports costs that no limit uses, that limits cannot admit, or that cannot be settled. */
void wr_lint_cost(struct wr_load *load, const struct wr_node *domain,
		  const struct wr_rules_request *request, const struct wr_lint_reach *reach);

#endif
