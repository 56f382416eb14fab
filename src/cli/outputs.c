/* Checks the files that a command writes: see outputs.h. */
#include "cli/outputs.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

/* Returns whether both paths name the same regular file, which need not exist yet. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat of_a, of_b;
	bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;

	if (!has_a || !has_b)
		return !has_a && !has_b && strcmp(a, b) == 0;
	return S_ISREG(of_a.st_mode) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

int wr_cli_outputs_check(const char *command, const struct wr_cli_output *outputs, size_t count,
			 const char *const *inputs, size_t input_count)
{
	for (size_t i = 0; i < count; i++) {
		const char *path = outputs[i].path;

		for (size_t k = 0; path && k < input_count; k++)
			if (inputs[k] && is_same_file(path, inputs[k]))
				return wr_cli_usage(command,
						    "%s %s would overwrite %s, which the command "
						    "reads; choose another file",
						    outputs[i].option, path, inputs[k]);
		for (size_t k = 0; path && k < i; k++)
			if (outputs[k].path && is_same_file(path, outputs[k].path))
				return wr_cli_usage(command,
						    "%s and %s name the same file; choose another "
						    "file for one of them",
						    outputs[k].option, outputs[i].option);
	}
	return 0;
}
