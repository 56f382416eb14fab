/* /check/DOMAIN: a proxy asks whether it may forward a request. For this the proxy sends a request
 * of its own, the auth request, which describes the client's request in header fields. Traefik's
 * ForwardAuth, Caddy's forward_auth and nginx's auth_request work in this way. There are two sets
 * of these fields, and a proxy uses one of them:
 *
 *   forwarded  X-Forwarded-Method, X-Forwarded-Uri                       Traefik, Caddy
 *   original   X-Original-Method, X-Original-URI or X-Original-URL       nginx, ingress-nginx
 *   both       X-Forwarded-Host (else Host), X-Forwarded-For (else X-Real-IP)
 *
 * Proxies pass the client's header fields on, so a client can add fields of the set that the proxy
 * does not use. An auth request with fields of the set `forwarded` and fields of the set `original`
 * is therefore refused, unless the URL in the proxy's configuration names the proxy's set
 * (?by=original). All other fields of the auth request are those of the client's request, and rules
 * can match them. */
#ifndef WR_WIRE_CHECK_FORWARD_AUTH_H
#define WR_WIRE_CHECK_FORWARD_AUTH_H

#include <weir/rules.h>

#include "base/address.h"
#include "wire/json.h"

enum wr_forward_by {
	WR_FORWARD_EITHER,
	WR_FORWARD_FORWARDED,
	WR_FORWARD_ORIGINAL,
};

struct wr_forward {
	/* Finds a header field of the auth request. Has the contract of `header` in struct
	 * weir_http_view. */
	size_t (*header)(void *context, struct weir_str name, struct weir_str *values, size_t max);
	void *context;
	struct weir_str host; /* value of the auth request's own Host field */
	/* name of the header field that identifies the client; empty: no field identifies it */
	struct weir_str identity;
	enum wr_forward_by by;
	/* Trusted proxies between the client and the proxy that asks. Their addresses are skipped
	 * when X-Forwarded-For is read from the right. */
	const struct wr_address_ranges *proxies;
};

/* Reads the client's request from the auth request. Texts in `view` point into the auth request.
 * Returns 0. On failure returns -1 and sets `problem`. */
int wr_forward_view(const struct wr_forward *forward, struct weir_http_view *view,
		    struct wr_problem *problem);

/* Converts "forwarded" or "original" to an enum wr_forward_by. Returns -1 for any other name. */
int wr_forward_by_name(struct weir_str name);

/* Returns the networks from which auth requests are accepted if --trust is not given: this machine
 * and private networks (RFC 1918, RFC 4193, link-local, RFC 6598). Clients on the internet have no
 * such address. */
const struct wr_address_ranges *wr_forward_neighbours(void);

#endif
