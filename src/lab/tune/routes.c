/* Finds the routes of a site in the tree of its paths, see tune_routes.h. */
#include "lab/tune/routes.h"

#include <stdio.h>
#include <stdlib.h>

#include "lab/tune/tree.h"

#define PATH_BYTES 768     /* longest pattern; WR_LAB_ROUTE_DEPTH segments fit */
#define STATIC_PERCENT 90u /* a directory with this part of static files is static */
#define READ_SHARE 100u    /* a route with GET has at least this fraction of the requests */
#define WRITE_SHARE 1000u  /* a route with another method */

/* ---- candidates ---- */

struct candidate {
	uint32_t node;
	uint8_t method;
	bool star;      /* the pattern ends with a star */
	bool is_static; /* belongs to the route for static files */
	uint64_t requests;
};

struct candidates {
	struct candidate *items; /* room for every node with every method */
	size_t count;
};

static void add_candidate(struct candidates *list, uint32_t node, size_t method, bool star,
			  bool is_static, uint64_t requests)
{
	if (requests)
		list->items[list->count++] =
			(struct candidate){node, (uint8_t)method, star, is_static, requests};
}

static bool is_static_directory(const struct wr_lab_routes *routes, uint32_t at)
{
	const struct wr_lab_tree_node *node = &routes->nodes[at];

	return at != 0 && node->kind == WR_LAB_SEGMENT_LITERAL && (node->children || node->part) &&
	       node->statics * 100 >= node->all * STATIC_PERCENT;
}

/* Adds the candidates at and below a node. `literal` is true if the path to the node has no
 * parts. */
static void collect(const struct wr_lab_routes *routes, uint32_t at, bool literal,
		    struct candidates *list)
{
	const struct wr_lab_tree_node *node = &routes->nodes[at];
	bool is_static = node->all && node->statics * 100 >= node->all * STATIC_PERCENT;

	if (literal && is_static_directory(routes, at)) {
		add_candidate(list, at, 0, true, true, node->all);
		return;
	}
	for (size_t i = 0; i < WR_LAB_METHOD_COUNT; i++) {
		add_candidate(list, at, i, false, literal && is_static && i == 0, node->ends[i]);
		if (at != 0)
			add_candidate(list, at, i, true, false, node->below[i]);
	}
	for (uint32_t child = node->children; child != WR_LAB_NO_NODE;
	     child = routes->nodes[child].next)
		collect(routes, child, literal, list);
	if (node->part != WR_LAB_NO_NODE)
		collect(routes, node->part, false, list);
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->requests != y->requests)
		return x->requests > y->requests ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Writes the nodes from below the root to `at`. Returns their number. */
static uint32_t write_chain(const struct wr_lab_routes *routes, uint32_t at,
			    uint32_t chain[WR_LAB_ROUTE_DEPTH])
{
	uint32_t depth = 0;

	for (uint32_t i = at; i != 0; i = routes->nodes[i].parent)
		depth++;
	for (uint32_t i = depth; i > 0; at = routes->nodes[at].parent)
		chain[--i] = at;
	return depth;
}

/* Counts the requests that the pattern of a candidate matches at or below node `at`. In rules, a
 * part matches any text, so the pattern also matches the paths of more specific candidates. */
static uint64_t count_matches(const struct wr_lab_routes *routes, uint32_t at,
			      const uint32_t *chain, uint32_t depth, size_t method)
{
	const struct wr_lab_tree_node *next = &routes->nodes[*chain];
	bool any = next->kind != WR_LAB_SEGMENT_LITERAL;
	uint64_t sum = 0;

	if (depth == 0)
		return routes->nodes[at].ends[method];
	if (any && routes->nodes[at].part != WR_LAB_NO_NODE)
		sum += count_matches(routes, routes->nodes[at].part, chain + 1, depth - 1, method);
	for (uint32_t i = routes->nodes[at].children; i != WR_LAB_NO_NODE;
	     i = routes->nodes[i].next)
		if (any || wr_str_equal(routes->nodes[i].text, next->text))
			sum += count_matches(routes, i, chain + 1, depth - 1, method);
	return sum;
}

/* Returns whether the candidate is a route: it is busy enough, and at least half of the requests
 * that its pattern matches are its own. */
static bool is_route(const struct wr_lab_routes *routes, const struct candidate *candidate)
{
	uint32_t chain[WR_LAB_ROUTE_DEPTH + 1] = {0};
	uint32_t depth = write_chain(routes, candidate->node, chain);
	uint64_t share = candidate->method == 0 ? READ_SHARE : WRITE_SHARE;

	if (candidate->requests < WR_LAB_ROUTE_LEAST ||
	    candidate->requests * share < routes->requests)
		return false;
	return candidate->star ||
	       2 * candidate->requests >= count_matches(routes, 0, chain, depth, candidate->method);
}

/* ---- patterns ---- */

/* Returns the name of a part. Numbers behind a year are a month and a day. */
static const char *part_name(const struct wr_lab_routes *routes, const uint32_t *chain, size_t i)
{
	enum wr_lab_segment kind = routes->nodes[chain[i]].kind;

	if (kind == WR_LAB_SEGMENT_ID && i > 0 &&
	    routes->nodes[chain[i - 1]].kind == WR_LAB_SEGMENT_YEAR)
		return "month";
	if (kind == WR_LAB_SEGMENT_ID && i > 1 &&
	    routes->nodes[chain[i - 2]].kind == WR_LAB_SEGMENT_YEAR)
		return "day";
	return wr_lab_segment_name(kind);
}

/* Appends a part. Names of parts must be different, so a repeated name gets a number. */
static size_t print_part(char *path, size_t len, const char *name)
{
	char part[32];

	snprintf(part, sizeof part, "/{%s}", name);
	for (unsigned number = 2; strstr(path, part); number++)
		snprintf(part, sizeof part, "/{%s%u}", name, number);
	return len + (size_t)snprintf(path + len, PATH_BYTES - len, "%s", part);
}

static const char *make_path(struct wr_lab_routes *routes, const struct candidate *candidate)
{
	uint32_t chain[WR_LAB_ROUTE_DEPTH];
	uint32_t depth = write_chain(routes, candidate->node, chain);
	char path[PATH_BYTES] = "";
	size_t len = 0;

	for (size_t i = 0; i < depth; i++) {
		const struct wr_lab_tree_node *node = &routes->nodes[chain[i]];

		if (node->kind == WR_LAB_SEGMENT_LITERAL)
			len += (size_t)snprintf(path + len, sizeof path - len, "/%.*s",
						(int)node->text.len, node->text.ptr);
		else
			len = print_part(path, len, part_name(routes, chain, i));
	}
	if (candidate->star || len == 0)
		len += (size_t)snprintf(path + len, sizeof path - len,
					candidate->star ? "/*" : "/");
	return wr_arena_copy(&routes->texts, path, len);
}

static bool add_path_of(struct wr_lab_routes *routes, const struct candidate *candidate,
			struct wr_lab_route *route)
{
	const char *path;

	if (route->path_count == WR_LAB_ROUTE_PATHS_MAX)
		return false;
	path = make_path(routes, candidate);
	if (!path)
		return false;
	route->paths[route->path_count++] = path;
	route->requests += candidate->requests;
	return true;
}

static int compare_routes(const void *a, const void *b)
{
	const struct wr_lab_route *x = a, *y = b;

	return x->requests > y->requests ? -1 : x->requests < y->requests;
}

size_t wr_lab_routes_find(struct wr_lab_routes *routes,
			  struct wr_lab_route found[WR_LAB_ROUTES_MAX])
{
	struct wr_lab_route statics = {.method = wr_lab_method_name(0), .is_static = true};
	struct candidates list = {0};
	size_t count = 0;

	wr_lab_tree_join(routes);
	list.items =
		malloc((size_t)routes->node_count * 2 * WR_LAB_METHOD_COUNT * sizeof *list.items);
	if (!list.items)
		return 0;
	collect(routes, 0, true, &list);
	qsort(list.items, list.count, sizeof *list.items, compare_candidates);
	for (size_t i = 0; i < list.count; i++) {
		const struct candidate *candidate = &list.items[i];
		struct wr_lab_route route = {.method = wr_lab_method_name(candidate->method)};

		if (candidate->is_static)
			add_path_of(routes, candidate, &statics);
		else if (count < WR_LAB_ROUTES_MAX - 1 && is_route(routes, candidate) &&
			 add_path_of(routes, candidate, &route))
			found[count++] = route;
	}
	free(list.items);
	if (statics.path_count && statics.requests >= WR_LAB_ROUTE_LEAST)
		found[count++] = statics;
	qsort(found, count, sizeof *found, compare_routes);
	return count;
}
