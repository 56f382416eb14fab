/* The tree of the paths of a log, for tune_routes.c. */
#ifndef WR_LAB_TUNE_TREE_H
#define WR_LAB_TUNE_TREE_H

#include "base/arena.h"
#include "base/str.h"
#include "lab/tune/routes.h"

#define WR_LAB_NO_NODE 0u     /* node 0 is the root, which is no child */
#define WR_LAB_ROUTE_LEAST 5u /* a route has at least this number of requests */

/* The methods of routes. X(name) */
#define WR_LAB_METHODS(X) X("GET") X("POST") X("PUT") X("PATCH") X("DELETE")
#define WR_LAB_METHOD_COUNT 5u

/* A segment of paths. */
struct wr_lab_tree_node {
	struct weir_str text;     /* the literal; empty for a part */
	enum wr_lab_segment kind; /* of a part: the kind that was seen first */
	uint32_t parent, children, next;
	uint32_t part;                       /* the child that stands for any segment */
	uint64_t all;                        /* requests of this node and the nodes below */
	uint64_t statics;                    /* of these, requests for static files */
	uint64_t ends[WR_LAB_METHOD_COUNT];  /* requests whose path ends here */
	uint64_t below[WR_LAB_METHOD_COUNT]; /* requests whose path is too deep to be stored */
};

struct wr_lab_routes {
	struct wr_lab_tree_node *nodes;
	uint32_t node_count;
	uint32_t *slots; /* (parent, literal) → node */
	struct wr_arena texts;
	uint64_t requests;
};

/* Returns the name of a method. */
const char *wr_lab_method_name(size_t method);

/* Where a node has too many literal children, joins the rare ones into its part. Called once, after
 * the last wr_lab_routes_add(). */
void wr_lab_tree_join(struct wr_lab_routes *routes);

#endif
