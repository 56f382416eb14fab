/* Moving history on, once a second.
 *
 * Whoever comes first claims the second and does the work; others go away. A claim that is older
 * than three seconds is a dead or stopped process's and is taken over; who finds his claim gone
 * stops, so what a sleeper may still write when he wakes up is one rule's point.
 *
 * The choice of rules: each has a rate, of about the last minute. Free series go to the busiest
 * without one. If there are none, those that have more than twice the rate of the idlest with one
 * take over: its series is retired now and given away at the next tick, when nobody still counts
 * keys there. */
#include "stats/stats.h"

#include <string.h>
#include <unistd.h>

#define NUMBER_BITS 24
#define CLAIM_S 3   /* how long a claim is respected */
#define BACK_S 5    /* clocks of processes may differ by so much; beyond that it was set back */
#define MEMORY_S 64 /* of a rate */
#define BUSY_MILLI 1000
#define BUSIEST 64 /* given a series in one tick */
#define IDLEST 8   /* retired in one tick */
#define FADES 64   /* top keys halved in one tick */
#define SAMPLES_PER_S 1000
#define TOTAL_MAX (1ull << 31) /* of a list; above it is halved at once: counts have 32 bits */

struct ranked {
	uint32_t slot;
	uint64_t rate_milli;
	bool fresh; /* all it has was counted since the last tick */
	uint64_t totals[WR_HISTORY_LINES];
};

struct tick {
	const struct wr_stats_map *map;
	const struct wr_history_map *history;
	uint64_t claim;
	uint64_t from_s, now_s;
	uint64_t gap_s; /* since the last one; 1 if time went back */
	uint64_t all[WR_HISTORY_LINES];
	struct ranked busiest[BUSIEST]; /* without a series, busiest first */
	struct ranked idlest[IDLEST];   /* with one, idlest first */
	size_t busy, idle;
};

static bool still_mine(const struct tick *tick)
{
	return __atomic_load_n(&tick->history->header->claim, __ATOMIC_RELAXED) == tick->claim;
}

/* ---- rates ---- */

static uint64_t decisions(const uint64_t totals[WR_HISTORY_LINES])
{
	return totals[WR_LINE_ADMITTED] + totals[WR_LINE_REFUSED] + totals[WR_LINE_SHADOWED];
}

static uint64_t smooth(const struct tick *tick, uint64_t rate, uint64_t delta)
{
	uint64_t now = delta * 1000 / tick->gap_s;
	uint64_t weight = tick->gap_s < MEMORY_S ? tick->gap_s : MEMORY_S;

	if (now >= rate)
		return rate + (now - rate) * weight / MEMORY_S;
	return rate - ((rate - now) * weight + MEMORY_S - 1) / MEMORY_S;
}

static void read_totals(const struct wr_stats_map *map, uint32_t slot,
			uint64_t totals[WR_HISTORY_LINES])
{
	uint64_t counts[WR_STAT_COUNT];

	wr_stats_read(map, slot, counts);
	totals[WR_LINE_ADMITTED] = counts[WR_STAT_admitted];
	totals[WR_LINE_REFUSED] = counts[WR_STAT_refused] + counts[WR_STAT_deferred];
	totals[WR_LINE_SHADOWED] = counts[WR_STAT_shadowed];
	totals[WR_LINE_DELAYED] = counts[WR_STAT_delayed];
}

/* One decision in two to this power is few enough to look at. */
static unsigned shift_for(uint64_t rate_milli)
{
	unsigned shift = 0;

	while (shift < WR_TRACK_SHIFT_MAX && rate_milli >> shift > SAMPLES_PER_S * 1000)
		shift++;
	return shift;
}

/* ---- who has a series ---- */

/* Inserts into a list that is sorted by `before`; the last one may fall off. */
static void rank(struct ranked *list, size_t *count, size_t max, const struct ranked *item,
		 bool busiest_first)
{
	size_t at = *count;

	while (at > 0 && (busiest_first ? list[at - 1].rate_milli < item->rate_milli
					: list[at - 1].rate_milli > item->rate_milli))
		at--;
	if (at == max)
		return;
	*count += *count < max;
	memmove(&list[at + 1], &list[at], (*count - at - 1) * sizeof *list);
	list[at] = *item;
}

static struct wr_series *series_of(const struct tick *tick, uint32_t slot, uint32_t track)
{
	uint32_t at = wr_track_series(track);
	struct wr_series *series = &tick->history->series[at];

	if (at == 0 || at >= tick->history->series_count || series->owner != slot + 1)
		return NULL;
	return series;
}

static void retire(const struct tick *tick, uint32_t slot)
{
	uint32_t *track = &tick->history->track[slot];
	struct wr_series *series = series_of(tick, slot, *track);

	if (series)
		wr_store(&series->retired_s, tick->now_s);
	__atomic_store_n(track, 0, __ATOMIC_RELEASE);
}

static void give(const struct tick *tick, uint32_t at, const struct ranked *to)
{
	static const uint64_t nothing[WR_HISTORY_LINES];
	struct wr_series *series = &tick->history->series[at];

	__atomic_store_n(&series->owner, 0, __ATOMIC_RELEASE);
	wr_top_clear(&tick->history->tops[at - 1]);
	/* It has begun now: the end of these five minutes halves it, not the next second. */
	wr_store(&tick->history->tops[at - 1].faded, tick->now_s / WR_FADE_S);
	if (to->fresh)
		wr_series_begin(series, nothing, tick->from_s);
	else
		wr_series_begin(series, to->totals, tick->now_s);
	wr_series_record(series, to->totals, tick->now_s);
	wr_store(&series->retired_s, 0);
	wr_store(&series->since_s, tick->now_s);
	__atomic_store_n(&series->owner, to->slot + 1, __ATOMIC_RELEASE);
	/* Paired with the loads of readers and of those who count keys. */
	__atomic_store_n(&tick->history->track[to->slot], wr_track_make(at, 0, 0),
			 __ATOMIC_RELEASE);
}

/* Nobody's, or retired before this tick. One whose owner does not know of it was being given away
 * by someone who was killed. */
static bool is_free(const struct tick *tick, uint32_t at)
{
	struct wr_series *series = &tick->history->series[at];
	uint32_t owner = series->owner;

	if (owner == 0)
		return true;
	if (owner <= tick->map->name_count &&
	    wr_track_series(tick->history->track[owner - 1]) == at)
		return false;
	if (series->retired_s == 0)
		wr_store(&series->retired_s, tick->now_s);
	return series->retired_s != tick->now_s;
}

/* Rules with a decision now and then do not push each other out all the time. */
static bool takes_over(const struct tick *tick, const struct ranked *busy,
		       const struct ranked *idle)
{
	const struct wr_series *series =
		series_of(tick, idle->slot, tick->history->track[idle->slot]);

	return busy->rate_milli > 2 * idle->rate_milli &&
	       (busy->rate_milli >= BUSY_MILLI || !series ||
		tick->now_s - series->since_s > WEIR_HISTORY_SECONDS);
}

static void share_out(struct tick *tick)
{
	uint32_t at = 1;
	size_t given = 0;

	while (given < tick->busy && at < tick->history->series_count && still_mine(tick)) {
		if (is_free(tick, at))
			give(tick, at, &tick->busiest[given++]);
		at++;
	}
	for (size_t i = 0; given + i < tick->busy && i < tick->idle; i++)
		if (takes_over(tick, &tick->busiest[given + i], &tick->idlest[i]))
			retire(tick, tick->idlest[i].slot);
}

/* ---- a second of a name ---- */

static void set_samples(const struct tick *tick, const struct ranked *item, uint32_t track,
			struct wr_series *series, uint64_t delta)
{
	struct wr_top *top = &tick->history->tops[wr_track_series(track) - 1];
	uint64_t refused = item->totals[WR_LINE_REFUSED] + item->totals[WR_LINE_SHADOWED];
	uint64_t before = series->last[WR_LINE_REFUSED] + series->last[WR_LINE_SHADOWED];
	uint64_t refused_delta = refused > before ? refused - before : 0;
	uint64_t refused_now = refused_delta * 1000 / tick->gap_s;
	uint64_t all_now = delta * 1000 / tick->gap_s;
	uint64_t rate = smooth(tick, series->refused_milli, refused_delta);
	/* Up at once, down slowly. */
	unsigned hot = shift_for(all_now > item->rate_milli ? all_now : item->rate_milli);
	unsigned cold = shift_for(refused_now > rate ? refused_now : rate);
	uint32_t next = wr_track_make(wr_track_series(track), hot, cold);

	wr_store(&series->refused_milli, rate);
	if (next != track)
		__atomic_store_n(&tick->history->track[item->slot], next, __ATOMIC_RELEASE);
	if (top->noise_shift[WEIR_TOP_HOT] < hot)
		__atomic_store_n(&top->noise_shift[WEIR_TOP_HOT], hot, __ATOMIC_RELAXED);
	if (top->noise_shift[WEIR_TOP_REFUSED] < cold)
		__atomic_store_n(&top->noise_shift[WEIR_TOP_REFUSED], cold, __ATOMIC_RELAXED);
}

static void visit(struct tick *tick, uint32_t slot)
{
	enum wr_name_kind kind = wr_stats_kind(tick->map, slot);
	struct wr_pace *pace = &tick->history->paces[slot];
	uint32_t track = __atomic_load_n(&tick->history->track[slot], __ATOMIC_RELAXED);
	struct ranked item = {.slot = slot, .fresh = pace->seen == 0 && tick->from_s};
	struct wr_series *series;
	uint64_t seen, delta;

	if (kind == WR_NAME_LATENCY)
		return;
	read_totals(tick->map, slot, item.totals);
	seen = decisions(item.totals);
	delta = seen > pace->seen && tick->from_s ? seen - pace->seen : 0;
	item.rate_milli = smooth(tick, pace->rate_milli, delta);
	wr_store(&pace->seen, seen);
	wr_store(&pace->rate_milli, item.rate_milli);
	for (int i = 0; i < WR_HISTORY_LINES && kind == WR_NAME_RULE && slot != WEIR_STAT_NO_RULE;
	     i++)
		tick->all[i] += item.totals[i];
	series = series_of(tick, slot, track);
	if (series) {
		set_samples(tick, &item, track, series, delta);
		wr_series_record(series, item.totals, tick->now_s);
		rank(tick->idlest, &tick->idle, IDLEST, &item, false);
	} else if (item.rate_milli) {
		rank(tick->busiest, &tick->busy, BUSIEST, &item, true);
	}
}

static void visit_all(struct tick *tick)
{
	for (uint32_t word = 0; word < (tick->map->name_count + 63) / 64; word++) {
		uint64_t used = wr_load(&tick->history->used[word]);

		if (word == 0)
			used |= (1u << WEIR_STAT_RULES) - 1;
		for (; used && still_mine(tick); used &= used - 1)
			visit(tick, word * 64 + (uint32_t)__builtin_ctzll(used));
	}
}

static void fade(const struct tick *tick)
{
	uint64_t period = tick->now_s / WR_FADE_S;
	int done = 0;

	for (uint32_t i = 0; i + 1 < tick->history->series_count && done < FADES; i++) {
		struct wr_top *top = &tick->history->tops[i];
		uint64_t total = wr_load(&top->total[0]);

		if (total == 0 || (top->faded == period && total <= TOTAL_MAX))
			continue;
		done++;
		wr_store(&top->faded, period); /* first: rather not halved than twice */
		wr_top_fade(top);
	}
}

static void move_on(struct tick *tick)
{
	struct wr_series *all = &tick->history->series[0];

	visit_all(tick);
	if (!still_mine(tick))
		return;
	if (tick->history->series_count) {
		if (all->upto_s == 0)
			wr_series_begin(all, tick->all, tick->now_s);
		wr_series_record(all, tick->all, tick->now_s);
	}
	share_out(tick);
	fade(tick);
}

/* ---- the claim ---- */

static bool is_done(uint64_t tick_s, uint64_t now_s)
{
	return now_s <= tick_s && tick_s - now_s <= BACK_S;
}

static uint64_t claim(struct wr_history_header *header, uint64_t now_s)
{
	static uint32_t number;
	uint64_t seen = __atomic_load_n(&header->claim, __ATOMIC_ACQUIRE);
	uint64_t seen_s = seen >> NUMBER_BITS;
	uint64_t mine;

	if (seen && now_s < seen_s + CLAIM_S && now_s + BACK_S >= seen_s)
		return 0;
	mine = ((uint32_t)getpid() + __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED)) *
	       2654435761u;
	mine = now_s << NUMBER_BITS | (mine & ((1u << NUMBER_BITS) - 1));
	return __atomic_compare_exchange_n(&header->claim, &seen, mine, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE)
		       ? mine
		       : 0;
}

int weir_tick(struct weir_table *table, uint64_t now_ns)
{
	struct wr_history_header *header;
	struct tick tick = {.now_s = now_ns / 1000000000};
	struct wr_stats_map map;
	bool done;

	if (!table)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	header = map.history.header;
	if (is_done(__atomic_load_n(&header->tick_s, __ATOMIC_ACQUIRE), tick.now_s))
		return 0;
	tick.claim = claim(header, tick.now_s);
	if (!tick.claim)
		return 0;
	tick.map = &map;
	tick.history = &map.history;
	tick.from_s = wr_load(&header->tick_s);
	tick.gap_s = tick.now_s > tick.from_s && tick.from_s ? tick.now_s - tick.from_s : 1;
	done = is_done(tick.from_s, tick.now_s);
	if (!done) {
		move_on(&tick);
		if (still_mine(&tick))
			wr_store(&header->tick_s, tick.now_s);
	}
	/* Paired with the exchange in claim: the next one sees all that was written. */
	return __atomic_compare_exchange_n(&header->claim, &tick.claim, 0, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED) &&
	       !done;
}
