/* Finds the routes of a site in the paths of its requests.
 *
 * The paths form a tree of segments. Segments that are ids (numbers, UUIDs, long hexadecimal
 * texts, dates) become parts such as {id}. If a place in the tree has more than WR_LAB_ROUTE_FAN
 * different segments, its rare segments become {name}. Directories that consist almost only of
 * files such as .css and .png are joined to one route for static files.
 *
 * A route is a method and one or more path patterns of rule files. Texts that a pattern cannot
 * contain, such as '*', become parts too. */
#ifndef WR_LAB_TUNE_ROUTES_H
#define WR_LAB_TUNE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/log/log.h"

#define WR_LAB_ROUTES_MAX 16u      /* largest number of routes; other requests have no route */
#define WR_LAB_ROUTE_FAN 24u       /* largest number of literal segments in one place */
#define WR_LAB_ROUTE_PATHS_MAX 16u /* largest number of patterns of the route for static files */
#define WR_LAB_ROUTE_DEPTH 8u      /* deeper paths end with a star */

/* A route that was found. */
struct wr_lab_route {
	const char *method; /* "GET" stands for HEAD too */
	const char *paths[WR_LAB_ROUTE_PATHS_MAX];
	size_t path_count;
	bool is_static;
	uint64_t requests; /* requests that were learned from */
};

struct wr_lab_routes;

/* Returns NULL if there is no memory. */
struct wr_lab_routes *wr_lab_routes_new(void);
void wr_lab_routes_free(struct wr_lab_routes *routes);

/* Learns from a request. Ignores requests whose response says that there is no such resource, so
 * that scanners make no routes, and requests with unusual methods or targets. */
void wr_lab_routes_add(struct wr_lab_routes *routes, const struct wr_lab_record *record);

/* Writes the routes with the most requests, the busiest first. Returns their number. The texts
 * belong to `routes`. Called once, after the last wr_lab_routes_add(). */
size_t wr_lab_routes_find(struct wr_lab_routes *routes,
			  struct wr_lab_route found[WR_LAB_ROUTES_MAX]);

/* Returns whether the path ends in a file name of static files, such as /logo.png. */
bool wr_lab_path_is_static(struct weir_str path);

/* ---- segments (tune_segment.c) ---- */

/* The kinds of segments. X(enum, name of the part) */
#define WR_LAB_SEGMENTS(X)                                                                         \
	X(WR_LAB_SEGMENT_LITERAL, "")                                                              \
	X(WR_LAB_SEGMENT_ID, "id")                                                                 \
	X(WR_LAB_SEGMENT_YEAR, "year")                                                             \
	X(WR_LAB_SEGMENT_DATE, "date")                                                             \
	X(WR_LAB_SEGMENT_UUID, "uuid")                                                             \
	X(WR_LAB_SEGMENT_HASH, "hash")                                                             \
	X(WR_LAB_SEGMENT_NAME, "name")

enum wr_lab_segment {
#define WR_LAB_SEGMENT_ENUM(name, text) name,
	WR_LAB_SEGMENTS(WR_LAB_SEGMENT_ENUM)
#undef WR_LAB_SEGMENT_ENUM
};

const char *wr_lab_segment_name(enum wr_lab_segment kind);

/* Returns the kind of a segment. WR_LAB_SEGMENT_LITERAL is a text that a pattern can contain. */
enum wr_lab_segment wr_lab_segment_kind(struct weir_str segment);

#endif
