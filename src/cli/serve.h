/* The options of `weir serve`, which `weir gateway` has too where it runs the service beside nginx.
 */
#ifndef WR_CLI_SERVE_H
#define WR_CLI_SERVE_H

#include "cli/options/options.h"
#include "serve/settings.h"

/* Where wr_options_read puts them. */
extern struct wr_settings serve_settings;
extern const char *serve_headers; /* name of a profile */
extern const struct wr_command serve_command;

#endif
