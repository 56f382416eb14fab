/* The process of the service beside nginx. The gateway forks it; a gateway of root stays root to
 * supervise nginx. The service opens its ports with the gateway's rights, drops the rights, and then
 * serves. It reports its state to the gateway in messages of a fixed form. */
#ifndef WR_CLI_GATEWAY_CHILD_H
#define WR_CLI_GATEWAY_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "serve/settings.h"

struct wr_service;

/* The state of the service. */
struct wr_gateway_report {
	uint64_t moves;       /* changes to a resized table */
	uint64_t table_bytes; /* size of the table in use */
	uint64_t rules;       /* generation in use; 0: none */
	bool defers;          /* a rule of the domain has on_limit: defer */
	bool drained;         /* the last connection has ended, or --drain has passed */
	bool stuck;           /* the service's user cannot open the resized table */
	bool no_rules;        /* the service's user cannot read the rules */
	bool no_certificate;  /* … or the certificate and its key */
};

struct wr_gateway_child {
	pid_t pid; /* 0: not running */
	int fd;
	struct wr_gateway_report report; /* the last one */
	char *summary;                   /* the ports, a line each */
	char ended[96];                  /* how the process ended; "": not ended */
};

struct wr_gateway_child_opts {
	const struct wr_settings *settings;
	const char *domain;
	bool default_admin; /* the service may run without the admin port */
	/* Writes the ports of a service. */
	void (*summary)(const struct wr_service *service, FILE *out);
};

/* Returns 0 when the service runs, or -1 after the service has logged an error. */
int wr_gateway_child_start(struct wr_gateway_child *child,
			   const struct wr_gateway_child_opts *opts);

/* Reads the reports since the last call, and collects the process if it has ended. */
void wr_gateway_child_poll(struct wr_gateway_child *child);

enum wr_gateway_child_order {
	WR_GATEWAY_CHILD_RELOAD = 'r',
	WR_GATEWAY_CHILD_DRAIN = 'd',
	WR_GATEWAY_CHILD_STOP = 's',
};

void wr_gateway_child_send(const struct wr_gateway_child *child, enum wr_gateway_child_order order);

/* Ends the process at once and waits for its end. */
void wr_gateway_child_stop(struct wr_gateway_child *child);

#endif
