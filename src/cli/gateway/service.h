/* The service beside nginx: weir serve in a process that the gateway starts, and restarts when it
 * ends. If root runs the gateway, the service runs as another user. */
#ifndef WR_CLI_GATEWAY_SERVICE_H
#define WR_CLI_GATEWAY_SERVICE_H

#include <stdbool.h>

#include "cli/options/options.h"
#include "gateway/plan.h"
#include "serve/settings.h"

struct wr_gateway_service;

/* The options of the gateway that configure the service. */
struct wr_gateway_service_settings {
	struct wr_text_list grpc, http, resp, admin, refunds;
	const char *admin_socket, *admin_token_file, *resp_password_file;
	bool admin_open;
	struct wr_redis_settings redis; /* by wr_redis_options */
	struct wr_queue_settings queue; /* by wr_queue_options */
};

#define WR_GATEWAY_SERVICE_OPTIONS 9
extern struct wr_gateway_service_settings wr_gateway_service_settings;
extern const struct wr_option wr_gateway_service_options[WR_GATEWAY_SERVICE_OPTIONS];

/* Starts the service with the ports of the options, a Unix socket in the runtime folder for nginx, and
 * without --admin 127.0.0.1:9099 if that port is free. Returns NULL after an error message if a port
 * of the options cannot be opened. */
struct wr_gateway_service *
wr_gateway_service_start(const struct wr_gateway_service_settings *settings,
			 const struct wr_gateway_plan *plan);

/* Reads rules and certificates again. If options have changed, replaces the service by a new one; if
 * that fails, restarts the old one. *service is NULL if both fail. nginx does not change. */
void wr_gateway_service_reload(struct wr_gateway_service **service,
			       const struct wr_gateway_service_settings *settings,
			       const struct wr_gateway_plan *plan);

/* Prints the ports of the service, a line each. */
void wr_gateway_service_summary(const struct wr_gateway_service *service, FILE *out);

/* Begins the drain: the service reports that it is not healthy. This and the functions below accept
 * NULL. */
void wr_gateway_service_drain(struct wr_gateway_service *service);

/* Whether the last connection has ended, or --drain has passed. */
bool wr_gateway_service_drained(struct wr_gateway_service *service);

/* Called by a timer: reads the reports of the service, and restarts it if it has ended. */
void wr_gateway_service_poll(struct wr_gateway_service *service);

/* Whether the process runs. */
bool wr_gateway_service_runs(const struct wr_gateway_service *service);

/* Restarts the service if its user cannot open the resized table. Returns whether it did. */
bool wr_gateway_service_renew(struct wr_gateway_service *service);

/* Returns how often the service has changed to a resized table. Sets *bytes to the size of the last one.
 */
unsigned wr_gateway_service_moves(const struct wr_gateway_service *service, uint64_t *bytes);

/* Returns the generation of the rules that the service uses, from 1, or 0 if there are none. Sets
 * *defers if a rule of the domain has on_limit: defer. */
uint64_t wr_gateway_service_rules(const struct wr_gateway_service *service, bool *defers);

/* Ends the service at once and frees it. */
void wr_gateway_service_stop(struct wr_gateway_service *service);

#endif
