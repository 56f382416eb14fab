#include "rules/http.h"

#include <stdalign.h>

#include "base/str.h"
#include "rules/http_source.h"

enum made {
	MADE,
	SKIPPED, /* a source is missing */
	DENIED,  /* and that is not tolerated */
};

static bool any_equal(struct wr_texts texts, struct weir_str text)
{
	for (uint32_t i = 0; i < texts.count; i++)
		if (wr_str_equal(texts.items[i], text))
			return true;
	return texts.count == 0;
}

/* "*.example.com" is every host below example.com, not itself. */
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

static bool path_matches(struct wr_reading *reading, const struct wr_request *request)
{
	reading->path = NULL;
	for (uint32_t i = 0; i < request->path_count; i++)
		for (uint32_t r = 0; r < reading->target.reading_count; r++)
			if (wr_path_match(&request->paths[i], reading->target.readings[r],
					  reading->captures)) {
				reading->path = &request->paths[i];
				return true;
			}
	return request->path_count == 0;
}

static bool applies(struct wr_reading *reading, const struct wr_request *request)
{
	if (!any_equal(request->methods, reading->method) ||
	    !host_matches(request->hosts, reading->host))
		return false;
	if (request->addresses &&
	    !(reading->has_peer && wr_ranges_hold(request->addresses, &reading->peer)))
		return false;
	return path_matches(reading, request);
}

/* The first source that is there and says one thing. Failing that: deny, default, or the first
 * value of a source that says several. */
static int make_entry(struct wr_reading *reading, const struct wr_part *part,
		      struct weir_entry *entry)
{
	const struct wr_source *fallback = NULL;
	struct weir_str value, unclear = WR_STR("");

	*entry = (struct weir_entry){part->key, part->value, WR_STR("")};
	if (part->source_count == 0)
		return MADE;
	for (const struct wr_source *source = part->sources;
	     source < part->sources + part->source_count; source++) {
		int presence = wr_source_read(reading, source, &value);

		if (presence < 0)
			return presence;
		if (presence == WR_PRESENT) {
			entry->value = value;
			if (part->source_count > 1)
				entry->source = source->label;
			return MADE;
		}
		if (presence == WR_AMBIGUOUS && !fallback) {
			fallback = source;
			unclear = value;
		}
	}
	if (part->missing == WR_MISSING_DENY)
		return DENIED;
	if (part->has_default) {
		entry->value = part->otherwise;
		entry->source = WR_STR("default");
		return MADE;
	}
	if (!fallback)
		return SKIPPED;
	entry->value = unclear;
	if (part->source_count > 1)
		entry->source = fallback->label;
	return MADE;
}

/* All parts or none: what a skipped descriptor took of the memory is given back. */
static int make_descriptor(struct wr_reading *reading, const struct wr_request *request,
			   struct wr_descriptor *descriptor)
{
	char *mark = reading->memory.at;
	struct weir_entry *entries =
		wr_memory_take(&reading->memory, request->part_count * sizeof *entries,
			       alignof(struct weir_entry));
	int made = MADE;

	if (!entries)
		return WEIR_EROOM;
	for (uint32_t i = 0; i < request->part_count && made == MADE; i++)
		made = make_entry(reading, &request->parts[i], &entries[i]);
	if (made != MADE)
		reading->memory.at = mark;
	*descriptor = (struct wr_descriptor){entries, request->part_count, request};
	return made;
}

static bool is_small(char c)
{
	return c >= 'a' && c <= 'z';
}

/* In upper case, in place if it is. */
static int read_method(struct wr_reading *reading, struct weir_str method)
{
	char *upper;
	size_t i = 0;

	reading->method = method;
	while (i < method.len && !is_small(method.ptr[i]))
		i++;
	if (i == method.len)
		return 0;
	upper = wr_memory_take(&reading->memory, method.len, 1);
	if (!upper)
		return WEIR_EROOM;
	for (i = 0; i < method.len; i++) {
		char c = method.ptr[i];

		upper[i] = is_small(c) ? (char)(c - ('a' - 'A')) : c;
	}
	reading->method.ptr = upper;
	return 0;
}

static int read_target(struct wr_reading *reading, struct weir_str target)
{
	size_t room = (size_t)(reading->memory.end - reading->memory.at);

	/* In place; but what is too long to be read is so however it is written. */
	if (target.len < room && wr_target_plain(target, &reading->target))
		return 0;
	reading->target = wr_target_split(target);
	return wr_target_read(&reading->target, &reading->memory);
}

static int start(struct wr_reading *reading, const struct weir_http_view *view, bool uses_host)
{
	struct weir_str host;

	reading->view = view;
	reading->host = WR_STR("");
	reading->path = NULL;
	if (read_target(reading, view->target) != 0)
		return WEIR_EROOM;
	host = reading->target.authority.len ? reading->target.authority : view->host;
	if (uses_host && wr_host_read(host, &reading->memory, &reading->host) != 0)
		return WEIR_EROOM;
	if (read_method(reading, view->method) != 0)
		return WEIR_EROOM;
	reading->has_peer = view->peer_len == 4 || view->peer_len == 16;
	if (reading->has_peer)
		reading->peer = wr_address_from(view->peer, view->peer_len);
	return 0;
}

/* Nothing in this domain limits the request, whatever came before. */
static void allow(struct wr_http *http, const struct wr_request *request)
{
	http->allowed = true;
	http->denied = false;
	http->count = 0;
	http->allowed_by = request;
}

static bool str_ok(struct weir_str text)
{
	return text.ptr || text.len == 0;
}

/* What a host may get wrong in filling in a view. */
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

int wr_http_read(const struct wr_node *domain, const struct weir_http_view *view, void *memory,
		 size_t size, struct wr_http *http)
{
	struct wr_reading reading; /* start() fills it in; captures are those of a match */
	const struct wr_request *request =
		domain->more->requests ? domain->more->requests->first : NULL;
	int rc = 0;

	http->allowed = http->denied = false;
	http->allowed_by = http->denied_by = NULL;
	http->count = 0;
	if (!view_ok(view))
		return WEIR_EINVAL;
	if (!request)
		return 0;
	reading.memory = (struct wr_memory){memory, (char *)memory + size};
	rc = start(&reading, view, domain->more->requests->uses_host);
	for (; rc == 0 && request; request = request->next) {
		int made;

		if (!applies(&reading, request))
			continue;
		if (request->allow) {
			allow(http, request);
			return 0;
		}
		if (http->count == WR_DESCRIPTORS_MAX) {
			rc = WEIR_EROOM;
			break;
		}
		made = make_descriptor(&reading, request, &http->descriptors[http->count]);
		if (made < 0)
			rc = made;
		else if (made == MADE)
			http->count++;
		else if (made == DENIED && !http->denied) {
			http->denied = true;
			http->denied_by = request;
		}
	}
	return rc;
}
