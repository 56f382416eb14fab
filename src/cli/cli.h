/* Shared by the subcommands: exit codes, entry points, and functions that read options, report
 * errors and print JSON. */
#ifndef WR_CLI_CLI_H
#define WR_CLI_CLI_H

#include <weir/rules.h>

#include "cli/options/options.h"
#include "wire/json.h"

struct wr_explain;

enum wr_cli_exit {
	WR_EXIT_YES = 0,   /* success */
	WR_EXIT_NO = 1,    /* the answer is no: refused, not found or invalid */
	WR_EXIT_USAGE = 2, /* usage error, no service answered, or the service reported an error */
};

/* The entry points of the subcommands. argv[0] is the subcommand's name. Each returns an enum
 * wr_cli_exit. */
int wr_cli_advise(int argc, char **argv);
int wr_cli_ask(int argc, char **argv);
int wr_cli_ban(int argc, char **argv);
int wr_cli_candidates(int argc, char **argv);
int wr_cli_check(int argc, char **argv);
int wr_cli_explain(int argc, char **argv);
int wr_cli_gateway(int argc, char **argv);
int wr_cli_get(int argc, char **argv);
int wr_cli_key(int argc, char **argv);
int wr_cli_pause(int argc, char **argv);
int wr_cli_queue(int argc, char **argv);
int wr_cli_replay(int argc, char **argv);
int wr_cli_resume(int argc, char **argv);
int wr_cli_serve(int argc, char **argv);
int wr_cli_shield(int argc, char **argv);
int wr_cli_simulate(int argc, char **argv);
int wr_cli_table(int argc, char **argv);
int wr_cli_top(int argc, char **argv);
int wr_cli_tune(int argc, char **argv);

/* Reads the options and words of a command from its arguments and the environment. Returns true if
 * the command can run. Returns false and sets *code to the exit code if --help was given or there
 * are errors. Prints the help to stdout and errors to stderr. The values stay valid until the
 * process ends. */
bool wr_cli_read(const struct wr_cli_command *command, int argc, char **argv, int *code);

/* Writes "weir COMMAND: " and the message to stderr. Returns WR_EXIT_USAGE. */
int wr_cli_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Writes "weir COMMAND: " and the error to stderr. Returns exit_code. */
int wr_cli_fail(const char *command, const struct weir_error *error, int exit_code);

/* check.c: writes each diagnostic to stderr, with its location and the line of the rule file. */
void wr_cli_print_errors(const struct weir_errors *errors);

/* Prints the report of weir explain as text (explain_text.c). */
void wr_cli_explain_print(const struct wr_explain *explain);

/* These functions print the responses of /v1/queue, /v1/queue/requests and /v1/queue/request
 * (queue_text.c). Each returns an exit code. */
int wr_cli_queue_print_stats(const json_t *answer);
int wr_cli_queue_print_list(const json_t *answer);
int wr_cli_queue_print_request(const json_t *answer);

/* Prints the JSON to stdout and frees it. Returns exit_code. */
int wr_cli_json_print(json_t *json, int exit_code);

#endif
