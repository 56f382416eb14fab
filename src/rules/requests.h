/* `requests:` compiled: when an entry applies, and the descriptor it makes. */
#ifndef WR_RULES_REQUESTS_H
#define WR_RULES_REQUESTS_H

#include "rules/address.h"
#include "rules/rules.h"

#define WR_PATH_SEGMENTS_MAX 64
#define WR_CAPTURES_MAX 8

/* X(enum, name). A dot at the end: a name follows, and a client may leave the value out or invent
 * it. */
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

/* A comma in a header field. Proxies join fields of one name with it, so the part behind it may
 * have been a field of its own. */
enum wr_commas {
	WR_COMMAS_SPLIT, /* several values, as several fields */
	WR_COMMAS_TEXT,  /* part of the value, by definition of the field */
	WR_COMMAS_JOIN,  /* part of the value, which is all fields joined */
};

struct wr_source {
	enum wr_source_kind kind;
	bool loose; /* a client may leave it out or invent it */
	struct weir_str
		label; /* "header.x-user-id", part of the counter's key when there are others */
	struct weir_str name; /* "x-user-id" */
	enum wr_commas commas;
	uint8_t v4_bits, v6_bits;
};

/* One entry of the descriptor to make: a fixed value, or the first source that is present. */
struct wr_part {
	struct weir_str key;
	struct weir_str value;
	const struct wr_source *sources;
	uint32_t source_count; /* 0: fixed */
	bool has_default;
	enum wr_missing missing;
	enum wr_ambiguity ambiguous; /* for a source with different values */
	struct weir_str otherwise;   /* `default:` */
};

/* A path pattern: literal segments and captures, and perhaps anything below. */
struct wr_segment {
	struct weir_str text; /* literal, or the capture's name */
	bool capture;
};

struct wr_path {
	struct weir_str text;
	const struct wr_segment *segments;
	uint16_t count;
	bool rest; /* ends in slash star: itself and everything below */
};

struct wr_texts {
	const struct weir_str *items;
	uint32_t count; /* 0: any */
};

struct wr_request {
	struct wr_texts methods; /* upper case */
	struct wr_texts hosts;   /* lower case; "*.example.com" */
	const struct wr_path *paths;
	uint32_t path_count;
	uint32_t part_count;
	const struct wr_part *parts;
	const struct wr_ranges *addresses; /* or NULL */
	bool allow;
	bool uses_path;   /* some part comes from the path: each reading makes its own descriptor */
	bool meets_limit; /* loading: some rule limits the descriptor */
	uint8_t most_limits; /* loading: the most limits of a rule that it may match */
	const char *file;
	uint32_t line;
	uint32_t column;
	struct wr_request *next;
};

struct wr_requests {
	struct wr_request *first;
	struct wr_request *last;
	uint32_t count;
	bool uses_host; /* some entry needs it: reading a host costs as much as a decision */
};

#endif
