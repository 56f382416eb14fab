/* The service beside nginx: `weir serve` in a process that the gateway starts, and restarts if the
 * process ends. If root runs the gateway, the service runs as another user. */
#ifndef WR_CLI_GATEWAY_SERVICE_H
#define WR_CLI_GATEWAY_SERVICE_H

#include <stdbool.h>

#include "cli/options/options.h"
#include "gateway/plan.h"
#include "serve/settings.h"

struct wr_gateway_service;

/* The options of `weir gateway` that configure the service. */
struct wr_gateway_service_settings {
	struct wr_text_list grpc, http, resp, admin, refunds;
	const char *admin_socket, *admin_token_file, *resp_password_file;
	bool admin_open;
	struct wr_redis_settings redis; /* set by wr_redis_options */
	struct wr_queue_settings queue; /* set by wr_queue_options */
};

#define WR_GATEWAY_SERVICE_OPTIONS 9
extern struct wr_gateway_service_settings wr_gateway_service_settings;
extern const struct wr_option wr_gateway_service_options[WR_GATEWAY_SERVICE_OPTIONS];

/* Starts the service with the ports of the options and a Unix socket in the runtime folder for
 * nginx. If --admin is not given, the service also listens at 127.0.0.1:9099 if that port is free.
 * If a port of the options cannot be opened, prints an error message and returns NULL. */
struct wr_gateway_service *
wr_gateway_service_start(const struct wr_gateway_service_settings *settings,
			 const struct wr_gateway_plan *plan);

/* Makes the service read rules and certificates again. If options have changed, replaces the
 * service by a new one; if the new one does not start, restarts the old one. If the old one does
 * not start either, *service is NULL. nginx is not affected. */
void wr_gateway_service_reload(struct wr_gateway_service **service,
			       const struct wr_gateway_service_settings *settings,
			       const struct wr_gateway_plan *plan);

/* Prints the ports of the service, one per line. */
void wr_gateway_service_summary(const struct wr_gateway_service *service, FILE *out);

/* Begins the drain: the service reports that it is not healthy. This function and the functions
 * below accept NULL. */
void wr_gateway_service_drain(struct wr_gateway_service *service);

/* Returns whether the last connection has ended or the time of --drain has passed. */
bool wr_gateway_service_drained(struct wr_gateway_service *service);

/* Reads the reports of the service, and restarts the service if its process has ended. Called by a
 * timer. */
void wr_gateway_service_poll(struct wr_gateway_service *service);

/* Returns whether the process of the service runs. */
bool wr_gateway_service_runs(const struct wr_gateway_service *service);

/* Restarts the service if its user cannot open the resized table. Returns whether the service was
 * restarted. */
bool wr_gateway_service_renew(struct wr_gateway_service *service);

/* Returns how often the service has changed to a resized table. Sets *bytes to the size of the
 * table in use. */
unsigned wr_gateway_service_moves(const struct wr_gateway_service *service, uint64_t *bytes);

/* Returns a number that changes when the service uses other rules, or 0 if the service does not
 * run. Sets *defers if a rule of the domain has on_limit: defer. */
uint64_t wr_gateway_service_rules(const struct wr_gateway_service *service, bool *defers);

/* Ends the process and frees the service. */
void wr_gateway_service_stop(struct wr_gateway_service *service);

#endif
