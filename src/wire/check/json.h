/* POST /v1/check: questions as JSON, and their answers. docs/openapi.yaml has the shapes.
 *
 *   {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "7"}]}]}
 *   → {"admitted": true, "status": 200, "limit": 10, "remaining": 9, …}
 *
 * A list of questions gets a list of answers. The whole list is checked before the first question
 * is decided. */
#ifndef WR_WIRE_CHECK_JSON_H
#define WR_WIRE_CHECK_JSON_H

#include <weir/engine.h>

#include "wire/json.h"

#define WR_CHECK_QUESTIONS_MAX 100
#define WR_CHECK_ENTRIES_MAX 32
#define WR_CHECK_HEADERS_MAX 100
#define WR_CHECK_HITS_MAX 4294967295
#define WR_CHECK_ANSWER_MAX 32768 /* bytes of one answer, with the longest names of rules */

struct wr_check {
	json_t *document;
	bool many;
	size_t count;
};

/* Reads a body. Returns 0, or -1 and a problem. After 0 the caller calls wr_check_close. */
int wr_check_open(struct wr_check *check, struct weir_str body, struct wr_problem *problem);
void wr_check_close(struct wr_check *check);

struct weir_str wr_check_domain(const struct wr_check *check, size_t i);

/* Adds the descriptors of question i to the ask. Returns 0, or -1 and a problem: then the ask must
 * not be decided. */
int wr_check_add(const struct wr_check *check, size_t i, struct weir_ask *ask,
		 struct wr_problem *problem);

/* Writes the answer to a decided question. `verdict` is that of wr_pending's `done`: in shadow mode
 * WEIR_ADMIT although the ask was refused. */
void wr_check_answer(const struct weir_ask *ask, int verdict, struct wr_json_out *json);

/* ---- a fast reader for the usual question ---- */

#define WR_CHECK_QUICK_MAX 8 /* descriptors */

struct wr_check_quick_descriptor {
	size_t first, count; /* of its entries */
	int64_t hits;
};

struct wr_check_quick {
	struct weir_str domain;
	int64_t hits;
	size_t count, entry_count;
	struct wr_check_quick_descriptor descriptors[WR_CHECK_QUICK_MAX];
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
};

/* Returns false if the question is unusual or wrong; then call wr_check_open. Texts point into the
 * body. */
bool wr_check_quick(struct weir_str body, struct wr_check_quick *quick);
bool wr_check_quick_add(const struct wr_check_quick *quick, struct weir_ask *ask);

/* Reads a list of {"key": …, "value": …} at `at`. Returns the count, or -1 and a problem. */
int wr_check_entries(const json_t *list, const struct wr_json_at *at,
		     struct weir_entry entries[WR_CHECK_ENTRIES_MAX], struct wr_problem *problem);

/* The same with an optional "source" in each entry: where the request had the value. Sources have
 * counters of their own. */
int wr_check_sourced_entries(const json_t *list, const struct wr_json_at *at,
			     struct weir_entry entries[WR_CHECK_ENTRIES_MAX],
			     struct wr_problem *problem);

/* Header fields of a described request: {"x-user": "7", "accept": ["a", "b"]}. */
struct wr_check_fields {
	struct weir_header items[WR_CHECK_HEADERS_MAX];
	size_t count;
};

/* Reads a described request at `at`. Texts point into the document, and the view into `fields`. */
int wr_check_request(json_t *item, const struct wr_json_at *at, struct weir_http_view *view,
		     struct wr_check_fields *fields, struct wr_problem *problem);

#endif
