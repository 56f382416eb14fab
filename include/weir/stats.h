/* What became of requests, rule by rule: counted in the table by every process that decides, read
 * by any process that has the table open. No service is needed.
 *
 *   totals      for each rule, exact, since the table was made             weir_stats_each
 *   history     ten minutes by the second, a day by the minute             weir_history
 *   top keys    hottest and most refused of a rule, within bounds          weir_top
 *   candidates  what other limits would have said, exact                   weir_candidates_each
 *   latency     of one decision in 64                                      weir_latency
 *   hosts       processes that decide, their rules and reloads             weir_hosts_each
 *   gauges      what the service says of its store and fleet               weir_gauges_each
 *
 * Totals go on through restarts and reloads; they are exact however many processes and threads
 * decide, and if some of them are killed. A rule is known by its path in the rule files and its
 * period: "api/route=signup/ip/1d". Decisions are counted, not hits: a request of cost 5 counts
 * once, one of cost 0 (a look) or below (a give-back) not at all.
 *
 * History and top keys are kept for the rules with the most decisions of late, as many as the
 * table's memory has room for: 400 with 64 MiB, 6 with a MiB; weir_stats_info tells. They need
 * somebody who calls weir_tick once a second; without that there are totals, candidates and latency
 * alone. */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_table;

/* ---- once a second ---- */

/* Moves history on and chooses the rules that have one. Any number of processes may call it, at any
 * time; one of them does the work, once a second, bounded: about a millisecond with 5,000 rules.
 * What was counted between two calls belongs to the seconds between them, evenly; if they are more
 * than ten minutes apart, history has a gap there. A process killed at it is replaced within three
 * seconds. If the clock steps back, what was recorded for the time to come is forgotten.
 * Returns 1: this call did it, 0: it was done, WEIR_EINVAL, WEIR_ETIME, or WEIR_ELAYOUT: the
 * statistics were written by another weir. */
WEIR_API int weir_tick(struct weir_table *table, uint64_t now_ns);

/* ---- totals ---- */

/* X(field, what it counts). A rule in shadow mode, or outside its `enforce` share, refuses nobody:
 * what it would have refused is `shadowed`. A request that one rule refuses counts as refused there
 * and nowhere else. */
#define WEIR_STATS(X)                                                                              \
	X(admitted, "requests admitted by the rule")                                               \
	X(refused, "requests the rule refused")                                                    \
	X(shadowed, "requests the rule would have refused, were it enforced")                      \
	X(near_limit, "requests admitted above four fifths of the limit, or another share")        \
	X(delayed, "requests admitted after a wait")                                               \
	X(delay_us, "µs waited by them all")                                                       \
	X(deferred, "requests the rule put off for later instead of refusing")                     \
	X(soft, "requests admitted above the limit, in the overshoot of soft mode")

enum weir_stat_flags {
	WEIR_STAT_HISTORY = 1,   /* weir_history and weir_top know it */
	WEIR_STAT_SHADOW = 2,    /* counted, never enforced */
	WEIR_STAT_QUOTA = 4,     /* refuses only together with all others in quota mode */
	WEIR_STAT_CENTRAL = 8,   /* not `local`: where there is a central store, it decides */
	WEIR_STAT_UNLIMITED = 16 /* the rule says `unlimited` */
};

struct weir_stat {
	uint32_t size; /* sizeof(struct weir_stat) as the library knows it */
	uint32_t slot; /* stays the same for the life of a table */
	struct weir_str rule;
#define WEIR_STAT_FIELD(field, text) uint64_t field;
	WEIR_STATS(WEIR_STAT_FIELD)
#undef WEIR_STAT_FIELD
	/* The rule as it was loaded last; zeros for names that are not rules', and overrides. */
	uint64_t loaded_ns; /* 0: not known */
	uint64_t period_ns; /* 0: a calendar's window */
	uint32_t flags;     /* enum weir_stat_flags */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t limit;
	uint32_t burst;        /* of a token bucket; of a leaky bucket its queue_size */
	uint64_t recent_milli; /* decisions in a thousand seconds, at the rate of the last minute */
	uint64_t since_ns;     /* when it was loaded first with these numbers */
};

/* Names that are not rules': a rule's has a slash in it. X(enum, name, what it counts) */
#define WEIR_STAT_NAMES(X)                                                                         \
	X(WEIR_STAT_OTHER, "other", "all rules for which the directory had no room")               \
	X(WEIR_STAT_NO_DOMAIN, "domain_not_found", "admitted: there are no rules for the domain")  \
	X(WEIR_STAT_ALLOWED, "allowed", "admitted by an `allow` of `requests:`")                   \
	X(WEIR_STAT_MISSING, "missing", "refused by `missing: deny`")                              \
	X(WEIR_STAT_UNREADABLE, "unreadable", "refused: too much to read for a decision")          \
	X(WEIR_STAT_NO_RULE, "no_rule", "admitted: it meets no rule of its domain")

enum weir_stat_name {
#define WEIR_STAT_ENUM(name, text, what) name,
	WEIR_STAT_NAMES(WEIR_STAT_ENUM)
#undef WEIR_STAT_ENUM
		WEIR_STAT_RULES /* first slot a rule may have */
};

/* Returns 0 to go on, anything else to end. */
typedef int (*weir_stat_fn)(void *context, const struct weir_stat *stat);

/* Tells what was counted for each name that has a slot, rules that are gone included. Counts are
 * read while others write: each is right at some moment during the call. Returns 0, what `fn`
 * ended with, WEIR_EINVAL, or WEIR_ELAYOUT: the statistics were written by another weir. */
WEIR_API int weir_stats_each(struct weir_table *table, weir_stat_fn fn, void *context);

/* The same for one slot; stat->size is set by the caller, stat->rule points into `name`.
 * WEIR_ENOENT: nothing has it. */
#define WEIR_STAT_NAME_BYTES 120
WEIR_API int weir_stats_slot(struct weir_table *table, uint32_t slot,
			     char name[WEIR_STAT_NAME_BYTES], struct weir_stat *stat);

/* ---- history ---- */

#define WEIR_HISTORY_SECONDS 600
#define WEIR_HISTORY_MINUTES 1440

enum weir_span { WEIR_SECONDS = 1, WEIR_MINUTES = 60 }; /* seconds of a point */

/* What was counted in one second or minute: as it was up to 4,095, else within 1/4096 of it. A
 * candidate's: what it would have admitted, refused, nothing, and delayed. */
struct weir_point {
	uint64_t admitted;
	uint64_t refused; /* and deferred */
	uint64_t shadowed;
	uint64_t delayed;
	uint32_t known; /* 0: nobody watched then, or the rule was not among the busiest */
	uint32_t reserved;
};

#define WEIR_STAT_ALL UINT32_MAX /* in place of a slot: the sum over all rules */

/* Fills in the last `max` points of a rule or a candidate, oldest first, and *end_s: the epoch
 * second at which the last one ends. The current second and minute are not among them. Returns how
 * many there are, WEIR_ENOENT: there is no history of this slot, WEIR_EINVAL or WEIR_ELAYOUT. */
WEIR_API int weir_history(struct weir_table *table, uint32_t slot, enum weir_span span,
			  struct weir_point *points, size_t max, uint64_t *end_s);

/* ---- top keys ---- */

#define WEIR_TOP_KEYS 48 /* of a list; any key that had more than 1/48 of the whole is in it */
#define WEIR_TOP_TEXT 64

enum weir_top_list {
	WEIR_TOP_HOT,     /* keys with the most decisions by the rule */
	WEIR_TOP_REFUSED, /* … refused, deferred or shadowed ones */
};

enum weir_top_text {
	WEIR_TOP_NO_TEXT, /* hashed by setting, or not among the ten first yet */
	WEIR_TOP_WHOLE,
	WEIR_TOP_CUT, /* there is more of it */
};

/* A key as it stands in a list. Counts fade: all are halved every five minutes, so the sum of a
 * steady stream is that of ten minutes at most. True counts, faded alike, are within
 * [count - over - noise, count + noise]: `over` is a bound, of the sketch; `noise` is three
 * standard deviations of the sampling, 0 when every decision was looked at (up to some 1,000 a
 * second). */
struct weir_top_key {
	uint64_t hash; /* of the key and the limit, under the table's secret */
	uint64_t count;
	uint64_t over;
	uint64_t noise;
	/* The values of the entries that the rule leaves open, in order, with WEIR_TOP_BETWEEN
	 * between them. They are a client's and may hold any byte: escape them. */
	uint32_t text_kind; /* enum weir_top_text */
	uint32_t text_len;
	char text[WEIR_TOP_TEXT];
};

#define WEIR_TOP_BETWEEN '\x1f'

struct weir_top_info {
	uint32_t size;  /* sizeof(struct weir_top_info), set by the caller */
	uint32_t every; /* one decision in so many is looked at now */
	uint64_t total; /* of all keys, faded as they are; what is not in the list has total/48 at
			   most */
};

/* Fills in the first `max` keys of a rule's list, largest count first. Returns how many,
 * WEIR_ENOENT: none are kept for this slot, WEIR_EINVAL or WEIR_ELAYOUT. `info` may be NULL. */
WEIR_API int weir_top(struct weir_table *table, uint32_t slot, enum weir_top_list list,
		      struct weir_top_key *keys, size_t max, struct weir_top_info *info);

/* ---- candidates ---- */

/* What a limit under a rule's `candidates` would have said to the requests that its rule decided.
 * One of other numbers is another candidate, and begins at 0. */
struct weir_candidate {
	uint32_t size;        /* sizeof(struct weir_candidate) as the library knows it */
	uint32_t slot;        /* its own, for weir_history */
	uint32_t rule_slot;   /* of the rule it is a candidate of */
	uint32_t algorithm;   /* enum weir_algorithm */
	struct weir_str rule; /* that rule's name */
	struct weir_str text; /* "token_bucket, 100 per minute, burst 20" */
	uint64_t loaded_ns;   /* when rules that have it were loaded last */
	uint64_t period_ns;   /* 0: a calendar's window */
	uint32_t limit;
	uint32_t burst;       /* of a token bucket; of a leaky bucket its queue_size */
	uint64_t would_admit; /* these two are all requests it saw */
	uint64_t would_refuse;
	uint64_t admits_more;  /* of would_admit: the rule refused them, or would have */
	uint64_t refuses_more; /* of would_refuse: the rule admitted them */
	uint64_t would_delay;  /* of would_admit */
	uint64_t would_delay_us;
};

typedef int (*weir_candidate_fn)(void *context, const struct weir_candidate *candidate);

/* As weir_stats_each. Texts last until `fn` returns. */
WEIR_API int weir_candidates_each(struct weir_table *table, weir_candidate_fn fn, void *context);

/* ---- latency ---- */

#define WEIR_LATENCY_BUCKETS 94

enum weir_latency_kind {
	WEIR_LATENCY_LOCAL,   /* decided in the table */
	WEIR_LATENCY_CENTRAL, /* asked the central store, and waited for it */
};

/* How long decisions took that hosts reported with weir_ask_report_latency: one in 64. */
struct weir_latency {
	uint32_t size; /* sizeof(struct weir_latency), set by the caller */
	uint32_t reserved;
	uint64_t count;
	uint64_t sum_ns;
	uint64_t bucket[WEIR_LATENCY_BUCKETS]; /* each for itself, not summed up */
};

/* What bucket `i` holds is below this and not below that of i - 1: four steps from each power of
 * two to the next, 64 ns to half a second. UINT64_MAX for the last one. */
WEIR_API uint64_t weir_latency_below(unsigned i);
WEIR_API int weir_latency(struct weir_table *table, enum weir_latency_kind kind,
			  struct weir_latency *latency);

/* ---- hosts ---- */

/* A process with an engine, and its rules: two live ones of different hashes disagree. */
struct weir_host {
	uint32_t size; /* sizeof(struct weir_host) as the library knows it */
	uint32_t pid;
	uint32_t alive; /* 0: gone; it is forgotten when its place is needed */
	uint32_t reserved;
	struct weir_str name; /* as its engine's options say: "nginx" */
	uint64_t rules_hash;  /* 0: no rules yet */
	uint64_t generation;
	uint64_t loaded_ns;
	uint64_t loads_good, loads_failed;
	uint64_t failed_ns;    /* 0: the last load went well */
	struct weir_str error; /* why it failed, the first 127 bytes */
};

typedef int (*weir_host_fn)(void *context, const struct weir_host *host);

WEIR_API int weir_hosts_each(struct weir_table *table, weir_host_fn fn, void *context);

/* ---- gauges ---- */

/* X(enum, name, what it says). What the service knows of the world outside the table; the last one
 * to set a gauge has said it. New ones go to the end: numbers stand in tables. */
#define WEIR_GAUGES(X)                                                                             \
	X(WEIR_GAUGE_STORE_UP, "store_up", "1: the central store answers, 0: it does not")         \
	X(WEIR_GAUGE_STORE_BREAKER, "store_breaker", "0: closed, 1: half open, 2: open")           \
	X(WEIR_GAUGE_STORE_NODES, "store_nodes", "nodes of the central store that are known")      \
	X(WEIR_GAUGE_STORE_NODES_UP, "store_nodes_up", "… of which answer")                        \
	X(WEIR_GAUGE_STORE_RTT_US, "store_rtt_us", "µs an answer takes, smoothed")                 \
	X(WEIR_GAUGE_STORE_WAITING, "store_waiting", "questions without an answer yet")            \
	X(WEIR_GAUGE_FLEET_NODES, "fleet_nodes", "nodes of this fleet that were seen of late")     \
	X(WEIR_GAUGE_SHARE_PPM, "share_ppm", "this node's share of limits, in millionths")         \
	X(WEIR_GAUGE_LEASES, "leases", "leases held")                                              \
	X(WEIR_GAUGE_LEASED_UNITS, "leased_units", "units held in leases and not spent")           \
	X(WEIR_GAUGE_OVERSHOOT_PPM, "overshoot_ppm",                                               \
	  "bound of what eventual limits admit above them, ppm")                                   \
	X(WEIR_GAUGE_LEASES_GRANTED, "leases_granted", "leases begun since the service was")       \
	X(WEIR_GAUGE_LEASES_RENEWED, "leases_renewed", "… prolonged")                              \
	X(WEIR_GAUGE_LEASES_VOIDED, "leases_voided", "… that the store had forgotten")             \
	X(WEIR_GAUGE_UNITS_GRANTED, "units_granted", "units borrowed since the service was begun") \
	X(WEIR_GAUGE_UNITS_SPENT, "units_spent", "… of which spent")                               \
	X(WEIR_GAUGE_UNITS_RETURNED, "units_returned", "… of which returned")                      \
	X(WEIR_GAUGE_UNITS_BURNT, "units_burnt", "… of which nobody will spend")                   \
	X(WEIR_GAUGE_EXCHANGES, "exchanges", "counters exchanged since the service was begun")     \
	X(WEIR_GAUGE_PUSHES, "pushes",                                                             \
	  "counters told to other regions since the service was begun")                            \
	X(WEIR_GAUGE_REGIONS, "regions", "other regions that are told")                            \
	X(WEIR_GAUGE_REGIONS_UP, "regions_up", "… whose store answers")                            \
	X(WEIR_GAUGE_QUEUE_DEPTH, "queue_depth", "deferred requests that wait")                    \
	X(WEIR_GAUGE_QUEUE_BYTES, "queue_bytes", "bytes of deferred requests")                     \
	X(WEIR_GAUGE_QUEUE_OLDEST_US, "queue_oldest_us", "µs the oldest of them has waited")       \
	X(WEIR_GAUGE_QUEUE_DEAD, "queue_dead", "deferred requests that were given up")             \
	X(WEIR_GAUGE_QUEUE_SENDING, "queue_sending", "deliveries under way")                       \
	X(WEIR_GAUGE_QUEUE_TARGET_UP, "queue_target_up", "1: their API server can be reached")

enum weir_gauge_name {
#define WEIR_GAUGE_ENUM(name, text, what) name,
	WEIR_GAUGES(WEIR_GAUGE_ENUM)
#undef WEIR_GAUGE_ENUM
		WEIR_GAUGE_COUNT
};

struct weir_gauge {
	uint32_t size;   /* sizeof(struct weir_gauge) as the library knows it */
	uint32_t number; /* enum weir_gauge_name */
	const char *name;
	const char *what;
	int64_t value;
	uint64_t set_ns; /* when; old news is for the reader to judge */
};

typedef int (*weir_gauge_fn)(void *context, const struct weir_gauge *gauge);

/* WEIR_EINVAL, or WEIR_ELAYOUT: statistics of another weir; nothing is set. */
WEIR_API int weir_gauge_set(struct weir_table *table, enum weir_gauge_name gauge, int64_t value,
			    uint64_t now_ns);

/* Those that were ever set. */
WEIR_API int weir_gauges_each(struct weir_table *table, weir_gauge_fn fn, void *context);

/* ---- what there is room for ---- */

struct weir_stats_info {
	uint32_t size;  /* sizeof(struct weir_stats_info), set by the caller */
	uint32_t names; /* rules and candidates there is room for */
	uint32_t names_used;
	uint32_t history; /* of these, how many may have history and top keys */
	uint32_t history_used;
	uint32_t lanes;      /* threads that count for themselves; more share a lane */
	uint32_t lanes_used; /* … or were: a lane is inherited */
	uint32_t lines;      /* pairs of rule and lane; more are counted in the shared lane */
	uint32_t lines_used;
	uint32_t rule_bytes; /* what a rule with all of this takes in the table */
	uint64_t ticked_ns;  /* start of the second weir_tick came to; 0: never called */
};

WEIR_API int weir_stats_info(struct weir_table *table, struct weir_stats_info *info);

#ifdef __cplusplus
}
#endif
#endif
