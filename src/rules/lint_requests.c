/* Warns about mistakes in `requests:`: descriptors without a rule, rules without a descriptor, and
 * limits that a client can avoid. */
#include "rules/load.h"

#include <weir/weir.h>

#include "base/assert.h"
#include "rules/http_target.h"
#include "rules/lint_cost.h"
#include "rules/lint_fit.h"

/* Returns the child of `parent` that a fixed value matches: a child with exactly this value,
 * otherwise the first wildcard that matches, otherwise a child with this key and no value. */
static struct wr_node *fixed_child(struct wr_load *load, const struct wr_node *parent,
				   const struct wr_rules_part *part)
{
	struct wr_node *wild = NULL, *any = NULL;

	for (struct wr_node *node = parent->more->first_child; node && wr_lint_step(load);
	     node = node->more->next) {
		if (!wr_lint_key_fits(node, part->key))
			continue;
		if (node->kind == WR_NODE_EXACT && wr_str_equal(node->value, part->value))
			return node;
		if (wr_node_is_wild(node) && !wild && wr_lint_value_fits(node, part->value))
			wild = node;
		if (node->kind == WR_NODE_ANY)
			any = node;
	}
	return wild ? wild : any;
}

enum met { NOTHING = 0, A_RULE = 1, A_LIMIT = 2, A_DEFERRAL = 4 };

static unsigned met_at(const struct wr_node *node)
{
	for (uint8_t i = 0; i < node->limit_count; i++)
		if (node->limits[i].on_limit == WR_DEFER)
			return A_RULE | A_LIMIT | A_DEFERRAL;
	if (node->limit_count)
		return node->limits[0].unlimited ? A_RULE : A_RULE | A_LIMIT;
	return node->more->first_child ? NOTHING : A_RULE;
}

/* Marks every tree node that the descriptor of an entry of `requests:` can match. Returns the kinds
 * of rules at these nodes, as a set of enum met. */
static unsigned mark_nodes(struct wr_load *load, struct wr_rules_request *request, uint32_t at,
			   struct wr_node *parent, struct wr_lint_reach *reach)
{
	const struct wr_rules_part *part;
	unsigned met = NOTHING;

	if (at == request->part_count) {
		parent->more->made++;
		wr_lint_reach_node(reach, parent);
		if (met_at(parent) & A_LIMIT && parent->limit_count > request->most_limits)
			request->most_limits = parent->limit_count;
		return met_at(parent);
	}
	part = &request->parts[at];
	if (part->source_count == 0) {
		struct wr_node *child = fixed_child(load, parent, part);

		return child ? mark_nodes(load, request, at + 1, child, reach) : NOTHING;
	}
	for (struct wr_node *node = parent->more->first_child; node && wr_lint_step(load);
	     node = node->more->next)
		if (wr_lint_key_fits(node, part->key))
			met |= mark_nodes(load, request, at + 1, node, reach);
	return met;
}

static void check_made(struct wr_load *load, const struct wr_node *domain,
		       const struct wr_node *parent)
{
	for (const struct wr_node *node = parent->more->first_child; node;
	     node = node->more->next) {
		if (node->limit_count && !node->more->made)
			wr_rules_report_node(load, WR_D_unmade_descriptor, node,
					     WR_ARGS(domain->key));
		check_made(load, domain, node);
	}
}

/* Returns the first source in an entry of `requests:` for which a client can leave the value out or
 * invent it. Returns NULL if there is no such source. */
static const struct wr_source *loose_source(const struct wr_rules_request *request)
{
	for (uint32_t i = 0; i < request->part_count; i++)
		for (uint32_t j = 0; j < request->parts[i].source_count; j++)
			if (request->parts[i].sources[j].loose)
				return &request->parts[i].sources[j];
	return NULL;
}

/* Returns the source of the cost if a client can leave the value out or invent it, else NULL. */
static const struct wr_source *loose_cost(const struct wr_rules_request *request)
{
	return request->cost ? request->cost->arrival.source : NULL;
}

/* Looks for an entry of the descriptor that a client can prevent by leaving out all sources of the
 * entry. No descriptor is made then, so the client avoids the limit. Returns the first source of
 * that entry, or NULL if there is no such entry. */
static const struct wr_source *optional_source(const struct wr_rules_request *request)
{
	for (uint32_t i = 0; i < request->part_count; i++) {
		const struct wr_rules_part *part = &request->parts[i];
		bool optional = part->source_count && !part->has_default &&
				part->missing != WR_MISSING_DENY;

		for (uint32_t j = 0; j < part->source_count; j++)
			optional &= part->sources[j].loose;
		if (optional)
			return &part->sources[0];
	}
	return NULL;
}

static bool texts_cover(struct wr_texts wide, struct wr_texts narrow)
{
	for (uint32_t i = 0; wide.count && i < narrow.count; i++) {
		bool found = false;

		for (uint32_t j = 0; j < wide.count; j++)
			found |= wr_str_equal(wide.items[j], narrow.items[i]);
		if (!found)
			return false;
	}
	return wide.count == 0 || narrow.count;
}

static bool path_covers(const struct wr_path *wide, const struct wr_path *narrow)
{
	if (wide->rest ? wide->count > narrow->count : wide->count != narrow->count || narrow->rest)
		return false;
	for (uint16_t i = 0; i < wide->count; i++)
		if (!wide->segments[i].capture &&
		    (narrow->segments[i].capture ||
		     !wr_str_equal(wide->segments[i].text, narrow->segments[i].text)))
			return false;
	return true;
}

/* Returns whether an entry of `requests:` applies to all paths that the pattern `path` matches. If
 * `path` is NULL, returns whether the entry applies to every path. */
static bool paths_hold(const struct wr_rules_request *wide, const struct wr_path *path)
{
	for (uint32_t i = 0; path && i < wide->path_count; i++)
		if (path_covers(&wide->paths[i], path))
			return true;
	return wide->path_count == 0;
}

static bool paths_cover(const struct wr_rules_request *wide, const struct wr_rules_request *narrow)
{
	for (uint32_t i = 0; i < narrow->path_count; i++)
		if (!paths_hold(wide, &narrow->paths[i]))
			return false;
	return wide->path_count == 0 || narrow->path_count;
}

/* Returns whether another entry of `requests:` limits all requests to which this entry applies, and
 * counts them by values and with a cost that clients cannot choose. Also returns true if the search
 * has reached its maximum number of steps, so that an incomplete search causes no warning. */
static bool is_backed(struct wr_load *load, const struct wr_rules_requests *requests,
		      const struct wr_rules_request *request)
{
	for (const struct wr_rules_request *other = requests->first; other; other = other->next) {
		if (!wr_lint_step(load))
			return true;
		if (other != request && other->meets_limit && !loose_source(other) &&
		    !loose_cost(other) && !other->addresses &&
		    texts_cover(other->methods, request->methods) &&
		    texts_cover(other->hosts, request->hosts) && paths_cover(other, request))
			return true;
	}
	return false;
}

static void check_dodge(struct wr_load *load, const struct wr_rules_requests *requests,
			const struct wr_rules_request *request)
{
	const struct wr_source *optional = optional_source(request);
	const struct wr_source *loose = loose_source(request);

	if (!loose || !request->meets_limit || is_backed(load, requests, request))
		return;
	wr_rules_report_at(load, optional ? WR_D_can_omit : WR_D_can_forge, request->file,
			   request->line, request->column,
			   WR_ARGS(optional ? optional->label : loose->label));
}

/* Warns about a limit that applies only to certain hosts. If the API answers any Host, a client can
 * avoid the limit by sending another Host. */
static void check_host(struct wr_load *load, const struct wr_rules_requests *requests,
		       const struct wr_rules_request *request)
{
	if (!request->hosts.count || !request->meets_limit)
		return;
	for (const struct wr_rules_request *other = requests->first; other; other = other->next)
		if (!wr_lint_step(load) ||
		    (!other->hosts.count && other->meets_limit && !other->addresses &&
		     texts_cover(other->methods, request->methods) && paths_cover(other, request)))
			return;
	wr_rules_report_at(load, WR_D_host_only, request->file, request->line, request->column,
			   NULL);
}

/* Warns if an entry of `requests:` exempts requests with certain hosts, and other entries limit the
 * same paths. A client chooses the Host, so every client can get the exemption. */
static void check_exempt_host(struct wr_load *load, const struct wr_rules_requests *requests,
			      const struct wr_rules_request *request)
{
	if (!request->allow || !request->hosts.count || request->addresses)
		return;
	for (const struct wr_rules_request *other = requests->first; other; other = other->next) {
		if (!wr_lint_step(load))
			return;
		if (!other->meets_limit ||
		    !(paths_cover(other, request) || paths_cover(request, other)))
			continue;
		wr_rules_report_at(load, WR_D_host_exempts, request->file, request->line,
				   request->column, NULL);
		return;
	}
}

/* An example of a request to which an entry of `requests:` applies: one path, one method and one
 * host of the entry. If the entry names no path, method or host, this field of the example is empty
 * and stands for any path, method or host. */
struct witness {
	const struct wr_path *path;
	struct wr_texts method;
	struct wr_texts host;
};

static struct wr_texts one_of(struct wr_texts texts, uint32_t i)
{
	return texts.count ? (struct wr_texts){&texts.items[i], 1} : texts;
}

/* Returns whether more descriptors or limits apply to the example than a request can have. Counts
 * only entries of `requests:` that certainly apply to the example. */
static bool exceeds_bounds(struct wr_load *load, const struct wr_rules_requests *requests,
			   const struct witness *witness, uint32_t *descriptors, uint32_t *limits)
{
	*descriptors = *limits = 0;
	for (const struct wr_rules_request *r = requests->first; r; r = r->next) {
		if (!wr_lint_step(load))
			return false;
		if (!texts_cover(r->methods, witness->method) ||
		    !texts_cover(r->hosts, witness->host) || !paths_hold(r, witness->path))
			continue;
		if (r->allow && !r->addresses)
			return false;
		*descriptors += !r->allow;
		*limits += r->most_limits;
	}
	return *descriptors > WR_DESCRIPTORS_MAX || *limits > WEIR_NEEDS_MAX;
}

/* Warns if requests to which this entry of `requests:` applies can have too many descriptors or
 * limits. Returns whether it has warned. */
static bool check_bounds(struct wr_load *load, const struct wr_rules_requests *requests,
			 const struct wr_rules_request *r)
{
	uint32_t paths = r->path_count ? r->path_count : 1;
	uint32_t methods = r->methods.count ? r->methods.count : 1;
	uint32_t hosts = r->hosts.count ? r->hosts.count : 1;
	uint32_t descriptors, limits;

	for (uint64_t i = 0; r->meets_limit && i < (uint64_t)paths * methods * hosts; i++) {
		struct witness witness = {
			r->path_count ? &r->paths[i % paths] : NULL,
			one_of(r->methods, (uint32_t)(i / paths % methods)),
			one_of(r->hosts, (uint32_t)(i / paths / methods)),
		};

		if (load->lint_steps >= load->bounds.lint_steps)
			return false;
		if (exceeds_bounds(load, requests, &witness, &descriptors, &limits)) {
			wr_rules_report_at(
				load, WR_D_can_exceed, r->file, r->line, r->column,
				WR_ARGS(wr_str(wr_load_print(load, &load->tree, "%u", descriptors)),
					wr_str(wr_load_print(load, &load->tree, "%u", limits))));
			return true;
		}
	}
	return false;
}

/* Warns about an entry of `requests:` whose methods are never deferred, although the entry leads to
 * a limit that defers. */
static void check_deferral(struct wr_load *load, const struct wr_rules_request *request)
{
	for (uint32_t i = 0; i < request->methods.count; i++)
		if (wr_rules_defer_method(request->methods.items[i]))
			return;
	if (request->methods.count)
		wr_rules_report_at(load, WR_D_defer_safe_method, request->file, request->line,
				   request->column, WR_ARGS(request->methods.items[0]));
}

/* Warns about a cost that clients choose, unless another entry limits the same requests. */
static void check_chosen_cost(struct wr_load *load, const struct wr_rules_requests *requests,
			      const struct wr_rules_request *request)
{
	const struct wr_source *loose = loose_cost(request);

	if (loose && request->meets_limit && !is_backed(load, requests, request))
		wr_rules_report_at(load, WR_D_can_choose_cost, request->file, request->line,
				   request->column, WR_ARGS(loose->label));
}

void wr_lint_requests(struct wr_load *load, struct wr_node *domain)
{
	const struct wr_rules_requests *requests = domain->more->requests;

	wr_assert(domain->depth == 0 && requests);
	for (struct wr_rules_request *r = requests->first; r; r = r->next) {
		struct wr_lint_reach reach = {.tight_units = UINT32_MAX};
		unsigned met = r->allow ? A_RULE : mark_nodes(load, r, 0, domain, &reach);

		r->meets_limit = met & A_LIMIT;
		reach.rule = met != NOTHING;
		reach.limit = met & A_LIMIT;
		wr_lint_cost(load, domain, r, &reach);
		if (met & A_DEFERRAL)
			check_deferral(load, r);
		if (met == NOTHING && load->lint_steps < load->bounds.lint_steps)
			wr_rules_report_at(load, WR_D_unmatched_request, r->file, r->line,
					   r->column, WR_ARGS(domain->key));
	}
	for (const struct wr_rules_request *r = requests->first; r; r = r->next) {
		check_dodge(load, requests, r);
		check_chosen_cost(load, requests, r);
		check_host(load, requests, r);
		check_exempt_host(load, requests, r);
	}
	for (const struct wr_rules_request *r = requests->first; r; r = r->next)
		if (check_bounds(load, requests, r))
			break;
	if (load->lint_steps < load->bounds.lint_steps)
		check_made(load, domain, domain);
}
