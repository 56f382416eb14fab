/* Checks the files that a command writes. Called by replay, tune and simulate. */
#ifndef WR_CLI_OUTPUTS_H
#define WR_CLI_OUTPUTS_H

#include <stddef.h>

struct wr_cli_output {
	const char *option; /* "--html" */
	const char *path;   /* NULL: the option is not given */
};

/* Checks that no output is a file that the command reads, and that no two outputs are the same file,
 * also by other names of the file. An input may be NULL. Returns 0, or an exit code after a message
 * on stderr. */
int wr_cli_outputs_check(const char *command, const struct wr_cli_output *outputs, size_t count,
			 const char *const *inputs, size_t input_count);

#endif
