/* Checks the addresses of a plan: API servers, authentication service, listeners, trusted proxies.
 * Called by plan.c. */
#include "gateway/plan.h"

#include <stdio.h>

#include "base/str.h"
#include "base/address.h"

#define HEADER_NAME_MAX 64

/* Sets *name to the name that the certificate must have, or to NULL without TLS. If the URL
 * has an IP address, the user has to give a name, because nginx compares certificates only with
 * names. */
static int tls_name(const char *flag, const struct wr_url *url, const char *given,
		    const char **name, struct weir_error *error)
{
	*name = NULL;
	if (!url->tls)
		return 0;
	*name = given ? given : url->at.host;
	if (!given && url->at.kind != WR_ENDPOINT_NAME)
		return wr_error(error, WEIR_EINVAL,
				"%s https://%s is an address, and certificates are checked "
				"by name: give the name with --upstream-name",
				flag, url->at.host);
	return 0;
}

static int add_upstream(struct wr_gateway_plan *plan, const char *text, struct weir_error *error)
{
	struct wr_url *url = &plan->upstream[plan->upstream_count];
	const char *given = plan->settings->upstream_name, *name;
	struct weir_error why;

	if (wr_url_parse(wr_str(text), url, &why) != 0)
		return wr_error(error, WEIR_EINVAL, "--upstream %s", why.text);
	if (url->path.len > 1)
		return wr_error(error, WEIR_EINVAL,
				"--upstream %s has a path; leave it out: each request has its own "
				"path",
				text);
	if (tls_name("--upstream", url, given, &name, error) != 0)
		return -1;
	if (plan->upstream_count && url->tls != plan->upstream[0].tls)
		return wr_error(error, WEIR_EINVAL,
				"--upstream mixes http:// and https:// servers; use one of them");
	if (plan->upstream_count && url->tls && strcmp(name, plan->upstream_name) != 0)
		return wr_error(error, WEIR_EINVAL,
				"--upstream has https:// servers of different names; name the host "
				"that all their certificates contain with --upstream-name");
	plan->upstream_name = name;
	plan->upstream_count++;
	return 0;
}

int wr_plan_upstreams(struct wr_gateway_plan *plan, struct weir_error *error)
{
	const struct wr_text_list *texts = &plan->settings->upstream;
	const char *name = plan->settings->upstream_name;
	struct wr_endpoint checked;
	char with_port[WR_ENDPOINT_TEXT];

	if (texts->count == 0)
		return wr_error(error, WEIR_EINVAL,
				"--upstream URL is missing: name the API server, as in --upstream "
				"http://127.0.0.1:3000");
	if (name) {
		snprintf(with_port, sizeof with_port, "%.260s:1", name);
		if (wr_endpoint_parse(wr_str(with_port), &checked, NULL) != 0 ||
		    checked.kind != WR_ENDPOINT_NAME)
			return wr_error(error, WEIR_EINVAL,
					"--upstream-name '%.200s' is not a host name", name);
	}
	for (size_t i = 0; i < texts->count; i++)
		if (add_upstream(plan, texts->items[i], error) != 0)
			return -1;
	return 0;
}

/* Checks a name in --auth-headers. Refuses header fields that the gateway sets itself, because
 * nginx would send such a field twice. */
static int check_header_name(const char *name, struct weir_error *error)
{
	static const char *const reserved[] = {
		"host",
		"connection",
		"content-length",
		"transfer-encoding",
		"upgrade",
		"forwarded",
		"x-real-ip",
		"x-forwarded-for",
		"x-forwarded-proto",
		"x-forwarded-host",
		"x-forwarded-port",
		"x-forwarded-uri",
		"x-forwarded-method",
		"x-original-uri",
		"x-original-method",
		"x-request-id",
	};
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
	size_t len = strlen(name);

	if (len == 0 || len > HEADER_NAME_MAX || strspn(name, letters) != len)
		return wr_error(error, WEIR_EINVAL,
				"--auth-headers '%.80s' is not the name of a header: use letters, "
				"digits and hyphens, at most %d characters",
				name, HEADER_NAME_MAX);
	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (wr_str_equal_nocase(wr_str(name), wr_str(reserved[i])))
			return wr_error(error, WEIR_EINVAL,
					"--auth-headers %s is set by the gateway itself; name a "
					"header that describes the user",
					name);
	return 0;
}

int wr_plan_auth(struct wr_gateway_plan *plan, struct weir_error *error)
{
	const struct wr_text_list *names = &plan->settings->auth_headers;
	struct weir_error why;

	if (!plan->settings->auth)
		return 0;
	if (wr_url_parse(wr_str(plan->settings->auth), &plan->auth, &why) != 0)
		return wr_error(error, WEIR_EINVAL, "--auth %s", why.text);
	if (tls_name("--auth", &plan->auth, NULL, &plan->auth_name, error) != 0)
		return wr_error(error, WEIR_EINVAL,
				"--auth https://%s is an address, and certificates are "
				"checked by name: use the service's name",
				plan->auth.at.host);
	if (names->count == 0)
		return wr_error(error, WEIR_EINVAL, "--auth-headers names no header");
	for (size_t i = 0; i < names->count; i++)
		if (check_header_name(names->items[i], error) != 0)
			return -1;
	plan->has_auth = true;
	return 0;
}

static bool is_localhost(const struct wr_endpoint *at)
{
	return wr_str_equal_nocase(wr_str(at->host), WR_STR("localhost"));
}

/* Returns true if `localhost` can resolve to this address. */
static bool is_usual_loopback(const struct wr_endpoint *at)
{
	return is_localhost(at) || strcmp(at->host, "::1") == 0 ||
	       strcmp(at->host, "127.0.0.1") == 0;
}

/* Returns true if a connection to `to` reaches the listener `listen`, as far as this can be known
 * without resolving names. */
static bool leads_to(const struct wr_endpoint *to, const struct wr_endpoint *listen)
{
	if (wr_endpoint_equal(to, listen))
		return true;
	if (to->kind == WR_ENDPOINT_UNIX || listen->kind == WR_ENDPOINT_UNIX ||
	    to->port != listen->port)
		return false;
	if (listen->kind == WR_ENDPOINT_ANY)
		return is_usual_loopback(to) ||
		       (to->kind == WR_ENDPOINT_V4 && strncmp(to->host, "127.", 4) == 0);
	return is_usual_loopback(to) && is_usual_loopback(listen) &&
	       (is_localhost(to) || is_localhost(listen));
}

/* Refuses a gateway that is its own API server: it would forward each request to itself until no
 * connection is free. */
static int check_no_loop(const struct wr_gateway_plan *plan, const struct wr_endpoint *listen,
			 struct weir_error *error)
{
	char text[WR_ENDPOINT_TEXT];

	for (size_t i = 0; i < plan->upstream_count; i++)
		if (leads_to(&plan->upstream[i].at, listen) && wr_endpoint_text(listen, text))
			return wr_error(error, WEIR_EINVAL,
					"--upstream %s is the gateway itself, which listens "
					"at %s: choose another port for one of them",
					plan->settings->upstream.items[i], text);
	if (plan->has_auth && leads_to(&plan->auth.at, listen) && wr_endpoint_text(listen, text))
		return wr_error(error, WEIR_EINVAL,
				"--auth %s is the gateway itself, which listens at %s",
				plan->settings->auth, text);
	return 0;
}

int wr_plan_listens(const struct wr_gateway_plan *plan, struct weir_error *error)
{
	const struct wr_gateway_settings *s = plan->settings;
	const struct wr_endpoint *all[2 * WR_ENDPOINTS_MAX];
	char text[WR_ENDPOINT_TEXT];
	size_t count = 0;

	for (size_t i = 0; i < s->listen.count; i++)
		all[count++] = &s->listen.items[i];
	for (size_t i = 0; i < s->h2c.count; i++)
		all[count++] = &s->h2c.items[i];
	if (s->listen.count == 0)
		return wr_error(error, WEIR_EINVAL, "--listen names no address");
	for (size_t i = 1; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (wr_endpoint_equal(all[i], all[j]) && wr_endpoint_text(all[i], text))
				return wr_error(error, WEIR_EINVAL,
						"--listen and --h2c name %s twice", text);
	for (size_t i = 0; i < count; i++)
		if (check_no_loop(plan, all[i], error) != 0)
			return -1;
	return 0;
}

int wr_plan_trust(const struct wr_gateway_plan *plan, struct weir_error *error)
{
	const struct wr_text_list *trust = &plan->settings->trust;

	for (size_t i = 0; i < trust->count; i++) {
		struct wr_address_range range;
		char text[WR_ADDRESS_TEXT];
		unsigned bits;
		enum wr_address_prefix_error bad;

		if (strcmp(trust->items[i], "unix:") == 0)
			continue;
		bad = wr_address_prefix_parse(wr_str(trust->items[i]), &range, &bits);
		if (bad == WR_ADDRESS_PREFIX_BAD)
			return wr_error(error, WEIR_EINVAL,
					"--trust '%.80s' is not an address or prefix such as "
					"10.0.0.0/8, nor unix:",
					trust->items[i]);
		if (bad == WR_ADDRESS_PREFIX_HOST_BITS)
			return wr_error(
				error, WEIR_EINVAL,
				"--trust %s has bits set after its prefix; did you mean %.*s?",
				trust->items[i], (int)wr_address_text(&range.low, bits, text),
				text);
	}
	return 0;
}
