/* Counts durations in classes, for percentiles in fixed memory. A class is at most 1/64 wide, so a
 * percentile is at most 1.6 % too high. */
#ifndef WR_LAB_SIMULATE_HISTOGRAM_H
#define WR_LAB_SIMULATE_HISTOGRAM_H

#include <stdint.h>

#define WR_LAB_HISTOGRAM_CLASSES (59u * 64u)

struct wr_lab_histogram {
	uint64_t count, max_ns;
	double sum_ns;
	uint64_t classes[WR_LAB_HISTOGRAM_CLASSES];
};

static inline unsigned wr_lab_histogram_class(uint64_t ns)
{
	unsigned octave;

	if (ns < 64)
		return (unsigned)ns;
	octave = 63 - (unsigned)__builtin_clzll(ns) - 6;
	return (octave + 1) * 64 + (unsigned)((ns >> octave) - 64);
}

static inline void wr_lab_histogram_add(struct wr_lab_histogram *histogram, uint64_t ns)
{
	histogram->count++;
	histogram->sum_ns += (double)ns;
	histogram->classes[wr_lab_histogram_class(ns)]++;
	if (ns > histogram->max_ns)
		histogram->max_ns = ns;
}

static inline void wr_lab_histogram_merge(struct wr_lab_histogram *into,
					  const struct wr_lab_histogram *from)
{
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	for (unsigned i = 0; i < WR_LAB_HISTOGRAM_CLASSES; i++)
		into->classes[i] += from->classes[i];
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
}

/* Returns the smallest duration that at least `share` (0 to 1) of the durations do not exceed,
 * rounded up to the end of its class. Returns 0 if nothing was counted. */
static inline uint64_t wr_lab_histogram_percentile(const struct wr_lab_histogram *histogram,
						   double share)
{
	double rank = share * (double)histogram->count, seen = 0;

	for (unsigned i = 0; i < WR_LAB_HISTOGRAM_CLASSES; i++) {
		uint64_t end_ns = i;

		seen += (double)histogram->classes[i];
		if (histogram->classes[i] == 0 || seen < rank)
			continue;
		if (i >= 64)
			end_ns = ((uint64_t)(i % 64 + 65) << (i / 64 - 1)) - 1;
		return end_ns < histogram->max_ns ? end_ns : histogram->max_ns;
	}
	return histogram->max_ns;
}

static inline double wr_lab_histogram_mean(const struct wr_lab_histogram *histogram)
{
	return histogram->count ? histogram->sum_ns / (double)histogram->count : 0;
}

#endif
