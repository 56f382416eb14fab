/* Statistics of decisions by rule. Every process that decides writes them to the table, and every
 * process that has the table open can read them.
 *
 *   totals      exact counts of each rule since the table was made         weir_stats_each
 *   costs       units reserved, used and refunded, and slots in use        weir_costs_each
 *   history     the last ten minutes by second, the last day by minute     weir_history
 *   top keys    most frequent and most refused keys of a rule, estimated   weir_top
 *   candidates  decisions that other limits would have made, exact         weir_candidates_each
 *   latency     how long decisions took, measured for one in 64            weir_latency
 *   hosts       processes that decide, their rules and reloads             weir_hosts_each
 *   gauges      state of the service's central store and fleet             weir_gauges_each
 *
 * Totals continue after restarts and reloads. Totals are exact for any number of processes and
 * threads, even if processes are killed. The name of a rule is its path in the rule files and its
 * period: "api/route=signup/ip/1d". Decisions are counted, not hits: a request of cost 5 counts
 * once, and a request of cost 0 or below does not count.
 *
 * Only the rules with the highest recent rates have history and top keys. Their number depends on
 * the size of the table: 400 with 64 MiB, 6 with 1 MiB (weir_stats_info). A process must call
 * weir_tick once a second, otherwise there are only totals, candidates and latency. */
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

/* Advances the history and chooses the rules that have a history. Any number of processes may call
 * it at any time. Once a second, one of the processes does the work, which takes about a
 * millisecond with 5,000 rules. Counts between two calls are divided evenly among the seconds
 * between the calls. If the calls are more than ten minutes apart, the history has a gap. If the
 * process is killed during the call, another process takes over within three seconds. If the clock
 * steps back, the points of the history whose time is now in the future are erased. Returns 1 if
 * this call did the work, 0 if the work was already done, WEIR_EINVAL, WEIR_ETIME, or WEIR_ELAYOUT
 * if another version of weir wrote the statistics. */
WEIR_API int weir_tick(struct weir_table *table, uint64_t now_ns);

/* ---- totals ---- */

/* X(field, description). A rule in shadow mode, or a rule whose `enforce` excludes the key, refuses
 * no request; requests that the rule would have refused count as `shadowed`. A refused request
 * counts only for the rules that refused it. The list never changes, because struct weir_stat has
 * other fields behind these. */
#define WEIR_STATS(X)                                                                              \
	X(admitted, "requests admitted by the rule")                                               \
	X(refused, "requests the rule refused")                                                    \
	X(shadowed, "requests the rule would have refused if it were enforced")                    \
	X(near_limit, "requests admitted with more than 80 % of the limit used, or another share") \
	X(delayed, "requests admitted after a wait")                                               \
	X(delay_us, "µs that delayed requests waited in total")                                    \
	X(deferred, "requests the rule deferred instead of refusing")                              \
	X(soft, "requests admitted above the limit by soft mode")

enum weir_stat_flags {
	WEIR_STAT_HISTORY = 1, /* the rule has history and top keys */
	WEIR_STAT_SHADOW = 2,  /* the rule is counted but never enforced */
	/* The rule is a quota: quotas refuse a request only if each descriptor with quotas has an
	 * exhausted quota. */
	WEIR_STAT_QUOTA = 4,
	/* The `consistency` of the rule is not `local`: if there is a central store, all nodes
	 * share the counts of the rule through it. */
	WEIR_STAT_CENTRAL = 8,
	WEIR_STAT_UNLIMITED = 16 /* the rule has `unlimited` */
};

/* The callback of weir_stats_each gets the size of the struct in the library's version. In a call
 * of weir_stats_slot, the caller sets `size`. A smaller or larger `size` is handled as in struct
 * weir_info (weir/weir.h). `size` must include the counts, which are the fields of WEIR_STATS. */
struct weir_stat {
	uint32_t size; /* sizeof(struct weir_stat) */
	uint32_t slot; /* number of the rule, which never changes during the life of a table */
	struct weir_str rule;
#define WEIR_STAT_FIELD(field, text) uint64_t field;
	WEIR_STATS(WEIR_STAT_FIELD)
#undef WEIR_STAT_FIELD
	/* The fields from here on, except recent_milli, describe the rule as of its latest load.
	 * The names in WEIR_STAT_NAMES, and limits that came with requests, are not loaded. For
	 * them these fields are 0, but `flags` may have WEIR_STAT_HISTORY. */
	uint64_t loaded_ns; /* time of the latest load of the rule; 0: not known */
	uint64_t period_ns; /* 0: a calendar window */
	uint32_t flags;     /* enum weir_stat_flags */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t limit;
	uint32_t burst;        /* burst of a token bucket, or queue_size of a leaky bucket */
	uint64_t recent_milli; /* decisions per 1000 seconds, averaged over about a minute */
	uint64_t since_ns;     /* when the rule was first loaded with its present limit */
};

/* X(enum, name, description). Counters that do not belong to a rule. The names of these counters
 * contain no slash, but every name of a rule contains a slash. */
#define WEIR_STAT_NAMES(X)                                                                         \
	X(WEIR_STAT_OTHER, "other", "all rules that did not fit in the directory")                 \
	X(WEIR_STAT_NO_DOMAIN, "domain_not_found", "admitted: there are no rules for the domain")  \
	X(WEIR_STAT_ALLOWED, "allowed", "admitted by an `allow` of `requests:`")                   \
	X(WEIR_STAT_MISSING, "missing", "refused by `missing: deny`")                              \
	X(WEIR_STAT_UNREADABLE, "unreadable", "refused: malformed, too large, or too many limits") \
	X(WEIR_STAT_NO_RULE, "no_rule", "admitted: no rule of the domain matches")

enum weir_stat_name {
#define WEIR_STAT_ENUM(name, text, what) name,
	WEIR_STAT_NAMES(WEIR_STAT_ENUM)
#undef WEIR_STAT_ENUM
		WEIR_STAT_RULES /* the first slot for rules */
};

/* The callback of weir_stats_each, called for each name. It returns 0 to continue, or another value
 * to end the iteration.
 */
typedef int (*weir_stat_fn)(void *context, const struct weir_stat *stat);

/* Calls `fn` for each name that has a slot, including rules that no longer exist. Counts are read
 * while other processes write them: each count is correct at some moment during the call. Returns
 * 0, the value with which `fn` ended the iteration, WEIR_EINVAL, or WEIR_ELAYOUT if another version
 * of weir wrote the statistics. */
WEIR_API int weir_stats_each(struct weir_table *table, weir_stat_fn fn, void *context);

#define WEIR_STAT_NAME_BYTES 120

/* Reads the counts of one slot. The caller sets stat->size. The call writes the name of the rule to
 * `name`, and stat->rule points there. Returns 0, WEIR_ENOENT if the slot is not in use, or an
 * error of weir_stats_each. */
WEIR_API int weir_stats_slot(struct weir_table *table, uint32_t slot,
			     char name[WEIR_STAT_NAME_BYTES], struct weir_stat *stat);

/* ---- costs ---- */

/* X(field, description). Units of a rule whose requests have a `cost` or a `count`, or are
 * reservations. For a limit on concurrent requests a unit is a slot: `reserved` counts slots taken,
 * `refunded` slots given back, `settled` requests that ended, and `lost` slots that were not given
 * back within max_hold. The other fields are 0 for such a limit. Fields are never added to this
 * list, because the fields after the list in struct weir_cost would then move, and programs that
 * were compiled with an older header would read wrong values. */
#define WEIR_COST_STATS(X)                                                                         \
	X(reserved, "units charged when requests arrived")                                         \
	X(actual, "units that settled requests used")                                              \
	X(refunded, "units given back when requests were settled")                                 \
	X(owed, "units charged at settling beyond the reservation, within or beyond the limit")    \
	X(settled, "requests settled")                                                             \
	X(lost, "unused units that could not be given back, for example because their window had " \
		"ended, and units that were not charged because the debt was at max_debt")         \
	X(defaulted, "costs replaced by a default: missing, not a number, or negative")            \
	X(clamped, "costs lowered to their maximum")

/* The costs of a rule since the table was made. */
struct weir_cost {
	uint32_t size; /* sizeof(struct weir_cost) in the library's version */
	uint32_t slot; /* index of the rule in the statistics, as in struct weir_stat */
	struct weir_str rule;
#define WEIR_COST_FIELD(field, text) uint64_t field;
	WEIR_COST_STATS(WEIR_COST_FIELD)
#undef WEIR_COST_FIELD
	/* Number of slots that requests of all keys hold: reserved - refunded - lost. If a process
	 * is killed, its slots are included until weir_tick moves them to `lost`, at most twice
	 * max_hold plus 3 seconds after they were taken. 0 if the rule does not limit concurrent
	 * requests. */
	uint64_t in_use;
	uint32_t algorithm;    /* enum weir_algorithm; WEIR_CONCURRENT: the units are slots */
	uint32_t limit;        /* the rule's limit as of its latest load */
	uint32_t history_slot; /* passed to weir_history, selects the history of the costs */
	uint32_t spare;
};

typedef int (*weir_cost_fn)(void *context, const struct weir_cost *cost);

/* Calls `fn` for each rule that has counted a cost or a slot, and returns the same values as
 * weir_stats_each. `rule` is valid until `fn` returns. */
WEIR_API int weir_costs_each(struct weir_table *table, weir_cost_fn fn, void *context);

/* ---- history ---- */

#define WEIR_HISTORY_SECONDS 600
#define WEIR_HISTORY_MINUTES 1440

enum weir_span { WEIR_SECONDS = 1, WEIR_MINUTES = 60 }; /* number of seconds that a point covers */

/* Counts of one second or minute. Counts up to 4,095 are exact; larger counts have an error of at
 * most 1/4096. For a candidate, the point counts the requests that the candidate would have
 * admitted, refused and delayed. For the costs of a rule, the point has units: `admitted` is the
 * number of units reserved, `refused` used, `shadowed` refunded, and `delayed` charged as debt. For
 * a limit on concurrent requests, `admitted` is the number of slots taken, `refused` is the sum of
 * the slots in use at the end of each second of the point, `shadowed` is the number of slots given
 * back, and `delayed` the number of slots lost. */
struct weir_point {
	uint64_t admitted;
	uint64_t refused; /* includes deferred requests */
	uint64_t shadowed;
	uint64_t delayed;
	uint32_t known; /* 0: no counts, because weir_tick did not run or the rule had no history */
	uint32_t reserved;
};

#define WEIR_STAT_ALL UINT32_MAX /* passed as a slot, selects the sum of all rules */

/* Writes the latest `max` points of a rule, a candidate or a rule's costs, oldest first, without the
 * current second or minute. *end_s is the epoch second at which the newest point ends. Returns the number of
 * points, WEIR_EINVAL, WEIR_ELAYOUT, or WEIR_ENOENT if the slot has no history. */
WEIR_API int weir_history(struct weir_table *table, uint32_t slot, enum weir_span span,
			  struct weir_point *points, size_t max, uint64_t *end_s);

/* ---- top keys ---- */

/* Number of keys in a list of top keys. A list contains every key whose count is more than 1/48 of
 * the sum of all counts. */
#define WEIR_TOP_KEYS 48
#define WEIR_TOP_TEXT 64

enum weir_top_list {
	WEIR_TOP_HOT,     /* keys with the most decisions by the rule */
	WEIR_TOP_REFUSED, /* keys with the most refused, deferred or shadowed requests */
};

enum weir_top_text {
	/* The key has no text, for example because the engine does not have WEIR_KEYS_TEXT, or
	 * because the key is not among the first ten. */
	WEIR_TOP_NO_TEXT,
	WEIR_TOP_WHOLE, /* the text is complete */
	WEIR_TOP_CUT,   /* the text was longer and has been cut */
};

/* A key in a list. All counts are halved every five minutes, so for a steady stream of requests
 * `count` is at most the number of requests in ten minutes. The exact count, also halved every five
 * minutes, is within [count - over - noise, count + noise]. `over` is the largest error of the
 * algorithm that finds the top keys. `noise` is three standard deviations of the sampling; it is 0
 * while every decision is sampled, which is so up to about 1,000 decisions per second. */
struct weir_top_key {
	uint64_t hash; /* hash of the key and the limit, computed with the table's secret */
	uint64_t count;
	uint64_t over;
	uint64_t noise;
	/* `text` holds the values of the descriptor's entries for which the rule has no value, in
	 * order, separated by WEIR_TOP_BETWEEN. Clients send these values, so they may contain any
	 * byte: escape them. */
	uint32_t text_kind; /* enum weir_top_text */
	uint32_t text_len;
	char text[WEIR_TOP_TEXT];
};

#define WEIR_TOP_BETWEEN '\x1f'

/* A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include
 * `every`. */
struct weir_top_info {
	uint32_t size;  /* sizeof(struct weir_top_info), set by the caller */
	uint32_t every; /* at present one decision in this many is sampled */
	/* Sum of the counts of all keys, also halved every five minutes. The count of a key that is
	 * not in the list is at most total/48. */
	uint64_t total;
};

/* Writes the first `max` keys of a rule's list, largest count first. `info` may be NULL. Returns
 * the number of keys, WEIR_EINVAL, WEIR_ELAYOUT, or WEIR_ENOENT if the slot has no top keys. */
WEIR_API int weir_top(struct weir_table *table, uint32_t slot, enum weir_top_list list,
		      struct weir_top_key *keys, size_t max, struct weir_top_info *info);

/* ---- bans ---- */

/* X(field, meaning) */
#define WEIR_BAN_STATS(X)                                                                          \
	X(started, "bans that the rule started, because it had refused a key too often")           \
	X(refused, "requests that a ban refused, part of the rule's refused requests")             \
	X(would_start, "bans that the rule would have started if it were enforced")                \
	X(would_refuse, "requests that these bans would have refused")

/* The bans of a rule with `ban` since the table was made. Each process with the table adds to the
 * same counts; bans of other nodes are not counted. */
struct weir_ban_stat {
	uint32_t size; /* sizeof(struct weir_ban_stat) in the library's version */
	uint32_t slot; /* index of the rule in the statistics, as in struct weir_stat */
	struct weir_str rule;
#define WEIR_BAN_FIELD(field, text) uint64_t field;
	WEIR_BAN_STATS(WEIR_BAN_FIELD)
#undef WEIR_BAN_FIELD
};

typedef int (*weir_ban_stat_fn)(void *context, const struct weir_ban_stat *stat);

/* Calls `fn` for each rule that has counted a ban, and returns the same values as weir_stats_each.
 * `rule` is valid until `fn` returns. */
WEIR_API int weir_bans_each(struct weir_table *table, weir_ban_stat_fn fn, void *context);

/* ---- candidates ---- */

/* A limit under `candidates` of a rule, with the decisions that it would have made on the requests
 * of the rule. A candidate whose numbers are changed in the rule file becomes a new candidate, and
 * its counts start at 0. */
struct weir_candidate {
	uint32_t size;        /* sizeof(struct weir_candidate) in the library's version */
	uint32_t slot;        /* slot of the candidate, for weir_history */
	uint32_t rule_slot;   /* slot of the candidate's rule */
	uint32_t algorithm;   /* enum weir_algorithm */
	struct weir_str rule; /* the rule's name */
	struct weir_str text; /* the limit, such as "token_bucket, 100 per minute, burst 20" */
	uint64_t loaded_ns;   /* time of the latest load of rules with this candidate */
	uint64_t period_ns;   /* 0: a calendar window */
	uint32_t limit;
	uint32_t burst;       /* burst of a token bucket, or queue_size of a leaky bucket */
	uint64_t would_admit; /* number of requests that the candidate would have admitted */
	uint64_t would_refuse;
	uint64_t admits_more;  /* part of would_admit that the rule refused or would have refused */
	uint64_t refuses_more; /* part of would_refuse that the rule admitted */
	uint64_t would_delay;  /* part of would_admit that the candidate would have delayed */
	uint64_t would_delay_us;
	uint64_t would_ban;    /* number of bans that the candidate would have started */
	uint64_t would_banned; /* part of would_refuse that these bans would have refused */
};

typedef int (*weir_candidate_fn)(void *context, const struct weir_candidate *candidate);

/* Calls `fn` for each candidate, and returns the same values as weir_stats_each. Texts are valid
 * until `fn` returns. */
WEIR_API int weir_candidates_each(struct weir_table *table, weir_candidate_fn fn, void *context);

/* ---- latency ---- */

#define WEIR_LATENCY_BUCKETS 94

enum weir_latency_kind {
	WEIR_LATENCY_LOCAL,   /* decided in the table */
	WEIR_LATENCY_CENTRAL, /* decided by the central store */
};

/* How long decisions took. Hosts report one decision in 64 (weir_ask_report_latency). A smaller or
 * larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include the fields up
 * to `sum_ns`. */
struct weir_latency {
	uint32_t size; /* sizeof(struct weir_latency), set by the caller */
	uint32_t reserved;
	uint64_t count;
	uint64_t sum_ns;
	/* Number of decisions in each bucket, not cumulative. */
	uint64_t bucket[WEIR_LATENCY_BUCKETS];
};

/* Returns the upper bound of bucket `i` in ns. The bucket counts latencies below this bound and not
 * below the bound of bucket i - 1. There are four buckets per power of two, from 64 ns to half a
 * second. Returns UINT64_MAX for the last bucket. */
WEIR_API uint64_t weir_latency_below(unsigned i);

/* Reads the latencies of one kind. Returns 0, WEIR_EINVAL, or WEIR_ELAYOUT if another version of
 * weir wrote the statistics. */
WEIR_API int weir_latency(struct weir_table *table, enum weir_latency_kind kind,
			  struct weir_latency *latency);

/* ---- hosts ---- */

/* A process with an engine. If two live processes have different values of rules_hash, their rules
 * differ. */
struct weir_host {
	uint32_t size; /* sizeof(struct weir_host) in the library's version */
	uint32_t pid;
	uint32_t alive; /* 0: the process has ended; its entry is reused when needed */
	uint32_t reserved;
	struct weir_str name; /* `host` of struct weir_engine_opts, for example "nginx" */
	uint64_t rules_hash;  /* 0: no rules yet */
	uint64_t generation;
	uint64_t loaded_ns;
	uint64_t loads_good, loads_failed;
	uint64_t failed_ns;    /* time of the latest load if that load failed, otherwise 0 */
	struct weir_str error; /* the first 127 bytes of the reason why the latest load failed */
};

typedef int (*weir_host_fn)(void *context, const struct weir_host *host);

WEIR_API int weir_hosts_each(struct weir_table *table, weir_host_fn fn, void *context);

/* ---- gauges ---- */

/* X(enum, name, description). A gauge is a value that the service sets for readers of the table. If
 * several processes set a gauge, the latest value counts. New gauges must be appended at the end,
 * because tables store a gauge under its number in this list. */
#define WEIR_GAUGES(X)                                                                             \
	X(WEIR_GAUGE_STORE_UP, "store_up", "1: the central store is available, 0: it is not")      \
	X(WEIR_GAUGE_STORE_BREAKER, "store_breaker", "0: closed, 1: half open, 2: open")           \
	X(WEIR_GAUGE_STORE_NODES, "store_nodes", "nodes of the central store")                     \
	X(WEIR_GAUGE_STORE_NODES_UP, "store_nodes_up", "nodes of the central store that answer")   \
	X(WEIR_GAUGE_STORE_RTT_US, "store_rtt_us", "µs until a reply, smoothed")                   \
	X(WEIR_GAUGE_STORE_WAITING, "store_waiting", "questions in flight")                        \
	X(WEIR_GAUGE_FLEET_NODES, "fleet_nodes", "nodes of the fleet seen recently")               \
	X(WEIR_GAUGE_SHARE_PPM, "share_ppm", "this node's share of limits, in millionths")         \
	X(WEIR_GAUGE_LEASES, "leases", "leases held")                                              \
	X(WEIR_GAUGE_LEASED_UNITS, "leased_units", "unspent units of leases")                      \
	X(WEIR_GAUGE_OVERSHOOT_PPM, "overshoot_ppm",                                               \
	  "bound of the excess that eventual limits admit, in millionths")                         \
	X(WEIR_GAUGE_LEASES_GRANTED, "leases_granted", "leases granted since the service started") \
	X(WEIR_GAUGE_LEASES_RENEWED, "leases_renewed", "leases renewed since then")                \
	X(WEIR_GAUGE_LEASES_VOIDED, "leases_voided", "leases that the central store lost")         \
	X(WEIR_GAUGE_UNITS_GRANTED, "units_granted", "units leased since the service started")     \
	X(WEIR_GAUGE_UNITS_SPENT, "units_spent", "leased units that were spent")                   \
	X(WEIR_GAUGE_UNITS_RETURNED, "units_returned", "leased units that were returned")          \
	X(WEIR_GAUGE_UNITS_BURNT, "units_burnt", "leased units that expired unspent")              \
	X(WEIR_GAUGE_EXCHANGES, "exchanges", "counters exchanged since the service started")       \
	X(WEIR_GAUGE_PUSHES, "pushes", "counters sent to other regions since the service started") \
	X(WEIR_GAUGE_REGIONS, "regions", "other regions")                                          \
	X(WEIR_GAUGE_REGIONS_UP, "regions_up", "other regions whose central store answers")        \
	X(WEIR_GAUGE_QUEUE_DEPTH, "queue_depth", "deferred requests in the queue")                 \
	X(WEIR_GAUGE_QUEUE_BYTES, "queue_bytes", "bytes of deferred requests")                     \
	X(WEIR_GAUGE_QUEUE_OLDEST_US, "queue_oldest_us", "µs since the oldest one was queued")     \
	X(WEIR_GAUGE_QUEUE_DEAD, "queue_dead", "dead letters")                                     \
	X(WEIR_GAUGE_QUEUE_SENDING, "queue_sending", "deliveries in flight")                       \
	X(WEIR_GAUGE_QUEUE_TARGET_UP, "queue_target_up",                                           \
	  "1: the API server of the deliveries is reachable")

enum weir_gauge_name {
#define WEIR_GAUGE_ENUM(name, text, what) name,
	WEIR_GAUGES(WEIR_GAUGE_ENUM)
#undef WEIR_GAUGE_ENUM
		WEIR_GAUGE_COUNT
};

struct weir_gauge {
	uint32_t size;   /* sizeof(struct weir_gauge) in the library's version */
	uint32_t number; /* enum weir_gauge_name */
	const char *name;
	const char *what;
	int64_t value;
	uint64_t set_ns; /* when the value was set */
};

typedef int (*weir_gauge_fn)(void *context, const struct weir_gauge *gauge);

/* Sets a gauge. Returns 0, WEIR_EINVAL, or WEIR_ELAYOUT if another version of weir wrote the
 * statistics. */
WEIR_API int weir_gauge_set(struct weir_table *table, enum weir_gauge_name gauge, int64_t value,
			    uint64_t now_ns);

/* Calls `fn` for each gauge that was ever set. */
WEIR_API int weir_gauges_each(struct weir_table *table, weir_gauge_fn fn, void *context);

/* ---- capacity ---- */

/* A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include
 * the fields up to `names_used`. */
struct weir_stats_info {
	uint32_t size;  /* sizeof(struct weir_stats_info), set by the caller */
	uint32_t names; /* number of rules and candidates that fit into the table */
	uint32_t names_used;
	uint32_t history; /* number of rules and candidates that can have history and top keys */
	uint32_t history_used;
	/* Number of threads that can have a lane (an array of counts) of their own; other threads
	 * share a lane. */
	uint32_t lanes;
	uint32_t lanes_used; /* number of lanes that are or were in use */
	/* Number of lines in the table; a line is eight counters. A rule needs one line in each
	 * lane that counts for it. If no line is free, a thread counts the rule's decisions in the
	 * lane that threads without a lane of their own share. */
	uint32_t lines;
	uint32_t lines_used;
	uint32_t rule_bytes; /* bytes of memory that a rule with history and top keys uses */
	/* weir_tick has recorded everything before this time. 0: weir_tick never ran. */
	uint64_t ticked_ns;
};

/* Returns 0, WEIR_EINVAL, or WEIR_ELAYOUT if another version of weir wrote the statistics. */
WEIR_API int weir_stats_info(struct weir_table *table, struct weir_stats_info *info);

#ifdef __cplusplus
}
#endif
#endif
