/* The command line of those that tell of rules one after the other: weir advise, weir candidates.
 */
#ifndef WR_CLI_OPTIONS_WATCH_H
#define WR_CLI_OPTIONS_WATCH_H

#include <stdbool.h>

#include <weir/rules.h>

struct wr_watch_options {
	const char *table, *dir;
	char **rules; /* names, or what names begin with; none: all of them */
	int rule_count;
	bool all; /* --all */
	bool json;
};

struct wr_watch_command {
	const char *name; /* "advise" */
	const char *help;
	bool has_all; /* --all is one of its flags */
	int (*run)(const struct wr_watch_options *options);
};

/* Reads the flags, and runs it or shows its help. Returns an exit code. */
int wr_watch_main(const struct wr_watch_command *command, int argc, char **argv);

bool wr_watch_means(const struct wr_watch_options *options, struct weir_str rule);

#endif
