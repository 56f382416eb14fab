/* The request target: which host, path and query it means, whatever way it is written.
 *
 * Servers disagree about paths. A reading is one consistent view of what a path may mean to the
 * API behind: whether \, %2F and %5C part segments as / does, and whether ;x=1 belongs to its
 * segment. In all readings %-encoding is resolved once, empty and dot segments are gone, and so is
 * the slash at the end. Where %2F is not a slash it stays, and a percent sign is always %25, so
 * that nothing becomes ambiguous. */
#ifndef WR_RULES_HTTP_TARGET_H
#define WR_RULES_HTTP_TARGET_H

#include "rules/http_memory.h"
#include "rules/requests.h"

#define WR_READINGS_MAX 4

struct wr_target {
	struct weir_str authority; /* of an absolute target, without user; else empty */
	struct weir_str path;      /* raw */
	struct weir_str query;     /* raw, without ? */
	struct weir_str readings[WR_READINGS_MAX]; /* the first is what `path` means as a source */
	uint32_t reading_count;
};

struct wr_target wr_target_split(struct weir_str target);

/* Splits and reads a target that is written plainly, as nearly all are: there is one reading, and
 * it is the path itself. False: it is not. */
bool wr_target_plain(struct weir_str target, struct wr_target *split);

/* Fills in the readings. Returns 0 or WEIR_EROOM. */
int wr_target_read(struct wr_target *target, struct wr_memory *memory);

/* Whether a reading of a path fits a pattern; captures[i] is the text of its i-th {part}. */
bool wr_path_match(const struct wr_path *pattern, struct weir_str path,
		   struct weir_str captures[WR_CAPTURES_MAX]);

/* Host in canonical form: lower case, no port, no dot at the end, an address in its shortest
 * spelling. Empty if there is none. Returns 0 or WEIR_EROOM. */
int wr_host_read(struct weir_str host, struct wr_memory *memory, struct weir_str *canonical);

#endif
