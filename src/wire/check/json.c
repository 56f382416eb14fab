/* Reads the checks in the body of POST /v1/check (json.h). Called by serve/http/check.c and the
 * admin API. */
#include "wire/check/json.h"

#include "base/assert.h"
#include "base/address.h"
#include "rules/rules.h"

#define DESCRIPTOR_MEMBERS "entries, hits, limit"
#define ENTRY_MEMBERS "key, value"
#define SOURCED_MEMBERS "key, value, source"
#define LIMIT_MEMBERS "requests, unit"
#define REQUEST_MEMBERS "method, target, host, address, identity, headers"

static bool is(const char *name, const char *wanted)
{
	return strcmp(name, wanted) == 0;
}

static int read_entry_member(const char *name, const json_t *value,
			     const struct wr_wire_json_at *at, bool sourced,
			     struct weir_entry *entry, struct wr_problem *problem)
{
	if (is(name, "key"))
		return wr_wire_json_get_text(value, at, &entry->key, problem);
	if (is(name, "value"))
		return wr_wire_json_get_text(value, at, &entry->value, problem);
	if (sourced && is(name, "source"))
		return wr_wire_json_get_text(value, at, &entry->source, problem);
	return wr_wire_json_unknown(at, sourced ? SOURCED_MEMBERS : ENTRY_MEMBERS, problem);
}

static int read_entry(json_t *item, const struct wr_wire_json_at *at, bool sourced,
		      struct weir_entry *entry, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	*entry = (struct weir_entry){WR_STR(""), WR_STR(""), WR_STR("")};
	if (wr_wire_json_need_object(item, at, problem) != 0)
		return -1;
	json_object_foreach(item, name, value) {
		struct wr_wire_json_at here = {at, name, 0};

		if (read_entry_member(name, value, &here, sourced, entry, problem) != 0)
			return -1;
	}
	if (entry->key.len == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, at,
				     "an entry needs a \"key\" that is not empty");
	return 0;
}

static int read_entries(const json_t *list, const struct wr_wire_json_at *at, bool sourced,
			struct weir_entry entries[WR_CHECK_ENTRIES_MAX], struct wr_problem *problem)
{
	size_t count;

	if (wr_wire_json_need_list(list, at, WR_CHECK_ENTRIES_MAX, problem) != 0)
		return -1;
	count = json_array_size(list);
	for (size_t i = 0; i < count; i++) {
		struct wr_wire_json_at here = {at, NULL, i};

		if (read_entry(json_array_get(list, i), &here, sourced, &entries[i], problem) != 0)
			return -1;
	}
	return (int)count;
}

int wr_check_sourced_entries(const json_t *list, const struct wr_wire_json_at *at,
			     struct weir_entry entries[WR_CHECK_ENTRIES_MAX],
			     struct wr_problem *problem)
{
	return read_entries(list, at, true, entries, problem);
}

static int read_unit(const json_t *value, const struct wr_wire_json_at *at, int *unit,
		     struct wr_problem *problem)
{
	struct weir_str text;

	if (wr_wire_json_get_text(value, at, &text, problem) != 0)
		return -1;
#define UNIT_CASE(name, number, word, seconds)                                                     \
	if (wr_str_equal_nocase(text, WR_STR(word))) {                                             \
		*unit = (number);                                                                  \
		return 0;                                                                          \
	}
	WR_UNITS(UNIT_CASE)
#undef UNIT_CASE
	return wr_problem_at(problem, WR_BAD_VALUE, at,
			     "the unit must be second, minute, hour, day, week, month or year");
}

static int read_limit(json_t *item, const struct wr_wire_json_at *at, struct weir_limit *limit,
		      struct wr_problem *problem)
{
	int64_t requests = -1;
	struct weir_error error;
	const char *name;
	json_t *value;
	int unit = 0;

	if (wr_wire_json_need_object(item, at, problem) != 0)
		return -1;
	json_object_foreach(item, name, value) {
		struct wr_wire_json_at here = {at, name, 0};
		int rc = is(name, "requests") ? wr_wire_json_get_int(value, &here, 0, UINT32_MAX,
								     &requests, problem)
			 : is(name, "unit")   ? read_unit(value, &here, &unit, problem)
					      : wr_wire_json_unknown(&here, LIMIT_MEMBERS, problem);

		if (rc != 0)
			return rc;
	}
	if (requests < 0 || unit == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, at,
				     "a limit needs \"requests\" and \"unit\"");
	if (weir_limit_per_unit((uint32_t)requests, unit, limit, &error) != 0)
		return wr_problem_at(problem, WR_BAD_VALUE, at, "%s", error.text);
	return 0;
}

/* Returns 0 if `rc` is 0. Otherwise sets `problem` to the text of the error code `rc`, and returns
 * -1. */
static int check_rc(int rc, const struct wr_wire_json_at *at, struct wr_problem *problem)
{
	if (rc == 0)
		return 0;
	return wr_problem_at(problem, WR_BAD_VALUE, at, "%s", weir_strerror(rc));
}

static int add_descriptor(json_t *item, const struct wr_wire_json_at *at, struct weir_ask *ask,
			  struct wr_problem *problem)
{
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	struct weir_limit limit, *override = NULL;
	int64_t hits = WEIR_HITS_UNSET;
	const char *name;
	json_t *value;
	int count = 0;

	if (wr_wire_json_need_object(item, at, problem) != 0)
		return -1;
	json_object_foreach(item, name, value) {
		struct wr_wire_json_at here = {at, name, 0};
		int rc = 0;

		if (is(name, "entries")) {
			count = read_entries(value, &here, false, entries, problem);
			rc = count < 0 ? -1 : 0;
		} else if (is(name, "hits")) {
			rc = wr_wire_json_get_int(value, &here, -WR_CHECK_HITS_MAX,
						  WR_CHECK_HITS_MAX, &hits, problem);
		} else if (is(name, "limit")) {
			rc = read_limit(value, &here, override = &limit, problem);
		} else {
			rc = wr_wire_json_unknown(&here, DESCRIPTOR_MEMBERS, problem);
		}
		if (rc != 0)
			return rc;
	}
	if (count == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, at,
				     "a descriptor needs \"entries\"");
	return ask ? check_rc(weir_ask_add(ask, entries, (size_t)count, override, hits), at,
			      problem)
		   : 0;
}

static int add_descriptors(const json_t *list, const struct wr_wire_json_at *at,
			   struct weir_ask *ask, struct wr_problem *problem)
{
	if (wr_wire_json_need_list(list, at, WEIR_DESCRIPTORS_MAX, problem) != 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct wr_wire_json_at here = {at, NULL, i};

		if (add_descriptor(json_array_get(list, i), &here, ask, problem) != 0)
			return -1;
	}
	return 0;
}

static int add_field(struct wr_check_fields *fields, const char *name, const json_t *value,
		     const struct wr_wire_json_at *at, struct wr_problem *problem)
{
	if (fields->count == WR_CHECK_HEADERS_MAX)
		return wr_problem_at(problem, WR_TOO_MANY, at,
				     "at most %d header fields are allowed", WR_CHECK_HEADERS_MAX);
	fields->items[fields->count].name = wr_str(name);
	return wr_wire_json_get_text(value, at, &fields->items[fields->count++].value, problem);
}

static int read_fields(json_t *object, const struct wr_wire_json_at *at,
		       struct wr_check_fields *fields, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	if (wr_wire_json_need_object(object, at, problem) != 0)
		return -1;
	json_object_foreach(object, name, value) {
		struct wr_wire_json_at here = {at, name, 0};

		if (!json_is_array(value)) {
			if (add_field(fields, name, value, &here, problem) != 0)
				return -1;
			continue;
		}
		for (size_t i = 0; i < json_array_size(value); i++) {
			struct wr_wire_json_at each = {&here, NULL, i};

			if (add_field(fields, name, json_array_get(value, i), &each, problem) != 0)
				return -1;
		}
	}
	return 0;
}

static int read_address(const json_t *value, const struct wr_wire_json_at *at,
			struct weir_http_view *view, struct wr_problem *problem)
{
	struct wr_address address;
	struct weir_str text;

	if (wr_wire_json_get_text(value, at, &text, problem) != 0)
		return -1;
	if (wr_address_parse(text, &address) != 0)
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "this is not an IP address such as 192.0.2.7 or 2001:db8::7");
	memcpy(view->peer, address.bytes, sizeof view->peer);
	view->peer_len = sizeof view->peer;
	return 0;
}

static int read_request_member(const char *name, json_t *value, const struct wr_wire_json_at *at,
			       struct weir_http_view *view, struct wr_check_fields *fields,
			       struct wr_problem *problem)
{
	if (is(name, "method"))
		return wr_wire_json_get_text(value, at, &view->method, problem);
	if (is(name, "target"))
		return wr_wire_json_get_text(value, at, &view->target, problem);
	if (is(name, "host"))
		return wr_wire_json_get_text(value, at, &view->host, problem);
	if (is(name, "identity"))
		return wr_wire_json_get_text(value, at, &view->identity, problem);
	if (is(name, "address"))
		return read_address(value, at, view, problem);
	if (is(name, "headers"))
		return read_fields(value, at, fields, problem);
	return wr_wire_json_unknown(at, REQUEST_MEMBERS, problem);
}

int wr_check_request(json_t *item, const struct wr_wire_json_at *at, struct weir_http_view *view,
		     struct wr_check_fields *fields, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	*view = (struct weir_http_view){.size = sizeof *view, .method = WR_STR("GET")};
	fields->count = 0;
	if (wr_wire_json_need_object(item, at, problem) != 0)
		return -1;
	json_object_foreach(item, name, value) {
		struct wr_wire_json_at here = {at, name, 0};

		if (read_request_member(name, value, &here, view, fields, problem) != 0)
			return -1;
	}
	if (view->target.len == 0 || view->method.len == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, at,
				     "a request needs a \"target\" such as \"/v1/posts?page=2\"");
	view->headers = fields->items;
	view->header_count = fields->count;
	return 0;
}

static int add_request(json_t *item, const struct wr_wire_json_at *at, struct weir_ask *ask,
		       struct wr_problem *problem)
{
	struct weir_http_view view;
	struct wr_check_fields fields;

	if (wr_check_request(item, at, &view, &fields, problem) != 0)
		return -1;
	if (!ask)
		return 0;
	return check_rc(weir_ask_http(ask, &view), at, problem);
}

/* Reads the member `hits` of a check. Called before the other members are read, because `hits`
 * applies to all descriptors even if it comes after them. */
static int read_hits(const json_t *question, const struct wr_wire_json_at *at, struct weir_ask *ask,
		     struct wr_problem *problem)
{
	const json_t *value = json_object_get(question, "hits");
	struct wr_wire_json_at here = {at, "hits", 0};
	int64_t hits;

	if (!value)
		return 0;
	if (wr_wire_json_get_int(value, &here, -WR_CHECK_HITS_MAX, WR_CHECK_HITS_MAX, &hits,
				 problem) != 0)
		return -1;
	return ask ? check_rc(weir_ask_hits(ask, hits), &here, problem) : 0;
}

/* Returns whether the caller of this file reads the member. */
static bool is_other(const struct wr_check *check, const char *name)
{
	for (const char *const *other = check->others; other && *other; other++)
		if (is(name, *other))
			return true;
	return false;
}

/* Reads the time at which units were taken that the check gives back. */
static int read_taken_at(const json_t *value, const struct wr_wire_json_at *at,
			 struct weir_ask *ask, struct wr_problem *problem)
{
	double seconds = json_number_value(value);

	if (!json_is_number(value))
		return wr_problem_at(problem, WR_BAD_TYPE, at, "a number is expected here");
	if (!(seconds >= 1 && seconds <= WR_CHECK_TIME_MAX))
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "a time in seconds since 1970 is expected here");
	return ask ? check_rc(weir_ask_taken_at(ask, (uint64_t)(seconds * 1e9)), at, problem) : 0;
}

static int add_question(const struct wr_check *check, json_t *question,
			const struct wr_wire_json_at *at, struct weir_ask *ask,
			struct wr_problem *problem)
{
	bool asks = false;
	const char *name;
	json_t *value;

	if (read_hits(question, at, ask, problem) != 0)
		return -1;
	json_object_foreach(question, name, value) {
		struct wr_wire_json_at here = {at, name, 0};
		int rc = 0;

		if (is(name, "descriptors"))
			rc = add_descriptors(value, &here, ask, problem);
		else if (is(name, "request"))
			rc = add_request(value, &here, ask, problem);
		else if (is(name, "taken_at") && !check->others)
			rc = read_taken_at(value, &here, ask, problem);
		else if (!is(name, "domain") && !is(name, "hits") && !is_other(check, name))
			rc = wr_wire_json_unknown(&here, check->members, problem);
		if (rc != 0)
			return rc;
		asks |= is(name, "descriptors") || is(name, "request");
	}
	if (!asks)
		return wr_problem_at(problem, WR_MISSING_MEMBER, at,
				     "a check needs \"descriptors\" or \"request\"");
	return 0;
}

static int need_domain(const json_t *question, const struct wr_wire_json_at *at,
		       struct wr_problem *problem)
{
	struct wr_wire_json_at here = {at, "domain", 0};
	struct weir_str domain;
	const json_t *value;

	if (wr_wire_json_need_object(question, at, problem) != 0)
		return -1;
	value = json_object_get(question, "domain");
	if (!value)
		return wr_problem_at(problem, WR_MISSING_MEMBER, at, "\"domain\" is missing");
	if (wr_wire_json_get_text(value, &here, &domain, problem) != 0)
		return -1;
	if (domain.len == 0)
		return wr_problem_at(problem, WR_BAD_VALUE, &here, "the domain is empty");
	return 0;
}

static int check_all(const struct wr_check *check, struct wr_problem *problem)
{
	if (!check->many)
		return need_domain(check->document, NULL, problem);
	if (wr_wire_json_need_list(check->document, NULL, WR_CHECK_QUESTIONS_MAX, problem) != 0)
		return -1;
	for (size_t i = 0; i < check->count; i++) {
		struct wr_wire_json_at here = {NULL, NULL, i};
		json_t *question = json_array_get(check->document, i);

		if (need_domain(question, &here, problem) != 0 ||
		    add_question(check, question, &here, NULL, problem) != 0)
			return -1;
	}
	return 0;
}

static int check_or_close(struct wr_check *check, struct wr_problem *problem)
{
	if (check_all(check, problem) == 0)
		return 0;
	wr_check_close(check);
	return -1;
}

int wr_check_open(struct wr_check *check, struct weir_str body, struct wr_problem *problem)
{
	wr_assert(check && problem);
	check->members = WR_CHECK_MEMBERS ", taken_at";
	check->others = NULL;
	check->document = wr_wire_json_read(body, problem);
	if (!check->document)
		return -1;
	check->many = json_is_array(check->document);
	check->count = check->many ? json_array_size(check->document) : 1;
	return check_or_close(check, problem);
}

int wr_check_open_document(struct wr_check *check, struct wr_problem *problem)
{
	check->many = false;
	check->count = 1;
	return check_or_close(check, problem);
}

void wr_check_close(struct wr_check *check)
{
	json_decref(check->document);
	check->document = NULL;
}

static json_t *question_at(const struct wr_check *check, size_t i)
{
	return check->many ? json_array_get(check->document, i) : check->document;
}

struct weir_str wr_check_domain(const struct wr_check *check, size_t i)
{
	const json_t *domain = json_object_get(question_at(check, i), "domain");

	wr_assert(check->document && i < check->count);
	return (struct weir_str){json_string_value(domain), json_string_length(domain)};
}

int wr_check_add(const struct wr_check *check, size_t i, struct weir_ask *ask,
		 struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, NULL, i};

	wr_assert(i < check->count);
	return add_question(check, question_at(check, i), check->many ? &at : NULL, ask, problem);
}
