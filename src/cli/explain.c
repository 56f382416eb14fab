/* weir explain: prints the descriptors of a request, the path of each descriptor through the rules,
 * and the limits that apply. Reads only rule files. */
#include "cli/cli.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "rules/cost.h"
#include "serve/admin/explain_find.h"

#define HEADERS_MAX 100
#define ENTRIES_MAX 64

static struct explain_arguments {
	const char *rules, *http, *from, *identity;
	struct wr_cli_words header_lines;
	struct weir_header headers[HEADERS_MAX];
	bool json;
} given;
static struct wr_cli_words words;

#define AT(field) .at = offsetof(struct explain_arguments, field)

static const struct wr_cli_option options[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL, "rule file or directory", AT(rules)},
	{"http", WR_OPTION_TEXT, "REQUEST", NULL,
	 "a request line; without DOMAIN, it is tried in every\n"
	 "domain that has requests:",
	 AT(http), .variable = WR_NO_VARIABLE},
	{"header", WR_OPTION_REPEATED, "H", NULL, "a header field of the request; may be repeated",
	 AT(header_lines), .letter = 'H', .variable = WR_NO_VARIABLE},
	{"from", WR_OPTION_TEXT, "ADDRESS", "127.0.0.1", "client address of the request", AT(from),
	 .variable = WR_NO_VARIABLE},
	{"identity", WR_OPTION_TEXT, "USER", NULL, "user that authentication established",
	 AT(identity), .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the report as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {WR_OPTION_GROUP("Options", options, &given)};

static const struct wr_cli_command command = {
	"explain",
	"weir explain --rules PATH [--json] DOMAIN KEY=VALUE…\n"
	"weir explain --rules PATH [--json] --http 'METHOD TARGET' [-H 'NAME: VALUE']…\n"
	"             [--from ADDRESS] [--identity USER] [DOMAIN]\n"
	"\n"
	"Shows which rule a descriptor matches: the path through the tree of rules, the nodes "
	"that\n"
	"did not match and why, and the limits that apply. With --http it also shows the\n"
	"descriptors that the request makes. Nothing is counted.\n",
	"Examples\n"
	"  weir explain --rules rules.yaml messaging message_type=marketing\n"
	"  weir explain --rules rules.yaml --http 'POST /v1/posts' -H 'x-user-id: 7' --from "
	"192.0.2.7\n"
	"\n"
	"Exit: 0 a limit applies, 1 no limit applies, 2 usage error or the rules have errors.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

static int read_headers(struct explain_arguments *a)
{
	for (size_t i = 0; i < a->header_lines.count; i++) {
		struct weir_str line = wr_str(a->header_lines.items[i]);
		size_t colon = wr_str_find(line, ':');

		if (i == HEADERS_MAX)
			return wr_cli_usage("explain", "at most %d headers are allowed",
					    HEADERS_MAX);
		if (colon == line.len)
			return wr_cli_usage(
				"explain", "'%s' is not a header such as 'x-user-id: 7'", line.ptr);
		a->headers[i] = (struct weir_header){wr_str_trim(wr_str_first(line, colon)),
						     wr_str_trim(wr_str_from(line, colon + 1))};
	}
	return 0;
}

static int check_arguments(struct explain_arguments *a)
{
	if (!a->rules)
		return wr_cli_usage("explain", "--rules PATH is missing");
	if (a->http ? words.count > 1 : words.count < 2)
		return wr_cli_usage("explain", a->http ? "--http accepts one more argument, DOMAIN"
						       : "DOMAIN and KEY=VALUE are missing");
	return read_headers(a);
}

/* Reads the length of the body as nginx does: a request without a length that is not chunked has no
 * body. */
static void read_body(const struct explain_arguments *a, struct weir_http_view *view)
{
	int64_t body_bytes;

	view->body_known = WEIR_LENGTH_KNOWN;
	for (size_t i = 0; i < a->header_lines.count; i++) {
		if (wr_str_equal_nocase(a->headers[i].name, WR_STR("transfer-encoding")))
			view->body_known = WEIR_LENGTH_LATER;
		if (wr_str_equal_nocase(a->headers[i].name, WR_STR("content-length")) &&
		    wr_rules_cost_parse(a->headers[i].value, &body_bytes))
			view->body_bytes = (uint64_t)body_bytes;
	}
	if (view->body_known == WEIR_LENGTH_LATER)
		view->body_bytes = 0; /* the maximum of the server is not known */
}

static int make_view(const struct explain_arguments *a, struct weir_http_view *view)
{
	struct weir_str line = wr_str(a->http);
	size_t blank = wr_str_find(line, ' ');

	*view = (struct weir_http_view){.size = sizeof *view,
					.method = wr_str_first(line, blank),
					.host = WR_STR(""),
					.identity = wr_str(a->identity ? a->identity : ""),
					.headers = a->headers,
					.header_count = a->header_lines.count};
	view->target = wr_str_trim(wr_str_from(line, blank));
	view->target = wr_str_first(view->target, wr_str_find(view->target, ' '));
	if (view->target.len == 0)
		return wr_cli_usage("explain", "'%s' is not a request such as 'GET /v1/posts'",
				    a->http);
	for (size_t i = 0; i < a->header_lines.count; i++)
		if (wr_str_equal_nocase(a->headers[i].name, WR_STR("host")))
			view->host = a->headers[i].value;
	read_body(a, view);
	if (inet_pton(AF_INET, a->from, view->peer) == 1)
		view->peer_len = 4;
	else if (inet_pton(AF_INET6, a->from, view->peer) == 1)
		view->peer_len = 16;
	else
		return wr_cli_usage("explain", "'%s' is not an address", a->from);
	return 0;
}

static int explain_descriptor(const struct weir_rules *rules, struct wr_explain *explain,
			      struct weir_entry *entries)
{
	size_t count = 0;

	for (size_t i = 1; i < words.count; i++) {
		struct weir_str text = wr_str(words.items[i]);
		size_t equals = wr_str_find(text, '=');

		if (equals == 0 || equals == text.len || count == ENTRIES_MAX)
			return wr_cli_usage("explain", "'%s' is not KEY=VALUE", words.items[i]);
		entries[count++] = (struct weir_entry){wr_str_first(text, equals),
						       wr_str_from(text, equals + 1), WR_STR("")};
	}
	wr_explain_descriptor(explain, rules, entries, count);
	return 0;
}

static int explain_http(const struct weir_rules *rules, const struct explain_arguments *a,
			const struct weir_http_view *view, struct wr_explain *explain)
{
	int rc = wr_explain_http(explain, rules, view, a->http);

	if (rc == WEIR_EFORMAT)
		return wr_cli_usage("explain",
				    "the request target is malformed; weir refuses such requests");
	if (rc == WEIR_EMANY)
		return wr_cli_usage(
			"explain",
			"the request has too many descriptors; weir refuses such requests");
	return rc == 0 ? 0
		       : wr_cli_usage("explain",
				      "the request is too large; weir refuses such requests");
}

/* Reports on one domain: adds JSON to `list`, or prints text to stdout if `list` is NULL. Returns
 * an exit code. */
static int explain_domain(const struct weir_rules *rules, const struct explain_arguments *a,
			  const struct weir_http_view *view, struct weir_str name, json_t *list)
{
	struct weir_entry entries[ENTRIES_MAX];
	struct wr_explain explain;
	int rc;

	if (wr_explain_init(&explain, rules, name) != 0)
		abort();
	rc = view ? explain_http(rules, a, view, &explain)
		  : explain_descriptor(rules, &explain, entries);
	if (rc == 0) {
		rc = wr_explain_is_limited(&explain) ? WR_EXIT_YES : WR_EXIT_NO;
		if (list)
			json_array_append_new(list, wr_explain_json(&explain));
		else
			wr_cli_explain_print(&explain);
	}
	wr_explain_free(&explain);
	return rc;
}

/* Reports on an HTTP request in every domain that has requests:. If no domain has, says so on
 * stderr. Returns an exit code. */
static int explain_domains(const struct weir_rules *rules, const struct explain_arguments *a,
			   const struct weir_http_view *view, json_t *list)
{
	int rc = WR_EXIT_NO;
	bool any = false;

	for (const struct wr_node *d = rules->first_domain; d; d = d->more->next) {
		int one;

		if (!d->more->requests)
			continue;
		any = true;
		one = explain_domain(rules, a, view, d->key, list);
		rc = one == WR_EXIT_NO ? rc : one;
	}
	if (!any)
		fprintf(stderr,
			"weir explain: no domain of the rules has `requests:` entries, so these "
			"rules limit no HTTP requests; add `requests:` (docs/rules.md), or explain "
			"a descriptor: weir explain --rules %s DOMAIN KEY=VALUE…\n",
			a->rules);
	return rc;
}

static int explain_all(const struct weir_rules *rules, const struct explain_arguments *a)
{
	json_t *list = a->json ? json_array() : NULL;
	struct weir_http_view view;
	int rc;

	if (a->http && make_view(a, &view) != 0)
		return WR_EXIT_USAGE;
	if (words.count)
		rc = explain_domain(rules, a, a->http ? &view : NULL, wr_str(words.items[0]), list);
	else
		rc = explain_domains(rules, a, &view, list);
	return list ? wr_cli_json_print(list, rc) : rc;
}

int wr_cli_explain(int argc, char **argv)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules = NULL;
	int rc;

	if (!wr_cli_read(&command, argc, argv, &rc))
		return rc;
	rc = check_arguments(&given);
	if (rc)
		return rc;
	rc = weir_rules_load(given.rules, &rules, &errors);
	for (size_t i = 0; rc && i < errors.count; i++) {
		char text[2048];

		weir_diagnostic_text(&errors.items[i], text, sizeof text);
		fputs(errors.items[i].severity == WEIR_ERROR ? text : "", stderr);
	}
	rc = rc ? WR_EXIT_USAGE : explain_all(rules, &given);
	weir_errors_free(&errors);
	weir_rules_free(rules);
	return rc;
}
