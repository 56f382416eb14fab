/* Ticks of time axes, in UTC. */
#ifndef WR_LAB_REPORT_PLOT_TIME_H
#define WR_LAB_REPORT_PLOT_TIME_H

#include "lab/report/plot_scale.h"

/* Unix times of the years 1 to 9999. */
#define WR_LAB_TIME_MIN (-62135596800.0)
#define WR_LAB_TIME_MAX 253402300799.0

/* Fills in ticks at round times. The first tick and each tick in a new day also has the date, or
 * the year if the ticks are days or months. Returns the number of ticks. */
size_t wr_lab_time_ticks(const struct wr_lab_scale *scale, unsigned most,
			 struct wr_lab_tick ticks[WR_LAB_TICKS_MAX]);

#endif
