/* The process of the service beside nginx: forked by the gateway, which may be root and then stays
 * root to look after nginx. The service opens its ports with the gateway's rights, gives those up
 * and then begins to speak. The gateway hears how it fares in messages of a fixed form. */
#ifndef WR_CLI_GATEWAY_CHILD_H
#define WR_CLI_GATEWAY_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "serve/settings.h"

struct wr_service;

/* How the service fares. */
struct gateway_report {
	uint64_t moves;       /* to a table that was resized */
	uint64_t table_bytes; /* of the table in use */
	uint64_t rules;       /* in force, by number; 0: none */
	bool defers;          /* a rule of the domain says on_limit: defer */
	bool drained;         /* its last connection has ended, or time is up */
	bool stuck;           /* the table was resized, and its user cannot open the new one */
	bool no_rules;        /* its user cannot read the rules again */
	bool no_certificate;  /* … nor certificate and key */
};

struct gateway_child {
	pid_t pid; /* 0: there is none */
	int fd;
	struct gateway_report report; /* the last one */
	char *summary;                /* its ports, a line each */
	char ended[96];               /* how it did; "": it has not */
};

struct gateway_child_opts {
	const struct wr_settings *settings;
	const char *domain;
	bool usual_admin; /* the admin port may be missing */
	/* Writes the ports of a service. */
	void (*summary)(const struct wr_service *service, FILE *out);
};

/* Returns when the service runs, or has said why it does not (-1). */
int gateway_child_start(struct gateway_child *child, const struct gateway_child_opts *opts);

/* Reads what it has reported since; notices when it has ended. */
void gateway_child_look(struct gateway_child *child);

enum gateway_child_order {
	GATEWAY_CHILD_RELOAD = 'r',
	GATEWAY_CHILD_DRAIN = 'd',
	GATEWAY_CHILD_STOP = 's',
};

void gateway_child_tell(const struct gateway_child *child, enum gateway_child_order order);

/* Ends it, at once, and waits until it has. */
void gateway_child_stop(struct gateway_child *child);

#endif
