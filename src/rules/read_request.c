/* Reads `requests`: how HTTP requests become descriptors. */
#include "rules/read.h"

#include "base/assert.h"
#include "rules/requests.h"

#define METHODS_MAX 32
#define HOSTS_MAX 1024
#define PATHS_MAX 1024

static const struct {
	struct weir_str name;
	enum wr_source_kind kind;
	bool loose;
} sources[] = {
#define SOURCE_ROW(kind, text, loose) {{text, sizeof(text) - 1}, kind, loose},
	WR_SOURCES(SOURCE_ROW)
#undef SOURCE_ROW
};
#define SOURCES (sizeof sources / sizeof *sources)

void wr_read_lower(struct weir_str text)
{
	char *at = (char *)text.ptr; /* the text is a private copy, so it may be changed */

	for (size_t i = 0; i < text.len; i++)
		at[i] = wr_lower(at[i]);
}

static void to_upper(struct weir_str text)
{
	char *at = (char *)text.ptr;

	for (size_t i = 0; i < text.len; i++)
		if (at[i] >= 'a' && at[i] <= 'z')
			at[i] = (char)(at[i] - ('a' - 'A'));
}

bool wr_is_token(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = wr_lower(text.ptr[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    !wr_str_has(WR_STR("!#$%&'*+-.^_`|~"), c))
			return false;
	}
	return text.len;
}

static bool is_host(struct weir_str text)
{
	if (wr_str_begins(text, WR_STR("*.")))
		text = wr_str_from(text, 2);
	if (text.len && text.ptr[0] == '[')
		return text.ptr[text.len - 1] == ']';
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.ptr[i] <= ' ' ||
		    wr_str_has(WR_STR("*:/?#@[]%"), text.ptr[i]))
			return false;
	return text.len && text.ptr[text.len - 1] != '.';
}

static struct wr_texts read_texts(struct wr_load *load, const struct wr_fields *f,
				  enum wr_rules_key_id key, uint32_t max)
{
	const struct wr_yaml *value;
	struct wr_texts texts = {0};
	struct weir_str *items;
	struct wr_rules_list list;

	if (!wr_get_list(load, f, key, false, max, &list))
		return texts;
	items = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *items);
	texts.items = items;
	while ((value = wr_rules_list_next(&list))) {
		struct weir_str text = wr_load_copy(load, &load->rules->arena, value->text);

		items[texts.count++] = text;
		if (key == WR_KEY_METHOD) {
			to_upper(text);
			if (!wr_is_token(text))
				wr_rules_report(load, WR_D_bad_method, value, WR_ARGS(text));
		} else {
			wr_read_lower(text);
			if (!is_host(text))
				wr_rules_report(load, WR_D_bad_host, value, WR_ARGS(text));
		}
	}
	return texts;
}

static void read_paths(struct wr_load *load, const struct wr_fields *f,
		       struct wr_rules_request *request)
{
	const struct wr_yaml *value;
	struct wr_path *paths;
	struct wr_rules_list list;

	if (!wr_get_list(load, f, WR_KEY_PATH, false, PATHS_MAX, &list))
		return;
	paths = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *paths);
	request->paths = paths;
	while ((value = wr_rules_list_next(&list)))
		if (wr_read_path(load, value, &paths[request->path_count]))
			request->path_count++;
}

static void read_when(struct wr_load *load, const struct wr_yaml *map,
		      struct wr_rules_request *request)
{
	struct wr_fields f;

	if (!wr_fields_read(load, map, WR_IN_WHEN, WR_STR("when"), &f))
		return;
	request->methods = read_texts(load, &f, WR_KEY_METHOD, METHODS_MAX);
	request->hosts = read_texts(load, &f, WR_KEY_HOST, HOSTS_MAX);
	read_paths(load, &f, request);
	request->addresses = wr_read_addresses(load, &f, WR_KEY_REMOTE_ADDRESS, NULL);
}

static bool has_capture(const struct wr_rules_request *request, struct weir_str name)
{
	for (uint32_t i = 0; i < request->path_count; i++)
		for (uint16_t j = 0; j < request->paths[i].count; j++)
			if (request->paths[i].segments[j].capture &&
			    wr_str_equal(request->paths[i].segments[j].text, name))
				return true;
	return false;
}

static bool takes_name(size_t i)
{
	return sources[i].name.ptr[sources[i].name.len - 1] == '.';
}

/* Reports an unknown source. The guess compares only the part before the dot: "haeder.x" is close
 * to "header". */
static void report_unknown_source(struct wr_load *load, const struct wr_yaml *value)
{
	size_t dot = wr_str_find(value->text, '.');
	struct weir_str tail = wr_str_from(value->text, dot);
	struct wr_guess guess = {.word = wr_str_first(value->text, dot)};

	for (size_t i = 0; i < SOURCES; i++)
		if (takes_name(i) == (tail.len > 0))
			wr_guess_try(&guess, wr_str_first(sources[i].name,
							  sources[i].name.len - takes_name(i)));
	if (guess.best.len) {
		char *best = wr_load_print(load, &load->tree, "%.*s%.*s", (int)guess.best.len,
					   guess.best.ptr, (int)tail.len, tail.ptr);

		wr_rules_report(load, WR_D_unknown_source_guess, value,
				WR_ARGS(value->text, wr_str(best)));
	} else {
		wr_rules_report(load, WR_D_unknown_source, value, WR_ARGS(value->text));
	}
}

static bool read_source(struct wr_load *load, const struct wr_yaml *value,
			const struct wr_rules_request *request, struct wr_source *source)
{
	size_t i = 0;

	for (; i < SOURCES; i++) {
		if (takes_name(i) ? wr_str_begins(value->text, sources[i].name) &&
					    value->text.len > sources[i].name.len
				  : wr_str_equal(value->text, sources[i].name))
			break;
	}
	if (i == SOURCES) {
		report_unknown_source(load, value);
		return false;
	}
	*source = (struct wr_source){.kind = sources[i].kind, .loose = sources[i].loose};
	source->label = wr_load_copy(load, &load->rules->arena, value->text);
	if (source->kind == WR_FROM_HEADER)
		wr_read_lower(source->label);
	source->name = wr_str_from(source->label, sources[i].name.len);
	if (source->kind == WR_FROM_HEADER && !wr_is_token(source->name)) {
		wr_rules_report(load, WR_D_unknown_source, value, WR_ARGS(value->text));
		return false;
	}
	if (source->kind == WR_FROM_PATH_PART && !has_capture(request, source->name)) {
		wr_rules_report(load, WR_D_unknown_part, value, WR_ARGS(source->name));
		return false;
	}
	return true;
}

/* Returns whether commas can be part of a single value of this header field, by the definition of
 * the field. A comma then does not separate two fields. */
static bool has_commas(struct weir_str name)
{
	static const char *const names[] = {
		"accept",
		"accept-charset",
		"accept-encoding",
		"accept-language",
		"authorization",
		"cache-control",
		"cookie",
		"date",
		"forwarded",
		"from",
		"if-match",
		"if-modified-since",
		"if-none-match",
		"if-range",
		"if-unmodified-since",
		"proxy-authorization",
		"referer",
		"sec-ch-ua",
		"sec-ch-ua-full-version-list",
		"user-agent",
		"via",
		"x-forwarded-for",
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (wr_str_equal(name, wr_str(names[i])))
			return true;
	return false;
}

/* Reads v4_prefix and v6_prefix: how many leading bits of an address identify a client. The default
 * is 32 for IPv4, and 64 for IPv6, where a client usually has a whole /64. */
static void read_masks(struct wr_load *load, const struct wr_fields *f, struct wr_source *list,
		       uint32_t count)
{
	static const enum wr_rules_key_id keys[] = {WR_KEY_V4_PREFIX, WR_KEY_V6_PREFIX};
	uint32_t bits[] = {32, 64};
	bool used = false;

	wr_get_number(load, f, WR_KEY_V4_PREFIX, 0, 32, &bits[0]);
	wr_get_number(load, f, WR_KEY_V6_PREFIX, 0, 128, &bits[1]);
	for (uint32_t i = 0; i < count; i++) {
		list[i].v4_bits = (uint8_t)bits[0];
		list[i].v6_bits = (uint8_t)bits[1];
		used |= list[i].kind == WR_FROM_MASKED_REMOTE_ADDRESS;
	}
	for (int i = 0; i < 2 && !used; i++)
		if (f->value[keys[i]])
			wr_rules_report(load, WR_D_needs_mask, f->key[keys[i]],
					WR_ARGS(wr_keys[keys[i]].name));
}

static void read_absence(struct wr_load *load, const struct wr_fields *f,
			 struct wr_rules_part *part)
{
	int missing, ambiguous;

	part->has_default = wr_get_text(load, f, WR_KEY_DEFAULT, &part->otherwise);
	if (wr_get_word(load, f, WR_KEY_MISSING, wr_missing_words, &missing))
		part->missing = missing;
	if (part->missing == WR_MISSING_DENY)
		part->ambiguous = WR_AMBIGUOUS_DENY;
	if (wr_get_word(load, f, WR_KEY_AMBIGUOUS, wr_ambiguity_words, &ambiguous))
		part->ambiguous = ambiguous;
	if (part->has_default && part->missing == WR_MISSING_DENY)
		wr_rules_report(load, WR_D_default_and_deny, f->key[WR_KEY_DEFAULT], NULL);
}

static void read_sources(struct wr_load *load, const struct wr_fields *f,
			 const struct wr_rules_request *request, struct wr_rules_part *part)
{
	const struct wr_yaml *value;
	struct wr_source *list;
	struct wr_rules_list from;

	read_absence(load, f, part);
	if (!wr_get_list(load, f, WR_KEY_FROM, false, WR_SOURCES_MAX, &from))
		return;
	list = wr_load_alloc(load, &load->rules->arena, from.count * sizeof *list);
	while ((value = wr_rules_list_next(&from)))
		if (read_source(load, value, request, &list[part->source_count]))
			part->source_count++;
	part->sources = list;
	read_masks(load, f, list, part->source_count);
	for (uint32_t i = 0; i < part->source_count; i++)
		if (part->ambiguous == WR_AMBIGUOUS_JOIN)
			list[i].commas = WR_COMMAS_JOIN;
		else if (has_commas(list[i].name))
			list[i].commas = WR_COMMAS_TEXT;
}

static void read_part(struct wr_load *load, const struct wr_yaml *map,
		      const struct wr_rules_request *request, struct wr_rules_part *part)
{
	static const enum wr_rules_key_id idle[] = {WR_KEY_DEFAULT, WR_KEY_MISSING,
						    WR_KEY_AMBIGUOUS, WR_KEY_V4_PREFIX,
						    WR_KEY_V6_PREFIX};
	struct wr_fields f;

	if (!wr_fields_read(load, map, WR_IN_PART, WR_STR("descriptor"), &f))
		return;
	wr_get_text(load, &f, WR_KEY_KEY, &part->key);
	if (part->key.len == 0 && !f.misread && (!f.value[WR_KEY_KEY] || part->key.ptr))
		wr_rules_report(load, WR_D_empty_key, map, NULL);
	if (!f.value[WR_KEY_VALUE] == !f.value[WR_KEY_FROM] && !f.misread)
		wr_rules_report(load, WR_D_value_or_from, map, NULL);
	wr_get_text(load, &f, WR_KEY_VALUE, &part->value);
	if (f.value[WR_KEY_FROM]) {
		read_sources(load, &f, request, part);
		return;
	}
	for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
		if (f.value[idle[i]])
			wr_rules_report(load, WR_D_needs_from, f.key[idle[i]],
					WR_ARGS(wr_keys[idle[i]].name));
}

static void read_parts(struct wr_load *load, const struct wr_fields *f,
		       struct wr_rules_request *request)
{
	const struct wr_yaml *map;
	struct wr_rules_part *parts;
	struct wr_rules_list list;

	if (!wr_get_list(load, f, WR_KEY_DESCRIPTOR, true, WR_PARTS_MAX, &list))
		return;
	parts = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *parts);
	while ((map = wr_rules_list_next(&list)))
		read_part(load, map, request, &parts[request->part_count++]);
	request->parts = parts;
}

/* Reports keys that have no meaning for exempt requests. */
static void check_allow(struct wr_load *load, const struct wr_fields *f,
			const struct wr_rules_request *request)
{
	static const enum wr_rules_key_id idle[] = {WR_KEY_COST, WR_KEY_COUNT_BY};

	for (size_t i = 0; request->allow && i < sizeof idle / sizeof *idle; i++)
		if (f->value[idle[i]])
			wr_rules_report(load, WR_D_allow_and_cost, f->key[idle[i]],
					WR_ARGS(wr_keys[idle[i]].name));
}

static struct wr_rules_request *read_request(struct wr_load *load, const struct wr_yaml *map)
{
	struct wr_rules_request *request =
		wr_load_alloc(load, &load->rules->arena, sizeof *request);
	struct wr_fields f;

	if (!wr_fields_read(load, map, WR_IN_REQUEST, WR_STR("requests"), &f))
		return NULL;
	request->file = load->file->path;
	request->line = map->line;
	request->column = map->column;
	if (f.value[WR_KEY_WHEN])
		read_when(load, f.value[WR_KEY_WHEN], request);
	request->allow = wr_get_flag(load, &f, WR_KEY_ALLOW);
	read_parts(load, &f, request);
	wr_read_cost(load, &f, request);
	wr_read_count(load, &f, request);
	check_allow(load, &f, request);
	if (request->allow && f.value[WR_KEY_DESCRIPTOR])
		wr_rules_report(load, WR_D_allow_and_descriptor, f.key[WR_KEY_ALLOW], NULL);
	else if (!request->allow && request->part_count == 0 &&
		 (!f.value[WR_KEY_DESCRIPTOR] || !f.value[WR_KEY_DESCRIPTOR]->items))
		wr_rules_report(load, WR_D_empty_request, map, NULL);
	return request;
}

static bool has_source(const struct wr_rules_request *request, enum wr_source_kind kind)
{
	for (uint32_t i = 0; i < request->part_count; i++)
		for (uint32_t j = 0; j < request->parts[i].source_count; j++)
			if (request->parts[i].sources[j].kind == kind)
				return true;
	return false;
}

void wr_read_requests(struct wr_load *load, const struct wr_fields *fields, struct wr_node *domain)
{
	/* `requests` is const, because rules are not changed after loading. The cast is safe,
	 * because the rules are still being loaded. */
	struct wr_rules_requests *all = (struct wr_rules_requests *)domain->more->requests;
	const struct wr_yaml *map;
	struct wr_rules_list list;

	wr_assert(domain->depth == 0);
	if (!wr_get_list(load, fields, WR_KEY_REQUESTS, true, load->bounds.requests, &list))
		return;
	if (!all)
		domain->more->requests = all =
			wr_load_alloc(load, &load->rules->arena, sizeof *all);
	while ((map = wr_rules_list_next(&list))) {
		struct wr_rules_request *request = read_request(load, map);

		if (!request)
			continue;
		if (all->last)
			all->last->next = request;
		else
			all->first = request;
		all->last = request;
		all->count++;
		all->uses_host |= request->hosts.count || has_source(request, WR_FROM_HOST);
		request->uses_path =
			has_source(request, WR_FROM_PATH) || has_source(request, WR_FROM_PATH_PART);
		load->rules->request_count++;
	}
}
