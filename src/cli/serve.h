/* The options of `weir serve`. */
#ifndef WR_CLI_SERVE_H
#define WR_CLI_SERVE_H

#include "cli/options/shared.h"

extern const char *wr_serve_headers; /* value of --headers, set by wr_options_read() */
extern const struct wr_command wr_serve_command;

#endif
