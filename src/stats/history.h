/* The section of the table for history.
 *
 *   +--------+-------+---------+---------+----------+----------+-----------------------------+
 *   | header | hosts | used    | tracks  | rates    | numbers  | series 0 (all rules), 1, 2… |
 *   +--------+-------+---------+---------+----------+----------+-----------------------------+
 *    1024     × 256   a bit     4 bytes   16 bytes   40 bytes   × 16,448
 *                     └─────────── for each name ────────────┘
 *
 * A series is the history of one rule, in points of a second and of a minute. A track is a word
 * that tells which series a name has, and how often decisions on the name are sampled for its top
 * keys. A rate is the recent number of decisions per second. The numbers of a rule are its limit
 * and its load time.
 *
 * Once a second, one process claims the second and advances the history. This is called a tick
 * (tick.c). Only the process that runs the tick writes tracks, rates and series. A process that
 * loads rules writes their numbers, and each host writes its own entry. A point is one word, so
 * readers never see a half-written point. All sizes are computed from the size of the section and
 * the number of names. A section of zeros is empty. */
#ifndef WR_STATS_HISTORY_H
#define WR_STATS_HISTORY_H

#include <weir/stats.h>

#include "base/pair.h"
#include "stats/top.h"

#define WR_HISTORY_VERSION 1u
#define WR_HISTORY_RULES 400u /* maximum number of rules with a series */
#define WR_GAUGES_MAX 32u
#define WR_HOSTS_MIN 8u
#define WR_HOSTS_MAX 64u
#define WR_HOST_NAME 24u
#define WR_HOST_ERROR 128u

_Static_assert(WEIR_GAUGE_COUNT <= WR_GAUGES_MAX, "the header has room for all gauges");

struct wr_stats_gauge {
	int64_t value;
	uint64_t set_ns; /* 0: the gauge was never set */
};

struct wr_history_header {
	uint32_t version; /* 0: the section was never used */
	uint32_t spare;
	/* The claim of the process that advances the history now: the second (40 bits) and a number
	 * that makes the claim unique (24 bits). 0: the history is not being advanced. */
	uint64_t claim;
	uint64_t tick_s; /* all seconds before tick_s are recorded */
	uint64_t pad[5];
	struct wr_stats_gauge gauges[WR_GAUGES_MAX];
	uint64_t rest[56];
};

/* A host entry: the state of a process with an engine. `writes` is odd while the owner of the entry
 * changes the fields after `writes`. */
struct wr_stats_host {
	struct wr_pair owner; /* see stats/owner.h */
	uint64_t writes;
	uint64_t words[6]; /* the numeric fields of struct wr_stats_host_report */
	uint64_t name[WR_HOST_NAME / 8];
	uint64_t error[WR_HOST_ERROR / 8];
	uint64_t pad[4];
};

/* How often decisions are made for a name (a rule or a candidate). The names with the highest rates
 * have a series. */
struct wr_history_rate {
	uint64_t seen;       /* number of decisions up to the latest tick */
	uint64_t rate_milli; /* decisions per 1000 seconds, averaged over about a minute */
};

/* The limit of a rule or a candidate as its rule file sets it, and when it was loaded. `flags` has
 * enum weir_stat_flags in its lower 24 bits and the algorithm above them. */
#define WR_NUMBERS_FLAGS 0xffffffu
#define WR_NUMBERS_ALGORITHM 24

struct wr_rule_numbers {
	uint64_t loaded_ns;
	uint64_t since_ns; /* when the rule first had this limit; wr_stats_set_numbers() sets it */
	uint64_t period_ns;
	uint32_t limit;
	uint32_t burst;
	uint32_t flags;
	uint32_t parent; /* for a candidate and for costs: the slot of the rule */
};

/* The four counts of a point. WR_LINE_REFUSED includes deferred requests. */
enum wr_history_line {
	WR_LINE_ADMITTED,
	WR_LINE_REFUSED,
	WR_LINE_SHADOWED,
	WR_LINE_DELAYED,
	WR_HISTORY_LINES,
};

/* The four counts of a point of costs, as in struct weir_point. The last two are for limits
 * on concurrent requests. */
enum wr_history_cost_line {
	WR_COST_LINE_RESERVED = WR_LINE_ADMITTED,
	WR_COST_LINE_ACTUAL = WR_LINE_REFUSED,
	WR_COST_LINE_REFUNDED = WR_LINE_SHADOWED,
	WR_COST_LINE_OWED = WR_LINE_DELAYED,
	WR_SLOT_LINE_SECONDS = WR_COST_LINE_ACTUAL, /* slots in use, times seconds */
	WR_SLOT_LINE_LOST = WR_COST_LINE_OWED,
};

struct wr_series {
	uint32_t owner; /* slot of the rule that has the series, plus 1; 0: the series is free */
	uint32_t spare;
	uint64_t retired_s; /* when the series was taken from its owner */
	uint64_t upto_s;    /* all seconds before upto_s are recorded */
	uint64_t since_s;   /* when the series was given to its owner */
	uint64_t refused_milli;
	uint64_t last[WR_HISTORY_LINES]; /* totals at upto_s */
	uint64_t base[WR_HISTORY_LINES]; /* totals at the start of the current minute */
	uint64_t pad[3];
	uint64_t seconds[WEIR_HISTORY_SECONDS]; /* second s is at index s % 600 */
	uint64_t minutes[WEIR_HISTORY_MINUTES];
};

_Static_assert(sizeof(struct wr_history_header) == 1024, "header of the section");
_Static_assert(sizeof(struct wr_stats_host) == 256, "a host");
_Static_assert(sizeof(struct wr_rule_numbers) == 40, "numbers of a rule");
_Static_assert(sizeof(struct wr_series) == 16448, "a rule's history");

struct wr_history_map {
	struct wr_history_header *header;
	struct wr_stats_host *hosts;
	uint64_t *used;  /* bit s is 1 if slot s was given to a name */
	uint32_t *track; /* track[slot] is the track of the name in `slot`, see wr_track_make() */
	struct wr_history_rate *rates;
	struct wr_rule_numbers *numbers;
	struct wr_series *series; /* series[0] is the sum of all rules */
	struct wr_top *tops;      /* tops[i] belongs to series[i + 1] */
	uint32_t host_count;
	uint32_t series_count; /* 0: the section is too small */
};

/* Packs a track: the number of the series (16 bits) and the sampling rates of its two lists of top
 * keys (5 bits each). One decision in 2^hot_shift is sampled for the list of busy keys, and one
 * refusal in 2^refused_shift for the list of refused keys. The track 0 means that the name has no
 * series. */
#define WR_TRACK_SHIFT_MAX 24u

static inline uint32_t wr_track_make(uint32_t series, unsigned hot_shift, unsigned refused_shift)
{
	return series | hot_shift << 16 | refused_shift << 21;
}

static inline uint32_t wr_track_series(uint32_t track)
{
	return track & 0xffff;
}

static inline unsigned wr_track_shift(uint32_t track, enum weir_top_list list)
{
	return track >> (list == WEIR_TOP_HOT ? 16 : 21) & 31;
}

static inline void wr_stats_store(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static inline uint64_t wr_stats_load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* Packs the counts of a point into a word of four 16-bit numbers. The number 0 means that the count
 * is not known. Otherwise the number minus 1 is an exponent of 5 bits and a mantissa of 11 bits. */
uint64_t wr_point_pack(const uint64_t counts[WR_HISTORY_LINES]);
struct weir_point wr_point_unpack(uint64_t word);

/* Records the difference between `totals` and the totals at series->upto_s. The difference is
 * divided evenly among the seconds from upto_s to now_s. */
void wr_series_record(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
		      uint64_t now_s);

/* Clears the series. The first point of the series will begin at upto_s. `totals` are the totals at
 * upto_s, which are subtracted from later totals. */
void wr_series_begin(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
		     uint64_t upto_s);

#endif
