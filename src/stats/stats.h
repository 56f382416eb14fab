/* Totals per rule in the table's section of lanes.
 *
 *   +--------+---------+-------------+-------------+-------------+-----------------------+
 *   | header | owners  | directory   | shared lane | lines       | index of lane 1 … 63  |
 *   +--------+---------+-------------+-------------+-------------+-----------------------+
 *    256      64 × 16   names × 128   names × 64    the rest      63 × names × 2
 *
 * The directory gives every rule's name a slot. A thread that decides owns a lane: an index from
 * slot to a line of eight counters that nobody else writes, so counting is a load and a store on a
 * line of the thread's own. Lines are handed out when a lane first counts for a rule: a lane costs
 * two bytes a name and 64 a rule it met. Whoever finds no lane, or no line, counts in the shared
 * lane with atomic adds.
 *
 * A total is the sum over all lanes. Nothing is ever taken back: a lane whose owner is gone is
 * inherited with its counts, so a process may be killed at any instruction. Sizes follow from the
 * section's size alone; a section of zeros is empty statistics. */
#ifndef WR_STATS_STATS_H
#define WR_STATS_STATS_H

#include <stdbool.h>

#include <weir/stats.h>

#include "base/pair.h"
#include "stats/history.h"
#include "table/table.h"

#define WR_STATS_VERSION 3u /* of the sections of lanes, history and top keys together */
#define WR_STAT_NAME_MAX 119u
#define WR_LANES 64u /* the shared one included */
#define WR_SEATS 4u  /* lanes a thread holds at once: one an engine */
#define WR_LATENCY_LINES 12u

enum wr_stat {
#define WR_STAT_ENUM(field, text) WR_STAT_##field,
	WEIR_STATS(WR_STAT_ENUM)
#undef WR_STAT_ENUM
		WR_STAT_COUNT
};

/* A candidate's line has these where a rule's has what a candidate never is. */
enum {
	WR_CANDIDATE_admits_more = WR_STAT_near_limit,
	WR_CANDIDATE_refuses_more = WR_STAT_soft,
};

struct wr_stat_line {
	_Alignas(64) uint64_t count[WR_STAT_COUNT];
};

/* Whose counts they are. */
enum wr_name_kind {
	WR_NAME_RULE,
	WR_NAME_CANDIDATE, /* "12 token_bucket, 100 per minute": the rule's slot, and what it is */
	WR_NAME_LATENCY,   /* eight buckets of a histogram */
};

/* A directory entry. The hash claims it; name and length are then written by whoever comes by, the
 * same bytes each time, so a claimer's death leaves nothing half done. */
struct wr_stat_name {
	uint64_t hash;      /* 0: free; else the lowest bit is 1 and the kind is above it */
	uint64_t words[15]; /* the name; its last byte is the length plus one, 0: not there yet */
};

struct wr_stats_header {
	uint32_t version; /* 0: nobody was here yet */
	uint32_t next_line;
	uint32_t lanes_used; /* no lane above this one was ever owned */
	uint32_t pad;
	uint64_t spare[30]; /* for what else a later weir wants to know */
};

_Static_assert(sizeof(struct wr_stat_line) == 64, "a rule's counters are one cache line");
_Static_assert(sizeof(struct wr_stat_name) == 128, "directory entry");
_Static_assert(sizeof(struct wr_stats_header) == 256, "header of the section");

/* Where everything is: found anew by each process, from the section's size. */
struct wr_stats_map {
	struct wr_stats_header *header;
	struct wr_pair *owners; /* WR_LANES of them; that of the shared lane is unused */
	struct wr_stat_name *names;
	struct wr_stat_line *shared;
	uint16_t *index; /* lane l, slot s: index[(l - 1) * name_count + s], a line's number or 0 */
	struct wr_stat_line *lines; /* lines[1 … line_count) */
	uint32_t name_count;        /* a power of two */
	uint32_t line_count;
	struct wr_history_map history;
};

/* False: the sections are of another version; nothing can be counted. */
bool wr_stats_map(const struct weir_table *table, struct wr_stats_map *map);

/* What was counted for a slot, over all lanes. */
void wr_stats_read(const struct wr_stats_map *map, uint32_t slot, uint64_t counts[WR_STAT_COUNT]);

static inline enum wr_name_kind wr_stats_kind(const struct wr_stats_map *map, uint32_t slot)
{
	return (enum wr_name_kind)(__atomic_load_n(&map->names[slot].hash, __ATOMIC_RELAXED) >> 1 &
				   3);
}

/* The name in a slot; `text` holds it when it is a rule's. False: the slot is free. */
bool wr_stats_name(const struct wr_stats_map *map, uint32_t slot, char text[WR_STAT_NAME_MAX + 1],
		   struct weir_str *name);

/* What a host says of its rules: struct weir_host has the words. */
struct wr_host_news {
	uint64_t rules_hash, generation, loaded_ns;
	uint64_t loads_good, loads_failed, failed_ns;
	char name[WR_HOST_NAME]; /* both end in a zero */
	char error[WR_HOST_ERROR];
};

void wr_host_write(struct wr_host *host, const struct wr_host_news *news);

/* One user of the statistics in this process: an engine. */
struct wr_stats {
	struct wr_stats_map map;
	bool usable;
	struct wr_host *host; /* this process's, once it has decided something */
	struct wr_host_news news;
	uint32_t latency[2][WR_LATENCY_LINES]; /* slots, by enum weir_latency_kind; 0: not looked up
						*/
	uint64_t serial;                       /* never used twice in a process; 0: closed */
	uint64_t lanes; /* bit l: lane l belongs to a thread of this process, by this handle */
	struct wr_stats *next; /* in the list of those open */
};

void wr_stats_open(struct wr_stats *stats, const struct weir_table *table);

/* Gives the lanes back. No thread may be counting. */
void wr_stats_close(struct wr_stats *stats);

/* The name's slot, made if there is room; else WEIR_STAT_OTHER. A name that is too long is cut, and
 * told from others by the hash of all of it. Not for the path of a request. */
uint32_t wr_stats_slot(const struct wr_stats *stats, struct weir_str name);
uint32_t wr_stats_slot_of(const struct wr_stats *stats, enum wr_name_kind kind,
			  struct weir_str name);

/* What is shown of a rule or a candidate beside its counts. */
void wr_stats_note(const struct wr_stats *stats, uint32_t slot, const struct wr_rule_note *note);

/* Forgets what top keys show of clients. */
void wr_stats_wipe_texts(const struct wr_stats *stats);

/* This process's rules, in the list of hosts: at once if it has decided something, else then. */
void wr_host_tell(struct wr_stats *stats, const struct wr_host_news *news);

/* Enters how long a decision took. */
void wr_latency_add(struct wr_stats *stats, enum weir_latency_kind kind, uint64_t ns);

/* A thread's lane of one handle. */
struct wr_lane {
	uint64_t serial; /* of the handle */
	uint16_t *index; /* NULL: only the shared lane is left */
	struct wr_stats_map *map;
	uint64_t random;    /* for sampling */
	uint32_t decisions; /* which of them is timed */
	unsigned number;
};

struct wr_seats {
	struct wr_lane lane[WR_SEATS];
	unsigned next;
};

/* initial-exec: one instruction instead of a call. libweir is small enough for it when it is loaded
 * late, too. */
extern _Thread_local struct wr_seats wr_seats __attribute__((tls_model("initial-exec")));

struct wr_lane *wr_lane_claim(struct wr_stats *stats);

/* This thread's lane; the first time it takes one. */
static inline struct wr_lane *wr_lane_mine(struct wr_stats *stats)
{
	struct wr_lane *lane = &wr_seats.lane[0];

	return __builtin_expect(lane->serial == stats->serial, 1) ? lane : wr_lane_claim(stats);
}

void wr_stat_add_slowly(struct wr_lane *lane, uint32_t slot, enum wr_stat what, uint64_t n);

/* Plain load and store, atomic only so that readers see whole numbers: nobody else writes here. */
static inline void wr_stat_add(struct wr_lane *lane, uint32_t slot, enum wr_stat what, uint64_t n)
{
	uint16_t at = lane->index ? lane->index[slot] : 0;

	if (__builtin_expect(at != 0 && at < lane->map->line_count, 1)) {
		uint64_t *count = &lane->map->lines[at].count[what];

		__atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + n,
				 __ATOMIC_RELAXED);
	} else {
		wr_stat_add_slowly(lane, slot, what, n);
	}
}

/* A number below 2^32, of no quality but cheap. */
static inline uint32_t wr_lane_random(struct wr_lane *lane)
{
	lane->random = lane->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(lane->random >> 32);
}

#endif
