/* The options of `weir serve`, and the rows of options that `weir gateway` shares with it. */
#ifndef WR_CLI_OPTIONS_SHARED_H
#define WR_CLI_OPTIONS_SHARED_H

#include "cli/options/options.h"
#include "serve/settings.h"

#define WR_MEMORY_OPTIONS 3
#define WR_ADMIN_OPTIONS 4
#define WR_REDIS_OPTIONS 12
#define WR_QUEUE_OPTIONS 14

/* serve.c: options that fill a struct wr_settings. */
extern const struct wr_cli_option wr_cli_memory_options[WR_MEMORY_OPTIONS];
extern const struct wr_cli_option wr_cli_admin_options[WR_ADMIN_OPTIONS];
/* redis.c: options that fill a struct wr_serve_redis_settings. */
extern const struct wr_cli_option wr_cli_redis_options[WR_REDIS_OPTIONS];
/* queue.c: options that fill a struct wr_serve_queue_settings. */
extern const struct wr_cli_option wr_cli_queue_options[WR_QUEUE_OPTIONS];

/* The settings of the service. wr_cli_options_read() sets them, for `weir serve` and for
 * `weir gateway`. */
extern struct wr_settings wr_cli_serve_settings;

/* The options of `weir serve` (serve.c). */
extern const struct wr_cli_command wr_cli_serve_command;
extern const char *wr_cli_serve_headers; /* value of --headers, set by wr_cli_options_read() */

#endif
