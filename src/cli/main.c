/* weir: one table of subcommands. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* X(name, function, one line) */
#define SUBCOMMANDS(X)                                                                             \
	X("advise", wr_cli_advise, "whether the rules are right, by their numbers")                \
	X("ask", wr_cli_ask, "one decision from a running service")                                \
	X("candidates", wr_cli_candidates, "what other limits would have said")                    \
	X("check", wr_cli_check, "look for errors in rule files")                                  \
	X("explain", wr_cli_explain, "which rule a request meets, and why")                        \
	X("gateway", wr_cli_gateway, "stand before an API and limit its traffic")                  \
	X("key", wr_cli_key, "look at a counter, reset it, grant more, ban")                       \
	X("pause", wr_cli_pause, "stop enforcing a rule, or everything")                           \
	X("queue", wr_cli_queue, "deferred requests: list, show, retry, drop, stats")              \
	X("resume", wr_cli_resume, "enforce it again")                                             \
	X("serve", wr_cli_serve, "answer over gRPC, HTTP and the Redis protocol")                  \
	X("table", wr_cli_table, "the shared tables of this machine: list, info, resize, rm")      \
	X("top", wr_cli_top, "live: rules, hottest keys, table, store")

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *line;
} subcommands[] = {
#define SUBCOMMAND_ROW(name, run, line) {name, run, line},
	SUBCOMMANDS(SUBCOMMAND_ROW)
#undef SUBCOMMAND_ROW
};
#define SUBCOMMAND_COUNT (sizeof subcommands / sizeof *subcommands)

int wr_cli_usage(const char *command, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "weir %s: ", command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "; see weir %s --help\n", command);
	return WR_EXIT_USAGE;
}

static void print_help(FILE *out)
{
	fputs("weir decides how much of an API's traffic passes.\n\n", out);
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		fprintf(out, "  weir %-10s %s\n", subcommands[i].name, subcommands[i].line);
	fputs("\nweir COMMAND --help says more.\n", out);
}

/* What was printed has arrived, or the exit code says that it has not: a full disk. */
static int flushed(int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE || code != WR_EXIT_YES)
		return code;
	perror("weir: standard output");
	return WR_EXIT_NO;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return WR_EXIT_USAGE;
	}
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return flushed(subcommands[i].run(argc - 1, argv + 1));
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return WR_EXIT_YES;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("weir " WEIR_VERSION);
		return WR_EXIT_YES;
	}
	fprintf(stderr, "weir: there is no command '%s'\n\n", argv[1]);
	print_help(stderr);
	return WR_EXIT_USAGE;
}
