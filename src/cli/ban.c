/* weir ban: lists, adds and releases bans, through the admin API of a running service. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "cli/columns.h"
#include "cli/show.h"

#define PATH_BYTES 1024
#define PAGE 1000u /* number of bans of a request, at most WR_ADMIN_BANS_PAGE_MAX */

static struct ban_arguments {
	struct wr_cli_client_admin service;
	const char *limit, *span, *rule, *address;
	uint64_t count;
	struct wr_cli_words sources; /* values of --from, each of the form KEY=SOURCE */
	bool automatic, operators, shadow, shield, all, json;
} given;
static struct wr_cli_words words;

#define AT(field) .at = offsetof(struct ban_arguments, field), .variable = WR_NO_VARIABLE

static const struct wr_cli_option options[] = {
	{"rule", WR_OPTION_TEXT, "NAME", NULL,
	 "list, release: bans of this rule, by its name in statistics,\n"
	 "such as api/ip/1m",
	 AT(rule)},
	{"address", WR_OPTION_TEXT, "ADDR", NULL,
	 "list, release: bans of this address, or of addresses in\n"
	 "this network, such as 192.0.2.0/24",
	 AT(address)},
	{"automatic", WR_OPTION_SWITCH, NULL, NULL, "list, release: bans that rules have set",
	 AT(automatic)},
	{"operator", WR_OPTION_SWITCH, NULL, NULL, "list, release: bans that operators have set",
	 AT(operators)},
	{"shadow", WR_OPTION_SWITCH, NULL, NULL,
	 "list, release: bans that would be in force if their rule\n"
	 "were enforced",
	 AT(shadow)},
	{"all", WR_OPTION_SWITCH, NULL, NULL, "release: all bans, those of operators too", AT(all)},
	{"for", WR_OPTION_TEXT, "TIME", NULL, "add: how long: 90s, 15m, 1h30m, 7d, or ever",
	 AT(span)},
	{"shield", WR_OPTION_SWITCH, NULL, NULL,
	 "add: tells weir shield to drop the packets of the key's\n"
	 "address; an error if the key has none",
	 AT(shield)},
	{"limit", WR_OPTION_TEXT, "NAME", NULL,
	 "add, release: only the limit with this `name` in the rule", AT(limit)},
	{"from", WR_OPTION_REPEATED, "KEY=SOURCE", NULL,
	 "add, release: source of KEY's value, as in weir key", AT(sources)},
	{"count", WR_OPTION_NUMBER, "N", "100", "list: at most this number of bans", AT(count)},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the result as JSON", AT(json)},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	WR_CLIENT_ADMIN_GROUPS(given.service),
};

static const struct wr_cli_command command = {
	"ban",
	"weir ban list    [--rule NAME] [--address ADDR] [--automatic | --operator | --shadow]\n"
	"weir ban add     --for TIME [--shield] [--limit NAME] DOMAIN KEY=VALUE…\n"
	"weir ban release [--limit NAME] DOMAIN KEY=VALUE…\n"
	"weir ban release [--rule NAME] [--address ADDR] [--automatic | --operator | --shadow]\n"
	"weir ban release --all\n"
	"\n"
	"A banned key is refused until its ban ends. Rules with `ban` set bans themselves, see\n"
	"docs/bans.md. If several of --rule, --address and a kind are given, bans must match all.\n"
	"A change takes effect at once in every process on the table. If the service runs with\n"
	"--redis, a change reaches all machines of its region, but not other regions.\n",
	"Examples\n"
	"  weir ban list\n"
	"  weir ban list --automatic --rule api/ip/1m --count 1000 --json\n"
	"  weir ban add --for 1h --shield api ip=192.0.2.7\n"
	"  weir ban release api ip=192.0.2.7\n"
	"  weir ban release --address 2001:db8::/32\n"
	"\n"
	"Exit: 0 done, 1 there is no such ban, 2 usage error or no service answered.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* Returns the name of the kind of bans that the options select, or NULL. */
static const char *kind_given(void)
{
	return given.automatic   ? "automatic"
	       : given.operators ? "operator"
	       : given.shadow    ? "shadow"
				 : NULL;
}

/* ---- list ---- */

static void add_parameter(char *path, const char *name, const char *value)
{
	size_t len = strlen(path);

	len += value ? (size_t)snprintf(path + len, PATH_BYTES - len, "&%s=", name) : 0;
	for (; value && *value && len + 4 < PATH_BYTES; value++)
		len += (size_t)snprintf(path + len, PATH_BYTES - len, "%%%02x",
					(unsigned char)*value);
}

/* Reads one page. `after` is the member "next" of the page before it, or NULL. */
static int read_page(size_t count, const char *after, json_t **answer)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/v1/bans?count=%zu", count);
	add_parameter(path, "rule", given.rule);
	add_parameter(path, "address", given.address);
	add_parameter(path, "kind", kind_given());
	add_parameter(path, "after", after);
	return wr_cli_client_admin(&given.service, "ban", "GET", path, NULL, answer);
}

/* Reads pages until there are --count bans or no more. Appends the bans of later pages to the first
 * response, in *list. Returns an exit code. */
static int read_pages(json_t **list)
{
	json_t *bans = NULL, *page;
	size_t left = given.count;
	int code = WR_EXIT_YES;

	*list = NULL;
	while (code == WR_EXIT_YES && left > 0) {
		const char *next = json_string_value(json_object_get(*list, "next"));

		if (*list && !next)
			break;
		code = read_page(left < PAGE ? left : PAGE, next, &page);
		if (code != WR_EXIT_YES)
			break;
		left -= json_array_size(json_object_get(page, "bans"));
		if (!*list) {
			*list = page;
			bans = json_object_get(page, "bans");
			continue;
		}
		json_array_extend(bans, json_object_get(page, "bans"));
		json_object_set(*list, "next", json_object_get(page, "next"));
		json_decref(page);
	}
	if (code != WR_EXIT_YES)
		json_decref(*list);
	return code;
}

static void add_text(struct wr_cli_columns *table, const char *text, const char *missing)
{
	wr_cli_columns_text(table, wr_str(text ? text : missing));
}

static void add_time(struct wr_cli_columns *table, const json_t *at)
{
	char text[WR_CLIENT_TIME];

	add_text(table,
		 json_is_string(at) ? "ever" : wr_cli_client_time(json_number_value(at), text), "");
}

/* Writes the properties of a ban: "automatic, shield". */
static void add_flags(struct wr_cli_columns *table, const json_t *ban)
{
	static const char *const names[] = {"automatic", "shadow", "shield"};
	bool bare = json_is_true(json_object_get(ban, "only_shield"));
	char text[64] = "";

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (json_is_true(json_object_get(ban, names[i])))
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
				 text[0] ? ", " : "", names[i]);
	if (!json_is_true(json_object_get(ban, "automatic")))
		snprintf(text, sizeof text, "operator%s",
			 bare                                           ? ", only in weir shield"
			 : json_is_true(json_object_get(ban, "shield")) ? ", shield"
									: "");
	add_text(table, text, "");
}

static void add_row(struct wr_cli_columns *table, const json_t *ban)
{
	const char *address = json_string_value(json_object_get(ban, "address"));
	const char *key = json_string_value(json_object_get(ban, "key"));
	json_int_t level = json_integer_value(json_object_get(ban, "level"));

	add_text(table, key ? key : address, "(key not stored)");
	add_text(table, json_string_value(json_object_get(ban, "rule")), "-");
	add_time(table, json_object_get(ban, "since"));
	add_time(table, json_object_get(ban, "until"));
	if (level > 0)
		wr_cli_columns_number(table, (uint64_t)level);
	else
		add_text(table, "-", "");
	add_flags(table, ban);
}

/* Prints a note if bans are in force that are not in the list. */
static void note_unlisted(const json_t *answer)
{
	uint64_t count = (uint64_t)wr_cli_client_number(answer, "unlisted");

	if (count)
		printf("%llu ban%s in force, but not in the list, which is full: weir ban release "
		       "--all ends %s\n",
		       (unsigned long long)count, count == 1 ? " is" : "s are",
		       count == 1 ? "it" : "them");
}

static void print_list(const json_t *list)
{
	uint64_t matched = (uint64_t)wr_cli_client_number(list, "matched");
	const json_t *bans = json_object_get(list, "bans");
	struct wr_cli_columns table;
	const json_t *ban;
	size_t i;

	if (json_array_size(bans) == 0) {
		puts("no bans");
		note_unlisted(list);
		return;
	}
	wr_cli_columns_begin(&table, wr_cli_show_setup(), "KEY", "RULE", "SINCE", "UNTIL", "#LEVEL",
			     "KIND", NULL);
	json_array_foreach(bans, i, ban) {
		add_row(&table, ban);
	}
	wr_cli_columns_print(&table, 0);
	if (matched > i)
		printf("%zu of %llu bans; --count %llu lists all\n", i, (unsigned long long)matched,
		       (unsigned long long)matched);
	note_unlisted(list);
}

static int list_bans(void)
{
	json_t *list;
	int code;

	if (words.count > 1)
		return wr_cli_usage("ban", "list takes no descriptor: use --address or --rule");
	if (given.count < 1)
		return wr_cli_usage("ban", "--count is at least 1");
	code = read_pages(&list);
	if (code != WR_EXIT_YES)
		return code;
	if (given.json)
		return wr_cli_json_print(list, WR_EXIT_YES);
	print_list(list);
	json_decref(list);
	return WR_EXIT_YES;
}

/* ---- add, release ---- */

static void set_text(json_t *body, const char *name, const char *value)
{
	if (value)
		json_object_set_new(body, name, wr_wire_json_text(wr_str(value)));
}

/* Makes the body with the descriptor of the command line, or returns NULL after an error. */
static json_t *make_target(void)
{
	const struct wr_cli_words pairs = {words.count - 2, words.items + 2};
	json_t *body = wr_cli_client_target("ban", words.items[1], &pairs, &given.sources);

	if (body)
		set_text(body, "limit", given.limit);
	return body;
}

/* Prints a note if no shield runs, because packets are not dropped then. */
static void note_missing_shield(void)
{
	json_t *list;

	if (wr_cli_client_admin(&given.service, "ban", "GET", "/v1/bans?count=1", NULL, &list) !=
	    WR_EXIT_YES)
		return;
	if (json_is_null(json_object_get(list, "shield")))
		puts("no shield runs on the table: packets are dropped when weir shield starts");
	json_decref(list);
}

static int add_ban(void)
{
	json_t *body, *answer, *counters;
	const char *address;
	size_t count;
	int code;

	if (words.count < 3 || !given.span)
		return wr_cli_usage("ban", "add needs --for TIME, DOMAIN and KEY=VALUE");
	body = make_target();
	if (!body)
		return WR_EXIT_USAGE;
	set_text(body, "for", given.span);
	if (given.shield)
		json_object_set_new(body, "shield", json_true());
	code = wr_cli_client_admin(&given.service, "ban", "POST", "/v1/bans", body, &answer);
	if (code != WR_EXIT_YES)
		return code;
	if (given.json)
		return wr_cli_json_print(answer, WR_EXIT_YES);
	counters = json_object_get(answer, "counters");
	count = json_array_size(counters);
	address = json_string_value(json_object_get(answer, "shield_address"));
	printf("%zu limit%s the key", count, count == 1 ? " bans" : "s ban");
	if (address) {
		printf("; weir shield is told to drop the packets of ");
		wr_cli_client_print(address);
	}
	putchar('\n');
	if (address)
		note_missing_shield();
	json_decref(answer);
	return WR_EXIT_YES;
}

static int release_bans(void)
{
	bool by_key = words.count > 1;
	bool by_condition = given.address || given.rule || kind_given();
	json_t *body, *answer;
	json_int_t released;
	int code;

	if (by_key + by_condition + given.all != 1 || words.count == 2)
		return wr_cli_usage("ban", "release needs either DOMAIN KEY=VALUE, or --address, "
					   "--rule or a kind of ban, or --all");
	body = by_key ? make_target() : json_object();
	if (!body)
		return WR_EXIT_USAGE;
	set_text(body, "address", given.address);
	set_text(body, "rule", given.rule);
	set_text(body, "kind", kind_given());
	if (given.all)
		json_object_set_new(body, "all", json_true());
	code = wr_cli_client_admin(&given.service, "ban", "POST", "/v1/bans/release", body,
				   &answer);
	if (code != WR_EXIT_YES)
		return code;
	released = json_integer_value(json_object_get(answer, "released"));
	code = released ? WR_EXIT_YES : WR_EXIT_NO;
	if (given.json)
		return wr_cli_json_print(answer, code);
	if (released)
		printf("released %lld ban%s\n", (long long)released, released == 1 ? "" : "s");
	else
		puts("there is no such ban on this machine");
	note_unlisted(answer);
	json_decref(answer);
	return code;
}

/* ---- the command ---- */

/* Checks that the given options fit the verb. The service checks their values. */
static int check_options(const char *verb)
{
	bool is_add = strcmp(verb, "add") == 0, is_list = strcmp(verb, "list") == 0;

	if (given.automatic + given.operators + given.shadow > 1)
		return wr_cli_usage("ban", "--automatic, --operator and --shadow exclude each "
					   "other");
	if (is_add && (given.rule || given.address || kind_given()))
		return wr_cli_usage("ban", "add takes DOMAIN and KEY=VALUE; --rule, --address and "
					   "kinds of bans are for list and release");
	if (!is_add && (given.span || given.shield))
		return wr_cli_usage("ban", "--for and --shield are for add");
	if (strcmp(verb, "release") != 0 && given.all)
		return wr_cli_usage("ban", "--all is for release");
	if (is_list && (given.limit || given.sources.count))
		return wr_cli_usage("ban", "--limit and --from are for add and release");
	return WR_EXIT_YES;
}

static const struct {
	const char *name;
	int (*run)(void);
} verbs[] = {{"list", list_bans}, {"add", add_ban}, {"release", release_bans}};

int wr_cli_ban(int argc, char **argv)
{
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (words.count == 0)
		return wr_cli_usage("ban", "list, add or release is needed");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(verbs[i].name, words.items[0]) != 0)
			continue;
		code = check_options(verbs[i].name);
		return code == WR_EXIT_YES ? verbs[i].run() : code;
	}
	return wr_cli_usage("ban", "'%s' is not one of: list, add, release", words.items[0]);
}
