/* Writes the proposed rules as YAML. Texts from the log are quoted, so that no path and no name can
 * change the structure of the file. */
#include <stdio.h>

#include "base/str.h"
#include "base/utf8.h"
#include "lab/tune/inner.h"
#include "base/civil.h"
#include "stats/words.h"

#define DOMAIN "api" /* the domain of rules for found routes */
#define SECOND_NS 1000000000ull
#define COMMENT_COLUMN 48

/* ---- texts ---- */

/* Returns whether a YAML reader and a person can read the character as it is. */
static bool is_printable(uint32_t point)
{
	return point >= ' ' && (point < 0x7f || point > 0xa0) &&
	       !(point >= 0x2000 && point <= 0x206f) && point != 0xfeff &&
	       (point & 0xfffe) != 0xfffe;
}

/* Returns whether the text needs no quotes: it begins with a letter or a slash, and has only
 * letters, digits, '_', '-', '.' and '/'. Words that YAML reads as something else need quotes. */
static bool is_plain_scalar(struct weir_str text)
{
	static const char *const words[] = {"true", "false", "null", "yes", "no",
					    "on",   "off",   "y",    "n"};

	for (size_t i = 0; i < text.len; i++) {
		char c = wr_lower(text.ptr[i]);

		if (!(c >= 'a' && c <= 'z') && c != '/' &&
		    (i == 0 || (!(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.')))
			return false;
	}
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (wr_str_equal_nocase(text, wr_str(words[i])))
			return false;
	return text.len > 0;
}

void wr_lab_yaml_text(struct wr_buf *yaml, struct weir_str text)
{
	if (is_plain_scalar(text)) {
		wr_buf_add_str(yaml, text);
		return;
	}
	wr_buf_add_char(yaml, '"');
	for (size_t i = 0; i < text.len;) {
		size_t len = wr_utf8_len(text.ptr + i, text.len - i);
		uint32_t point = len ? wr_utf8_point(text.ptr + i, len) : 0xfffd;

		if (point == '"' || point == '\\')
			wr_buf_printf(yaml, "\\%c", (char)point);
		else if (len == 0)
			wr_buf_add_str(yaml, WR_STR(WR_UTF8_UNKNOWN));
		else if (is_printable(point))
			wr_buf_add(yaml, text.ptr + i, len);
		else
			wr_buf_printf(yaml, "\\U%08x", point);
		i += len ? len : 1;
	}
	wr_buf_add_char(yaml, '"');
}

/* Appends a text for a comment. Characters that could end the comment or are not visible become
 * '?'. */
static void add_comment_text(struct wr_buf *yaml, struct weir_str text)
{
	for (size_t i = 0; i < text.len;) {
		size_t len = wr_utf8_len(text.ptr + i, text.len - i);

		if (len && is_printable(wr_utf8_point(text.ptr + i, len)))
			wr_buf_add(yaml, text.ptr + i, len);
		else
			wr_buf_add_char(yaml, '?');
		i += len ? len : 1;
	}
}

static void add_number(struct wr_buf *yaml, uint64_t number)
{
	char words[WR_NUMBER_WORDS];

	wr_number_words(number, words);
	wr_buf_add_str(yaml, wr_str(words));
}

static void add_time(struct wr_buf *yaml, uint64_t time_ns)
{
	int64_t seconds = (int64_t)(time_ns / SECOND_NS), days = seconds / 86400;
	struct wr_date date = wr_date_from_days(days);

	wr_buf_printf(yaml, "%04d-%02d-%02d %02d:%02d", (int)date.year, date.month, date.day,
		      (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60));
}

/* ---- requests ---- */

static void add_found_entry(const struct wr_lab_tune *tune, size_t at, struct wr_buf *yaml)
{
	const struct wr_lab_route *found = tune->states[at].found;
	bool many;

	wr_buf_add_str(yaml, WR_STR("  - "));
	if (!found) {
		wr_buf_printf(yaml, "descriptor: [{key: client, %s}]\n", tune->source);
		return;
	}
	many = found->path_count > 1;
	wr_buf_printf(yaml, "when: {method: %s, path: %s", found->method, many ? "[" : "");
	for (size_t i = 0; i < found->path_count; i++) {
		wr_buf_add_str(yaml, i ? WR_STR(", ") : WR_STR(""));
		wr_lab_yaml_text(yaml, wr_str(found->paths[i]));
	}
	wr_buf_printf(yaml, "%s}\n    descriptor: [{key: route, value: %s}, {key: client, %s}]\n",
		      many ? "]" : "", tune->routes[at].name, tune->source);
}

void wr_lab_tune_entries(const struct wr_lab_tune *tune, struct wr_buf *yaml)
{
	wr_buf_add_str(yaml, WR_STR("domain: " DOMAIN "\nrequests:\n"));
	for (size_t i = 0; i < tune->route_count; i++)
		add_found_entry(tune, i, yaml);
}

static void add_requests(const struct wr_lab_tune *tune, struct wr_buf *yaml)
{
	wr_buf_add_str(yaml, WR_STR("requests:\n"));
	for (size_t i = 0; !tune->opts.rules && i < tune->route_count; i++)
		if (tune->routes[i].reason == WR_LAB_PROPOSED)
			add_found_entry(tune, i, yaml);
	if (!tune->opts.rules)
		return;
	for (const struct wr_rules_request *entry = tune->domain->more->requests->first; entry;
	     entry = entry->next)
		wr_lab_tune_entry(entry, yaml);
}

/* ---- limits ---- */

static const char *unit_of(uint64_t period_ns)
{
	for (unsigned unit = 0; unit < WR_LAB_UNIT_COUNT; unit++)
		if (wr_lab_unit_ns(unit) == period_ns)
			return wr_lab_unit_name(unit);
	return "second";
}

/* Appends a line "NAME: NUMBER", and blanks up to its comment. */
static void add_setting(struct wr_buf *yaml, unsigned indent, const char *name, uint32_t number)
{
	size_t from = yaml->len;

	wr_buf_printf(yaml, "%*s%s: %u", (int)indent, "", name, number);
	while (!wr_buf_failed(yaml) && yaml->len - from < COMMENT_COLUMN)
		wr_buf_add_char(yaml, ' ');
	wr_buf_add_str(yaml, WR_STR("# "));
}

/* Appends the limit of a route, with a reason for each number. */
static void add_limit(const struct wr_lab_tune *tune, const struct wr_lab_tune_route *route,
		      unsigned indent, bool shadow, struct wr_buf *yaml)
{
	const struct wr_lab_tune_report *report = &tune->report;
	const struct wr_lab_tune_limit *limit = &route->limit;
	const struct wr_lab_rate *rate = &report->rates[limit->rate];

	if (shadow)
		wr_buf_printf(yaml, "%*sshadow_mode: true\n", (int)indent, "");
	wr_buf_printf(yaml, "%*srate_limit:\n%*salgorithm: token_bucket\n%*sunit: %s\n",
		      (int)indent, "", (int)indent + 2, "", (int)indent + 2, "",
		      unit_of(rate->period_ns));
	add_setting(yaml, indent + 2, "requests_per_unit", rate->limit);
	wr_buf_add_str(yaml, WR_STR("one client can send "));
	add_number(yaml, wr_lab_tune_cost(rate, limit->burst, report->horizon_ns));
	wr_buf_printf(yaml, " per %s; no other rate permits less\n", unit_of(report->horizon_ns));
	add_setting(yaml, indent + 2, "burst", limit->burst);
	add_number(yaml, limit->spared);
	wr_buf_add_str(yaml, WR_STR(" of "));
	add_number(yaml, route->considered);
	wr_buf_add_str(yaml, WR_STR(" clients need at most "));
	add_number(yaml, limit->need);
	if (limit->burst > wr_lab_tune_round(limit->need))
		wr_buf_printf(yaml, "; no burst below %u is proposed", WR_LAB_TUNE_BURST);
	wr_buf_add_char(yaml, '\n');
}

static void add_route_comment(const struct wr_lab_tune *tune, const struct wr_lab_tune_route *route,
			      unsigned indent, struct wr_buf *yaml)
{
	char words[256];

	wr_buf_printf(yaml, "%*s# ", (int)indent, "");
	add_comment_text(yaml, wr_str(route->text));
	wr_buf_add_str(yaml, WR_STR(": "));
	add_number(yaml, route->requests);
	wr_buf_add_str(yaml, WR_STR(" requests, at most "));
	add_number(yaml, route->peak_second);
	wr_buf_printf(yaml, " %sper second.\n%*s# ", tune->report.costs ? "units " : "",
		      (int)indent, "");
	wr_lab_tune_words(route, words, sizeof words);
	add_comment_text(yaml, wr_str(words));
	wr_buf_add_str(yaml, WR_STR(".\n"));
}

/* ---- the tree of descriptors ---- */

static bool same_part(const struct wr_rules_part *a, const struct wr_rules_part *b)
{
	return wr_str_equal(a->key, b->key) && (a->source_count == 0) == (b->source_count == 0) &&
	       (a->source_count || wr_str_equal(a->value, b->value));
}

/* Returns whether the descriptors of two routes are equal in their first `depth` parts. */
static bool same_beginning(const struct wr_lab_tune *tune, size_t a, size_t b, uint32_t depth)
{
	const struct wr_rules_request *x = tune->states[a].entry, *y = tune->states[b].entry;

	if (x->part_count < depth || y->part_count < depth)
		return false;
	for (uint32_t i = 0; i < depth; i++)
		if (!same_part(&x->parts[i], &y->parts[i]))
			return false;
	return true;
}

static bool is_proposed(const struct wr_lab_tune *tune, size_t at)
{
	return tune->routes[at].reason == WR_LAB_PROPOSED;
}

/* Returns the first proposed route whose descriptor begins like that of `at` in `depth` parts. */
static size_t first_alike(const struct wr_lab_tune *tune, size_t at, uint32_t depth)
{
	size_t i = 0;

	while (!is_proposed(tune, i) || !same_beginning(tune, i, at, depth))
		i++;
	return i;
}

/* Appends the node of the part at `depth` - 1 of route `at`: its limit, if a route ends there. */
static void add_node(const struct wr_lab_tune *tune, size_t at, uint32_t depth, unsigned indent,
		     bool shadow, struct wr_buf *yaml)
{
	const struct wr_rules_part *part = &tune->states[at].entry->parts[depth - 1];
	size_t end = 0;

	while (end < tune->route_count &&
	       !(is_proposed(tune, end) && tune->states[end].entry->part_count == depth &&
		 same_beginning(tune, end, at, depth)))
		end++;
	if (end < tune->route_count)
		add_route_comment(tune, &tune->routes[end], indent, yaml);
	wr_buf_printf(yaml, "%*s- key: ", (int)indent, "");
	wr_lab_yaml_text(yaml, part->key);
	wr_buf_add_char(yaml, '\n');
	if (part->source_count == 0) {
		wr_buf_printf(yaml, "%*s  value: ", (int)indent, "");
		wr_lab_yaml_text(yaml, part->value);
		wr_buf_add_char(yaml, '\n');
	}
	if (end < tune->route_count)
		add_limit(tune, &tune->routes[end], indent + 2, shadow, yaml);
}

/* Appends the nodes below the first `depth` parts of route `parent`. A node that several routes
 * share is written for the first of them. */
static void add_nodes(const struct wr_lab_tune *tune, size_t parent, uint32_t depth,
		      unsigned indent, bool shadow, struct wr_buf *yaml)
{
	bool any = false;

	for (size_t i = 0; i < tune->route_count; i++) {
		if (!is_proposed(tune, i) || !same_beginning(tune, i, parent, depth) ||
		    tune->states[i].entry->part_count <= depth ||
		    first_alike(tune, i, depth + 1) != i)
			continue;
		if (!any)
			wr_buf_printf(yaml, "%*sdescriptors:\n", (int)indent, "");
		any = true;
		add_node(tune, i, depth + 1, indent + 2, shadow, yaml);
		add_nodes(tune, i, depth + 1, indent + 4, shadow, yaml);
	}
}

static void add_heading(const struct wr_lab_tune *tune, struct wr_buf *yaml)
{
	const struct wr_lab_tune_report *report = &tune->report;

	wr_buf_add_str(yaml, WR_STR("# Proposed by weir tune from "));
	add_number(yaml, report->requests);
	wr_buf_add_str(yaml, report->sample_bits ? WR_STR(" requests of about ")
						 : WR_STR(" requests of "));
	add_number(yaml, report->clients << report->sample_bits);
	wr_buf_add_str(yaml, WR_STR(" clients, "));
	add_time(yaml, report->first_ns);
	wr_buf_add_str(yaml, WR_STR(" to "));
	add_time(yaml, report->last_ns);
	wr_buf_add_str(yaml, WR_STR(" UTC.\n# On these requests, the limits refuse "));
	add_number(yaml, report->touched);
	wr_buf_add_str(yaml, WR_STR(" of "));
	add_number(yaml, report->considered);
	wr_buf_printf(yaml, " clients%s; %.10g %% untouched permits ",
		      tune->opts.without_outliers ? " that do not stand out" : "",
		      report->untouched_ppm / 1e4);
	add_number(yaml, report->touched_max);
	wr_buf_add_str(yaml, WR_STR(".\n"));
	if (report->sample_bits)
		wr_buf_printf(yaml, "# The numbers come from a sample of one in %u clients.\n",
			      1u << report->sample_bits);
}

void wr_lab_tune_yaml(const struct wr_lab_tune *tune, bool shadow, struct wr_buf *yaml)
{
	size_t first = 0;

	add_heading(tune, yaml);
	wr_buf_add_str(yaml, WR_STR("domain: "));
	wr_lab_yaml_text(yaml, tune->domain->key);
	wr_buf_add_char(yaml, '\n');
	add_requests(tune, yaml);
	while (first < tune->route_count && !is_proposed(tune, first))
		first++;
	if (first < tune->route_count)
		add_nodes(tune, first, 0, 0, shadow, yaml);
}
