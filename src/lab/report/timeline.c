/* Counts events over time; see lab/report/timeline.h. */
#include "lab/report/timeline.h"

#include <string.h>

#include "base/assert.h"

#define SECOND_NS 1000000000ull

/* Joins pairs of buckets. The new start is a multiple of the new width, so the first bucket has no
 * partner if its number is odd. */
static void join_pairs(struct wr_lab_timeline *t)
{
	uint32_t odd = t->start_s / t->width_s % 2;
	uint32_t used = (t->used + odd + 1) / 2;

	for (unsigned track = 0; track < WR_LAB_TRACKS; track++) {
		double *counts = t->counts[track];
		double joined[WR_LAB_BUCKETS] = {0};

		for (uint32_t i = 0; i < t->used; i++)
			joined[(i + odd) / 2] += counts[i];
		memcpy(counts, joined, sizeof(joined));
	}
	t->start_s -= odd * t->width_s;
	t->width_s *= 2;
	t->used = used;
}

/* Divides by the width with a shift, because each record of a log needs it. */
static uint64_t widths_until(const struct wr_lab_timeline *t, uint64_t second)
{
	return (second - t->start_s) >> __builtin_ctzll(t->width_s);
}

/* Returns the bucket of a second. Joins buckets until the second fits. */
static uint32_t bucket_of(struct wr_lab_timeline *t, uint64_t second)
{
	uint64_t bucket;

	if (second < t->start_s)
		return 0;
	while ((bucket = widths_until(t, second)) >= WR_LAB_BUCKETS)
		join_pairs(t);
	if (bucket >= t->used)
		t->used = (uint32_t)bucket + 1;
	return (uint32_t)bucket;
}

static void count_second(struct wr_lab_timeline *t, unsigned track, uint64_t second,
			 uint64_t amount)
{
	if (second > t->second_s) {
		t->second_s = second;
		memset(t->second, 0, sizeof(t->second));
	}
	t->second[track] += amount;
	if (t->second[track] > t->peak[track]) {
		t->peak[track] = t->second[track];
		t->peak_s[track] = t->second_s;
	}
}

void wr_lab_timeline_add(struct wr_lab_timeline *t, unsigned track, uint64_t time_ns,
			 uint64_t amount)
{
	uint64_t second = time_ns / SECOND_NS;

	wr_assert(track < WR_LAB_TRACKS);
	if (t->width_s == 0) {
		t->start_s = t->first_s = t->last_s = t->second_s = second;
		t->width_s = 1;
	}
	if (second > t->last_s)
		t->last_s = second;
	t->counts[track][bucket_of(t, second)] += (double)amount;
	count_second(t, track, second, amount);
}

size_t wr_lab_timeline_rates(const struct wr_lab_timeline *t, unsigned track, double *x, double *y)
{
	wr_assert(track < WR_LAB_TRACKS);
	for (uint32_t i = 0; i < t->used; i++) {
		uint64_t start = t->start_s + i * t->width_s, end = start + t->width_s;

		if (start < t->first_s)
			start = t->first_s;
		if (end > t->last_s + 1)
			end = t->last_s + 1;
		x[i] = (double)start;
		y[i] = t->counts[track][i] / (double)(end - start);
	}
	return t->used;
}
