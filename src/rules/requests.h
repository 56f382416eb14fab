/* The compiled form of `requests:`: when an entry applies, and which descriptor it makes. */
#ifndef WR_RULES_REQUESTS_H
#define WR_RULES_REQUESTS_H

#include "base/address.h"
#include "rules/rules.h"

#define WR_PATH_SEGMENTS_MAX 64
#define WR_CAPTURES_MAX 8

/* X(enum, name, loose). If the name ends with a dot, the name of a header field, parameter, cookie
 * or path part follows. `loose` is true if a client can leave the value out or invent it. */
#define WR_SOURCES(X)                                                                              \
	X(WR_FROM_REMOTE_ADDRESS, "remote_address", false)                                         \
	X(WR_FROM_MASKED_REMOTE_ADDRESS, "masked_remote_address", false)                           \
	X(WR_FROM_HEADER, "header.", true)                                                         \
	X(WR_FROM_QUERY, "query.", true)                                                           \
	X(WR_FROM_COOKIE, "cookie.", true)                                                         \
	X(WR_FROM_PATH_PART, "path.", false)                                                       \
	X(WR_FROM_PATH, "path", false)                                                             \
	X(WR_FROM_METHOD, "method", false)                                                         \
	X(WR_FROM_HOST, "host", false)                                                             \
	X(WR_FROM_IDENTITY, "identity", false)

enum wr_source_kind {
#define WR_SOURCE_ENUM(name, text, loose) name,
	WR_SOURCES(WR_SOURCE_ENUM)
#undef WR_SOURCE_ENUM
};

/* The meaning of a comma in a header field. Proxies join fields of one name with commas, so the
 * part behind a comma may have been a field of its own. */
enum wr_commas {
	WR_COMMAS_SPLIT, /* a comma separates values, as if each were a field of its own */
	WR_COMMAS_TEXT,  /* a comma is part of the value, by definition of the field */
	/* A comma is part of the value, which consists of all fields joined with commas. */
	WR_COMMAS_JOIN,
};

struct wr_source {
	enum wr_source_kind kind;
	bool loose; /* a client can leave the value out or invent it */
	/* Name of the source in the rule file, such as "header.x-user-id". The name is part of the
	 * counter's key if the entry has several sources. */
	struct weir_str label;
	struct weir_str name; /* the part of `label` after the dot: "x-user-id" */
	enum wr_commas commas;
	uint8_t v4_bits, v6_bits;
};

/* One entry of the descriptor to make: it has a fixed value, or the value of the first source that
 * is present. */
struct wr_rules_part {
	struct weir_str key;
	struct weir_str value;
	const struct wr_source *sources;
	uint32_t source_count; /* 0: the value is fixed */
	bool has_default;
	enum wr_missing missing;
	enum wr_ambiguity ambiguous; /* how to handle a source that has several different values */
	struct weir_str otherwise;   /* the value of `default:` */
};

/* A segment of a path pattern: a literal text, or a capture such as {id}, which matches any
 * text. */
struct wr_segment {
	struct weir_str text; /* the literal text, or the name of the capture */
	bool capture;
};

struct wr_path {
	struct weir_str text;
	const struct wr_segment *segments;
	uint16_t count;
	/* True if the pattern ends in slash star. It then matches this path and all paths below. */
	bool rest;
};

struct wr_texts {
	const struct weir_str *items;
	uint32_t count; /* 0: any text matches */
};

/* X(enum, name, known). The sources of a cost. If the name ends with a dot, the name of a header
 * field or parameter, or a JSON pointer follows. `known` is true if the value is known when the
 * request arrives; the other values are known after the response. */
#define WR_COST_SOURCES(X)                                                                         \
	X(WR_COST_HEADER, "header.", true)                                                         \
	X(WR_COST_QUERY, "query.", true)                                                           \
	X(WR_COST_REQUEST_BYTES, "request.bytes", true)                                            \
	X(WR_COST_RESPONSE_HEADER, "response.header.", false)                                      \
	X(WR_COST_RESPONSE_BYTES, "response.bytes", false)                                         \
	X(WR_COST_RESPONSE_STATUS, "response.status", false)                                       \
	X(WR_COST_RESPONSE_TIME_MS, "response.time_ms", false)                                     \
	X(WR_COST_RESPONSE_JSON, "response.json.", false)

enum wr_cost_from {
	WR_COST_NUMBER, /* a plain number */
#define WR_COST_ENUM(name, text, known) name,
	WR_COST_SOURCES(WR_COST_ENUM)
#undef WR_COST_ENUM
};

#define WR_COST_MAX UINT32_MAX /* largest cost of a request */

/* Where a cost comes from. */
struct wr_rules_cost_source {
	uint8_t from;              /* enum wr_cost_from */
	bool defaults_to_reserved; /* of `actual`: without a usable value, the reservation counts */
	/* Name of the header field (in lower case) or parameter, or the JSON pointer. */
	struct weir_str name;
	struct weir_str label; /* as in the rule file: "response.json./usage/total_tokens" */
	int64_t otherwise;     /* the plain number, or the value of `default:` */
	int64_t max;           /* larger values are lowered to `max`, at most WR_COST_MAX */
	const struct wr_source *source; /* WR_COST_HEADER and WR_COST_QUERY: how it is read */
};

/* `cost:` of an entry of `requests:`. */
struct wr_rules_cost {
	struct wr_rules_cost_source arrival; /* `reserve`, or the whole cost */
	struct wr_rules_cost_source actual;  /* valid if `settles` */
	bool settles;
};

#define WR_STATUSES 600 /* statuses from 0 to 599; 0 stands for a request without a response */

/* `count:` of an entry of `requests:`: one bit per HTTP status. The bit of a status is 1 if
 * responses with this status count. The bit of status 0 is always 1. */
struct wr_rules_count {
	uint8_t counts[(WR_STATUSES + 7) / 8];
};

static inline bool wr_rules_counts_status(const struct wr_rules_count *count, uint32_t status)
{
	return status >= WR_STATUSES || (count->counts[status / 8] >> status % 8 & 1);
}

struct wr_rules_request {
	struct wr_texts methods; /* in upper case */
	struct wr_texts hosts;   /* in lower case; may be a pattern such as "*.example.com" */
	const struct wr_path *paths;
	uint32_t path_count;
	uint32_t part_count;
	const struct wr_rules_part *parts;
	const struct wr_address_ranges
		*addresses; /* only clients with these addresses match; NULL: all clients */
	bool allow;
	/* True if a value of the descriptor comes from the path. Each reading then makes its own
	 * descriptor. */
	bool uses_path;
	bool meets_limit; /* used only while loading: some rule limits the descriptor */
	/* Used only while loading: the largest number of limits of a rule that the descriptor can
	 * match. */
	uint8_t most_limits;
	const struct wr_rules_cost *cost;   /* NULL: a request costs 1 */
	const struct wr_rules_count *count; /* NULL: responses with any status count */
	const char *file;
	uint32_t line;
	uint32_t column;
	struct wr_rules_request *next;
};

/* request_id.c: returns a number that identifies the entry: when it applies, and which descriptor it
 * makes. The number is never 0. It is stored with deferred requests, so it must not change. */
uint64_t wr_rules_request_id(const struct wr_rules_request *request);

/* request_id.c: returns the entry of the domain with this number that has a `cost` or a `count`, or
 * NULL. */
const struct wr_rules_request *wr_rules_request_find(const struct wr_node *domain, uint64_t id);

struct wr_rules_requests {
	struct wr_rules_request *first;
	struct wr_rules_request *last;
	uint32_t count;
	/* True if at least one entry needs the host. If no entry needs the host, it is not read,
	 * because reading the host takes as long as a decision. */
	bool uses_host;
};

#endif
