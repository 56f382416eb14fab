/* The options of `weir gateway`: one row per option. The options for the gateway's service fill
 * struct wr_settings, all others fill struct wr_gateway_settings. */
#include "cli/gateway/gateway.h"

#include "cli/options/shared.h"

#define AT(field) .at = offsetof(struct wr_gateway_settings, field)
#define AT_SERVICE(field) .at = offsetof(struct wr_settings, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)

struct wr_gateway_settings wr_cli_gateway_settings;

static const struct wr_cli_option traffic[] = {
	{"upstream", WR_OPTION_LIST, "URL,…", NULL,
	 "the API servers: http://HOST:PORT, https://HOST,\n"
	 "unix:/path. A server that fails three times gets no\n"
	 "requests for 5 s",
	 AT(upstream)},
	{"listen", WR_OPTION_ADDRESSES, "ADDR,…", "8080",
	 "addresses for clients: PORT (all interfaces), HOST:PORT,\n"
	 "[IPV6]:PORT, unix:/path",
	 AT(listen)},
	{"tls-cert", WR_OPTION_TEXT, "FILE", NULL,
	 "certificate with its chain, PEM: --listen then uses HTTPS,\n"
	 "with HTTP/2",
	 AT(tls_cert)},
	{"tls-key", WR_OPTION_TEXT, "FILE", NULL, "private key of --tls-cert, PEM", AT(tls_key)},
	{"h2c", WR_OPTION_ADDRESSES, "ADDR,…", NULL, "addresses for HTTP/2 without TLS", AT(h2c)},
};

static const struct wr_cli_option limiting[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL,
	 "rule file or directory; changes take effect within a\n"
	 "second. Without it /etc/weir/rules",
	 AT(rules)},
	{"domain", WR_OPTION_TEXT, "NAME", NULL,
	 "domain of the rules that apply; required if several\n"
	 "domains have requests:",
	 AT(domain)},
	{"headers", WR_OPTION_TEXT, "PROFILE", "x",
	 "header fields with the client's limits: x, ietf, github,\n"
	 "none",
	 AT(headers), .choices = "x ietf github none"},
	{"dry-run", WR_OPTION_SWITCH, NULL, NULL, "count, but refuse and delay nothing",
	 AT(dry_run)},
	{"keys", WR_OPTION_TEXT, "HOW", "text",
	 "how clients' keys are shown in statistics: text, hashed,\n"
	 "hidden",
	 AT(keys), .choices = "text hashed hidden"},
};

static const struct wr_cli_option clients[] = {
	{"trust", WR_OPTION_LIST, "CIDR,…", NULL,
	 "proxies in front of the gateway whose X-Forwarded-* fields\n"
	 "are used: 10.0.0.0/8, unix:",
	 AT(trust)},
	{"auth", WR_OPTION_TEXT, "URL", NULL,
	 "authentication server, asked about every request; the user\n"
	 "in its response is `identity` in rules",
	 AT(auth)},
	{"auth-headers", WR_OPTION_LIST, "NAME,…",
	 "Remote-User,X-Auth-Request-User,X-Forwarded-User",
	 "header fields of its response with the user; the first\n"
	 "present one counts. Clients' own fields are removed",
	 AT(auth_headers)},
	{"max-body", WR_OPTION_SIZE, "SIZE", "16M",
	 "maximum size of a request body; larger ones get status 413", AT(max_body_bytes),
	 .min = 1024, .max = (uint64_t)1 << 40},
	{"stream-uploads", WR_OPTION_SWITCH, NULL, NULL,
	 "forward request bodies as they arrive; a failed request\n"
	 "is then not retried at another server",
	 AT(stream_uploads)},
};

static const struct wr_cli_option servers[] = {
	{"upstream-timeout", WR_OPTION_DURATION, "TIME", "60s",
	 "timeout for an API server that sends nothing", AT(upstream_timeout_ns), .min = 1000000,
	 .max = SECONDS(86400)},
	{"upstream-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "CA certificates for https:// servers, PEM; without it\n"
	 "those of the system",
	 AT(upstream_ca)},
	{"upstream-name", WR_OPTION_TEXT, "NAME", NULL,
	 "name in the servers' certificates, if it is not the host", AT(upstream_name)},
};

static const struct wr_cli_option running[] = {
	{"workers", WR_OPTION_NUMBER, "N", "0", "number of worker processes; 0: one per processor",
	 AT(workers), .min = 0, .max = 512},
	{"drain", WR_OPTION_DURATION, "TIME", "30s",
	 "time for requests in progress when the gateway stops", AT(drain_ns), .min = 0,
	 .max = SECONDS(86400)},
	{"access-log", WR_OPTION_TEXT, "FILE", "off",
	 "file with a line per request; - is standard output", AT(access_log)},
	{"runtime", WR_OPTION_TEXT, "DIR", NULL,
	 "folder of nginx's configuration and process id; without\n"
	 "it /run/weir/gateway-PORT for root",
	 AT(runtime)},
	{"user", WR_OPTION_TEXT, "NAME", NULL,
	 "user of the service and of nginx's workers when root starts\n"
	 "the gateway; a number without an account is for the service\n"
	 "only. Without it weir, if that user exists",
	 AT(user)},
	{"nginx", WR_OPTION_TEXT, "PATH", NULL, "nginx program; without it the one in PATH",
	 AT(nginx)},
	{"module", WR_OPTION_TEXT, "PATH", NULL,
	 "path of ngx_http_weir_module.so; without it beside weir", AT(module)},
	{"print-config", WR_OPTION_SWITCH, NULL, NULL, "print nginx's configuration and exit",
	 AT(print_config)},
};

const struct wr_cli_option wr_cli_gateway_service_options[WR_GATEWAY_SERVICE_OPTIONS] = {
	{"admin", WR_OPTION_LIST, "ADDR,…", NULL,
	 "addresses of the admin API: rules, counters, bans; off\n"
	 "for none. Without it " WR_GATEWAY_DEFAULT_ADMIN ", if that port is\n"
	 "free",
	 AT_SERVICE(admin)},
	{"grpc", WR_OPTION_LIST, "ADDR,…", NULL, "addresses of Envoy's rate limit service",
	 AT_SERVICE(grpc)},
	{"http", WR_OPTION_LIST, "ADDR,…", NULL, "addresses of /v1/check, /check/DOMAIN and /json",
	 AT_SERVICE(http)},
	{"resp", WR_OPTION_LIST, "ADDR,…", NULL, "addresses of the Redis protocol",
	 AT_SERVICE(resp)},
	{"refunds", WR_OPTION_LIST, "CIDR,…", NULL,
	 "clients of these addresses that may give hits back, and\n"
	 "reset counters at --resp; unix: is every client of a Unix\n"
	 "socket",
	 AT_SERVICE(refunds)},
};

#define GROUP(title, options) WR_OPTION_GROUP(title, options, &wr_cli_gateway_settings)

static const struct wr_cli_option_group groups[] = {
	GROUP("Traffic", traffic),
	GROUP("Limits", limiting),
	WR_OPTION_GROUP(NULL, wr_cli_memory_options, &wr_cli_serve_settings),
	GROUP("Clients", clients),
	GROUP("API servers", servers),
	GROUP("Running", running),
	WR_OPTION_GROUP("Service (weir serve beside nginx)", wr_cli_gateway_service_options,
			&wr_cli_serve_settings),
	WR_OPTION_GROUP(NULL, wr_cli_admin_options, &wr_cli_serve_settings),
	WR_OPTION_GROUP("Redis", wr_cli_redis_options, &wr_cli_serve_settings.redis),
	WR_OPTION_GROUP("Deferred requests", wr_cli_queue_options, &wr_cli_serve_settings.queue),
};

const struct wr_cli_command wr_cli_gateway_command = {
	"gateway",
	"weir gateway --upstream URL[,URL…] [--rules PATH] [--listen ADDR] [OPTION…]\n"
	"\n"
	"Runs in front of an API and admits requests by the rules. It runs nginx with weir's "
	"module\n"
	"in the foreground. TERM or Ctrl-C stops it when the requests in progress are done; a "
	"second\n"
	"TERM stops it at once. HUP reads options, rules and certificates again; USR1 opens the "
	"log\n"
	"file again.\n",
	"Examples\n"
	"  weir gateway --upstream http://127.0.0.1:3000 --rules rules.yaml\n"
	"  weir gateway --upstream http://10.0.0.5:3000,http://10.0.0.6:3000 --rules "
	"/etc/weir/rules \\\n"
	"      --listen 443 --tls-cert cert.pem --tls-key key.pem --trust 10.0.0.0/8\n"
	"  weir gateway --upstream http://127.0.0.1:3000 --rules rules.yaml --auth "
	"http://127.0.0.1:4180/verify\n"
	"  WEIR_UPSTREAM=unix:/run/api.sock weir gateway --config /etc/weir/gateway.yaml\n"
	"  weir gateway --upstream http://127.0.0.1:3000 --rules rules.yaml --dry-run --access-log "
	"-\n"
	"\n"
	"Exit: 0 stopped, 1 the rules, a port or nginx cannot be used, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.has_config = true,
	.has_default_queue = true,
};
