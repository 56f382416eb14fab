/* /check/DOMAIN: a proxy asks about a request it holds, and describes it in header fields, as
 * Traefik's ForwardAuth, Caddy's forward_auth and nginx's auth_request do.
 *
 *   forwarded  X-Forwarded-Method, X-Forwarded-Uri                       Traefik, Caddy
 *   original   X-Original-Method, X-Original-URI or X-Original-URL       nginx, ingress-nginx
 *   both       X-Forwarded-Host (else Host), X-Forwarded-For (else X-Real-IP)
 *
 * Proxies hand the client's own header fields on, so a client can send the other family's fields
 * beside the proxy's. Then nobody can tell who wrote which, and the question is not answered,
 * unless the proxy's URL says which family is its own (?by=original). All other fields are the
 * request's own and are what rules see. */
#ifndef WR_WIRE_CHECK_FORWARD_AUTH_H
#define WR_WIRE_CHECK_FORWARD_AUTH_H

#include <weir/rules.h>

#include "rules/address.h"
#include "wire/json.h"

enum wr_forward_by {
	WR_FORWARD_EITHER,
	WR_FORWARD_FORWARDED,
	WR_FORWARD_ORIGINAL,
};

struct wr_forward {
	/* Header fields of the question, as weir_http_view takes them. */
	size_t (*header)(void *context, struct weir_str name, struct weir_str *values, size_t max);
	void *context;
	struct weir_str host;     /* the question's own Host */
	struct weir_str identity; /* name of the field that says who it is; or empty */
	enum wr_forward_by by;
	/* Proxies in front of the asking one: their addresses in X-Forwarded-For are passed over,
	 * from the right. */
	const struct wr_ranges *proxies;
};

/* The request that is asked about. Texts are the question's. 0, or -1 and what is wrong. */
int wr_forward_view(const struct wr_forward *forward, struct weir_http_view *view,
		    struct wr_problem *problem);

/* "forwarded" or "original": enum wr_forward_by, or -1. */
int wr_forward_by_name(struct weir_str name);

/* Who may describe requests when nobody is named: this machine and private networks (RFC 1918,
 * RFC 4193, link-local, RFC 6598), where proxies stand and clients of the internet do not. */
const struct wr_ranges *wr_forward_neighbours(void);

#endif
