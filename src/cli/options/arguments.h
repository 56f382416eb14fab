/* Secrets on the command line, which everybody on the machine can read in the list of processes. */
#ifndef WR_CLI_OPTIONS_ARGUMENTS_H
#define WR_CLI_OPTIONS_ARGUMENTS_H

#include "cli/options/options.h"

#define WR_ARGUMENTS_HIDDEN                                                                        \
	"a password was given on the command line, where others could read it in the list of "     \
	"processes; it is struck out there now. Put it into a file that --redis-password-file or " \
	"--queue-password-file names"

/* A copy of the arguments to read options from, now and again, ended by NULL; free() it as one. In
 * argv itself passwords within URLs of secret options are overwritten, and *hidden tells whether
 * there were any. NULL: no memory, and argv is as it was. */
char **wr_arguments_hide(const struct wr_command *command, int argc, char **argv, bool *hidden);

#endif
