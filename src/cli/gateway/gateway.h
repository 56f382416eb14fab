/* Shared by the files of `weir gateway`. */
#ifndef WR_CLI_GATEWAY_GATEWAY_H
#define WR_CLI_GATEWAY_GATEWAY_H

#include "cli/options/options.h"
#include "gateway/plan.h"

extern const struct wr_command wr_gateway_command;
extern struct wr_gateway_settings wr_cli_gateway_settings; /* set by wr_options_read() */

#endif
