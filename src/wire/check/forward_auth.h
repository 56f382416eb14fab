/* /check/DOMAIN: a proxy asks about a request that it holds, and describes it in header fields,
 * like Traefik's ForwardAuth, Caddy's forward_auth and nginx's auth_request.
 *
 *   forwarded  X-Forwarded-Method, X-Forwarded-Uri                       Traefik, Caddy
 *   original   X-Original-Method, X-Original-URI or X-Original-URL       nginx, ingress-nginx
 *   both       X-Forwarded-Host (else Host), X-Forwarded-For (else X-Real-IP)
 *
 * Proxies pass the client's header fields on, so a client can send fields of the other family
 * beside the proxy's. A question with both families is refused, unless the proxy's URL names the
 * family of the proxy (?by=original). All other fields belong to the request, and rules see
 * them. */
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
	struct weir_str identity; /* name of the field that identifies the client; or empty */
	enum wr_forward_by by;
	/* Proxies in front of the asking proxy: their addresses in X-Forwarded-For are skipped,
	 * from the right. */
	const struct wr_ranges *proxies;
};

/* Reads the request that the proxy asks about. Texts point into the question. Returns 0, or -1 and
 * a problem. */
int wr_forward_view(const struct wr_forward *forward, struct weir_http_view *view,
		    struct wr_problem *problem);

/* "forwarded" or "original": enum wr_forward_by, or -1. */
int wr_forward_by_name(struct weir_str name);

/* The peers that may describe requests without --trust: this machine and private networks (RFC
 * 1918, RFC 4193, link-local, RFC 6598). Clients on the internet have no such address. */
const struct wr_ranges *wr_forward_neighbours(void);

#endif
