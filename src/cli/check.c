/* weir check: reports every error in rule files in the form file:line:column. */
#include "cli/cli.h"

#include <stdio.h>

#include "base/str.h"

static struct {
	bool json, strict;
} given;
static struct wr_cli_words paths;

static const struct wr_cli_option options[] = {
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print a report for programs as JSON",
	 .at = offsetof(__typeof__(given), json), .variable = WR_NO_VARIABLE},
	{"strict", WR_OPTION_SWITCH, NULL, NULL, "warnings count as errors",
	 .at = offsetof(__typeof__(given), strict)},
};

static const struct wr_cli_option_group groups[] = {WR_OPTION_GROUP("Options", options, &given)};

static const struct wr_cli_command command = {
	"check",
	"weir check [--json] [--strict] PATH…\n"
	"\n"
	"Reads rule files, or directories of rule files, and reports each error with its "
	"location,\n"
	"the line and a correction. The files of one directory form one set of rules.\n",
	"Examples\n"
	"  weir check /etc/weir/rules\n"
	"  weir check --json api.yaml | jq '.files[].diagnostics[].message'\n"
	"\n"
	"Exit: 0 the rules are usable, 1 they are not, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &paths,
};

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

static json_t *make_report(const char *path, int rc, const struct weir_errors *errors,
			   const struct weir_rules_info *info)
{
	char hash[17];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info->hash);
	return json_pack("{s:o, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:o}", "path",
			 wr_wire_json_text(wr_str(path)), "usable", rc == 0, "errors",
			 (int)errors->errors, "warnings", (int)errors->warnings, "domains",
			 (int)info->domains, "descriptors", (int)info->descriptors, "limits",
			 (int)info->limits, "requests", (int)info->requests, "hash", hash,
			 "diagnostics", wr_wire_json_diagnostics(errors));
}

/* Checks the rule files at one path. Adds the number of errors and the number of warnings to
 * `tally`. */
static void check_path(const char *path, json_t *reports, struct tally *tally)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules_info info = {.size = sizeof info};
	struct weir_rules *rules;
	int rc = weir_rules_load(path, &rules, &errors);

	if (rc == 0)
		weir_rules_info(rules, &info);
	if (reports)
		json_array_append_new(reports, make_report(path, rc, &errors, &info));
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
}

static void print_count(const char *before, uint32_t count, const char *one, const char *many)
{
	printf("%s%u %s", before, count, count == 1 ? one : many);
}

static void print_summary(const struct tally *tally)
{
	if (tally->errors || tally->warnings)
		fprintf(stderr, "%u error%s, %u warning%s\n", tally->errors,
			tally->errors == 1 ? "" : "s", tally->warnings,
			tally->warnings == 1 ? "" : "s");
	if (tally->errors)
		return;
	print_count("ok: ", tally->info.domains, "domain", "domains");
	print_count(", ", tally->info.descriptors, "descriptor", "descriptors");
	print_count(", ", tally->info.limits, "limit", "limits");
	print_count(", ", tally->info.requests, "entry of requests\n", "entries of requests\n");
}

int wr_cli_check(int argc, char **argv)
{
	struct tally tally = {0};
	json_t *reports;
	bool usable;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (paths.count == 0)
		return wr_cli_usage("check", "no path given");
	reports = given.json ? json_array() : NULL;
	for (size_t i = 0; i < paths.count; i++)
		check_path(paths.items[i], reports, &tally);
	usable = tally.errors == 0 && !(given.strict && tally.warnings);
	code = usable ? WR_EXIT_YES : WR_EXIT_NO;
	if (given.json)
		return wr_cli_json_print(
			json_pack("{s:b, s:o}", "usable", usable, "files", reports), code);
	print_summary(&tally);
	return code;
}
