/* The history of a rule. The tick computes points from totals and writes them; weir_history() reads
 * them. */
#include "stats/history.h"

#include "stats/stats.h"

#define MANTISSA_BITS 11
#define NUMBER_BITS 16
#define READ_TRIES 4

/* Packs a count into 16 bits. Counts up to 4,095 are exact. Larger counts are rounded to 12 binary
 * digits. */
static uint64_t number_pack(uint64_t count)
{
	unsigned exponent, shift;

	if (count >> MANTISSA_BITS == 0)
		return count + 1;
	shift = 63 - MANTISSA_BITS - (unsigned)__builtin_clzll(count);
	if (shift && count < UINT64_MAX >> 1) {
		/* Rounding can make `count` longer by a binary digit, so shift is computed again.
		 * */
		count += 1ull << (shift - 1);
		shift = 63 - MANTISSA_BITS - (unsigned)__builtin_clzll(count);
	}
	exponent = shift + 1;
	if (exponent > 30)
		return UINT16_MAX;
	return ((uint64_t)exponent << MANTISSA_BITS |
		(count >> shift & ((1u << MANTISSA_BITS) - 1))) +
	       1;
}

static uint64_t number_unpack(uint64_t packed)
{
	uint64_t mantissa, exponent;

	if (packed == 0)
		return 0;
	mantissa = (packed - 1) & ((1u << MANTISSA_BITS) - 1);
	exponent = (packed - 1) >> MANTISSA_BITS;
	return exponent ? (mantissa | 1u << MANTISSA_BITS) << (exponent - 1) : mantissa;
}

uint64_t wr_point_pack(const uint64_t counts[WR_HISTORY_LINES])
{
	uint64_t word = 0;

	for (int i = 0; i < WR_HISTORY_LINES; i++)
		word |= number_pack(counts[i]) << (NUMBER_BITS * i);
	return word;
}

static uint64_t number_at(uint64_t word, enum wr_history_line line)
{
	return number_unpack(word >> (NUMBER_BITS * line) & UINT16_MAX);
}

struct weir_point wr_point_unpack(uint64_t word)
{
	struct weir_point point = {
		.admitted = number_at(word, WR_LINE_ADMITTED),
		.refused = number_at(word, WR_LINE_REFUSED),
		.shadowed = number_at(word, WR_LINE_SHADOWED),
		.delayed = number_at(word, WR_LINE_DELAYED),
		.known = word != 0,
	};

	return point;
}

/* Marks the seconds in [from_s, to_s), and all minutes that contain one of them, as not known. */
static void clear_points(struct wr_series *series, uint64_t from_s, uint64_t to_s)
{
	uint64_t minutes = (to_s - 1) / 60 - from_s / 60 + 1;
	uint64_t seconds = to_s - from_s;

	for (uint64_t i = 0; i < seconds && i < WEIR_HISTORY_SECONDS; i++)
		wr_stats_store(&series->seconds[(from_s + i) % WEIR_HISTORY_SECONDS], 0);
	for (uint64_t i = 0; i < minutes && i < WEIR_HISTORY_MINUTES; i++)
		wr_stats_store(&series->minutes[(from_s / 60 + i) % WEIR_HISTORY_MINUTES], 0);
}

static void continue_from(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
			  uint64_t now_s)
{
	for (int i = 0; i < WR_HISTORY_LINES; i++) {
		wr_stats_store(&series->last[i], totals[i]);
		wr_stats_store(&series->base[i], totals[i]);
	}
	/* Release: paired with the acquire load in weir_history(). A reader that loads this upto_s
	 * also sees the points that were written before. */
	__atomic_store_n(&series->upto_s, now_s, __ATOMIC_RELEASE);
}

void wr_series_begin(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
		     uint64_t upto_s)
{
	for (int i = 0; i < WEIR_HISTORY_SECONDS; i++)
		wr_stats_store(&series->seconds[i], 0);
	for (int i = 0; i < WEIR_HISTORY_MINUTES; i++)
		wr_stats_store(&series->minutes[i], 0);
	wr_stats_store(&series->refused_milli, 0);
	continue_from(series, totals, upto_s);
}

/* The counts between two ticks. */
struct stretch {
	uint64_t from_s, gap_s;
	uint64_t last[WR_HISTORY_LINES];
	uint64_t delta[WR_HISTORY_LINES];
};

/* Returns the part of the counts that belongs to the first `i` seconds after the earlier tick. */
static uint64_t part_of_stretch(const struct stretch *stretch, int line, uint64_t i)
{
	return stretch->delta[line] * i / stretch->gap_s;
}

static void write_second(struct wr_series *series, const struct stretch *stretch, uint64_t i)
{
	uint64_t counts[WR_HISTORY_LINES];

	for (int line = 0; line < WR_HISTORY_LINES; line++)
		counts[line] =
			part_of_stretch(stretch, line, i + 1) - part_of_stretch(stretch, line, i);
	wr_stats_store(&series->seconds[(stretch->from_s + i) % WEIR_HISTORY_SECONDS],
		       wr_point_pack(counts));
}

/* Writes the point of a minute. `i` is the number of the last second of this minute. The first
 * second after the earlier tick has the number 0. */
static void write_minute(struct wr_series *series, const struct stretch *stretch, uint64_t i)
{
	uint64_t minute = (stretch->from_s + i) / 60;
	uint64_t counts[WR_HISTORY_LINES], ends[WR_HISTORY_LINES];

	for (int line = 0; line < WR_HISTORY_LINES; line++) {
		uint64_t base = wr_stats_load(&series->base[line]);

		ends[line] = stretch->last[line] + part_of_stretch(stretch, line, i + 1);
		counts[line] = ends[line] > base ? ends[line] - base : 0;
	}
	wr_stats_store(&series->minutes[minute % WEIR_HISTORY_MINUTES], wr_point_pack(counts));
	for (int line = 0; line < WR_HISTORY_LINES; line++)
		wr_stats_store(&series->base[line], ends[line]);
}

/* The totals are stored before the points. A process that is killed in between loses some history,
 * but no count is recorded twice. */
void wr_series_record(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
		      uint64_t now_s)
{
	struct stretch stretch = {.from_s = wr_stats_load(&series->upto_s)};

	if (now_s == stretch.from_s)
		return;
	if (now_s < stretch.from_s || now_s - stretch.from_s > WEIR_HISTORY_SECONDS) {
		bool back = now_s < stretch.from_s;

		clear_points(series, back ? now_s : stretch.from_s, back ? stretch.from_s : now_s);
		continue_from(series, totals, now_s);
		return;
	}
	stretch.gap_s = now_s - stretch.from_s;
	for (int i = 0; i < WR_HISTORY_LINES; i++) {
		stretch.last[i] = wr_stats_load(&series->last[i]);
		stretch.delta[i] = totals[i] > stretch.last[i] ? totals[i] - stretch.last[i] : 0;
		wr_stats_store(&series->last[i], totals[i]);
	}
	for (uint64_t i = 0; i < stretch.gap_s; i++) {
		write_second(series, &stretch, i);
		if ((stretch.from_s + i + 1) % 60 == 0)
			write_minute(series, &stretch, i);
	}
	__atomic_store_n(&series->upto_s, now_s, __ATOMIC_RELEASE);
}

/* ---- reading ---- */

static size_t read_points(const struct wr_series *series, uint64_t end_s, enum weir_span span,
			  struct weir_point *points, size_t max)
{
	uint64_t ring = span == WEIR_SECONDS ? WEIR_HISTORY_SECONDS : WEIR_HISTORY_MINUTES;
	uint64_t end = end_s / span;
	size_t count = max < ring ? max : ring;

	if (count > end)
		count = end;
	for (size_t i = 0; i < count; i++) {
		uint64_t at = (end - count + i) % ring;

		points[i] = wr_point_unpack(wr_stats_load(
			span == WEIR_SECONDS ? &series->seconds[at] : &series->minutes[at]));
	}
	return count;
}

/* Returns the series of a slot, or NULL if the slot has no series. */
static const struct wr_series *series_of(const struct wr_stats_map *map, uint32_t slot)
{
	const struct wr_history_map *history = &map->history;
	uint32_t at = 0;

	if (slot != WEIR_STAT_ALL) {
		if (slot >= map->name_count)
			return NULL;
		/* Acquire: paired with the release store in give_series() (tick.c). A reader that
		 * sees the track also sees the new series. */
		at = wr_track_series(__atomic_load_n(&history->track[slot], __ATOMIC_ACQUIRE));
		if (at == 0)
			return NULL;
	}
	return at < history->series_count ? &history->series[at] : NULL;
}

static bool owned_by(const struct wr_series *series, uint32_t slot)
{
	return slot == WEIR_STAT_ALL ||
	       __atomic_load_n(&series->owner, __ATOMIC_ACQUIRE) == slot + 1;
}

int weir_history(struct weir_table *table, uint32_t slot, enum weir_span span,
		 struct weir_point *points, size_t max, uint64_t *end_s)
{
	const struct wr_series *series;
	struct wr_stats_map map;

	if (!table || (!points && max) || !end_s || (span != WEIR_SECONDS && span != WEIR_MINUTES))
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	series = series_of(&map, slot);
	for (int i = 0; series && i < READ_TRIES; i++) {
		uint64_t upto_s = __atomic_load_n(&series->upto_s, __ATOMIC_ACQUIRE);
		size_t count;

		if (upto_s == 0 || !owned_by(series, slot))
			return WEIR_ENOENT;
		count = read_points(series, upto_s, span, points, max);
		*end_s = upto_s - upto_s % span;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* If a tick has run meanwhile, new points may have replaced the oldest points. Then
		 * the points are read again. */
		if (owned_by(series, slot) && wr_stats_load(&series->upto_s) == upto_s)
			return (int)count;
	}
	return WEIR_ENOENT;
}
