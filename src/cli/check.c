/* weir check: every error as file:line:column. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

static const char help[] =
	"weir check [--json] [--strict] PATH…\n"
	"\n"
	"Reads rule files, or directories of them, and says what is wrong: each error with its\n"
	"place, the line and what would be right. Files in one directory belong together.\n"
	"\n"
	"  --json     a report for programs, on standard output\n"
	"  --strict   warnings count as errors\n"
	"\n"
	"Exit: 0 the rules are usable, 1 they are not, 2 not understood.\n"
	"\n"
	"  weir check /etc/weir/rules\n"
	"  weir check --json api.yaml | jq '.files[].diagnostics[].message'\n";

struct tally {
	uint32_t errors, warnings;
	struct weir_rules_info info;
};

void wr_cli_print_errors(const struct weir_errors *errors)
{
	for (size_t i = 0; i < errors->count; i++) {
		char text[2048];

		weir_diagnostic_text(&errors->items[i], text, sizeof text);
		fputs(text, stderr);
	}
	if (errors->dropped)
		fprintf(stderr, "… and %u more\n", errors->dropped);
}

static json_t *report(const char *path, int rc, const struct weir_errors *errors,
		      const struct weir_rules_info *info)
{
	char hash[17];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info->hash);
	return json_pack("{s:o, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:o}", "path",
			 wr_json_text((struct weir_str){path, __builtin_strlen(path)}), "usable",
			 rc == 0, "errors", (int)errors->errors, "warnings", (int)errors->warnings,
			 "domains", (int)info->domains, "descriptors", (int)info->descriptors,
			 "limits", (int)info->limits, "requests", (int)info->requests, "hash", hash,
			 "diagnostics", wr_json_diagnostics(errors));
}

/* One path: returns 0, or the code of weir_rules_load. */
static int check_path(const char *path, json_t *reports, struct tally *tally)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules_info info = {.size = sizeof info};
	struct weir_rules *rules;
	int rc = weir_rules_load(path, &rules, &errors);

	if (rc == 0)
		weir_rules_info(rules, &info);
	if (reports)
		json_array_append_new(reports, report(path, rc, &errors, &info));
	else
		wr_cli_print_errors(&errors);
	if (rc == WEIR_EMEMORY && !reports)
		fprintf(stderr, "%s: out of memory\n", path);
	tally->errors += errors.errors + (rc == WEIR_EMEMORY);
	tally->warnings += errors.warnings;
	tally->info.domains += info.domains;
	tally->info.descriptors += info.descriptors;
	tally->info.limits += info.limits;
	tally->info.requests += info.requests;
	weir_errors_free(&errors);
	weir_rules_free(rules);
	return rc;
}

static void print_summary(const struct tally *tally)
{
	if (tally->errors || tally->warnings)
		fprintf(stderr, "%u error%s, %u warning%s\n", tally->errors,
			tally->errors == 1 ? "" : "s", tally->warnings,
			tally->warnings == 1 ? "" : "s");
	if (!tally->errors)
		printf("ok: %u domain%s, %u descriptors, %u limits, %u requests entries\n",
		       tally->info.domains, tally->info.domains == 1 ? "" : "s",
		       tally->info.descriptors, tally->info.limits, tally->info.requests);
}

int wr_cli_check(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"strict", no_argument, NULL, 's'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct tally tally = {0};
	json_t *reports = NULL;
	bool strict = false, json = false, usable;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 's':
			strict = true;
			break;
		case 'h':
			fputs(help, stdout);
			return WR_EXIT_YES;
		default:
			return wr_cli_usage("check", "unknown option '%s'", argv[optind - 1]);
		}
	}
	if (optind == argc)
		return wr_cli_usage("check", "no path given");
	if (json)
		reports = json_array();
	for (int i = optind; i < argc; i++)
		check_path(argv[i], reports, &tally);
	usable = tally.errors == 0 && !(strict && tally.warnings);
	if (json)
		return wr_json_print(json_pack("{s:b, s:o}", "usable", usable, "files", reports),
				     usable ? WR_EXIT_YES : WR_EXIT_NO);
	print_summary(&tally);
	return usable ? WR_EXIT_YES : WR_EXIT_NO;
}
