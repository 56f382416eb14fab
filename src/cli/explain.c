/* weir explain: the descriptors a request makes, the path each takes, and what applies. */
#include "cli/explain.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

#define HEADERS_MAX 100
#define ENTRIES_MAX 64

static const char help[] =
	"weir explain --rules PATH [--json] DOMAIN KEY=VALUE…\n"
	"weir explain --rules PATH [--json] --http 'METHOD TARGET' [-H 'NAME: VALUE']…\n"
	"             [--from ADDRESS] [--identity WHO] [DOMAIN]\n"
	"\n"
	"Says which rule a descriptor meets: the path through the tree, what was passed over and\n"
	"why, and the limits that apply. With --http also which descriptors a request makes.\n"
	"Nothing is counted.\n"
	"\n"
	"  --rules PATH      file or directory\n"
	"  --http REQUEST    a request line; without DOMAIN, every domain that has requests:\n"
	"  -H, --header H    a header field, as often as need be\n"
	"  --from ADDRESS    where the request comes from (127.0.0.1)\n"
	"  --identity WHO    what authentication established\n"
	"  --json            for programs\n"
	"\n"
	"Exit: 0 some limit applies, 1 none does, 2 not understood or the rules have errors.\n"
	"\n"
	"  weir explain --rules rules.yaml messaging message_type=marketing\n"
	"  weir explain --rules rules.yaml --http 'POST /v1/posts' -H 'x-user-id: 7' --from "
	"192.0.2.7\n";

struct arguments {
	const char *rules;
	const char *http;
	const char *from;
	const char *identity;
	struct weir_header headers[HEADERS_MAX];
	size_t header_count;
	bool json;
	bool help;
	char **rest;
	int rest_count;
};

static int parse_header(struct arguments *a, const char *text)
{
	struct weir_str line = wr_str(text);
	size_t colon = wr_str_find(line, ':');

	if (colon == line.len || a->header_count == HEADERS_MAX)
		return wr_cli_usage("explain", "'%s' is not a header such as 'x-user-id: 7'", text);
	a->headers[a->header_count++] = (struct weir_header){
		wr_str_trim(wr_str_first(line, colon)), wr_str_trim(wr_str_from(line, colon + 1))};
	return 0;
}

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {
		{"rules", required_argument, NULL, 'r'},    {"http", required_argument, NULL, 't'},
		{"header", required_argument, NULL, 'H'},   {"from", required_argument, NULL, 'f'},
		{"identity", required_argument, NULL, 'i'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},           {0}};
	int option, rc = 0;

	opterr = 0;
	while (rc == 0 && (option = getopt_long(argc, argv, "H:h", options, NULL)) != -1) {
		if (option == 'r')
			a->rules = optarg;
		else if (option == 't')
			a->http = optarg;
		else if (option == 'H')
			rc = parse_header(a, optarg);
		else if (option == 'f')
			a->from = optarg;
		else if (option == 'i')
			a->identity = optarg;
		else if (option == 'j')
			a->json = true;
		else if (option == 'h')
			a->help = true;
		else
			rc = wr_cli_usage("explain", "'%s' is not understood", argv[optind - 1]);
	}
	a->rest = argv + optind;
	a->rest_count = argc - optind;
	if (rc || a->help)
		return rc;
	if (!a->rules)
		return wr_cli_usage("explain", "--rules PATH is missing");
	if (a->http ? a->rest_count > 1 : a->rest_count < 2)
		return wr_cli_usage("explain", a->http ? "--http takes at most a DOMAIN"
						       : "DOMAIN and KEY=VALUE are missing");
	return 0;
}

static int make_view(const struct arguments *a, struct weir_http_view *view)
{
	struct weir_str line = wr_str(a->http);
	size_t blank = wr_str_find(line, ' ');

	*view = (struct weir_http_view){.size = sizeof *view,
					.method = wr_str_first(line, blank),
					.host = WR_STR(""),
					.identity = wr_str(a->identity ? a->identity : ""),
					.headers = a->headers,
					.header_count = a->header_count};
	view->target = wr_str_trim(wr_str_from(line, blank));
	view->target = wr_str_first(view->target, wr_str_find(view->target, ' '));
	if (view->target.len == 0)
		return wr_cli_usage("explain", "'%s' is not a request such as 'GET /v1/posts'",
				    a->http);
	for (size_t i = 0; i < a->header_count; i++)
		if (wr_str_equal_nocase(a->headers[i].name, WR_STR("host")))
			view->host = a->headers[i].value;
	if (inet_pton(AF_INET, a->from ? a->from : "127.0.0.1", view->peer) == 1)
		view->peer_len = 4;
	else if (inet_pton(AF_INET6, a->from, view->peer) == 1)
		view->peer_len = 16;
	else
		return wr_cli_usage("explain", "'%s' is not an address", a->from);
	return 0;
}

static int explain_descriptor(const struct weir_rules *rules, const struct arguments *a,
			      struct wr_explain *explain, struct weir_entry *entries)
{
	size_t count = 0;

	for (int i = 1; i < a->rest_count; i++) {
		struct weir_str text = wr_str(a->rest[i]);
		size_t equals = wr_str_find(text, '=');

		if (equals == 0 || equals == text.len || count == ENTRIES_MAX)
			return wr_cli_usage("explain", "'%s' is not KEY=VALUE", a->rest[i]);
		entries[count++] = (struct weir_entry){wr_str_first(text, equals),
						       wr_str_from(text, equals + 1), WR_STR("")};
	}
	wr_explain_descriptor(explain, rules, entries, count);
	return 0;
}

static int explain_http(const struct weir_rules *rules, const struct arguments *a,
			const struct weir_http_view *view, struct wr_explain *explain)
{
	int rc = wr_explain_http(explain, rules, view, a->http);

	if (rc == WEIR_EFORMAT)
		return wr_cli_usage("explain", "the request target is malformed: it is refused");
	if (rc == WEIR_EMANY)
		return wr_cli_usage("explain",
				    "the request has too many descriptors: it is refused");
	return rc == 0 ? 0 : wr_cli_usage("explain", "the request is too large: it is refused");
}

/* All of one domain. Returns an exit code; with `list` the report goes there instead. */
static int explain_domain(const struct weir_rules *rules, const struct arguments *a,
			  const struct weir_http_view *view, struct weir_str name, json_t *list)
{
	struct weir_entry entries[ENTRIES_MAX];
	struct wr_explain explain;
	int rc;

	if (wr_explain_init(&explain, rules, name) != 0)
		abort();
	rc = view ? explain_http(rules, a, view, &explain)
		  : explain_descriptor(rules, a, &explain, entries);
	if (rc == 0) {
		rc = wr_explain_is_limited(&explain) ? WR_EXIT_YES : WR_EXIT_NO;
		if (list)
			json_array_append_new(list, wr_explain_json(&explain));
		else
			explain_print_text(&explain);
	}
	wr_explain_free(&explain);
	return rc;
}

static int explain_all(const struct weir_rules *rules, const struct arguments *a)
{
	json_t *list = a->json ? json_array() : NULL;
	struct weir_http_view view;
	int rc = WR_EXIT_NO;

	if (a->http && make_view(a, &view) != 0)
		return WR_EXIT_USAGE;
	if (a->rest_count) {
		rc = explain_domain(rules, a, a->http ? &view : NULL, wr_str(a->rest[0]), list);
	} else {
		for (const struct wr_node *d = rules->first_domain; d; d = d->more->next) {
			int one = d->more->requests ? explain_domain(rules, a, &view, d->key, list)
						    : rc;

			rc = one == WR_EXIT_NO ? rc : one;
		}
	}
	return list ? wr_json_print(list, rc) : rc;
}

int wr_cli_explain(int argc, char **argv)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct arguments a = {0};
	struct weir_rules *rules = NULL;
	int rc = parse_arguments(argc, argv, &a);

	if (rc || a.help) {
		fputs(a.help ? help : "", stdout);
		return rc;
	}
	rc = weir_rules_load(a.rules, &rules, &errors);
	for (size_t i = 0; rc && i < errors.count; i++) {
		char text[2048];

		weir_diagnostic_text(&errors.items[i], text, sizeof text);
		fputs(errors.items[i].severity == WEIR_ERROR ? text : "", stderr);
	}
	rc = rc ? WR_EXIT_USAGE : explain_all(rules, &a);
	weir_errors_free(&errors);
	weir_rules_free(rules);
	return rc;
}
