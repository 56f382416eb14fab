/* Reads the times of logs: common log format, ISO 8601 and Unix times. */
#ifndef WR_LAB_LOG_TIME_H
#define WR_LAB_LOG_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_LAB_SECOND_NS 1000000000ull
/* Times of this second and later are unreadable: the limiter takes times below 2^63 ns. */
#define WR_LAB_END_S 9223372036ull

struct wr_lab_time {
	uint64_t ns; /* Unix time */
	bool whole;  /* the log states whole seconds only */
};

/* The day of the last time in the common log format. Most lines are of the same day as the line
 * before them. All zero is an empty cache. */
struct wr_lab_day {
	char text[12];   /* "20/Feb/2016:" */
	char zone[5];    /* "-0500" */
	int64_t start_s; /* Unix time of the day's start in this zone */
};

/* The functions below return whether the text is a time from 1970 up to WR_LAB_END_S, and set
 * *time if so. */

/* Reads the time of the common log format: "20/Feb/2016:00:00:45 -0500", also with a fraction of
 * the second. */
bool wr_lab_time_clf(struct weir_str text, struct wr_lab_day *day, struct wr_lab_time *time);

/* Reads "2023-11-16T18:17:03.979+01:00". A blank can stand for the T, and / for -. A time without a
 * zone is UTC. */
bool wr_lab_time_iso(struct weir_str text, struct wr_lab_time *time);

/* Reads a Unix time such as "1700000000.25". The number of digits before the point tells seconds,
 * milliseconds, microseconds and nanoseconds apart, for times since 2001-09-09. */
bool wr_lab_time_unix(struct weir_str text, struct wr_lab_time *time);

/* The same for numbers. A floating-point number is rounded to microseconds. */
bool wr_lab_time_integer(int64_t number, struct wr_lab_time *time);
bool wr_lab_time_real(double number, struct wr_lab_time *time);

/* Reads any of these texts, also in brackets. */
bool wr_lab_time_read(struct weir_str text, struct wr_lab_day *day, struct wr_lab_time *time);

#endif
