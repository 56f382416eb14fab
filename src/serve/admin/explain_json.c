/* Writes the result of a search as JSON, for POST /v1/explain and weir explain --json. */
#include <stdio.h>

#include "base/str.h"
#include "rules/cost_text.h"
#include "rules/limit_text.h"
#include "rules/path_text.h"
#include "rules/requests.h"
#include "serve/admin/explain_find.h"
#include "wire/json.h"

static json_t *location_json(const char *file, uint32_t line)
{
	return json_pack("{s:o, s:i}", "file", wr_wire_json_text(wr_str(file)), "line", (int)line);
}

static json_t *node_json(const struct wr_node *node)
{
	char path[512];
	json_t *json;

	if (!node)
		return json_null();
	wr_path_text(node, path, sizeof path);
	json = location_json(node->more->file, node->more->line);
	json_object_set_new(json, "path", wr_wire_json_text(wr_str(path)));
	return json;
}

static json_t *steps_json(const struct wr_explain_walk *walk)
{
	static const char *const names[] = {"exact", "wildcard", "any", "passed_over",
					    "nothing_below"};
	json_t *list = json_array();

	for (size_t i = 0; i < walk->step_count; i++)
		json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:o}", "entry",
						      (int)walk->steps[i].level, "tried",
						      names[walk->steps[i].kind], "matched",
						      walk->steps[i].matched, "rule",
						      node_json(walk->steps[i].node)));
	return list;
}

/* Returns the `ban` of a limit. "address_entry" is the index of the descriptor's entry that has the
 * address, or null. */
static json_t *ban_json(const struct wr_rules_ban *ban)
{
	char text[160];

	wr_rules_ban_text(ban, text, sizeof text);
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "text", text, "after",
			 (json_int_t)ban->after, "within_ns", (json_int_t)ban->within_ns, "for_ns",
			 (json_int_t)ban->for_ns, "grow", (json_int_t)ban->grow, "max_ns",
			 (json_int_t)ban->max_ns, "shield", ban->shield, "address_entry",
			 ban->address_depth ? json_integer(ban->address_depth - 1) : json_null());
}

static json_t *limit_json(const struct wr_explain *explain, const struct wr_rules_limit *limit)
{
	static const char *const on_limit[] = {
#define WORD(name, number, text) [number] = (text),
		WR_ON_LIMITS(WORD)};
	static const char *const consistency[] = {WR_CONSISTENCIES(WORD)
#undef WORD
	};
	char text[128];
	json_t *json;

	wr_rules_limit_text(limit, text, sizeof text);
	json = json_pack("{s:s, s:o, s:o, s:b, s:b, s:b, s:b}", "text", text, "name",
			 wr_wire_json_text(limit->name), "stat", wr_wire_json_text(limit->stat),
			 "unlimited", limit->unlimited, "shadow",
			 (limit->node->flags & WR_SHADOW) != 0, "quota",
			 (limit->node->flags & WR_QUOTA) != 0, "replaced",
			 wr_explain_is_replaced(explain, limit));
	if (limit->unlimited)
		return json;
	json_object_set_new(json, "id", wr_wire_json_text(limit->id));
	json_object_set_new(json, "algorithm",
			    json_string(weir_algorithm_name((int)limit->limit.algorithm)));
	if (limit->limit.algorithm == WEIR_CONCURRENT) {
		json_object_set_new(json, "concurrent", json_integer(limit->limit.limit));
		json_object_set_new(json, "max_hold_ns",
				    json_integer((json_int_t)limit->limit.period_ns));
	} else {
		json_object_set_new(json, "requests_per_unit", json_integer(limit->limit.limit));
		json_object_set_new(json, "period_ns",
				    json_integer((json_int_t)limit->limit.period_ns));
	}
	json_object_set_new(json, "capacity", json_integer(limit->limit.capacity));
	json_object_set_new(json, "on_limit", json_string(on_limit[limit->on_limit]));
	json_object_set_new(json, "consistency", json_string(consistency[limit->consistency]));
	if (limit->ban)
		json_object_set_new(json, "ban", ban_json(limit->ban));
	return json;
}

static json_t *entries_json(const struct wr_explain_walk *walk)
{
	json_t *list = json_array();

	for (size_t i = 0; i < walk->count; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:o}", "key",
						wr_wire_json_text(walk->entries[i].key), "value",
						wr_wire_json_text(walk->entries[i].value), "source",
						wr_wire_json_text(walk->entries[i].source)));
	return list;
}

/* Returns the source of a cost with its default and maximum. A plain number has no source: null. */
static json_t *cost_source_json(const struct wr_rules_cost_source *source)
{
	json_t *otherwise;

	if (source->from == WR_COST_NUMBER)
		return json_null();
	otherwise = source->defaults_to_reserved ? json_string("reserved")
						 : json_integer(source->otherwise);
	return json_pack("{s:o, s:o, s:I}", "from", wr_wire_json_text(source->label), "default",
			 otherwise, "max", (json_int_t)source->max);
}

/* Returns the cost of a request: the units at arrival, how they were found, and the source of the
 * actual cost. */
static json_t *cost_json(const struct wr_explain_walk *walk)
{
	static const char *const notes[] = {"given", "default", "max", "later"};
	const struct wr_rules_cost *cost = walk->request->cost;

	return json_pack("{s:I, s:s, s:o, s:o}", "units", (json_int_t)walk->cost, "note",
			 notes[walk->cost_note], "source",
			 cost ? cost_source_json(&cost->arrival) : json_null(), "actual",
			 cost && cost->settles ? cost_source_json(&cost->actual) : json_null());
}

/* Returns {"status": […]} or {"except": […]} as in a rule file. */
static json_t *count_json(const struct wr_rules_count *count)
{
	bool except = wr_rules_count_is_except(count);
	json_t *list = json_array();
	uint32_t status = 100;
	char text[WR_STATUS_TEXT];

	while (wr_rules_count_next(count, !except, &status, text))
		json_array_append_new(list, json_string(text));
	return json_pack("{s:o}", except ? "except" : "status", list);
}

static json_t *walk_json(const struct wr_explain *explain, const struct wr_explain_walk *walk)
{
	json_t *limits = json_array();
	json_t *json;

	for (size_t i = 0; i < walk->match.limit_count; i++)
		json_array_append_new(limits, limit_json(explain, &walk->match.limits[i]));
	json = json_pack("{s:o, s:o, s:s, s:o, s:o}", "entries", entries_json(walk), "steps",
			 steps_json(walk), "outcome", wr_explain_outcome(walk->match.outcome),
			 "rule", node_json(walk->match.node), "limits", limits);
	if (!walk->request)
		return json;
	json_object_set_new(json, "made_by",
			    location_json(walk->request->file, walk->request->line));
	json_object_set_new(json, "cost", cost_json(walk));
	if (walk->request->count)
		json_object_set_new(json, "count", count_json(walk->request->count));
	return json;
}

json_t *wr_explain_json(const struct wr_explain *explain)
{
	json_t *walks = json_array();
	json_t *json;

	for (size_t i = 0; i < explain->walk_count; i++)
		json_array_append_new(walks, walk_json(explain, &explain->walks[i]));
	json = json_pack("{s:o, s:b, s:o}", "domain", wr_wire_json_text(explain->domain_name),
			 "known", explain->domain != NULL, "descriptors", walks);
	if (!explain->http)
		return json;
	json_object_set_new(json, "request", wr_wire_json_text(wr_str(explain->http)));
	json_object_set_new(json, "allowed", json_boolean(explain->result.allowed));
	json_object_set_new(json, "denied", json_boolean(explain->result.denied));
	return json;
}
