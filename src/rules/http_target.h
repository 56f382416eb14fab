/* The request target: which host, path and query it means, whatever way it is written.
 *
 * Servers disagree about paths. A reading is one consistent view of what a path may mean to the
 * API behind:
 *
 *   slashes     only / parts segments, or \, %2F, %5C and overlong UTF-8 do too
 *   parameters  ;x=1 belongs to its segment, or is dropped before or after %-decoding
 *   decoding    %-encoding is resolved once, or twice
 *   dots        dot segments are resolved before or after decoding, with or without the empty
 *               segments, or kept
 *   host        //name/path is the path /name/path, or the path /path of a host
 *
 * A limit holds if any reading matches, an exemption if all do (http.h). In all readings but the
 * raw one, empty segments are gone, and so is the slash at the end. Where %2F is not a slash it
 * stays, and a percent sign is always %25, so that nothing becomes ambiguous. The raw reading is
 * not decoded at all. It is the last one, and no value comes from it: what matches it matches a
 * decoded one too. A path that is written plainly has one reading, the path itself. */
#ifndef WR_RULES_HTTP_TARGET_H
#define WR_RULES_HTTP_TARGET_H

#include "base/str.h"
#include "rules/http_memory.h"
#include "rules/requests.h"

#define WR_READINGS_MAX 64 /* different readings; a path with more is refused */

struct wr_target {
	struct weir_str authority; /* of an absolute target, without user; else empty */
	struct weir_str path;      /* raw */
	struct weir_str query;     /* raw, without ? */
	struct weir_str readings[WR_READINGS_MAX];
	uint32_t reading_count; /* the raw one included */
	uint32_t value_count;   /* … and not */
	bool unsure;            /* servers may have further readings, so it exempts nothing */
};

/* Returns 0, or WEIR_EFORMAT if the target has a fragment or a control character: no client sends
 * them, and servers cut them off, drop them or keep them. */
int wr_target_split(struct weir_str target, struct wr_target *split);

/* Splits a target that is written plainly, as most are. Its only reading is the path itself.
 * Returns false for any other target. */
bool wr_target_plain(struct weir_str target, struct wr_target *split);

/* http_readings.c: makes the readings. Returns 0, WEIR_EROOM (too much memory, too many readings or
 * too much work), or WEIR_EFORMAT: the path holds an encoded zero byte, at which some servers stop.
 */
int wr_target_read(struct wr_target *target, struct wr_memory *memory);

/* A reading without its parameters, which make no counter of their own. Not copied if there are
 * none. Returns 0 or WEIR_EROOM. */
int wr_path_bare(struct weir_str path, struct wr_memory *memory, struct weir_str *bare);

/* The byte that %XX at raw.ptr[i] stands for, or -1. */
static inline int wr_escaped_byte(struct weir_str raw, size_t i)
{
	int high, low;

	if (raw.ptr[i] != '%' || raw.len - i < 3)
		return -1;
	high = wr_hex(raw.ptr[i + 1]);
	low = wr_hex(raw.ptr[i + 2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Whether a reading matches a pattern; captures[i] is the text of its i-th {part}. */
bool wr_path_match(const struct wr_path *pattern, struct weir_str path,
		   struct weir_str captures[WR_CAPTURES_MAX]);

/* Writes a host in canonical form: lower case, no port, no dot at the end, an address in its
 * shortest spelling. Empty if there is none. *unsure: servers read it differently (an escape, two
 * dots, a port that is no number), so it exempts nothing. Returns 0 or WEIR_EROOM. */
int wr_host_read(struct weir_str host, struct wr_memory *memory, struct weir_str *canonical,
		 bool *unsure);

#endif
