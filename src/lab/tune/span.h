/* The length of a log, without its long gaps, and requests whose times are far from the others.
 *
 * A gap between two requests counts at most WR_LAB_SPAN_GAP_NS. So one line with a wrong time, such
 * as one of 1970, adds at most an hour, and not 56 years. A length that is too short gives looser
 * limits.
 *
 * Strays are fewer than WR_LAB_STRAYS requests at one end of the log, if the gap between them and the
 * rest is longer than ten times the length of the rest. They do not count at all.
 *
 * Example: a log of two hours, with one line of 1970 before it. The line is a stray, and the log is
 * two hours long. */
#ifndef WR_LAB_TUNE_SPAN_H
#define WR_LAB_TUNE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_LAB_SPAN_GAP_NS (3600ull * 1000000000)
#define WR_LAB_SPAN_LEAST_NS (600ull * 1000000000) /* a shorter log counts as this long */
#define WR_LAB_STRAYS 10u                          /* strays are fewer than this */
#define WR_LAB_STRAY_TIMES 10u

/* A state of zeros is a log without requests. */
struct wr_lab_span {
	uint64_t requests;
	uint64_t length_ns;               /* sum of the gaps, each up to WR_LAB_SPAN_GAP_NS */
	uint64_t first_ns[WR_LAB_STRAYS]; /* times of the first requests */
	uint64_t last_ns[WR_LAB_STRAYS];  /* times of the latest requests, the newest first */
};

/* The requests at one end of a log that are far from the others. */
struct wr_lab_strays {
	uint64_t requests;          /* 0: there are none */
	uint64_t first_ns, last_ns; /* their times */
	uint64_t rest_ns;           /* time of the nearest of the other requests */
	uint64_t length_ns;         /* their part of the length of the log, with the gap */
};

/* Adds a request. Times do not go back. */
void wr_lab_span_add(struct wr_lab_span *span, uint64_t time_ns);

/* Finds the strays at the end of the log, or at its beginning. The others are at least WR_LAB_STRAYS
 * requests. */
struct wr_lab_strays wr_lab_span_strays(const struct wr_lab_span *span, bool at_end);

/* Returns the length of the log without strays, at least WR_LAB_SPAN_LEAST_NS. */
uint64_t wr_lab_span_length(const struct wr_lab_span *span);

#endif
