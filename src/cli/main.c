/* The program `weir`: the table of subcommands, and the functions that all subcommands share. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* X(name, function, description in one line) */
#define SUBCOMMANDS(X)                                                                             \
	X("advise", wr_cli_advise, "report rules that are too tight, unused or unfair")            \
	X("ask", wr_cli_ask, "ask a running service for one decision")                             \
	X("ban", wr_cli_ban, "list, add and release bans")                                         \
	X("candidates", wr_cli_candidates, "compare a rule with its candidate limits")             \
	X("check", wr_cli_check, "report errors in rule files")                                    \
	X("explain", wr_cli_explain, "show which rule a request matches, and why")                 \
	X("gateway", wr_cli_gateway, "run nginx before an API and limit its traffic")              \
	X("get", wr_cli_get, "load URLs, and respect the limits of their hosts")                   \
	X("key", wr_cli_key, "show, reset, grant or ban a key's counters")                         \
	X("pause", wr_cli_pause, "stop enforcing a rule, or all rules")                            \
	X("queue", wr_cli_queue, "deferred requests: list, show, retry, drop, stats")              \
	X("replay", wr_cli_replay, "decide the requests of a log by rules")                        \
	X("resume", wr_cli_resume, "enforce a paused rule again")                                  \
	X("serve", wr_cli_serve, "answer over gRPC, HTTP and the Redis protocol")                  \
	X("shield", wr_cli_shield, "drop the packets of banned addresses in the kernel")           \
	X("simulate", wr_cli_simulate, "try a fleet, its traffic and its faults in virtual time")  \
	X("table", wr_cli_table, "shared tables of this machine: list, info, resize, rm")          \
	X("top", wr_cli_top, "show rules, busiest keys, table and Redis live")                     \
	X("tune", wr_cli_tune, "find limits and bursts in a log, or in live statistics")

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

#define OPTIONS_BYTES ((size_t)16 << 20)

extern char **environ;

bool wr_cli_read(const struct wr_cli_command *command, int argc, char **argv, int *code)
{
	static struct wr_arena arena;

	wr_arena_init(&arena, OPTIONS_BYTES);
	switch (wr_cli_options_read(command, argc, argv, environ, &arena, stderr)) {
	case WR_OPTIONS_READ:
		return true;
	case WR_OPTIONS_HELP:
		wr_cli_options_help(command, stdout);
		*code = WR_EXIT_YES;
		return false;
	case WR_OPTIONS_WRONG:
		break;
	}
	*code = WR_EXIT_USAGE;
	return false;
}

int wr_cli_fail(const char *command, const struct weir_error *error, int exit_code)
{
	fprintf(stderr, "weir %s: %s\n", command, error->text);
	return exit_code;
}

int wr_cli_json_print(json_t *json, int exit_code)
{
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(json);
	return exit_code;
}

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
	fputs("weir limits the rate of requests to an API.\n\n", out);
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		fprintf(out, "  weir %-10s %s\n", subcommands[i].name, subcommands[i].line);
	fputs("\nweir COMMAND --help shows the options of a command.\n", out);
}

/* Flushes standard output. Returns `code`, or WR_EXIT_NO if the output could not be written, for
 * example because the disk is full. */
static int flush_output(int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE || code != WR_EXIT_YES)
		return code;
	perror("weir: standard output");
	return WR_EXIT_NO;
}

/* Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Otherwise a table or a
 * connection would get the number, and receive what is written to standard output. Reading from
 * such a descriptor 0 fails, and so does writing to 1 and 2. Returns false on an error. */
static bool open_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	if (!open_standard_descriptors()) {
		perror("weir: /dev/null");
		return WR_EXIT_USAGE;
	}
	if (argc < 2) {
		print_help(stderr);
		return WR_EXIT_USAGE;
	}
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return flush_output(subcommands[i].run(argc - 1, argv + 1));
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
