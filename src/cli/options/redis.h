/* The option --redis and the options that refine it, shared by `weir serve` and `weir gateway`. */
#ifndef WR_CLI_OPTIONS_REDIS_H
#define WR_CLI_OPTIONS_REDIS_H

#include "cli/options/options.h"

#define WR_REDIS_OPTIONS 12
extern const struct wr_option
	wr_redis_options[WR_REDIS_OPTIONS]; /* these options fill a struct wr_redis_settings */

#endif
