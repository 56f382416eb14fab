/* Turns an HTTP request into descriptors, as http.h describes. The limiter calls
 * wr_rules_http_read() for each request. */
#include "rules/http.h"

#include <stdalign.h>

#include "base/assert.h"
#include "base/str.h"
#include "rules/http_source.h"
#include "rules/key.h"

enum made {
	MADE,
	SKIPPED, /* no entry was made, because none of its sources was usable */
	DENIED,  /* a source is missing or ambiguous, and the rule file refuses such requests */
};

static bool any_equal(struct wr_texts texts, struct weir_str text)
{
	for (uint32_t i = 0; i < texts.count; i++)
		if (wr_str_equal(texts.items[i], text))
			return true;
	return texts.count == 0;
}

/* Returns whether a host matches one of the patterns. "*.example.com" matches every host below
 * example.com, but not example.com. */
static bool host_matches(struct wr_texts hosts, struct weir_str host)
{
	for (uint32_t i = 0; i < hosts.count; i++) {
		struct weir_str pattern = hosts.items[i];
		bool below = wr_str_begins(pattern, WR_STR("*."));

		if (below ? host.len >= pattern.len && wr_str_ends(host, wr_str_from(pattern, 1))
			  : wr_str_equal(pattern, host))
			return true;
	}
	return hosts.count == 0;
}

/* Returns whether one of the paths of an entry of `requests:` matches the reading with index `at`.
 * Sets reading->captures to the texts that match the {parts} of that path. */
static bool path_matches(struct wr_rules_reading *reading, const struct wr_rules_request *request,
			 uint32_t at)
{
	reading->at = at;
	reading->path = NULL;
	for (uint32_t i = 0; i < request->path_count; i++)
		if (wr_path_match(&request->paths[i], reading->target.readings[at],
				  reading->captures)) {
			reading->path = &request->paths[i];
			return true;
		}
	return request->path_count == 0;
}

/* Returns whether the method of the request is in the list, or the list is empty. Upper and lower
 * case are equal. HEAD matches GET too, because servers answer HEAD with the handler for GET. Sets
 * *certain to false if the method is HEAD and the list has GET but not HEAD. Also sets *certain to
 * false if the request has the method in lower case letters, because some servers treat "options"
 * as a method of its own. */
static bool method_matches(const struct wr_rules_reading *reading, struct wr_texts methods,
			   bool *certain)
{
	struct weir_str method = reading->method;

	if (any_equal(methods, method)) {
		*certain &= methods.count == 0 || wr_str_equal(reading->view->method, method);
		return true;
	}
	*certain = false;
	return wr_str_equal(method, WR_STR("HEAD")) && any_equal(methods, WR_STR("GET"));
}

/* Returns whether an entry of `requests:` applies in at least one reading. Sets *certain to whether
 * the entry applies in all readings, which an exemption requires. */
static bool entry_applies(struct wr_rules_reading *reading, const struct wr_rules_request *request,
			  bool *certain)
{
	bool any = request->path_count == 0;

	*certain = request->hosts.count == 0 || !(reading->host_unsure || reading->target.unsure);
	if (!method_matches(reading, request->methods, certain) ||
	    !host_matches(request->hosts, reading->host))
		return false;
	if (request->addresses &&
	    !(reading->has_peer && wr_address_ranges_hold(request->addresses, &reading->peer)))
		return false;
	for (uint32_t i = 0; request->path_count && i < reading->target.reading_count; i++) {
		bool matches = path_matches(reading, request, i);

		any |= matches;
		*certain &= matches && !reading->target.unsure;
	}
	return any;
}

/* One entry of a descriptor, and all values that the entry can have. */
struct entry_choice {
	struct weir_entry entry;
	/* All values of the entry; the first one is also entry.value. NULL: entry.value is the only
	 * value, and count is 1. */
	const struct weir_str *values;
	uint32_t count;
};

/* Makes an entry whose source has several different values. It is not known which of the values the
 * API will use, so the setting `ambiguous` decides. Returns MADE, DENIED or WEIR_EROOM. With
 * `ambiguous: next`, returns SKIPPED, and the caller tries the next source. */
static int make_unclear(struct wr_rules_reading *reading, const struct wr_rules_part *part,
			enum wr_ambiguity ambiguous, struct entry_choice *choice)
{
	struct weir_str *values;

	switch (ambiguous) {
	case WR_AMBIGUOUS_FIRST:
		choice->entry.value = reading->values[0];
		return MADE;
	case WR_AMBIGUOUS_LAST:
		choice->entry.value = reading->values[reading->last_value];
		return MADE;
	case WR_AMBIGUOUS_DENY:
		return DENIED;
	case WR_AMBIGUOUS_NEXT:
		return SKIPPED;
	case WR_AMBIGUOUS_SHARE:
	/* With `ambiguous: join`, header fields were joined into one value, so they do not get
	 * here. For cookies and parameters, `join` does the same as `share`. */
	case WR_AMBIGUOUS_JOIN:
		break;
	}
	values = wr_rules_http_memory_take(&reading->memory, reading->value_count * sizeof *values,
					   alignof(struct weir_str));
	if (!values)
		return WEIR_EROOM;
	memcpy(values, reading->values, reading->value_count * sizeof *values);
	*choice = (struct entry_choice){
		{part->key, values[0], WR_AMBIGUOUS_SOURCE}, values, reading->value_count};
	return MADE;
}

/* Makes one entry of a descriptor from its first usable source. A source is usable if it is
 * present. With `ambiguous: next`, it must also not have several different values. If no source is
 * usable, there are four cases, in this order. With `missing: deny`, returns DENIED. With
 * `default:`, the entry gets the default value. If a source had several different values, the
 * values of the first such source share a counter. Otherwise returns SKIPPED. Returns WEIR_EROOM if
 * there is not enough memory. */
static int make_entry(struct wr_rules_reading *reading, const struct wr_rules_part *part,
		      struct entry_choice *choice)
{
	const struct wr_source *unclear = NULL;

	*choice = (struct entry_choice){{part->key, part->value, WR_STR("")}, NULL, 1};
	if (part->source_count == 0)
		return MADE;
	for (const struct wr_source *source = part->sources;
	     source < part->sources + part->source_count; source++) {
		int made = MADE;

		if (wr_source_read(reading, source) != 0)
			return WEIR_EROOM;
		if (reading->value_count == 0)
			continue;
		choice->entry.value = reading->values[0];
		if (reading->value_count > 1)
			made = make_unclear(reading, part, part->ambiguous, choice);
		if (made == MADE && part->source_count > 1 && choice->count == 1)
			choice->entry.source = source->label;
		if (made != SKIPPED)
			return made;
		unclear = unclear ? unclear : source;
	}
	if (part->missing == WR_MISSING_DENY)
		return DENIED;
	if (part->has_default) {
		choice->entry.value = part->otherwise;
		choice->entry.source = WR_STR("default");
		return MADE;
	}
	if (!unclear)
		return SKIPPED;
	if (wr_source_read(reading, unclear) != 0)
		return WEIR_EROOM;
	return make_unclear(reading, part, WR_AMBIGUOUS_SHARE, choice);
}

static bool same_entries(const struct weir_entry *a, const struct weir_entry *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!wr_str_equal(a[i].value, b[i].value) ||
		    !wr_str_equal(a[i].source, b[i].source))
			return false;
	return true;
}

/* Adds a descriptor, unless the same entry of `requests:` has already made an equal descriptor. The
 * descriptors that this entry has made start at index `first`. `number` selects a combination of
 * values: one value of each of the `choices`. Returns 0 or an error. */
static int add_descriptor(struct wr_rules_reading *reading, const struct wr_rules_request *request,
			  const struct entry_choice *choices, uint32_t number, uint32_t first,
			  struct wr_rules_http *http)
{
	char *mark = reading->memory.at;
	struct weir_entry *entries =
		wr_rules_http_memory_take(&reading->memory, request->part_count * sizeof *entries,
					  alignof(struct weir_entry));

	if (!entries)
		return WEIR_EROOM;
	for (uint32_t i = 0; i < request->part_count; i++) {
		entries[i] = choices[i].entry;
		if (choices[i].count > 1)
			entries[i].value = choices[i].values[number % choices[i].count];
		number /= choices[i].count;
	}
	for (uint32_t i = first; i < http->count; i++)
		if (same_entries(http->descriptors[i].entries, entries, request->part_count)) {
			reading->memory.at = mark;
			return 0;
		}
	if (http->count == WR_DESCRIPTORS_MAX)
		return WEIR_EMANY;
	http->descriptors[http->count++] =
		(struct wr_rules_descriptor){.entries = entries,
					     .count = request->part_count,
					     .request = request,
					     .cost = 1,
					     .certain = true};
	return 0;
}

/* Makes the descriptors of an entry of `requests:` in the current reading. If one
 * key–value pair has no value, makes no descriptor at all. If pairs have several values, each
 * combination of values makes a descriptor. Returns enum made, or an error. */
static int make_descriptors(struct wr_rules_reading *reading,
			    const struct wr_rules_request *request, uint32_t first,
			    struct wr_rules_http *http)
{
	struct entry_choice choices[WR_PARTS_MAX];
	char *mark = reading->memory.at;
	uint32_t ways = 1;
	int made = MADE, rc = 0;

	for (uint32_t i = 0; i < request->part_count && made == MADE; i++) {
		made = make_entry(reading, &request->parts[i], &choices[i]);
		if (made != MADE)
			break;
		ways *= choices[i].count;
		if (ways > WR_DESCRIPTORS_MAX)
			return WEIR_EMANY;
	}
	if (made != MADE) {
		reading->memory.at = mark;
		return made;
	}
	for (uint32_t i = 0; i < ways && rc == 0; i++)
		rc = add_descriptor(reading, request, choices, i, first, http);
	return rc ? rc : MADE;
}

/* Sets the cost of the descriptors from index `first` on. */
static void set_cost(struct wr_rules_reading *reading, const struct wr_rules_cost *cost,
		     uint32_t first, struct wr_rules_http *http)
{
	enum wr_cost_note note;
	int64_t units;

	if (first == http->count)
		return;
	units = wr_source_cost(reading, &cost->arrival, &note);
	for (uint32_t i = first; i < http->count; i++) {
		http->descriptors[i].cost = units;
		http->descriptors[i].cost_note = (uint8_t)note;
	}
}

/* Makes the descriptors of an entry of `requests:` in each reading to which the entry applies.
 * Returns 0 or an error. */
static int make_all(struct wr_rules_reading *reading, const struct wr_rules_request *request,
		    bool certain, struct wr_rules_http *http)
{
	uint32_t first = http->count;
	uint32_t count = request->uses_path ? reading->target.value_count : 1;
	int rc = 0;

	for (uint32_t i = 0; i < count && rc >= 0; i++) {
		if (request->uses_path && !path_matches(reading, request, i))
			continue;
		rc = make_descriptors(reading, request, first, http);
		if (rc == DENIED && !http->denied) {
			http->denied = true;
			http->denied_by = request;
		}
		certain &= rc == MADE;
	}
	certain &= http->count == first + 1;
	for (uint32_t i = first; i < http->count; i++)
		http->descriptors[i].certain = certain;
	if (request->cost)
		set_cost(reading, request->cost, first, http);
	return rc < 0 ? rc : 0;
}

static bool is_small(char c)
{
	return c >= 'a' && c <= 'z';
}

/* Sets reading->method to the method in upper case. The method is not copied if it is in upper case
 * already. */
static int read_method(struct wr_rules_reading *reading, struct weir_str method)
{
	char *upper;
	size_t i = 0;

	reading->method = method;
	while (i < method.len && !is_small(method.ptr[i]))
		i++;
	if (i == method.len)
		return 0;
	upper = wr_rules_http_memory_take(&reading->memory, method.len, 1);
	if (!upper)
		return WEIR_EROOM;
	for (i = 0; i < method.len; i++) {
		char c = method.ptr[i];

		upper[i] = is_small(c) ? (char)(c - ('a' - 'A')) : c;
	}
	reading->method.ptr = upper;
	return 0;
}

static int read_target(struct wr_rules_reading *reading, struct weir_str target)
{
	size_t room = (size_t)(reading->memory.end - reading->memory.at);
	int rc;

	/* A plain target is only split, which needs no memory. A target that is longer than the
	 * free memory is given to wr_target_read(), even if it is plain. That function returns
	 * WEIR_EROOM for a path that is too long, so plain paths have a maximum length too. */
	if (target.len < room && wr_target_plain(target, &reading->target))
		return 0;
	rc = wr_target_split(target, &reading->target);
	return rc ? rc : wr_target_read(&reading->target, &reading->memory);
}

static int begin_reading(struct wr_rules_reading *reading, const struct weir_http_view *view,
			 bool uses_host)
{
	struct weir_str host;
	int rc = read_target(reading, view->target);

	reading->view = view;
	reading->host = WR_STR("");
	reading->host_unsure = false;
	reading->path = NULL;
	if (rc != 0)
		return rc;
	host = reading->target.authority.len ? reading->target.authority : view->host;
	if (uses_host &&
	    wr_host_read(host, &reading->memory, &reading->host, &reading->host_unsure) != 0)
		return WEIR_EROOM;
	if (read_method(reading, view->method) != 0)
		return WEIR_EROOM;
	reading->has_peer = view->peer_len == 4 || view->peer_len == 16;
	if (reading->has_peer)
		reading->peer = wr_address_from(view->peer, view->peer_len);
	return 0;
}

static bool str_ok(struct weir_str text)
{
	return text.ptr || text.len == 0;
}

/* Returns whether the caller has filled in *view correctly: no text has a length but no bytes, and
 * the length of the peer's address is valid. */
static bool view_ok(const struct weir_http_view *view)
{
	if ((view->header_count && !view->headers) ||
	    (view->peer_len != 0 && view->peer_len != 4 && view->peer_len != 16))
		return false;
	for (size_t i = 0; i < view->header_count; i++)
		if (!str_ok(view->headers[i].name) || !str_ok(view->headers[i].value))
			return false;
	return str_ok(view->method) && str_ok(view->target) && str_ok(view->host) &&
	       str_ok(view->identity);
}

int wr_rules_http_read(const struct wr_node *domain, const struct weir_http_view *view,
		       void *memory, size_t size, struct wr_rules_http *http)
{
	struct wr_rules_reading reading; /* filled in by begin_reading() and by matching */
	const struct wr_rules_request *request =
		domain->more->requests ? domain->more->requests->first : NULL;
	int rc = 0;

	wr_assert(domain && domain->depth == 0 && http);
	http->allowed = http->denied = false;
	http->allowed_by = http->denied_by = NULL;
	http->count = 0;
	if (!view_ok(view))
		return WEIR_EINVAL;
	if (!request)
		return 0;
	reading.memory = (struct wr_rules_http_memory){memory, (char *)memory + size};
	rc = begin_reading(&reading, view, domain->more->requests->uses_host);
	for (; rc == 0 && request; request = request->next) {
		bool certain;

		if (!entry_applies(&reading, request, &certain))
			continue;
		if (!request->allow) {
			rc = make_all(&reading, request, certain, http);
		} else if (certain) {
			/* The request is exempt, even if earlier entries limit or deny it. */
			http->allowed = true;
			http->denied = false;
			http->count = 0;
			http->allowed_by = request;
			return 0;
		}
	}
	return rc;
}
