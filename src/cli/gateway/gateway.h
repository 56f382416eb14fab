/* Shared by the files of `weir gateway`. */
#ifndef WR_CLI_GATEWAY_GATEWAY_H
#define WR_CLI_GATEWAY_GATEWAY_H

#include "cli/options/options.h"
#include "gateway/plan.h"

/* The address of the service's admin API if --admin is not given. */
#define WR_GATEWAY_DEFAULT_ADMIN "127.0.0.1:9099"

extern const struct wr_cli_command wr_cli_gateway_command;
extern struct wr_gateway_settings wr_cli_gateway_settings; /* set by wr_cli_options_read() */

/* Options of `weir gateway`: the addresses on which the gateway's service listens, and --refunds.
 * They fill a struct wr_settings. */
#define WR_GATEWAY_SERVICE_OPTIONS 5
extern const struct wr_cli_option wr_cli_gateway_service_options[WR_GATEWAY_SERVICE_OPTIONS];

#endif
