/* Timing, medians and the JSON file of figures. */
#ifndef WR_BENCH_MEASURE_H
#define WR_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

uint64_t wr_bench_clock_ns(void);

/* Sorts the values. */
double wr_bench_median(double *values, size_t count);

/* One flat object: figures are written as they are reported, with what they should reach. */
int wr_bench_begin(const char *path);
void wr_bench_figure(const char *name, double value, const char *remark);
int wr_bench_end(void);

#endif
