/* Finds the routes of a site, see tune_routes.h. */
#include "lab/tune_routes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"
#include "rules/http.h"
#include "rules/http_target.h"

#define NODES_MAX 32768u
#define LITERALS_MAX 24576u    /* further literals become parts, for which the other nodes are */
#define SLOTS (16 * NODES_MAX) /* a node moves at most once per level, and leaves its old slot */
#define TEXT_BYTES ((size_t)16 << 20)
#define PATH_BYTES 768     /* longest pattern; WR_LAB_ROUTE_DEPTH segments fit */
#define NONE 0u            /* no node; node 0 is the root, which is no child */
#define LITERAL_SHARE 100u /* a segment with this fraction of all requests stays a literal */
#define STATIC_PERCENT 90u /* a directory with this part of static files is static */
#define READ_SHARE 100u    /* a route with GET has at least this fraction of the requests */
#define WRITE_SHARE 1000u  /* a route with another method */
#define ROUTE_LEAST 5u     /* and each has at least this number of requests */

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
#define METHODS (sizeof methods / sizeof *methods)

struct node {
	struct weir_str text;     /* the literal; empty for a part */
	enum wr_lab_segment kind; /* of a part: the kind that was seen first */
	uint32_t parent, children, next;
	uint32_t part;           /* the child that stands for any segment */
	uint64_t all;            /* requests of this node and the nodes below */
	uint64_t statics;        /* of these, requests for static files */
	uint64_t ends[METHODS];  /* requests whose path ends here */
	uint64_t below[METHODS]; /* requests whose path is too deep to be stored */
};

struct wr_lab_routes {
	struct node *nodes;
	uint32_t node_count;
	uint32_t *slots; /* (parent, literal) → node */
	struct wr_arena texts;
	uint64_t requests;
};

struct wr_lab_routes *wr_lab_routes_new(void)
{
	struct wr_lab_routes *routes = calloc(1, sizeof *routes);

	if (!routes)
		return NULL;
	wr_arena_init(&routes->texts, TEXT_BYTES);
	routes->nodes = calloc(NODES_MAX, sizeof *routes->nodes);
	routes->slots = calloc(SLOTS, sizeof *routes->slots);
	routes->node_count = 1;
	if (routes->nodes && routes->slots)
		return routes;
	wr_lab_routes_free(routes);
	return NULL;
}

void wr_lab_routes_free(struct wr_lab_routes *routes)
{
	if (!routes)
		return;
	free(routes->nodes);
	free(routes->slots);
	wr_arena_free(&routes->texts);
	free(routes);
}

/* ---- the tree ---- */

static uint32_t new_node(struct wr_lab_routes *routes, uint32_t parent, struct weir_str text,
			 enum wr_lab_segment kind)
{
	uint32_t at = routes->node_count;
	char *copy;

	if (at == NODES_MAX)
		return NONE;
	copy = wr_arena_copy(&routes->texts, text.ptr, text.len);
	if (!copy)
		return NONE;
	routes->nodes[at] = (struct node){.text = {copy, text.len},
					  .kind = kind,
					  .parent = parent,
					  .next = routes->nodes[parent].children};
	if (kind == WR_LAB_SEGMENT_LITERAL)
		routes->nodes[parent].children = at;
	routes->node_count++;
	return at;
}

/* Returns the slot of a literal child: the slot that has it, or the slot for a new one. */
static uint32_t *find_slot(struct wr_lab_routes *routes, uint32_t parent, struct weir_str text)
{
	uint64_t hash = XXH3_64bits_withSeed(text.ptr, text.len, parent);

	for (uint64_t i = hash;; i++) {
		uint32_t *slot = &routes->slots[i % SLOTS];
		const struct node *node = &routes->nodes[*slot];

		if (*slot == NONE || (node->parent == parent && wr_str_equal(node->text, text)))
			return slot;
	}
}

static uint32_t get_part(struct wr_lab_routes *routes, uint32_t parent, enum wr_lab_segment kind)
{
	if (routes->nodes[parent].part == NONE)
		routes->nodes[parent].part = new_node(routes, parent, WR_STR(""), kind);
	return routes->nodes[parent].part;
}

/* Returns the child for a segment, or NONE if there is no room for it. */
static uint32_t get_child(struct wr_lab_routes *routes, uint32_t parent, struct weir_str text)
{
	enum wr_lab_segment kind = wr_lab_segment_kind(text);
	uint32_t *slot;

	if (kind != WR_LAB_SEGMENT_LITERAL)
		return get_part(routes, parent, kind);
	slot = find_slot(routes, parent, text);
	if (*slot == NONE && routes->node_count < LITERALS_MAX)
		*slot = new_node(routes, parent, text, WR_LAB_SEGMENT_LITERAL);
	return *slot ? *slot : get_part(routes, parent, WR_LAB_SEGMENT_NAME);
}

static void add_path(struct wr_lab_routes *routes, struct weir_str path, size_t method)
{
	bool is_static = wr_lab_path_is_static(path);
	uint32_t at = 0, depth = 0;

	routes->nodes[0].all++;
	routes->nodes[0].statics += is_static;
	while (path.len > 1 && depth < WR_LAB_ROUTE_DEPTH) {
		struct weir_str rest = wr_str_from(path, 1);
		struct weir_str segment = wr_str_first(rest, wr_str_find(rest, '/'));
		uint32_t child = get_child(routes, at, segment);

		if (child == NONE)
			break;
		at = child;
		routes->nodes[at].all++;
		routes->nodes[at].statics += is_static;
		path = wr_str_from(rest, segment.len);
		depth++;
	}
	if (path.len > 1)
		routes->nodes[at].below[method]++;
	else
		routes->nodes[at].ends[method]++;
}

static size_t find_method(struct weir_str method)
{
	size_t i = 0;

	if (wr_str_equal(method, WR_STR("HEAD")))
		return 0;
	while (i < METHODS && !wr_str_equal(method, wr_str(methods[i])))
		i++;
	return i;
}

void wr_lab_routes_add(struct wr_lab_routes *routes, const struct wr_lab_record *record)
{
	size_t method = find_method(record->method);
	char room[WR_HTTP_MEMORY];
	struct wr_rules_http_memory memory = {room, room + sizeof room};
	struct wr_target target;

	if (method == METHODS || record->status == 400 || record->status == 404 ||
	    record->status == 405 || record->status == 410)
		return;
	if (!wr_target_plain(record->target, &target) &&
	    (wr_target_split(record->target, &target) != 0 ||
	     wr_target_read(&target, &memory) != 0 || target.value_count == 0))
		return;
	routes->requests++;
	add_path(routes, target.readings[0], method);
}

/* ---- joining rare segments ---- */

static void merge(struct wr_lab_routes *routes, uint32_t from, uint32_t into);

static void merge_children(struct wr_lab_routes *routes, uint32_t from, uint32_t into)
{
	uint32_t next;

	for (uint32_t child = routes->nodes[from].children; child != NONE; child = next) {
		uint32_t *slot = find_slot(routes, into, routes->nodes[child].text);

		next = routes->nodes[child].next;
		if (*slot != NONE) {
			merge(routes, child, *slot);
			continue;
		}
		/* The child moves. Its old slot stays, and is found no more. */
		*slot = child;
		routes->nodes[child].parent = into;
		routes->nodes[child].next = routes->nodes[into].children;
		routes->nodes[into].children = child;
	}
}

/* Adds the requests of a node, and of the nodes below, to another node. */
static void merge(struct wr_lab_routes *routes, uint32_t from, uint32_t into)
{
	struct node *a = &routes->nodes[from], *b = &routes->nodes[into];

	b->all += a->all;
	b->statics += a->statics;
	for (size_t i = 0; i < METHODS; i++) {
		b->ends[i] += a->ends[i];
		b->below[i] += a->below[i];
	}
	if (a->part != NONE && b->part != NONE) {
		merge(routes, a->part, b->part);
	} else if (a->part != NONE) {
		b->part = a->part;
		routes->nodes[a->part].parent = into;
	}
	merge_children(routes, from, into);
}

static uint32_t count_children(const struct wr_lab_routes *routes, uint32_t at)
{
	uint32_t count = 0;

	for (uint32_t i = routes->nodes[at].children; i != NONE; i = routes->nodes[i].next)
		count++;
	return count;
}

static bool is_rare(const struct wr_lab_routes *routes, uint32_t at)
{
	return routes->nodes[at].all * LITERAL_SHARE < routes->requests ||
	       routes->nodes[at].all < ROUTE_LEAST;
}

/* If a node has too many literal children, joins the rare ones into its part. */
static void join_rare(struct wr_lab_routes *routes, uint32_t at)
{
	uint32_t child, next, kept = NONE;
	uint64_t ids =
		routes->nodes[at].part == NONE ? 0 : routes->nodes[routes->nodes[at].part].all;

	if (count_children(routes, at) > WR_LAB_ROUTE_FAN) {
		child = routes->nodes[at].children;
		routes->nodes[at].children = NONE;
		for (; child != NONE; child = next) {
			next = routes->nodes[child].next;
			if (is_rare(routes, child) &&
			    get_part(routes, at, WR_LAB_SEGMENT_NAME) != NONE) {
				merge(routes, child, routes->nodes[at].part);
				continue;
			}
			routes->nodes[child].next = kept;
			kept = child;
		}
		routes->nodes[at].children = kept;
		/* The part has the name of the texts that most requests have in its place. */
		if (routes->nodes[at].part != NONE &&
		    routes->nodes[routes->nodes[at].part].all > 2 * ids)
			routes->nodes[routes->nodes[at].part].kind = WR_LAB_SEGMENT_NAME;
	}
	for (child = routes->nodes[at].children; child != NONE; child = routes->nodes[child].next)
		join_rare(routes, child);
	if (routes->nodes[at].part != NONE)
		join_rare(routes, routes->nodes[at].part);
}

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
	const struct node *node = &routes->nodes[at];

	return at != 0 && node->kind == WR_LAB_SEGMENT_LITERAL && (node->children || node->part) &&
	       node->statics * 100 >= node->all * STATIC_PERCENT;
}

/* Adds the candidates at and below a node. `literal` is true if the path to the node has no
 * parts. */
static void collect(const struct wr_lab_routes *routes, uint32_t at, bool literal,
		    struct candidates *list)
{
	const struct node *node = &routes->nodes[at];
	bool is_static = node->all && node->statics * 100 >= node->all * STATIC_PERCENT;

	if (literal && is_static_directory(routes, at)) {
		add_candidate(list, at, 0, true, true, node->all);
		return;
	}
	for (size_t i = 0; i < METHODS; i++) {
		add_candidate(list, at, i, false, literal && is_static && i == 0, node->ends[i]);
		if (at != 0)
			add_candidate(list, at, i, true, false, node->below[i]);
	}
	for (uint32_t child = node->children; child != NONE; child = routes->nodes[child].next)
		collect(routes, child, literal, list);
	if (node->part != NONE)
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
	const struct node *next = &routes->nodes[*chain];
	bool any = next->kind != WR_LAB_SEGMENT_LITERAL;
	uint64_t sum = 0;

	if (depth == 0)
		return routes->nodes[at].ends[method];
	if (any && routes->nodes[at].part != NONE)
		sum += count_matches(routes, routes->nodes[at].part, chain + 1, depth - 1, method);
	for (uint32_t i = routes->nodes[at].children; i != NONE; i = routes->nodes[i].next)
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

	if (candidate->requests < ROUTE_LEAST || candidate->requests * share < routes->requests)
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
		const struct node *node = &routes->nodes[chain[i]];

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
	struct wr_lab_route statics = {.method = methods[0], .is_static = true};
	struct candidates list = {0};
	size_t count = 0;

	join_rare(routes, 0);
	list.items = malloc((size_t)routes->node_count * 2 * METHODS * sizeof *list.items);
	if (!list.items)
		return 0;
	collect(routes, 0, true, &list);
	qsort(list.items, list.count, sizeof *list.items, compare_candidates);
	for (size_t i = 0; i < list.count; i++) {
		const struct candidate *candidate = &list.items[i];
		struct wr_lab_route route = {.method = methods[candidate->method]};

		if (candidate->is_static)
			add_path_of(routes, candidate, &statics);
		else if (count < WR_LAB_ROUTES_MAX - 1 && is_route(routes, candidate) &&
			 add_path_of(routes, candidate, &route))
			found[count++] = route;
	}
	free(list.items);
	if (statics.path_count && statics.requests >= ROUTE_LEAST)
		found[count++] = statics;
	qsort(found, count, sizeof *found, compare_routes);
	return count;
}
