/* Writes the server blocks of nginx's configuration: listeners, upstreams, forwarded header fields,
 * authentication and deliveries. Called by conf.c. */
#include "gateway/conf.h"

#include <string.h>

#include "base/str.h"

#define AUTH_LOCATION "/.weir/auth"

/* Header fields that the gateway sets itself. The client's values are not passed on, because an API
 * trusts these fields. `own` is the value that nginx determines. With --trust the value is
 * `relayed` instead, which can come from a trusted proxy. */
static const struct {
	const char *name, *own, *relayed;
} forwarded[] = {
	{"Host", "$weir_host", "$weir_host"},
	{"X-Real-IP", "$remote_addr", "$remote_addr"},
	{"X-Forwarded-For", "$remote_addr", "$weir_forwarded_for"},
	{"X-Forwarded-Proto", "$scheme", "$weir_forwarded_proto"},
	{"X-Forwarded-Host", "$weir_host", "$weir_forwarded_host"},
	{"X-Forwarded-Port", "$server_port", "$server_port"},
	{"X-Request-Id", "$request_id", "$weir_request_id"},
};

/* Header fields of clients that are not passed on. The gateway gives them an empty value, because
 * nginx does not send a field with an empty value. */
static const char *const removed[] = {
	/* Rack (Ruby) trusts the first two fields more than X-Forwarded-Proto, which the gateway
	 * sets. */
	"X-Forwarded-Ssl", "X-Forwarded-Scheme", "X-Forwarded-Prefix", "X-Forwarded-Server",
	"Forwarded",
	/* Some frameworks use these fields instead of the path. So a client could bypass limits
	 * that depend on the path. */
	"X-Original-URL", "X-Rewrite-URL",
	/* Some frameworks take the client's address from these fields. */
	"True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP",
	"Fastly-Client-IP", "Client-IP", "Proxy-Client-IP", "WL-Proxy-Client-IP",
	"X-Originating-IP", "X-Remote-IP", "X-Remote-Addr", "X-Forwarded", "Forwarded-For",
	"X-Original-Forwarded-For", "X-Envoy-External-Address", "X-Azure-ClientIP", "Fly-Client-IP",
	/* Some frameworks take the host from these fields. */
	"X-Host", "X-Original-Host",
	/* Only the deliverer of deferred requests is allowed to set this field. */
	"X-Weir-Deferred",
	/* CGI turns this field into HTTP_PROXY, which HTTP libraries use as the address of their
	 * proxy. */
	"Proxy"};

/* Header fields that tell the authentication service about the client's request. These fields are
 * removed from requests to the API, because some frameworks trust them. */
static const struct {
	const char *name, *value;
} described[] = {
	{"X-Original-URI", "$request_uri"},
	{"X-Original-Method", "$request_method"},
	{"X-Forwarded-Uri", "$request_uri"},
	{"X-Forwarded-Method", "$request_method"},
};

/* Values that a trusted proxy can set. If the received value does not match the pattern, the value
 * `own` is used instead. */
static const struct {
	const char *variable, *received, *pattern, *own;
} relayed[] = {
	{"$weir_forwarded_proto", "$http_x_forwarded_proto", "https?", "$scheme"},
	{"$weir_forwarded_host", "$http_x_forwarded_host", "[A-Za-z0-9._:\\[\\]-]+", "$weir_host"},
	{"$weir_request_id", "$http_x_request_id", "[A-Za-z0-9._+/=-]{1,128}", "$request_id"},
};

static void put_maps(FILE *out)
{
	fputs("    # Only WebSocket may switch protocols: an h2c tunnel would bypass the limits.\n"
	      "    map $http_upgrade $weir_upgrade {\n"
	      "        ~*^websocket$ websocket;\n"
	      "        default \"\";\n"
	      "    }\n"
	      "    map $http_upgrade $weir_connection {\n"
	      "        ~*^websocket$ upgrade;\n"
	      "        default \"\";\n"
	      "    }\n"
	      "    # The Host header as the client sent it, unless the request line names another "
	      "host: nginx uses that one.\n"
	      "    map \"$host|$http_host\" $weir_host {\n"
	      "        \"~*^([a-z0-9._:\\[\\]-]{1,255})\\|\\1(:[0-9]+)?$\" $http_host;\n"
	      "        \"~^\\|\" localhost;\n"
	      "        default $host;\n"
	      "    }\n",
	      out);
}

static void put_trusted(const struct wr_text_list *trust, FILE *out)
{
	bool unix_too = false;

	for (size_t i = 0; i < trust->count; i++)
		fprintf(out, "    set_real_ip_from %s;\n", trust->items[i]);
	fputs("    real_ip_header X-Forwarded-For;\n"
	      "    real_ip_recursive on;\n"
	      "    geo $realip_remote_addr $weir_trusted_address {\n"
	      "        default 0;\n",
	      out);
	for (size_t i = 0; i < trust->count; i++) {
		if (strcmp(trust->items[i], "unix:") == 0)
			unix_too = true;
		else
			fprintf(out, "        %s 1;\n", trust->items[i]);
	}
	fprintf(out,
		"    }\n"
		"    map $realip_remote_addr $weir_trusted {\n"
		"        \"unix:\" %d;\n"
		"        default $weir_trusted_address;\n"
		"    }\n",
		unix_too);
}

/* Writes the map for X-Forwarded-For. nginx has already found the client's address: the last
 * address in the received X-Forwarded-For that is not a trusted proxy. The client can forge the
 * addresses to the left of its own, so these addresses are dropped. The first pattern of the map
 * finds the client's address, with or without a port, and the proxies to the right of it. If this
 * pattern does not match, the map gives the client's address and the address of the proxy that
 * connected to nginx. If these two are the same, the map gives one address. */
static void put_hops(FILE *out)
{
	fputs("    # Starts at the client's address: the client can forge the entries to the left "
	      "of it.\n"
	      "    map "
	      "\"$weir_trusted|$realip_remote_addr|$remote_addr|$http_x_forwarded_for\" "
	      "$weir_forwarded_for {\n"
	      "        \"~*^1\\|[^|]*\\|([^|]+)\\|(?:.*[, ])?(?<weir_hops>"
	      "\\[?\\1\\]?(?::[0-9]+)?(?:[, ]+[0-9a-f.:\\[\\]]+)*)[, ]*$\"\n"
	      "            \"$weir_hops, $realip_remote_addr\";\n"
	      "        \"~^1\\|([^|]*)\\|\\1\\|\" $remote_addr;\n"
	      "        \"~^1\\|\" \"$remote_addr, $realip_remote_addr\";\n"
	      "        default $remote_addr;\n"
	      "    }\n",
	      out);
}

void wr_conf_forwarded(const struct wr_gateway_plan *plan, FILE *out)
{
	const struct wr_text_list *trust = &plan->settings->trust;

	put_maps(out);
	if (trust->count == 0) {
		fputc('\n', out);
		return;
	}
	put_trusted(trust, out);
	put_hops(out);
	for (size_t i = 0; i < sizeof relayed / sizeof *relayed; i++)
		fprintf(out,
			"    map \"$weir_trusted|%s\" %s {\n"
			"        \"~^1\\|%s$\" %s;\n"
			"        default %s;\n"
			"    }\n",
			relayed[i].received, relayed[i].variable, relayed[i].pattern,
			relayed[i].received, relayed[i].own);
	fputc('\n', out);
}

/* Writes the API servers. nginx closes idle connections after 4 s, before an API server closes
 * them (Node.js after 5 s). Otherwise nginx could send a POST on a connection that the server is
 * closing; this POST would fail, because nginx does not send a POST twice. */
void wr_conf_upstreams(const struct wr_gateway_plan *plan, FILE *out)
{
	char text[WR_ENDPOINT_TEXT];

	fputs("    upstream weir_api {\n"
	      "        zone weir_api 256k;\n",
	      out);
	for (size_t i = 0; i < plan->upstream_count; i++) {
		wr_endpoint_text(&plan->upstream[i].at, text);
		fprintf(out, "        server %s max_fails=3 fail_timeout=5s;\n", text);
	}
	fputs("        keepalive 64;\n"
	      "        keepalive_timeout 4s;\n"
	      "        keepalive_requests 10000;\n"
	      "    }\n",
	      out);
	if (plan->has_auth) {
		wr_endpoint_text(&plan->auth.at, text);
		fprintf(out,
			"    upstream weir_auth {\n"
			"        zone weir_auth 64k;\n"
			"        server %s max_fails=0;\n"
			"        keepalive 16;\n"
			"        keepalive_timeout 4s;\n"
			"    }\n",
			text);
	}
	fputc('\n', out);
}

static void put_listen(const struct wr_gateway_plan *plan, const struct wr_endpoint *at,
		       const char *speaks, FILE *out)
{
	char text[WR_ENDPOINT_TEXT];

	wr_endpoint_text(at, text);
	fprintf(out, "        listen %s%s backlog=4096;\n", text, speaks);
	if (at->kind == WR_ENDPOINT_ANY && plan->has_v6)
		fprintf(out, "        listen [::]:%u%s backlog=4096;\n", at->port, speaks);
}

static void put_listens(const struct wr_gateway_plan *plan, FILE *out)
{
	const struct wr_gateway_settings *s = plan->settings;

	for (size_t i = 0; i < s->listen.count; i++)
		put_listen(plan, &s->listen.items[i], plan->tls_cert ? " ssl http2" : "", out);
	for (size_t i = 0; i < s->h2c.count; i++)
		put_listen(plan, &s->h2c.items[i], " http2", out);
	if (!plan->tls_cert)
		return;
	wr_conf_line(out, 2, "ssl_certificate", plan->tls_cert);
	wr_conf_line(out, 2, "ssl_certificate_key", plan->tls_key);
	fputs("        ssl_protocols TLSv1.2 TLSv1.3;\n"
	      "        ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20;\n"
	      "        ssl_session_cache shared:weir_tls:10m;\n"
	      "        ssl_session_timeout 1h;\n"
	      "        ssl_session_tickets off;\n",
	      out);
}

static void put_verify(const struct wr_gateway_plan *plan, const char *name, FILE *out)
{
	if (!name)
		return;
	fputs("            proxy_ssl_server_name on;\n"
	      "            proxy_ssl_verify on;\n"
	      "            proxy_ssl_verify_depth 4;\n"
	      "            proxy_ssl_protocols TLSv1.2 TLSv1.3;\n",
	      out);
	wr_conf_line(out, 3, "proxy_ssl_name", name);
	wr_conf_line(out, 3, "proxy_ssl_trusted_certificate", plan->upstream_ca);
}

/* Writes one line `directive NAME VALUE;` for each header field that the gateway sets itself. If
 * to_auth is set, the values are for the authentication service, otherwise for the API. */
static void put_fields(const struct wr_gateway_plan *plan, const char *directive, int depth,
		       bool to_auth, FILE *out)
{
	const struct wr_text_list *names = &plan->settings->auth_headers;

	for (size_t i = to_auth ? 1 : 0; i < sizeof forwarded / sizeof *forwarded; i++)
		fprintf(out, "%*s%s %s %s;\n", depth * 4, "", directive, forwarded[i].name,
			plan->settings->trust.count ? forwarded[i].relayed : forwarded[i].own);
	for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
		fprintf(out, "%*s%s %s \"\";\n", depth * 4, "", directive, removed[i]);
	for (size_t i = 0; i < sizeof described / sizeof *described; i++)
		fprintf(out, "%*s%s %s %s;\n", depth * 4, "", directive, described[i].name,
			to_auth ? described[i].value : "\"\"");
	for (size_t i = 0; plan->has_auth && i < names->count; i++) {
		fprintf(out, "%*s%s %s ", depth * 4, "", directive, names->items[i]);
		if (to_auth)
			fputs("\"\"", out);
		else
			fputs("$weir_auth_http_", out);
		for (const char *c = to_auth ? "" : names->items[i]; *c; c++)
			fputc(*c == '-' ? '_' : wr_lower(*c), out);
		fputs(";\n", out);
	}
}

/* Writes proxy_pass to the API servers, with its timeouts and TLS options. */
static void put_pass(const struct wr_gateway_plan *plan, FILE *out)
{
	unsigned long long timeout = (plan->settings->upstream_timeout_ns + 999999) / 1000000;

	fprintf(out, "            proxy_pass %s://weir_api;\n",
		plan->upstream_name ? "https" : "http");
	put_verify(plan, plan->upstream_name, out);
	fprintf(out,
		"            proxy_http_version 1.1;\n"
		"            proxy_buffering off;\n"
		"            proxy_buffer_size 16k;\n"
		"            proxy_buffers 8 16k;\n"
		"            proxy_redirect off;\n"
		"            # Responses of the API must not redirect nginx or change its limits.\n"
		"            proxy_ignore_headers X-Accel-Redirect X-Accel-Expires "
		"X-Accel-Limit-Rate\n"
		"                                 X-Accel-Buffering X-Accel-Charset;\n"
		"            proxy_connect_timeout 5s;\n"
		"            proxy_send_timeout %llums;\n"
		"            proxy_read_timeout %llums;\n"
		"            proxy_socket_keepalive on;\n"
		"            # nginx retries on another server, except requests that are not safe "
		"to "
		"repeat.\n"
		"            proxy_next_upstream error timeout;\n"
		"            proxy_next_upstream_tries 3;\n"
		"            proxy_next_upstream_timeout %llums;\n",
		timeout, timeout, timeout);
}

static void put_api(const struct wr_gateway_plan *plan, FILE *out)
{
	fputs("        location / {\n", out);
	put_pass(plan, out);
	put_fields(plan, "proxy_set_header", 3, false, out);
	fprintf(out,
		"            proxy_set_header Upgrade $weir_upgrade;\n"
		"            proxy_set_header Connection $weir_connection;\n"
		"            proxy_request_buffering %s;\n"
		"        }\n",
		plan->settings->stream_uploads ? "off" : "on");
}

/* Writes the location block for authentication. For every request of a client, the module sends a
 * subrequest to this location block. Clients cannot reach it. */
static void put_auth(const struct wr_gateway_plan *plan, FILE *out)
{
	char text[WR_ENDPOINT_TEXT];

	wr_endpoint_text(&plan->auth.at, text);
	fprintf(out,
		"        location = " AUTH_LOCATION " {\n"
		"            internal;\n"
		"            weir off;\n"
		"            weir_auth off;\n"
		"            proxy_pass \"%s://weir_auth%.*s\";\n",
		plan->auth.tls ? "https" : "http",
		plan->auth.path.len ? (int)plan->auth.path.len : 1,
		plan->auth.path.len ? plan->auth.path.ptr : "/");
	put_verify(plan, plan->auth_name, out);
	fprintf(out,
		"            proxy_http_version 1.1;\n"
		"            proxy_set_header Connection \"\";\n"
		"            proxy_set_header Host %s;\n",
		plan->auth.at.kind == WR_ENDPOINT_UNIX ? "localhost" : text);
	put_fields(plan, "proxy_set_header", 3, true, out);
	fputs("            proxy_pass_request_body off;\n"
	      "            proxy_set_header Content-Length \"\";\n"
	      "            # Conditional and range headers are meant for the API: here they could "
	      "cause a 304, 412 or 206.\n"
	      "            proxy_set_header If-Match \"\";\n"
	      "            proxy_set_header If-None-Match \"\";\n"
	      "            proxy_set_header If-Modified-Since \"\";\n"
	      "            proxy_set_header If-Unmodified-Since \"\";\n"
	      "            proxy_set_header If-Range \"\";\n"
	      "            proxy_set_header Range \"\";\n"
	      "            proxy_ignore_headers X-Accel-Redirect X-Accel-Expires "
	      "X-Accel-Limit-Rate\n"
	      "                                 X-Accel-Buffering X-Accel-Charset;\n"
	      "            proxy_buffer_size 16k;\n"
	      "            proxy_buffers 8 16k;\n"
	      "            proxy_max_temp_file_size 0;\n"
	      "            proxy_connect_timeout 2s;\n"
	      "            proxy_read_timeout 10s;\n"
	      "            proxy_next_upstream off;\n"
	      "        }\n",
	      out);
}

/* Writes the fields that are stored with a deferred request. These are the fields that the gateway
 * sets itself, such as the client address and the user. They are stored because nginx does not know
 * their values at delivery. Also writes the location block for tickets. It is open to everyone: to
 * ask for the state of a request, a client needs only the ticket. */
static void put_queued(const struct wr_gateway_plan *plan, FILE *out)
{
	put_fields(plan, "weir_queue_field", 2, false, out);
	fputs("        location /.weir/tickets/ {\n"
	      "            weir off;\n"
	      "            weir_auth off;\n"
	      "            weir_tickets;\n"
	      "        }\n",
	      out);
}

void wr_conf_server(const struct wr_gateway_plan *plan, FILE *out)
{
	fputs("    server {\n", out);
	put_listens(plan, out);
	fputs("        server_name \"\";\n", out);
	wr_conf_line(out, 2, "weir", plan->domain);
	if (plan->has_auth)
		fputs("        weir_auth " AUTH_LOCATION ";\n", out);
	if (plan->queue)
		put_queued(plan, out);
	fputc('\n', out);
	put_api(plan, out);
	if (plan->has_auth)
		put_auth(plan, out);
	fputs("    }\n", out);
}

/* Writes the server for deliveries. This server applies no limits, because the deliverer has
 * already asked the limiter. The server sends header fields as they were stored. The response field
 * X-Weir-Unreachable reports that no API server accepted a connection. The deliverer does not count
 * such a delivery as one of the allowed tries. */
void wr_conf_deliver(const struct wr_gateway_plan *plan, FILE *out)
{
	char address[WR_UNIX_PATH_MAX + sizeof "unix:"];

	snprintf(address, sizeof address, "unix:%s", plan->deliver);
	fputs("    map $upstream_connect_time $weir_unreachable {\n"
	      "        default \"\";\n"
	      "        \"~^[-, :]+$\" 1;\n"
	      "    }\n"
	      "    server {\n",
	      out);
	wr_conf_line(out, 2, "listen", address);
	fputs("        server_name \"\";\n"
	      "        weir off;\n"
	      "        client_max_body_size 0;\n"
	      "        location / {\n",
	      out);
	put_pass(plan, out);
	fputs("            proxy_set_header Host $http_host;\n"
	      "            proxy_set_header Connection \"\";\n"
	      "            proxy_request_buffering off;\n"
	      "            proxy_hide_header X-Weir-Unreachable;\n"
	      "            add_header X-Weir-Unreachable $weir_unreachable always;\n"
	      "        }\n"
	      "    }\n",
	      out);
}
