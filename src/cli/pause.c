/* weir pause, weir resume: stop and go on enforcing, by the admin API of a running service. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"

static const char help[] =
	"weir pause  [RULE | --list]\n"
	"weir resume [RULE]\n"
	"\n"
	"What is paused refuses and delays nobody, and goes on counting; in every process on the\n"
	"table, at once, until it is resumed. RULE is a rule's name in statistics, or what names\n"
	"begin with: \"api\" is a domain, \"api/route=signup\" that rule and those below it. "
	"Without\n"
	"it everything is meant. Rule files are not touched.\n"
	"\n"
	"  --list              only say what is paused\n" WR_CLIENT_ADMIN_HELP
	"  --json              what is paused now, as a list\n"
	"\n"
	"Exit: 0 done, 1 it was not paused, 2 not understood or nobody answered.\n"
	"\n"
	"  weir pause\n"
	"  weir pause api/route=signup\n"
	"  weir resume api/route=signup\n";

struct arguments {
	const char *command; /* "pause" or "resume" */
	const char *rule;
	struct wr_client_admin service;
	bool list, json, help;
};

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {{"admin", required_argument, NULL, 'a'},
						{"token-file", required_argument, NULL, 't'},
						{"table", required_argument, NULL, 'n'},
						{"dir", required_argument, NULL, 'd'},
						{"list", no_argument, NULL, 'l'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'a')
			a->service.admin = optarg;
		else if (option == 't')
			a->service.token_file = optarg;
		else if (option == 'n')
			a->service.table = optarg;
		else if (option == 'd')
			a->service.dir = optarg;
		else if (option == 'l')
			a->list = true;
		else if (option == 'j')
			a->json = true;
		else if (option == 'h')
			a->help = true;
		else
			return wr_cli_usage(a->command, "'%s' is not understood", argv[optind - 1]);
	}
	if (argc - optind > 1 || (a->list && argc > optind))
		return wr_cli_usage(a->command, "'%s' is one word too many", argv[argc - 1]);
	a->rule = argc > optind ? argv[optind] : NULL;
	return 0;
}

static void tell(const json_t *paused)
{
	json_t *each;
	size_t i;

	if (json_array_size(paused) == 0)
		puts("nothing is paused");
	json_array_foreach(paused, i, each)
	{
		const char *name = json_string_value(each);

		printf("paused: ");
		wr_client_print(name[0] ? name : "everything");
		/* The table keeps a hash of the name, which is all that is left of one that no
		 * rule has. */
		puts(name[0] == '#' ? " (no rule goes by this name now: weir top shows names)"
				    : "");
	}
}

static int run(const struct arguments *a)
{
	json_t *body = a->list   ? NULL
		       : a->rule ? json_pack("{s:o}", "rule", wr_json_text(wr_str(a->rule)))
				 : json_object();
	char path[32] = "/v1/paused";
	struct wr_client_reply reply;
	struct weir_error error;
	int code = WR_EXIT_YES;

	if (!a->list)
		snprintf(path, sizeof path, "/v1/%s", a->command);
	if (wr_client_admin(&a->service, a->list ? "GET" : "POST", path, body, &reply, &error) <
	    0) {
		fprintf(stderr, "weir %s: %s\n", a->command, error.text);
		return WR_EXIT_USAGE;
	}
	if (reply.status != 200 || !reply.json)
		code = wr_client_problem(a->command, &reply);
	else if (a->json)
		return wr_json_print(reply.json, WR_EXIT_YES);
	else
		tell(json_object_get(reply.json, "paused"));
	json_decref(reply.json);
	return code;
}

static int run_command(const char *command, int argc, char **argv)
{
	struct arguments a = {.command = command};
	int rc = parse_arguments(argc, argv, &a);

	if (rc)
		return rc;
	if (a.help) {
		fputs(help, stdout);
		return WR_EXIT_YES;
	}
	return run(&a);
}

int wr_cli_pause(int argc, char **argv)
{
	return run_command("pause", argc, argv);
}

int wr_cli_resume(int argc, char **argv)
{
	return run_command("resume", argc, argv);
}
