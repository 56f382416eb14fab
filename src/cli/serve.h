/* The options of `weir serve`. */
#ifndef WR_CLI_SERVE_H
#define WR_CLI_SERVE_H

#include "cli/options/options.h"
#include "serve/settings.h"

/* Filled by wr_options_read(). */
extern struct wr_settings serve_settings;
extern const char *serve_headers; /* --headers: the name of a profile */
extern const struct wr_command serve_command;

#endif
