/* nginx's configuration as text. */
#ifndef WR_GATEWAY_CONF_H
#define WR_GATEWAY_CONF_H

#include <stdio.h>

#include "gateway/plan.h"

/* What the text is for. */
enum wr_conf_use {
	WR_CONF_RUN,  /* the gateway's own nginx */
	WR_CONF_SHOW, /* --print-config: needs nothing that the gateway makes */
};

/* A checked plan with its domain. */
void wr_conf_write(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out);

/* conf_text.c: a text between double quotes. What nginx could take for more than text (a `$`,
 * control characters) is kept out of plans. */
void wr_conf_quote(FILE *out, const char *text);
/* A directive with one quoted argument, indented by so many levels. */
void wr_conf_line(FILE *out, int depth, const char *directive, const char *text);

/* conf_server.c: API servers, header fields, the server block. */
void wr_conf_upstreams(const struct wr_gateway_plan *plan, FILE *out);
void wr_conf_forwarded(const struct wr_gateway_plan *plan, FILE *out);
void wr_conf_server(const struct wr_gateway_plan *plan, FILE *out);

/* conf_queue.c: what is kept with a deferred request, its ticket, and where it is delivered. */
void wr_conf_queued(const struct wr_gateway_plan *plan, FILE *out);
void wr_conf_deliver(const struct wr_gateway_plan *plan, FILE *out);

/* conf_server.c: fields that the gateway speaks for, as NAME VALUE of a directive, and how the API
 * servers are reached. */
void wr_conf_fields(const struct wr_gateway_plan *plan, const char *directive, int depth,
		    bool to_auth, FILE *out);
void wr_conf_pass(const struct wr_gateway_plan *plan, FILE *out);

#endif
