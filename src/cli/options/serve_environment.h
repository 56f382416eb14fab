/* The environment variables of envoyproxy/ratelimit, read as options of `weir serve`.
 *
 * These variables are read only if RUNTIME_ROOT, RUNTIME_SUBDIRECTORY or RUNTIME_APPDIRECTORY is
 * set, because HOST, PORT and LOG_LEVEL are common names that other programs use too. */
#ifndef WR_CLI_OPTIONS_SERVE_ENVIRONMENT_H
#define WR_CLI_OPTIONS_SERVE_ENVIRONMENT_H

#include <weir/error.h>

#include "base/arena.h"

#define WR_SERVE_ENVIRONMENT_NAMES 2048

struct wr_cli_serve_environment {
	char **environment; /* the given environment, with the WEIR_… variables derived from it */
	/* names of variables that have an effect: "PORT, RUNTIME_ROOT" */
	char taken[WR_SERVE_ENVIRONMENT_NAMES];
	char ignored
		[WR_SERVE_ENVIRONMENT_NAMES]; /* names of variables that have no effect in weir */
};

/* Fills `variables`. Returns 0, WEIR_EINVAL if a value cannot be used, or WEIR_EMEMORY. */
int wr_cli_serve_environment_read(char **environment, struct wr_arena *arena,
				  struct wr_cli_serve_environment *variables,
				  struct weir_error *error);

#endif
