/* weir key: shows and changes the counters of a descriptor, through the admin API of a running
 * service. */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"

static struct key_arguments {
	const char *verb, *domain;
	struct wr_cli_client_admin service;
	const char *limit, *span;
	int64_t extra;
	bool has_extra;
	struct wr_cli_words sources; /* values of --from, each of the form KEY=SOURCE */
	bool lift, json;
} given;
static struct wr_cli_words words;

#define AT(field) .at = offsetof(struct key_arguments, field), .variable = WR_NO_VARIABLE

static const struct wr_cli_option options[] = {
	{"extra", WR_OPTION_SIGNED, "N", NULL, "grant: units beyond the limit; 0 ends a grant",
	 AT(extra), .given_at = offsetof(struct key_arguments, has_extra)},
	{"for", WR_OPTION_TEXT, "TIME", NULL, "grant, ban: how long: 90s, 15m, 1h30m, 7d, or ever",
	 AT(span)},
	{"lift", WR_OPTION_SWITCH, NULL, NULL, "ban: end a ban", AT(lift)},
	{"limit", WR_OPTION_TEXT, "NAME", NULL, "only the limit of this name, if several apply",
	 AT(limit)},
	{"from", WR_OPTION_REPEATED, "KEY=SOURCE", NULL,
	 "source of KEY's value, for rules whose `from` has several\n"
	 "sources: a header and an address with the same text are\n"
	 "two clients. May be repeated",
	 AT(sources)},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole response as JSON", AT(json)},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	WR_CLIENT_ADMIN_GROUPS(given.service),
};

static const struct wr_cli_command command = {
	"key",
	"weir key get   [--limit NAME] DOMAIN KEY=VALUE…\n"
	"weir key reset [--limit NAME] DOMAIN KEY=VALUE…\n"
	"weir key grant --extra N --for TIME DOMAIN KEY=VALUE…\n"
	"weir key ban   --for TIME | --lift DOMAIN KEY=VALUE…\n"
	"\n"
	"Shows or changes the counters of a descriptor. A change takes effect at once in every\n"
	"process on the table. Counters in Redis are read from Redis; if Redis does not answer in\n"
	"time, the output says so. With --redis a change reaches all machines of the service's\n"
	"region, but not other regions.\n",
	"Examples\n"
	"  weir key get api user=7\n"
	"  weir key get --from user_id=header.x-user-id api user_id=alice\n"
	"  weir key grant --extra 100 --for 1h api user=7\n"
	"  weir key ban --for ever api ip=192.0.2.7\n"
	"  weir key ban --lift api ip=192.0.2.7\n"
	"\n"
	"Exit: 0 done, 1 no limit applies, 2 usage error or no service answered.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* Checks that the verb is get, reset, grant or ban, and that the given options fit the verb. The
 * service checks the values of the options. */
static int check_arguments(const struct key_arguments *a)
{
	bool is_grant = strcmp(a->verb, "grant") == 0, is_ban = strcmp(a->verb, "ban") == 0;

	if (!is_grant && !is_ban && strcmp(a->verb, "get") != 0 && strcmp(a->verb, "reset") != 0)
		return wr_cli_usage("key", "'%s' is not one of: get, reset, grant, ban", a->verb);
	if (a->has_extra && !is_grant)
		return wr_cli_usage("key", "--extra is for grant");
	if (a->lift && !is_ban)
		return wr_cli_usage("key", "--lift is for ban");
	if (a->span && !is_grant && !is_ban)
		return wr_cli_usage("key", "--for is for grant and ban");
	if (is_grant && (!a->has_extra || (!a->span && a->extra != 0)))
		return wr_cli_usage("key", "grant needs --extra N and --for TIME");
	if (is_ban && (a->span != NULL) == a->lift)
		return wr_cli_usage("key", "ban needs --for TIME or --lift");
	return 0;
}

static json_t *make_body(const struct key_arguments *a)
{
	const struct wr_cli_words pairs = {words.count - 2, words.items + 2};
	json_t *body = wr_cli_client_target("key", a->domain, &pairs, &a->sources);

	if (!body)
		return NULL;
	if (a->limit)
		json_object_set_new(body, "limit", wr_wire_json_text(wr_str(a->limit)));
	if (a->span)
		json_object_set_new(body, "for", wr_wire_json_text(wr_str(a->span)));
	if (a->lift)
		json_object_set_new(body, "lift", json_true());
	if (a->has_extra)
		json_object_set_new(body, "extra", json_integer(a->extra));
	return body;
}

/* Prints ", banned until 2026-11-16 07:00:00" or ", banned permanently". Prints nothing if `until`
 * is null or missing. */
static void print_until(const char *what, const json_t *until)
{
	char text[WR_CLIENT_TIME];

	if (!until || json_is_null(until))
		return;
	if (json_is_string(until))
		printf(", %s permanently", what);
	else
		printf(", %s until %s", what, wr_cli_client_time(json_number_value(until), text));
}

/* Prints where the counts come from, such as Redis. Prints nothing if the counts come from the
 * table. */
static void print_source(const char *source)
{
	static const struct {
		const char *source, *text;
	} texts[] = {
		{"store", ", from Redis"},
		{"exchange", ", with the last reports of other machines"},
		{"machine", ", no reply from Redis: counted on this machine only"},
	};

	for (size_t i = 0; source && i < sizeof texts / sizeof *texts; i++)
		if (strcmp(source, texts[i].source) == 0)
			fputs(texts[i].text, stdout);
}

/* Prints the slots of a limit on concurrent requests: "3 of 20 slots in use, all free in at most
 * 80 s, max_hold 2m". */
static void print_slots(const json_t *counter, double limit)
{
	double reset_s = wr_cli_client_number(counter, "reset_after");
	char span[WR_CLIENT_SPAN], max_hold[WR_DURATION_TEXT];

	wr_duration_text((uint64_t)(wr_cli_client_number(counter, "period") * 1e9 + 0.5), max_hold);
	printf(": %.0f of %.0f slots in use", wr_cli_client_number(counter, "slots_in_use"), limit);
	if (reset_s > 0)
		printf(", all free in at most %s", wr_cli_client_span(reset_s, span));
	printf(", max_hold %s", max_hold);
}

/* Prints the units that are left: "0 of 1000 left, 250 of debt, fully reset in 40s". */
static void print_units(const json_t *counter, double limit)
{
	double reset_s = wr_cli_client_number(counter, "reset_after");
	double debt = wr_cli_client_number(counter, "debt");
	char span[WR_CLIENT_SPAN];

	printf(": %.0f of %.0f left", wr_cli_client_number(counter, "remaining"), limit);
	if (debt > 0)
		printf(", %.0f of debt", debt);
	if (reset_s > 0)
		printf(", fully reset in %s", wr_cli_client_span(reset_s, span));
}

/* Prints ", 12 of 50 refusals that start a ban". Prints nothing during such a ban. */
static void print_refusals(const json_t *counter)
{
	double after = wr_cli_client_number(counter, "ban_after");
	bool shadow = json_is_true(json_object_get(counter, "shadow"));
	const char *until = shadow ? "shadow_ban_until" : "banned_until";

	if (after > 0 && json_is_null(json_object_get(counter, until)))
		printf(", %.0f of %.0f refusals that start a ban",
		       wr_cli_client_number(counter, "ban_refusals"), after);
}

/* Prints the ban in force, with its number if a rule has set it: ", banned until … by its rule
 * (ban 2 within a day)". Also prints the ban in shadow mode and the refusals. */
static void print_ban(const json_t *counter)
{
	double level = wr_cli_client_number(counter, "ban_level");
	const json_t *shadow_until = json_object_get(counter, "shadow_ban_until");

	print_until("banned", json_object_get(counter, "banned_until"));
	if (json_is_true(json_object_get(counter, "ban_automatic")))
		printf(" by its rule (ban %.0f within a day)", level);
	if (json_is_true(json_object_get(counter, "ban_shield")))
		printf(", also by weir shield");
	print_until("would be banned", shadow_until);
	if (shadow_until && !json_is_null(shadow_until))
		printf(" in shadow mode");
	print_refusals(counter);
}

static void print_counter(const json_t *counter)
{
	const char *rule = json_string_value(json_object_get(counter, "rule"));
	double limit = wr_cli_client_number(counter, "limit");
	char grant[40];

	wr_cli_client_print(rule ? rule : "(the limit of the request)");
	if (json_is_number(json_object_get(counter, "slots_in_use")))
		print_slots(counter, limit);
	else
		print_units(counter, limit);
	print_ban(counter);
	snprintf(grant, sizeof grant, "%.0f more granted",
		 wr_cli_client_number(counter, "granted"));
	print_until(grant, json_object_get(counter, "granted_until"));
	if (json_is_true(json_object_get(counter, "shadow")))
		printf(", shadow: counted, not enforced");
	if (json_is_true(json_object_get(counter, "paused")))
		printf(", paused: not enforced");
	print_source(json_string_value(json_object_get(counter, "source")));
	putchar('\n');
}

/* Reports the region in which the counters were changed. The change does not reach other regions,
 * because regions exchange only admitted amounts. */
static void print_region(const struct key_arguments *a, const json_t *region)
{
	if (strcmp(a->verb, "get") == 0 || !json_is_string(region))
		return;
	printf("Changed in region ");
	wr_cli_client_print(json_string_value(region));
	printf(" only: run the command at a service of each other region too.\n");
}

int wr_cli_key(int argc, char **argv)
{
	json_t *body, *answer, *counters, *counter;
	char path[32];
	size_t i;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (words.count < 3)
		return wr_cli_usage("key",
				    "get, reset, grant or ban, DOMAIN and KEY=VALUE are needed");
	given.verb = words.items[0];
	given.domain = words.items[1];
	code = check_arguments(&given);
	if (code)
		return code;
	body = make_body(&given);
	if (!body)
		return WR_EXIT_USAGE;
	snprintf(path, sizeof path, "/v1/key/%s", given.verb);
	code = wr_cli_client_admin(&given.service, "key", "POST", path, body, &answer);
	if (code != WR_EXIT_YES)
		return code;
	if (given.json)
		return wr_cli_json_print(answer, WR_EXIT_YES);
	counters = json_object_get(answer, "counters");
	json_array_foreach(counters, i, counter) {
		print_counter(counter);
	}
	print_region(&given, json_object_get(answer, "region"));
	json_decref(answer);
	return WR_EXIT_YES;
}
