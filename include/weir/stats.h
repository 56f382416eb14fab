/* What became of requests, rule by rule: counted in the table by every process that decides.
 *
 * Counts go on through restarts and reloads; they are exact however many processes and threads
 * decide, and if some of them are killed. A rule is known by its path in the rule files and its
 * period: "api/route=signup/ip/1d". Decisions are counted, not hits: a request of cost 5 counts
 * once, one of cost 0 (a look) or below (a give-back) not at all. */
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

struct weir_stat {
	uint32_t size; /* sizeof(struct weir_stat) as the library knows it */
	uint32_t slot; /* stays the same for the life of a table */
	struct weir_str rule;
#define WEIR_STAT_FIELD(field, text) uint64_t field;
	WEIR_STATS(WEIR_STAT_FIELD)
#undef WEIR_STAT_FIELD
};

/* Names that are not rules': a rule's has a slash in it. X(enum, name, what it counts) */
#define WEIR_STAT_NAMES(X)                                                                         \
	X(WEIR_STAT_OTHER, "other", "all rules for which the directory had no room")               \
	X(WEIR_STAT_NO_DOMAIN, "domain_not_found", "admitted: there are no rules for the domain")  \
	X(WEIR_STAT_ALLOWED, "allowed", "admitted by an `allow` of `requests:`")                   \
	X(WEIR_STAT_MISSING, "missing", "refused by `missing: deny`")                              \
	X(WEIR_STAT_UNREADABLE, "unreadable", "refused: too much to read for a decision")

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

#ifdef __cplusplus
}
#endif
#endif
