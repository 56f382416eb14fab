/* Hides the passwords of the command line, which every user of the machine can read in the process
 * list. */
#ifndef WR_CLI_OPTIONS_ARGUMENTS_H
#define WR_CLI_OPTIONS_ARGUMENTS_H

#include "cli/options/options.h"

#define WR_ARGUMENTS_HIDDEN                                                                        \
	"the command line contained a password, which other users could read in the process "      \
	"list until now; it has been overwritten there. Put the password into a file and name "    \
	"the file with --redis-password-file or --queue-password-file"

/* Returns a copy of the arguments that ends with NULL. The caller frees the copy with one free().
 * In argv, overwrites the passwords in the URLs of secret options. Sets *hidden if argv had such a
 * password. If there is no memory, returns NULL and does not change argv. */
char **wr_cli_arguments_hide(const struct wr_cli_command *command, int argc, char **argv,
			     bool *hidden);

#endif
