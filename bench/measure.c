/* A clock, medians, and the JSON file of figures, for the benchmarks in C. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static FILE *out;
static int figures;

uint64_t wr_bench_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double wr_bench_median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

int wr_bench_begin(const char *path)
{
	out = fopen(path, "w");
	if (!out) {
		perror(path);
		return -1;
	}
	fputs("{", out);
	return 0;
}

void wr_bench_figure(const char *name, double value, const char *remark)
{
	fprintf(out, "%s\n  \"%s\": %.4g", figures++ ? "," : "", name, value);
	printf("%-40s %10.4g  %s\n", name, value, remark);
	fflush(stdout);
}

int wr_bench_end(void)
{
	fputs("\n}\n", out);
	return fclose(out);
}
