/* Writes nginx's configuration from a plan. Does no I/O except to the stream that the caller
 * passes. */
#ifndef WR_GATEWAY_CONF_H
#define WR_GATEWAY_CONF_H

#include <stdio.h>

#include "gateway/plan.h"

enum wr_conf_use {
	WR_CONF_RUN, /* the configuration is for the nginx that the gateway starts */
	/* for --print-config: nginx is started without the gateway, so the configuration does not
	 * name files that the gateway would create */
	WR_CONF_SHOW,
};

/* Writes the whole configuration. wr_gateway_plan() has made the plan, and wr_gateway_pick_domain()
 * has set plan->domain. */
void wr_conf_write(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out);

/* Writes a directive with one quoted argument, indented by `depth` levels of four blanks. */
void wr_conf_line(FILE *out, int depth, const char *directive, const char *text);

/* These functions write the API servers, the header fields, the server block for clients, and the
 * server block through which deferred requests are delivered (conf_server.c). */
void wr_conf_upstreams(const struct wr_gateway_plan *plan, FILE *out);
void wr_conf_forwarded(const struct wr_gateway_plan *plan, FILE *out);
void wr_conf_server(const struct wr_gateway_plan *plan, FILE *out);
void wr_conf_deliver(const struct wr_gateway_plan *plan, FILE *out);

#endif
