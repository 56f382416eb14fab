#include "cli/options/watch.h"

#include <getopt.h>
#include <stdio.h>

#include "base/str.h"
#include "cli/cli.h"

int wr_watch_main(const struct wr_watch_command *command, int argc, char **argv)
{
	static const struct option flags[] = {
		{"table", required_argument, NULL, 't'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},        {"help", no_argument, NULL, 'h'},
		{"all", no_argument, NULL, 'a'},         {0}};
	struct wr_watch_options options = {0};
	bool help = false;
	int flag;

	opterr = 0;
	while ((flag = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
		if (flag == 't')
			options.table = optarg;
		else if (flag == 'd')
			options.dir = optarg;
		else if (flag == 'j')
			options.json = true;
		else if (flag == 'h')
			help = true;
		else if (flag == 'a' && command->has_all)
			options.all = true;
		else
			return wr_cli_usage(command->name, "'%s' is not understood",
					    argv[optind - 1]);
	}
	options.rules = argv + optind;
	options.rule_count = argc - optind;
	if (!help)
		return command->run(&options);
	fputs(command->help, stdout);
	return WR_EXIT_YES;
}

bool wr_watch_means(const struct wr_watch_options *options, struct weir_str rule)
{
	for (int i = 0; i < options->rule_count; i++)
		if (wr_str_begins(rule, wr_str(options->rules[i])))
			return true;
	return options->rule_count == 0;
}
