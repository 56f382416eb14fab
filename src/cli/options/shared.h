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
extern const struct wr_option wr_memory_options[WR_MEMORY_OPTIONS];
extern const struct wr_option wr_admin_options[WR_ADMIN_OPTIONS];
/* redis.c: options that fill a struct wr_redis_settings. */
extern const struct wr_option wr_redis_options[WR_REDIS_OPTIONS];
/* queue.c: options that fill a struct wr_queue_settings. */
extern const struct wr_option wr_queue_options[WR_QUEUE_OPTIONS];

/* The settings of the service. wr_options_read() sets them, for `weir serve` and for
 * `weir gateway`. */
extern struct wr_settings wr_serve_settings;

/* The options of `weir serve` (serve.c). */
extern const struct wr_command wr_serve_command;
extern const char *wr_serve_headers; /* value of --headers, set by wr_options_read() */

#endif
