/* The process of the gateway's service. The gateway forks this process. If root runs the gateway,
 * the gateway stays root to supervise nginx. The service opens its ports with the gateway's
 * privileges, drops the privileges, and then serves. It reports its state to the gateway in
 * messages of a fixed form. */
#ifndef WR_CLI_GATEWAY_CHILD_H
#define WR_CLI_GATEWAY_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "serve/settings.h"

/* The state of the service, as its process reports it to the gateway. */
struct wr_cli_gateway_report {
	uint64_t moves;       /* how often the service has changed to a resized table */
	uint64_t table_bytes; /* size of the table in use */
	uint64_t rules;       /* generation of the rules in use */
	bool defers;          /* a rule of the gateway's domain has on_limit: defer */
	bool drained;         /* the last connection has ended, or the time of --drain has passed */
	bool stuck;           /* the service's user cannot open the resized table */
	bool no_rules;        /* the service's user cannot read the rules */
	bool no_certificate;  /* the service's user cannot read the certificate or its key */
};

struct wr_cli_gateway_child {
	pid_t pid; /* 0: the process does not run */
	int fd;
	struct wr_cli_gateway_report report; /* the latest report */
	char *summary;                       /* the service's ports, one per line */
	char ended[96];                      /* how the process ended; empty: it has not ended */
};

struct wr_cli_gateway_child_opts {
	const struct wr_settings *settings;
	const char *domain;
	bool default_admin; /* start without the admin port if that port cannot be opened */
};

/* Starts the process. Returns 0 when the service runs, or -1 after the service has logged an error.
 */
int wr_cli_gateway_child_start(struct wr_cli_gateway_child *child,
			       const struct wr_cli_gateway_child_opts *opts);

/* Reads the reports that arrived since the previous call. If the process has ended, collects its
 * exit status and describes it in child->ended. */
void wr_cli_gateway_child_poll(struct wr_cli_gateway_child *child);

enum wr_cli_gateway_child_order {
	WR_GATEWAY_CHILD_RELOAD = 'r',
	WR_GATEWAY_CHILD_DRAIN = 'd',
	WR_GATEWAY_CHILD_STOP = 's',
};

void wr_cli_gateway_child_send(const struct wr_cli_gateway_child *child,
			       enum wr_cli_gateway_child_order order);

/* Ends the process and waits for its end. */
void wr_cli_gateway_child_stop(struct wr_cli_gateway_child *child);

#endif
