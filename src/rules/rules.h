/* Compiled rules. Each load makes a new generation of rules, which is not changed after loading.
 *
 * A decision uses the rules as follows. A decision allocates nothing, and `rules` must live until
 * the decision is made:
 *
 *   domain = wr_rules_domain(rules, name);                        match.h
 *   wr_rules_http_read(domain, &view, memory, size, &http);             http.h: → descriptors
 *   for each descriptor:
 *           wr_rules_match(rules, domain, entries, n, &match);    match.h: → rule, limits
 *           or wr_rules_request_limit(number, unit, &limit, error);    match.h: request's limit
 *   leave out each limit l with wr_rules_replaced(matches, n, l->name)  match.h
 *   for each remaining limit that is not unlimited:
 *           wr_rules_key_write(domain, match.node, entries, n, …);      key.h: whose counter
 *           limit = l->limit;
 *           if (l->calendar)
 *                   wr_calendar_window(l->zone, l->calendar, …);  calendar.h: → limit.window_…
 *           count the request for the key; limit.identity keeps limits on one key apart */
#ifndef WR_RULES_RULES_H
#define WR_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/algo.h>
#include <weir/rules.h>

#include "base/arena.h"

#define WR_DEPTH_MAX 32       /* maximum number of entries of a descriptor in a rule file */
#define WR_LIMITS_MAX 8       /* maximum number of limits of one descriptor */
#define WR_CANDIDATES_MAX 4   /* maximum number of candidates of one limit */
#define WR_PARTS_MAX 16       /* maximum number of entries of a descriptor made from a request */
#define WR_SOURCES_MAX 8      /* maximum number of alternatives in a `from` */
#define WR_DESCRIPTORS_MAX 32 /* maximum number of descriptors made from one request */

/* X(enum, number, text, seconds): units, with their numbers in RLS
 * (RateLimitResponse.RateLimit.Unit). */
#define WR_UNITS(X)                                                                                \
	X(WR_SECOND, 1, "second", 1)                                                               \
	X(WR_MINUTE, 2, "minute", 60)                                                              \
	X(WR_HOUR, 3, "hour", 3600)                                                                \
	X(WR_DAY, 4, "day", 86400)                                                                 \
	X(WR_MONTH, 5, "month", 2592000)                                                           \
	X(WR_YEAR, 6, "year", 31536000)                                                            \
	X(WR_WEEK, 7, "week", 604800)

/* The words of rule files. X(enum, number, text in rule files). The number 0 is the default. */
#define WR_CALENDARS(X)                                                                            \
	X(WR_CALENDAR_DAY, 1, "day")                                                               \
	X(WR_CALENDAR_WEEK, 2, "week")                                                             \
	X(WR_CALENDAR_MONTH, 3, "month")                                                           \
	X(WR_CALENDAR_YEAR, 4, "year")
#define WR_MODES(X)                                                                                \
	X(WR_HARD, 0, "hard")                                                                      \
	X(WR_SOFT, 1, "soft")
#define WR_ON_LIMITS(X)                                                                            \
	X(WR_REJECT, 0, "reject")                                                                  \
	X(WR_DEFER, 1, "defer")
#define WR_CONSISTENCIES(X)                                                                        \
	X(WR_STRICT, 0, "strict")                                                                  \
	X(WR_LEASE, 1, "lease")                                                                    \
	X(WR_EVENTUAL, 2, "eventual")                                                              \
	X(WR_LOCAL, 3, "local")
#define WR_STORE_FAILURES(X)                                                                       \
	X(WR_FAIL_LOCAL, 0, "local")                                                               \
	X(WR_FAIL_ALLOW, 1, "allow")                                                               \
	X(WR_FAIL_DENY, 2, "deny")
#define WR_ON_FULLS(X)                                                                             \
	X(WR_FULL_APPROXIMATE, 0, "approximate")                                                   \
	X(WR_FULL_REFUSE, 1, "refuse")
#define WR_ON_EXPIRIES(X)                                                                          \
	X(WR_EXPIRY_KEEP, 0, "keep")                                                               \
	X(WR_EXPIRY_REFUND, 1, "refund")
#define WR_MISSINGS(X)                                                                             \
	X(WR_MISSING_SKIP, 0, "skip")                                                              \
	X(WR_MISSING_DENY, 1, "deny")
#define WR_AMBIGUITIES(X)                                                                          \
	X(WR_AMBIGUOUS_SHARE, 0, "share")                                                          \
	X(WR_AMBIGUOUS_FIRST, 1, "first")                                                          \
	X(WR_AMBIGUOUS_LAST, 2, "last")                                                            \
	X(WR_AMBIGUOUS_NEXT, 3, "next")                                                            \
	X(WR_AMBIGUOUS_DENY, 4, "deny")                                                            \
	X(WR_AMBIGUOUS_JOIN, 5, "join")

#define WR_ENUM3(name, number, text) name = (number),
#define WR_ENUM4(name, number, text, extra) name = (number),
enum wr_unit { WR_UNITS(WR_ENUM4) };
enum wr_calendar { WR_CALENDARS(WR_ENUM3) };
enum wr_mode { WR_MODES(WR_ENUM3) };
enum wr_on_limit { WR_ON_LIMITS(WR_ENUM3) };
enum wr_consistency { WR_CONSISTENCIES(WR_ENUM3) };
enum wr_rules_store_failure { WR_STORE_FAILURES(WR_ENUM3) };
enum wr_on_full { WR_ON_FULLS(WR_ENUM3) };
enum wr_on_expiry { WR_ON_EXPIRIES(WR_ENUM3) };
enum wr_missing { WR_MISSINGS(WR_ENUM3) };
enum wr_ambiguity { WR_AMBIGUITIES(WR_ENUM3) };
#undef WR_ENUM3
#undef WR_ENUM4

/* match.c: returns the length of a unit in nanoseconds, or 0 if there is no unit with this
 * number. */
uint64_t wr_unit_ns(int unit);

/* match.c: returns the number of the unit that has this length, or 0 if no unit has this length.
 * RLS describes a period only by its unit. */
uint8_t wr_unit_of(uint64_t period_ns);

struct wr_node;
struct wr_zone;
struct wr_address_ranges;
struct wr_rules_requests;

/* The response to a refused request, as the rule defines it. */
struct wr_rules_response {
	uint32_t status; /* HTTP status; 0: the rule does not set it */
	struct weir_str content_type;
	struct weir_str body;
};

/* Settings of a limit with `on_limit: defer`: how the requests that it refuses are stored and
 * delivered later. */
struct wr_rules_defer {
	/* Names of the header fields that are stored, in lower case. */
	const struct weir_str *headers;
	uint32_t header_count;
	uint32_t max_tries;
	uint32_t max_waiting; /* maximum number of deferred requests of one key */
	uint32_t max_body;    /* maximum size of a body in bytes */
	uint64_t max_age_ns;
};

/* Default values, for the settings that a rule does not give in `defer`. */
extern const struct wr_rules_defer wr_rules_defer_default;

/* Returns whether requests with this method can be deferred. Only requests that change something
 * can be deferred, such as POST. */
bool wr_rules_defer_method(struct weir_str method);

/* A prefix that is shorter than this usually contains many clients. */
#define WR_BAN_V4_BITS_LEAST 24u
#define WR_BAN_V6_BITS_LEAST 48u

/* The `ban` of a limit: keys that the limit refuses too often are refused outright for some time. */
struct wr_rules_ban {
	/* The refusals of a key within a period, as a sliding window log that admits one refusal
	 * less than `after`. The refusal that this limit does not admit starts a ban. If `after` is
	 * 1, every refusal starts a ban, and `refusals` is empty. */
	struct weir_limit refusals;
	uint32_t after; /* number of refusals within `within_ns` that start a ban; at least 1 */
	uint32_t grow;  /* each further ban within a day is this many times as long; at least 1 */
	uint64_t within_ns;
	uint64_t for_ns; /* duration of the first ban */
	uint64_t max_ns; /* maximum duration of a ban */
	bool shield;     /* weir shield drops the packets of the banned address */
	/* Depth of the tree node whose value is the client's address, so that entry number
	 * `address_depth` - 1 of the descriptor is an address or a prefix. 0: the key contains no
	 * address. Then `shield` is false. */
	uint8_t address_depth;
	bool whole_address; /* this value is a whole address, not a prefix */
	const char *file;   /* location of the key `ban` */
	uint32_t line;
	uint32_t column;
};

/* A limit of a rule. */
struct wr_rules_limit {
	/* Checked by weir_limit_check(). If the limit has a calendar, a decision copies this struct
	 * and sets the window in the copy. */
	struct weir_limit limit;
	const struct wr_node *node;
	struct weir_str name;
	/* Id of the limit, such as "fixed_window/1m": the algorithm, the period (or the calendar
	 * and the zone, or max_hold), and the name if another limit has the same algorithm and
	 * period. The id and the key identify the counter. The id does not contain the number of
	 * requests, so that the counter stays the same when a limit is raised. */
	struct weir_str id;
	/* Name in statistics, such as "api/route=signup/ip/1d": the path of the tree node, and the
	 * period. */
	struct weir_str stat;
	const struct weir_str *replaces;
	/* The candidates of this limit. They are counted only in the local table, and never
	 * enforced. */
	const struct wr_rules_limit *candidates;
	const struct wr_zone *zone;
	const struct wr_rules_response *response; /* the response to a refused request, or NULL */
	const struct wr_rules_defer
		*defer; /* settings of `defer`, or NULL if on_limit is not WR_DEFER */
	const struct wr_rules_ban *ban; /* settings of `ban`, or NULL */
	uint32_t replace_count;
	uint32_t candidate_count;
	uint32_t enforce_ppm; /* the limit is enforced for this many of a million keys */
	uint8_t unit;        /* enum wr_unit for RLS responses; 0: RLS has no unit for the period */
	uint8_t calendar;    /* enum wr_calendar; 0: the period is limit.period_ns */
	uint8_t unlimited;   /* requests are neither counted nor refused; `limit` is empty */
	uint8_t mode;        /* enum wr_mode */
	uint8_t on_limit;    /* enum wr_on_limit */
	uint8_t consistency; /* enum wr_consistency */
	uint8_t on_store_failure; /* enum wr_rules_store_failure */
	uint8_t candidate;        /* this limit is a candidate */
	uint8_t on_expiry;        /* enum wr_on_expiry: for reservations that are never committed */
};

enum wr_node_kind {
	WR_NODE_DOMAIN,
	WR_NODE_EXACT, /* matches a key with one value */
	WR_NODE_ANY,   /* matches a key with any value */
	WR_NODE_GLOB,  /* has a `*` in its key or its value, which is then a pattern */
	WR_NODE_CIDR,  /* matches a key whose value is an address in a list */
};

enum wr_node_flags {
	WR_SHADOW = 1,
	WR_QUOTA = 2,
	WR_DETAILED_METRIC = 4,
	WR_VALUE_TO_METRIC = 8,
	WR_SHARE = 16, /* share_threshold: all values that match the rule share one counter */
	WR_KEY_GLOB = 32,
	WR_HAS_WILD = 64, /* some child is a WR_NODE_GLOB or WR_NODE_CIDR */
	WR_HAS_CHILDREN = 256,
	WR_IS_UNLIMITED = 512, /* the only limit of the rule is `unlimited` */
	WR_CLAIMED = 128,    /* used only while loading: a file has settings for this descriptor */
	WR_HAS_EXACT = 1024, /* some child is a WR_NODE_EXACT */
};

struct wr_node_more;

/* A node of the tree of rules: a descriptor of a rule file, or a domain (depth 0). The struct fills
 * one cache line and has the fields that matching reads. The text of `value` follows the struct in
 * memory. The other fields are in `more`, which matching reads for wildcards only. */
struct wr_node {
	struct weir_str key;   /* the key; for a domain its name */
	struct weir_str value; /* the value; "": there is none; CIDR: the sorted list as text */
	const struct wr_node *parent;
	const struct wr_rules_limit *limits;
	struct wr_node_more *more;
	uint32_t id;    /* number of the tree node, from 1 to rules->node_count */
	uint16_t flags; /* enum wr_node_flags */
	uint8_t depth;
	uint8_t kind : 4; /* enum wr_node_kind */
	/* Number of limits. If it is 0 and there are no children, requests are admitted without
	 * being counted. */
	uint8_t limit_count : 4;
};

/* Returns whether the tree node is a wildcard: a pattern or a list of addresses. */
static inline bool wr_node_is_wild(const struct wr_node *node)
{
	return node->kind == WR_NODE_GLOB || node->kind == WR_NODE_CIDR;
}

_Static_assert(sizeof(struct wr_node) == 64, "a walk reads one cache line a node");

_Static_assert(WR_LIMITS_MAX < 16, "limit_count has four bits");

struct wr_node_more {
	struct weir_str metadata;                 /* a JSON object, or "" */
	const struct wr_rules_requests *requests; /* the `requests:` of a domain, or NULL */
	const struct wr_address_ranges *ranges;   /* the addresses of a WR_NODE_CIDR */
	const struct wr_node **key_globs;         /* children whose key is a pattern */
	uint32_t key_glob_count;
	uint32_t order; /* position among the children of the parent, in file order */
	const char *file;
	uint32_t line;
	uint32_t column;
	uint32_t child_count;
	/* Depth of the tree node whose value is the client's address, for bans of operators. 0: the
	 * key contains no address, or it is not known which value is the address. */
	uint8_t address_depth;
	/* Used only while loading: index of the file in which the descriptor was found most
	 * recently. */
	uint32_t file_index;
	/* Used only while loading: number of entries of `requests:` whose descriptors can match
	 * this tree node. */
	uint32_t made;
	struct wr_node *first_child; /* the first child, in file order */
	struct wr_node *last_child;
	struct wr_node *next;
};

/* Returns the next rule in file order, children before siblings. Returns NULL after the last
 * rule. */
static inline const struct wr_node *wr_node_next(const struct wr_node *node)
{
	if (node->more->first_child)
		return node->more->first_child;
	while (node && !node->more->next)
		node = node->parent;
	return node ? node->more->next : NULL;
}

/* The wildcards with the same parent and the same key, in file order. */
struct wr_wild {
	const struct wr_node *parent;
	struct weir_str key;
	const struct wr_node **nodes;
	uint32_t count;
};

struct wr_index_slot {
	uint64_t hash;
	const void *item;
};

/* A hash table with open addressing. The number of slots is a power of two, and at most half of the
 * slots are used. */
struct wr_index {
	struct wr_index_slot *slots;
	uint64_t mask;
};

struct weir_rules {
	struct wr_arena arena; /* owns everything below except the tree nodes */
	/* Owns the tree nodes. They have an arena of their own, so that they are close together in
	 * memory. */
	struct wr_arena nodes_arena;
	uint8_t secret[192]; /* secret of the index's hash; it is different for every load */
	struct wr_index nodes;
	struct wr_index wilds;
	struct wr_node *first_domain;
	struct wr_node *last_domain;
	const char *path;
	uint64_t fingerprint;
	uint64_t hash;
	uint64_t generation;
	uint64_t loaded_ns;
	uint32_t node_count; /* number of tree nodes, domains included */
	uint32_t domain_count;
	uint32_t limit_count;
	/* Number of sliding_window_log limits, candidates included, and of bans that log several
	 * refusals. */
	uint32_t log_count;
	uint32_t request_count;
	uint32_t file_count;
};

#endif
