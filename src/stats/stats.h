/* Totals per rule in the table's section of lanes.
 *
 *   +--------+---------+-------------+-------------+-------------+-----------------------+
 *   | header | owners  | directory   | shared lane | lines       | index of lane 1 … 63  |
 *   +--------+---------+-------------+-------------+-------------+-----------------------+
 *    256      64 × 16   names × 128   names × 64    the rest      63 × names × 2
 *
 * The directory assigns a slot to the name of each rule. A thread that decides owns a lane. A lane
 * is an index from slot to a line of eight counters that only its owner writes, so counting is a
 * load and a store on a cache line of the thread. A line is allocated when a lane counts for a rule
 * for the first time: a lane costs two bytes per name and 64 bytes per rule that it has counted. A
 * thread without a lane, or without a line, counts in the shared lane with atomic adds.
 *
 * A total is the sum of all lanes. Counts are never subtracted: the lane of a dead owner is given
 * to another thread with its counts, so a process may be killed at any instruction. All sizes are
 * computed from the size of the section. A section of zeros has no counts. */
#ifndef WR_STATS_STATS_H
#define WR_STATS_STATS_H

#include <stdbool.h>

#include <weir/stats.h>

#include "base/pair.h"
#include "stats/history.h"
#include "table/table.h"

#define WR_STATS_VERSION 3u /* version of the sections for lanes, history and top keys */
#define WR_STAT_NAME_MAX 119u
#define WR_LANES 64u                 /* number of lanes; threads that own none share one lane */
#define WR_STATS_LANES_PER_THREAD 4u /* a thread has a lane for each of its engines, at most 4 */
#define WR_LATENCY_LINES 12u

enum wr_stat {
#define WR_STAT_ENUM(field, text) WR_STAT_##field,
	WEIR_STATS(WR_STAT_ENUM)
#undef WR_STAT_ENUM
		WR_STAT_COUNT
};

/* Four counters have another meaning for a candidate than for a rule. For a candidate, they count
 * the requests that only the candidate admits, those that only it refuses, the bans that it would
 * have started, and the requests that these bans would have refused. */
enum {
	WR_CANDIDATE_admits_more = WR_STAT_near_limit,
	WR_CANDIDATE_refuses_more = WR_STAT_soft,
	WR_CANDIDATE_bans = WR_STAT_shadowed,
	WR_CANDIDATE_banned = WR_STAT_deferred,
};

/* The counters of a line with the kind WR_NAME_COST. */
enum wr_stats_cost {
#define WR_STAT_ENUM(field, text) WR_COST_STAT_##field,
	WEIR_COST_STATS(WR_STAT_ENUM)
#undef WR_STAT_ENUM
		WR_COST_STAT_COUNT
};

_Static_assert((int)WR_COST_STAT_COUNT <= (int)WR_STAT_COUNT, "costs fit into a line");

/* The counters of a line with the bans of a rule (bans.c). */
enum wr_stats_ban {
#define WR_STAT_ENUM(field, text) WR_BAN_STAT_##field,
	WEIR_BAN_STATS(WR_STAT_ENUM)
#undef WR_STAT_ENUM
		WR_BAN_STAT_COUNT
};

_Static_assert((int)WR_BAN_STAT_COUNT <= (int)WR_STAT_COUNT, "counts of bans fit into a line");

/* Slots of limits on concurrent requests. The requests of a killed process never give their slots
 * back, so slots in use are counted by the time at which they were taken. Time is divided into
 * turns: a turn lasts max_hold plus one second. A slot that was taken in turn t is counted in
 * counter t % 4 until it is given back. In turn t + 2 it cannot be held any more, and weir_tick
 * moves the rest of the counter to `lost`. The four counters are those of enum wr_stats_cost that
 * slots do not use for their own purpose: actual, owed, defaulted and clamped. */
#define WR_STATS_TURNS 4u
#define WR_STATS_TURN_MORE_NS 1000000000u

static inline uint64_t wr_stats_turn_ns(uint64_t max_hold_ns)
{
	return max_hold_ns + WR_STATS_TURN_MORE_NS;
}

/* Returns the counter of the slots that were taken in the turn that contains `at_ns`. */
static inline enum wr_stats_cost wr_stats_turn_counter(uint64_t max_hold_ns, uint64_t at_ns)
{
	static const enum wr_stats_cost counters[WR_STATS_TURNS] = {
		WR_COST_STAT_actual, WR_COST_STAT_owed, WR_COST_STAT_defaulted,
		WR_COST_STAT_clamped};

	return counters[at_ns / wr_stats_turn_ns(max_hold_ns) % WR_STATS_TURNS];
}

struct wr_stat_line {
	_Alignas(64) uint64_t count[WR_STAT_COUNT];
};

/* The kind of object that a directory entry names. */
enum wr_stats_name_kind {
	WR_NAME_RULE,
	/* The name consists of the slot of the candidate's rule and the text of the candidate's
	 * limit: "12 token_bucket, 100 per minute". */
	WR_NAME_CANDIDATE,
	WR_NAME_LATENCY, /* eight buckets of a histogram, or the bans of a rule (bans.c) */
	WR_NAME_COST,    /* the costs of the rule with this name (enum wr_stats_cost) */
};

/* A directory entry. A process claims the entry by setting the hash. Every process that finds a
 * claimed entry without a name writes the name. All processes write the same bytes, so the entry
 * stays usable if a process dies after the claim. */
struct wr_stat_name {
	uint64_t hash;      /* 0: free; otherwise bit 0 is 1, and bits 1 and 2 are the kind */
	uint64_t words[15]; /* the name; the last byte is its length plus 1, or 0 without a name */
};

struct wr_stats_header {
	uint32_t version; /* 0: the section was never used */
	uint32_t next_line;
	uint32_t lanes_used; /* the highest number of a lane that ever had an owner */
	uint32_t pad;
	uint64_t spare[30]; /* zero; for later versions */
};

_Static_assert(sizeof(struct wr_stat_line) == 64, "a rule's counters are one cache line");
_Static_assert(sizeof(struct wr_stat_name) == 128, "directory entry");
_Static_assert(sizeof(struct wr_stats_header) == 256, "header of the section");

/* Addresses of the parts of the sections. Each process computes them from the section sizes. */
struct wr_stats_map {
	struct wr_stats_header *header;
	struct wr_pair *owners; /* WR_LANES entries; the entry of the shared lane is unused */
	struct wr_stat_name *names;
	struct wr_stat_line *shared;
	/* index[(l - 1) * name_count + s] is the number of the line in which lane l counts for slot
	 * s. 0: the lane has no such line. */
	uint16_t *index;
	struct wr_stat_line *lines; /* lines[1] to lines[line_count - 1] are valid */
	uint32_t name_count;        /* a power of two */
	uint32_t line_count;
	struct wr_history_map history;
};

/* Fills in *map. Returns false if the sections are too small or another version of weir wrote them;
 * then nothing can be counted. */
bool wr_stats_map(const struct weir_table *table, struct wr_stats_map *map);

/* Reads the counts of a slot: the sum of all lanes. */
void wr_stats_read(const struct wr_stats_map *map, uint32_t slot, uint64_t counts[WR_STAT_COUNT]);

static inline enum wr_stats_name_kind wr_stats_kind(const struct wr_stats_map *map, uint32_t slot)
{
	return (enum wr_stats_name_kind)(
		__atomic_load_n(&map->names[slot].hash, __ATOMIC_RELAXED) >> 1 & 3);
}

/* Copies the name of a slot to `text`, and sets *name to the copy. Returns false if the slot is
 * free. */
bool wr_stats_name(const struct wr_stats_map *map, uint32_t slot, char text[WR_STAT_NAME_MAX + 1],
		   struct weir_str *name);

/* Returns the name that the statistics show for a rule. It is in `text`. It differs from the rule's
 * name only if that has more than WR_STAT_NAME_MAX bytes. */
struct weir_str wr_stats_name_of(struct weir_str name, char text[WR_STAT_NAME_MAX + 1]);

/* The state of the rules in one process. struct weir_host has the same fields. */
struct wr_stats_host_report {
	uint64_t rules_hash, generation, loaded_ns;
	uint64_t loads_good, loads_failed, failed_ns;
	char name[WR_HOST_NAME]; /* `name` and `error` end in a zero byte */
	char error[WR_HOST_ERROR];
};

/* Writes the entry of a host. Called only by the process that owns the entry. */
void wr_stats_write_host(struct wr_stats_host *host, const struct wr_stats_host_report *report);

/* A handle of the statistics: one per engine. */
struct wr_stats {
	struct wr_stats_map map;
	bool usable;
	struct wr_stats_host *host; /* entry of this process; NULL before its first decision */
	struct wr_stats_host_report report;
	/* Slots of the latency histograms, by enum weir_latency_kind. 0: not looked up so far. */
	uint32_t latency[2][WR_LATENCY_LINES];
	uint64_t serial;       /* number of the handle, unique in the process; 0: closed */
	uint64_t lanes;        /* bit l is 1 if a thread owns lane l through this handle */
	struct wr_stats *next; /* next handle in the list of open handles */
};

void wr_stats_open(struct wr_stats *stats, const struct weir_table *table);

/* Releases all lanes of the handle. No thread may count through the handle during the call. */
void wr_stats_close(struct wr_stats *stats);

/* Returns the slot of a name. A new name gets a free slot, or WEIR_STAT_OTHER if no slot is free. A
 * name that is too long is cut and ends in a hash of the whole name. The search is too slow to be
 * done for each request. wr_stats_slot() is for names of rules, wr_stats_slot_of() for names of any
 * kind. */
uint32_t wr_stats_slot(const struct wr_stats *stats, struct weir_str name);
uint32_t wr_stats_slot_of(const struct wr_stats *stats, enum wr_stats_name_kind kind,
			  struct weir_str name);

/* Stores the limit and the load time of a rule or a candidate, which readers show together with its
 * counts. */
void wr_stats_set_numbers(const struct wr_stats *stats, uint32_t slot,
			  const struct wr_rule_numbers *note);

/* Returns the slot of the costs of the rule with this name and slot. Returns WEIR_STAT_OTHER if the
 * rule has no slot of its own, or if no slot is free. */
uint32_t wr_stats_cost_slot(const struct wr_stats *stats, struct weir_str rule, uint32_t rule_slot);

/* Returns the slot of the counts of the bans of the rule with this name and slot (bans.c). Returns
 * WEIR_STAT_OTHER as wr_stats_cost_slot() does. */
uint32_t wr_stats_ban_slot(const struct wr_stats *stats, struct weir_str rule, uint32_t rule_slot);

/* Moves slots that were taken two turns before now_ns, and not given back, to `lost`. Called by
 * weir_tick for each slot with the kind WR_NAME_COST. */
void wr_stats_expire_slots(const struct wr_stats_map *map, uint32_t slot, uint64_t now_ns);

/* Reads the totals that the history of costs is computed from. Slots in use are not a total, so the
 * history has the sum of the slots in use in each second: the function adds the slots in use, times
 * gap_s, to slot_seconds. Returns the slot of the rule, or WEIR_STAT_OTHER if the rule is not known.
 * Called by weir_tick. */
uint32_t wr_stats_cost_totals(const struct wr_stats_map *map, uint32_t slot, uint64_t slot_seconds,
			      uint64_t gap_s, uint64_t totals[WR_HISTORY_LINES]);

/* Erases the texts of all top keys. */
void wr_stats_wipe_texts(const struct wr_stats *stats);

/* Reports the state of this process in the list of hosts. A process has no entry in this list
 * before its first decision. Until then the report is only saved in the handle, and the first
 * decision writes it to the list. */
void wr_stats_report_host(struct wr_stats *stats, const struct wr_stats_host_report *report);

/* Adds the latency of a decision to the histogram. */
void wr_latency_add(struct wr_stats *stats, enum weir_latency_kind kind, uint64_t ns);

/* The lane that a thread uses for one handle. */
struct wr_lane {
	uint64_t serial; /* serial number of the handle */
	uint16_t *index; /* NULL: the thread uses the shared lane */
	struct wr_stats_map *map;
	uint64_t random;    /* state of wr_lane_random() */
	uint32_t decisions; /* number of decisions; the latency of every 64th is recorded */
	unsigned number;
};

struct wr_stats_thread_lanes {
	struct wr_lane lane[WR_STATS_LANES_PER_THREAD];
	unsigned next;
};

/* With the TLS model initial-exec, an access needs one instruction instead of a call. The variable
 * is small enough for this model even if libweir is loaded with dlopen. */
extern _Thread_local struct wr_stats_thread_lanes wr_stats_thread_lanes
	__attribute__((tls_model("initial-exec")));

/* The slow path of wr_lane_mine: finds or claims a lane. */
struct wr_lane *wr_lane_claim(struct wr_stats *stats);

/* Returns the lane of this thread. The first call of a thread claims a lane. */
static inline struct wr_lane *wr_lane_mine(struct wr_stats *stats)
{
	struct wr_lane *lane = &wr_stats_thread_lanes.lane[0];

	return __builtin_expect(lane->serial == stats->serial, 1) ? lane : wr_lane_claim(stats);
}

/* The slow path of wr_stat_add, if the lane has no line (eight counters) for the slot: allocates a
 * line, or counts in the shared lane. */
void wr_stat_add_slow(struct wr_lane *lane, uint32_t slot, enum wr_stat what, uint64_t n);

/* Adds n to a counter. Only this thread writes the counter. The accesses are relaxed atomics, so
 * that readers never see a half-written number. */
static inline void wr_stat_add(struct wr_lane *lane, uint32_t slot, enum wr_stat what, uint64_t n)
{
	uint16_t at = lane->index ? lane->index[slot] : 0;

	if (__builtin_expect(at != 0 && at < lane->map->line_count, 1)) {
		uint64_t *count = &lane->map->lines[at].count[what];

		__atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + n,
				 __ATOMIC_RELAXED);
	} else {
		wr_stat_add_slow(lane, slot, what, n);
	}
}

/* Counts a slot of a limit on concurrent requests that was taken at taken_ns. */
static inline void wr_lane_count_taken(struct wr_lane *lane, uint32_t slot, uint64_t max_hold_ns,
				       uint64_t taken_ns)
{
	wr_stat_add(lane, slot, (enum wr_stat)WR_COST_STAT_reserved, 1);
	wr_stat_add(lane, slot, (enum wr_stat)wr_stats_turn_counter(max_hold_ns, taken_ns), 1);
}

/* Counts the end of a request that took a slot at taken_ns. `returned` is false if the slot could
 * not be given back. A request that ends after its turn is left to wr_stats_expire_slots(). */
void wr_lane_count_freed(struct wr_lane *lane, uint32_t slot, uint64_t max_hold_ns,
			 uint64_t taken_ns, uint64_t now_ns, bool returned);

/* Returns a pseudo-random number below 2^32. It is fast, and good enough for sampling. */
static inline uint32_t wr_lane_random(struct wr_lane *lane)
{
	lane->random = lane->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(lane->random >> 32);
}

#endif
