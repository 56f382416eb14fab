/* What the subcommands share: exit codes, and how each is called. */
#ifndef WR_CLI_CLI_H
#define WR_CLI_CLI_H

#include <weir/rules.h>

#include "wire/json.h"

enum wr_exit {
	WR_EXIT_YES = 0,   /* fine */
	WR_EXIT_NO = 1,    /* refused, invalid */
	WR_EXIT_USAGE = 2, /* not understood, or it could not be tried */
};

/* argv[0] is the subcommand's name. Returns an enum wr_exit. */
int wr_cli_advise(int argc, char **argv);
int wr_cli_ask(int argc, char **argv);
int wr_cli_candidates(int argc, char **argv);
int wr_cli_check(int argc, char **argv);
int wr_cli_explain(int argc, char **argv);
int wr_cli_gateway(int argc, char **argv);
int wr_cli_key(int argc, char **argv);
int wr_cli_pause(int argc, char **argv);
int wr_cli_queue(int argc, char **argv);
int wr_cli_resume(int argc, char **argv);
int wr_cli_serve(int argc, char **argv);
int wr_cli_table(int argc, char **argv);
int wr_cli_top(int argc, char **argv);

/* "weir check: " and the message, to stderr; returns WR_EXIT_USAGE. */
int wr_cli_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* check.c: all diagnostics, with place and line, to stderr. */
void wr_cli_print_errors(const struct weir_errors *errors);

/* json.c: prints, and returns exit_code. */
int wr_json_print(json_t *json, int exit_code);

#endif
