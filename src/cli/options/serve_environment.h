/* The environment of envoyproxy/ratelimit, read as options of weir serve.
 *
 * It counts only where RUNTIME_ROOT, RUNTIME_SUBDIRECTORY or RUNTIME_APPDIRECTORY is set: HOST,
 * PORT and LOG_LEVEL are common names, and meant for somebody else otherwise. */
#ifndef WR_CLI_OPTIONS_SERVE_ENVIRONMENT_H
#define WR_CLI_OPTIONS_SERVE_ENVIRONMENT_H

#include <weir/error.h>

#include "base/arena.h"

#define WR_REFERENCE_NAMES 2048

struct wr_reference {
	char **environment; /* the one given, and WEIR_… variables that it does not set itself */
	char taken[WR_REFERENCE_NAMES];   /* names that have a meaning here: "PORT, RUNTIME_ROOT" */
	char ignored[WR_REFERENCE_NAMES]; /* … and that have none */
};

/* WEIR_EINVAL: a value cannot be read; WEIR_EMEMORY. */
int wr_reference_read(char **environment, struct wr_arena *arena, struct wr_reference *reference,
		      struct weir_error *error);

#endif
