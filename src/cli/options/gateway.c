/* weir gateway: its options. */
#include "cli/gateway/gateway.h"

#include "cli/gateway/service.h"
#include "cli/options/queue.h"
#include "cli/options/redis.h"

#define AT(field) .at = offsetof(struct wr_gateway_settings, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)

struct wr_gateway_settings gateway_settings;

static const struct wr_option traffic[] = {
	{"upstream", WR_OPTION_LIST, "URL,…", NULL,
	 "the API servers: http://HOST:PORT, https://HOST, unix:/path.\n"
	 "A server that fails three times rests for 5 s",
	 AT(upstream)},
	{"listen", WR_OPTION_ADDRESSES, "ADDR,…", "8080",
	 "where clients connect: PORT (all addresses), HOST:PORT,\n"
	 "[IPV6]:PORT, unix:/path",
	 AT(listen)},
	{"tls-cert", WR_OPTION_TEXT, "FILE", NULL,
	 "certificate with its chain, PEM: --listen then speaks\n"
	 "HTTPS, with HTTP/2",
	 AT(tls_cert)},
	{"tls-key", WR_OPTION_TEXT, "FILE", NULL, "its private key, PEM", AT(tls_key)},
	{"h2c", WR_OPTION_ADDRESSES, "ADDR,…", NULL, "where to speak HTTP/2 without TLS", AT(h2c)},
};

static const struct wr_option limiting[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL,
	 "rule file or directory; changes are noticed within a\n"
	 "second (/etc/weir/rules)",
	 AT(rules)},
	{"domain", WR_OPTION_TEXT, "NAME", NULL,
	 "the domain that decides; needed when several have\n"
	 "requests:",
	 AT(domain)},
	{"headers", WR_OPTION_TEXT, "PROFILE", "x",
	 "fields that tell clients their limits: x, ietf, github,\n"
	 "none",
	 AT(headers), .choices = "x ietf github none"},
	{"dry-run", WR_OPTION_SWITCH, NULL, NULL, "count, but refuse and delay nothing",
	 AT(dry_run)},
	{"table", WR_OPTION_TEXT, "NAME", "default",
	 "the counters: processes that name one table share them", AT(table)},
	{"memory", WR_OPTION_SIZE, "SIZE", "64M", "the table's size, about 44 bytes a key",
	 AT(memory_bytes), .min = 262144, .max = (uint64_t)256 << 30},
	{"log-memory", WR_OPTION_SIZE, "SIZE", "0",
	 "of it for sliding window logs, 8 bytes a stamp; 0: a quarter if\n"
	 "the rules have such limits, else a sixteenth",
	 AT(log_bytes), .max = (uint64_t)192 << 30},
	{"keys", WR_OPTION_TEXT, "HOW", "text",
	 "how clients' keys are shown in statistics: text, hashed,\n"
	 "hidden",
	 AT(keys), .choices = "text hashed hidden"},
};

static const struct wr_option clients[] = {
	{"trust", WR_OPTION_LIST, "CIDR,…", NULL,
	 "proxies before this one, whose X-Forwarded-* count:\n"
	 "10.0.0.0/8, unix:",
	 AT(trust)},
	{"auth", WR_OPTION_TEXT, "URL", NULL,
	 "asked about every request; who it says the user is\n"
	 "becomes `identity` in rules",
	 AT(auth)},
	{"auth-headers", WR_OPTION_LIST, "NAME,…",
	 "Remote-User,X-Auth-Request-User,X-Forwarded-User",
	 "where its answer says so, the first that is there;\n"
	 "clients' own are dropped",
	 AT(auth_headers)},
	{"max-body", WR_OPTION_SIZE, "SIZE", "16M", "the largest request body; others get a 413",
	 AT(max_body_bytes), .min = 1024, .max = (uint64_t)1 << 40},
	{"stream-uploads", WR_OPTION_SWITCH, NULL, NULL,
	 "pass request bodies on as they come, so that a failed\n"
	 "one is not tried at another server",
	 AT(stream_uploads)},
};

static const struct wr_option servers[] = {
	{"upstream-timeout", WR_OPTION_DURATION, "TIME", "60s",
	 "how long an API server may be silent", AT(upstream_timeout_ns), .min = 1000000,
	 .max = SECONDS(86400)},
	{"upstream-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "what https:// servers' certificates are checked by\n"
	 "(the system's)",
	 AT(upstream_ca)},
	{"upstream-name", WR_OPTION_TEXT, "NAME", NULL, "the name in them, if it is not the host's",
	 AT(upstream_name)},
};

static const struct wr_option running[] = {
	{"workers", WR_OPTION_NUMBER, "N", "0", "worker processes; 0: one for each processor",
	 AT(workers), .min = 0, .max = 512},
	{"drain", WR_OPTION_DURATION, "TIME", "30s",
	 "when stopping, how long requests under way have", AT(drain_ns), .min = 0,
	 .max = SECONDS(86400)},
	{"access-log", WR_OPTION_TEXT, "FILE", "off",
	 "a line for each request; - is standard output", AT(access_log)},
	{"runtime", WR_OPTION_TEXT, "DIR", NULL,
	 "folder of nginx's configuration and process id\n"
	 "(/run/weir/gateway-PORT for root)",
	 AT(runtime)},
	{"user", WR_OPTION_TEXT, "NAME", NULL,
	 "when root starts it, who the service and nginx's workers\n"
	 "are (weir, if that user exists); a number that no account\n"
	 "has is for the service alone",
	 AT(user)},
	{"nginx", WR_OPTION_TEXT, "PATH", NULL, "the program (found by PATH)", AT(nginx)},
	{"module", WR_OPTION_TEXT, "PATH", NULL, "ngx_http_weir_module.so (beside weir)",
	 AT(module)},
	{"print-config", WR_OPTION_SWITCH, NULL, NULL,
	 "print nginx's configuration and do nothing else", AT(print_config)},
};

#define GROUP(title, options)                                                                      \
	{                                                                                          \
		title, options, sizeof(options) / sizeof *(options), &gateway_settings             \
	}

static const struct wr_option_group groups[] = {
	GROUP("Traffic", traffic),
	GROUP("Limits", limiting),
	GROUP("Clients", clients),
	GROUP("API servers", servers),
	GROUP("Running", running),
	{"Service (weir serve beside nginx)", gateway_service_options, GATEWAY_SERVICE_OPTIONS,
	 &gateway_service_settings},
	{"Redis", redis_options, WR_REDIS_OPTIONS, &gateway_service_settings.redis},
	{"Deferred requests", queue_options, WR_QUEUE_OPTIONS, &gateway_service_settings.queue},
};

const struct wr_command gateway_command = {
	"gateway",
	"weir gateway --upstream URL[,URL…] [--rules PATH] [--listen ADDR] [OPTION…]\n"
	"\n"
	"Stands before an API and lets pass what the rules allow. It runs nginx with weir's "
	"module,\n"
	"in the foreground: TERM or Ctrl-C ends it after the requests under way, a second one at "
	"once;\n"
	"HUP reads options, rules and certificates again; USR1 opens the log file again.\n",
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
	"Exit: 0 stopped, 1 the rules, a port or nginx was in the way, 2 not understood.\n",
	groups,
	sizeof groups / sizeof *groups,
	.has_config = true,
};
