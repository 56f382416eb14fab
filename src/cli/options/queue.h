/* The option --queue and the options that refine it, shared by `weir serve` and `weir gateway`. */
#ifndef WR_CLI_OPTIONS_QUEUE_H
#define WR_CLI_OPTIONS_QUEUE_H

#include "cli/options/options.h"

#define WR_QUEUE_OPTIONS 14
extern const struct wr_option
	wr_queue_options[WR_QUEUE_OPTIONS]; /* these options fill a struct wr_queue_settings */

#endif
