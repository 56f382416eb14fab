/* Which field of a JSON object or which column of a CSV means what: by the names that servers use,
 * or as the user says. */
#ifndef WR_LAB_LOG_FIELDS_H
#define WR_LAB_LOG_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

/* What a field means: X(enum value, name in --fields, description). */
#define WR_LAB_MEANINGS(X)                                                                         \
	X(WR_LAB_MEANS_TIME, "time", "time of the request")                                        \
	X(WR_LAB_MEANS_CLIENT, "client", "address or name of the client, or another key")          \
	X(WR_LAB_MEANS_METHOD, "method", "GET")                                                    \
	X(WR_LAB_MEANS_TARGET, "target", "path, with or without the query")                        \
	X(WR_LAB_MEANS_QUERY, "query", "query, if it is not in the target")                        \
	X(WR_LAB_MEANS_REQUEST, "request", "request line: GET /a HTTP/1.1")                        \
	X(WR_LAB_MEANS_HOST, "host", "host of the request")                                        \
	X(WR_LAB_MEANS_USER, "user", "authenticated user")                                         \
	X(WR_LAB_MEANS_STATUS, "status", "status of the response")                                 \
	X(WR_LAB_MEANS_BYTES, "bytes", "length of the response")                                   \
	X(WR_LAB_MEANS_DURATION, "duration", "time to the end of the response")                    \
	X(WR_LAB_MEANS_COST, "cost", "units that the request takes; A+B adds two fields")

enum wr_lab_means {
#define WR_LAB_MEANS_ENUM(name, text, help) name,
	WR_LAB_MEANINGS(WR_LAB_MEANS_ENUM)
#undef WR_LAB_MEANS_ENUM
		WR_LAB_MEANS_HEADER, /* a header field of the request: header.NAME in --fields */
	WR_LAB_MEANS_NOTHING,
};

#define WR_LAB_MEANINGS_COUNT ((unsigned)WR_LAB_MEANS_HEADER)

/* The meaning of a field name. */
struct wr_lab_meaning {
	enum wr_lab_means means;
	/* If several fields have the same meaning, the one with the lowest rank is used. Costs of
	 * the same rank are added. */
	uint8_t rank;
	uint64_t unit_ns;       /* unit of a duration; 0: not known from the name */
	struct weir_str header; /* name of the header field */
	bool underscores;       /* the underscores of `header` stand for hyphens */
	uint8_t given;          /* 1 for the first name that the user gave; 0: a known name */
};

#define WR_LAB_GIVEN_MAX 64u /* names that the user can give */

struct wr_lab_fields;

/* Makes a table of names. `text` is "time=ts,client=ip,cost=in+out", or NULL. Names in `text`
 * replace the known names of their meaning. Returns 0, or an error with the remedy. */
int wr_lab_fields_new(struct wr_lab_fields **fields, const char *text, struct weir_error *error);
void wr_lab_fields_free(struct wr_lab_fields *fields);

/* Returns the meaning of a name. The names of fields in objects are joined by points:
 * "request.remote_ip". Letters of both cases are equal. A header name in the meaning refers to
 * `name`, or lives as long as `fields`. */
struct wr_lab_meaning wr_lab_fields_find(const struct wr_lab_fields *fields, struct weir_str name);

/* Returns the number of names that the user gave, and one of the names. */
size_t wr_lab_fields_given(const struct wr_lab_fields *fields);
struct weir_str wr_lab_fields_given_name(const struct wr_lab_fields *fields, size_t i);

/* Notes which of the given names a line has: bit i stands for name i. */
void wr_lab_fields_saw(struct wr_lab_fields *fields, uint64_t names);

/* Returns the given names that no line had so far. */
uint64_t wr_lab_fields_unseen(const struct wr_lab_fields *fields);

/* Returns a copy of a header name that lives as long as `fields`, with hyphens for underscores if
 * need be. Returns an empty text if there are too many names. */
struct weir_str wr_lab_fields_keep(struct wr_lab_fields *fields,
				   const struct wr_lab_meaning *meaning);

/* Writes hyphens for the underscores of a header name in place, if need be. */
void wr_lab_meaning_hyphens(const struct wr_lab_meaning *meaning, char *name, size_t len);

#endif
