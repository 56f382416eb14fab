/* weir pause and weir resume: stop and continue the enforcement of rules, through the admin API of
 * a running service. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"

static struct {
	struct wr_cli_client_admin service;
	bool list, json;
} given;
static struct wr_cli_words rule;

#define AT(field) .at = offsetof(__typeof__(given), field)

static const struct wr_cli_option options[] = {
	{"list", WR_OPTION_SWITCH, NULL, NULL, "list the paused rules and change nothing", AT(list),
	 .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the paused rules as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	WR_CLIENT_ADMIN_GROUPS(given.service),
};

static const char intro[] = "weir pause  [RULE | --list]\n"
			    "weir resume [RULE]\n"
			    "\n"
			    "A paused rule refuses and delays no request, and continues to count. "
			    "A pause takes effect\n"
			    "at once in every process on the table and lasts until it is resumed. "
			    "RULE is a rule's name\n"
			    "in statistics, or the beginning of names: \"api\" is a domain, "
			    "\"api/route=signup\" is that\n"
			    "rule and the rules below it. Without RULE all rules are paused. Rule "
			    "files do not change.\n";

static const char examples[] =
	"Examples\n"
	"  weir pause\n"
	"  weir pause api/route=signup\n"
	"  weir pause --list\n"
	"  weir resume api/route=signup\n"
	"\n"
	"Exit: 0 done, 1 the rule was not paused, 2 usage error or no service answered.\n";

static void print_paused(const json_t *paused)
{
	json_t *each;
	size_t i;

	if (json_array_size(paused) == 0)
		puts("nothing is paused");
	json_array_foreach(paused, i, each) {
		const char *name = json_string_value(each);

		printf("paused: ");
		wr_cli_client_print(name[0] ? name : "everything");
		/* The table stores only a hash of the name of a paused rule. If no present rule has
		 * this hash, the response contains the hash, which begins with #. */
		puts(name[0] == '#' ? " (no rule has this name now: weir top shows names)" : "");
	}
}

static int run_command(const char *name, int argc, char **argv)
{
	const struct wr_cli_command command = {
		name,           intro,         examples, groups, sizeof groups / sizeof *groups,
		.words = &rule, .words_max = 1};
	json_t *answer, *body = NULL;
	char path[32] = "/v1/paused";
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (given.list && rule.count)
		return wr_cli_usage(name, "'%s' is an unexpected argument", rule.items[0]);
	if (!given.list) {
		snprintf(path, sizeof path, "/v1/%s", name);
		body = json_object();
		if (rule.count)
			json_object_set_new(body, "rule", wr_wire_json_text(wr_str(rule.items[0])));
	}
	code = wr_cli_client_admin(&given.service, name, given.list ? "GET" : "POST", path, body,
				   &answer);
	if (code != WR_EXIT_YES)
		return code;
	if (given.json)
		return wr_cli_json_print(answer, WR_EXIT_YES);
	print_paused(json_object_get(answer, "paused"));
	json_decref(answer);
	return WR_EXIT_YES;
}

int wr_cli_pause(int argc, char **argv)
{
	return run_command("pause", argc, argv);
}

int wr_cli_resume(int argc, char **argv)
{
	return run_command("resume", argc, argv);
}
