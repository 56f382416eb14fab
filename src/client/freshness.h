/* The rules of a private cache (RFC 9111): which responses can be stored, and how long a stored
 * response can be used. No clock and no files: times are arguments, in seconds since 1970. */
#ifndef WR_FETCH_FRESHNESS_H
#define WR_FETCH_FRESHNESS_H

#include "client/fields.h"

#define WR_FETCH_AGE_NONE UINT64_MAX /* the directive is not present */

/* The directives of Cache-Control that a private cache obeys. */
struct wr_fetch_directives {
	bool no_store, no_cache, only_if_cached;
	uint64_t max_age_s, min_fresh_s; /* WR_FETCH_AGE_NONE: not present */
};

/* Reads all Cache-Control fields of a block. A number that is not valid counts as 0, so that the
 * response is not used without asking. If a directive occurs twice, the smaller number counts. */
void wr_fetch_directives_read(struct weir_str block, struct wr_fetch_directives *directives);

/* When a response was requested and received, and what it said. */
struct wr_fetch_stored {
	uint64_t requested_s, received_s;
	struct weir_str fields;
};

/* Returns whether the response to a GET can be stored. Returns false for a response that could never
 * be used: without a validator and without an explicit lifetime. Refusals and errors of the server
 * are never stored. */
bool wr_fetch_can_store(struct weir_str request, unsigned status, struct weir_str response);

/* Returns whether a 304 with the fields `confirmed` is about the stored response. It is not if it
 * has an ETag of another version; if nothing is stored under an ETag, Last-Modified decides (RFC
 * 9111, section 4.3.4). W/"a" and "a" are the same version: some servers weaken the ETag of a
 * compressed body, but not that of the 304. */
bool wr_fetch_can_confirm(struct weir_str stored, struct weir_str confirmed);

/* Returns how long the response is fresh, by max-age or Expires. Without both, the result is 0: the
 * client guesses no lifetime. */
uint64_t wr_fetch_lifetime_s(const struct wr_fetch_stored *stored);

/* Returns the age of the response at now_s, with the time that it spent in other caches. */
uint64_t wr_fetch_age_s(const struct wr_fetch_stored *stored, uint64_t now_s);

/* Returns whether the response can be used for the request without asking the server. Returns false
 * if now_s is before the response was requested, because the clock was set back. A request with
 * max-age=0, or with `Pragma: no-cache` and without Cache-Control, is a reload like one with
 * no-cache. */
bool wr_fetch_is_fresh(const struct wr_fetch_stored *stored, struct weir_str request,
		       uint64_t now_s);

#endif
