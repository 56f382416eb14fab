/* The gateway's service: `weir serve` in a process that the gateway starts, and restarts if the
 * process ends. If root runs the gateway, the service usually runs as another user (see --user). */
#ifndef WR_CLI_GATEWAY_SERVICE_H
#define WR_CLI_GATEWAY_SERVICE_H

#include <stdbool.h>
#include <stdio.h>

#include "gateway/plan.h"
#include "serve/settings.h"

struct wr_cli_gateway_service;

/* Starts the service. The service opens the ports that the options name. It also opens Unix sockets
 * for nginx and for the user that runs the gateway. Without --admin the admin port is
 * 127.0.0.1:9099; if this port is in use, the service starts without it. If a port that the options
 * name cannot be opened, prints an error message and returns NULL. */
struct wr_cli_gateway_service *wr_cli_gateway_service_start(const struct wr_settings *settings,
							    const struct wr_gateway_plan *plan);

/* Makes the service read rules and certificates again. If options have changed, replaces the
 * service by a new service. If the new service does not start, restarts the old service. If no
 * service starts, *service is NULL. nginx is not affected. */
void wr_cli_gateway_service_reload(struct wr_cli_gateway_service **service,
				   const struct wr_settings *settings,
				   const struct wr_gateway_plan *plan);

/* Prints the ports of the service, one per line. */
void wr_cli_gateway_service_summary(const struct wr_cli_gateway_service *service, FILE *out);

/* Begins the drain: the service reports that it is not healthy. This function and the functions
 * below accept NULL. */
void wr_cli_gateway_service_drain(struct wr_cli_gateway_service *service);

/* Returns whether the last connection has ended or the time of --drain has passed. */
bool wr_cli_gateway_service_drained(struct wr_cli_gateway_service *service);

/* Reads the reports of the service, and restarts the service if its process has ended. Called by a
 * timer. */
void wr_cli_gateway_service_poll(struct wr_cli_gateway_service *service);

/* Returns whether the process of the service runs. Returns true if no port is configured, because
 * then no process is needed. */
bool wr_cli_gateway_service_runs(const struct wr_cli_gateway_service *service);

/* Restarts the service if its user cannot open the resized table. Returns whether the service was
 * restarted. */
bool wr_cli_gateway_service_renew(struct wr_cli_gateway_service *service);

/* Returns how often the service has changed to a resized table. Sets *bytes to the size of the
 * table in use. */
unsigned wr_cli_gateway_service_moves(const struct wr_cli_gateway_service *service,
				      uint64_t *bytes);

/* Returns a number that changes when the service uses other rules, or 0 if the service does not
 * run. Sets *defers to whether a rule of the gateway's domain has on_limit: defer. */
uint64_t wr_cli_gateway_service_rules(const struct wr_cli_gateway_service *service, bool *defers);

/* Ends the process and frees the service. */
void wr_cli_gateway_service_stop(struct wr_cli_gateway_service *service);

#endif
