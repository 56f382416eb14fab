/* weir key: counters of a descriptor, by the admin API of a running service. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"

static const char help[] =
	"weir key get   [--limit NAME] DOMAIN KEY=VALUE…\n"
	"weir key reset [--limit NAME] DOMAIN KEY=VALUE…\n"
	"weir key grant --extra N --for TIME DOMAIN KEY=VALUE…\n"
	"weir key ban   --for TIME | --lift DOMAIN KEY=VALUE…\n"
	"\n"
	"Shows or changes the counters of a descriptor, in every process on the table, at once.\n"
	"What Redis keeps is asked of Redis; if it does not answer in time, that is said.\n"
	"With --redis changes reach all machines of the service's region, not other regions.\n"
	"\n"
	"  --extra N           so many more than the limit says; 0 ends a grant\n"
	"  --for TIME          90s, 15m, 1h30m, 7d, or ever\n"
	"  --lift              end a ban\n"
	"  --limit NAME        of the limits that apply, this one\n"
	"  --from KEY=SOURCE   where KEY's value came from, for rules whose `from` names several\n"
	"                      sources: a header and an address of one spelling are two "
	"clients\n" WR_CLIENT_ADMIN_HELP "  --json              the whole answer\n"
	"\n"
	"Exit: 0 done, 1 no limit applies, 2 not understood or nobody answered.\n"
	"\n"
	"  weir key get api user=7\n"
	"  weir key get --from user_id=header.x-user-id api user_id=alice\n"
	"  weir key grant --extra 100 --for 1h api user=7\n"
	"  weir key ban --for ever api ip=192.0.2.7\n"
	"  weir key ban --lift api ip=192.0.2.7\n";

#define SOURCES_MAX 32 /* as many as a descriptor has entries */

struct arguments {
	const char *verb, *domain;
	struct wr_client_admin service;
	const char *limit, *span;
	const char *extra;
	const char *sources[SOURCES_MAX]; /* KEY=SOURCE each */
	int source_count;
	bool lift, json, help;
	char **words;
	int word_count;
};

static void take_option(struct arguments *a, int option)
{
	switch (option) {
	case 'a':
		a->service.admin = optarg;
		break;
	case 't':
		a->service.token_file = optarg;
		break;
	case 'n':
		a->service.table = optarg;
		break;
	case 'd':
		a->service.dir = optarg;
		break;
	case 'l':
		a->limit = optarg;
		break;
	case 'f':
		a->span = optarg;
		break;
	case 'e':
		a->extra = optarg;
		break;
	case 's':
		if (a->source_count < SOURCES_MAX)
			a->sources[a->source_count++] = optarg;
		break;
	case 'u':
		a->lift = true;
		break;
	case 'j':
		a->json = true;
		break;
	default:
		a->help = true;
	}
}

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {{"admin", required_argument, NULL, 'a'},
						{"token-file", required_argument, NULL, 't'},
						{"table", required_argument, NULL, 'n'},
						{"dir", required_argument, NULL, 'd'},
						{"limit", required_argument, NULL, 'l'},
						{"for", required_argument, NULL, 'f'},
						{"extra", required_argument, NULL, 'e'},
						{"from", required_argument, NULL, 's'},
						{"lift", no_argument, NULL, 'u'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == '?')
			return wr_cli_usage("key", "'%s' is not understood", argv[optind - 1]);
		take_option(a, option);
	}
	if (a->help)
		return 0;
	if (argc - optind < 3)
		return wr_cli_usage("key",
				    "get, reset, grant or ban, DOMAIN and KEY=VALUE are needed");
	a->verb = argv[optind];
	a->domain = argv[optind + 1];
	a->words = argv + optind + 2;
	a->word_count = argc - optind - 2;
	return 0;
}

/* What belongs to which word. The service says what is wrong with the values. */
static int check_arguments(const struct arguments *a)
{
	bool is_grant = strcmp(a->verb, "grant") == 0, is_ban = strcmp(a->verb, "ban") == 0;

	if (!is_grant && !is_ban && strcmp(a->verb, "get") != 0 && strcmp(a->verb, "reset") != 0)
		return wr_cli_usage("key", "'%s' is none of get, reset, grant and ban", a->verb);
	if (a->extra && !is_grant)
		return wr_cli_usage("key", "--extra is for grant");
	if (a->lift && !is_ban)
		return wr_cli_usage("key", "--lift is for ban");
	if (a->span && !is_grant && !is_ban)
		return wr_cli_usage("key", "--for is for grant and ban");
	if (is_grant && (!a->extra || (!a->span && strcmp(a->extra, "0") != 0)))
		return wr_cli_usage("key", "grant needs --extra N and --for TIME");
	if (is_ban && (a->span != NULL) == a->lift)
		return wr_cli_usage("key", "ban needs --for TIME or --lift");
	return 0;
}

static int set_extra(json_t *body, const char *text)
{
	char *end;
	long long extra = strtoll(text, &end, 10);

	if (*end || end == text)
		return wr_cli_usage("key", "'%s' is not a number", text);
	json_object_set_new(body, "extra", json_integer(extra));
	return 0;
}

/* False: --from names a key that is not there. */
static bool set_source(json_t *entries, const char *text)
{
	struct weir_str word = wr_str(text);
	size_t equals = wr_str_find(word, '=');
	struct weir_str key = wr_str_first(word, equals);
	bool found = false;
	json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry)
	{
		const char *own = json_string_value(json_object_get(entry, "key"));

		if (equals == word.len || !own || !wr_str_equal(wr_str(own), key))
			continue;
		json_object_set_new(entry, "source", wr_json_text(wr_str_from(word, equals + 1)));
		found = true;
	}
	if (!found)
		wr_cli_usage("key", "--from '%s' is not KEY=SOURCE with a KEY of the descriptor",
			     text);
	return found;
}

static json_t *make_body(const struct arguments *a)
{
	json_t *entries = json_array();
	json_t *body = json_pack("{s:o, s:o}", "domain", wr_json_text(wr_str(a->domain)), "entries",
				 entries);
	bool fine = true;

	for (int i = 0; i < a->word_count && fine; i++) {
		json_t *entry = wr_client_entry(a->words[i]);

		fine = entry != NULL;
		if (fine)
			json_array_append_new(entries, entry);
		else
			wr_cli_usage("key", "'%s' is not KEY=VALUE", a->words[i]);
	}
	for (int i = 0; i < a->source_count && fine; i++)
		fine = set_source(entries, a->sources[i]);
	if (a->limit)
		json_object_set_new(body, "limit", wr_json_text(wr_str(a->limit)));
	if (a->span)
		json_object_set_new(body, "for", wr_json_text(wr_str(a->span)));
	if (a->lift)
		json_object_set_new(body, "lift", json_true());
	if (fine && a->extra)
		fine = set_extra(body, a->extra) == 0;
	if (fine)
		return body;
	json_decref(body);
	return NULL;
}

/* "until 2026-11-16 07:00:00", "for ever"; nothing when it is null. */
static void tell_until(const char *what, const json_t *until)
{
	char text[32];
	struct tm local;
	time_t at;

	if (json_is_null(until))
		return;
	if (json_is_string(until)) {
		printf(", %s for ever", what);
		return;
	}
	at = (time_t)json_number_value(until);
	localtime_r(&at, &local);
	strftime(text, sizeof text, "%F %T", &local);
	printf(", %s until %s", what, text);
}

/* Whose figures they are, unless they are the table's own. */
static void tell_source(const char *source)
{
	static const struct {
		const char *source, *text;
	} texts[] = {
		{"store", ", by the store"},
		{"exchange", ", as other machines told last"},
		{"machine", "; of this machine alone: the store said nothing of it"},
	};

	for (size_t i = 0; source && i < sizeof texts / sizeof *texts; i++)
		if (strcmp(source, texts[i].source) == 0)
			fputs(texts[i].text, stdout);
}

static void tell_counter(const json_t *counter)
{
	const char *rule = json_string_value(json_object_get(counter, "rule"));
	double reset_s = json_number_value(json_object_get(counter, "reset_after"));
	char span[WR_CLIENT_SPAN], grant[40];

	wr_client_print(rule ? rule : "(a limit of the request's own)");
	printf(": %.0f of %.0f left", json_number_value(json_object_get(counter, "remaining")),
	       json_number_value(json_object_get(counter, "limit")));
	if (reset_s > 0)
		printf(", as good as new in %s", wr_client_span(reset_s, span));
	tell_until("banned", json_object_get(counter, "banned_until"));
	snprintf(grant, sizeof grant, "%.0f granted",
		 json_number_value(json_object_get(counter, "granted")));
	tell_until(grant, json_object_get(counter, "granted_until"));
	if (json_is_true(json_object_get(counter, "shadow")))
		printf(", in shadow mode");
	if (json_is_true(json_object_get(counter, "paused")))
		printf(", paused");
	tell_source(json_string_value(json_object_get(counter, "source")));
	putchar('\n');
}

/* Regions tell each other what was admitted, and not what operators do. */
static void tell_region(const struct arguments *a, const json_t *region)
{
	if (strcmp(a->verb, "get") == 0 || !json_is_string(region))
		return;
	printf("In region ");
	wr_client_print(json_string_value(region));
	printf(" alone: say it to a service of each other region, too.\n");
}

static int run(const struct arguments *a, json_t *body)
{
	struct wr_client_reply reply;
	struct weir_error error;
	const json_t *counters;
	char path[32];
	size_t i;

	snprintf(path, sizeof path, "/v1/key/%s", a->verb);
	if (wr_client_admin(&a->service, "POST", path, body, &reply, &error) < 0) {
		fprintf(stderr, "weir key: %s\n", error.text);
		return WR_EXIT_USAGE;
	}
	if (reply.status != 200 || !reply.json) {
		int code = wr_client_problem("key", &reply);

		json_decref(reply.json);
		return code;
	}
	if (a->json)
		return wr_json_print(reply.json, WR_EXIT_YES);
	counters = json_object_get(reply.json, "counters");
	for (i = 0; i < json_array_size(counters); i++)
		tell_counter(json_array_get(counters, i));
	tell_region(a, json_object_get(reply.json, "region"));
	json_decref(reply.json);
	return WR_EXIT_YES;
}

int wr_cli_key(int argc, char **argv)
{
	struct arguments a = {.verb = "", .domain = ""};
	json_t *body;
	int rc = parse_arguments(argc, argv, &a);

	if (rc)
		return rc;
	if (a.help) {
		fputs(help, stdout);
		return WR_EXIT_YES;
	}
	rc = check_arguments(&a);
	if (rc)
		return rc;
	body = make_body(&a);
	return body ? run(&a, body) : WR_EXIT_USAGE;
}
