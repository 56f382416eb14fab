/* Passwords on the command line, which every user of the machine can read in the process list. */
#ifndef WR_CLI_OPTIONS_ARGUMENTS_H
#define WR_CLI_OPTIONS_ARGUMENTS_H

#include "cli/options/options.h"

#define WR_ARGUMENTS_HIDDEN                                                                        \
	"the command line contained a password, which other users could read in the process "      \
	"list until now; it has been overwritten there. Put the password into a file and name "    \
	"the file with --redis-password-file or --queue-password-file"

/* Returns a copy of the arguments, ended by NULL; the caller frees it with one free(). Overwrites
 * passwords in URLs of secret options in argv, and sets *hidden if there were any. Returns NULL if
 * there is no memory; argv is then unchanged. */
char **wr_arguments_hide(const struct wr_command *command, int argc, char **argv, bool *hidden);

#endif
