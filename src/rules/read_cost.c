/* Reads `cost` and `count` of an entry of `requests`: the cost of a request, and the statuses of
 * responses that count. */
#include "rules/read.h"

#include <weir/reader.h>

#include "rules/requests.h"

static const struct cost_row {
	struct weir_str name;
	enum wr_cost_from from;
	bool known; /* the value is known when the request arrives */
} sources[] = {
#define SOURCE_ROW(from, text, known) {{text, sizeof(text) - 1}, from, known},
	WR_COST_SOURCES(SOURCE_ROW)
#undef SOURCE_ROW
};
#define SOURCES (sizeof sources / sizeof *sources)

/* ---- sources ---- */

static bool takes_name(const struct cost_row *row)
{
	return row->name.ptr[row->name.len - 1] == '.';
}

static bool is_header(const struct cost_row *row)
{
	return row->from == WR_COST_HEADER || row->from == WR_COST_RESPONSE_HEADER;
}

static const struct cost_row *find_row(struct weir_str text)
{
	for (const struct cost_row *row = sources; row < sources + SOURCES; row++)
		if (takes_name(row) ? wr_str_begins(text, row->name) && text.len > row->name.len
				    : wr_str_equal(text, row->name))
			return row;
	return NULL;
}

/* Reports an unknown source. The guess compares the whole text with sources that take no name. With
 * the other sources, it compares the part before the first or the second dot: "haeder.x-cost" is
 * close to "header". */
static void report_unknown(struct wr_load *load, const struct wr_yaml *value)
{
	struct weir_str text = value->text;
	size_t dot = wr_str_find(text, '.');
	size_t stems[] = {dot, dot};
	struct wr_guess plain = {.word = text};
	struct weir_str best;

	if (dot < text.len)
		stems[1] += 1 + wr_str_find(wr_str_from(text, dot + 1), '.');
	for (size_t i = 0; i < SOURCES; i++)
		if (!takes_name(&sources[i]))
			wr_guess_try(&plain, sources[i].name);
	best = plain.best;
	for (size_t n = 0; n < 2 && !best.len && stems[n] + 1 < text.len; n++) {
		struct weir_str tail = wr_str_from(text, stems[n]);
		struct wr_guess named = {.word = wr_str_first(text, stems[n])};

		for (size_t i = 0; i < SOURCES; i++)
			if (takes_name(&sources[i]))
				wr_guess_try(&named, wr_str_first(sources[i].name,
								  sources[i].name.len - 1));
		if (named.best.len && named.distance)
			best = wr_str(wr_load_print(load, &load->tree, "%.*s%.*s",
						    (int)named.best.len, named.best.ptr,
						    (int)tail.len, tail.ptr));
	}
	if (best.len)
		wr_rules_report(load, WR_D_unknown_source_guess, value, WR_ARGS(text, best));
	else
		wr_rules_report(load, WR_D_unknown_cost_source, value, WR_ARGS(text));
}

/* Returns the error in a JSON pointer (RFC 6901), or NULL if a struct weir_reader can look for
 * it. */
static const char *pointer_fault(struct weir_str pointer)
{
	uint32_t steps = 0;

	if (pointer.ptr[0] != '/')
		return "it does not begin with /";
	if (pointer.len > WEIR_READER_POINTER_MAX)
		return "it has more than 256 bytes";
	for (size_t i = 0; i < pointer.len; i++) {
		char next = (char)(i + 1 < pointer.len ? pointer.ptr[i + 1] : '\0');

		steps += pointer.ptr[i] == '/';
		if (pointer.ptr[i] == '~' && next != '0' && next != '1')
			return "a ~ in it is not followed by 0 or 1";
	}
	return steps > WEIR_READER_DEPTH_MAX ? "it has more than 16 steps" : NULL;
}

_Static_assert(WEIR_READER_POINTER_MAX == 256 && WEIR_READER_DEPTH_MAX == 16,
	       "pointer_fault() names these numbers");

static const struct wr_source *make_source(struct wr_load *load,
					   const struct wr_rules_cost_source *cost)
{
	struct wr_source *source = wr_load_alloc(load, &load->rules->arena, sizeof *source);

	*source = (struct wr_source){
		.kind = cost->from == WR_COST_HEADER ? WR_FROM_HEADER : WR_FROM_QUERY,
		.loose = true,
		.label = cost->label,
		.name = cost->name,
	};
	return source;
}

/* Reads `from` of `cost`, `reserve` or `actual`. Returns false after an error. */
static bool read_from(struct wr_load *load, const struct wr_fields *f, enum wr_rules_map map,
		      struct wr_rules_cost_source *cost)
{
	const struct wr_yaml *value = f->value[WR_KEY_FROM];
	const struct cost_row *row;
	const char *fault;

	if (!wr_get_text(load, f, WR_KEY_FROM, &cost->label))
		return false;
	row = find_row(cost->label);
	if (row && is_header(row))
		wr_read_lower(cost->label);
	if (row)
		cost->name = wr_str_from(cost->label, row->name.len);
	if (!row || (is_header(row) && !wr_is_token(cost->name))) {
		report_unknown(load, value);
		return false;
	}
	cost->from = (uint8_t)row->from;
	fault = row->from == WR_COST_RESPONSE_JSON ? pointer_fault(cost->name) : NULL;
	if (fault)
		wr_rules_report(load, WR_D_bad_pointer, value, WR_ARGS(cost->name, wr_str(fault)));
	else if (!row->known && map == WR_IN_COST)
		wr_rules_report(load, WR_D_cost_from_response, value,
				WR_ARGS(value->text, value->text));
	else if (!row->known && map == WR_IN_RESERVE)
		wr_rules_report(load, WR_D_reserve_from_response, value, WR_ARGS(value->text));
	else if (row->known && map == WR_IN_ACTUAL)
		wr_rules_report(load, WR_D_actual_from_request, value,
				WR_ARGS(value->text, value->text));
	if (row->from == WR_COST_HEADER || row->from == WR_COST_QUERY)
		cost->source = make_source(load, cost);
	return true;
}

/* ---- cost ---- */

/* Reads `default` of `actual`, a number or the word `reserved`. */
static void read_actual_default(struct wr_load *load, const struct wr_fields *f,
				struct wr_rules_cost_source *cost)
{
	const struct wr_yaml *value = f->value[WR_KEY_DEFAULT];
	uint64_t number;

	cost->defaults_to_reserved = true;
	if (!value ||
	    (value->kind == WR_YAML_TEXT && wr_str_equal_nocase(value->text, WR_STR("reserved"))))
		return;
	cost->defaults_to_reserved = false;
	if (wr_rules_number_parse(value, &number))
		cost->otherwise = (int64_t)number;
	else
		wr_rules_report(load, WR_D_bad_actual_default, value,
				WR_ARGS(wr_rules_number_text(load, WR_COST_MAX)));
}

/* Reads from, default and max. */
static void read_source(struct wr_load *load, const struct wr_fields *f, enum wr_rules_map map,
			struct wr_rules_cost_source *cost)
{
	uint32_t otherwise = 1, max = WR_COST_MAX;

	read_from(load, f, map, cost);
	wr_get_number(load, f, WR_KEY_MAX, 1, WR_COST_MAX, &max);
	cost->max = max;
	if (map == WR_IN_ACTUAL) {
		read_actual_default(load, f, cost);
	} else {
		wr_get_number(load, f, WR_KEY_DEFAULT, 0, WR_COST_MAX, &otherwise);
		cost->otherwise = otherwise;
	}
	if (cost->from == WR_COST_REQUEST_BYTES && !f->value[WR_KEY_MAX] && map != WR_IN_ACTUAL)
		wr_rules_report(load, WR_D_bytes_without_max, f->value[WR_KEY_FROM], NULL);
	if (f->value[WR_KEY_DEFAULT] && cost->otherwise > cost->max)
		wr_rules_report(load, WR_D_default_above_max, f->value[WR_KEY_DEFAULT], NULL);
}

/* Reports a source that stands where a map with `from` is needed. Returns false if the value is no
 * source. */
static bool report_bare(struct wr_load *load, const struct wr_yaml *value, enum wr_rules_key_id key)
{
	struct weir_str name = wr_keys[key].name;

	if (value->kind != WR_YAML_TEXT || !find_row(value->text))
		return false;
	wr_rules_report(load, WR_D_bare_source, value, WR_ARGS(name, name, value->text));
	return true;
}

/* Reads `reserve` or `actual` if its value is a map. */
static void read_source_map(struct wr_load *load, const struct wr_fields *f,
			    enum wr_rules_key_id key, struct wr_rules_cost_source *cost)
{
	bool reserve = key == WR_KEY_RESERVE;
	enum wr_rules_map map = reserve ? WR_IN_RESERVE : WR_IN_ACTUAL;
	struct wr_fields fields;

	if (report_bare(load, f->value[key], key) ||
	    !wr_fields_read(load, f->value[key], map, wr_keys[key].name, &fields))
		return;
	if (!fields.value[WR_KEY_FROM] && !fields.misread)
		wr_rules_report(load, WR_D_no_cost_source, f->key[key],
				WR_ARGS(wr_keys[key].name,
					reserve ? WR_STR("header.x-max-tokens")
						: WR_STR("response.json./usage/total_tokens")));
	read_source(load, &fields, map, cost);
}

/* Reads a cost that is a plain number, or reports a value of a wrong type. */
static void read_plain(struct wr_load *load, const struct wr_fields *f, enum wr_rules_key_id key,
		       struct wr_rules_cost_source *cost)
{
	uint32_t number = 0;

	if (f->value[key]->kind != WR_YAML_TEXT)
		wr_rules_report_type(load, f->value[key], wr_keys[key].name, "a number or a map");
	else if (!report_bare(load, f->value[key], key))
		wr_get_number(load, f, key, 0, WR_COST_MAX, &number);
	*cost = (struct wr_rules_cost_source){
		.from = WR_COST_NUMBER, .otherwise = number, .max = WR_COST_MAX};
}

/* Reads reserve and actual. */
static void read_reservation(struct wr_load *load, const struct wr_fields *f,
			     struct wr_rules_cost *cost)
{
	const struct wr_yaml *reserve = f->value[WR_KEY_RESERVE];
	const struct wr_yaml *actual = f->value[WR_KEY_ACTUAL];

	if ((!reserve || !actual) && !f->misread)
		wr_rules_report(load, WR_D_cost_incomplete, f->at,
				WR_ARGS(wr_keys[reserve ? WR_KEY_ACTUAL : WR_KEY_RESERVE].name));
	if (reserve && reserve->kind == WR_YAML_MAP)
		read_source_map(load, f, WR_KEY_RESERVE, &cost->arrival);
	else if (reserve)
		read_plain(load, f, WR_KEY_RESERVE, &cost->arrival);
	if (actual)
		read_source_map(load, f, WR_KEY_ACTUAL, &cost->actual);
	cost->settles = true;
}

/* Reads `cost` if its value is a map: with `from`, or with `reserve` and `actual`. */
static void read_map(struct wr_load *load, const struct wr_yaml *map, struct wr_rules_cost *cost)
{
	static const enum wr_rules_key_id settling[] = {WR_KEY_RESERVE, WR_KEY_ACTUAL};
	static const enum wr_rules_key_id idle[] = {WR_KEY_DEFAULT, WR_KEY_MAX};
	bool settles;
	struct wr_fields f;

	if (!wr_fields_read(load, map, WR_IN_COST, WR_STR("cost"), &f))
		return;
	settles = f.value[WR_KEY_RESERVE] || f.value[WR_KEY_ACTUAL];
	for (size_t i = 0; i < 2; i++) {
		if (f.value[WR_KEY_FROM] && f.value[settling[i]])
			wr_rules_report(load, WR_D_from_and_reserve, f.key[settling[i]],
					WR_ARGS(wr_keys[settling[i]].name));
		else if (settles && !f.value[WR_KEY_FROM] && f.value[idle[i]])
			wr_rules_report(load, WR_D_needs_from, f.key[idle[i]],
					WR_ARGS(wr_keys[idle[i]].name));
	}
	if (f.value[WR_KEY_FROM]) {
		read_source(load, &f, WR_IN_COST, &cost->arrival);
	} else if (settles) {
		read_reservation(load, &f, cost);
	} else if (!f.misread) {
		wr_rules_report(load, WR_D_no_cost_source, f.at,
				WR_ARGS(WR_STR("cost"), WR_STR("header.x-query-cost")));
	}
}

void wr_read_cost(struct wr_load *load, const struct wr_fields *f, struct wr_rules_request *request)
{
	const struct wr_yaml *value = f->value[WR_KEY_COST];
	struct wr_rules_cost *cost;

	if (!value)
		return;
	cost = wr_load_alloc(load, &load->rules->arena, sizeof *cost);
	request->cost = cost;
	if (value->kind == WR_YAML_MAP)
		read_map(load, value, cost);
	else
		read_plain(load, f, WR_KEY_COST, &cost->arrival);
}

/* ---- count ---- */

/* Reads a status such as 401, or a class of statuses such as 4xx. Returns whether the text is one,
 * and sets *first and *last. */
static bool parse_status(struct weir_str text, uint32_t *first, uint32_t *last)
{
	bool class_of =
		text.len == 3 && wr_lower(text.ptr[1]) == 'x' && wr_lower(text.ptr[2]) == 'x';

	if (text.len != 3 || text.ptr[0] < '1' || text.ptr[0] > '5')
		return false;
	*first = (uint32_t)(text.ptr[0] - '0') * 100;
	*last = *first + 99;
	if (class_of)
		return true;
	for (int i = 1; i < 3; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return false;
		*first += (uint32_t)(text.ptr[i] - '0') * (i == 1 ? 10 : 1);
	}
	*last = *first;
	return true;
}

static void set_statuses(struct wr_rules_count *count, uint32_t first, uint32_t last, bool counts)
{
	for (uint32_t status = first; status <= last; status++) {
		uint8_t bit = (uint8_t)(1u << status % 8);

		if (counts)
			count->counts[status / 8] |= bit;
		else
			count->counts[status / 8] &= (uint8_t)~bit;
	}
}

/* Returns whether an API can end a request with this status. The other statuses from 100 to 199
 * announce that another response follows. */
static bool is_final(uint32_t status)
{
	return status == 101 || status >= 200;
}

/* Warns about a list of statuses that selects no response, or all of them. */
static void check_selection(struct wr_load *load, const struct wr_rules_count *count,
			    const struct wr_yaml *value)
{
	bool any = false, all = true;

	for (uint32_t status = 100; status < WR_STATUSES; status++) {
		bool counts = wr_rules_counts_status(count, status);

		any |= is_final(status) && counts;
		all &= !is_final(status) || counts;
	}
	if (!any)
		wr_rules_report(load, WR_D_count_nothing, value, NULL);
	else if (all)
		wr_rules_report(load, WR_D_count_everything, value, NULL);
}

static void read_statuses(struct wr_load *load, const struct wr_yaml *map,
			  const struct wr_fields *f, struct wr_rules_request *request)
{
	enum wr_rules_key_id key = f->value[WR_KEY_STATUS] ? WR_KEY_STATUS : WR_KEY_EXCEPT;
	struct wr_rules_count *count = wr_load_alloc(load, &load->rules->arena, sizeof *count);
	const struct wr_yaml *value;
	struct wr_rules_list list;
	uint32_t first, last;
	bool valid = true;

	if (!f->value[WR_KEY_STATUS] == !f->value[WR_KEY_EXCEPT] && !f->misread)
		wr_rules_report(load, WR_D_status_or_except, map, NULL);
	request->count = count;
	set_statuses(count, 0, key == WR_KEY_STATUS ? 0 : WR_STATUSES - 1, true);
	if (!wr_get_list(load, f, key, false, WR_STATUSES, &list))
		return;
	while ((value = wr_rules_list_next(&list))) {
		if (parse_status(value->text, &first, &last)) {
			set_statuses(count, first, last, key == WR_KEY_STATUS);
			continue;
		}
		valid = false;
		wr_rules_report(load, WR_D_unknown_status, value, WR_ARGS(value->text));
	}
	if (valid && list.count)
		check_selection(load, count, f->value[key]);
}

void wr_read_count(struct wr_load *load, const struct wr_fields *f,
		   struct wr_rules_request *request)
{
	const struct wr_yaml *value = f->value[WR_KEY_COUNT_BY];
	struct wr_fields fields;

	if (value && value->kind != WR_YAML_MAP)
		wr_rules_report(load, WR_D_bare_statuses, value, NULL);
	else if (value && wr_fields_read(load, value, WR_IN_COUNT, WR_STR("count"), &fields))
		read_statuses(load, value, &fields, request);
}
