/* Reads the numbers, durations and dates of rate limit header fields. Every function reads a whole
 * text and returns false if the text has another form. Values that are too large become the
 * largest value. */
#ifndef WR_CLIENT_MOMENT_H
#define WR_CLIENT_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

/* Reads a number without sign, such as "100". A fraction is allowed and ignored. */
bool wr_moment_count(struct weir_str text, uint64_t *count);

/* Reads a decimal number of `unit_ns`, rounded up to ns. */
bool wr_moment_units(struct weir_str text, uint64_t unit_ns, uint64_t *ns);

/* Reads decimal seconds such as "3" or "0.25", rounded up to ns. At most
 * WEIR_RATELIMIT_TIME_MAX_NS. */
bool wr_moment_seconds(struct weir_str text, uint64_t *ns);

/* Reads a duration of Go: "6m0s", "12ms", "1.2s", "1h2m3.5s". At most
 * WEIR_RATELIMIT_TIME_MAX_NS. */
bool wr_moment_duration(struct weir_str text, uint64_t *ns);

/* Reads a time of RFC 3339 such as "2026-10-21T07:28:00.5Z" or "2026-10-21 09:28:00+02:00", or an
 * HTTP date in one of its three forms (RFC 9110, section 5.6.7). now_ns decides the century of a
 * year with two digits. Returns ns since 1970 in *at_ns. Years after 2500 are read as 2500. Times
 * before 1970 are not read. */
bool wr_moment_date(struct weir_str text, uint64_t now_ns, uint64_t *at_ns);

#endif
