/* The tree of the paths of a log, see tune_tree.h. */
#include "lab/tune/tree.h"

#include <stdlib.h>

#include "base/hash.h"
#include "rules/http.h"
#include "rules/http_target.h"

#define NODES_MAX 32768u
#define LITERALS_MAX 24576u    /* further literals become parts, for which the other nodes are */
#define SLOTS (16 * NODES_MAX) /* a node moves at most once per level, and leaves its old slot */
#define TEXT_BYTES ((size_t)16 << 20)
#define LITERAL_SHARE 100u /* a segment with this fraction of all requests stays a literal */

static const char *const methods[] = {
#define METHOD_NAME(name) name,
	WR_LAB_METHODS(METHOD_NAME)
#undef METHOD_NAME
};
_Static_assert(sizeof methods / sizeof *methods == WR_LAB_METHOD_COUNT, "all methods are counted");

const char *wr_lab_method_name(size_t method)
{
	return methods[method];
}

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
		return WR_LAB_NO_NODE;
	copy = wr_arena_copy(&routes->texts, text.ptr, text.len);
	if (!copy)
		return WR_LAB_NO_NODE;
	routes->nodes[at] = (struct wr_lab_tree_node){.text = {copy, text.len},
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
		const struct wr_lab_tree_node *node = &routes->nodes[*slot];

		if (*slot == WR_LAB_NO_NODE ||
		    (node->parent == parent && wr_str_equal(node->text, text)))
			return slot;
	}
}

static uint32_t get_part(struct wr_lab_routes *routes, uint32_t parent, enum wr_lab_segment kind)
{
	if (routes->nodes[parent].part == WR_LAB_NO_NODE)
		routes->nodes[parent].part = new_node(routes, parent, WR_STR(""), kind);
	return routes->nodes[parent].part;
}

/* Returns the child for a segment, or WR_LAB_NO_NODE if there is no room for it. */
static uint32_t get_child(struct wr_lab_routes *routes, uint32_t parent, struct weir_str text)
{
	enum wr_lab_segment kind = wr_lab_segment_kind(text);
	uint32_t *slot;

	if (kind != WR_LAB_SEGMENT_LITERAL)
		return get_part(routes, parent, kind);
	slot = find_slot(routes, parent, text);
	if (*slot == WR_LAB_NO_NODE && routes->node_count < LITERALS_MAX)
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

		if (child == WR_LAB_NO_NODE)
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
	while (i < WR_LAB_METHOD_COUNT && !wr_str_equal(method, wr_str(methods[i])))
		i++;
	return i;
}

void wr_lab_routes_add(struct wr_lab_routes *routes, const struct wr_lab_record *record)
{
	size_t method = find_method(record->method);
	char room[WR_HTTP_MEMORY];
	struct wr_rules_http_memory memory = {room, room + sizeof room};
	struct wr_target target;

	if (method == WR_LAB_METHOD_COUNT || record->status == 400 || record->status == 404 ||
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

	for (uint32_t child = routes->nodes[from].children; child != WR_LAB_NO_NODE; child = next) {
		uint32_t *slot = find_slot(routes, into, routes->nodes[child].text);

		next = routes->nodes[child].next;
		if (*slot != WR_LAB_NO_NODE) {
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
	struct wr_lab_tree_node *a = &routes->nodes[from], *b = &routes->nodes[into];

	b->all += a->all;
	b->statics += a->statics;
	for (size_t i = 0; i < WR_LAB_METHOD_COUNT; i++) {
		b->ends[i] += a->ends[i];
		b->below[i] += a->below[i];
	}
	if (a->part != WR_LAB_NO_NODE && b->part != WR_LAB_NO_NODE) {
		merge(routes, a->part, b->part);
	} else if (a->part != WR_LAB_NO_NODE) {
		b->part = a->part;
		routes->nodes[a->part].parent = into;
	}
	merge_children(routes, from, into);
}

static uint32_t count_children(const struct wr_lab_routes *routes, uint32_t at)
{
	uint32_t count = 0;

	for (uint32_t i = routes->nodes[at].children; i != WR_LAB_NO_NODE;
	     i = routes->nodes[i].next)
		count++;
	return count;
}

static bool is_rare(const struct wr_lab_routes *routes, uint32_t at)
{
	return routes->nodes[at].all * LITERAL_SHARE < routes->requests ||
	       routes->nodes[at].all < WR_LAB_ROUTE_LEAST;
}

/* If a node has too many literal children, joins the rare ones into its part. */
static void join_rare(struct wr_lab_routes *routes, uint32_t at)
{
	uint32_t child, next, kept = WR_LAB_NO_NODE;
	uint64_t ids = routes->nodes[at].part == WR_LAB_NO_NODE
			       ? 0
			       : routes->nodes[routes->nodes[at].part].all;

	if (count_children(routes, at) > WR_LAB_ROUTE_FAN) {
		child = routes->nodes[at].children;
		routes->nodes[at].children = WR_LAB_NO_NODE;
		for (; child != WR_LAB_NO_NODE; child = next) {
			next = routes->nodes[child].next;
			if (is_rare(routes, child) &&
			    get_part(routes, at, WR_LAB_SEGMENT_NAME) != WR_LAB_NO_NODE) {
				merge(routes, child, routes->nodes[at].part);
				continue;
			}
			routes->nodes[child].next = kept;
			kept = child;
		}
		routes->nodes[at].children = kept;
		/* The part has the name of the texts that most requests have in its place. */
		if (routes->nodes[at].part != WR_LAB_NO_NODE &&
		    routes->nodes[routes->nodes[at].part].all > 2 * ids)
			routes->nodes[routes->nodes[at].part].kind = WR_LAB_SEGMENT_NAME;
	}
	for (child = routes->nodes[at].children; child != WR_LAB_NO_NODE;
	     child = routes->nodes[child].next)
		join_rare(routes, child);
	if (routes->nodes[at].part != WR_LAB_NO_NODE)
		join_rare(routes, routes->nodes[at].part);
}

void wr_lab_tree_join(struct wr_lab_routes *routes)
{
	join_rare(routes, 0);
}
