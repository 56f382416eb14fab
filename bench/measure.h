/* Timing, medians, and the JSON file of figures. */
#ifndef WR_BENCH_MEASURE_H
#define WR_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

uint64_t wr_bench_clock_ns(void);

/* Returns the median. Sorts the values. */
double wr_bench_median(double *values, size_t count);

/* The file holds one flat JSON object. wr_bench_figure writes a figure to the file, and prints it
 * with the remark. */
int wr_bench_begin(const char *path);
void wr_bench_figure(const char *name, double value, const char *remark);
int wr_bench_end(void);

#endif
