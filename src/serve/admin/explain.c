/* POST /v1/explain: shows which of the rules in force applies to a request or a descriptor. Nothing
 * is counted. */
#include <stdio.h>
#include <stdlib.h>

#include "limiter/engine.h"
#include "rules/requests.h"
#include "serve/admin/admin.h"
#include "serve/admin/explain_find.h"
#include "wire/check/json.h"

#define MEMBERS "domain, entries, request"
#define LINE_BYTES 512
#define SOURCES_MAX 16u /* maximum length of the list of sources for one entry of a descriptor */

struct explain_question {
	struct weir_str domain; /* empty: explain all domains that have `requests:` */
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	int count;
	bool is_request;
	struct weir_http_view view;
	struct wr_check_fields fields;
	char line[LINE_BYTES];
};

/* ---- reading ---- */

static int read_request(json_t *value, const struct wr_wire_json_at *at,
			struct explain_question *question, struct wr_problem *problem)
{
	const struct weir_http_view *view = &question->view;

	question->is_request = true;
	if (wr_check_request(value, at, &question->view, &question->fields, problem) != 0)
		return -1;
	snprintf(question->line, sizeof question->line, "%.*s %.*s", (int)view->method.len,
		 view->method.ptr, (int)wr_str_first(view->target, LINE_BYTES).len,
		 view->target.ptr);
	return 0;
}

static int read_member(const char *name, json_t *value, struct explain_question *question,
		       struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, name, 0};

	if (strcmp(name, "domain") == 0)
		return wr_wire_json_get_text(value, &at, &question->domain, problem);
	if (strcmp(name, "request") == 0)
		return read_request(value, &at, question, problem);
	if (strcmp(name, "entries") != 0)
		return wr_wire_json_unknown(&at, MEMBERS, problem);
	question->count = wr_check_sourced_entries(value, &at, question->entries, problem);
	return question->count > 0 ? 0 : -1;
}

static int read_question(json_t *document, struct explain_question *question,
			 struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	if (wr_wire_json_need_object(document, NULL, problem) != 0)
		return -1;
	json_object_foreach(document, name, value) {
		if (read_member(name, value, question, problem) != 0)
			return -1;
	}
	if (question->is_request == (question->count > 0) ||
	    (question->count > 0 && question->domain.len == 0))
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"request\", or \"domain\" and \"entries\", is required");
	return 0;
}

/* ---- explaining ---- */

/* Returns the list of the sources (such as a header field or a cookie) from which a descriptor
 * entry with this key can get its value. The list is empty if there is only one source. Users need
 * the list, because equal values from different sources have separate counters. */
static json_t *sources_of(const struct wr_node *domain, struct weir_str key)
{
	json_t *list = json_array();

	if (!domain || !domain->more->requests)
		return list;
	for (const struct wr_rules_request *r = domain->more->requests->first; r; r = r->next)
		for (uint32_t i = 0; i < r->part_count; i++) {
			const struct wr_rules_part *part = &r->parts[i];

			if (!wr_str_equal(part->key, key) || part->source_count < 2)
				continue;
			for (uint32_t j = 0; j < part->source_count; j++)
				if (json_array_size(list) < SOURCES_MAX)
					json_array_append_new(
						list, wr_wire_json_text(part->sources[j].label));
			if (part->has_default && json_array_size(list) < SOURCES_MAX)
				json_array_append_new(list, json_string("default"));
		}
	return list;
}

static json_t *explain_domain(const struct weir_rules *rules, struct weir_str domain,
			      const struct explain_question *question)
{
	struct wr_explain explain;
	json_t *json, *sources = json_array();

	if (wr_explain_init(&explain, rules, domain) != 0) {
		json_decref(sources);
		return NULL;
	}
	if (question->is_request)
		wr_explain_http(&explain, rules, &question->view, question->line);
	else
		wr_explain_descriptor(&explain, rules, question->entries, (size_t)question->count);
	json = wr_explain_json(&explain);
	for (int i = 0; i < question->count; i++)
		json_array_append_new(sources,
				      sources_of(explain.domain, question->entries[i].key));
	json_object_set_new(json, "sources", sources);
	wr_explain_free(&explain);
	return json;
}

static json_t *explain_all(const struct weir_rules *rules, const struct explain_question *question)
{
	json_t *list = json_array();

	if (!rules)
		return list;
	if (question->domain.len) {
		json_array_append_new(list, explain_domain(rules, question->domain, question));
		return list;
	}
	for (const struct wr_node *d = rules->first_domain; d; d = d->more->next)
		if (d->more->requests)
			json_array_append_new(list, explain_domain(rules, d->key, question));
	return list;
}

static char *explain_in_force(struct weir_engine *engine, const struct explain_question *question)
{
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);
	json_t *json = json_pack("{s:I, s:o}", "generation", (json_int_t)held->number, "domains",
				 explain_all(held->rules, question));
	char *text = json_dumps(json, JSON_COMPACT);

	wr_generation_release(engine, held, shard);
	json_decref(json);
	return text;
}

/* Explains which of the rules in force apply to the descriptor or the request in `body`. The body
 * is {"domain": …, "entries": […]} or {"request": {…}}, with members as in POST /v1/check. Sets
 * *text to {"generation":…,"domains":[…]}, which the caller frees. Each domain is the object of
 * wr_explain_json() with one more member, "sources": for each entry of the descriptor, the parts of
 * a request from which the entry can get its value. Returns 0. On failure, returns -1, fills in the
 * problem and sets *text to NULL. */
static int explain_body(struct weir_engine *engine, struct weir_str body, char **text,
			struct wr_problem *problem)
{
	struct explain_question *question = calloc(1, sizeof *question);
	json_t *document = question ? wr_wire_json_read(body, problem) : NULL;
	int rc = -1;

	*text = NULL;
	if (!question)
		wr_problem(problem, WR_INTERNAL, "out of memory");
	else if (document)
		rc = read_question(document, question, problem);
	if (rc == 0) {
		*text = explain_in_force(engine, question);
		rc = *text ? 0 : wr_problem(problem, WR_INTERNAL, "out of memory");
	}
	json_decref(document);
	free(question);
	return rc;
}

static void write_explanation(struct wr_json_out *json, void *context)
{
	wr_json_raw(json, wr_str(context));
}

void wr_admin_explain(struct wr_serve_http_request *request)
{
	struct wr_problem problem;
	char *text;

	if (explain_body(wr_loop_engine(request->server->loop), wr_serve_http_body(request), &text,
			 &problem) == 0)
		wr_admin_reply(request, 200, write_explanation, text);
	else
		wr_serve_http_reply_problem(request, &problem);
	free(text);
}
