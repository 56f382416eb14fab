/* The service beside nginx: weir serve in a process that the gateway starts, and starts again when
 * it dies. Where the gateway is root, that process is not. */
#ifndef WR_CLI_GATEWAY_SERVICE_H
#define WR_CLI_GATEWAY_SERVICE_H

#include <stdbool.h>

#include "cli/options/options.h"
#include "gateway/plan.h"
#include "serve/settings.h"

struct gateway_service;

/* What --grpc, --http, --resp, --admin and --redis of the gateway are read into. */
struct gateway_service_settings {
	struct wr_text_list grpc, http, resp, admin, refunds;
	const char *admin_socket, *admin_token_file, *resp_password_file;
	bool admin_open;
	struct wr_redis_settings redis; /* by redis_options */
	struct wr_queue_settings queue; /* by queue_options */
};

#define GATEWAY_SERVICE_OPTIONS 9
extern struct gateway_service_settings gateway_service_settings;
extern const struct wr_option gateway_service_options[GATEWAY_SERVICE_OPTIONS];

/* Opens the ports that were asked for, a Unix socket in the runtime folder for nginx, and
 * 127.0.0.1:9099 for --admin if nothing is said about it and nobody has it. NULL: a port that was
 * asked for cannot be had, and why has been printed. */
struct gateway_service *gateway_service_start(const struct gateway_service_settings *settings,
					      const struct wr_gateway_plan *plan);

/* Rules and certificates are read again. Where options have changed it is another service from here
 * on, or the old one again if that cannot be; *service is NULL when not even that is possible.
 * nginx is not concerned. */
void gateway_service_reload(struct gateway_service **service,
			    const struct gateway_service_settings *settings,
			    const struct wr_gateway_plan *plan);

/* Its ports, a line each. */
void gateway_service_summary(const struct gateway_service *service, FILE *out);

/* Not healthy from here on. NULL is fine, as below. */
void gateway_service_drain(struct gateway_service *service);

/* Whether its last connection has ended since, or time is up. */
bool gateway_service_drained(struct gateway_service *service);

/* Now and then: takes in what it reports, and starts it again if it has died. */
void gateway_service_look(struct gateway_service *service);

/* Whether its process is there. */
bool gateway_service_lives(const struct gateway_service *service);

/* If it cannot open the table that was resized with the rights it has, it is started anew. True: it
 * was. */
bool gateway_service_renew(struct gateway_service *service);

/* How often it has moved to a table that was resized; *bytes is the size of the last one. */
unsigned gateway_service_moves(const struct gateway_service *service, uint64_t *bytes);

/* The rules in force there, by number: from 1; 0: there are none. *defers: one of the domain says
 * on_limit: defer. */
uint64_t gateway_service_rules(const struct gateway_service *service, bool *defers);

/* At once. */
void gateway_service_stop(struct gateway_service *service);

#endif
