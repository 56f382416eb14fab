/* Splits a request target into host, path and query, and finds all paths that servers may read in
 * it.
 *
 * Servers disagree about paths. A reading is one consistent view of what a path may mean to the API
 * that receives the request:
 *
 *   slashes     only / separates segments, or \, %2F, %5C and overlong UTF-8 do so too
 *   parameters  ;x=1 belongs to its segment, or is dropped before or after %-decoding
 *   decoding    %-encoding is resolved once, or twice
 *   dots        dot segments are kept, or resolved before or after decoding, and before or after
 *               empty segments are dropped
 *   host        //name/path is the path /name/path, or the path /path of a host
 *
 * A limit applies if any reading matches, an exemption only if all readings match (http.h). All
 * readings except the raw one have no empty segments and no slash at the end. If %2F is not a slash
 * in a reading, it stays encoded, and a percent sign is always %25, so that different paths stay
 * different. The raw reading is not decoded at all, and is the last one in the list. No descriptor
 * takes a value from the raw reading, because a pattern that matches it also matches a decoded
 * reading. A plain path has one reading, the path itself. */
#ifndef WR_RULES_HTTP_TARGET_H
#define WR_RULES_HTTP_TARGET_H

#include "base/str.h"
#include "rules/http_memory.h"
#include "rules/requests.h"

#define WR_READINGS_MAX 64 /* maximum number of different readings; a path with more is refused */

struct wr_target {
	/* Authority of an absolute target, without the user; otherwise empty. */
	struct weir_str authority;
	struct weir_str path;  /* the path before decoding */
	struct weir_str query; /* the query before decoding, without the ? */
	struct weir_str readings[WR_READINGS_MAX];
	uint32_t reading_count; /* number of readings, including the raw one */
	uint32_t value_count;   /* number of readings except the raw one; only these give values */
	/* True if servers may read the path in ways that are not in `readings`. An exemption that
	 * depends on the path or the host then does not apply. */
	bool unsure;
};

/* Splits a target into its parts. Returns 0, or WEIR_EFORMAT if the target has a fragment or a
 * control character. A target with one of these is refused, because servers treat it in different
 * ways: some cut it off before the fragment or the control character, others drop or keep the
 * character. No client needs such a target. */
int wr_target_split(struct weir_str target, struct wr_target *split);

/* Splits a plain target, which needs no decoding. Most targets are plain. The only reading of a
 * plain target is its path. Returns false if the target is not plain. */
bool wr_target_plain(struct weir_str target, struct wr_target *split);

/* http_readings.c: makes the readings of a target. Returns 0. Returns WEIR_EROOM if there is not
 * enough memory, or there are too many readings or too much work. Returns WEIR_EFORMAT if the path
 * contains an encoded zero byte, at which some servers stop. */
int wr_target_read(struct wr_target *target, struct wr_rules_http_memory *memory);

/* Sets *bare to a reading without its parameters (;x=1), so that parameters do not give a client
 * new counters. The path is not copied if it has no parameters. Returns 0 or WEIR_EROOM. */
int wr_path_bare(struct weir_str path, struct wr_rules_http_memory *memory, struct weir_str *bare);

/* Returns the byte that %XX at raw.ptr[i] stands for, or -1 if there is no valid escape. */
static inline int wr_escaped_byte(struct weir_str raw, size_t i)
{
	int high, low;

	if (raw.ptr[i] != '%' || raw.len - i < 3)
		return -1;
	high = wr_hex(raw.ptr[i + 1]);
	low = wr_hex(raw.ptr[i + 2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Returns whether a reading matches a pattern. If so, captures[i] is the text of the i-th {part} of
 * the pattern. */
bool wr_path_match(const struct wr_path *pattern, struct weir_str path,
		   struct weir_str captures[WR_CAPTURES_MAX]);

/* Writes a host in canonical form: lower case, no port, no dot at the end, an address in its
 * shortest spelling. The result is empty if there is no host. Sets *unsure if servers may read the
 * host differently (an escape, two dots, a port that is no number). A host that is unsure does not
 * exempt the request from limits. Returns 0 or WEIR_EROOM. */
int wr_host_read(struct weir_str host, struct wr_rules_http_memory *memory,
		 struct weir_str *canonical, bool *unsure);

#endif
