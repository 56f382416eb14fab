/* Searches the rules for weir explain and POST /v1/explain; see explain_find.h. */
#include "serve/admin/explain_find.h"

#include <stdlib.h>

#include "base/assert.h"

int wr_explain_init(struct wr_explain *explain, const struct weir_rules *rules,
		    struct weir_str domain)
{
	*explain = (struct wr_explain){.domain_name = domain,
				       .domain = wr_rules_domain(rules, domain),
				       .walks = calloc(WR_DESCRIPTORS_MAX, sizeof *explain->walks),
				       .memory = malloc(WR_EXPLAIN_MEMORY)};
	if (explain->walks && explain->memory)
		return 0;
	wr_explain_free(explain);
	return WEIR_EMEMORY;
}

void wr_explain_free(struct wr_explain *explain)
{
	free(explain->walks);
	free(explain->memory);
}

static void record_step(void *context, const struct wr_rules_step *step)
{
	struct wr_explain_walk *walk = context;

	if (walk->step_count < WR_EXPLAIN_STEPS_MAX)
		walk->steps[walk->step_count++] = *step;
	else
		walk->steps_left_out++;
}

static void walk_descriptor(struct wr_explain *explain, const struct weir_rules *rules,
			    const struct wr_rules_descriptor *made)
{
	struct wr_explain_walk *walk = &explain->walks[explain->walk_count++];
	struct wr_tracer tracer = {record_step, walk};

	wr_assert(explain->walk_count <= WR_DESCRIPTORS_MAX);
	walk->entries = made->entries;
	walk->count = made->count;
	walk->request = made->request;
	walk->certain = made->certain;
	walk->cost = made->cost;
	walk->cost_note = made->cost_note;
	wr_rules_explain(rules, explain->domain, made->entries, made->count, &walk->match, &tracer);
}

void wr_explain_descriptor(struct wr_explain *explain, const struct weir_rules *rules,
			   const struct weir_entry *entries, size_t count)
{
	struct wr_rules_descriptor descriptor = {
		.entries = entries, .count = (uint32_t)count, .cost = 1, .certain = true};

	wr_assert(entries || count == 0);
	if (explain->domain)
		walk_descriptor(explain, rules, &descriptor);
}

int wr_explain_http(struct wr_explain *explain, const struct weir_rules *rules,
		    const struct weir_http_view *view, const char *line)
{
	struct wr_rules_http *http = &explain->result;
	int rc;

	explain->http = line;
	if (!explain->domain)
		return 0;
	rc = wr_rules_http_read(explain->domain, view, explain->memory, WR_EXPLAIN_MEMORY, http);
	for (uint32_t i = 0; rc == 0 && i < http->count; i++)
		walk_descriptor(explain, rules, &http->descriptors[i]);
	return rc;
}

bool wr_explain_is_replaced(const struct wr_explain *explain, const struct wr_rules_limit *limit)
{
	for (size_t i = 0; i < explain->walk_count; i++)
		if (explain->walks[i].certain &&
		    wr_rules_replaced(&explain->walks[i].match, 1, limit->name))
			return true;
	return false;
}

bool wr_explain_is_limited(const struct wr_explain *explain)
{
	if (explain->result.denied)
		return true;
	for (size_t i = 0; i < explain->walk_count; i++)
		for (size_t j = 0; j < explain->walks[i].match.limit_count; j++)
			if (!explain->walks[i].match.limits[j].unlimited &&
			    !wr_explain_is_replaced(explain, &explain->walks[i].match.limits[j]))
				return true;
	return false;
}

const char *wr_explain_outcome(enum wr_outcome outcome)
{
	static const char *const names[] = {"no_rule", "pass", "whitelisted", "limited",
					    "unlimited"};

	wr_assert(outcome < sizeof names / sizeof *names);
	return names[outcome];
}
