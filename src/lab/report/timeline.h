/* Counts of events over time in bounded memory. A timeline begins with buckets of one second. When
 * all buckets are in use, pairs of buckets are joined, so that each bucket lasts twice as long. */
#ifndef WR_LAB_REPORT_TIMELINE_H
#define WR_LAB_REPORT_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#define WR_LAB_BUCKETS 1024u /* a power of two */
#define WR_LAB_TRACKS 4u

/* A timeline that is all zero has no event. */
struct wr_lab_timeline {
	uint64_t start_s; /* Unix time of the first bucket; a multiple of width_s */
	uint64_t width_s; /* 1, 2, 4, …; 0: no event yet */
	uint32_t used;    /* number of buckets up to the latest event */
	/* The first and the latest second with an event. They say which part of the first and of
	 * the last bucket the events cover. */
	uint64_t first_s, last_s;
	double counts[WR_LAB_TRACKS][WR_LAB_BUCKETS];
	/* The largest sum of one second, per track, and the second in which it occurred. */
	uint64_t peak[WR_LAB_TRACKS], peak_s[WR_LAB_TRACKS];
	uint64_t second_s;              /* the current second */
	uint64_t second[WR_LAB_TRACKS]; /* sums of the current second */
};

/* Adds `amount` to a track. Times may go back by any amount. A time before the first bucket counts
 * in the first bucket. For the peaks, a time before the current second counts in the current
 * second; the peaks are exact if times do not go back. */
void wr_lab_timeline_add(struct wr_lab_timeline *timeline, unsigned track, uint64_t time_ns,
			 uint64_t amount);

/* Fills x with the start times of the buckets in seconds, and y with the rates of a track per
 * second, for a plot with steps. Both have room for WR_LAB_BUCKETS values. The rates of the first
 * and the last bucket are those of the seconds between the first and the latest event. Returns the
 * number of buckets. */
size_t wr_lab_timeline_rates(const struct wr_lab_timeline *timeline, unsigned track, double *x,
			     double *y);

#endif
