/* POST /v1/check: reads checks as JSON and writes the answers. A check is a JSON object that asks
 * for one decision; docs/openapi.yaml calls it Question.
 *
 *   {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "7"}]}]}
 *   → {"admitted": true, "status": 200, "limit": 10, "remaining": 9, …}
 *
 * A list of checks gets a list of answers. The first check is decided only after the whole list was
 * found to be valid. */
#ifndef WR_WIRE_CHECK_JSON_H
#define WR_WIRE_CHECK_JSON_H

#include <weir/engine.h>

#include "wire/json.h"

#define WR_CHECK_QUESTIONS_MAX 100
#define WR_CHECK_ENTRIES_MAX 32
#define WR_CHECK_HEADERS_MAX 100
#define WR_CHECK_HITS_MAX 4294967295
#define WR_CHECK_ANSWER_MAX 32768 /* maximum length of one answer, with the longest rule names */

struct wr_check {
	json_t *document;
	const char *members; /* the members of a check, for errors */
	/* Names of members that the caller reads itself; the last element is NULL. NULL: none. */
	const char *const *others;
	bool many; /* true if the document is a list of checks, false if it is one check */
	size_t count;
};

/* Reads the body of a request. Returns 0; the caller then has to call wr_check_close. On failure
 * returns -1 and sets `problem`. */
int wr_check_open(struct wr_check *check, struct weir_str body, struct wr_problem *problem);
void wr_check_close(struct wr_check *check);

#define WR_CHECK_MEMBERS "domain, descriptors, request, hits"
#define WR_CHECK_TIME_MAX 9000000000 /* largest taken_at, in seconds since 1970 */

/* Begins a check whose JSON document the caller has parsed. Besides WR_CHECK_MEMBERS, the document
 * may have the members that check->others names. The caller has set all fields except `many` and
 * `count`. A list is an error. Returns 0. On failure closes the check, returns -1 and sets
 * `problem`. */
int wr_check_open_document(struct wr_check *check, struct wr_problem *problem);

struct weir_str wr_check_domain(const struct wr_check *check, size_t i);

/* Adds the descriptors of check number `i` to the ask. If `ask` is NULL, only checks that they are
 * valid. Returns 0. On failure returns -1 and sets `problem`. The ask must not be decided then. */
int wr_check_add(const struct wr_check *check, size_t i, struct weir_ask *ask,
		 struct wr_problem *problem);

/* Writes the answer to a check, whose ask has been decided. `verdict` is the verdict that the
 * callback `done` of struct wr_pending received. In shadow mode `verdict` is WEIR_ADMIT, even if
 * the ask was refused. */
void wr_check_answer(const struct weir_ask *ask, int verdict, struct wr_json_out *json);

/* ---- a fast reader for the usual check ---- */

/* The fast reader reads a check only if the check has at most this many descriptors. json.c reads
 * all other checks. */
#define WR_CHECK_QUICK_MAX 8

struct wr_check_quick_descriptor {
	size_t first, count; /* index of the descriptor's first entry, and number of its entries */
	int64_t hits;
};

struct wr_check_quick {
	struct weir_str domain;
	int64_t hits;
	size_t count, entry_count;
	struct wr_check_quick_descriptor descriptors[WR_CHECK_QUICK_MAX];
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
};

/* Reads one check of the usual form: descriptors without limits, in ASCII without escapes. Texts in
 * `quick` point into the body. Returns false if the body has another form or an error; the caller
 * then calls wr_check_open. */
bool wr_check_quick(struct weir_str body, struct wr_check_quick *quick);
bool wr_check_quick_add(const struct wr_check_quick *quick, struct weir_ask *ask);

/* Reads a list of {"key": …, "value": …}, in which each entry may have a "source": the part of the
 * request that the value came from. Values of different sources have separate counters. `at` is the
 * location of the list in the document. Returns the number of entries. On failure returns -1 and
 * sets `problem`. */
int wr_check_sourced_entries(const json_t *list, const struct wr_wire_json_at *at,
			     struct weir_entry entries[WR_CHECK_ENTRIES_MAX],
			     struct wr_problem *problem);

/* The header fields of a request that is described in JSON: {"x-user": "7", "accept": ["a", "b"]}.
 */
struct wr_check_fields {
	struct weir_header items[WR_CHECK_HEADERS_MAX];
	size_t count;
};

/* Reads a request that is described in JSON, and fills in *view and *fields. `at` is the location
 * of the request in the document. Texts point into the document, and the header fields of *view are
 * in *fields. Returns 0. On failure returns -1 and sets `problem`. */
int wr_check_request(json_t *item, const struct wr_wire_json_at *at, struct weir_http_view *view,
		     struct wr_check_fields *fields, struct wr_problem *problem);

#endif
