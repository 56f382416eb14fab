/* A clock, medians, and the JSON file to which the benchmarks in C write their figures. */
#ifndef WR_BENCH_MEASURE_H
#define WR_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

uint64_t wr_bench_clock_ns(void);

/* Returns the median of the values. Sorts the array. */
double wr_bench_median(double *values, size_t count);

/* The file has one JSON object with a member for each figure. wr_bench_begin opens the file,
 * wr_bench_figure adds a figure and also prints it with the remark, and wr_bench_end closes the
 * file. wr_bench_begin returns 0, or -1 if it cannot open the file. wr_bench_end returns 0, or EOF
 * if not all figures could be written. */
int wr_bench_begin(const char *path);
void wr_bench_figure(const char *name, double value, const char *remark);
int wr_bench_end(void);

#endif
