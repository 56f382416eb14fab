/* What the table keeps of time: its section of history.
 *
 *   +--------+-------+---------+--------+---------+---------+-----------------------------+
 *   | header | hosts | used    | tracks | paces   | notes   | series 0 (all rules), 1, 2… |
 *   +--------+-------+---------+--------+---------+---------+-----------------------------+
 *    1024     × 256   a bit     4 bytes  16 bytes  32 bytes   × 16,448
 *                     └──────────── a name ─────────────┘
 *
 * One process at a time, whoever holds the claim, moves history on (tick.c) and is the only writer
 * of paces, tracks and series; notes are written by whoever loads rules, hosts by themselves. A
 * point is one word, so readers see it whole. Sizes follow from the section's size and the number
 * of names alone; a section of zeros is empty. */
#ifndef WR_STATS_HISTORY_H
#define WR_STATS_HISTORY_H

#include <weir/stats.h>

#include "base/pair.h"
#include "stats/top.h"

#define WR_HISTORY_VERSION 1u
#define WR_HISTORY_RULES 400u /* with a series, where there is room */
#define WR_GAUGES_MAX 32u
#define WR_HOSTS_MIN 8u
#define WR_HOSTS_MAX 64u
#define WR_HOST_NAME 24u
#define WR_HOST_ERROR 128u

_Static_assert(WEIR_GAUGE_COUNT <= WR_GAUGES_MAX, "the header has room for all gauges");

struct wr_gauge {
	int64_t value;
	uint64_t set_ns; /* 0: never */
};

struct wr_history_header {
	uint32_t version; /* 0: nobody was here yet */
	uint32_t spare;
	uint64_t claim;  /* who moves history on: his second 40, a number 24; 0: nobody */
	uint64_t tick_s; /* how far it has come: seconds before this one are recorded */
	uint64_t pad[5];
	struct wr_gauge gauges[WR_GAUGES_MAX];
	uint64_t rest[56];
};

/* A process with an engine. `writes` is odd while its owner changes the rest. */
struct wr_host {
	struct wr_pair owner; /* as a lane's, see lanes.c */
	uint64_t writes;
	uint64_t words[6]; /* rules_hash, generation, loaded_ns, loads_good, loads_failed, failed_ns
			    */
	uint64_t name[WR_HOST_NAME / 8];
	uint64_t error[WR_HOST_ERROR / 8];
	uint64_t pad[4];
};

/* How busy a name is, for the choice of those that have a series. */
struct wr_pace {
	uint64_t seen; /* decisions counted up to the last tick */
	uint64_t rate_milli;
};

/* What is known of a rule from its file. `flags`: enum weir_stat_flags, and the algorithm. */
#define WR_NOTE_FLAGS 0xffffffu
#define WR_NOTE_ALGORITHM 24

struct wr_rule_note {
	uint64_t loaded_ns;
	uint64_t since_ns; /* loaded first with these numbers; wr_stats_note finds out */
	uint64_t period_ns;
	uint32_t limit;
	uint32_t burst;
	uint32_t flags;
	uint32_t parent; /* of a candidate: its rule's slot */
};

/* Which counts a point has: WR_LINE_REFUSED has those that were deferred in it. */
enum wr_history_line {
	WR_LINE_ADMITTED,
	WR_LINE_REFUSED,
	WR_LINE_SHADOWED,
	WR_LINE_DELAYED,
	WR_HISTORY_LINES,
};

struct wr_series {
	uint32_t owner; /* a slot plus one; 0: nobody's */
	uint32_t spare;
	uint64_t retired_s; /* taken from its owner then: who still writes there ends soon */
	uint64_t upto_s;    /* seconds before this one are recorded */
	uint64_t since_s;   /* given to its owner then */
	uint64_t refused_milli;
	uint64_t last[WR_HISTORY_LINES]; /* totals at upto_s */
	uint64_t base[WR_HISTORY_LINES]; /* totals when its minute began */
	uint64_t pad[3];
	uint64_t seconds[WEIR_HISTORY_SECONDS]; /* point of second s at s % 600 */
	uint64_t minutes[WEIR_HISTORY_MINUTES];
};

_Static_assert(sizeof(struct wr_history_header) == 1024, "header of the section");
_Static_assert(sizeof(struct wr_host) == 256, "a host");
_Static_assert(sizeof(struct wr_rule_note) == 40, "a note");
_Static_assert(sizeof(struct wr_series) == 16448, "a rule's history");

struct wr_history_map {
	struct wr_history_header *header;
	struct wr_host *hosts;
	uint64_t *used;  /* a bit for each name that somebody looked up */
	uint32_t *track; /* by slot; see wr_track_series */
	struct wr_pace *paces;
	struct wr_rule_note *notes;
	struct wr_series *series; /* the first is that of all rules */
	struct wr_top *tops;      /* tops[i] goes with series[i + 1] */
	uint32_t host_count;
	uint32_t series_count; /* 0: the section is too small for any */
};

/* A track says where a name's series and top keys are and how many of its decisions are looked at:
 * series 16 · hot 5 · refused 5, the latter as powers of two. 0: nowhere. */
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

static inline void wr_store(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static inline uint64_t wr_load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* A point in a word: four numbers of 16 bits, each 0 for "not known", or 1 more than a mantissa of
 * 11 bits and an exponent of 5. */
uint64_t wr_point_pack(const uint64_t counts[WR_HISTORY_LINES]);
struct weir_point wr_point_unpack(uint64_t word);

/* Records what was counted since upto_s, evenly over the seconds since then. */
void wr_series_record(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
		      uint64_t now_s);

/* Begins a history at upto_s with these totals. */
void wr_series_begin(struct wr_series *series, const uint64_t totals[WR_HISTORY_LINES],
		     uint64_t upto_s);

#endif
