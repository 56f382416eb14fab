/* weir_tick: advances the history once a second. Called by any number of processes.
 *
 * The first process that calls in a second claims this second: it writes the second and a unique
 * number into the header. Then it does the work and sets the claim to 0. A claim older than three
 * seconds belongs to a dead or stopped process, and another process replaces it. A process whose
 * claim was replaced ends its work before the next rule, so a stopped process that continues writes
 * at most the point of one rule.
 *
 * Each rule has a rate over about the last minute. Free series are given to the rules with the
 * highest rates. If no series is free, a busy rule can take over the series of an idle rule. The
 * rate of the busy rule must be more than twice the rate of the idle rule. The series is then
 * retired, and given away at the next tick, when no thread counts keys in it any more. */
#include "stats/stats.h"

#include <string.h>
#include <unistd.h>

#define NUMBER_BITS 24
#define CLAIM_S 3 /* age in seconds at which another process replaces a claim (see above) */
/* Clocks of processes may differ by this many seconds. A larger difference means that a clock was
 * set back. */
#define BACK_S 5
#define MEMORY_S 64 /* seconds over which a rate is averaged */
/* A rule with at least this many decisions per 1000 s may take over a series that does not have a
 * full history yet, see takes_over(). */
#define BUSY_MILLI 1000
#define BUSIEST 64 /* at most this many rules get a series in one tick */
#define IDLEST 8   /* at most this many series are retired in one tick */
#define FADES 64   /* in one tick, the counts of top keys are halved for at most this many rules */
#define SAMPLES_PER_S 1000
/* If the counts of a rule's top keys add up to more than this, the next tick halves them, even if
 * they were already halved in this five-minute period. The reason is that a count has 32 bits. */
#define TOTAL_MAX (1ull << 31)

struct ranked {
	uint32_t slot;
	uint64_t rate_milli;
	bool fresh; /* the rule had no counts at the previous tick */
	uint64_t totals[WR_HISTORY_LINES];
};

struct tick {
	const struct wr_stats_map *map;
	const struct wr_history_map *history;
	uint64_t claim;
	uint64_t from_s, now_s;
	uint64_t gap_s; /* seconds since the previous tick; 1 if the clock went back */
	uint64_t all[WR_HISTORY_LINES];
	struct ranked busiest[BUSIEST]; /* rules without a series, highest rate first */
	struct ranked idlest[IDLEST];   /* rules with a series, lowest rate first */
	size_t busy, idle;
};

static bool claim_is_held(const struct tick *tick)
{
	return __atomic_load_n(&tick->history->header->claim, __ATOMIC_RELAXED) == tick->claim;
}

/* ---- rates ---- */

static uint64_t smooth_rate(const struct tick *tick, uint64_t rate, uint64_t delta)
{
	uint64_t now = delta * 1000 / tick->gap_s;
	uint64_t weight = tick->gap_s < MEMORY_S ? tick->gap_s : MEMORY_S;

	if (now >= rate)
		return rate + (now - rate) * weight / MEMORY_S;
	return rate - ((rate - now) * weight + MEMORY_S - 1) / MEMORY_S;
}

/* Returns the number of decisions. */
static uint64_t read_totals(const struct wr_stats_map *map, uint32_t slot,
			    uint64_t totals[WR_HISTORY_LINES])
{
	uint64_t counts[WR_STAT_COUNT];

	wr_stats_read(map, slot, counts);
	totals[WR_LINE_ADMITTED] = counts[WR_STAT_admitted];
	totals[WR_LINE_REFUSED] = counts[WR_STAT_refused] + counts[WR_STAT_deferred];
	totals[WR_LINE_SHADOWED] = counts[WR_STAT_shadowed];
	totals[WR_LINE_DELAYED] = counts[WR_STAT_delayed];
	return totals[WR_LINE_ADMITTED] + totals[WR_LINE_REFUSED] + totals[WR_LINE_SHADOWED];
}

/* Returns the number of decisions of the rule that the costs belong to, so that costs have a series
 * if their rule has one. Units would be no measure: a request can cost thousands of them. */
static uint64_t read_cost_totals(const struct tick *tick, uint32_t slot,
				 const struct wr_series *series, uint64_t totals[WR_HISTORY_LINES])
{
	uint64_t ignored[WR_HISTORY_LINES], slot_seconds = 0, gap_s = tick->gap_s;
	uint32_t rule;

	if (series) {
		slot_seconds = series->last[WR_SLOT_LINE_SECONDS];
		gap_s = tick->now_s > series->upto_s ? tick->now_s - series->upto_s : 1;
	}
	rule = wr_stats_cost_totals(tick->map, slot, slot_seconds, gap_s, totals);
	return rule == WEIR_STAT_OTHER ? 0 : read_totals(tick->map, rule, ignored);
}

/* Returns the smallest shift for which sampling one decision in 2^shift gives at most SAMPLES_PER_S
 * samples per second, but at most WR_TRACK_SHIFT_MAX. */
static unsigned shift_for(uint64_t rate_milli)
{
	unsigned shift = 0;

	while (shift < WR_TRACK_SHIFT_MAX && rate_milli >> shift > SAMPLES_PER_S * 1000)
		shift++;
	return shift;
}

/* ---- assigning series ---- */

/* Inserts an item into a list that is sorted by rate. A full list drops its last item. */
static void insert_ranked(struct ranked *list, size_t *count, size_t max, const struct ranked *item,
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

static void give_series(const struct tick *tick, uint32_t at, const struct ranked *to)
{
	static const uint64_t nothing[WR_HISTORY_LINES];
	struct wr_series *series = &tick->history->series[at];

	__atomic_store_n(&series->owner, 0, __ATOMIC_RELEASE);
	wr_top_clear(&tick->history->tops[at - 1]);
	/* The new list counts as halved in this five-minute period, so that the next tick does not
	 * halve it. */
	wr_stats_store(&tick->history->tops[at - 1].faded, tick->now_s / WR_FADE_S);
	if (to->fresh)
		wr_series_begin(series, nothing, tick->from_s);
	else
		wr_series_begin(series, to->totals, tick->now_s);
	wr_series_record(series, to->totals, tick->now_s);
	wr_stats_store(&series->retired_s, 0);
	wr_stats_store(&series->since_s, tick->now_s);
	__atomic_store_n(&series->owner, to->slot + 1, __ATOMIC_RELEASE);
	/* Release: paired with the acquire loads of the track in history.c, top.c and
	 * limiter/sample.c. A thread that sees the new track also sees the new series. */
	__atomic_store_n(&tick->history->track[to->slot], wr_track_make(at, 0, 0),
			 __ATOMIC_RELEASE);
}

/* Returns true if a series has no owner, or was retired before this tick. If a process was killed
 * in give_series(), it can happen that the track of the owner does not name the series, although
 * the series is not retired. The function then retires the series and returns false. At the next
 * tick the series is free. */
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
		wr_stats_store(&series->retired_s, tick->now_s);
	return series->retired_s != tick->now_s;
}

/* Returns whether `busy` takes over the series of `idle`. A rule with less than one decision per
 * second must wait until the series has a full history, so that slow rules do not replace each
 * other continuously. */
static bool takes_over(const struct tick *tick, const struct ranked *busy,
		       const struct ranked *idle, const struct wr_series *series)
{
	return busy->rate_milli > 2 * idle->rate_milli &&
	       (busy->rate_milli >= BUSY_MILLI || !series ||
		tick->now_s - series->since_s > WEIR_HISTORY_SECONDS);
}

/* Gives free series to the busiest rules. If more rules want a series, retires the series of the
 * idlest rules; the next tick gives the retired series away. */
static void share_out_series(struct tick *tick)
{
	uint32_t at = 1;
	size_t given = 0;

	while (given < tick->busy && at < tick->history->series_count && claim_is_held(tick)) {
		if (is_free(tick, at))
			give_series(tick, at, &tick->busiest[given++]);
		at++;
	}
	for (size_t i = 0; given + i < tick->busy && i < tick->idle; i++) {
		uint32_t slot = tick->idlest[i].slot, *track = &tick->history->track[slot];
		struct wr_series *series = series_of(tick, slot, *track);

		if (!takes_over(tick, &tick->busiest[given + i], &tick->idlest[i], series))
			continue;
		if (series)
			wr_stats_store(&series->retired_s, tick->now_s);
		__atomic_store_n(track, 0, __ATOMIC_RELEASE);
	}
}

/* ---- recording the last second of each name ---- */

/* Sets how often decisions on a name are sampled for its top keys. `delta` is the number of
 * decisions since the previous tick. */
static void set_samples(const struct tick *tick, const struct ranked *item, uint32_t track,
			struct wr_series *series, uint64_t delta)
{
	struct wr_top *top = &tick->history->tops[wr_track_series(track) - 1];
	uint64_t refused = item->totals[WR_LINE_REFUSED] + item->totals[WR_LINE_SHADOWED];
	uint64_t before = series->last[WR_LINE_REFUSED] + series->last[WR_LINE_SHADOWED];
	uint64_t refused_delta = refused > before ? refused - before : 0;
	uint64_t refused_now = refused_delta * 1000 / tick->gap_s;
	uint64_t all_now = delta * 1000 / tick->gap_s;
	uint64_t rate = smooth_rate(tick, series->refused_milli, refused_delta);
	/* When decisions become more frequent, the fraction of decisions that is sampled falls at
	 * once. When they become less frequent, this fraction rises slowly. */
	unsigned hot = shift_for(all_now > item->rate_milli ? all_now : item->rate_milli);
	unsigned cold = shift_for(refused_now > rate ? refused_now : rate);
	uint32_t next = wr_track_make(wr_track_series(track), hot, cold);

	wr_stats_store(&series->refused_milli, rate);
	if (next != track)
		__atomic_store_n(&tick->history->track[item->slot], next, __ATOMIC_RELEASE);
	if (top->noise_shift[WEIR_TOP_HOT] < hot)
		__atomic_store_n(&top->noise_shift[WEIR_TOP_HOT], hot, __ATOMIC_RELAXED);
	if (top->noise_shift[WEIR_TOP_REFUSED] < cold)
		__atomic_store_n(&top->noise_shift[WEIR_TOP_REFUSED], cold, __ATOMIC_RELAXED);
}

static void record_name(struct tick *tick, uint32_t slot)
{
	enum wr_stats_name_kind kind = wr_stats_kind(tick->map, slot);
	struct wr_history_rate *rate = &tick->history->rates[slot];
	uint32_t track = __atomic_load_n(&tick->history->track[slot], __ATOMIC_RELAXED);
	struct ranked item = {.slot = slot, .fresh = rate->seen == 0 && tick->from_s};
	struct wr_series *series;
	uint64_t seen, delta;

	if (kind == WR_NAME_COST)
		wr_stats_expire_slots(tick->map, slot, tick->now_s * 1000000000);
	if (kind == WR_NAME_LATENCY)
		return;
	series = series_of(tick, slot, track);
	seen = kind == WR_NAME_COST ? read_cost_totals(tick, slot, series, item.totals)
				    : read_totals(tick->map, slot, item.totals);
	delta = seen > rate->seen && tick->from_s ? seen - rate->seen : 0;
	item.rate_milli = smooth_rate(tick, rate->rate_milli, delta);
	wr_stats_store(&rate->seen, seen);
	wr_stats_store(&rate->rate_milli, item.rate_milli);
	for (int i = 0; i < WR_HISTORY_LINES && kind == WR_NAME_RULE && slot != WEIR_STAT_NO_RULE;
	     i++)
		tick->all[i] += item.totals[i];
	if (series) {
		if (kind != WR_NAME_COST)
			set_samples(tick, &item, track, series, delta);
		wr_series_record(series, item.totals, tick->now_s);
		insert_ranked(tick->idlest, &tick->idle, IDLEST, &item, false);
	} else if (item.rate_milli) {
		insert_ranked(tick->busiest, &tick->busy, BUSIEST, &item, true);
	}
}

static void record_names(struct tick *tick)
{
	for (uint32_t word = 0; word < (tick->map->name_count + 63) / 64; word++) {
		uint64_t used = wr_stats_load(&tick->history->used[word]);

		if (word == 0)
			used |= (1u << WEIR_STAT_RULES) - 1;
		for (; used && claim_is_held(tick); used &= used - 1)
			record_name(tick, word * 64 + (uint32_t)__builtin_ctzll(used));
	}
}

static void fade_tops(const struct tick *tick)
{
	uint64_t period = tick->now_s / WR_FADE_S;
	int done = 0;

	for (uint32_t i = 0; i + 1 < tick->history->series_count && done < FADES; i++) {
		struct wr_top *top = &tick->history->tops[i];
		uint64_t total = wr_stats_load(&top->total[0]);

		if (total == 0 || (top->faded == period && total <= TOTAL_MAX))
			continue;
		done++;
		/* The period is stored before the counts are halved, so that no list is halved
		 * twice if the process is killed in between. */
		wr_stats_store(&top->faded, period);
		wr_top_fade(top);
	}
}

static void advance_history(struct tick *tick)
{
	struct wr_series *all = &tick->history->series[0];

	record_names(tick);
	if (!claim_is_held(tick))
		return;
	if (tick->history->series_count) {
		if (all->upto_s == 0)
			wr_series_begin(all, tick->all, tick->now_s);
		wr_series_record(all, tick->all, tick->now_s);
	}
	share_out_series(tick);
	fade_tops(tick);
}

/* ---- the claim ---- */

static bool second_is_done(uint64_t tick_s, uint64_t now_s)
{
	return now_s <= tick_s && tick_s - now_s <= BACK_S;
}

static uint64_t claim_second(struct wr_history_header *header, uint64_t now_s)
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
	if (second_is_done(__atomic_load_n(&header->tick_s, __ATOMIC_ACQUIRE), tick.now_s))
		return 0;
	tick.claim = claim_second(header, tick.now_s);
	if (!tick.claim)
		return 0;
	tick.map = &map;
	tick.history = &map.history;
	tick.from_s = wr_stats_load(&header->tick_s);
	tick.gap_s = tick.now_s > tick.from_s && tick.from_s ? tick.now_s - tick.from_s : 1;
	done = second_is_done(tick.from_s, tick.now_s);
	if (!done) {
		advance_history(&tick);
		if (claim_is_held(&tick))
			wr_stats_store(&header->tick_s, tick.now_s);
	}
	/* Release: claim_second() of the next tick loads header->claim with acquire, so the next
	 * tick sees all writes of this one. */
	return __atomic_compare_exchange_n(&header->claim, &tick.claim, 0, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED) &&
	       !done;
}
