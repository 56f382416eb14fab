/* The options of `weir serve`. */
#ifndef WR_CLI_SERVE_H
#define WR_CLI_SERVE_H

#include "cli/options/options.h"
#include "serve/settings.h"

/* Set by wr_options_read(). */
extern struct wr_settings wr_serve_settings;
extern const char *wr_serve_headers; /* value of --headers: the name of a profile */
extern const struct wr_command wr_serve_command;

#endif
